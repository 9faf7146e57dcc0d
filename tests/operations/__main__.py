"""`python -m tests.operations`: the measured table of torch's operations."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from pathlib import Path


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="python -m tests.operations", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure the operations and write the table")
    measuring.add_argument("--output", type=Path)
    measuring.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    measuring.add_argument("names", nargs="*", help="full names; all by default")
    checking = commands.add_parser("check", help="measure again, and fail where the table says something else")
    checking.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    checking.add_argument("names", nargs="*", help="full names; all by default")
    commands.add_parser("questions", help="ask Precisions what each operation returns")
    sampling = commands.add_parser("samples", help="write the calls to a file, for a machine with a GPU")
    sampling.add_argument("--output", type=Path, required=True)
    sampling.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asking = commands.add_parser("gpu", help="ask a real GPU, and write where the table says something else")
    asking.add_argument("--samples", type=Path, required=True)
    asking.add_argument("--output", type=Path, required=True)
    asking.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="the CPU shows that the program runs")
    asking.add_argument("--commit", default="", help="what is written into the results as the commit")
    asking.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.command == "measure":
        _measure(options.output, options.names, options.processes)
    elif options.command == "check":
        sys.exit(_check(options.names, options.processes))
    elif options.command == "questions":
        _questions()
    elif options.command == "samples":
        _samples(options.output, options.processes)
    elif options.command == "gpu":
        _gpu(options)


def _measure(output: Path | None, names: list[str], processes: int) -> None:
    from tests.operations.measure import explain_nothing, measure, write

    rows, unexplained, missing = measure(names, processes)
    print("\n".join(explain_nothing(unexplained)))
    print("\n".join(f"no row: {name}: {why}" for name, why in missing.items()))
    print(f"{len(rows)} rows, {len(unexplained)} that do not explain all answers, {len(missing)} names without a row")
    if output is not None:
        write(rows, output)
    else:
        print("\n".join(f"{name}: {fields}" for name, fields in rows.items()))


def _check(names: list[str], processes: int) -> int:
    from tests.operations.measure import disagreements

    found = disagreements(names, processes)
    print("\n".join(found) or "the table agrees")
    return bool(found)


def _questions() -> None:
    from tests.operations.precisions import report

    print("\n".join(report()))


def _samples(output: Path, processes: int) -> None:
    from tests.operations.gpu import save
    from tests.operations.measure import prepare
    from tests.operations.samples import samples
    from tests.operations.workers import results

    every = prepare()
    found = {name: got for name, got, _ in results(sorted(every), lambda name: samples(every[name]), processes, 20)}
    lost = save({name: got for name, got in sorted(found.items()) if got is not None and got.calls}, output)
    print(f"{output}: {output.stat().st_size} bytes; not written: {', '.join(lost) or 'none'}")


def _gpu(options: argparse.Namespace) -> None:
    from tests.operations.gpu import compare, read, write

    found = compare(read(options.samples), options.processes, options.device)
    write(found, options.commit, options.output)
    print("\n".join(f"{name}: {told}" for name, told in found["differences"].items()))
    print({name: value for name, value in found.items() if not isinstance(value, (dict, list))})


if __name__ == "__main__":
    main()
