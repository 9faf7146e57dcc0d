"""A notebook as a script: its code cells, without what only IPython understands."""

from __future__ import annotations

import json
import re
from pathlib import Path

from amp_migrate.verify.errors import NotComparableError

_PYTHON_CELLS = ("%%time", "%%capture", "%%prun")  # others are in another language
# `%time`, `!pip install x`, `?print` and `print?` where a statement may stand; what is assigned from one becomes None.
_MAGIC = re.compile(r"^([ \t]*)((?:!|%%?\w|\?\??\w).*|[\w.]+\?\??[ \t]*)$", re.MULTILINE)
_ASSIGNED = re.compile(r"^([ \t]*[\w, ]+=[ \t]*)((?:!|%\w).*)$", re.MULTILINE)


def notebook_source(path: Path) -> bytes:
    """Raises NotComparableError where the file is no notebook."""
    try:
        return cells_as_script(path.read_bytes())
    except (ValueError, KeyError, TypeError):
        raise NotComparableError(f"{path} is no notebook of format 4") from None


def cells_as_script(notebook: bytes) -> bytes:
    """Raises ValueError, KeyError or TypeError where it is no notebook."""
    cells = json.loads(notebook)["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return "\n".join(_plain(source) for source in sources).encode()


def _plain(cell: str) -> str:
    head = cell.lstrip()
    if head.startswith("%%") and not head.startswith(_PYTHON_CELLS):
        return "".join(f"# {line}\n" for line in cell.splitlines())
    return _ASSIGNED.sub(r"\1None  # \2", _MAGIC.sub(r"\1pass  # \2", cell)) + "\n"
