"""Prints how many mutants of each kind are refused, and by what."""

from __future__ import annotations

import argparse
import random

from tests.structural.judgement import SURVIVED, UNDECIDED
from tests.structural.suite import everything, sample, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.structural", description=__doc__)
    parser.add_argument("--forms", default="", help="source forms, by their folders: apex,units")
    parser.add_argument("--kinds", default="", help="kinds of mutants, by their names: bare step,clip dropped")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="about N mutants; all of them by default")
    parser.add_argument("--seed", default=str(random.randrange(10**6)), help="of the sample")
    parser.add_argument("--survivors", action="store_true", help="list those that nobody refuses, by file and line")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes, where all mutants are judged")
    args = parser.parse_args()
    forms, kinds = (list(filter(None, given.split(","))) for given in (args.forms, args.kinds))
    made = sample(forms, kinds, args.sample, args.seed) if args.sample else everything(forms, kinds, args.workers)
    outcomes = list(made)
    if args.sample:
        print(f"seed {args.seed}")
    print("\n".join(table(outcomes)))
    for verdict in (UNDECIDED, SURVIVED) if args.survivors else ():
        print(f"\n{verdict}:")
        print("\n".join(sorted(str(one) for one in outcomes if one.verdict == verdict)))


if __name__ == "__main__":
    main()
