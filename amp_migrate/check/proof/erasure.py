"""Erasure: the original and the output without mixed precision are the same program, in every world."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator

from amp_migrate.check.proof.compare import Comparison, Parting
from amp_migrate.check.proof.erase import Eraser, Found
from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.normal import inlined, normal, stored
from amp_migrate.check.proof.partings import changed_calls, is_new_class, partings, single, uncompared
from amp_migrate.check.proof.program import File, References, Scope, default_of, parameters
from amp_migrate.check.proof.result import Assumption, Breach
from amp_migrate.check.proof.side import Side, apex_name
from amp_migrate.check.proof.survey import Survey
from amp_migrate.check.proof.switches import contradictions, enabled, is_island, is_scaler
from amp_migrate.check.proof.words import only_words_differ
from amp_migrate.check.proof.worlds import World

Body = list[ast.stmt]


class Erasure:
    """The comparison of two programs. `breaches` and `assumptions` are what it came to: of each function the first
    difference, or with `every` all of them.
    """

    def __init__(self, original: Side, output: Side, *, every: bool = False) -> None:
        self.every = every
        self.original = original
        self.output = output
        self.breaches: list[Breach] = []
        self._states: dict[Scope, list[ast.stmt]] = {}  # what saves and loads the state of scalers in the output
        self.assumptions: list[Assumption] = []
        files = output.program.files
        pairs = [(one, files[one.path]) for one in original.flow.files if one.path in files]
        self.pairs = [(old, new) for old, new in pairs if old.source != new.source and new.tree is not None]
        self.functions = [one for old, new in self.pairs for one in _changed(old, new)]
        for old, new in self.functions:
            had, has = ({one.arg for one in parameters(scope.node)} if scope.name else set() for scope in (old, new))
            if had != has:
                original.dropped[old], output.dropped[new] = had - has, has - had
        self.loses_sigmoid = _count(original, b"Sigmoid(") > _count(output, b"Sigmoid(")
        self.survey = Survey(original)
        output.is_half = original.is_half
        output.were_about = {(scope.file.path, scope.name) for scope, left in original.come_to.items() if left == ""}
        self.is_by_hand = original.is_half or bool(original.optimizers.found or original.scales)
        self.erased = set(self.survey.found.erased)
        for file, its in self.pairs:
            for scope in file.functions.values():
                if scope.name not in its.functions:
                    self._check_lost(file, its, scope)
        self._run()

    def _run(self) -> None:
        worlds = self.survey.worlds
        made = Survey(self.output)
        self.breaches += contradictions(self.output, made.found.switches)
        given = self._new_switches(made) if self.every else {}
        marks = bool(self.survey.found.switches and self.output.scalers.found) and not self.is_by_hand
        differing = {one for pair in self.functions for one in pair}
        same = {
            one
            for pair in self.pairs
            for file in pair
            for name, one in file.functions.items()
            if one not in differing and all(name in each.functions for each in pair)
        }
        for title, values in worlds.items():
            is_on = self.survey.is_on(title, values)
            assumed = given.get(title.partition(",")[0], {})
            world, other = (
                World(side.keys, known, side.carried, bool(is_on), marks and title == "on")
                for side, known in ((self.original, values), (self.output, {**assumed, **values}))
            )
            before, after = _Erased(self.original, world, same), _Erased(self.output, other, same)
            plain: list[_Erased] = []  # the programs that half precision by hand stands beside (rule G3)
            if self.is_by_hand:
                off = self.survey.plain(values)
                plain = [
                    _Erased(self.original, World(self.original.keys, one, self.original.carried, False), same)
                    for one in off
                ]
            unread = (
                before.unread(self.output, [old for old, _ in self.functions], own=False),
                after.unread(self.original, [new for _, new in self.functions], own=True),
            )
            for old, new in self.functions:
                self._compare(title, (old, new), (before, after), unread, plain)
            if not title.startswith("not used") and is_on is not None:
                self._check_switches(title, other, made)

    # -- what switches mixed precision on -----------------------------------------------------------------

    def _new_switches(self, made: Survey) -> dict[str, dict[str, object]]:
        """The conditions of the output for mixed precision that the original does not have, as under another name for
        its option: where that is on they hold, and where it is off they do not, which is assumed of them.
        """
        answers: dict[str, set[bool]] = {}
        for scope, test, holds in _switching(made):
            text = self.output.keys.key(scope, test)
            if isinstance(test, (ast.Name, ast.Attribute)) and self._is_new(scope, test, text):
                if text not in answers:
                    what = f"`{ast.unparse(test)}` is false where mixed precision is off"
                    self.assumptions.append(Assumption(scope.file.path, test.lineno, what))
                answers.setdefault(text, set()).add(holds)
        on: dict[str, object] = {text: min(one) for text, one in answers.items() if len(one) == 1}
        return {"on": on, "off": {text: not holds for text, holds in on.items()}}

    def _is_new(self, scope: Scope, test: ast.expr, text: str) -> bool:
        """True for an option, a parameter or an attribute of a name that the original does not have, and of which
        nothing is known but that it is given.
        """
        is_computed = self.output.keys.meant(scope, test) is not None and text == ast.unparse(test)
        if is_computed or not all(part.isidentifier() for part in text.split(".")):
            return False
        sources = [file.source for file in self.original.flow.files]
        if "." in text:  # as the key of what it means, or as it is written here
            known = {text.encode(), ast.unparse(test).encode()}
            return not any(one in source for source in sources for one in known)
        return not any(text in one.bound for one in self.original.flow.functions if one.name) and not any(
            text in file.functions[""].bound for file in self.original.flow.files
        )

    def _check_switches(self, title: str, world: World, made: Survey) -> None:
        """What switches it on natively is off where the original is off, and on where that is on."""
        live = made.live(world)
        runs = {one for at, one in [*made.found.switches, *made.found.uses] if at.function in live}
        runs = {one for one in runs if made.runs(world, made.found.around[one])}
        is_used = any(one in runs and one.func.attr == "scale" for _, one in made.found.uses)  # type: ignore[attr-defined]
        insisting = self._insisting(world) if self.every and not world.is_on else set()
        for scope, node in made.found.switches:
            if node not in runs or is_island(node) or (is_scaler(scope, node) and not is_used):
                continue
            if not world.is_on and (scope.file.path, _family(scope)) in insisting:
                continue  # who trains by it has mixed precision on: Apex raises where it was not set up
            given = enabled(node)
            own = self._world_of(title, world, scope)
            answer = True if given is None else own.truth(scope, given)
            if answer is not None and answer == self._was(own, scope, node):
                continue
            if answer is False and self.is_by_hand and is_scaler(scope, node):
                continue  # half weights need not scale their losses
            if answer is not None and answer != own.is_on:
                self._breach_of_switch(title, scope, node, is_on=answer)
            elif answer is None and not own.is_on and given is not None:
                what = f"`{ast.unparse(given)}` is false where mixed precision is off"
                self.assumptions.append(Assumption(scope.file.path, node.lineno, what))

    def _world_of(self, title: str, world: World, scope: Scope) -> World:
        """A world as a function sees it: where some setups are on in it and others off, by those that are for this."""
        file = self.original.program.files.get(scope.file.path)
        near = file.functions.get(scope.function.name) if file is not None else None
        is_on = self.survey.is_on(title, self.survey.worlds[title], near) if near is not None else world.is_on
        return world if is_on == world.is_on else World(world.keys, world.values, world.carried, is_on)

    def _breach_of_switch(self, title: str, scope: Scope, node: ast.Call, *, is_on: bool) -> None:
        """Once for each place: where several conditions put the original off, the first is named."""
        place = _place(scope.file, node)
        state = "on where the original is off" if is_on else "off where the original is on"
        if any(one.kind == "switch" and one.after == place and state in one.message for one in self.breaches):
            return
        condition = title.partition(", by ")[2]
        because = f", by `{condition}`" if condition else ": nothing is seen to set it up there" if is_on else ""
        message = f"mixed precision is {state}{because}"
        self.breaches.append(Breach("switch", scope.file.path, scope.name, None, place, message))

    def _was(self, world: World, scope: Scope, node: ast.Call) -> bool | None:
        """How the original switches its own native AMP in the same function; None where it has none there."""
        mine = World(self.original.keys, world.values, self.original.carried, world.is_on)
        for at, one in self.survey.found.switches:
            same_place = (at.file.path, at.function.name) == (scope.file.path, scope.function.name)
            if same_place and at.file.called(one.func) == scope.file.called(node.func):
                given = enabled(one)
                is_run = self.survey.runs(mine, self.survey.found.around[one])
                return is_run and (given is None or mine.truth(at, given) is not False)
        return None

    def _insisting(self, world: World) -> set[tuple[str, str]]:
        """The functions and classes of the original, by path and name, that scale by Apex whenever they run: not in a
        world in which nothing sets Apex up (rule L1).
        """
        mine = World(self.original.keys, world.values, self.original.carried, False)
        calls = [(scope, one) for file in self.original.flow.files for scope, one in file.calls]
        around, live = self.survey.found.around, self.survey.live(mine)
        for scope, one in calls:
            if apex_name(scope.file, one.func) == "initialize" and scope.function in live:
                if self.survey.runs(mine, around.get(one, ())):
                    return set()
        scaling = [(scope, one) for scope, one in calls if apex_name(scope.file, one.func) == "scale_loss"]
        return {
            (scope.file.path, _family(scope))
            for scope, one in scaling
            if scope.function.name and not _is_conditional(scope.function.node, one)
        }

    # -- functions --------------------------------------------------------------------------------------

    def _check_lost(self, old: File, new: File, scope: Scope) -> None:
        """A function that goes was about precision, or its class was, or nothing calls it any more that did before."""
        around, _, last = scope.name.rpartition(".")
        if scope in self.erased or (around and around not in {*new.functions, *(one.name for one in new.classes)}):
            return
        called = [
            at for at, one in self.original.flow.callers.get(scope, ()) if scope in self.original.flow.certain(at, one)
        ]
        if not called or f".{last}(".encode() in new.source:
            self.breaches.append(
                Breach("lost", old.path, scope.name, _place(old, scope.node), None, f"`{scope.name}` is gone")
            )

    def _compare(
        self,
        title: str,
        scopes: tuple[Scope, Scope],
        sides: tuple[_Erased, _Erased],
        unread: tuple[set[str], set[str]],
        plain: list[_Erased],
    ) -> None:
        old = scopes[0]
        comparison = self._comparison(scopes)
        parting = _signatures(comparison) if old.name else None
        parting = parting or self._statements(comparison, sides, unread)
        for one in plain if parting is not None and parting.before is not old.node else ():
            found = self._with_plain(scopes, sides, unread, one)
            if found is not None:
                parting, comparison = None, found
                break
        owner = old.owner if self.original.scales else None  # a trainer that keeps scale and copies by itself
        if parting is not None and owner is not None and any(one.owner is owner for one in self.erased):
            line = (_place(old.file, parting.before) or (1, ""))[0]
            comparison.assumed[line] = "half precision made by hand, which was not compared from here on"
        elif parting is not None:
            differences = self._partings(comparison, sides, unread) if self.every else [parting]
            for difference in differences:
                self._object(title, comparison, difference, differences)
        self.assumptions += [Assumption(old.file.path, line, what) for line, what in comparison.assumed.items()]

    def _object(self, title: str, comparison: Comparison, parting: Parting, others: list[Parting]) -> None:
        why = uncompared(parting, others) or self._why_out_of_sight(comparison, parting)
        if why is not None:
            place = _place(comparison.before.file, parting.before) or _place(comparison.after.file, parting.after)
            comparison.assumed[place[0] if place is not None else 1] = why
        for one in single(parting) if why is None else changed_calls(parting):
            self._breach(title, comparison, one)

    def _why_out_of_sight(self, comparison: Comparison, parting: Parting) -> str | None:
        """Why what is new may do what is lost: it is given a scaler, or the state of one is kept in another way."""
        if not self.every or not parting.lost:
            return None
        lines = {one.lineno for stmt in parting.new for one in ast.walk(stmt) if isinstance(one, ast.Call)}
        for scope, one in comparison.after.file.calls:
            if one.lineno in lines and scope.function is comparison.after:
                if any(self.output.scalers.holds(scope, arg) for arg in one.args):
                    if not self.output.flow.callees(scope, one):
                        return f"what `{ast.unparse(one.func)}` does with the scaler was not compared"
        kept = " ".join(map(ast.unparse, self._states.get(comparison.after, ())))
        if kept and all(_keeps_state(one) for one in parting.lost):
            parts = (one for stmt in parting.lost for one in ast.walk(stmt))
            keys = {repr(one.value) for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)}
            if any(key in kept for key in keys):
                return "the state of the scaler is kept in another way, which was not compared"
        return None

    def _breach(self, title: str, comparison: Comparison, parting: Parting) -> None:
        old, new = comparison.before, comparison.after
        before, after = _place(old.file, parting.before), _place(new.file, parting.after)
        kind = "words" if self.every and only_words_differ(comparison, parting) else "not the same program"
        message = f"with mixed precision {title}"
        self.breaches.append(Breach(kind, old.file.path, old.name, before, after, message))

    def _partings(
        self, comparison: Comparison, sides: tuple[_Erased, _Erased], unread: tuple[set[str], set[str]]
    ) -> list[Parting]:
        """All differences of a function, its head's first."""
        own = _signatures(comparison) if comparison.before.name else None
        bodies = self._normal(comparison, sides, unread)
        self._states[comparison.after] = [one for one in bodies[1] if _keeps_state(one)]
        found = [*([own] if own is not None else ()), *partings(comparison, *bodies)]
        if not found:
            return [Parting(comparison.before.node, comparison.after.node)]
        return [one for one in found if not is_new_class(one)]

    def _comparison(self, scopes: tuple[Scope, Scope], spare: frozenset[str] = frozenset()) -> Comparison:
        return Comparison(
            self.original,
            *scopes,
            loses_sigmoid=self.loses_sigmoid,
            erased=self.erased,
            spare=spare,
            halved={ast.unparse(value) for scope, value, _ in self.survey.found.casts if scope is scopes[0]},
        )

    def _with_plain(
        self,
        scopes: tuple[Scope, Scope],
        sides: tuple[_Erased, _Erased],
        unread: tuple[set[str], set[str]],
        plain: _Erased,
    ) -> Comparison | None:
        """The output against the original with its half precision off, and with what the output has of that on; None
        where they part. What half precision alone ran, and the output does not, is assumed to have been a part of it.
        """
        old, new = scopes
        mine, its, after = (
            list(_statements_in(one)) for one in (sides[0].body(old), plain.body(old), sides[1].body(new))
        )
        comparison = self._comparison(scopes, frozenset(map(ast.unparse, mine)))
        if self._statements(comparison, (plain, sides[1]), unread) is not None:
            return None
        most = Counter(map(ast.unparse, mine)) | Counter(map(ast.unparse, its))
        if any(count > most[text] > 0 for text, count in Counter(map(ast.unparse, after)).items()):
            return None  # what both programs have is not run twice
        kept = {ast.unparse(one) for one in [*its, *after]}
        for one in mine:
            if not isinstance(one, (ast.If, ast.For, ast.With)) and ast.unparse(one) not in kept:
                comparison.assumed[_line(one)] = "only half precision ran this, and the plain program does not"
        return comparison

    def _statements(
        self, comparison: Comparison, sides: tuple[_Erased, _Erased], unread: tuple[set[str], set[str]]
    ) -> Parting | None:
        """Where the statements of a function part in their normal form; names that only one side has are put back."""
        bodies = self._normal(comparison, sides, unread)
        for body, side, scope in zip(bodies, sides, (comparison.before, comparison.after), strict=True):
            loads = {one.id for node in body for one in walk(node) if isinstance(one, ast.Name)}
            if loads & side.side.dropped.get(scope, set()):
                return Parting(comparison.before.node, comparison.after.node)
        return comparison.block(*bodies)

    @staticmethod
    def _normal(
        comparison: Comparison, sides: tuple[_Erased, _Erased], unread: tuple[set[str], set[str]]
    ) -> tuple[Body, Body]:
        scopes = comparison.before, comparison.after
        read = [side.read(scope) for side, scope in zip(sides, scopes, strict=True)]
        bodies = [normal(sides[i].body(scopes[i]), read[i], unread[i]) for i in (0, 1)]
        names = [stored(body) for body in bodies]
        for i in (0, 1):
            if own := names[i] - names[1 - i]:
                bodies[i] = normal(inlined(bodies[i], own), read[i], unread[i])
        return bodies[0], bodies[1]


