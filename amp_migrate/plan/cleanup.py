"""What becomes unnecessary with the source form: imports, availability flags, conditions that are settled.

try:                                    (all of it goes)
from apex import amp
APEX_AVAILABLE = True
except ImportError:
APEX_AVAILABLE = False
assert not fp16 or APEX_AVAILABLE       (cannot fail any more: goes)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.names import bound_name, dotted_text
from amp_migrate.facts.tree import Statement
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Variable
from amp_migrate.findings import Refusal
from amp_migrate.plan.attempts import outlived_attempts
from amp_migrate.plan.flags import availability_flags, reads_of
from amp_migrate.plan.folding import Cleanup, Folding
from amp_migrate.plan.model import Recognition
from amp_migrate.rules.apex import IMPORT_IN_USE, STAR_IMPORT, UNKNOWN_AMP_USE


def plan_cleanup(facts: Facts, found: Recognition) -> Cleanup:
    """Decide what goes beside the source form's own sites. Raises Refusal for star imports in use."""
    return _Cleaner(facts, found).plan()


def plan_around(facts: Facts, found: Recognition, cleanup: Cleanup, certain: Collection[Statement]) -> Cleanup:
    """What becomes of the `try` statements and flags around imports, of which `cleanup` says what goes.

    `certain` are the imports that stay and cannot fail any more. Raises Refusal for a flag that is used as a value.
    """
    return _Cleaner(facts, found, cleanup).around_imports(certain)


