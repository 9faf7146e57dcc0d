"""Files with native AMP that belong to no unit, one by one: in the new spelling, and checked for mistakes."""

from __future__ import annotations

from pathlib import Path

from amp_migrate.engine import modernise_and_check
from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.files.helpers import Helpers
from amp_migrate.files.imports import module_name
from amp_migrate.files.torch_version import FIRST_WITH_TORCH_AMP
from amp_migrate.options import Options
from amp_migrate.processes import Died
from amp_migrate.reading import Input
from amp_migrate.result import Result
from amp_migrate.units.index import Unit
from amp_migrate.units.workspace import Workspace, real


def native_results(workspace: Workspace, files: list[Path], options: Options) -> dict[Path, Result]:
    """The results of some of the files of a workspace."""

    def take(path: str, name: str) -> bool:
        """True where another file refers to a name of a file."""
        file = real(path)
        return bool(workspace.index().users_of(name, file, Unit((file,), {})))

    def work(file: Path) -> Result:
        one = Input(str(file), module_name(file), workspace.sources[file])
        return _result(one, _torch(workspace.declared_torch(file), options), options, Helpers(take))

    def size(file: Path) -> int:
        return len(workspace.sources[file])

    made = workspace.workers.map("native AMP", work, files, size)
    return {
        file: Result.broken(str(file), workspace.sources[file], str(result)) if isinstance(result, Died) else result
        for file, result in zip(files, made, strict=True)
    }


def native_result(source: bytes, options: Options) -> Result:
    """The result of one file, about whose place and neighbours nothing is known."""
    return _result(Input("-", "-", source), _torch(options.torch, options), options, Elsewhere())


def _result(file: Input, torch: tuple[int, int] | None, options: Options, elsewhere: Elsewhere) -> Result:
    try:
        return modernise_and_check(file, torch, options.selection, elsewhere)
    except RecursionError:  # nested too deeply: as little our business as what does not parse
        return Result(file.path, file.source, file.source, "untouched")
    except Exception as error:  # a bug of ours must not cost the user the other files
        return Result.broken(file.path, file.source, f"{type(error).__name__}: {error}")


def _torch(declared: tuple[int, int] | None, options: Options) -> tuple[int, int] | None:
    """The oldest torch that the new names may count on: what the project declares, at least 2.3 where they are asked
    for, and none where the old ones are.
    """
    if options.api == "torch.cuda.amp":
        return None
    return max(declared or FIRST_WITH_TORCH_AMP, FIRST_WITH_TORCH_AMP) if options.api == "torch.amp" else declared
