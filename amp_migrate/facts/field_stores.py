"""Which stores are to a field of one object, out of all those to fields of that name."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import libcst as cst

from amp_migrate.facts.stores import Store

_Object = TypeVar("_Object", bound=Hashable)


class FieldStores(Generic[_Object]):
    """The stores to the fields of one name, by the objects that they are to.

    These may still be worked out while somebody asks: a store is filed once they `are_known`, and is looked at anew by
    everybody who asks before.
    """

    def __init__(
        self,
        stores: list[Store],
        objects: Callable[[cst.BaseExpression], frozenset[_Object]],
        are_known: Callable[[cst.BaseExpression], bool],
    ) -> None:
        self._waiting = stores
        self._filed: dict[_Object, list[Store]] = {}
        self._objects = objects
        self._are_known = are_known

    def by(self, one: _Object) -> list[Store]:
        """The stores to the field of an object."""
        waiting = list(self._waiting)  # what is asked below may file some of them
        found = [*self._filed.get(one, ()), *(store for store in waiting if one in self._objects(store.base))]
        self._file()
        return found

    def _file(self) -> None:
        waiting = []
        for store in self._waiting:
            if self._are_known(store.base):
                for one in self._objects(store.base):
                    self._filed.setdefault(one, []).append(store)
            else:
                waiting.append(store)
        self._waiting = waiting
