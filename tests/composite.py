"""Runs a composite action as a runner of GitHub would: step by step, with bash, conditions and outputs.

Only what ours uses: `run` steps, `env`, `if`, and expressions of names, texts, `||`, `&&`, `==` and `!=`. Steps that
use other actions are noted, not run.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

_TOKEN = re.compile(r"'[^']*'|\|\||&&|==|!=|[\w.-]+")
_OPERATORS = {"||": "or", "&&": "and", "==": "==", "!=": "!="}


@dataclasses.dataclass
class Run:
    """What came of it: the exit code of the step that ended it, and what was printed."""

    code: int
    log: str
    summary: str
    outputs: dict[str, str]
    ran: list[str]
    used: list[dict[str, Any]]


@dataclasses.dataclass
class Composite:
    """An action, and the machine it runs on: `temporary` is RUNNER_TEMP."""

    folder: Path
    temporary: Path
    environment: dict[str, str]

    @property
    def content(self) -> dict[str, Any]:
        return yaml.safe_load((self.folder / "action.yml").read_text())

    def run(self, workspace: Path, event: dict[str, Any], *, skip: tuple[str, ...] = (), **inputs: str) -> Run:
        """Run all steps but those named in `skip`, in a checkout, for an event."""
        given = {name: str(one["default"]) for name, one in self.content["inputs"].items()}
        assert set(inputs) <= set(given)
        context: dict[str, Any] = {"inputs": given | inputs, "github": {"token": "t", "event": event}, "steps": {}}
        result = Run(0, "", "", {}, [], [])
        summary = self.temporary / "summary.md"
        summary.write_text("")
        for step in self.content["runs"]["steps"]:
            if step["name"] in skip or ("if" in step and not _value(step["if"], context)):
                continue
            result.ran.append(step["name"])
            if "uses" in step:
                result.used.append({**step, "with": {k: _text(v, context) for k, v in step["with"].items()}})
                continue
            done, outputs = self._step(step, workspace, context, summary)
            context["steps"][step.get("id", "")] = {"outputs": outputs}
            result.code, result.log = done.returncode, result.log + done.stdout
            if done.returncode:
                break
        result.summary = summary.read_text()
        result.outputs = {name: _text(one["value"], context) for name, one in self.content["outputs"].items()}
        return result

    def _step(
        self, step: dict[str, Any], workspace: Path, context: dict[str, Any], summary: Path
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression in the text of a script could be code"
        output = self.temporary / "output"
        output.write_text("")
        script = self.temporary / "step.sh"
        script.write_text(step["run"])
        environment = {
            **self.environment,
            "GITHUB_ACTION_PATH": str(self.folder),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(self.temporary),
            **{name: _text(value, context) for name, value in step.get("env", {}).items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(
            command,
            cwd=workspace / _text(step.get("working-directory", "."), context),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done, dict(line.split("=", 1) for line in output.read_text().splitlines())


def inherited() -> dict[str, str]:
    """The environment of the tests, without what would make Python find this checkout, or git another repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GITHUB_", "GIT_"))}


def _text(template: Any, context: dict[str, Any]) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(_value(match[1], context) or ""), str(template))


def _value(expression: str, context: dict[str, Any]) -> Any:
    names: dict[str, Any] = {}

    def python(token: str) -> str:
        if token in _OPERATORS:
            return _OPERATORS[token]
        names[f"v{len(names)}"] = token[1:-1] if token.startswith("'") else _looked_up(token, context)
        return f"v{len(names) - 1}"

    return eval(" ".join(python(token) for token in _TOKEN.findall(expression)), {}, names)


def _looked_up(name: str, context: dict[str, Any]) -> Any:
    value: Any = context
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
