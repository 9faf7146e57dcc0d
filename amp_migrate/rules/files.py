"""Files and notebooks that cannot be read, parsed or written."""

from __future__ import annotations

from amp_migrate.home import ISSUES
from amp_migrate.rules.rule import Case, Rule

STEP_OVER_CELLS = Rule(
    "AMP986",
    "refusal",
    "a step of the training spans several cells",
    "autocast would have to be one block around statements of several cells of a notebook",
    "put the forward and the loss into one cell, then run again",
    about="file",
)
UNDECODABLE = Rule(
    "AMP990",
    "error",
    "the file cannot be decoded",
    "its bytes do not fit the encoding that it declares (UTF-8 where it declares none), so Python would not read "
    "it either",
    "convert the file to UTF-8, or declare its encoding in the first line; then run again",
    about="file",
)
UNPARSABLE = Rule(
    "AMP991",
    "error",
    "the file does not parse",
    "only Python 3 that parses can be migrated",
    "correct the line, then run again",
    cases={
        "parser": Case(
            "Python reads the file, and LibCST does not",
            "LibCST is the parser that amp-migrate uses: the syntax is newer than the installed one, or tabs and "
            "spaces are mixed as only Python reads them",
            "indent the block with spaces alone; where the syntax is new, update LibCST with "
            "`python -m pip install -U libcst`; then run again",
        ),
        "depth": Case(
            "the code goes too deep",
            "Python's recursion limit is reached before such code is analysed",
            "leave the file as it is; or divide the expression, the blocks or the functions, then run again",
        ),
    },
    about="file",
)
NOT_REPRODUCIBLE = Rule(
    "AMP992",
    "error",
    "the file cannot be reproduced exactly",
    "parsed and written back, its bytes would differ outside of what is migrated",
    "end each line with a line feed, or with a carriage return and a line feed; then run again",
    cases={
        "parser": Case(
            "the parser changes it",
            "parsed by LibCST and written back, this line would change, although nothing in it is migrated",
            f"report it at {ISSUES}, with the line; until then the file stays as it is",
        ),
    },
    about="file",
)
NO_ACCESS = Rule(
    "AMP993",
    "error",
    "the file cannot be read or written",
    "the operating system refused",
    "check that the file exists, and its permissions and those of its folder; then run again",
    about="file",
)
UNREADABLE_NOTEBOOK = Rule(
    "AMP994",
    "error",
    "a notebook cannot be read",
    "it is not JSON in UTF-8 of the notebook format 4",
    "open it in Jupyter and save it again; `jupyter nbconvert --to notebook --inplace` converts older formats",
    about="file",
)
CHANGED_MEANWHILE = Rule(
    "AMP995",
    "error",
    "the file changed while it was worked on",
    "an editor or another program wrote it after it was read; what would be written now would lose that",
    "run again",
    about="file",
)
