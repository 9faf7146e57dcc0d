"""Every instance that uses the scaler gets one, whichever constructor made it.

class Engine:                            class AdamEngine(Engine):
    def __init__(self, model): ...           def __init__(self, model): ...      no super().__init__(model)
    def train(self): ...                     creates a scaler of its own
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function
from amp_migrate.plan.scaler.binding import Creation

Create = Callable[[Function], Creation | None]


class Constructors:
    """The classes whose instances run one of some methods, and what sets these instances up."""

    def __init__(self, facts: Facts, methods: Iterable[Function]) -> None:
        self.facts = facts
        self.methods = list(methods)

    def completed(self, creations: list[Creation], create: Create) -> list[Creation]:
        """The creations, and one for each constructor that would leave its instances without; empty where `create`
        cannot make that one. A constructor that calls such a one of its base class needs none of its own any more.
        """
        found = list(creations)
        for owner in self._classes:
            missing = self._missing(owner, found)
            creation = create(missing) if missing is not None else None
            if creation is not None:
                found = [one for one in found if not self._is_spared_by(creation, one)] + [creation]
            elif not self._has_one(owner, found):
                return []
        return found

    def _is_spared_by(self, creation: Creation, other: Creation) -> bool:
        """True where a creation in `super().__init__()` comes early enough for what the other is there for."""
        return not other.before and self._leads_up(other.function, [creation.function])

    def all_have_one(self, creations: list[Creation]) -> bool:
        """False where an instance of a class that creates no scaler runs one of the methods, too."""
        return all(self._has_one(owner, creations) for owner in self._classes)

    def constructors(self) -> set[Function | None]:
        """The `__init__` of each class that is more than a base; None where that is not in the unit."""
        return {self._method(owner, "__init__") for owner in self._classes if not self._is_abstract(owner)}

    @property
    def _classes(self) -> list[Class]:
        """The classes that run one of the methods, base classes first."""
        found = [owner for owner in self.facts.tree.classes if any(self._runs(owner, one) for one in self.methods)]
        return sorted(found, key=lambda owner: len(self.facts.objects.ancestors(owner)))

    def _runs(self, owner: Class, method: Function) -> bool:
        own = self._method(owner, method.name) if method.owner in self.facts.objects.ancestors(owner) else None
        return own is not None and self.facts.calls.reaches(own, lambda function: function is method)

    def _missing(self, owner: Class, creations: list[Creation]) -> Function | None:
        """The method that should create the scaler for a class, and does not."""
        inherited = [one.function for one in creations if one.function.owner in self.facts.objects.ancestors(owner)]
        names = [function.name for function in inherited] or ["__init__"]
        methods = [self._method(owner, name) for name in dict.fromkeys(names)]
        return next((one for one in methods if one is not None and not self._leads_up(one, inherited)), None)

    def _has_one(self, owner: Class, creations: list[Creation]) -> bool:
        return self._is_set_up(owner, creations) or self._is_abstract(owner)

    def _is_set_up(self, owner: Class, creations: list[Creation]) -> bool:
        is_created = any(one.function.owner in self.facts.objects.ancestors(owner) for one in creations)
        return is_created and self._missing(owner, creations) is None

    def _leads_up(self, method: Function, targets: list[Function]) -> bool:
        """True where a method is one of some others, or calls one that it overrides: `super().__init__()`."""
        overridden = [one for one in self.facts.calls.callees(method) if one.name == method.name and one is not method]
        return method in targets or any(self._leads_up(one, targets) for one in overridden)

    def _is_abstract(self, owner: Class) -> bool:
        """True for a base class of which nobody makes an instance."""
        return len(self.facts.objects.derived(owner)) > 1 and not self.facts.objects.makers.get(owner)

    def _method(self, owner: Class, name: str) -> Function | None:
        return self.facts.objects.method_of(owner, name)


def methods_of(functions: Iterable[Function]) -> list[Function]:
    """The methods that some functions are, or are defined in."""
    return [method for function in functions if (method := function.method) is not None]
