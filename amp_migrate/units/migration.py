"""From files that hold a source form to the units that are migrated: grown as far as a migration needs it.

The smallest unit is tried first. What prevents its migration may lie in files that belong to it after all (the
scaler has to come from a caller, the setup is in another file), so a larger one follows. A function that gets a
parameter takes all files along that call it, a class those of its base classes and derived classes. Units that would
change the same file differently become one.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import chain
from pathlib import Path

from amp_migrate.engine import forget_modules
from amp_migrate.files.neighbours import NeighbourCast, casts_that_need_apex, local_modules
from amp_migrate.findings import Finding
from amp_migrate.models import names
from amp_migrate.models.queries import product_in_place
from amp_migrate.options import Options
from amp_migrate.processes import Died
from amp_migrate.result import Result
from amp_migrate.rules.rule import Help
from amp_migrate.rules.source_forms import FP16_UTILS, HALF, PLAIN
from amp_migrate.rules.units import BELONGS_TOGETHER
from amp_migrate.sources.screen import HALF_MODEL, may_cast_model
from amp_migrate.units.attempt import Attempt, only_casts
from amp_migrate.units.definition import changed_definitions
from amp_migrate.units.index import Unit
from amp_migrate.units.programs import CASTS, HALF_CASTS, Programs
from amp_migrate.units.tie import APEX_AMP, Tie
from amp_migrate.units.workspace import Workspace, in_words, real

_SETS_UP = re.compile(rb"\bamp\s*\.\s*init(?:ialize)?\(|\binitialize\(")
_MOVES_TO_GPU = re.compile(rb"\.cuda\(|\.to\(|\bcuda\b|DataParallel")
_CASTS_IN_PLACE = re.compile(rb"\.data\s*=[^=\n]*\.half\(\)")  # weights: who only infers casts a model
_CASTS_OR_WRAPS = re.compile(HALF_CASTS + b"|" + HALF_MODEL.pattern)
# What a file holds that has a precision of its own and uses a migrated part of a training, by the form of that one.
_DECIDING = {
    HALF: CASTS,
    PLAIN: re.compile(HALF_CASTS + rb"|\bautocast\b|\bGradScaler\b|\bamp\.initialize\b"),
}
_MOST_FILES = 24  # to grow to; every unit of real repositories that migrated has fewer than ten
_MOST_ROUNDS = 3  # from a script over a factory to the class around an optimizer
_MOST_WITH_MODELS = 120  # a zoo of models, of which the command line chooses one


@cache
def _products_in_place() -> re.Pattern[bytes]:
    """The calls of products in place."""
    return re.compile(rb"\.(?:%s)\(" % "|".join(sorted(names(product_in_place))).encode())


def migrate_units(
    workspace: Workspace,
    seeds: list[Path],
    options: Options,
    tie: Tie,
    earlier: Mapping[Path, Result] | None = None,
    *,
    whole_units: bool = False,
) -> dict[Path, Result]:
    """The results of some files that may hold a source form and of those that belong to them, by what ties them.

    Only files of the workspace's `sources` are changed, unless `whole_units` are asked for: a unit that would need
    others is left alone. Of files with a result of an `earlier` source form, which has the precedence (rule H1), those
    that are migrated are read as they will be and stay so, and a unit with one that was left is left as well.
    """
    earlier = {file: result for file, result in (earlier or {}).items() if result.status != "untouched"}
    workspace = workspace.after({file: result.output for file, result in earlier.items() if result.changed})
    workers = workspace.workers
    what = "apex.amp" if tie is APEX_AMP else "training"
    pieces = workspace.apart(seeds) if workers.count > 1 and len(seeds) > 1 else [seeds]
    units = _Units(workspace, options, tie, earlier, whole_units)
    results: dict[Path, Result] = {}
    for piece, made in zip(pieces, workers.map(what, units.results, pieces, partial(_size, workspace)), strict=True):
        results |= {file: _died(file, workspace) for file in piece} if isinstance(made, Died) else made
    changed = {result.path for result in earlier.values() if result.changed}
    return {file: _needing(result, changed) for file, result in results.items() if file not in earlier}


def _needing(result: Result, changed: set[str]) -> Result:
    """With what it was read with of other units, as that will be."""
    needs = tuple(path for path in result.members if path in changed) if result.changed else ()
    return dataclasses.replace(result, needs=needs) if needs else result


def _size(workspace: Workspace, files: Iterable[Path]) -> int:
    return sum(len(workspace.sources[file]) for file in files)


def _died(file: Path, workspace: Workspace) -> Result:
    return Result.broken(str(file), workspace.sources[file], str(Died()))


@dataclasses.dataclass(frozen=True)
class _Done:
    """`given` are the functions that are known to get a parameter; those of the attempt are new."""

    unit: Unit
    attempt: Attempt
    given: frozenset[tuple[Path, str]] = frozenset()

    @property
    def helped_by(self) -> frozenset[Help]:
        """Which files could lift what prevents the migration."""
        return frozenset().union(*(reason.rule.helped_by for reason in self.attempt.reasons))

    def has_grown_over(self, unit: Unit) -> bool:
        """True where it is migrated, with all files of a unit and what trains in them: it may be that these only lend
        something to it, and train by themselves.
        """
        training = {real(result.path) for result in self.attempt.results if result.sites}
        is_same = set(unit.files) <= set(self.unit.files) and not training.isdisjoint(unit.files)
        return bool(self.attempt.changed) and is_same

    def is_superseded_by(self, larger: _Done) -> bool:
        """True for a refused unit whose training another one migrates, with more files."""
        return bool(self.attempt.reasons) and larger.has_grown_over(self.unit)


class _Units:
    def __init__(
        self,
        workspace: Workspace,
        options: Options,
        tie: Tie,
        earlier: Mapping[Path, Result],
        whole_units: bool,
    ) -> None:
        self.workspace = workspace
        self.tie = tie
        self.index = workspace.index(tie)
        self.programs = Programs(workspace, self.index, options, earlier, whole_units)
        self._giving: set[Path] = set()  # files that cast what models in other files are given

    def results(self, seeds: list[Path]) -> dict[Path, Result]:
        """The results of some files, and of those that belong to them."""
        results: dict[Path, Result] = {}
        # A unit that was refused may have grown into files of another one that is migrated: that has the last word.
        for done in sorted(self.done(seeds), key=lambda done: not done.attempt.reasons):
            if any(reason.rule.kind == "silence" for reason in done.attempt.reasons):
                continue
            for result in self.programs.allowed(done.attempt).results:
                path = self.workspace.given.get(real(result.path))
                if path is None and self.programs.whole_units:
                    path = Path(result.path)
                if path is not None and (path not in results or result.status != "untouched"):
                    results[path] = result
        return results

    def done(self, seeds: list[Path]) -> list[_Done]:
        """What came of the units of some files, each unit with all that it needs."""
        waiting = self._units(seeds)
        done: list[_Done] = []
        sizes: dict[Path, int] = {}
        while waiting:
            unit = waiting.pop(0)
            sizes.update({file: len(self.index.source(file)) for file in unit.files})
            self.workspace.workers.progress.reached(sum(sizes.values()))
            if any(other.has_grown_over(unit) for other in done):
                continue
            one = self._tried(unit)
            forget_modules()
            others = [other for other in done if one.attempt.contradicts(other.attempt)]
            if others:
                done = [other for other in done if other not in others]
                waiting.insert(0, one.unit.joined(*(other.unit for other in others)))
            else:
                done = [other for other in done if not other.is_superseded_by(one)]
                done.append(one)
        return done

    def _units(self, seeds: list[Path]) -> list[Unit]:
        units: list[Unit] = []
        for seed in seeds:
            file = real(seed)
            if not any(file in unit.files for unit in units):
                units.append(self.index.unit_of(file))
        return units

    def _tried(self, unit: Unit) -> _Done:
        """What came of a unit. A bug of ours must not cost the user the others: it is a finding in this one."""
        try:
            return self._without_refused(self._migrated(unit))
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            broken = [
                Result.broken(self.workspace.shown(file), self.index.source(file), message) for file in unit.files
            ]
            return _Done(unit, Attempt(tuple(broken), tuple(finding for one in broken for finding in one.findings)))

    def _migrated(self, unit: Unit) -> _Done:
        done = self._with_products_in_place(self._with_half_inputs(self._with_models(self._grown(unit))))
        done = self._with_savers(self._with_context(done))
        return self._unless_others_decide(self._unless_casts_need_apex(done))

    def _without_refused(self, done: _Done) -> _Done:
        """The unit without the programs that cannot be migrated, where these come to nothing that changes but for casts
        to the type of what is written into: another class of a shared file is another training.
        """
        programs = self.index.programs(done.unit, done.given) if done.attempt.reasons else {}
        alone = {one: Unit(files, {file: done.unit.reasons[file] for file in files}) for one, files in programs.items()}
        whole = [unit for unit in alone.values() if self.programs.attempt(unit).changed]
        if not 0 < len(whole) < len(alone):
            return done
        rest = self._migrated(whole[0].joined(*whole[1:]))
        others = [one for one, unit in alone.items() if unit not in whole and self.index.runs(one)]
        changed = {
            (real(one.path), name)
            for one in rest.attempt.results
            if not only_casts(one)
            for name in changed_definitions(one.source, one.output, with_code=True)
        }
        is_apart = rest.attempt.changed and not set(rest.unit.files).intersection(others)
        return rest if is_apart and not self.index.come_to(others, changed) else done

    def _with_models(self, done: _Done) -> _Done:
        """The unit with the models and losses that it trains: their code decides whether it can be migrated, too. So do
        files that cast what a training in half is given.
        """
        while done.attempt.unread:
            larger = done.unit.extended(self.index.holding_names(done.attempt.unread))
            if len(larger.files) == len(done.unit.files) or len(larger.files) > _MOST_WITH_MODELS:
                break
            done = self._with_evaluations(larger) or self._grown(larger)
        forms = {result.form for result in done.attempt.results if result.changed}
        if forms & {HALF, FP16_UTILS}:
            by_helpers = HALF not in forms  # those of a copy of FP16_Optimizer stay as they are
            words = _CASTS_OR_WRAPS if by_helpers else CASTS
            casting = self.index.used_with(done.unit, words, by_helpers=by_helpers)
            if len(done.unit.files) < len(casting.files) <= _MOST_FILES:
                joined = self._grown(casting)
                return joined if HALF in forms else self._unless_copies_change(done, joined)
        return self._with_casts_of_weights(done)

    def _with_evaluations(self, unit: Unit) -> _Done | None:
        """The unit with the evaluation code that is its own, at once where nothing there prevents the migration."""
        larger = self.index.with_context(unit, and_options=False)
        if larger is None or len(larger.files) > _MOST_WITH_MODELS:
            return None
        done = self._grown(larger)
        return done if done.attempt.unread or not done.attempt.reasons else None

    def _with_casts_of_weights(self, done: _Done) -> _Done:
        """What looks like a plain loop, with the files that cast what it trains to half: then it is none."""
        is_plain = any(result.form == PLAIN and result.sites for result in done.attempt.results)
        if not is_plain or not all(Help.CASTS in reason.rule.helped_by for reason in done.attempt.reasons):
            return done
        casting = self.index.used_with(done.unit, CASTS)
        if not len(done.unit.files) < len(casting.files) <= _MOST_FILES:
            return done
        joined = self._grown(casting)
        is_half = any(result.form == HALF for result in joined.attempt.results)
        casts_in_place = len(self.index.used_with(done.unit, _CASTS_IN_PLACE).files) > len(done.unit.files)
        return joined if is_half or (casts_in_place and joined.attempt.reasons) else done

    def _with_half_inputs(self, done: _Done) -> _Done:
        """The unit with the files that cast what its model is given, there or by its callers (an evaluation): Apex had
        made the model half, or patched what it computes with.
        """
        if self.tie is not APEX_AMP or not done.attempt.changed or not self.index.holding(CASTS):
            return done
        casting = self.index.used_with(done.unit, CASTS)
        if casting.files == done.unit.files:
            casting = self.index.used_with(self.index.grown(done.unit) or done.unit, CASTS)
        if not len(done.unit.files) < len(casting.files) <= _MOST_FILES:
            return done
        joined = self._grown(casting)
        mine = {real(path) for path in joined.attempt.changed} - set(done.unit.files)
        is_about_them = any(reason.rule.stops_what_it_uses for reason in joined.attempt.reasons)
        if not mine and not is_about_them:
            return done
        self._giving |= mine
        return joined

    def _with_products_in_place(self, done: _Done) -> _Done:
        """The unit with its callers and what they hand to it that multiplies in place: Apex had matched the types."""
        if self.tie is not APEX_AMP or not done.attempt.changed or not self.index.holding(_products_in_place()):
            return done
        larger = self.index.used_with(self.index.grown(done.unit) or done.unit, _products_in_place())
        if not len(done.unit.files) < len(larger.files) <= _MOST_FILES:
            return done
        joined = self._with_models(self._grown(larger))
        repaired = (
            file for file in joined.attempt.changed if _products_in_place().search(joined.attempt.changed[file])
        )
        return joined if {real(file) for file in repaired} - set(done.unit.files) else done

    def _unless_copies_change(self, done: _Done, joined: _Done) -> _Done:
        """The unit with files that cast its model. Where a copy of FP16_Optimizer would change with them it stays
        small, for other scripts may need the copy as it is; and is left alone if the casts are its model's.
        """
        known = done.attempt.changed
        changed = [result for result in joined.attempt.results if result.changed and result.path not in known]
        casting = [result for result in changed if not _is_copy(result)]
        if len(casting) == len(changed):
            return joined
        if not casting:
            return done
        message = f"{casting[0].path} casts what is trained here, and would take a copy of FP16_Optimizer along"
        finding = Finding(next(iter(known)), 1, BELONGS_TOGETHER.code, message, case="copy")
        return dataclasses.replace(done, attempt=done.attempt.left(finding))

    def _grown(self, unit: Unit) -> _Done:
        """The smallest unit from this one on that can be migrated; the last one that came further, where none can."""
        done: _Done | None = _Done(unit, self.programs.attempt(unit))
        while done is not None:
            last = done
            done = self._lifting(last) if last.attempt.reasons else self._completed(last)
        return last

    def _lifting(self, done: _Done) -> _Done | None:
        """A larger unit in which nothing of what prevents the migration of this one does so any more."""
        for larger in self._larger(done):
            attempt = self.programs.attempt(larger, done.given, unless=done.attempt.reasons)
            following = _Done(larger, attempt, done.given)
            if following.attempt.is_readable and not set(done.attempt.reasons) & set(following.attempt.reasons):
                return following
        return None

    def _larger(self, done: _Done) -> Iterator[Unit]:
        """The next larger unit; and the largest, where what is missing may be far away."""
        helped_by = done.helped_by
        larger = self.index.grown(done.unit) if Help.CALLERS in helped_by else None
        units: list[Unit] = []
        while larger is not None and len(larger.files) <= _MOST_FILES:
            units.append(larger)
            larger = self.index.grown(larger) if Help.FAR_CALLERS in helped_by else None
        for unit in chain(units[:1], units[1:][-1:], self._with_makers(done)):
            if not self.programs.left.isdisjoint(unit.files):
                continue
            if Help.OTHER_PART not in helped_by or self.index.sets_up_and_scales(unit):
                yield unit

    def _with_makers(self, done: _Done) -> Iterator[Unit]:
        """The unit with what makes its optimizer (a class around it has the step), and with what uses a GPU."""
        larger = self.index.grown(done.unit, with_makers=True) if Help.MAKERS in done.helped_by else None
        rounds = 0
        while larger is not None and len(larger.files) <= _MOST_FILES and rounds < _MOST_ROUNDS:
            yield larger
            larger = self.index.grown(larger, with_makers=True)
            rounds += 1
        if Help.GPU in done.helped_by:
            callers = self.index.grown(done.unit) or done.unit
            family = callers.extended(self.index.relatives(callers))
            larger = self.index.used_with(family, _MOVES_TO_GPU, anywhere=True)
            if len(done.unit.files) < len(larger.files) <= _MOST_FILES:
                yield larger

    def _tried_again(self, done: _Done, larger: Unit) -> _Done:
        return _Done(larger, self.programs.attempt(larger, done.given), done.given)

    def _completed(self, done: _Done) -> _Done | None:
        """The unit with all that the migration affects although it could be done without; None where that is all."""
        return self._with_callers(done) or self._with_relatives(done) or self._with_casting(done)

    def _with_casting(self, done: _Done) -> _Done | None:
        """The unit with the scripts that use it and cast to half themselves: it may be this unit's model, and no
        GradScaler takes half weights. None where there are none.
        """
        unit = done.unit
        forms = {result.form for result in done.attempt.results if result.changed}
        users = self._users_of_training(done, forms)
        casting = {file: why for file, why in users.items() if may_cast_model(self.index.source(file))}
        if not casting or len(unit.files) + len(casting) > _MOST_FILES:
            return None
        larger = unit.extended(casting)
        others = users.keys() - casting.keys()
        if FP16_UTILS not in forms and others - self.index.users(Unit(tuple(casting), {})).keys():
            return None  # who trains a model of another type by the same code does not want it under autocast
        return self._tried_again(done, larger)

    def _users_of_training(self, done: _Done, forms: set[str]) -> dict[Path, str]:
        """Files outside that use what changes, or Apex's names that went with it: what else two scripts share, each
        has in its own precision. Of training by hand those that use what trains: who borrows a loader in half may only
        run inference.
        """
        if FP16_UTILS not in forms:
            return self.index.users(done.unit, of_training=True) if HALF in forms else {}
        users = self.index.users_of_apex(done.unit)
        for result in done.attempt.results:
            if result.changed:
                for name in changed_definitions(result.source, result.output):
                    users |= self.index.users_of(name, real(result.path), done.unit)
        return users

    def _with_relatives(self, done: _Done) -> _Done | None:
        """The unit with the base classes and derived classes of its own; None where it has them."""
        relatives = self.index.relatives(done.unit) if done.attempt.changed else {}
        if not relatives:
            return None
        larger = done.unit.extended(relatives)
        if len(larger.files) > _MOST_FILES:
            message = f"{len(relatives)} other files hold base classes and derived classes of this unit: not looked at"
            finding = Finding(next(iter(done.attempt.changed)), 1, BELONGS_TOGETHER.code, message, case="many")
            return dataclasses.replace(done, attempt=done.attempt.left(finding))
        return self._tried_again(done, larger)

    def _with_callers(self, done: _Done) -> _Done | None:
        """The unit with all that calls a function that got a parameter; None where nobody else does."""
        given = done.given | {(real(path), name) for path, name in done.attempt.given}
        users: dict[Path, str] = {}
        for file, name in sorted(given - done.given):
            programs = self.index.programs(done.unit, done.given).values()
            together = {one for files in programs if file in files for one in files}
            users |= self.index.users_of(name, file, Unit(tuple(together), {}))
            users |= self.index.receivers(name, file, done.unit)
        if not users:
            return None
        larger = done.unit.extended(users)
        return _Done(larger, self.programs.attempt(larger, given), given)

    def _with_context(self, done: _Done) -> _Done:
        """The unit with files that make its migration better, if it can be migrated with them as well."""
        attempt = done.attempt
        larger = self.index.with_context(done.unit, and_options=attempt.converts) if attempt.changed else None
        if larger is None or len(larger.files) > _MOST_FILES:
            return done
        following = self._tried_again(done, larger)
        stands = self.programs.allowed(following.attempt).reasons or self._completed(following)
        return done if stands else following

    def _with_savers(self, done: _Done) -> _Done:
        """The unit with what saves its optimizer's state in other files, if that can save the scaler's as well."""
        holding = self.index.holding_names(done.attempt.savers) if done.attempt.changed else {}
        larger = done.unit.extended(holding)
        if not len(done.unit.files) < len(larger.files) <= _MOST_FILES:
            return done
        joined = self._with_models(self._grown(larger))
        saves = not {real(path) for path in joined.attempt.changed} <= set(done.unit.files)
        return joined if saves and not self.programs.allowed(joined.attempt).reasons else done

    def _unless_casts_need_apex(self, done: _Done) -> _Done:
        """The unit with the local modules whose casts only Apex makes right, and with everybody else who sets Apex up
        and imports them. Where they cannot be migrated together, nothing is.
        """
        casts = self._casts_of_neighbours(done)
        while casts and all(one.joins for one in casts):
            files = {one.file: one.what for one in casts}
            self.programs.cast_for_others |= files.keys()
            self.programs.forget(files)  # alone they were refused
            larger = done.unit.extended({**files, **self._setting_up(files)})
            if len(larger.files) > _MOST_FILES or len(larger.files) == len(done.unit.files):
                break
            done = self._with_all_calls(self._tried_again(done, larger), files)
            casts = self._casts_of_neighbours(done)
            if done.attempt.reasons:  # and so they are again, for Apex stays
                self.programs.cast_for_others -= files.keys()
                self.programs.forget(files)
        if not casts:
            return done
        path = next(iter(done.attempt.changed))
        finding = Finding(
            path, 1, BELONGS_TOGETHER.code, f"{in_words(casts[0].file)} {casts[0].what}", case="neighbour"
        )
        return dataclasses.replace(done, attempt=done.attempt.left(finding))

    def _with_all_calls(self, done: _Done, files: Mapping[Path, str]) -> _Done:
        """The unit with whoever uses files that cast functions, where one is refused unless its calls are known."""
        if Help.ALL_CALLS not in done.helped_by:
            return done
        larger = done.unit.extended(self.index.users(Unit(tuple(files), {})))
        if len(larger.files) > _MOST_FILES:
            return done
        return self._tried_again(done, larger)

    def _casts_of_neighbours(self, done: _Done) -> list[NeighbourCast]:
        found: list[NeighbourCast] = []
        for result in done.attempt.results if done.attempt.changed and self.tie is APEX_AMP else ():
            found += casts_that_need_apex(Path(os.path.abspath(result.path)), result.source, done.unit.files)
        return found

    def _setting_up(self, files: Mapping[Path, str]) -> dict[Path, str]:
        """The scripts that set Apex up and import some files, directly or through others."""
        scripts = self.index.holding(_SETS_UP)
        imported = {one: {file for file, _ in local_modules(one, self.index.source(one))} for one in scripts}
        return {one: "sets Apex up for a function that is cast" for one in scripts if imported[one] & files.keys()}

    def _unless_others_decide(self, done: _Done) -> _Done:
        """What is in float32 from now on may not be used by files that stay in half, nor may a plain loop be put under
        autocast that runs under a precision of its caller's choice.
        """
        for result in done.attempt.results:
            file = real(result.path)
            words = CASTS if file in self._giving else _DECIDING.get(result.form)
            if words is None or not result.changed:
                continue
            for name in changed_definitions(result.source, result.output):
                for user, reason in self.index.users_of(name, file, done.unit).items():
                    if words.search(self.index.source(user)):
                        what = "chooses a precision" if result.form == PLAIN else "casts to half"
                        message = f"{in_words(user)} {reason}, and {what} itself"
                        finding = Finding(result.path, 1, BELONGS_TOGETHER.code, message, case="decides")
                        return dataclasses.replace(done, attempt=done.attempt.left(finding))
        return done


def _is_copy(result: Result) -> bool:
    """True for a file that holds a copy of FP16_Optimizer."""
    return b"def backward(self, loss" in result.source