class _Erased:
    """The functions of one side in one world, erased when they are asked for. Of the `same` functions, which both sides
    have in the same words, it need not be known what is left of them.
    """

    def __init__(self, side: Side, world: World, same: Collection[Scope]) -> None:
        self.side = side
        self.world = world
        self.same = same
        self._bodies: dict[Scope, Body] = {}
        self._read: dict[Scope, References] = {}

    def body(self, scope: Scope) -> Body:
        if scope not in self._bodies:
            self._bodies[scope] = Eraser(self.side, self.world, scope, Found()).body()
        return self._bodies[scope]

    def read(self, scope: Scope) -> set[str]:
        """What is read of a function's names from elsewhere: by functions in it, or by all of the file for a module."""
        prefix = f"{scope.name}." if scope.name else ""
        inner = [one for name, one in scope.file.functions.items() if name.startswith(prefix) and one is not scope]
        return {*scope.elsewhere}.union(*(self._references(one).names for one in inner))

    def unread(self, other: Side, functions: list[Scope], *, own: bool) -> set[str]:
        """The attributes that only this side sets, and that nothing in it reads any more; with `own`, nothing by
        `self`: who reads one of that name of something else has done so before.
        """
        mine, its = ({target.attr for target in _attribute_targets(which)} for which in (self.side, other))
        found = mine - its
        changed = set(functions)
        for scope in self.side.flow.functions if found else ():
            for part in (self._references(scope) if scope in changed else scope.references).attributes:
                if part.attr in found and isinstance(part.ctx, ast.Load):
                    if not own or ast.unparse(part.value) == "self":
                        found.discard(part.attr)
        return found

    def _references(self, scope: Scope) -> References:
        """What an erased function refers to."""
        if scope in self.same:
            return scope.references
        if scope not in self._read:
            self._read[scope] = References(self.body(scope))
        return self._read[scope]


