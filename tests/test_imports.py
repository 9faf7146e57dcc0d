"""What is imported when: start-up is what a pre-commit hook pays on every commit."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _imported(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    return set(output.split())


@pytest.mark.parametrize(
    "source", ["import torch", "amp = 1  # the way from apex to base", "text = 'import apex.amp, by hand'"]
)
def test_nothing_to_do_costs_no_libcst(source):
    modules = _imported(
        f"from amp_migrate import migrate_source\nmigrate_source({source.encode()})\nimport amp_migrate.cli"
    )
    assert "amp_migrate.cli" in modules
    assert not modules & {"libcst", "torch"}
    rules = {name for name in modules if name.startswith("amp_migrate.rules.")}
    assert rules <= {"amp_migrate.rules.rule", "amp_migrate.rules.source_forms"}


def test_migrating_never_imports_torch_or_slow_parts_of_libcst():
    modules = _imported(
        "from amp_migrate import migrate_source\nmigrate_source(b'from apex import amp\\namp.state_dict()')"
    )
    assert "libcst" in modules
    assert not modules & {"torch", "libcst.matchers", "libcst.codemod"}


# What says something and imports nothing but its like.
_LEAVES = {
    "apex_exports",
    "findings",
    "home",
    "models",
    "options",
    "patterns",
    "result",
    "rules",
    "selection",
    "module_text",
    "vocabulary",
}


@pytest.mark.parametrize("module", ["amp_migrate.check", "amp_migrate.facts"])
def test_the_checker_knows_neither_plan_nor_emitter(module):
    parts = {name.split(".")[1] for name in _imported(f"import {module}") if name.startswith("amp_migrate.")}
    assert parts <= _LEAVES | {"check", "facts", "interp"}
