"""The proof: the output is the original, but for mixed precision. It shares nothing with what planned and wrote it,
but for `models`: what torch's operations do, as data that was measured.

erasure     both sides without mixed precision are the same program, where it is on and where it is off
gone        what was removed or renamed is used nowhere in the tree
apexless    the program runs where no Apex is
halves      nothing that a GradScaler unscales has half weights
gradients   gradients that are still scaled reach nobody who may read them
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from amp_migrate.check.proof.apexless import without_apex
from amp_migrate.check.proof.erasure import Erasure
from amp_migrate.check.proof.gone import resolution
from amp_migrate.check.proof.gradients import scaled_gradients
from amp_migrate.check.proof.halves import half_weights
from amp_migrate.check.proof.program import Program
from amp_migrate.check.proof.result import Assumption, Breach, Proof
from amp_migrate.check.proof.side import Side
from amp_migrate.check.proof.wrappers import frozen_after_wrapping


class Prover:
    """Two trees, by path: all files before and after a change. Each unit of the change is proved by itself."""

    def __init__(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
        self.before = Program(before)
        self.after = Program(after)
        self._without_apex = Program(after, with_apex=False)

    def prove(self, paths: Collection[str], *, every: bool = False) -> Proof:
        """What is shown and assumed of the files at `paths`, which are looked at together. Never raises for bad input:
        of what cannot be read, or nests too deeply, it is assumed. Of each function the first difference is enough, but
        for those who want `every` one.
        """
        changed = {path for path in paths if self._source(self.before, path) != self._source(self.after, path)}
        try:
            original, output = Side(self.before, paths), Side(self.after, paths, self.before if every else None)
            erasure = Erasure(original, output, every=every)
            found = [
                *self._unread(changed),
                *erasure.breaches,
                *erasure.assumptions,
                *resolution(self.before, self.after, changed),
                *without_apex(self.before, self.after, self._without_apex, changed),
                *half_weights(output, original),
                *scaled_gradients(output, original if every else None),
                *frozen_after_wrapping(original, output),
            ]
        except RecursionError:
            found = [Assumption(path, 1, "the file nests too deeply to be compared") for path in sorted(changed)]
        breaches = dict.fromkeys(one for one in found if isinstance(one, Breach))
        return Proof(tuple(breaches), tuple(sorted({one for one in found if isinstance(one, Assumption)})))

    def _unread(self, changed: Collection[str]) -> Iterator[Breach | Assumption]:
        """Changed files that this Python cannot parse: a breach where it could before."""
        for path in sorted(changed):
            sides = [one.files[path].tree if path in one.files else None for one in (self.before, self.after)]
            if sides[1] is None and sides[0] is not None:
                yield Breach("not the same program", path, "", None, None, "the output cannot be parsed")
            elif sides[1] is None:
                yield Assumption(path, 1, "the file cannot be read by this Python, and was not compared")

    @staticmethod
    def _source(program: Program, path: str) -> bytes | None:
        file = program.files.get(path)
        return file.source if file is not None else None


__all__ = ["Assumption", "Breach", "Proof", "Prover"]
