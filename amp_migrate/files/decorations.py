"""What stands under a decorator in a project, by its text: nobody else need name what is in a registry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from amp_migrate.files.read import read_if_there

# @zoo.register("small")
# class Small(nn.Module):
_DECORATED = rb"^@((?:\w+\.)*)(%s)\b[^\n]*\n(?:[@#)\s][^\n]*\n)*(?:class|def) +(\w+)"


def decorations(
    decorator: bytes, holding: Callable[[re.Pattern[bytes]], list[Path]]
) -> Iterator[tuple[Path, str, str]]:
    """Each file with the decorator as it is written there (`zoo.register`), and the name of the class or function."""
    words = re.compile(_DECORATED % re.escape(decorator), re.MULTILINE)
    for file in holding(words):
        for before, last, name in words.findall(read_if_there(file)):
            yield file, (before + last).decode(), name.decode()
