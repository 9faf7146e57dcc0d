"""The GitHub action: its steps, executed in repositories with a base and a feature branch; `gh` is a fake one."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amp_migrate import __version__
from tests.composite import Composite, Run, inherited
from tests.fixture import ROOT

REPOSITORY = ROOT.parent
APEX = ROOT / "apex" / "accumulation_window"
LEFT = (ROOT / "fp16_utils" / "closure" / "before.py").read_text()
PLAIN = (ROOT / "plain" / "cnn_clip" / "before.py").read_text()
SETUP = ("Name the cache", "Keep what pip downloads", "Install amp-migrate")
MARKER = "<!-- amp-migrate -->"

# Keeps the comments of the pull request in a file, and what it was asked.
GH = """\
import json, os, subprocess, sys
from pathlib import Path

folder = Path(os.environ["FAKE_GH"])
comments = json.loads((folder / "comments.json").read_text())
arguments = sys.argv[1:]
with (folder / "calls").open("a") as log:
    log.write(json.dumps(arguments) + "\\n")
assert os.environ["GH_TOKEN"] == "t"
if (folder / "refuses").exists():
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
body = next((one.removeprefix("body=@") for one in arguments if one.startswith("body=@")), None)
if body is None:
    query = arguments[arguments.index("--jq") + 1]
    subprocess.run(["jq", "-r", query], input=json.dumps(comments), text=True, check=True)
else:
    text = Path(body).read_text()
    if "PATCH" in arguments:
        number = int(next(one for one in arguments if "/comments/" in one).rsplit("/", 1)[1])
        next(one for one in comments if one["id"] == number)["body"] = text
    else:
        comments.append({"id": 40 + len(comments), "user": {"login": "github-actions[bot]"}, "body": text})
    (folder / "comments.json").write_text(json.dumps(comments))
