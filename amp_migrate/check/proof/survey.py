"""What is about mixed precision in a program: under which conditions it is on, and what runs in which world."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import Any

from amp_migrate.check.proof.erase import Around, Eraser, Found, anyhow
from amp_migrate.check.proof.program import Scope
from amp_migrate.check.proof.side import Side, apex_name
from amp_migrate.check.proof.worlds import World

_MOST_GUARDS = 6  # each has a world of its own


class Survey:
    """A side, looked at once in no world in particular."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.found = self._look()
        if self.found.casts:  # casts to float32 count as well then
            side.is_half = True
            side.come_to.clear()
            side.erased.clear()
            del side.about
            self.found = self._look()

    def _look(self) -> Found:
        """What erasure comes across everywhere; of what sets mixed precision up, the tests around its calls as well."""
        found = Found()
        world = World(self.side.keys, {}, self.side.carried, None)
        for scope in (one for one in self.side.flow.functions if one in self.side.about):
            found.add(anyhow(self.side, scope)[1])
        waiting = [scope.function for scope in [*(one for one, _ in found.switches), *(one for one, *_ in found.casts)]]
        seen = set(waiting)
        while waiting:
            for scope, one in self.side.flow.callers.get(waiting.pop(), ()):
                eraser = Eraser(self.side, world, scope, found)
                eraser.note(found.around.get(one, ()))
                if scope.function not in seen:
                    seen.add(scope.function)
                    waiting.append(scope.function)
        return found

    @cached_property
    def _guards(self) -> tuple[dict[str, Any], list[tuple[bool, set[str]]]]:
        """The values of the conditions around what erasure takes away, where mixed precision is on, and the conditions
        of each such place with whether it sets mixed precision up.
        """
        key = self.side.keys.key
        named = [one for one in self.found.levels if self.side.keys.number_of_level(*one) is None]
        levels = {key(*one): self._written(*one) for one in named}
        answers: dict[str, set[Any]] = {level: {known or "O1"} for level, known in levels.items()}
        answers |= {text: {False} for text in self._zeros}
        unknown = {level for level, known in levels.items() if known is None}
        places: list[tuple[bool, set[str]]] = [(True, unknown.union(self._zeros))]
        for sets_up, tests in self.found.tests:
            texts = {key(scope, test): holds for scope, test, holds in tests}
            texts = {text: holds for text, holds in texts.items() if text.partition(" ")[0] not in levels}
            places.append((sets_up, set(texts)))
            for text, holds in texts.items():
                answers.setdefault(text, set()).add(holds)
        on = {text: min(values) for text, values in answers.items() if len(values) == 1}
        return on, [(sets_up, texts & on.keys()) for sets_up, texts in places]

    @cached_property
    def _zeros(self) -> dict[str, str]:
        """The tests that put mixed precision off whose level is made of a number, with the number."""
        numbers = (self.side.keys.number_of_level(*one) for one in self.found.levels)
        keys = [self.side.keys.key(*number) for number in numbers if number is not None]
        return {f"{key} Eq 0": key for key in keys}

    def _written(self, scope: Scope, level: ast.expr) -> str | None:
        """A level that is written down; None for one that is not known before the program runs."""
        meant = self.side.keys.meant(scope, level)
        value = meant[1].value if meant is not None and isinstance(meant[1], ast.Constant) else None
        return value if isinstance(value, str) else None

    @cached_property
    def worlds(self) -> dict[str, dict[str, Any]]:
        """The values of the conditions for mixed precision: where it is on, and where one of them puts it off or lets
        it be unused. What is used in mixed precision had been set up (rule L1): where that is off, its uses are off as
        well.
        """
        on, places = self._guards
        setups = sorted({text for sets_up, texts in places if sets_up for text in texts})
        uses = [texts for sets_up, texts in places if not sets_up and texts]
        found = {"on": on}
        guards = [*setups, *sorted({text for texts in uses for text in texts} - {*setups})]
        for text in guards[:_MOST_GUARDS]:
            flipped = {text}
            for one in uses if text in setups else ():
                flipped |= set() if one & flipped else one
            found[f"off, by {text}" if text in setups else f"not used, by {text}"] = _consistent(
                on, flipped, self._zeros
            )
        if self.found.asks_for_handle and not setups:
            found["off"] = _consistent(on, set(on), self._zeros)
        return found

    def plain(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """The worlds with these values where half precision is off, each by one condition: with all that is used in it
        off as well, and with what other scripts use as it is.
        """
        on = self.worlds["on"]
        offs = {title: one for title, one in self.worlds.items() if title.startswith("off")}
        with_uses = [{text: one[text] for text in on if one[text] != on[text]} for one in offs.values()]
        alone = [{text: one[text] for text in on if title == f"off, by {text}"} for title, one in offs.items()]
        return [{**values, **one} for one in (*with_uses, *alone)]

    def is_on(self, title: str, values: dict[str, Any], near: Scope | None = None) -> bool | None:
        """True where Apex is set up in this world, or a script casts to half by itself; in a plain one, in any case.
        None where that cannot be told. Of several setups, those `near` a function count for it.
        """
        world = World(self.side.keys, values, self.side.carried, False if title.startswith("off") else None)
        calls = (one for file in self.side.flow.files for one in file.calls)
        if any(apex_name(scope.file, one.func) == "initialize" for scope, one in calls):
            live = self.live(world)
            return any(
                self.runs(world, self.found.around[one]) and _is_setup_on(world, scope, one)
                for scope, one in self._setups_near(near)
                if scope.function in live
            )
        if title == "on" or not self.side.is_half:
            return not title.startswith("off")
        cast, may_be_cast = (self._cast(world, self.live(world, surely=surely)) for surely in (True, False))
        return bool(cast) if cast == may_be_cast and cast in (set(), self._cast_where_on) else None

    @cached_property
    def _setups(self) -> list[tuple[Scope, ast.Call]]:
        return [(scope, one) for scope, one in self.found.switches if apex_name(scope.file, one.func) == "initialize"]

    def _setups_near(self, function: Scope | None) -> list[tuple[Scope, ast.Call]]:
        """Those that a function leads to, or else its callers do, and so on: a test after a training has its own."""
        level, seen = ({function} if function is not None else set()), set[Scope]()
        while level:
            found = [one for one in self._setups if not level.isdisjoint(self._leading(one[0].function))]
            if found:
                return found
            seen |= level
            level = {at.function for one in level for at, _ in self.side.flow.callers.get(one, ())} - seen
        return self._setups

    def _leading(self, function: Scope) -> set[Scope]:
        """A function, and what may call it, at any depth."""
        found, waiting = {function}, [function]
        while waiting:
            new = {at.function for at, _ in self.side.flow.callers.get(waiting.pop(), ())} - found
            found |= new
            waiting += new
        return found

    def _cast(self, world: World, live: set[Scope]) -> set[ast.expr]:
        """The weights that are cast to half in a world."""
        return {one for scope, one, around in self._weights if scope.function in live and self.runs(world, around)}

    @cached_property
    def _cast_where_on(self) -> set[ast.expr]:
        world = World(self.side.keys, self.worlds["on"], self.side.carried, None)
        return self._cast(world, self.live(world))

    @cached_property
    def _weights(self) -> list[tuple[Scope, ast.expr, Around]]:
        """The casts to half of what an optimizer has the parameters of; all casts where none is known to be of that."""
        return [one for one in self.found.casts if self.side.trained.holds(one[0], one[1])] or self.found.casts

    def runs(self, world: World, around: Around) -> bool:
        """True for a place that a world may come to, as the tests around it are answered there."""
        return all(world.truth(scope, test) in (None, holds) for scope, test, holds in around)

    def live(self, world: World, *, surely: bool = False) -> set[Scope]:
        """The functions that may run in a world, or `surely` do where what calls them does: modules, trainings and
        setups that nothing is seen to call, and what these call.
        """
        callers = self._callers[surely]
        roots = {scope for scope in self.side.flow.functions if not scope.name or scope in self._trainings}
        live = {scope for scope in roots if not scope.name or not callers.get(scope)}
        waiting = [(scope, at, one) for scope, calls in callers.items() for at, one in calls]
        before = -1
        while before != (before := len(live)):
            waiting = [one for one in waiting if one[0] not in live]
            for scope, at, one in waiting:
                if at.function in live and one in self.found.around and self.runs(world, self.found.around[one]):
                    live.add(scope)
        return live

    @cached_property
    def _callers(self) -> tuple[dict[Scope, list[tuple[Scope, ast.Call]]], dict[Scope, list[tuple[Scope, ast.Call]]]]:
        flow = self.side.flow
        sure = {scope: [one for one in calls if scope in flow.certain(*one)] for scope, calls in flow.callers.items()}
        return flow.callers, sure

    @cached_property
    def _trainings(self) -> set[Scope]:
        """The functions that make a backward or set mixed precision up, by themselves or by what they call; and what
        makes the objects that they belong to.
        """
        calls = [(scope, one) for file in self.side.flow.files for scope, one in file.calls]
        found = {scope.function for scope, one in calls if _is_backward(one)}
        found |= {scope.function for scope, _ in self.found.switches}
        found = {one for function in found for one in self._leading(function)}
        owners = {scope.owner for scope in found} - {None}
        return found | {one for owner in owners if owner for one in self.side.flow.entered(owner)}


def _consistent(on: dict[str, Any], flipped: set[str], zeros: dict[str, str]) -> dict[str, Any]:
    """The values with some of them the other way; what equals one of several values equals none of the others, and of a
    number that is 0 nothing else is asked.
    """
    values = {text: ("O0" if one == "O1" else not one) if text in flipped else one for text, one in on.items()}
    for text in sorted(flipped, key=lambda one: (one not in zeros, one)):
        left, is_equal, _ = text.partition(" Eq ")
        if is_equal and values[text] is True:
            values |= {one: False for one in values if one != text and one.startswith(f"{left} Eq ")}
    for number in (number for zero, number in zeros.items() if values.get(zero) is True):
        values = {text: one for text, one in values.items() if not text.startswith(f"{number} ")} | {number: 0}
    return values


def _is_backward(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("backward", "scale_loss")


def _is_setup_on(world: World, scope: Scope, node: ast.Call) -> bool:
    """True for a call that sets mixed precision up, unless it is told not to in this world."""
    given = {one.arg: one.value for one in node.keywords}
    enabled = given.get("enabled", node.args[2] if len(node.args) > 2 else None)
    level = given.get("opt_level", node.args[3] if len(node.args) > 3 else None)
    is_off = enabled is not None and world.truth(scope, enabled) is False
    return not is_off and (level is None or world.value(scope, level) != "O0")
