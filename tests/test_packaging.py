"""What a package index shows of the project agrees with the project."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import yaml

from amp_migrate import __version__
from amp_migrate.home import DOCS, REPOSITORY
from tests.fixture import ROOT
from tests.links import code, links

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = ROOT.parent
PYPROJECT: dict[str, Any] = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]
README = (FOLDER / "README.md").read_text(encoding="utf-8")


def on_an_index(text: str) -> str:
    """README as the build writes it into the metadata: by hatch-fancy-pypi-readme, as pyproject.toml says."""
    settings = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for one in settings["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    return text.replace("$HFPR_VERSION", __version__)


def test_urls_are_those_that_the_program_prints():
    urls = PROJECT["urls"]
    assert (urls["Repository"], urls["Documentation"]) == (REPOSITORY, DOCS)
    assert all(url.startswith((REPOSITORY, DOCS)) for url in urls.values())


def test_every_link_of_the_description_is_absolute():
    described = on_an_index(README)
    assert len(links(described)) == len(links(README))
    for before, after in zip(links(README), links(described), strict=True):
        assert before.startswith(("https://", "#")) == (before == after), before
        assert after.startswith(("https://", "#")), after
        assert after.endswith(before), after
    assert code(described) == code(README)


def test_pictures_are_files_and_links_are_pages():
    release = f"v{__version__}"
    assert on_an_index("![a](b.png) [c](d.md#e)") == (
        f"![a]({REPOSITORY}/raw/{release}/b.png) [c]({REPOSITORY}/blob/{release}/d.md#e)"
    )
    assert on_an_index('<a href="b"><img src="c.png"></a>') == (
        f'<a href="{REPOSITORY}/blob/{release}/b"><img src="{REPOSITORY}/raw/{release}/c.png"></a>'
    )
    assert on_an_index("[a](#b) [![c](d.svg)](e)") == (
        f"[a](#b) [![c]({REPOSITORY}/raw/{release}/d.svg)]({REPOSITORY}/blob/{release}/e)"
    )
    assert on_an_index("![a](https://b) [c](https://d)") == "![a](https://b) [c](https://d)"


def test_the_release_is_described():
    changelog = (FOLDER / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## \[?(\d[\d.]*)\]? - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    citation = yaml.safe_load((FOLDER / "CITATION.cff").read_text(encoding="utf-8"))
    assert releases[0] == (__version__, str(citation["date-released"]))
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])
    assert (citation["repository-code"], citation["url"]) == (REPOSITORY, DOCS)


def test_documents_name_this_release():
    text = (FOLDER / "docs" / "pull-requests.md").read_text(encoding="utf-8")
    repository = REPOSITORY.removeprefix("https://github.com/")
    assert set(re.findall(rf"{repository}@v([\w.]+)", text)) == {__version__}
    assert re.findall(rf"{repository}\n    rev: v(\S+)", text) == [__version__]
    assert set(re.findall(r"`v(\d\S*)`", text)) == {__version__}


def test_the_tables_of_operations_are_packed():
    """Hatch packs all files of the package that git does not ignore."""
    build = PYPROJECT["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"] == {"packages": ["amp_migrate"]}
    assert "amp_migrate" in build["sdist"]["only-include"]
    ignored = subprocess.run(["git", "check-ignore", "amp_migrate/models/torch.json"], cwd=FOLDER, check=False)
    assert ignored.returncode == 1
    assert all((FOLDER / "amp_migrate" / "models" / name).is_file() for name in ("torch.json", "written.json"))
