"""The proof, the steps of native AMP and the names of torch: what is wrong with a migration that somebody made."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from amp_migrate.check.proof import Assumption, Breach, Prover
from amp_migrate.check.proof.gone import resolution
from amp_migrate.files.notebook import Notebook, NotebookError, Place
from amp_migrate.files.pragmas import Pragma, pragmas
from amp_migrate.findings import Finding
from amp_migrate.judge.judgement import Judgement, Line, Objection
from amp_migrate.judge.made_up import made_up
from amp_migrate.judge.mixed_precision import speaks_of_it
from amp_migrate.judge.programs import groups
from amp_migrate.judge.steps import mistakes
from amp_migrate.judge.trees import Trees
from amp_migrate.line_matcher import LineMatcher
from amp_migrate.options import Options
from amp_migrate.proved import STEPS, proved
from amp_migrate.rules.judging import (
    ANOTHER_PROGRAM,
    ANOTHER_SWITCH,
    HALF_WEIGHTS,
    LOST_FUNCTION,
    LOST_NAME,
    NOT_COMPARED,
    OTHER_WORDS,
    SCALED_GRADIENTS,
    STILL_NEEDS_APEX,
    UNKNOWN_TO_TORCH,
    WAITS_FOR_GRADIENTS,
)
from amp_migrate.rules.rule import Rule
from amp_migrate.sources.gate import holds_native_amp

# The rule of each kind of breach.
_RULES = {
    "not the same program": ANOTHER_PROGRAM,
    "switch": ANOTHER_SWITCH,
    "lost": LOST_FUNCTION,
    "name": LOST_NAME,
    "needs Apex": STILL_NEEDS_APEX,
    "half weights": HALF_WEIGHTS,
    "scaled gradients": SCALED_GRADIENTS,
    "wrapper": WAITS_FOR_GRADIENTS,
    "words": OTHER_WORDS,
}
_WORLD = "with mixed precision "
_UNCOMPARED = re.compile(r"\bnot compared\b|\bto be compared\b")


def judge(trees: Trees, options: Options) -> Judgement:
    """What is wrong with the changed files, program by program."""
    if not trees.asked:
        return Judgement(because="nothing changed")
    words = {_module(path) for path in trees.asked}
    before, after = (Scripts(side, words) for side in (trees.before, trees.after))
    asked = {path for path in trees.asked if before.sources.get(path) != after.sources.get(path)}
    unread = {path for path in asked if path in before.broken or path in after.broken}
    found = groups(before.sources, after.sources, asked)
    judging = _Judging(trees, options, before, after)
    for path in sorted(unread | {path for path in trees.asked if path in before.broken or path in after.broken}):
        judging.say(path, 1, NOT_COMPARED, f"the notebook cannot be read: it {(before.broken | after.broken)[path]}")
    for group in found:
        judging.group(group, asked)
    if not found and not judging.objections:
        return Judgement(because="no changed file speaks of mixed precision")
    return judging.judgement(sorted({path for group in found for path in group if path in asked}))


def _module(path: str) -> bytes:
    """What an import of a file names last."""
    parts = path.rpartition(".")[0].split("/")
    return (parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]).encode()


class _Judging:
    def __init__(self, trees: Trees, options: Options, before: Scripts, after: Scripts) -> None:
        self.trees = trees
        self.options = options
        self.before = before
        self.after = after
        self.gone = before.sources.keys() - after.sources.keys()
        everything = {**dict.fromkeys(self.gone, b""), **after.sources}  # nothing is left of a file that is gone
        self.prover = Prover(before.sources, everything)
        self.programs = self.prover.before, self.prover.after
        self.objections: dict[Objection, None] = {}
        self.ignored = 0
        self.assumed: set[Assumption] = set()
        self.is_proved = False
        self.is_checked = False  # the steps of its scalers
        self.broken: set[str] = set()  # the kinds of breaches

    def group(self, paths: Sequence[str], changed: Collection[str]) -> None:
        """The files that one program may run; those of them that have changed are judged."""
        comparable = [path for path in paths if path not in changed or self._is_comparable(path)]
        own = [path for path in comparable if path in changed]
        is_migration = not self.trees.with_others or any(map(self._migrates, paths))
        if own:
            self._check_steps(comparable)
        for path in own:
            self._check_names(path)
        if own and is_migration:
            self._prove(comparable)
        for breach in resolution(*self.programs, self.gone & {*paths}) if is_migration else ():
            self._object([breach])

    def _migrates(self, path: str) -> bool:
        """True for a file that loses a part of Apex's AMP, or comes to native AMP from something else."""
        before, after = (side.sources.get(path, b"") for side in (self.before, self.after))
        loses = before.count(b"scale_loss") > after.count(b"scale_loss") or (b"apex" in before and b"apex" not in after)
        return loses or (bool(before) and holds_native_amp(after) and not holds_native_amp(before))

    def _is_comparable(self, path: str) -> bool:
        """False for a file that is gone, or that Python cannot read."""
        sides = [side.sources.get(path) for side in (self.before, self.after)]
        if path in self.gone:
            if b".backward(" in self.before.sources[path]:
                self.say(path, 1, NOT_COMPARED, "the file is gone: where its training is now cannot be told")
            return False
        for source, which in zip(sides, ("before", "after"), strict=True):
            problem = _problem(source) if source is not None else None
            if problem is not None:
                self.say(path, problem[0], NOT_COMPARED, f"the file {which} does not parse: {problem[1]}")
                return False
        return True

    # -- the proof --------------------------------------------------------------------------------------

    def _prove(self, paths: Sequence[str]) -> None:
        try:
            proof = self.prover.prove(paths, every=True)
            self.is_proved = True
        except Exception as error:  # a bug of ours is nobody's mistake
            said = f"amp-migrate failed, please report it: {type(error).__name__}: {error}"
            self.say(paths[0], 1, NOT_COMPARED, said)
            return
        for breaches in _of_one_place(proof.breaches):
            if self._is_of_migration(breaches[0]):
                self._object(breaches)
        for one in proof.assumptions:
            if _UNCOMPARED.search(one.what):
                self.say(one.path, one.line, NOT_COMPARED, one.what)
            else:
                self.assumed.add(one)

    def _is_of_migration(self, breach: Breach) -> bool:
        """False for a switch in a file that has not changed, and for Apex where it was not to go: in a new file, and in
        one that still scales by it.
        """
        before, after = (side.sources.get(breach.path) for side in (self.before, self.after))
        if breach.kind == "needs Apex":
            return before is not None and b"scale_loss" not in (after or b"")
        return breach.kind != "switch" or before != after

    def _object(self, breaches: Sequence[Breach]) -> None:
        """The same breach, in whatever worlds."""
        one = breaches[0]
        self.broken.add(one.kind)
        worlds = [each.message.removeprefix(_WORLD) for each in breaches if each.message.startswith(_WORLD)]
        message = f"{_missing(one)}{_WORLD}{_in_words(worlds)}" if worlds else one.message
        before = self._line(self.before, one.path, one.before)
        after = self._line(self.after, one.path, one.after)
        self._add(one.path, self._line_after(one), _RULES[one.kind], message, one.function, before, after)

    def _line_after(self, breach: Breach) -> int:
        """The line of the migrated file, or the one beside which something is missing."""
        if breach.after is not None or breach.before is None:
            return breach.after[0] if breach.after is not None else 1
        sides = [side.sources.get(breach.path, b"").splitlines() for side in (self.before, self.after)]
        wanted = breach.before[0] - 1
        for _, first, last, start, end in LineMatcher(*sides).get_opcodes():
            if first <= wanted < last:
                return max(1, min(start + wanted - first + 1, end, len(sides[1])))
        return 1

    # -- native AMP -------------------------------------------------------------------------------------

    def _check_steps(self, paths: Sequence[str]) -> None:
        """The mistakes in native AMP that the original did not have as well."""
        own = [path for path in paths if path in self.after.sources]
        after = mistakes({path: self.after.sources[path] for path in own}, self.programs[1])
        if after is None:
            self.say(own[0], 1, NOT_COMPARED, "the steps of its scalers were not looked at: it nests too deeply")
            return
        self.is_checked = True
        known = mistakes(
            {path: self.before.sources[path] for path in own if path in self.before.sources}, self.programs[0]
        )
        had = Counter(map(_what, known or ()))
        for one in after:
            key = _what(one)
            had[key] -= 1
            if had[key] < 0:
                text = self.after.sources[one.path].splitlines()[one.line - 1].decode("utf-8", "replace").strip()
                line = self._line(self.after, one.path, (one.line, text))
                self._add(one.path, one.line, one.rule, one.message, "", None, line, one.case)

    def _check_names(self, path: str) -> None:
        """The names of torch that it does not have, and that the original did not use."""
        had = {full for _, full in made_up(self.programs[0], path)}
        for line, full in made_up(self.programs[1], path):
            if full not in had:
                text = self.programs[1].files[path].lines[line - 1].strip()
                self.broken.add("name")
                self._add(path, line, UNKNOWN_TO_TORCH, full, "", None, self._line(self.after, path, (line, text)))

    # -- what is said -----------------------------------------------------------------------------------

    def say(self, path: str, line: int, rule: Rule, message: str) -> None:
        """Something about a line, without an excerpt."""
        self._add(path, line, rule, message, "", None, None)

    def _add(
        self,
        path: str,
        line: int,
        rule: Rule,
        message: str,
        function: str,
        before: Line | None,
        after: Line | None,
        case: str = "",
    ) -> None:
        side = self.after if path in self.after.sources else self.before
        if not self._is_wanted(path, line, rule.code):
            self.ignored += 1
            return
        place = side.place(path, line)
        cell = (place.cell, place.line) if place is not None else None
        line = place.file_line if place is not None else line
        self.objections[Objection(path, line, rule.code, message, function, before, after, cell, case)] = None

    def _is_wanted(self, path: str, line: int, code: str) -> bool:
        """False for what options, the configuration or a comment in the migrated file ask not to see."""
        shown = self.trees.shown(path)
        elsewhere = [codes for patterns, codes in self.options.per_file_ignores if patterns.match(shown)]
        if not self.options.selection.shows(code) or any(code.startswith(codes) for codes in elsewhere):
            return False
        return not any(one.covers(line, code) for one in self._pragmas(path))

    def _pragmas(self, path: str) -> list[Pragma]:
        return pragmas(self.after.sources.get(path, b""))

    def _line(self, side: Scripts, path: str, place: tuple[int, str] | None) -> Line | None:
        if place is None:
            return None
        found = side.place(path, place[0])
        return Line(found.file_line, place[1], (found.cell, found.line)) if found is not None else Line(*place)

    def judgement(self, files: Iterable[str]) -> Judgement:
        """All of it, the paths as people write them. A line with a name that torch does not have is only that."""
        show = self.trees.shown
        causes = {(one.path, one.after) for one in self.objections if one.rule.explains_its_line}
        kept = [one for one in self.objections if one.rule.explains_its_line or (one.path, one.after) not in causes]
        objections = [dataclasses.replace(one, path=show(one.path)) for one in kept]
        if any(one.is_wrong and one.rule.kind != "breach" for one in objections):
            self.broken.add(STEPS)
        assumed = sorted(dataclasses.replace(one, path=show(one.path)) for one in self._placed(self.assumed))
        return Judgement(
            tuple(sorted(objections, key=lambda one: (one.path, one.line, one.code, one.message))),
            tuple(self._shown()),
            tuple(assumed),
            tuple(map(show, files)),
            ignored=self.ignored,
        )

    def _shown(self) -> list[str]:
        if self.is_proved:
            return proved(self.broken)
        return [STEPS] if self.is_checked and STEPS not in self.broken else []

    def _placed(self, assumptions: Iterable[Assumption]) -> Iterator[Assumption]:
        for one in assumptions:
            place = self.before.place(one.path, one.line)
            yield dataclasses.replace(one, line=place.file_line) if place is not None else one


