"""Files on disk: what the project declares, what is searched, what is refused."""

from __future__ import annotations

import os
import subprocess

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from amp_migrate.files import imports
from amp_migrate.files.discover import find_files
from amp_migrate.files.torch_version import declaration, spelling_in
from amp_migrate.report.diff import unified_diff
from tests.test_cli import SCRIPT, run


@pytest.mark.parametrize(
    ("name", "line", "api"),
    [
        ("requirements.txt", "torch>=2.4", "torch.amp"),
        ("requirements.txt", "torch==1.6.0", "torch.cuda.amp"),
        ("requirements.txt", "torch<2.0", "torch.cuda.amp"),
        ("requirements.txt", "torch (>=1.5)", "torch.cuda.amp"),
        ("requirements.txt", "# torch>=2.4 one day\ntorch==1.6", "torch.cuda.amp"),
        ("requirements.txt", "https://host/torch-1.7.0-cp38-cp38-linux_x86_64.whl", "torch.cuda.amp"),
        ("pyproject.toml", 'torch = "^1.10"', "torch.cuda.amp"),
        ("pyproject.toml", 'torch = {version = "1.10.0"}', "torch.cuda.amp"),
        ("pyproject.toml", 'dependencies = ["torch>=2.3", "numpy"]', "torch.amp"),
        ("environment.yml", "  - pytorch::pytorch=1.7", "torch.cuda.amp"),
        ("environment.yml", "  - pytorch=2.5", "torch.amp"),
        ("setup.py", "install_requires=['torch>=1.4,<3']", "torch.cuda.amp"),
    ],
)
def test_the_declared_torch(tmp_path, name, line, api):
    (tmp_path / name).write_text(line + "\n")
    (tmp_path / ".git").mkdir()
    assert spelling_in(tmp_path / "train.py", None).api == api


@pytest.mark.parametrize(
    ("declared", "configured", "installed", "said"),
    [
        ("torch>=2.4", None, None, "torch.amp: requirements.txt:1 admits torch 2.4"),
        (
            "torch>=1.7",
            None,
            (2, 13),
            "torch.cuda.amp: requirements.txt:1 admits torch 1.7; --api torch.amp for 2.4 and newer",
        ),
        (
            "torch<3",
            None,
            None,
            "torch.cuda.amp: requirements.txt:1 admits torch of any age; --api torch.amp for 2.4 and newer",
        ),
        ("torch>=1.7", (2, 4), None, "torch.amp: target-torch is 2.4"),
        ("numpy", None, (2, 13), "torch.amp: torch 2.13 is installed here"),
        ("numpy", None, (2, 1), "torch.cuda.amp: torch 2.1 is installed here; --api torch.amp for 2.4 and newer"),
        (
            "numpy",
            None,
            None,
            "torch.cuda.amp: no torch is declared or installed here; --api torch.amp for 2.4 and newer",
        ),
    ],
)
def test_why_native_amp_is_spelled_so(tmp_path, monkeypatch, declared, configured, installed, said):
    (tmp_path / "requirements.txt").write_text(declared + "\n")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("amp_migrate.files.torch_version._installed", lambda: installed)
    spelling = spelling_in(tmp_path / "train.py", configured)
    assert f"{spelling.api}: {spelling.why}" == said


