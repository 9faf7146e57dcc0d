"""Do something right after a module has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call `call(module)` when the script first imports the module `name`."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            break
    else:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.calls.setdefault(name, []).append(call)


class _Finder(MetaPathFinder):
    """Finds nothing of its own: it wraps the loader that the other finders give."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Callable[[ModuleType], None]]] = {}

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.calls:
            return None
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Loader(spec.loader, self.calls[name])
                    return spec
        return None


class _Loader(Loader):
    def __init__(self, loader: Any, calls: list[Callable[[ModuleType], None]]) -> None:
        self._loader = loader
        self._calls = calls

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for call in self._calls:
            call(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
