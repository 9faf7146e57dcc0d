"""Control flow of one function with the functions it calls put in place, and questions about its paths.

    for i, batch in enumerate(loader):           Is there a way from the clip to the next backward
        loss.backward()                          that does not pass the step?  Yes: through the end of
        clip_grad_norm_(params, 1.0)             the `if`.  So the clip runs on every micro-batch.
        if (i + 1) % 4 == 0:
            optimizer.step()

Conditions that stand more than once are remembered along a path, so that two `if (i + 1) % 4 == 0:` in a
row are taken together or not at all, until something that they read is assigned again. What follows for the parts
of a test is remembered with it: past `if amp and not tpu:`, `tpu` is false. So is what follows for other tests: past
`if task == "depth":`, `task == "normal"` is false.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.constant_tests import value_of_test, values_where
from amp_migrate.facts.implied import implied
from amp_migrate.facts.tree import Block, Function, Statement, names_in, targets
from amp_migrate.facts.values import UNKNOWN, literal_value

Frames = tuple[CallSite, ...]
Decide = Callable[[cst.BaseExpression], bool | None]
Environment = frozenset[tuple[str, bool]]
Leg = tuple[Callable[["Point"], bool], Callable[["Point"], bool]]  # of a path: its goal, and what it avoids
_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_ASKING = (cst.If, cst.While, cst.IfExp, cst.BooleanOperation, cst.UnaryOperation, cst.ComparisonTarget, cst.Comparison)
_MOST_POINTS = 20_000  # of a graph: a callee is laid out anew for each way that leads to it
_STATES_OF_A_POINT = 30  # on average: each condition that a path remembers may double its states
_FEW = 7  # conditions, where they do


@dataclasses.dataclass(eq=False)
class Point:
    """One statement (for a compound statement: its header) in one chain of calls."""

    statement: Statement | None
    frames: Frames
    edges: list[Edge] = dataclasses.field(default_factory=list)
    settled: Environment = frozenset()  # what its assignment of a constant makes of later tests

    def trail(self) -> list[Statement]:
        """The statements around this point from the root function's body inwards, through the calls."""
        chain: list[Statement] = []
        for site in self.frames:
            chain.extend(site.statement.path())
        if self.statement is not None:
            chain.extend(self.statement.path())
        return chain


@dataclasses.dataclass(frozen=True)
class Edge:
    """A way to `target`, taken only where the conditions in `holds` have these values."""

    target: Point
    holds: Environment = frozenset()


class _TooManyStates(Exception):
    """So many conditions to remember cannot be followed."""


class TooManyWays(RecursionError):
    """Calls of calls that lead to the same function in more ways than can be followed."""