def _changed(old: File, new: File) -> Iterator[tuple[Scope, Scope]]:
    """The functions that both files have, and the modules, with another text in each."""
    for name, scope in old.functions.items():
        other = new.functions.get(name)
        if other is not None and (not name or _text(scope) != _text(other)):
            yield scope, other


def _text(scope: Scope) -> list[str]:
    node = scope.node
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])  # type: ignore[attr-defined]
    lines = scope.file.lines[first - 1 : node.end_lineno]  # type: ignore[attr-defined]
    return [line[node.col_offset :].rstrip() for line in lines]  # type: ignore[attr-defined]


def _signatures(comparison: Comparison) -> Parting | None:
    """Where the parameters of a function part: those that only one side has are left out."""
    before, after = comparison.before.node, comparison.after.node
    names = [[one.arg for one in parameters(node)] for node in (before, after)]
    common = [[one for one in mine if one in its] for mine, its in (names, names[::-1])]
    same_defaults = all(
        comparison.same(default_of(before, one), default_of(after, one)) or one in ("scaler", "amp")
        for one in common[0]
    )
    return None if common[0] == common[1] and same_defaults else Parting(before, after)


def _family(scope: Scope) -> str:
    """The class of a method, or the function."""
    return scope.owner.name if scope.owner is not None else scope.function.name


