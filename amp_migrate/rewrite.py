"""Edits made: the facts of the files as they are afterwards, and what is wrong with them that was not before."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from amp_migrate.check import check_module
from amp_migrate.facts import Facts
from amp_migrate.files.parse import parse
from amp_migrate.native.apply import apply_edits
from amp_migrate.native.edits import Edits
from amp_migrate.native.unused import drop_unused


def edited(facts: Facts, edits: Edits) -> Facts:
    """The same files with the edits made. Raises Unparsable."""
    changed = {facts.tree.root_of(node) for node in edits.nodes()}
    files = []
    for root, file in facts.files.items():
        module = parse(apply_edits(facts.tree, root, edits).bytes) if root in changed else file.module
        files.append(dataclasses.replace(file, module=module, lines=()))
    return Facts(files, facts.elsewhere)


def without_unused(after: Facts, before: Facts, programs: Collection[str]) -> Facts:
    """The files without what became unused, and then unused by that. Raises Unparsable."""
    while not (unused := drop_unused(after, before, programs)).is_empty:
        after = edited(after, unused)
    return after


def new_violations(after: Facts, before: Facts) -> list[str]:
    """What is wrong with native AMP, and was not wrong before."""
    found = check_module(after, before)
    own = {(one.kind, one.message) for one in check_module(before, before)} if found else set()
    return [f"{one.kind} in {one.function}: {one.message}" for one in found if (one.kind, one.message) not in own]