class Graph:
    """The control flow of `root`, functions accepted by `inline` put in place of their calls.

    `decide` settles tests whose value is known (a guard, in the world where mixed precision is on).
    With `called_again`, the end of the root leads back to its start. Conditions are remembered for the sake of the
    statements that `matter`: those that depend on them otherwise may be taken either way. With `follows_constants`, a
    test of a name that was set to a constant on the way has one value.
    """

    def __init__(
        self,
        facts: Facts,
        root: Function,
        inline: Callable[[Function], bool],
        decide: Decide,
        *,
        called_again: bool,
        matters: Callable[[Statement], bool] = lambda statement: True,
        follows_constants: bool = False,
    ) -> None:
        self.facts = facts
        self.root = root
        self._inline = inline
        self._decide = decide
        self._matters = matters
        self.points: list[Point] = []
        self._most_remembered: int | None = None
        self._at: dict[Statement, list[Point]] = {}
        self._first_rounds: dict[Statement, list[Point]] = {}
        self._reads: dict[str, frozenset[str]] = {}
        self._key_counts: dict[str, set[Statement]] = {}
        self._writes: dict[Statement, frozenset[str]] = {}
        self.start = self._point(None, ())
        end = self._point(None, ())
        self.start.edges.append(Edge(self._block(root.body, end, _Targets(end), ())))
        if called_again:
            end.edges.append(Edge(self.start))
        self._excluded: dict[tuple[str, bool], Environment] = {}
        self._repeated = {key for key, statements in self._key_counts.items() if len(statements) > 1}
        for key in self._key_counts:
            self._repeated |= {other for value in (True, False) for other, _ in self._follows(key, value)}
        for point in self.points if follows_constants else ():
            point.settled = self._settled(point)
            self._repeated |= {key for key, _ in point.settled}
        for point in self.points:
            point.edges = [Edge(edge.target, self._remembered(edge.holds)) for edge in point.edges]

    no_conditions: Environment = frozenset()

    def follow(self, point: Point, environment: Environment) -> Iterator[tuple[Point, Environment]]:
        """The next points, with the conditions known on the way to them."""
        written = self._written(point.statement) if point.statement is not None and environment else frozenset()
        if written:
            environment = frozenset(item for item in environment if not (self._reads[item[0]] & written))
        environment |= point.settled
        for edge in point.edges:
            if not edge.holds:
                yield edge.target, environment
            elif not any((key, not value) in environment for key, value in edge.holds):
                yield edge.target, environment | edge.holds

    def at(self, statement: Statement) -> list[Point]:
        """The points of a statement: one for each chain of calls that leads to it."""
        return self._at.get(statement, [])

    def entries(self, statement: Statement) -> list[Point]:
        """The points that control passes on its way into a statement: a loop's first round alone."""
        return self._first_rounds.get(statement) or self.at(statement)

    def path_exists(
        self, sources: Iterable[Point], goal: Callable[[Point], bool], avoid: Callable[[Point], bool]
    ) -> bool:
        """True where some path of one step or more leads from a source to a goal, never through `avoid`."""
        return next(self.reached(sources, goal, avoid), None) is not None

    def reached(
        self, sources: Iterable[Point], goal: Callable[[Point], bool], avoid: Callable[[Point], bool]
    ) -> Iterator[Point]:
        """The goals that a path from a source meets first; paths end at goals and at `avoid`."""
        return self._last_goals(sources, [(goal, avoid)])

    def passes(self, sources: Iterable[Point], legs: Sequence[Leg]) -> bool:
        """True where a path leads from a source to the goal of each leg in turn, and through nothing it avoids."""
        return next(self._last_goals(sources, legs), None) is not None

    def _last_goals(self, sources: Iterable[Point], legs: Sequence[Leg]) -> Iterator[Point]:
        starts = list(sources)
        found: set[Point] = set()
        try:
            yield from self._searched(starts, legs, found)
        except _TooManyStates:
            self._most_remembered = _FEW
            yield from self._searched(starts, legs, found)

    def _searched(self, sources: list[Point], legs: Sequence[Leg], found: set[Point]) -> Iterator[Point]:
        """The goals of the last leg that are not `found` yet."""
        telling = self._remembered_for(legs)
        most = _STATES_OF_A_POINT * len(self.points) if len(telling) > _FEW else None
        seen: set[tuple[Point, Environment, int]] = set()
        stack: list[tuple[Point, Environment, int]] = []
        for source in sources:
            stack.extend((*step, 0) for step in self.follow(source, self._standing(source)))
        while stack:
            point, environment, at = stack.pop()
            environment = frozenset(item for item in environment if item[0] in telling)
            if (point, environment, at) in seen:
                continue
            seen.add((point, environment, at))
            if most is not None and len(seen) > most:
                raise _TooManyStates
            goal, avoid = legs[at]
            if not goal(point):
                if not avoid(point):
                    stack.extend((*step, at) for step in self.follow(point, environment))
            elif at + 1 < len(legs):
                stack.extend((*step, at + 1) for step in self.follow(point, environment))
            elif point not in found:
                found.add(point)
                yield point

    # -- paths --------------------------------------------------------------------------------------

    def _remembered_for(self, legs: Sequence[Leg]) -> set[str]:
        """The conditions that a question depends on: something that ends a path, or jumps, stands under them. Past any
        other `if` it goes on as before, and to remember them all would double the states of a path with each. Where
        these are too many, all but a few may be taken either way: those that decide about the end of a path come first.
        """
        if not self._repeated:
            return set()
        ends = [point for point in self.points if any(goal(point) or avoid(point) for goal, avoid in legs)]
        found = dict.fromkeys([*self._keys_at(self._holders(ends)), *self._keys_at(self._around_jumps)])
        return set(islice(found, self._most_remembered))

    def _keys_at(self, places: set[tuple[Statement | None, Frames]]) -> list[str]:
        branches = (point for point in reversed(self.points) if (point.statement, point.frames) in places)
        return [key for point in branches for edge in point.edges for key in sorted(key for key, _ in edge.holds)]

    @cached_property
    def _around_jumps(self) -> set[tuple[Statement | None, Frames]]:
        return self._holders(one for one in self.points if one.statement is not None and one.statement.leaves)

    def _holders(self, points: Iterable[Point]) -> set[tuple[Statement | None, Frames]]:
        return {(outer, chain) for point in points for _, outer, chain in self._around(point)}

    def _around(self, point: Point) -> Iterator[tuple[Statement, Statement, Frames]]:
        """The statements in whose blocks a point lies, through the calls: what lies in the block (the point's own
        statement, or a call on the way to it), what holds it, and the calls that lead there.
        """
        places = [(site.statement, point.frames[:depth]) for depth, site in enumerate(point.frames)]
        if point.statement is not None:
            places.append((point.statement, point.frames))
        for statement, chain in places:
            yield from ((statement, outer, chain) for outer in statement.path()[:-1])

    def _standing(self, point: Point) -> Environment:
        """The conditions that hold at a point because it lies in the arms of their `if`."""
        held: Environment = frozenset()
        for statement, outer, chain in self._around(point):
            arm = statement.arm_of(outer.node)
            if isinstance(outer.node, cst.If) and arm is not None:
                held |= self._remembered(self._conditions(outer.node.test, arm == "body", outer, chain))
        return held

    def _written(self, statement: Statement) -> frozenset[str]:
        if statement not in self._writes:
            self._writes[statement] = written_by(statement)
        return self._writes[statement]

    def _remembered(self, conditions: Environment) -> Environment:
        """Those of the conditions that are asked again, with what they say about other tests that are asked."""
        known = conditions.union(*(self._follows(key, value) for key, value in conditions))
        return frozenset(item for item in known if item[0] in self._repeated)

    def _follows(self, key: str, value: bool) -> Environment:
        """The other tests of the same call that have one value where a test has this one, since both ask what one
        name or attribute is equal to.
        """
        if (key, value) not in self._excluded:
            *call, test = key.split("/", 3)
            name, values = values_where(test, value) or ("", ())
            asked = self._tests_of_calls.get(tuple(call), {}) if values and not self._moves_unseen(name) else {}
            held = {other: {value_of_test(text, name, one) for one in values} for other, text in asked.items()}
            found = (
                (other, one) for other, (one, *more) in held.items() if other != key and one is not None and not more
            )
            self._excluded[key, value] = frozenset(found)
        return self._excluded[key, value]

    @cached_property
    def _tests_of_calls(self) -> dict[tuple[str, ...], dict[str, str]]:
        found: dict[tuple[str, ...], dict[str, str]] = {}
        for key in self._key_counts:
            *call, test = key.split("/", 3)
            found.setdefault(tuple(call), {})[key] = test
        return found

    def _moves_unseen(self, place: str) -> bool:
        read = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(ast.parse(place))}
        elements = {f"[{name}" for name in read} if "[" in place else set()
        return bool((read | elements) & self._set_out_of_sight)

    @cached_property
    def _set_out_of_sight(self) -> set[str]:
        """The attributes and global names that functions set whose calls are not put in place here, but for those of
        objects in the making, and what has elements that are set.
        """
        found: set[str] = set()
        for statement in self.facts.tree.all_statements():
            unseen = statement not in self._at and statement.function.name not in ("__init__", "<module>")
            if isinstance(statement.node, (cst.Global, cst.Nonlocal)) and unseen:
                found |= names_in(statement.node)
            for target in targets(statement.node):
                if isinstance(target, cst.Subscript):
                    found |= {f"[{name}" for name in names_in(target.value)}
                elif isinstance(target, cst.Attribute) and unseen:
                    found.add(target.attr.value)
        return found

    def _conditions(self, test: cst.BaseExpression, value: bool, statement: Statement, frames: Frames) -> Environment:
        """What holds where a test has a value: for the test and for those of its parts that must have one then."""
        return frozenset((self._key(part, statement, frames), holds) for part, holds in implied(test, value))

    def _key(self, test: cst.BaseExpression, statement: Statement, frames: Frames) -> str:
        key = f"{self._key_begin(statement, frames)}{source_key(test)}"
        self._reads.setdefault(key, frozenset(names_in(test)))
        return key

    def _key_begin(self, statement: Statement, frames: Frames) -> str:
        return f"{statement.function.name}/{len(frames)}/{id(frames[-1]) if frames else 0}/"

    def _settled(self, point: Point) -> Environment:
        """The tests of the same call that have one value past the assignment of a constant."""
        node = point.statement.node if point.statement is not None else None
        if not isinstance(node, cst.Assign) or len(node.targets) != 1 or point.statement is None:
            return frozenset()
        target, value = node.targets[0].target, literal_value(node.value)
        variable = self.facts.names.variable_at(target)
        if variable is None or not isinstance(target, cst.Name) or value is UNKNOWN or len(variable.bindings) == 1:
            return frozenset()  # what is set once is a switch, which somebody may turn by hand
        begin = self._key_begin(point.statement, point.frames)
        tests = (key for key in self._key_counts if key.startswith(begin) and target.value in self._reads[key])
        found = ((key, value_of_test(key.removeprefix(begin), target.value, value)) for key in tests)
        return frozenset((key, holds) for key, holds in found if holds is not None)

    # -- construction: every block is built backwards, from what follows it ---------------------------

    def _point(self, statement: Statement | None, frames: Frames) -> Point:
        if len(self.points) == _MOST_POINTS:
            raise TooManyWays
        point = Point(statement, frames)
        self.points.append(point)
        if statement is not None:
            self._at.setdefault(statement, []).append(point)
        return point

    def _block(self, block: Block, following: Point, targets: _Targets, frames: Frames) -> Point:
        for statement in reversed(block.statements):
            following = self._statement(statement, following, targets, frames)
        return following

    def _statement(self, statement: Statement, following: Point, targets: _Targets, frames: Frames) -> Point:
        point = self._point(statement, frames)
        node = statement.node
        entry = point if isinstance(node, cst.For) else self._calls(statement, point, frames)
        arms = {block.arm: block for block in statement.blocks}
        if isinstance(node, cst.If):
            body = self._block(arms["body"], following, targets, frames)
            other = self._block(arms["else"], following, targets, frames) if "else" in arms else following
            self._branch(point, node.test, statement, body, other, frames)
        elif isinstance(node, (cst.For, cst.While)):
            after = self._block(arms["else"], following, targets, frames) if "else" in arms else following
            again = entry if isinstance(node, cst.While) else point
            inner = dataclasses.replace(targets, breaks=following, continues=again)
            body = self._block(arms["body"], again, inner, frames)
            if isinstance(node, cst.While):
                self._branch(point, node.test, statement, body, after, frames)
                first = self._first_round(statement, frames)
                if _counts(statement):
                    first.edges.append(Edge(body))
                else:
                    self._branch(first, node.test, statement, body, after, frames)
                entry = self._calls(statement, first, frames)
            else:
                entry = self._for(statement, point, body, after, frames)
        elif isinstance(node, (cst.Try, cst.TryStar)):
            point.edges.extend(self._try(arms, following, targets, frames))
        elif isinstance(node, cst.Match):
            point.edges += [Edge(self._block(arm, following, targets, frames)) for arm in arms.values()]
            point.edges.append(Edge(following))
        elif isinstance(node, (cst.With, cst.ClassDef)):
            name = "body" if isinstance(node, cst.With) else "class"
            point.edges.append(Edge(self._block(arms[name], following, targets, frames)))
        elif isinstance(node, cst.Return):
            point.edges.append(Edge(targets.returns))
        elif isinstance(node, cst.Raise):
            if targets.raises is not None:
                point.edges.append(Edge(targets.raises))
        elif isinstance(node, cst.Break) and targets.breaks is not None:
            point.edges.append(Edge(targets.breaks))
        elif isinstance(node, cst.Continue) and targets.continues is not None:
            point.edges.append(Edge(targets.continues))
        else:  # also past `sys.exit()`: what a script never runs is migrated with the rest
            point.edges.append(Edge(following))
        return entry

    def _for(self, statement: Statement, again: Point, body: Point, after: Point, frames: Frames) -> Point:
        """A `for` is taken to run at least once: its first round has a header of its own."""
        again.edges += [Edge(body), Edge(after)]
        first = self._first_round(statement, frames)
        first.edges.append(Edge(body))
        return self._calls(statement, first, frames)

    def _first_round(self, statement: Statement, frames: Frames) -> Point:
        first = self._point(statement, frames)
        self._first_rounds.setdefault(statement, []).append(first)
        return first

    def _try(self, arms: dict[str, Block], following: Point, targets: _Targets, frames: Frames) -> Iterator[Edge]:
        """The body, or a handler entered before the body did anything: an exception half way through a
        training step is no path that a migration can serve.
        """
        after = self._block(arms["finally"], following, targets, frames) if "finally" in arms else following
        handlers = [self._block(arm, after, targets, frames) for name, arm in arms.items() if name[:6] == "except"]
        inner = dataclasses.replace(targets, raises=handlers[0]) if handlers else targets
        done = self._block(arms["else"], after, targets, frames) if "else" in arms else after
        yield Edge(self._block(arms["body"], done, inner, frames))
        for handler in handlers:
            yield Edge(handler)

    def _branch(
        self,
        point: Point,
        test: cst.BaseExpression,
        statement: Statement,
        body: Point,
        other: Point,
        frames: Frames,
    ) -> None:
        decided = self._decide(test)
        if decided is None and frames:
            decided = self._given(test, frames[-1])
        for value, target in ((True, body), (False, other)):
            holds = self._conditions(test, value, statement, frames)
            if self._matters(statement):
                for key, _ in holds:
                    self._key_counts.setdefault(key, set()).add(statement)
            if decided is not (not value):
                point.edges.append(Edge(target, holds))

    def _given(self, test: cst.BaseExpression, site: CallSite) -> bool | None:
        """The value of a test of a parameter, where this call gives it a constant: `forward(x, train=True)`; and of
        `optimizer is None`, where it gives an object.
        """
        read = names_in(test) - {"None"}
        param = next((one for one in site.callee.parameters if {one.name.value} == read), None)
        if param is None or len(self.facts.names.bindings_at(param.name)) != 1:
            return None
        arg = self.facts.objects.argument(site.call, site.callee, param)
        starred = any(given.star for given in site.call.args)
        given = arg.value if arg is not None else None if starred else param.default
        value = literal_value(given) if given is not None else UNKNOWN
        if value is UNKNOWN and "None" in names_in(test) and self._is_there(given):
            value = given
        is_known = value is None or value is given or isinstance(value, bool)
        return value_of_test(self.facts.text(test), param.name.value, value) if is_known else None

    def _is_there(self, node: cst.BaseExpression | None) -> bool:
        """True for a variable that calls give its value, and whose methods are called without a test of it."""
        variable = self.facts.names.variable_at(node)
        if variable is None or not all(
            one.kind == "assign" and isinstance(one.value, cst.Call) for one in variable.bindings
        ):
            return False
        around = [self.facts.tree.parents.get(load) for load in variable.loads]
        is_used = any(isinstance(one, cst.Attribute) for one in around)
        return is_used and not any(isinstance(one, _ASKING) for one in around)

    def _calls(self, statement: Statement, point: Point, frames: Frames) -> Point:
        entry = point
        open_functions = {site.callee for site in frames} | {self.root}
        sites = reversed(self.facts.calls.in_statement(statement))
        for _, alternatives in itertools.groupby(sites, lambda site: site.call):
            ways = []
            for site in alternatives:
                ways.append(entry)
                if site.callee not in open_functions and self._inline(site.callee):
                    inner = (*frames, site)
                    leave = self._point(None, inner)
                    leave.edges.append(Edge(entry))
                    ways[-1] = self._block(site.callee.body, leave, _Targets(leave), inner)
            if len(ways) > 1:  # one of the functions in a table
                ways.append(self._point(None, frames))
                ways[-1].edges += [Edge(way) for way in dict.fromkeys(ways[:-1])]
            entry = ways[-1]
        return entry


