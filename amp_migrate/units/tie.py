"""What ties the files of a unit together: a value that travels from one to another, by the words for it.

Everything here is asked before anything is resolved: bytes, names and imports.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from amp_migrate.apex_exports import APEX_EXPORTS


@dataclasses.dataclass(frozen=True)
class Tie:
    """The words of one kind of value: what it is called, where it comes from, and what only it can do.

    `title` names it in reasons. Without one of the `words` no definition of a file uses it by itself. `origins` match
    the canonical names of what it is made of or by; `joining` those of them that bind their user into a unit. `names`
    match what scripts call it. `telling` are methods that nothing else has, `ordinary` those that other things have,
    too. `stars` is what `from MODULE import *` binds. A training is whole that calls something of both `halves`. Where
    it is `common`, files that share it need not belong together: a unit starts with one file.
    """

    title: str
    words: re.Pattern[bytes]
    origins: re.Pattern[str]
    joining: re.Pattern[str]
    itself: re.Pattern[str]
    names: re.Pattern[str]
    telling: frozenset[str]
    ordinary: frozenset[str]
    stars: Mapping[str, tuple[str, ...]]
    halves: tuple[re.Pattern[str], re.Pattern[str]]
    common: bool = False

    def is_like(self, name: str) -> bool:
        """True for names that scripts give to such a value."""
        return self.names.fullmatch(name) is not None

    def means(self, canonical: str) -> bool:
        """True for the value and everything in it."""
        return self.origins.fullmatch(canonical) is not None

    def joins(self, canonical: str) -> bool:
        """True for what has to be migrated together with whatever uses it."""
        return self.joining.fullmatch(canonical) is not None

    def is_itself(self, canonical: str) -> bool:
        """True for the value as such: a variable that is given it holds it."""
        return self.itself.fullmatch(canonical) is not None


# The module, or what may hold it. Decorators that change the casts of a function join nothing: they have no native
# form, and nothing would be gained by a unit of all that calls the function.
APEX_AMP = Tie(
    title="apex.amp",
    words=re.compile(
        rb"\bapex\b|\bscale_loss\b|\bmaster_params\b|\b_?(?:apex_)?amp(?:_handle)?\s*\.\s*"
        rb"(?:initialize|init|state_dict|load_state_dict)\b"
    ),
    origins=re.compile(r"apex\.amp(?:\..*)?"),
    joining=re.compile(r"apex\.amp(?:\.(?!(?:half|float|promote)_function$).*)?"),
    itself=re.compile(r"apex\.amp"),
    names=re.compile(r"_?(?:apex_)?amp(?:_handle)?"),
    telling=frozenset(("scale_loss", "master_params")),
    ordinary=frozenset(("initialize", "init", "state_dict", "load_state_dict")),
    stars={"apex": ("amp",), "apex.amp": APEX_EXPORTS["apex.amp"]},
    halves=(re.compile("initialize|init"), re.compile("scale_loss")),
)

_OPTIMIZER = (
    r"(?:\w*Adam\w*|\w*SGD\w*|\w*LAMB|\w*Lamb|RMSprop\w*|\w*Optimizer\w*|\w+Optim"
    r"|Ada(?:[Bb]elief|[Bb]ound|delta|[Ff]actor|grad|max|[Hh]essian)\w*)"
)
_OPTIMIZERS = re.compile(
    rf"torch\.optim\.[A-Z]\w*|apex\.(?:fp16_utils|optimizers|contrib\.optimizers)\..*|.*\.{_OPTIMIZER}"
)

# The optimizer, for every other source form.
TRAINING = Tie(
    title="an optimizer",
    words=re.compile(rb"\.backward\b|[\"']backward[\"']|\boptim|(?:Adam|SGD|Optimizer|Optim)\w*\s*\("),
    origins=_OPTIMIZERS,
    joining=_OPTIMIZERS,
    itself=_OPTIMIZERS,
    names=re.compile(r"\w*optim\w*|\w+_opt"),
    telling=frozenset(("backward",)),
    ordinary=frozenset(("step", "zero_grad", "state_dict", "load_state_dict")),
    stars={
        module: names
        for module, names in APEX_EXPORTS.items()
        if module.startswith(("apex.fp16_utils", "apex.optimizers"))
    },
    halves=(re.compile(_OPTIMIZER), re.compile("backward")),
    common=True,
)
