"""`[tool.amp-migrate]` in a project's pyproject.toml.

    [tool.amp-migrate]
    select = ["AMP010", "AMP060"]
    exclude = ["third_party"]
    target-torch = "2.1"
    per-file-ignores = {"legacy/*" = ["AMP050"]}
    operations = {"mypkg.fast_norm" = "single"}

What is given on the command line has the precedence. Unknown keys are errors: a typing mistake must not go unnoticed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from amp_migrate.models import RESULTS
from amp_migrate.options import Api, Dtype
from amp_migrate.patterns import Patterns
from amp_migrate.rules.source_forms import PLAIN
from amp_migrate.selection import wrong_with

_NAME = "pyproject.toml"
_TABLE = "[tool.amp-migrate]"


class ConfigError(Exception):
    """The configuration cannot be used; the message says where and why."""


@dataclasses.dataclass(frozen=True)
class Config:
    """What a project has set; None and empty where it has not."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[Patterns, tuple[str, ...]], ...] = ()
    exclude: Patterns | None = None
    api: Api | None = None
    dtype: Dtype | None = None
    torch: tuple[int, int] | None = None
    operations: tuple[tuple[str, str], ...] = ()


def config_for(paths: Sequence[Path]) -> Config:
    """The configuration of the project of some paths: of the nearest pyproject.toml above all of them that has one.

    Raises ConfigError.
    """
    folder = Path(os.path.commonpath([os.path.abspath(path) for path in paths] or [os.getcwd()]))
    for current in (folder, *folder.parents):
        file = current / _NAME
        if os.path.isfile(file):
            table = _table(file)
            if table is not None:
                return _read(table, file)
        if os.path.exists(current / ".git"):
            break
    return Config()


def _table(file: Path) -> dict[str, Any] | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    table = data.get("tool", {}).get("amp-migrate")
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{file}: {_TABLE} is no table")
    return table


def _read(table: dict[str, Any], file: Path) -> Config:
    reader = _Reader(file)
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise ConfigError(f"{file}: {_TABLE} has no key {unknown[0]!r}; there are {', '.join(_KEYS)}")
    return Config(**{field: read(reader, key, table[key]) for key, (field, read) in _KEYS.items() if key in table})


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads values; each method raises ConfigError for one of another kind."""

    file: Path

    def codes(self, key: str, value: Any) -> tuple[str, ...]:
        found = tuple(code.upper() for code in self.texts(key, value))
        wrong = wrong_with(found, are_selected=key == "select")
        if wrong is not None:
            raise self._error(key, wrong)
        return found

    def codes_by_pattern(self, key: str, value: Any) -> tuple[tuple[Patterns, tuple[str, ...]], ...]:
        if not isinstance(value, dict):
            raise self._error(key, f'is written {{"legacy/*" = ["{PLAIN}"]}}')
        return tuple((self._patterns((pattern,)), self.codes(key, codes)) for pattern, codes in value.items())

    def patterns(self, key: str, value: Any) -> Patterns:
        return self._patterns(self.texts(key, value))

    def api(self, key: str, value: Any) -> Any:
        return self._one_of(key, value, get_args(Api))

    def dtype(self, key: str, value: Any) -> Any:
        return self._one_of(key, value, get_args(Dtype))

    def version(self, key: str, value: Any) -> tuple[int, int]:
        found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", value) if isinstance(value, str) else None
        if found is None:
            raise self._error(key, 'is the oldest torch that the project supports, as in "2.1"')
        return int(found[1]), int(found[2])

    def results(self, key: str, value: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise self._error(key, 'is written {"mypkg.fast_norm" = "single"}')
        return tuple((name, self._one_of(f"{name} in {key}", result, RESULTS)) for name, result in value.items())

    def texts(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self._error(key, "is a list of texts")
        return tuple(value)

    def _patterns(self, patterns: tuple[str, ...]) -> Patterns:
        return Patterns(Path(os.path.realpath(self.file.parent)), patterns)

    def _one_of(self, key: str, value: Any, choices: Sequence[str]) -> Any:
        if value not in choices:
            raise self._error(key, f"is one of {', '.join(choices)}")
        return value

    def _error(self, key: str, message: str) -> ConfigError:
        return ConfigError(f"{self.file}: {key} of {_TABLE} {message}")


_KEYS = {
    "select": ("select", _Reader.codes),
    "ignore": ("ignore", _Reader.codes),
    "per-file-ignores": ("per_file_ignores", _Reader.codes_by_pattern),
    "exclude": ("exclude", _Reader.patterns),
    "api": ("api", _Reader.api),
    "dtype": ("dtype", _Reader.dtype),
    "target-torch": ("torch", _Reader.version),
    "operations": ("operations", _Reader.results),
}