@dataclasses.dataclass(frozen=True)
class _Targets:
    """Where jumps lead to."""

    returns: Point
    breaks: Point | None = None
    continues: Point | None = None
    raises: Point | None = None


def _counts(loop: Statement) -> bool:
    """True for `while start < size:` around `start += width`, which is taken to run at least once as a `for` is."""
    test = loop.node.test if isinstance(loop.node, cst.While) else None
    if not isinstance(test, cst.Comparison) or not isinstance(test.comparisons[0].operator, _ORDERS):
        return False
    body = next(block for block in loop.blocks if block.arm == "body")
    moved = {name for statement in body.statements for one in statement.descendants() for name in written_by(one)}
    return bool(moved & names_in(test))


def written_by(statement: Statement) -> frozenset[str]:
    """The names that a statement itself assigns; for `self.x = ...` the name `x` is meant."""
    names = (
        target.value if isinstance(target, cst.Name) else target.attr.value
        for target in targets(statement.node)
        if isinstance(target, (cst.Name, cst.Attribute))
    )
    return frozenset(names)


def is_dead(statement: Statement, decide: Decide) -> bool:
    """True in an arm that never runs in the program in which `decide` answers, the one of mixed precision."""
    for outer in statement.path()[:-1]:
        arm = statement.arm_of(outer.node) if isinstance(outer.node, cst.If) else None
        if arm is not None and isinstance(outer.node, cst.If) and decide(outer.node.test) is (arm != "body"):
            return True
    return False