def _switching(made: Survey) -> Iterator[tuple[Scope, ast.expr, bool]]:
    """The tests around what mixed precision is switched and scaled by, and what it is told as `enabled`."""
    for _, node in [*made.found.switches, *made.found.uses]:
        yield from made.found.around.get(node, ())
    for scope, node in made.found.switches:
        yield from ((scope, one.value, True) for one in node.keywords if one.arg == "enabled")


def _keeps_state(node: ast.stmt) -> bool:
    """True for a statement that is about nothing but the state of scalers, under whatever condition."""
    if isinstance(node, ast.If):
        return not node.orelse and all(map(_keeps_state, node.body))
    return "<amp state>" in ast.unparse(node) or "<load amp state>" in ast.unparse(node)


def _is_conditional(node: ast.AST, part: ast.AST) -> bool:
    """True for a part that stands under a condition."""
    holders = (one for one in ast.walk(node) if isinstance(one, (ast.If, ast.IfExp, ast.Try)))
    return any(inner is part for one in holders for inner in ast.walk(one))


def _count(side: Side, word: bytes) -> int:
    return sum(file.source.count(word) for file in side.flow.files)


def _attribute_targets(side: Side) -> Iterator[ast.Attribute]:
    targets = (target for file in side.flow.files for _, target, _ in file.assigned)
    return (target for target in targets if isinstance(target, ast.Attribute))


def _statements_in(body: Body) -> Iterator[ast.stmt]:
    return (one for top in body for one in walk(top) if isinstance(one, ast.stmt))


def _line(node: ast.AST) -> int:
    return next((part.lineno for part in ast.walk(node) if hasattr(part, "lineno")), 1)


def _place(file: File, node: ast.AST | None) -> tuple[int, str] | None:
    """The line (from 1) of a statement, and its text."""
    return (_line(node), file.lines[_line(node) - 1].strip()) if node is not None else None
