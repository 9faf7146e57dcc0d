"""All answers of one operation: what each device says to each question, and what counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from amp_migrate.models.dtypes import Given
from tests.operations.asking import Asker
from tests.operations.public import Public
from tests.operations.questions import MIXED, NO_ANSWER, QUESTIONS, RAISES, apply, inputs
from tests.operations.samples import Samples

Letters = tuple[str, ...]
_DECLARED = {"h": "float16", "f": "float32", "d": "float64", "i": "int64", "b": "bool", "c": "complex64"}


@dataclass(frozen=True)
class Answer:
    """The answer to one question about one sample."""

    question: str
    autocast: bool
    given: tuple[Given, ...]
    letters: Letters
    fake: str = ""  # what fake tensors say

    @property
    def letter(self) -> str:
        return self.letters[0]


def asked(operation: Public, found: Samples, asker: Asker, autocast: bool) -> Iterator[tuple[int, Answer]]:
    """Each sample with each question."""
    for number, sample in enumerate(found.calls):
        for question in QUESTIONS:
            try:
                changed = apply(question, sample)
            except Exception:
                continue
            if changed is not None:
                letters = asker.ask(operation, changed, autocast)
                yield number, Answer(question, autocast, tuple(inputs(changed)), letters)


def answers(operation: Public, found: Samples, fake: Asker, parameters: bool) -> list[Answer]:
    """What a GPU would say: fake CUDA tensors, and real ones on the CPU for what fake ones do not look at.

    Fake tensors skip the checks of kernels, and what a composite like pinverse calls in turn, which autocast sees: a
    region is asked of real kernels, under the redirect of CUDA's policy to the CPU. Whether a mixture of dtypes raises is asked of them, too. For which dtypes CUDA has kernels is declared by torch where
    its tests do so, and else the CPU's. This ends with the redirect in place: call it in a process of its own.
    """
    on_fake = {(number, one.question, one.autocast): one for number, one in _both(operation, found, fake)}
    on_cpu = {(number, one.question, False): one for number, one in asked(operation, found, Asker("cpu"), False)}
    _redirect()
    on_cpu |= {(number, one.question, True): one for number, one in asked(operation, found, Asker("cpu"), True)}
    mixed = MIXED + ("hd" if parameters else "")  # beside parameters in float32
    merged = (_merged(key, on_fake, on_cpu, found.declared, mixed) for key in on_fake)
    return [one for one in merged if one.letter != NO_ANSWER and (one.question, one.letter) != ("0", RAISES)]


def _both(operation: Public, found: Samples, asker: Asker) -> Iterator[tuple[int, Answer]]:
    yield from asked(operation, found, asker, False)
    yield from asked(operation, found, asker, True)


Key = tuple[int, str, bool]


def _merged(key: Key, fake: dict[Key, Answer], cpu: dict[Key, Answer], declared: frozenset[str], mixed: str) -> Answer:
    number, question, autocast = key
    one, real = fake[key], cpu.get(key)
    plain = fake.get((number, question, False))
    letters = one.letters
    if real is not None and (letters == (NO_ANSWER,) or (autocast and question in "hf" and real.letter != RAISES)):
        letters = real.letters
    if question in mixed:
        same = [cpu.get((number, uniform, autocast)) for uniform in "hf" if uniform not in mixed]
        if (
            real is not None and real.letter == RAISES and all(one is not None and one.letter != RAISES for one in same)
        ) or (declared and "float16" not in declared and (not autocast or plain is None or plain.letters == letters)):
            letters = (RAISES,)
    elif declared and question in _DECLARED and _DECLARED[question] not in declared:
        if not autocast or plain is None or plain.letters == one.letters:
            letters = (RAISES,)
    elif not declared and question in "idbc" and real is not None and real.letter == RAISES:
        letters = (RAISES,)
    return Answer(question, autocast, one.given, letters, one.letter)


def _redirect() -> None:
    from amp_migrate.verify import redirect

    redirect.install()
    torch.set_autocast_dtype("cuda", torch.float16)
