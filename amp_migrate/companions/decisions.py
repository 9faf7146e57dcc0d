"""What becomes of each use of a companion in one file, and of which names the uses stay as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import libcst as cst

from amp_migrate.companions.arguments import NewArguments, NoNativeFormError, bound, new_arguments
from amp_migrate.companions.table import COMPANIONS, DDP, FUSED_ADAM, Companion, family
from amp_migrate.companions.uses import ApexImport, Use, hint_of, statements_of
from amp_migrate.facts import Facts
from amp_migrate.facts.exports import is_exported
from amp_migrate.facts.tree import Function, called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Variable
from amp_migrate.rules.companions import (
    NO_NATIVE_FORM,
    OLD_FUSED_ADAM,
    SHARED_WITH_OTHERS,
    TORCH_TOO_OLD,
    UNKNOWN_APEX_USE,
)
from amp_migrate.rules.rule import Rule

# FusedAdam had these before September 2019, and another arithmetic: it divided by the bias correction inside of the
# step size, weight decay included ([A:1904e48d]).
_BEFORE_2019 = frozenset("max_grad_norm eps_inside_sqrt use_mt amp_scale_adjustment".split())
_OF_APEX_DDP = frozenset(("disable_allreduce", "enable_allreduce"))


@dataclasses.dataclass
class Decisions:
    """`calls` and `names` are the uses that are rewritten, the names those that stand for a class and are not called.

    `stays` are the families of companions of which all uses stay, with the findings that say why. `substitutes` are
    classes and functions of the file that stand in for a companion where Apex is not installed, `passed_on` the names
    that other files take from this one and that can mean torch's class there, too.
    """

    calls: dict[Use, tuple[Companion, NewArguments]] = dataclasses.field(default_factory=dict)
    names: dict[Use, Companion] = dataclasses.field(default_factory=dict)
    stays: dict[str, list[tuple[cst.CSTNode, Rule, str]]] = dataclasses.field(default_factory=dict)
    substitutes: list[tuple[str, cst.CSTNode]] = dataclasses.field(default_factory=list)
    passed_on: dict[Variable, Companion] = dataclasses.field(default_factory=dict)

    def keep(self, path: str, node: cst.CSTNode, rule: Rule, message: str) -> None:
        """All uses of a companion stay as they are."""
        self.stays.setdefault(family(path), []).append((node, rule, message))

    def settle(self) -> None:
        """Forget how the uses would be rewritten that stay."""
        self.calls = {use: new for use, new in self.calls.items() if family(use.path) not in self.stays}
        self.names = {use: new for use, new in self.names.items() if family(use.path) not in self.stays}
        self.substitutes = [(path, node) for path, node in self.substitutes if family(path) not in self.stays]


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """What decides in other files: `torch` is the oldest version that the project admits, None where unknown.

    `users` names another file that takes a name from this one, `kept` says of a family why another file keeps it, and
    `words` are the names of arguments of Apex's own that stand anywhere in the project. `needing` is a file that this
    one uses, and that goes on with Apex.
    """

    torch: tuple[int, int] | None = None
    users: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kept: Mapping[str, str] = dataclasses.field(default_factory=dict)
    words: frozenset[str] = frozenset()
    needing: str | None = None


def decide(
    facts: Facts, root: Function, uses: list[Use], imports: list[ApexImport], surroundings: Surroundings
) -> Decisions:
    """The decisions about one file."""
    decider = _Decider(facts, imports, surroundings)
    for use in uses:
        decider.use(use)
    for one in imports:
        decider.bindings(one)
        decider.handlers(one)
        decider.other_files(one)
        if not any(use.variable is one.variable for use in uses):
            decider.asked_for_others(one)
    decider.methods(root)
    decider.decisions.settle()
    return decider.decisions


class _Decider:
    def __init__(self, facts: Facts, imports: list[ApexImport], surroundings: Surroundings) -> None:
        self.facts = facts
        self.imports = imports
        self.surroundings = surroundings
        self.decisions = Decisions()

    def use(self, use: Use) -> None:
        """Decide about one use; one that cannot be rewritten keeps all of its companion."""
        companion = COMPANIONS.get(use.path)
        text = self.facts.text(use.node)
        self._stay_with_others(use.path, use.node)
        if use.path == "apex.amp" or use.path.startswith("apex.amp."):
            return  # what the first stage leaves is none of ours
        if companion is None:
            hint = hint_of(use.path)
            message = f"{use.path}: {hint}" if hint else f"{use.path} is not known"
            self.decisions.keep(use.path, use.node, NO_NATIVE_FORM, message)
        elif companion.since > (self.surroundings.torch or (0, 0)):
            first = ".".join(map(str, companion.since))
            message = f"{companion.target} is there from torch {first} on, and this project may have an older one"
            self.decisions.keep(use.path, use.node, TORCH_TOO_OLD, message)
        else:
            try:
                self._rewritten(use, companion)
            except NoNativeFormError as reason:
                self.decisions.keep(use.path, use.node, reason.rule, f"{text}: {reason.message}")

    def bindings(self, one: ApexImport) -> None:
        """A name that something else than Apex gives a value as well, but as a substitute for it."""
        companion = COMPANIONS.get(one.path)
        if companion is None or one.variable is None:
            return
        ours = {other.statement for other in self.imports if other.variable is one.variable and other.path == one.path}
        attempts = {statement.block.owner for statement in ours}
        for binding in one.variable.bindings:
            outer = binding.statement.path()[:-1] if binding.statement is not None else []
            is_substitute = any(
                attempt in attempts and (binding.statement.arm_of(attempt.node) or "").startswith("except")
                for attempt in outer
                if binding.statement is not None
            )
            if binding.statement not in ours and binding.path != companion.target and not is_substitute:
                message = f"{one.variable.name} is given a value in another place, too"
                self.decisions.keep(one.path, binding.node, UNKNOWN_APEX_USE, message)
            elif is_substitute and binding.kind in ("class", "def"):
                self.decisions.substitutes.append((one.path, binding.node))

    def handlers(self, one: ApexImport) -> None:
        """Names that only the `try` around an import binds, where somebody else needs them: it has to stay."""
        attempt = one.statement.block.owner
        if attempt is None or not isinstance(attempt.node, cst.Try):
            return
        for variable in self.facts.names.all_variables():
            arms = [one.statement.arm_of(attempt.node) for one in variable.bindings if one.statement is not None]
            if None not in arms and any(arms) and variable is not one.variable and (user := self._user_of(variable)):
                message = f"{user} may take {variable.name} from this file, which goes with the import"
                self.decisions.keep(one.path, one.statement.node, SHARED_WITH_OTHERS, message)
            used = (load for load in variable.loads if not self.facts.tree.statement_of(load).inside(attempt))
            if arms and all(arm is not None and arm.startswith("except") for arm in arms) and any(used):
                message = f"{variable.name} is given a value only where the import fails"
                self.decisions.keep(one.path, one.statement.node, UNKNOWN_APEX_USE, message)

    def other_files(self, one: ApexImport) -> None:
        """What other files import from this one, or make of the instances that are made here."""
        companion = COMPANIONS.get(one.path)
        if one.variable is None:
            message = f"what comes from {one.path} through the star import is not known"
            self.decisions.keep(one.path, one.statement.node, UNKNOWN_APEX_USE, message)
            return
        place = one.alias or one.statement.node
        self._stay_with_others(one.path, place)
        user = self._user_of(one.variable)
        if user is not None and companion is not None and one.alias is not None and self._can_be_swapped(companion):
            self.decisions.passed_on[one.variable] = companion
        elif user is not None:
            self.decisions.keep(
                one.path, place, SHARED_WITH_OTHERS, f"{user} may take {one.variable.name} from this file"
            )

    def _stay_with_others(self, path: str, place: cst.CSTNode) -> None:
        """What nobody can migrate, since instances of it are tested for."""
        if family(path) in self.surroundings.kept and family(path) not in self.decisions.stays:
            self.decisions.keep(path, place, SHARED_WITH_OTHERS, self.surroundings.kept[family(path)])

    def asked_for_others(self, one: ApexImport) -> None:
        """Whether Apex is there, for the sake of a file that still needs it."""
        if self.surroundings.needing is not None:
            message = f"{self.surroundings.needing}, which this file uses, still needs Apex"
            self.decisions.keep(one.path, one.alias or one.statement.node, SHARED_WITH_OTHERS, message)

    def methods(self, root: Function) -> None:
        """Methods that only Apex's DistributedDataParallel has."""
        if not any(family(use.path) == DDP for use in self.decisions.calls):
            return
        for statement in statements_of(self.facts, root):
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Call) and called_name(part) in _OF_APEX_DDP:
                    message = f"{called_name(part)} has no native form: no_sync() has to hold the forward, too"
                    self.decisions.keep(DDP, part, UNKNOWN_APEX_USE, message)

    def _user_of(self, variable: Variable) -> str | None:
        """Another file that takes a name from this one."""
        scope = variable.scope
        if not isinstance(scope.owner, Function) or not scope.owner.is_module:
            return None
        is_passed_on = bool(variable.importers) or is_exported(self.facts, variable)
        return self.surroundings.users.get(variable.name) or ("another file" if is_passed_on else None)

    def _can_be_swapped(self, companion: Companion) -> bool:
        """True where the name can mean torch's class, whatever is done with it: nobody says what only Apex takes."""
        return companion.drop_in and companion.of_apex.isdisjoint(self.surroundings.words)

    # -- one use --------------------------------------------------------------------------------------

    def _rewritten(self, use: Use, companion: Companion) -> None:
        """Decide how a use is written natively. Raises NoNativeFormError."""
        parent = self.facts.tree.parents.get(use.node)
        if isinstance(parent, cst.Call) and parent.func is use.node and companion.takes:
            self.decisions.calls[use] = self._call(use.path, parent, companion)
        elif self._can_be_swapped(companion) or self._is_type_test(use) or self._is_only_called(use, companion):
            self.decisions.names[use] = companion
        else:
            raise NoNativeFormError(UNKNOWN_APEX_USE, "it is used as a value, and what is done with it is not known")

    def _call(self, path: str, call: cst.Call, companion: Companion) -> tuple[Companion, NewArguments]:
        if path == FUSED_ADAM:
            self._require_adam_w(call)
        if companion.unless is not None:
            given = bound(call, companion)
            name, value, other = companion.unless
            if name in given and literal_value(given[name]) is value:
                companion = other
        return companion, new_arguments(call, companion)

    def _require_adam_w(self, call: cst.Call) -> None:
        old = [arg.keyword.value for arg in call.args if arg.keyword and arg.keyword.value in _BEFORE_2019]
        if old:
            raise NoNativeFormError(OLD_FUSED_ADAM, f"{old[0]} is of the FusedAdam of before September 2019")
        wrappers = [one for one in self.imports if one.path == "apex.optimizers.FP16_Optimizer"]
        if any(one.alias is not None or (one.variable is not None and one.variable.loads) for one in wrappers):
            raise NoNativeFormError(OLD_FUSED_ADAM, "it goes with the FP16_Optimizer of before September 2019")

    def _is_type_test(self, use: Use) -> bool:
        """True for the class in `isinstance(model, DDP)`, also as one of several; never for an optimizer's."""
        node: cst.CSTNode = use.node
        parent = self.facts.tree.parents.get(node)
        if isinstance(parent, cst.Element):
            node = self.facts.tree.parents[parent]
            parent = self.facts.tree.parents.get(node)
        if use.path.startswith("apex.optimizers."):
            return False
        call = self.facts.tree.taker(node)
        return call is not None and called_name(call) == "isinstance" and call.args[-1].value is node

    def _is_only_called(self, use: Use, companion: Companion) -> bool:
        """True for `make = FusedSGD`, where all that is done with `make` are calls that torch's takes unchanged."""
        assign = self.facts.tree.parents.get(use.node)
        target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
        variable = self.facts.names.variable_at(target)
        if variable is None or variable.importers or not variable.loads:
            return False
        for load in variable.loads:
            call = self.facts.tree.call_of(load)
            if call is None:
                return False
            made, arguments = self._call(use.path, call, companion)
            if made is not companion or arguments.changes(call):
                return False
        return True
