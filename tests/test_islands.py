"""Which files are apart: an import that is overlooked would migrate the two halves of a unit in different processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate.units.islands import island_of, islands


@pytest.mark.parametrize(
    "source",
    [
        "import helper",
        "import os; import helper",
        "import os, \\\n    helper as h",
        "if True: import helper",
        "try: from helper import step\nexcept ImportError: pass",
        "from helper import (step,  # one ) of them\n)",
        "from \\\n    helper import step",
        "from.helper import step",
        "from . import (  # the helper (ours)\n    helper\n)",
        "from . import helper as h, other",
        "# from other import (\n#     step,\n# )\nfrom helper import step\n",
        "x = 1  # from other import (\nfrom helper import step\nprint()\n",
        "x = 'from nothing import ('\nfrom helper import *",
        "def main():\n    \tfrom helper import step",
        "\ufefffrom helper import step",
        "\x0cimport helper",
        "helper = importlib.import_module('helper')",
        'step = __import__( "helper").step',
        "import os\rimport helper\r",
        "import os\r\nimport os, \\\r\n    helper\r\n",
    ],
)
def test_an_import_connects_however_it_is_written(tmp_path: Path, source: str) -> None:
    files = {tmp_path / "train.py": source.encode(), tmp_path / "helper.py": b"def step(): pass\n"}
    assert _islands(files) == [["train.py", "helper.py"]]


def test_a_module_of_another_letter(tmp_path: Path) -> None:
    files = {tmp_path / "train.py": "import größe\n".encode(), tmp_path / "größe.py": b""}
    assert _islands(files) == [["train.py", "größe.py"]]


@pytest.mark.parametrize("package", ["", "package/__init__.py"])
def test_a_module_of_a_folder(tmp_path: Path, package: str) -> None:
    (tmp_path / "package").mkdir()
    files = {tmp_path / "train.py": b"from package import first, second\n", tmp_path / "package" / "second.py": b""}
    if package:
        files[tmp_path / package] = b""
    assert [island[:2] for island in _islands(files)] == [["train.py", "second.py"]]


def test_a_name_of_a_module_is_no_module_of_that_name(tmp_path: Path) -> None:
    files = {
        tmp_path / "train.py": b"from models import utils\n",
        tmp_path / "models.py": b"utils = None\n",
        tmp_path / "utils.py": b"",
    }
    assert _islands(files) == [["train.py", "models.py"], ["utils.py"]]


def _islands(files: dict[Path, bytes]) -> list[list[str]]:
    for file, source in files.items():
        file.write_bytes(source)
    found = islands(files, files)
    for island in found:  # what one file is connected with, found from any of them without a look at the rest
        assert all(island_of([file], files) == sorted(island) for file in island)
    return [[file.name for file in island] for island in found]


def test_an_island_is_found_over_packages_and_back(tmp_path: Path) -> None:
    """`main` imports a package, whose submodule asks for a name of the package above it; `apart` has nothing of it."""
    files = {
        tmp_path / "main.py": b"import package\n",
        tmp_path / "package" / "__init__.py": b"",
        tmp_path / "package" / "below" / "part.py": b"from .. import name\n",
        tmp_path / "package" / "below" / "user.py": b"from .part import *\n",
        tmp_path / "apart.py": b"main = 'package below part'\n",
    }
    (tmp_path / "package" / "below").mkdir(parents=True)
    assert _islands(files) == [["main.py", "__init__.py", "part.py", "user.py"], ["apart.py"]]
