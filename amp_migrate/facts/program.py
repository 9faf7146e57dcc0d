"""What the program of a unit runs, and what stands in its files for somebody else.

    if __name__ == "__main__":       in a file that others import: a self-test, which does not run with them
    def conjugate_gradient(f): ...   a function that nothing in the program speaks of

Names decide, not values: whatever runs may mean any function or class of a name that it mentions, be it as an
attribute or in a text. Where it looks things up by names that are put together, every function may run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.tree import Function, Statement, Tree, called_name, walk

_WORD = re.compile(r"[^\W\d]\w*")
_LOOKS_UP = frozenset("globals locals vars eval exec __import__ import_module".split())

Definition = cst.FunctionDef | cst.ClassDef


def self_tests(tree: Tree, names: Names, is_used: Callable[[Function], bool] = lambda root: False) -> list[Statement]:
    """The `if __name__ == "__main__":` of files that other files of the unit import, or that are used by others."""
    helpers = _imported(tree, names)
    found = [(root, statement) for root in tree.roots for statement in root.body.statements if _is_main(statement)]
    return [statement for root, statement in found if root in helpers or is_used(root)]


def never_mentioned(
    tree: Tree, names: Names, tests: Collection[Statement], running: Collection[Statement] = ()
) -> list[Statement]:
    """The top-level definitions that nothing mentions that the files of a unit run, but for their self-tests; those
    that are `running` somebody else runs.
    """
    return _Program(tree, names, tests).never_mentioned(running)


def definitions_around(tree: Tree, nodes: Iterable[cst.CSTNode]) -> Iterator[Statement]:
    """The top-level functions and classes that some nodes stand in."""
    for function in dict.fromkeys(tree.function_of(node).outermost for node in nodes):
        if not function.is_module:
            yield tree.statements[function.owner.node if function.owner is not None else function.node]


class _Program:
    def __init__(self, tree: Tree, names: Names, tests: Collection[Statement]) -> None:
        self.tree = tree
        self.names = names
        self._tests = tests
        self._waiting: dict[str, list[Statement]] = {}  # definitions that nothing has spoken of yet
        self._looks_up = False

    def never_mentioned(self, run_elsewhere: Collection[Statement]) -> list[Statement]:
        running = [statement for root in self.tree.roots for statement in self._at_import(root.body.statements)]
        for name in self._with_mentioning({_name(statement) for statement in run_elsewhere}):
            running += self._waiting.pop(name, ())
        while running:
            statement = running.pop()
            for word in self._words(statement.node, inner=isinstance(statement.node, Definition)):
                running += self._waiting.pop(word, ())
        return [] if self._looks_up else [one for waiting in self._waiting.values() for one in waiting]

    def _with_mentioning(self, names: set[str]) -> set[str]:
        """Some definitions by their names, and those that mention them: who runs them may run these."""
        words = {
            name: {word for one in waiting for word in self._words(one.node, inner=True)}
            for name, waiting in self._waiting.items()
        }
        self._looks_up = False  # what only waits looks nothing up
        before = 0
        while names and before != (before := len(names)):
            names = names | {name for name, mentioned in words.items() if mentioned & names}
        return names

    def _at_import(self, statements: list[Statement]) -> Iterator[Statement]:
        """What runs when a file is imported; definitions that only their name can bring to run wait for it."""
        for statement in statements:
            if statement in self._tests:
                continue
            if isinstance(statement.node, Definition) and not statement.node.decorators:
                self._waiting.setdefault(statement.node.name.value, []).append(statement)
                continue
            yield statement
            for block in statement.blocks if not isinstance(statement.node, Definition) else ():
                yield from self._at_import(block.statements)

    def _words(self, node: cst.CSTNode, *, inner: bool) -> Iterator[str]:
        """The names that a statement mentions, its blocks left out unless they are `inner`."""
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            aliases = () if isinstance(node.names, cst.ImportStar) else node.names
            for alias in aliases:  # what keeps its name is spoken of where it is used
                if alias.asname is not None:
                    yield from (part.value for part in walk(alias.name) if isinstance(part, cst.Name))
            return
        parts = walk(node) if inner else self.tree.expressions(self.tree.statements[node])
        for part in parts:
            if isinstance(part, cst.Name):
                self._looks_up |= self._names_a_lookup(part)
                yield part.value
            elif isinstance(part, (cst.SimpleString, cst.FormattedStringText)):
                yield from _WORD.findall(part.value)
            elif isinstance(part, cst.Call) and called_name(part) == "getattr":
                self._looks_up |= self._may_mean_definition(part)

    def _names_a_lookup(self, name: cst.Name) -> bool:
        """True for `globals`, but for a method that is called or defined so: `model.eval()`, `def eval(self)` and
        `vars(args)` look nothing up here; `models.__dict__` of a module does.
        """
        parent = self.tree.parents.get(name)
        if isinstance(parent, Definition) and parent.name is name:
            return False
        if isinstance(parent, cst.Attribute) and parent.attr is name:
            if name.value == "__dict__":
                return self.names.dotted(parent.value) is not None
            return name.value == "import_module"
        if name.value == "vars" and isinstance(parent, cst.Call) and parent.func is name and parent.args:
            return self.names.dotted(parent.args[0].value) is not None
        return name.value in _LOOKS_UP

    def _may_mean_definition(self, call: cst.Call) -> bool:
        """True for `getattr(models, name)`, unless the name is written there."""
        if len(call.args) < 2 or isinstance(call.args[1].value, cst.SimpleString):
            return False
        return self.names.dotted(call.args[0].value) is not None


def _name(definition: Statement) -> str:
    assert isinstance(definition.node, Definition)
    return definition.node.name.value


def _imported(tree: Tree, names: Names) -> set[Function]:
    """The files that other files of the unit import, or import something of."""
    found: set[Function] = set()
    for statement in tree.all_statements():
        if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            own = statement.function.root
            found |= {root for root in names.modules_imported(statement) if root is not own}
    return found


def _is_main(statement: Statement) -> bool:
    node = statement.node
    if not isinstance(node, cst.If) or node.orelse is not None or not isinstance(node.test, cst.Comparison):
        return False
    parts = [node.test.left, *(one.comparator for one in node.test.comparisons)]
    names = [part.value for part in parts if isinstance(part, cst.Name)]
    texts = [part.evaluated_value for part in parts if isinstance(part, cst.SimpleString)]
    return names == ["__name__"] and texts == ["__main__"]
