"""For LibCST's own runner: `python -m libcst.tool codemod --no-format -x amp_migrate.codemod.NativeAmp PATH`.

Without `--no-format` the runner asks for black and puts it over every line of a file. It hands over one file at a time:
files that only migrate together with others stay, with the finding as a warning; the command `amp-migrate` migrates
them. That one never imports this module: `libcst.codemod` doubles its start-up.
"""

from __future__ import annotations

from pathlib import Path

import libcst as cst
from libcst.codemod import CodemodCommand, SkipFile

from amp_migrate.options import Options
from amp_migrate.project import migrate_source, migrate_stdin
from amp_migrate.report.findings import place


class NativeAmp(CodemodCommand):
    """What `amp-migrate FILE` does to a file. Raises SkipFile where there is nothing to migrate, or a unit stays."""

    DESCRIPTION = "Migrate NVIDIA Apex AMP, and half precision made by hand, to native autocast and GradScaler."

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The migrated module, of which the findings are warnings."""
        name = self.context.filename
        result = migrate_stdin(tree.bytes, Options(), Path(name)) if name else migrate_source(tree.bytes, Options())
        for finding in result.findings:
            self.warn(f"{place(finding)}: {finding.code} {finding.message}")
        if not result.changed:
            raise SkipFile("nothing to migrate" if result.status == "untouched" else "left alone")
        return cst.parse_module(result.output)
