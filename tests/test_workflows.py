"""The workflows on GitHub: the Pythons that they test, and the actions that they use."""

from __future__ import annotations

import re

import yaml

from amp_migrate.home import DOCS, REPOSITORY
from tests.fixture import ROOT
from tests.test_packaging import PROJECT

FOLDER = ROOT.parent
WORKFLOWS = {file.stem: file.read_text(encoding="utf-8") for file in (FOLDER / ".github" / "workflows").glob("*.yml")}


def test_every_python_that_is_named_is_tested():
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert yaml.safe_load(WORKFLOWS["tests"])["jobs"]["tests"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_actions_are_pinned_by_one_major_version():
    texts = [*WORKFLOWS.values(), (FOLDER / "action.yml").read_text(encoding="utf-8")]
    used = {one for text in texts for one in re.findall(r"uses: ([^.\s]\S*)", text)}
    assert len(used) > 5
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", one)] == []
    assert len({one.partition("@")[0] for one in used}) == len(used)


def test_only_what_is_published_gets_an_identity():
    for name, text in WORKFLOWS.items():
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {"contents": "read"}, name
        trusted = [job for job, content in workflow["jobs"].items() if "id-token" in content.get("permissions", {})]
        assert trusted == ([] if name == "tests" else ["publish"]), name


def test_issue_forms_ask_for_what_is_needed():
    folder = FOLDER / ".github" / "ISSUE_TEMPLATE"
    forms = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in folder.glob("*.yml")}
    links = forms.pop("config")["contact_links"]
    assert all(link["url"].startswith((f"{REPOSITORY}/", f"{DOCS}/")) for link in links)
    assert set(forms) == {"wrong-migration", "false-refusal", "crash"}
    for name, form in forms.items():
        asked = [one for one in form["body"] if one["type"] != "markdown"]
        assert {"command", "version"} <= {one["id"] for one in asked}, name
        assert all(one["validations"]["required"] for one in asked), name
