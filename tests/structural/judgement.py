"""What the static checks say of a mutant: those that run before anything is written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from amp_migrate.check import Violation, check_module
from amp_migrate.check.proof import Proof, Prover
from amp_migrate.facts import Facts, SourceFile
from amp_migrate.files.helpers import Helpers
from amp_migrate.files.imports import module_name
from amp_migrate.files.parse import parse
from tests.structural.cases import Case, Tree
from tests.unit_fixture import write_tree

PROOF, TYPESTATE, UNDECIDED, SURVIVED = "proof", "typestate", "undecided", "survived"
_STYLE = "unused import"  # it does no harm


class Judge:
    """Judges outputs of one unit."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._folder = tempfile.TemporaryDirectory()
        self._root = Path(self._folder.name).resolve()
        write_tree(self._root, case.after)
        self._before = self._facts(case.before)
        self._known = {(one.kind, one.message) for one in check_module(self._before, self._before)}
        self._known |= {(one.kind, one.message) for one in self._violations(case.after)}  # kept on purpose

    def verdict(self, tree: Tree) -> str:
        """Who refuses an output: the proof, the typestate, or nobody; "undecided" where the proof says that it stops."""
        proof = self.proof(tree)
        if proof.breaches:
            return PROOF
        if any((one.kind, one.message) not in self._known for one in self._violations(tree)):
            return TYPESTATE
        is_open = any("not compared" in one.what for one in proof.assumptions)
        return UNDECIDED if is_open else SURVIVED

    def proof(self, tree: Tree) -> Proof:
        return Prover(self.case.before, tree).prove(self.case.paths)

    def _violations(self, tree: Tree) -> list[Violation]:
        found = check_module(self._facts(tree), self._before)
        return [one for one in found if one.kind != _STYLE]

    def _facts(self, tree: Tree) -> Facts:
        """What the typestate reads: the files of the unit."""
        files = [(parse(tree[path]), self._root / path) for path in self.case.paths]
        return Facts([SourceFile(module, str(path), module_name(path)) for module, path in files], Helpers())
