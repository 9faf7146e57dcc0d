"""Where a repository asks for NVIDIA's Apex, or speaks of it, outside of its Python code."""

from __future__ import annotations

import json

import pytest

from amp_migrate.files.mentions import mentions, mentions_in_notebook
from amp_migrate.sources.screen import line_of_apex_import

PYPI, SOURCE, SPOKEN, LAUNCHED = "AMP130", "AMP131", "AMP132", "AMP147"


def found(tmp_path, name, text):
    """Line and code of every finding in a repository of one file."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    findings = mentions(tmp_path)
    assert {finding.path for finding in findings} <= {str(file)}
    return [(finding.line, finding.code) for finding in findings]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("requirements.txt", "torch\napex\n", [(2, PYPI)]),
        ("requirements/train.txt", "apex~=0.1 ; python_version > '3'\n", [(1, PYPI)]),
        ("requirements.txt", "apex @ file:///tmp/build\n", [(1, SOURCE)]),
        ("requirements-gpu.in", "-e git+https://github.com/NVIDIA/apex.git@9041a86#egg=apex\n", [(1, SOURCE)]),
        ("requirements.txt", "torch\r\n# apex\r\n", [(2, SPOKEN)]),
        ("requirements.txt", "apex==0.1  # pip install apex\n# or git clone NVIDIA/apex\n", [(1, PYPI)]),
        ("requirements.txt", "torch\napex\n".encode("utf-16"), [(2, PYPI)]),
        (
            "setup.py",
            "setup(\n    name='x',\n    install_requires=[\n        'torch',\n        'apex>=0.1',\n",
            [(5, PYPI)],
        ),
        ("setup.py", "extras['fp16'] = ['apex']\n", [(1, PYPI)]),
        ("setup.py", "REQUIRED = ['apex @ git+https://github.com/NVIDIA/apex']\n", [(1, SOURCE)]),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch\n    apex\n", [(4, PYPI)]),
        ("pyproject.toml", '[project]\ndependencies = ["torch", "apex"]\n', [(2, PYPI)]),
        ("pyproject.toml", '[project.optional-dependencies]\napex = [\n  "apex==0.1",\n]\n', [(3, PYPI)]),
        ("pyproject.toml", '[tool.poetry.dependencies]\napex = "^0.9"\n', [(2, PYPI)]),
        ("pyproject.toml", '[tool.poetry.dependencies]\napex = {git = "https://github.com/a/apex"}\n', [(2, SOURCE)]),
        ("Pipfile", '[packages]\napex = "*"\n', [(2, PYPI)]),
        ("environment.yml", "dependencies:\n  - nvidia-apex=0.1\n  - pip:\n    - numpy\n", [(2, SOURCE)]),
        ("environment.yml", "dependencies:\n  - pip:\n    - apex==0.1\n  - vissl::apex\n", [(3, PYPI), (4, SOURCE)]),
    ],
)
def test_what_is_declared(tmp_path, name, text, expected):
    assert found(tmp_path, name, text) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "Dockerfile",
            "# Apex\nRUN git clone https://github.com/NVIDIA/apex \\\n && pip install ./apex\n",
            [(2, SOURCE)],
        ),
        ("docker/Dockerfile.gpu", "RUN pip install numpy \\\n  apex\n", [(2, PYPI)]),
        ("setup.sh", "pip3 install -v --no-cache-dir \\\r\n  -e /tmp/apex\r\n", [(2, SOURCE)]),
        ("setup.sh", "pip install apex -f https://host/apexwheels/download.html\n", [(1, SOURCE)]),
        ("setup.sh", "pip install git+https://host/a/b#egg=b apex  # not ./apex\n", [(1, PYPI)]),
        ("setup.sh", "conda install -c conda-forge nvidia-apex\n", [(1, SOURCE)]),
        (".github/workflows/test.yml", "jobs:\n  - run: pip install apex\n", [(2, PYPI)]),
        (".gitmodules", '[submodule "apex"]\n\turl = https://github.com/NVIDIA/apex.git\n', [(2, SOURCE)]),
        (
            "README.md",
            "```\ngit clone git@github.com:NVIDIA/apex.git\n```\nor `pip install apex`.\n",
            [(4, PYPI), (2, SOURCE)],
        ),
    ],
)
def test_what_is_installed_by_commands(tmp_path, name, text, expected):
    assert found(tmp_path, name, text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "Install [Apex](https://github.com/NVIDIA/apex) first.",
        "`--fp16` needs apex",
        "- apex==0.1",
        "see https://nvidia.github.io/apex/amp.html",
        "from apex import amp",
    ],
)
def test_what_documents_say(tmp_path, line):
    assert found(tmp_path, "docs/start.md", f"Training\n{line}\n") == [(2, SPOKEN)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "apexpy\ntorch-apex\napex-fuzzer==1\ngit+https://github.com/apex/gateway\n"),
        ("setup.py", "setup(name='apex', packages=['apex'], install_requires=['torch'])\n"),
        ("setup.cfg", "[options]\ninstall_requires = torch\n[isort]\nknown_third_party = apex\n"),
        ("pyproject.toml", '[project]\ndependencies = ["torch"]\n[[tool.mypy.overrides]]\nmodule = ["apex.*"]\n'),
        ("train.yml", "training:\n  apex: true\n  names:\n  - apex\n"),
        ("Dockerfile", "# RUN git clone https://github.com/NVIDIA/apex\nFROM own/apex:latest\n"),
        ("build.sh", "docker build -t own/hvd-apex .\npython train.py --apex\n"),
        ("README.md", "An aim bot for Apex Legends.\nSee ../apex/ and train_apex.py.\n"),
        ("CHANGELOG.md", "- fp16 with NVIDIA Apex\n"),
        ("install.py", "import apex\n"),
    ],
)
def test_what_is_not_nvidias(tmp_path, name, text):
    assert found(tmp_path, name, text) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("run.sh", "python -m torch.distributed.launch --nproc_per_node=2 train.py\n", "--nproc_per_node=2 train.py"),
        (
            "run.sh",
            "CUDA_VISIBLE_DEVICES=0,1 python3 -u -m torch.distributed.launch \\\n  --use_env train.py \\\n  --lr 1\n",
            "train.py ...",
        ),
        (
            "README.md",
            "```\npython -m apex.parallel.multiproc main.py -a r50\n```\n",
            "--nproc_per_node=gpu main.py ...",
        ),
    ],
)
def test_starts_of_scripts_by_old_launchers(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    (finding,) = mentions(tmp_path)
    assert (finding.code, finding.message) == (
        LAUNCHED,
        f"starts a script in an old way: write `torchrun {expected}`",
    )


def test_comments_start_nothing(tmp_path):
    assert found(tmp_path, "run.sh", "# python -m torch.distributed.launch train.py\ntorchrun train.py\n") == []


def test_one_finding_for_a_file_says_how_many_lines(tmp_path):
    (tmp_path / "README.md").write_text("NVIDIA Apex\nfp16 with apex\nno word of it\nimport apex\n")
    (finding,) = mentions(tmp_path)
    assert finding.message == "speaks of Apex (and 2 more lines); no Python file imports apex after the migration"


def test_what_still_needs_apex_is_named(tmp_path):
    (tmp_path / "requirements.txt").write_text("apex==0.1\n")
    (finding,) = mentions(tmp_path, needed_by="ddp.py:3")
    assert finding.message == "asks PyPI for `apex==0.1`; ddp.py:3 still imports apex"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (b"#     from apex.normalization import FusedLayerNorm\n", None),
        (b"x = 1  # needed import apex\n# import apex\nfrom apex import amp\n", 3),
        (b"import torch\nimport apex\n", 2),
    ],
)
def test_an_import_in_a_comment_needs_nothing(source, line):
    assert line_of_apex_import(source) == line


def test_bytes_that_are_no_text_and_links_do_no_harm(tmp_path):
    (tmp_path / "README.md").write_bytes(b"\xff\xfe\x00NVIDIA apex \xff")
    (tmp_path / "INSTALL.md").write_bytes(b"\xc3( NVIDIA apex\n")
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "again.md").symlink_to(tmp_path / "INSTALL.md")
    assert [finding.path for finding in mentions(tmp_path)] == [str(tmp_path / "INSTALL.md")]


# -- notebooks ------------------------------------------------------------------------------------------


def notebook(*cells):
    """A notebook of code cells, each a text; Markdown goes first, and an output that speaks of Apex last."""
    said = [{"output_type": "stream", "name": "stdout", "text": ["pip install apex\n"]}]
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": said} for cell in cells]
    text = {"cell_type": "markdown", "source": ["Run `pip install apex` first"]}
    return json.dumps({"cells": [text, *code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["!pip install apex"], [(2, 1, PYPI)]),
        (["import torch\n%pip install -q apex==0.1\n"], [(2, 2, PYPI)]),
        (["x = 1", "if colab:\n    !git clone https://github.com/NVIDIA/apex\n"], [(3, 2, SOURCE)]),
        (["%%bash\ncd /tmp\ngit clone https://github.com/NVIDIA/apex\npip install ./apex\n"], [(2, 3, SOURCE)]),
        (["%%capture\n!pip install numpy \\\n  apex\n"], [(2, 3, PYPI)]),
        (["log = !pip3 install apex\n"], [(2, 1, PYPI)]),
        (["%conda install -c conda-forge nvidia-apex"], [(2, 1, SOURCE)]),
        (["!pip install apex", "!pip install git+https://github.com/NVIDIA/apex"], [(2, 1, PYPI), (3, 1, SOURCE)]),
        (["!python -m torch.distributed.launch train.py\n"], [(2, 1, LAUNCHED)]),
        (["# !pip install apex\nx = 'pip install apex'\n!pip install numpy  # not apex\n"], []),
        (["%%writefile setup.sh\npip install apex\n", "from apex import amp"], []),
    ],
)
def test_what_the_cells_of_a_notebook_install(tmp_path, cells, expected):
    (tmp_path / "train.ipynb").write_text(notebook(*cells))
    assert [(*one.cell, one.code) for one in mentions(tmp_path)] == expected
    lines = notebook(*cells).split("\n")
    commands = [
        cell.splitlines()[line - 1] for cell, line in ((cells[number - 2], line) for number, line, _ in expected)
    ]
    assert all(text[:20] in lines[one.line - 1] for text, one in zip(commands, mentions(tmp_path), strict=True))


def test_a_notebook_that_is_no_notebook(tmp_path):
    (tmp_path / "train.ipynb").write_text("!pip install apex")
    assert mentions(tmp_path) == mentions_in_notebook(tmp_path / "train.ipynb") == []