def _problem(source: bytes) -> tuple[int, str] | None:
    """Why Python cannot read a file, and where; None where it can."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 1, str(error) or "it nests too deeply"
    return None


def _what(one: Finding) -> tuple[str, str, str]:
    """What a finding says, in whatever line, and however variables of one name are told apart."""
    return one.path, one.code, re.sub(r"\d+|'", "", one.message)


def _of_one_place(breaches: Iterable[Breach]) -> Iterator[list[Breach]]:
    """The breaches together that differ in nothing but the world."""
    found: dict[object, list[Breach]] = {}
    for one in breaches:
        is_of_world = one.message.startswith(_WORLD)
        key = dataclasses.replace(one, message="") if is_of_world else one
        found.setdefault(key, []).append(one)
    yield from found.values()


def _missing(breach: Breach) -> str:
    if breach.before is None:
        return "this is new, "
    return "this is lost, " if breach.after is None else ""


def _in_words(worlds: Sequence[str]) -> str:
    """`on`, `off`, `on and off`; one in which a single condition is off is named where nothing else is."""
    off = [one for one in worlds if one != "on"]
    rest = ["off"] if "off" in off or len(off) > 1 else off
    return " and ".join([*(["on"] if "on" in worlds else []), *rest])


# The files of one side as programs: of a notebook the script of its cells.


class Scripts:
    """`sources` are the programs by path; `broken` says of notebooks why they cannot be read. Of notebooks that neither
    speak of mixed precision nor of one of the `words`, nothing is read.
    """

    def __init__(self, files: Mapping[str, bytes], words: Collection[bytes]) -> None:
        self.sources: dict[str, bytes] = {}
        self.broken: dict[str, str] = {}
        self._notebooks: dict[str, Notebook] = {}
        for path, raw in files.items():
            is_notebook = path.endswith(".ipynb")
            self.sources[path] = b"" if is_notebook else raw
            if is_notebook and (speaks_of_it(raw) or any(word in raw for word in words)):
                self._read(path, raw)

    def _read(self, path: str, raw: bytes) -> None:
        try:
            self._notebooks[path] = Notebook(raw)
        except NotebookError as error:
            self.broken[path] = str(error)
        else:
            self.sources[path] = self._notebooks[path].script

    def place(self, path: str, line: int) -> Place | None:
        """Where a line of the script of a notebook stands; None for other files."""
        notebook = self._notebooks.get(path)
        return notebook.place(line) if notebook is not None else None
