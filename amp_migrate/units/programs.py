"""What comes of a unit: one attempt to migrate its programs, each of which is tried once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from amp_migrate.engine import Outcome, migrate
from amp_migrate.files.helpers import Helpers
from amp_migrate.findings import Finding
from amp_migrate.options import Options
from amp_migrate.reading import Input
from amp_migrate.result import Result
from amp_migrate.rules.rule import Help
from amp_migrate.rules.source_forms import HALF
from amp_migrate.rules.units import BELONGS_TOGETHER
from amp_migrate.units.attempt import Attempt, aloud, attempt_of, reasons_of
from amp_migrate.units.definition import changed_trainings
from amp_migrate.units.index import Index, Unit
from amp_migrate.units.workspace import Workspace, in_words, real

HALF_CASTS = rb"\.half\b|\bfloat16\b|\bHalfTensor\b"  # x.half(), and torch.half by whatever name of torch
CASTS = re.compile(HALF_CASTS)


class Programs:
    """The programs of a project, and what came of them.

    `earlier` are the results of source forms that have the precedence (rule H1): of their files those that are migrated
    stay so, and those that were left alone refuse their unit. Functions in `cast_for_others` are cast by a script that
    sets Apex up elsewhere.
    """

    def __init__(
        self,
        workspace: Workspace,
        index: Index,
        options: Options,
        earlier: Mapping[Path, Result],
        whole_units: bool,
    ) -> None:
        self.workspace = workspace
        self.index = index
        self.options = options
        self.migrated = {real(file) for file, result in earlier.items() if result.status == "migrated"}
        self.left = {real(file) for file in earlier} - self.migrated
        self.whole_units = whole_units
        self.cast_for_others: set[Path] = set()
        self._outcomes: dict[tuple[Path, ...], Outcome] = {}

    def attempt(self, unit: Unit, given: Iterable[tuple[Path, str]] = (), *, unless: Iterable[Finding] = ()) -> Attempt:
        """What comes of a unit, of which no file has another source form."""
        if not self.left.isdisjoint(unit.files):
            return self._beside_another_form(unit)
        attempt = self._of_programs(unit, given, unless)
        twice = [file for file in unit.files if file in self.migrated and self.workspace.shown(file) in attempt.changed]
        if not twice:
            return attempt
        return attempt.left(self._beside(unit, twice[0], attempt))

    def allowed(self, attempt: Attempt) -> Attempt:
        """Files that were not asked for are not changed, and then nothing of their unit is."""
        foreign = [path for path in attempt.changed if real(path) not in self.workspace.given]
        if self.whole_units or not foreign:
            return attempt
        message = f"belongs together with {foreign[0]}, which was not given: name both, or their folder"
        own = [result.path for result in attempt.results if result.path not in foreign]
        changed = [path for path in own if path in attempt.changed] or own[:1]
        return attempt.left(*(Finding(path, 1, BELONGS_TOGETHER.code, message, case="not given") for path in changed))

    def forget(self, files: Iterable[Path]) -> None:
        """Files that are to be tried again."""
        for program in [one for one in self._outcomes if set(files) >= set(one)]:
            del self._outcomes[program]

    def _of_programs(self, unit: Unit, given: Iterable[tuple[Path, str]], unless: Iterable[Finding]) -> Attempt:
        """Migrate a unit, program by program; only as far as until one of some known reasons prevents it again, or one
        shows files that have to join first.
        """
        members = {self.workspace.shown(file): reason for file, reason in unit.reasons.items()}
        scripts = programs = self.index.programs(unit, given)
        outcomes, leads_on = self._outcomes_of(unit, programs, unless)
        silent = [one for one in programs if _is_silent(outcomes.get(self.workspace.shown(one)))]
        running: list[Path] = []
        if silent and any(_says_something(one) for one in outcomes.values()):
            running = [one for one in silent if self.index.runs(one)]
            lending = [files for script, files in programs.items() if script in silent and script not in running]
            programs = {one: _with_sharing(files, lending) for one, files in programs.items() if one not in silent}
            outcomes, leads_on = self._outcomes_of(unit, programs, unless)
        attempt = attempt_of(members, outcomes)
        is_shared = bool(running and attempt.changed)
        if len(scripts) == 1 or leads_on or not (attempt.reasons or is_shared):
            return attempt
        in_float32 = self._shared_with_float32(scripts, outcomes)
        if in_float32 is not None:
            return attempt.left(in_float32).of_form(HALF)
        if is_shared:
            message = f"{in_words(running[0])} trains by this as well, and nothing there shows a GPU"
            return attempt.left(Finding(next(iter(attempt.changed)), 1, BELONGS_TOGETHER.code, message, case="float32"))
        # Where a script does not call all that it shares, only the scripts together show what is needed.
        together = attempt_of(members, {self.workspace.shown(unit.files[0]): self._program(unit.files)})
        lacks_models_only = bool(together.unread)  # they are yet to be added
        has_what_each_lacks = all(Help.SCRIPTS in reason.rule.helped_by for reason in attempt.reasons)
        return together if lacks_models_only or has_what_each_lacks or not together.reasons else attempt

    def _beside_another_form(self, unit: Unit) -> Attempt:
        """What comes of a unit with files of another one that was left alone: nothing, for a unit has one source form.
        Where its own files alone say something else, that is said.
        """
        own = {file: reason for file, reason in unit.reasons.items() if file not in self.left}
        attempt = self.attempt(Unit(tuple(own), own)) if own else Attempt(())
        if not any(result.sites for result in attempt.results) or (attempt.reasons and not attempt.unread):
            return attempt
        other = next(file for file in unit.files if file in self.left)
        return attempt.left(self._beside(unit, other, attempt))

    def _beside(self, unit: Unit, other: Path, attempt: Attempt) -> Finding:
        path = next(result.path for result in attempt.results if result.sites)
        place = f"{in_words(other)} ({unit.reasons[other]})"
        message = f"belongs together with {place}, which has another source form"
        return Finding(path, 1, BELONGS_TOGETHER.code, message, case="form")

    def _shared_with_float32(
        self, programs: Mapping[Path, tuple[Path, ...]], outcomes: Mapping[str, Outcome]
    ) -> Finding | None:
        """Where a script that casts nothing trains by what another one has in half: it would train under autocast."""
        in_float32 = [script for script in programs if not CASTS.search(self.index.source(script))]
        for script, files in programs.items():
            outcome = outcomes.get(self.workspace.shown(script))  # none, where one before it prevents the migration
            if outcome is None or HALF not in {result.form for result in outcome.results}:
                continue
            for result in outcome.results:
                for name in changed_trainings(result.source, result.output):
                    users = self.index.users_of(name, real(result.path), Unit(files, {}))
                    for user in (one for one in users if one in in_float32):
                        message = f"{in_words(user)} trains with {name} in float32, and {in_words(script)} in half"
                        return Finding(result.path, 1, BELONGS_TOGETHER.code, message, case="float32")
        return None

    def _outcomes_of(
        self, unit: Unit, programs: Mapping[Path, tuple[Path, ...]], unless: Iterable[Finding]
    ) -> tuple[dict[str, Outcome], bool]:
        """What came of some programs, as far as until one is refused as is known, or leads on to other files."""
        outcomes: dict[str, Outcome] = {}
        for script, files in programs.items():
            outcome = outcomes[self.workspace.shown(script)] = self._program(files)
            leads_on = self._leads_on(unit, outcome)
            if leads_on or not set(aloud(unless)).isdisjoint(reasons_of(outcome)):
                return outcomes, leads_on
        return outcomes, False

    def _leads_on(self, unit: Unit, outcome: Outcome) -> bool:
        """True where a program has to read files that are not in its unit yet."""
        return len(unit.extended(self.index.holding_names(outcome.unread)).files) > len(unit.files)

    def _program(self, files: tuple[Path, ...]) -> Outcome:
        if files not in self._outcomes:
            self._outcomes[files] = self._outcome(files)
        return self._outcomes[files]

    def _outcome(self, files: tuple[Path, ...]) -> Outcome:
        inputs = [
            Input(self.workspace.shown(file), self.index.name_of(file), self.index.source(file)) for file in files
        ]
        options = self.options
        if options.api is None:
            options = dataclasses.replace(options, api=self.workspace.spelling_in(files[0]).api)
        helpers = Helpers(
            partial(self._is_used_outside, files),
            self.workspace.declared_torch,
            self.index.holding,
            may_be_handed=partial(self._may_be_handed, files),
            is_set_up=self.cast_for_others.issuperset(files),
        )
        try:
            outcome = migrate(inputs, options, helpers)
        except Exception as error:  # a bug of ours must not cost the user the other files
            message = f"{type(error).__name__}: {error}"
            return Outcome([Result.broken(one.path, one.source, message) for one in inputs])
        if outcome.refusal is not None:
            outcome.refusal.with_traceback(None)  # its frames would keep all facts of the program alive
        return outcome

    def _may_be_handed(self, files: tuple[Path, ...], path: str, name: str) -> bool:
        return bool(self.index.receivers(name, real(path), Unit(files, {})))

    def _is_used_outside(self, files: tuple[Path, ...], path: str, name: str) -> bool:
        return bool(self.index.users_of(name, real(path), Unit(files, {})))


def _is_silent(outcome: Outcome | None) -> bool:
    """True for a program that is refused, and only because nothing there shows a GPU."""
    return outcome is not None and outcome.refusal is not None and outcome.refusal.rule.kind == "silence"


def _says_something(outcome: Outcome) -> bool:
    """True for a program that is migrated, or refused aloud."""
    return any(result.changed for result in outcome.results) or (
        outcome.refusal is not None and not _is_silent(outcome)
    )


def _with_sharing(files: tuple[Path, ...], others: Iterable[tuple[Path, ...]]) -> tuple[Path, ...]:
    """The files of a program, with those of others that share some with it."""
    return tuple(sorted({*files, *(file for other in others if set(files) & set(other) for file in other)}))
