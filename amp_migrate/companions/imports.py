"""What becomes of the imports of Apex: they go, bring torch's class under the same name, or stay.

from apex.parallel import DistributedDataParallel as DDP, LARC
from apex.parallel import LARC                                      (stays: no native form)
from torch.nn.parallel import DistributedDataParallel as DDP        (the calls of DDP need no other name)
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.companions.decisions import Decisions
from amp_migrate.companions.spelling import name_of
from amp_migrate.companions.table import Companion, family
from amp_migrate.companions.uses import ApexImport, Use
from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.variables import Variable
from amp_migrate.native.cleanup import remove_aliases
from amp_migrate.native.edits import Edits
from amp_migrate.plan.folding import Cleanup


@dataclasses.dataclass
class Imports:
    """`moves` are the names that come from torch now, with the module and the class that each brings.

    `goes` are the names that nothing needs any more, for every import statement with names; `whole` are star imports
    that nothing needs.
    """

    moves: dict[cst.ImportAlias, tuple[str, str]] = dataclasses.field(default_factory=dict)
    goes: dict[Statement, list[cst.ImportAlias]] = dataclasses.field(default_factory=dict)
    whole: list[Statement] = dataclasses.field(default_factory=list)

    @property
    def certain(self) -> list[Statement]:
        """The imports that cannot fail any more: all that they bring comes from torch, or goes."""
        return [one for one in self.goes if len(self._not_from_apex(one)) == len(_aliases(one))]

    def _not_from_apex(self, statement: Statement) -> list[cst.ImportAlias]:
        return [alias for alias in _aliases(statement) if alias in self.moves or alias in self.goes[statement]]

    def _has_moved(self, statement: Statement) -> bool:
        """True where a name of the statement comes from torch now."""
        return any(alias in self.moves for alias in _aliases(statement))

    def cleanup(self) -> Cleanup:
        """What goes without anything in its place."""
        gone = [one for one in self.certain if not self._has_moved(one)]
        return Cleanup(statements=[*self.whole, *gone])

    def emit(self, edits: Edits) -> None:
        """Write what comes in the place of something, or stays in part."""
        for statement in self.goes:
            own = [alias for alias in _aliases(statement) if alias in self.moves]
            code = [_import(*self.moves[alias], alias) for alias in own]
            if statement in self.certain:
                if own:
                    edits.remove(statement)
                    for line in _joined(code):
                        edits.insert_before(statement, line)
            elif self._not_from_apex(statement):
                remove_aliases(statement, self._not_from_apex(statement), edits)
                for line in _joined(code):
                    edits.insert_after(statement, line)


def plan_imports(
    facts: Facts, imports: list[ApexImport], uses: list[Use], decisions: Decisions, gone: set[Use]
) -> Imports:
    """Decide about the imports of one file; `gone` are the uses in arms that go."""
    plan = Imports()
    stars = {one.statement for one in imports if one.alias is None}
    needed = {one.statement for one in imports if one.alias is None and not _is_unneeded(one, uses, decisions, gone)}
    plan.whole.extend(statement for statement in stars if statement not in needed)
    for one in imports:
        if one.alias is None:
            continue
        assert one.variable is not None
        aliases = plan.goes.setdefault(one.statement, [])
        if _still_used(uses, decisions, gone, one.variable) or family(one.path) in decisions.stays:
            continue
        passed_on = decisions.passed_on.get(one.variable)
        companion = passed_on or _rewritten_to(one, uses, decisions, gone)
        if companion is not None and (passed_on or _can_mean(facts, one.variable, companion)):
            module, _, name = companion.target.rpartition(".")
            plan.moves[one.alias] = module, name
        elif not _answers(one.statement) and not _is_missed(facts, one):
            aliases.append(one.alias)
    return plan


def _answers(statement: Statement) -> bool:
    """True where a function tells by this import whether Apex is there: `try: import apex; return True`."""
    attempt = statement.block.owner
    if attempt is None or not isinstance(attempt.node, cst.Try):
        return False
    returns = [one.node for block in attempt.blocks for one in block.statements if isinstance(one.node, cst.Return)]
    return any(not isinstance(one.value, cst.Call) for one in returns)  # `return FusedLayerNorm(size)` is no answer


def _is_missed(facts: Facts, one: ApexImport) -> bool:
    """True where another function of the file reads the name, and does not import it: a NameError of the author's, who
    has to say where the import belongs.
    """
    assert one.variable is not None
    root = one.statement.function.root
    return any(
        name.value == one.variable.name and not facts.tree.is_label(name) and facts.names.variable_at(name) is None
        for name, statement in facts.tree.every(cst.Name)
        if statement.function.root is root and not isinstance(statement.node, (cst.Import, cst.ImportFrom))
    )


def _can_mean(facts: Facts, variable: Variable, companion: Companion) -> bool:
    """True where a name can mean torch's class from now on: it does not speak of Apex, and nothing else means that
    class.
    """
    module, _, name = companion.target.rpartition(".")
    own = variable.name
    if not module.islower() or (own != name and ("apex" in own.lower() or "fused" in own.lower())):
        return False
    other = name_of(facts, companion.target, facts.tree.function_of(variable.bindings[0].node))
    return other is None or other == own


def _is_unneeded(one: ApexImport, uses: list[Use], decisions: Decisions, gone: set[Use]) -> bool:
    """True for what nothing needs of a star import any more."""
    if one.variable is None or family(one.path) in decisions.stays:
        return False
    return not _still_used(uses, decisions, gone, one.variable)


def _still_used(uses: list[Use], decisions: Decisions, gone: set[Use], variable: Variable) -> bool:
    """True where a use by this name stays as it is."""
    return any(
        use.variable is variable and use not in decisions.calls and use not in decisions.names and use not in gone
        for use in uses
    )


def _rewritten_to(one: ApexImport, uses: list[Use], decisions: Decisions, gone: set[Use]) -> Companion | None:
    """What the uses of a name that is the companion itself become, where that is one thing."""
    found = []
    for use in uses:
        if use.variable is one.variable and use.path == one.path and use not in gone:
            found.append(decisions.calls[use][0] if use in decisions.calls else decisions.names[use])
    targets = {companion.target for companion in found}
    return found[0] if len(targets) == 1 else None


def _aliases(statement: Statement) -> list[cst.ImportAlias]:
    node = statement.node
    if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar):
        return list(node.names)
    return []


def _import(module: str, name: str, alias: cst.ImportAlias) -> tuple[str, str]:
    """The module, and what stands behind `import`."""
    own = alias.evaluated_alias or alias.evaluated_name
    return module, name if own == name else f"{name} as {own}"


def _joined(parts: list[tuple[str, str]]) -> list[str]:
    """One import for each module."""
    names: dict[str, list[str]] = {}
    for module, name in parts:
        names.setdefault(module, []).append(name)
    return [f"from {module} import {', '.join(found)}" for module, found in names.items()]
