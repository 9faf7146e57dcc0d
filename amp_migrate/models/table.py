"""The rows: measured ones from torch.json, and those written by hand, which go before them.

Each file has one row a line, without what is as in `Operation` by default. Reading them imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from amp_migrate.models.dtypes import Dtype
from amp_migrate.models.operation import Operation

_FOLDER = Path(__file__).parent
_METHODS = "torch.Tensor."
_configured: dict[str, dict[str, Any]] = {}
# Where else torch's names stand: the front is exchanged.
_MOVED = (
    ("torch.functional.", "torch."),
    ("torch.cuda.", "torch."),
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch.nn.quantizable.", "torch.nn."),
)


def function(dotted: str) -> Operation | None:
    """A function, by its full name."""
    return _named(dotted)


def method(name: str) -> Operation | None:
    """A method or property of a tensor."""
    return _operation(_METHODS + name)


def is_tensor_function(dotted: str | None) -> bool:
    """True for the name of a function that returns a tensor."""
    row = function(dotted) if dotted is not None else None
    return row is not None and row.kind == "function" and row.result not in ("number", "nothing")


def is_distribution(dotted: str | None) -> bool:
    """True for a class of torch.distributions: its instances, transforms among them, are no tensors."""
    name = dotted.rpartition(".")[2] if dotted is not None and dotted.startswith("torch.distributions.") else ""
    return name[:1].isupper()


def layer(dotted: str) -> Operation | None:
    """A class of modules, as torch.nn.Linear; a project does not say which of its own names are classes."""
    found = _named(dotted)
    return found if found is not None and (found.kind == "layer" or dotted in _configured) else None


@cache
def names(predicate: Callable[[Operation], bool]) -> frozenset[str]:
    """The bare names of functions and methods of which the predicate holds in each row of that name."""
    holds: dict[str, bool] = {}
    for name in _rows():
        row = _operation(name)
        if row is not None and row.kind != "layer" and not row.guess:
            holds[row.bare] = holds.get(row.bare, True) and predicate(row)
    return frozenset(name for name, does in holds.items() if does)


@cache
def layers(predicate: Callable[[Operation], bool]) -> frozenset[str]:
    """The bare names of the layers of torch.nn of which the predicate holds."""
    found = (_operation(name) for name, row in _rows().items() if row.get("kind") == "layer")
    return frozenset(one.bare for one in found if one is not None and predicate(one))


def rows() -> Iterator[Operation]:
    """All rows, by their names."""
    found = (_operation(name) for name in sorted(_rows()))
    yield from (row for row in found if row is not None)


def configure(results: Iterable[tuple[str, str]]) -> None:
    """The project's own rows, in the place of those of the project before: names, and the rules of their results."""
    rows = {name: {"result": rule, "kind": "function", "source": "configured"} for name, rule in results}
    if rows != _configured:
        _configured.clear()
        _configured.update(rows)
        for cached in (_rows, _operation, names, layers):
            cached.cache_clear()


def _named(dotted: str) -> Operation | None:
    found = _operation(dotted)
    if found is None and dotted.startswith("torch.nn.modules."):
        return _operation("torch.nn." + dotted.rpartition(".")[2])
    for front, meant in _MOVED:
        if found is None and dotted.startswith(front):
            found = _operation(meant + dotted.removeprefix(front))
    return found


@cache
def _operation(name: str) -> Operation | None:
    row = _rows().get(name)
    if row is None:
        return None
    fields = {"name": name, "kind": _kind(name)} | row
    fields["without"] = frozenset(map(Dtype, row.get("without", ())))
    fields["outputs"] = tuple(row.get("outputs", ()))
    return Operation(**fields)


def _kind(name: str) -> str:
    return "method" if name.startswith(_METHODS) else "function"


@cache
def _rows() -> dict[str, dict[str, Any]]:
    measured, written = (json.loads((_FOLDER / file).read_bytes()) for file in ("torch.json", "written.json"))
    rows: dict[str, dict[str, Any]] = measured["rows"]
    for name, row in written["rows"].items():
        rows[name] = rows.get(name, {}) | row
    for lacking in written["no half"]:
        for name in lacking["names"]:
            rows[name]["without"] = [*rows[name].get("without", ()), "half"]
    for gone in written["removed"]:
        rows |= {f"torch.{name}": gone["row"] for name in gone["names"].split()}
    for known in written["ranges"]:
        rows |= {name: rows[name] | {"values": known["range"]} for name in known["names"]}
    return rows | _configured


def measured_with() -> str:
    """The version of torch that the table was measured with."""
    return str(json.loads((_FOLDER / "torch.json").read_bytes())["torch"])