def test_the_summary_says_how_native_amp_is_spelled_where_the_user_did_not(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
    said = b"    torch.amp: requirements.txt:1 admits torch 2.4\n"
    assert said in run("train.py", cwd=tmp_path).stderr
    assert said not in run("train.py", "--api", "torch.amp", cwd=tmp_path).stderr
    (tmp_path / "train.py").write_bytes(b"import torch\n")
    assert said not in run("train.py", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("name", "line", "is_too_old"),
    [
        ("requirements.txt", "torch==1.4.0+cu92", True),
        ("requirements.txt", "torch == 0.4.1.post2", True),
        ("requirements.txt", "torch>=1.0", True),
        ("requirements.txt", "torch>=1.6", False),
        ("requirements.txt", "torch==1.13.1", False),
        ("requirements.txt", "torch<2", False),
        ("requirements.txt", "https://host/torch-1.2.0-cp36-cp36m-linux_x86_64.whl", True),
        ("requirements.txt", "https://host/torch-1.7.0-cp36-cp36m-linux_x86_64.whl", False),
        ("environment.yml", "  -pytorch=1.4", True),
        ("environment.yml", "  - efficientnet-pytorch=0.7.1\n  - pytorch=1.4", True),
        ("environment.yml", "  - pytorch=1.2.0=py3.7_cuda10.0.130_cudnn7.6.2_0", True),
        ("environment.yml", "  - pytorch=1.7.0=py3.7_0", False),
        ("pyproject.toml", 'torch = "^1.4"', True),
    ],
)
def test_a_declared_torch_without_native_amp(tmp_path, name, line, is_too_old):
    (tmp_path / name).write_text(f"numpy\n{line}\n")
    found = declaration(tmp_path / "train.py")
    assert (found.line, found.text) == (2 + line.count("\n"), line.split("\n")[-1].strip())
    assert found.is_before_native_amp == is_too_old


def test_a_tracked_folder_named_like_an_environment_is_searched(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "env/train.py").write_bytes(SCRIPT)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert [path.name for path in find_files([tmp_path])] == ["train.py"]


def test_a_file_comes_once_and_not_as_a_link(tmp_path):
    (tmp_path / "real.py").write_bytes(SCRIPT)
    (tmp_path / "a_link.py").symlink_to("real.py")
    assert [path.name for path in find_files([tmp_path, tmp_path / "real.py"])] == ["real.py"]


def test_diffs_are_relative_to_the_repository(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub dir").mkdir()
    monkeypatch.chdir(tmp_path / "sub dir")
    (tmp_path / "sub dir/x.py").touch()
    diff = unified_diff("x.py", b"a\n", b"b\n")
    assert diff.startswith(b"diff --git a/sub dir/x.py b/sub dir/x.py\n--- a/sub dir/x.py\t\n+++ b/sub dir/x.py\t\n@@ ")
    assert b'"a/t\\tab.py"' in unified_diff(str(tmp_path / "t\tab.py"), b"a\n", b"b\n")


def test_patches_from_a_folder_of_the_same_name(tmp_path):
    for folder in ("proj", "proj/proj"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_bytes(SCRIPT)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    patch = run("proj/x.py", cwd=tmp_path / "proj").stdout
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "proj", input=patch, check=True)
    assert (tmp_path / "proj/x.py").read_bytes() == SCRIPT != (tmp_path / "proj/proj/x.py").read_bytes()


@pytest.mark.parametrize(
    "more",
    [
        b"x = " + b"(" * 2000 + b"1" + b")" * 2000,
        b"x = " + b"not " * 20000 + b"1",
        b"x = " + b"-" * 20000 + b"1",
        b"try:\n    pass\nexcept A, e:\n    pass",
        b"x = 1\0",
    ],
    ids=["parentheses", "not", "minus", "python 2", "nul"],
)
def test_what_python_does_not_parse_is_left(more):
    source = SCRIPT + more + b"\n"
    result = migrate_source(source)
    assert (result.status, result.output) == ("error", source)
    assert result.findings[0].code == "AMP991"


@pytest.mark.parametrize("wrong", [{"dtype": "fp16"}, {"api": "torch"}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match="must be one of"):
        Options(**wrong)


def test_a_project_of_one_path(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    assert [result.status for result in migrate_project(str(tmp_path))] == ["migrated"]


def test_empty_path_and_closed_streams(tmp_path):
    assert run("", "--write", cwd=tmp_path).returncode == 2
    (tmp_path / "train.py").write_bytes(SCRIPT)
    if os.path.exists("/dev/full"):
        command = "import sys; from amp_migrate.cli import main; sys.argv = ['amp-migrate', 'train.py']; main()"
        assert b"Traceback" not in run("train.py", cwd=tmp_path).stderr
        with open("/dev/full", "wb") as full:
            environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))}
            environment.pop("PYTHONUNBUFFERED", None)  # with a buffer, Python tries once more when it ends
            done = subprocess.run(
                ["python", "-c", command],
                cwd=tmp_path,
                stdout=full,
                stderr=subprocess.PIPE,
                env=environment,
                check=False,
            )
        assert done.returncode == 2
        assert b"Traceback" not in done.stderr


def test_standard_input_is_a_file_of_the_current_folder(tmp_path):
    (tmp_path / "helper.py").write_bytes(b"from apex import amp\n\n\ndef save():\n    return amp.state_dict()\n")
    script = b"from helper import save\n" + SCRIPT + b"save()\n"
    result = run("-", "--write", cwd=tmp_path, stdin=script)
    assert b"AMP901" in result.stderr
    assert result.stdout == script


@pytest.mark.parametrize(
    ("statement", "unscaled"),
    [
        ("total = sum(p.grad.norm() for p in model.parameters())", True),
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", True),
        ("print(sum(p.norm() for p in model.parameters()))", False),
        ("for p in model.parameters(): p.grad = None", False),
    ],
)
@pytest.mark.parametrize(
    "statement_import", ["from watch import look", "from .watch import look", "from . import watch"]
)
def test_gradients_read_in_another_module_are_unscaled_first(tmp_path, statement, unscaled, statement_import):
    call = "watch.look(model)" if statement_import.endswith("watch") else "look(model)"
    before = SCRIPT.replace(b"import torch\n", b"import torch\n" + statement_import.encode() + b"\n", 1)
    before = before.replace(b"optimizer.step()", call.encode() + b"\n    optimizer.step()")
    (tmp_path / "train.py").write_bytes(before)
    (tmp_path / "watch.py").write_text(f"import torch\n\ndef look(model):\n    {statement}\n")
    [result] = [one for one in migrate_project(tmp_path) if one.path.endswith("train.py")]
    assert result.status == "migrated"
    assert (b"unscale_(" in result.output) == unscaled


def test_a_copy_of_apex_is_no_project_that_uses_it(tmp_path):
    """Its package, its tests and examples; what is named is looked at."""
    for part in ("amp", "fp16_utils", "parallel"):
        (tmp_path / "third" / "apex" / part).mkdir(parents=True)
        (tmp_path / "third" / "apex" / part / "__init__.py").touch()
    for name in ("setup.py", "apex/__init__.py", "tests/test_amp.py", "examples/main.py"):
        (tmp_path / "third" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "third" / name).touch()
    (tmp_path / "third" / "setup.py").write_text("setup(\n    name='apex',\n)\n")
    (tmp_path / "train.py").touch()
    (tmp_path / "apex").mkdir()
    (tmp_path / "apex" / "__init__.py").touch()
    assert sorted(find_files([tmp_path])) == [tmp_path / "apex" / "__init__.py", tmp_path / "train.py"]
    named = tmp_path / "third" / "apex" / "amp" / "__init__.py"
    assert find_files([named]) == [named]


def test_a_folder_that_scripts_name_where_they_change_the_path(tmp_path):
    script = tmp_path / "experiments" / "one" / "train.py"
    module = tmp_path / "lib" / "layers" / "own.py"
    for file in (script, module):
        file.parent.mkdir(parents=True)
    module.write_text("class Own: pass\n")
    script.write_text("import sys, os\nsys.path.append(os.path.join(os.path.dirname(__file__), '../../lib/'))\n")
    assert imports.canonical(script, "layers.own") == str(module.with_suffix(""))
