"""The steps of native AMP in the files of a program: scale, unscale_, step and update in their order (AMP401 on)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping

from amp_migrate.check.proof.program import File, Program
from amp_migrate.check.unseen import WITHOUT_SCALERS
from amp_migrate.facts import Facts, SourceFile
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.files.parse import Unparsable, parse
from amp_migrate.findings import Finding
from amp_migrate.review import review
from amp_migrate.sources.gate import holds_native_amp

# A method of a scaler is called on what has a name, or it is handed on.
_USES = rb"\b%(name)s\s*\.\s*(?:scale|unscale_|step|update|get_scale)\b|[=(,]\s*(?:\w+\.)*%(name)s\s*(?:[,)#\n]|\Z)"


def mistakes(sources: Mapping[str, bytes], program: Program) -> list[Finding] | None:
    """The mistakes in the native AMP of some files of a program; None where they cannot be looked at."""
    if not any(map(holds_native_amp, sources.values())):
        return []
    try:
        files = [SourceFile(parse(source), path, program.files[path].module) for path, source in sources.items()]
        return review(Facts(files, _Within(program, sources.keys())))
    except (Unparsable, RecursionError):
        return None


class _Within(Elsewhere):
    """The modules of a tree by their dotted names from its root; of what is in them their words are known."""

    def __init__(self, program: Program, own: Collection[str]) -> None:
        self._program = program
        self._own = own

    def resolved(self, importer: str, dotted: str) -> str:
        file = self._program.files[importer]
        if dotted.startswith("."):
            return file.absolute(dotted)
        there, rest = self._module(dotted, file)
        return ".".join([there.module, *rest]) if there is not None else dotted

    def may_use_scaler(self, resolved: str, attribute: str) -> bool:
        uses = re.compile(_USES % {b"name": re.escape(attribute.encode())})
        is_here = any(self._is_here(resolved, self._program.files[path], set()) for path in self._own)
        others = (file for path, file in self._program.files.items() if path not in self._own)
        return not is_here or any(uses.search(file.source) for file in others)

    def _is_here(self, dotted: str, near: File, known: set[str]) -> bool:
        """True for a class of the tree that inherits from no others but those, torch's and Python's."""
        if dotted.partition(".")[0] in WITHOUT_SCALERS or dotted in known:
            return True
        found = self._program.definition(dotted, near)
        made = found[0].bound[found[1]][0] if found is not None else None
        if found is None or not isinstance(made, ast.ClassDef):
            return False
        file = found[0].file
        bases = [file.dotted(base) or ast.unparse(base) for base in made.bases]
        return all(self._is_here(base, file, known | {dotted}) for base in bases)

    def _module(self, dotted: str, near: File) -> tuple[File | None, list[str]]:
        """The module that a dotted name begins with, and the rest of the name."""
        parts = dotted.split(".")
        for end in range(len(parts), 0, -1):
            there = self._program.module(".".join(parts[:end]), near)
            if there is not None and parts[0] not in ("torch", "apex"):
                return there, parts[end:]
        return None, parts
