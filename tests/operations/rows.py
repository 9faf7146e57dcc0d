"""From answers to a row of the table: the rule that explains them, and what the probes say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from amp_migrate.models.dtypes import Dtype
from amp_migrate.models.operation import Operation
from amp_migrate.models.rules import CONSTANT, POLICIES, RULES, TAKE_ONE, WRITTEN
from tests.operations.answers import Answer
from tests.operations.probes import Probed
from tests.operations.public import Public
from tests.operations.questions import MEANINGS, NOTHING, RAISES, REFUSED, predicted
from tests.operations.samples import Samples
from tests.operations.trees import is_number_like, tensors

_CONSTANT = {"h": "half", "f": "single", "d": "double", "i": "integer", "b": "boolean", "c": "complex", "N": "number"}


def row(
    operation: Public, found: Samples, answers: list[Answer], probed: Probed | None, parameters: bool
) -> dict[str, Any]:
    """What is not as by default in `Operation`."""
    fields: dict[str, Any] = {"kind": operation.kind} if operation.kind in ("property", "layer") else {}
    if parameters:
        fields["parameters"] = True
    if any(one.letter == REFUSED for one in answers):
        fields["raises_under_autocast"] = True
    best = explained(operation, answers, parameters)
    fields |= {
        "result": best.result,
        "policy": best.policy,
        "operand": best.operand,
        "without": sorted(one.value for one in best.without),
        "strict": best.strict,
        "outputs": _outputs(answers),
    }
    fields |= _of_values(probed, best) if probed is not None else {}
    if "empty" in operation.bare:
        fields["grows"] = ""  # memory as it was found
    inputs = _floating_inputs(answers)
    kept = {name: value for name, value in fields.items() if value not in ("", 0, False, [])}
    second = _second(found) if best.strict and operation.kind != "layer" else -1
    return kept | ({"inputs": inputs} if inputs != 1 else {}) | ({"second": second} if second >= 0 else {})


def _second(found: Samples) -> int:
    """The position of the second floating tensor, without that of the receiver of a method."""
    for sample in found.calls:
        places = [place for place, one in enumerate(sample.args) if any(map(is_number_like, tensors(one)))]
        if len(places) > 1:
            return places[1]
    return -1


def explained(operation: Public, answers: list[Answer], parameters: bool) -> Operation:
    """The first of the simplest rules that agrees with most answers."""
    told = list({(one.given, one.autocast, one.letter): one for one in answers}.values())
    best, fewest = Operation(operation.name, operation.kind), len(told) + 1
    for candidate in _candidates(operation, told, parameters):
        mistakes = len(wrong(candidate, told))
        if mistakes < fewest:
            best, fewest = candidate, mistakes
        if not fewest:
            break
    return best


def wrong(operation: Operation, answers: list[Answer]) -> list[tuple[Answer, str]]:
    """The answers that a row does not explain, with what it says."""
    found = []
    for one in answers:
        letter = predicted(operation.result_of(one.given, one.autocast))
        told = NOTHING if one.letter in (RAISES, REFUSED) else one.letter
        if letter != told:
            found.append((one, letter))
    return found


def _candidates(operation: Public, answers: list[Answer], parameters: bool) -> Iterator[Operation]:
    refused = any(one.letter == REFUSED for one in answers)
    without = frozenset(
        MEANINGS[question]
        for question in "hfdibc"
        if (told := [one.letter for one in answers if one.question == question and not one.autocast])
        and all(letter == RAISES for letter in told)
    )
    if parameters:
        without -= {Dtype.HALF, Dtype.SINGLE}
    told = {one.letter for one in answers} - {RAISES, REFUSED}
    constant = [_CONSTANT.get(next(iter(told)), "nothing")] if len(told) == 1 else []
    rules = [*(rule for rule in RULES if rule not in (*CONSTANT, *WRITTEN)), *constant]
    inputs = max((len(one.given) for one in answers), default=1) + parameters
    for strict, policy, rule in itertools.product((False, True), POLICIES, rules):
        for operand in range(max(1, min(inputs, 4))) if rule in TAKE_ONE else (0,):
            for lacks in (without, frozenset[Dtype]()) if without else (without,):
                yield Operation(
                    operation.name,
                    operation.kind,
                    result=rule,
                    policy=policy,
                    operand=operand,
                    without=lacks,
                    strict=strict,
                    raises_under_autocast=refused,
                    parameters=parameters,
                )


def _floating_inputs(answers: list[Answer]) -> int:
    """How many there are at most."""
    return max(
        (sum(one.dtype is Dtype.SINGLE for one in told.given) for told in answers if told.question == "f"), default=0
    )


def _outputs(answers: list[Answer]) -> list[str]:
    """For each part of a tuple whether it follows the rule, or is integers or booleans whatever is given."""
    tuples = {one.question + str(one.autocast): one.letters for one in answers if len(one.letters) > 1}
    if not tuples:
        return []
    counts = {len(letters) for letters in tuples.values()}
    columns = [{letters[place] for letters in tuples.values() if place < len(letters)} for place in range(max(counts))]
    named = [
        _CONSTANT.get(next(iter(column)), "result") if column <= {"i"} or column <= {"b"} else "result"
        for column in columns
    ]
    return named if set(named) != {"result"} or len(counts) == 1 else ["result", "..."]


def _of_values(probed: Probed, best: Operation) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    keeps_dtype = best.result in ("same", "promoted", "real", "floating") and not best.policy
    is_shape = probed.linear == "L" and probed.copies in ("=", "<", ">") and keeps_dtype and not probed.in_place
    if probed.shares and not probed.in_place:
        fields["view"] = "always" if probed.shares == {True} else ("sometimes" if True in probed.shares else "")
    fields["in_place"] = probed.in_place
    fields["shape_only"] = is_shape
    fields["picks"] = probed.copies in ("=", "<", ">") and not is_shape
    fields["elementwise"] = probed.mixes == "e" and not is_shape
    fields["reduction"] = probed.mixes == "s"
    fields["product"] = probed.mixes in ("s", "x") and {probed.linear, probed.linear_in_second} <= {"L", "A"}
    fields["linear"] = {"L": "linear", "A": "affine", "H": "homogeneous"}.get(probed.linear, "")
    fields["grows"] = "".join(sorted(probed.grows))
    fields["drops_gradient"] = probed.keeps_gradient is False
    return fields