class _Cleaner:
    def __init__(self, facts: Facts, found: Recognition, cleanup: Cleanup | None = None) -> None:
        self.facts = facts
        self.found = found
        self.cleanup = cleanup or Cleanup()
        self.folding = Folding(facts, self.cleanup)
        self.flags = availability_flags(facts, found.imports)

    def plan(self) -> Cleanup:
        for statement in self.found.imports:
            self._import(statement)
        return self.around_imports(())

    def around_imports(self, certain: Collection[Statement]) -> Cleanup:
        """The rest, once it is known which imports go; those in `certain` stay and cannot fail."""
        gone = {*self.cleanup.statements, *self.found.removed}
        emptied = self._emptied_attempts(gone.union(certain))
        outlived = [
            one
            for one in outlived_attempts(self.facts, self.found, gone.union(certain))
            if one not in emptied
            and not any(map(self._is_flag_or_carrier, one.blocks[0].statements))
            and not any(self._left_by_handlers(one))
        ]
        self.cleanup.bodies += outlived
        for attempt in emptied:
            kept = [*self._other_settings(attempt, gone), *(one for one in certain if one.block is attempt.blocks[0])]
            if kept:
                self.cleanup.bodies.append(attempt)
                self.cleanup.statements.extend(one for one in attempt.blocks[0].statements if one not in kept)
            else:
                self.cleanup.statements.append(attempt)
        self._carrier_bindings()
        self._settled_tests([*emptied, *outlived])
        return self.cleanup

    # -- imports ----------------------------------------------------------------------------------------

    def _import(self, statement: Statement) -> None:
        node = statement.node
        assert isinstance(node, (cst.Import, cst.ImportFrom))
        if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
            self._star_import(statement, node)
            return
        assert not isinstance(node.names, cst.ImportStar)
        goes = [alias for alias in node.names if self._is_unneeded(statement, alias)]
        if len(goes) == len(node.names):
            self.cleanup.statements.append(statement)
        elif goes:
            self.cleanup.aliases[statement] = goes

    def _is_unneeded(self, statement: Statement, alias: cst.ImportAlias) -> bool:
        variable = self.facts.names.variable_at(bound_name(alias))
        if variable is None:
            return False
        path = dotted_text(alias.name)
        if isinstance(statement.node, cst.ImportFrom) and statement.node.module is not None:
            path = f"{dotted_text(statement.node.module)}.{path}"
        if self._is_of_form(path):
            return True
        if len(variable.bindings) > 1:
            return False  # there is a substitute, which another file may import from here
        return all(self._goes_through_form(read) for _, read in reads_of(self.facts, {variable}))

    def _is_of_form(self, path: str) -> bool:
        return any(path == module or path.startswith(f"{module}.") for module in self.found.modules)

    def _goes_through_form(self, read: cst.BaseExpression) -> bool:
        """`apex` in `apex.amp.scale_loss(...)`: that use is rewritten."""
        parent = self.facts.tree.parents.get(read)
        return isinstance(parent, cst.Attribute) and any(map(self._is_of_form, self.facts.objects.import_paths(parent)))

    def _star_import(self, statement: Statement, node: cst.ImportFrom) -> None:
        """A star import goes where nothing needs its names any more; one of companions stays for their own stage."""
        module = dotted_text(node.module) if node.module is not None else ""
        if module not in APEX_EXPORTS:
            raise Refusal(STAR_IMPORT, node, f"what comes from {module} through the star import is not known")
        for variable in self.facts.names.variables_of(statement):
            loads = self._other_loads(variable)
            if self._is_of_form(f"{module}.{variable.name}") or not (loads or variable.importers):
                continue
            if not module.startswith("apex.fp16_utils"):
                return
            if variable.name != "to_python_float" or variable.importers or not self._replace_to_python_float(loads):
                place = loads[0] if loads else node
                raise Refusal(STAR_IMPORT, place, f"{variable.name} comes from {module} through a star import")
        self.cleanup.statements.append(statement)

    def _other_loads(self, variable: Variable) -> list[cst.Name]:
        """The uses of a name from a star import that are none of the source form's."""
        handled = set(self.found.sites)
        return [load for load in variable.loads if load not in handled and not self._goes_through_form(load)]

    def _replace_to_python_float(self, names: list[cst.Name]) -> bool:
        """`to_python_float(x)` is `x.item()` ([A:apex/fp16_utils/fp16util.py])."""
        for name in names:
            call = self.facts.tree.call_of(name)
            if call is None or len(call.args) != 1:
                return False
            text = self.facts.text(call.args[0].value)
            simple = isinstance(call.args[0].value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
            self.cleanup.replaced[call] = f"{text}.item()" if simple else f"({text}).item()"
        return True

    def _emptied_attempts(self, gone: set[Statement]) -> list[Statement]:
        """`try` statements that only tried the imports."""
        emptied = []
        for statement in self.found.imports:
            owner = statement.block.owner
            if owner is None or not isinstance(owner.node, (cst.Try, cst.TryStar)) or owner in emptied:
                continue
            tried = (block for block in owner.blocks if not block.arm.startswith("except"))
            rest = [inner for block in tried for inner in block.statements if inner not in gone]
            if all(self._only_serves_import(inner) for inner in rest):
                emptied.append(owner)
        return emptied

    def _other_settings(self, attempt: Statement, gone: set[Statement]) -> Iterator[Statement]:
        """`USE_AMP = True` beside the import, where the variable is no flag: something else sets it as well."""
        for inner in attempt.blocks[0].statements:
            if inner in gone or not isinstance(inner.node, cst.Assign):
                continue
            targets = [target.target for target in inner.node.targets]
            variables = [self.facts.names.variable_at(target) for target in targets]
            if not all(variable in self.flags for variable in variables) and not set(targets) & set(
                self.found.carriers
            ):
                yield inner

    def _only_serves_import(self, statement: Statement) -> bool:
        node = statement.node
        return (
            isinstance(node, (cst.Pass, cst.Global)) or self._is_flag_or_carrier(statement) or self._extends_path(node)
        )

    def _extends_path(self, node: cst.CSTNode) -> bool:
        """`sys.path.append("./apex")`: a copy of apex beside the script."""
        if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call) or not node.value.args:
            return False
        value = literal_value(node.value.args[-1].value)
        is_path = self.facts.names.dotted(node.value.func) in ("sys.path.append", "sys.path.insert")
        return is_path and isinstance(value, str) and value.rstrip("/").endswith("apex")

    def _is_flag_or_carrier(self, statement: Statement) -> bool:
        node = statement.node
        if not isinstance(node, cst.Assign):
            return False
        targets = [target.target for target in node.targets]
        if all(target in self.found.carriers for target in targets):
            return True
        variables = [self.facts.names.variable_at(target) for target in targets]
        is_constant = literal_value(node.value) in (True, False)
        return is_constant and all(variable is not None for variable in variables)

    def _inside_removed(self, statement: Statement) -> bool:
        return any(statement.inside(gone) for gone in self.cleanup.statements)

    # -- carriers and flags -----------------------------------------------------------------------------

    def _carrier_bindings(self) -> None:
        """`amp = None` and `self.amp = amp`: the scaler takes their place."""
        for carrier in self.found.carriers:
            target = self.facts.tree.parents.get(carrier)
            statement = self.facts.tree.statement_of(carrier)
            if isinstance(target, cst.AssignTarget) and isinstance(statement.node, cst.Assign):
                if len(statement.node.targets) != 1:
                    raise Refusal(UNKNOWN_AMP_USE, carrier, "apex.amp is assigned together with something else")
                if not self._inside_removed(statement):
                    self.cleanup.statements.append(statement)

    def _settled_tests(self, emptied: list[Statement]) -> None:
        """Flags are true now: conditions that read them are simplified or go."""
        for flag in self.flags:
            if self._was_in(flag, emptied):
                self.cleanup.statements.extend(self._defaults(flag, emptied))
        statements: dict[Statement, list[cst.BaseExpression]] = {}
        for flag, read in reads_of(self.facts, self.flags):
            if self._was_in(flag, emptied):
                statements.setdefault(self.facts.tree.statement_of(read), []).append(read)
        for carrier in self.found.carriers:
            statement = self.facts.tree.statement_of(carrier)
            if self.facts.conditions.constant(self.facts.conditions.carriers[carrier]) is not True:
                continue
            if isinstance(statement.node, (cst.If, cst.Assert)):
                statements.setdefault(statement, [])
            elif isinstance(
                self.facts.tree.parents.get(carrier), (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)
            ):
                self.folding.fold(carrier)
        for test in self.found.settled:
            assert isinstance(test, cst.BaseExpression)
            statements.setdefault(self.facts.tree.statement_of(test), []).append(test)
        self._loaded_modules()
        self._error_names(emptied)
        for statement, reads in statements.items():
            if not self._inside_removed(statement):
                self.folding.settle(statement, reads)

    def _loaded_modules(self) -> None:
        """`if "apex" not in sys.modules: raise ...` cannot happen any more."""
        for statement in self.facts.tree.all_statements():
            if isinstance(statement.node, cst.If) and isinstance(statement.node.test, cst.Comparison):
                text = source_key(statement.node.test).replace("'", '"')
                if text in ('"apex" not in sys.modules', '"apex" in sys.modules'):
                    self.cleanup.tests[statement] = " not in " not in text

    def _error_names(self, emptied: list[Statement]) -> None:
        """The name in `except ImportError as error`, and what only its block sets, must not be needed after its
        `try` is gone.
        """
        for attempt in emptied:
            for variable, load, what in self._left_by_handlers(attempt):
                if not self._is_dropped(self.facts.tree.statement_of(load)):
                    raise Refusal(IMPORT_IN_USE, load, f"{variable.name} is {what} the import that goes")

    def _left_by_handlers(self, attempt: Statement) -> Iterator[tuple[Variable, cst.Name, str]]:
        """The reads outside of a `try` of what only its handlers set."""
        for variable in self.facts.names.all_variables():
            is_error = any(b.kind == "except" and b.statement is attempt for b in variable.bindings)
            if is_error or self._is_set_by_handler_alone(variable, attempt):
                what = "the error of" if is_error else "set by nothing but the `except` of"
                loads = (load for load in variable.loads if not self.facts.tree.statement_of(load).inside(attempt))
                yield from ((variable, load, what) for load in loads)

    def _is_set_by_handler_alone(self, variable: Variable, attempt: Statement) -> bool:
        places = [binding.statement for binding in variable.bindings]
        handlers = [one for block in attempt.blocks if block.arm.startswith("except") for one in block.statements]
        return (
            bool(places)
            and variable not in self.flags
            and all(place is not None and any(place.inside(one) for one in handlers) for place in places)
        )

    def _is_dropped(self, statement: Statement) -> bool:
        return any(
            statement.inside(test) and answer is (statement.arm_of(test.node) != "body")
            for test, answer in self.cleanup.tests.items()
        )

    def _defaults(self, flag: Variable, emptied: list[Statement]) -> Iterator[Statement]:
        """`APEX_AVAILABLE = False` above the `try` that goes."""
        for binding in flag.bindings:
            statement = binding.statement
            if statement is None or any(statement.inside(attempt) for attempt in emptied):
                continue
            if isinstance(statement.node, cst.Assign) and len(statement.node.targets) == 1:
                yield statement

    def _was_in(self, flag: Variable, emptied: list[Statement]) -> bool:
        return any(
            binding.statement is not None and any(binding.statement.inside(attempt) for attempt in emptied)
            for binding in flag.bindings
        )
