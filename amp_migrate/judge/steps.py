"""The steps of native AMP in the files of a program: scale, unscale_, step and update in their order (AMP401 on)."""

from __future__ import annotations

from collections.abc import Mapping

from amp_migrate.check.proof.program import Program
from amp_migrate.facts import Facts, SourceFile
from amp_migrate.facts.elsewhere import Nowhere
from amp_migrate.files.parse import Unparsable, parse
from amp_migrate.findings import Finding
from amp_migrate.review import review
from amp_migrate.sources.gate import holds_native_amp


def mistakes(sources: Mapping[str, bytes], program: Program) -> list[Finding] | None:
    """The mistakes in the native AMP of some files of a program; None where they cannot be looked at."""
    if not any(map(holds_native_amp, sources.values())):
        return []
    try:
        files = [SourceFile(parse(source), path, program.files[path].module) for path, source in sources.items()]
        return review(Facts(files, _Within(program)))
    except (Unparsable, RecursionError):
        return None


class _Within(Nowhere):
    """The modules of a tree by their dotted names from its root; of what is in them nothing is known."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def resolved(self, importer: str, dotted: str) -> str:
        file = self._program.files[importer]
        if dotted.startswith("."):
            return file.absolute(dotted)
        parts = dotted.split(".")
        for end in range(len(parts), 0, -1):
            there = self._program.module(".".join(parts[:end]), file)
            if there is not None and parts[0] not in ("torch", "apex"):
                return ".".join([there.module, *parts[end:]])
        return dotted