"""


def git(*args: str, cwd: Path) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    return subprocess.run(["git", *identity, *args], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def commit(repository: Path, message: str, **files: str) -> str:
    for name, content in files.items():
        (repository / f"{name}.py").write_text(content)
    git("add", "-A", cwd=repository)
    git("commit", "-qm", message, cwd=repository)
    return git("rev-parse", "HEAD", cwd=repository)


@pytest.fixture(scope="module")
def action(tmp_path_factory) -> Composite:
    """The action, from a folder with no more than it needs, installed by its own first step."""
    folder = tmp_path_factory.mktemp("checkout of the action")
    for name in ("pyproject.toml", "README.md", "LICENSE", "action.yml"):
        shutil.copy(REPOSITORY / name, folder / name)
    for name in ("amp_migrate", ".github/action"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**inherited(), "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    composite = Composite(folder, tmp_path_factory.mktemp("runner temp"), environment)
    # What a hostile pull request could leave in the way of Python.
    workspace = tmp_path_factory.mktemp("hostile")
    for name in ("pip", "venv"):
        (workspace / f"{name}.py").write_text("raise SystemExit('the code of the pull request was run')\n")
    skip = tuple(step["name"] for step in composite.content["runs"]["steps"] if step["name"] not in SETUP)
    result = composite.run(workspace, {}, skip=skip)
    assert (result.code, tuple(result.ran)) == (0, SETUP), result.log
    return composite


@pytest.fixture
def gh(action, tmp_path, monkeypatch) -> Path:
    """A folder with the comments, and with `refuses` once that is touched; `calls` is what was asked."""
    if shutil.which("jq") is None:
        pytest.skip("the fake gh needs jq")
    folder = tmp_path / "gh"
    (folder / "bin").mkdir(parents=True)
    (folder / "gh.py").write_text(GH)
    (folder / "comments.json").write_text(json.dumps([{"id": 7, "user": {"login": "someone"}, "body": MARKER}]))
    script = folder / "bin" / "gh"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder / "gh.py"}" "$@"\n')
    script.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), action.environment["PATH"]])
    monkeypatch.setattr(action, "environment", {**action.environment, "PATH": path, "FAKE_GH": str(folder)})
    return folder


@pytest.fixture
def project(tmp_path) -> Path:
    """A pull request that adds a training in Apex, merged with its base as GitHub checks it out. In the base there is
    another, and one more came to it since the pull request was opened.
    """
    repository = tmp_path / "project"
    repository.mkdir()
    git("init", "-q", "-b", "main", cwd=repository)
    (repository / "pyproject.toml").write_text('[tool.amp-migrate]\napi = "torch.amp"\n')
    commit(repository, "base", old=(APEX / "before.py").read_text())
    git("tag", "opened", cwd=repository)
    git("checkout", "-qb", "feature", cwd=repository)
    commit(repository, "feature", new=(APEX / "before.py").read_text(), plain=PLAIN)
    git("tag", "head", cwd=repository)
    git("checkout", "-q", "main", cwd=repository)
    commit(repository, "others' work", others=(APEX / "before.py").read_text())
    git("merge", "-q", "--no-ff", "-m", "merge", "head", cwd=repository)
    return repository


def pull_request(repository: Path, base: str = "opened", head: str = "head") -> dict[str, Any]:
    revisions = {name: {"sha": git("rev-parse", one, cwd=repository)} for name, one in (("base", base), ("head", head))}
    return {"pull_request": {"number": 5, **revisions}}


def run(action: Composite, project: Path, event: dict[str, Any], **inputs: str) -> Run:
    result = action.run(project, event, skip=SETUP, **inputs)
    if (project / ".git").exists():
        assert git("status", "--porcelain", cwd=project) == ""
    return result


def patched(result: Run) -> list[str]:
    """The files of the patch."""
    if not result.outputs["patch"]:
        return []
    lines = Path(result.outputs["patch"]).read_text().splitlines()
    return [line.removeprefix("+++ b/").rstrip("\t") for line in lines if line.startswith("+++ ")]


def test_downloads_are_kept_for_this_version_python_and_system(action, tmp_path):
    steps = {step["name"]: step for step in action.content["runs"]["steps"]}
    [kept] = action.run(tmp_path, {}, skip=tuple(name for name in steps if name not in SETUP[:2])).used
    assert kept["with"]["key"].startswith(f"amp-migrate-{__version__}-python{platform.python_version()}-")
    assert Path(kept["with"]["path"]).parent == action.temporary / "amp-migrate"
    assert steps["Install amp-migrate"]["env"]["PIP_CACHE_DIR"] == steps["Keep what pip downloads"]["with"]["path"]


def test_what_a_pull_request_changed(action, project):
    result = run(action, project, pull_request(project))
    assert (result.code, patched(result)) == (0, ["new.py"]), result.log
    assert result.outputs["changed"] == "true"
    assert result.summary == Path(result.outputs["report"]).read_text()
    assert "1 file would be migrated" in result.summary
    assert "<code>new.py</code>" in result.summary
    assert "::notice file=new.py,line=" in result.log
    assert "plain float32 training could run in mixed precision" in result.log  # reported, not changed
    assert [step["uses"].split("@")[0] for step in result.used] == ["actions/upload-artifact"]
    assert result.used[0]["with"]["path"] == result.outputs["patch"]
    git("apply", result.outputs["patch"], cwd=project)
    assert (project / "new.py").read_text() == (APEX / "after.py").read_text()
    assert git("diff", "--name-only", cwd=project) == "new.py"


def test_a_folder_of_its_own(action, project):
    folder = project / "vision"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[tool.amp-migrate]\napi = "torch.amp"\nignore = ["AMP050"]\n')
    commit(folder, "a folder", plain=PLAIN, old=(APEX / "before.py").read_text())
    lost = "".join(line for line in (APEX / "after.py").read_text().splitlines(True) if ".update()" not in line)
    commit(folder, "by hand", old=lost, new=(APEX / "before.py").read_text())
    result = run(action, project, {}, since="HEAD^", **{"working-directory": "vision"})
    assert (result.code, patched(result)) == (0, ["vision/new.py"]), result.log
    assert (result.outputs["verdict"], "file=vision/old.py,line=" in result.log) == ("wrong", True), result.log
    assert "plain.py" not in result.log
    assert patched(run(action, project, {}, paths="new.py", **{"working-directory": "vision"})) == ["vision/new.py"]


def test_other_events_look_at_everything(action, project):
    result = run(action, project, {})
    assert (result.code, patched(result)) == (0, ["new.py", "old.py", "others.py"]), result.log


def test_a_merge_group_and_a_revision(action, project):
    group = {"merge_group": {"base_sha": git("rev-parse", "HEAD^1", cwd=project)}}
    assert patched(run(action, project, group)) == ["new.py"]
    assert patched(run(action, project, group, since="opened")) == ["new.py", "others.py"]


@pytest.mark.parametrize("is_merge", [True, False])
def test_a_clone_without_history(action, project, tmp_path, is_merge):
    event = pull_request(project, base="main^1")
    git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=project)
    clone = tmp_path / "clone"
    branch = "main" if is_merge else "head"
    git("clone", "-q", "--depth=1", "--branch", branch, f"file://{project}", str(clone), cwd=tmp_path)
    if is_merge:
        assert patched(run(action, clone, pull_request(project))) == ["new.py"]
    assert "new.py" in patched(run(action, clone, event))
    assert "old.py" not in patched(run(action, clone, event))
    git("remote", "remove", "origin", cwd=clone)
    unknown = {"pull_request": {"number": 5, "base": {"sha": "1" * 40}, "head": {"sha": "2" * 40}}}
    result = run(action, clone, unknown)
    assert (result.code, "actions/checkout needs fetch-depth: 0" in result.log) == (2, True)


def test_fail(action, project):
    result = run(action, project, pull_request(project), fail="true")
    assert (result.code, result.outputs["changed"], len(result.used)) == (1, "true", 1)
    assert run(action, project, pull_request(project), fail="true", args="--ignore AMP010").code == 0


def test_a_migration_by_hand_is_judged(action, project):
    git("checkout", "-q", "-B", "feature", "main", cwd=project)
    commit(project, "migrated by hand", old=(APEX / "after.py").read_text())
    git("tag", "by-hand", cwd=project)
    result = run(action, project, pull_request(project, "main", "by-hand"), fail="true")
    assert (result.code, result.outputs["verdict"]) == (0, "same"), result.log
    lost = "".join(line for line in (APEX / "after.py").read_text().splitlines(True) if ".update()" not in line)
    commit(project, "no update", old=lost)
    git("tag", "wrong", cwd=project)
    result = run(action, project, pull_request(project, "main", "wrong"), fail="true")
    assert (result.code, result.outputs["verdict"]) == (1, "wrong"), result.log
    assert "::error file=old.py,line=" in result.log or "::warning file=old.py,line=" in result.log
    assert run(action, project, pull_request(project, "main", "wrong"), fail="true", judge="false").code == 0


def test_a_file_that_cannot_be_read_fails_where_that_is_asked_for(action, project):
    commit(project, "broken", broken="from apex import amp\nprint 'a'\n")
    assert run(action, project, {}).code == 0
    result = run(action, project, {}, fail="true")
    assert (result.code, "broken.py" in result.summary) == (2, True)


def test_bad_usage_always_fails(action, project):
    for inputs in ({"args": "--no-such-option"}, {"paths": "nowhere"}, {"since": "nowhere"}):
        result = run(action, project, {}, **inputs)
        assert (result.code, "::error title=amp-migrate::" in result.log) == (2, True), result.log
        assert result.summary == ""


def test_nothing_to_migrate(action, project, gh):
    git("checkout", "-q", "-b", "harmless", cwd=project)
    commit(project, "harmless", harmless="print()\n")
    result = run(action, project, pull_request(project, "main", "harmless"), fail="true", comment="true")
    assert (result.code, patched(result), result.used) == (0, [], []), result.log
    assert (result.outputs["changed"], result.outputs["patch"]) == ("false", "")
    assert "nothing to migrate" in result.summary
    assert [one["id"] for one in comments(gh)] == [7]


def comments(gh: Path) -> list[dict[str, Any]]:
    return json.loads((gh / "comments.json").read_text())


def test_one_comment(action, project, gh):
    first = run(action, project, pull_request(project), comment="true")
    assert first.code == 0, first.log
    others, own = comments(gh)
    assert others["body"] == MARKER  # somebody else's, with the same mark
    assert own["body"] == f"{MARKER}\n{first.summary}"
    assert "1 file would be migrated" in own["body"]
    commit(project, "by hand", new=(APEX / "after.py").read_text(), plain="")
    second = run(action, project, pull_request(project, "main~1^1", "main"), comment="true")
    assert second.code == 0, second.log
    _, own_now = comments(gh)
    assert own_now["id"] == own["id"]
    assert own_now["body"] == f"{MARKER}\n{second.summary}"
    assert "1 file would be migrated" not in own_now["body"]
    calls = [json.loads(line) for line in (gh / "calls").read_text().splitlines()]
    methods = [call[call.index("--method") + 1] for call in calls if "--method" in call]
    assert methods == ["POST", "PATCH"]
    assert calls[1][4] == "repos/owner/name/issues/5/comments"


def test_no_comment_unless_asked_for_and_on_a_pull_request(action, project, gh):
    run(action, project, pull_request(project))
    run(action, project, {}, comment="true")
    assert not (gh / "calls").exists()


def test_a_token_that_only_reads_is_no_failure(action, project, gh):
    (gh / "refuses").touch()
    result = run(action, project, pull_request(project), comment="true")
    assert (result.code, "::warning title=amp-migrate::" in result.log) == (0, True)


def test_a_finding_alone_is_worth_a_comment(action, project, gh):
    git("checkout", "-q", "-b", "left", cwd=project)
    commit(project, "left", left=LEFT)
    result = run(action, project, pull_request(project, "main", "left"), fail="true", comment="true")
    assert (result.code, patched(result)) == (0, []), result.log
    assert "#### Findings" in comments(gh)[1]["body"]


def test_hostile_inputs_are_only_text(action, project):
    attack = '$(touch ran)`touch ran`"; touch ran; echo "'
    folder = project / "with $(touch ran) spaces; 'and quotes'"
    folder.mkdir()
    (folder / "-a b.py").write_text((APEX / "before.py").read_text())
    commit(project, "names")
    result = run(action, project, {}, paths=f"{folder.name}\n\nnew.py\r\n")
    assert (result.code, set(patched(result))) == (0, {f"{folder.name}/-a b.py", "new.py"}), result.log
    assert f"amp-migrate new.py {shlex.quote(f'{folder.name}/-a b.py')} --write" in result.summary
    for name in ("paths", "args", "since"):
        assert run(action, project, {}, **{name: attack}).code == 2
    assert run(action, project, {}, args="* --ignore AMP010", paths="old.py").code == 2  # no file names for a star
    assert run(action, project, pull_request(project), fail=attack, comment=attack).code == 0
    assert run(action, project, {}, paths="old.py\n--ignore=AMP010").code == 2  # a path, no option
    assert not list(project.rglob("ran"))


def test_messages_are_no_commands_to_the_runner(action, project):
    (project / "pyproject.toml").write_text('[tool.amp-migrate]\nselect = ["A\\n::add-mask::a"]\n')
    commit(project, "hostile configuration")
    result = run(action, project, {})
    assert result.code == 2
    lines = result.log.splitlines()
    stopped = next(number for number, line in enumerate(lines) if line.startswith("::stop-commands::"))
    token = lines[stopped].removeprefix("::stop-commands::")
    quoted = [number for number, line in enumerate(lines) if "::ADD-MASK::A" in line.upper()]
    assert quoted and all(stopped < number < lines.index(f"::{token}::") for number in quoted)


def test_twice_in_a_job(action, project):
    assert patched(run(action, project, {}, paths="old.py")) == ["old.py"]
    assert patched(run(action, project, {}, paths="plain.py")) == []
    assert patched(run(action, project, {}, paths="plain.py", args="--select AMP050\n")) == ["plain.py"]
