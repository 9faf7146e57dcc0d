"""A file is written back with every byte, whatever white space it ends in."""

from __future__ import annotations

import itertools

import pytest

from amp_migrate.files.parse import Unparsable, parse
from amp_migrate.module_text import module_text

BODIES = [
    "x = 1",
    "def f():\n    return 1",
    "if x:\n\ty = getattr(x, 'y')  # y",
    '"""text\n\n"""',
    "x = [\n    1,\n\n]",
    "# only",
]
ENDS = ["", "\n", "\n\n\n\t", "\n\n\n\t\n", "\n    ", "\n\n    \n\n", " \n\t\n\n  \n\t", "\n\n \n\n"]


@pytest.mark.parametrize(("body", "end", "line"), [*itertools.product(BODIES, ENDS, ["\n", "\r\n"])])
def test_the_last_lines_are_kept(body, end, line):
    source = (body + end).replace("\n", line).encode()
    assert module_text(parse(source)).bytes == source


def test_a_backslash_at_the_end_goes_on_in_the_last_line():
    source = b"x = 1 \\\n\n\t"
    try:
        assert module_text(parse(source)).bytes == source
    except Unparsable as error:
        assert error.is_python
