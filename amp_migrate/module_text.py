"""The text of a module, and where its nodes stand in it: written once for all who ask.

LibCST's PositionProvider costs twice the parse, and each text or round trip writes the module anew. Here one pass of
its code generator remembers where each node begins and ends; lines, columns and most texts are read off that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, lru_cache
from itertools import accumulate

import libcst as cst
from libcst._nodes.internal import CodegenState  # what LibCST's own position providers are made of, and no public name

_IN_LINES = (cst.BaseExpression, cst.Arg, cst.SubscriptElement)  # nothing of them stands on lines of its own
KEPT_MODULES = 128  # the files of a large unit: its scripts share them, and a unit may be tried several times
_BEHIND = "; \t\r\n\f"  # what ends a statement, and is none of it
_NEWLINE = re.compile(r"\r\n?|\n")


class ModuleText:
    """A module as text. `code` is what stands in the file, without its encoding."""

    def __init__(self, module: cst.Module) -> None:
        self.module = module  # keeps the nodes alive: they are known by their id
        self._state = _Recording(default_indent=module.default_indent, default_newline=module.default_newline)
        module._codegen(self._state)
        self.code = "".join(self._state.tokens)

    @cached_property
    def bytes(self) -> bytes:
        """The content of the file."""
        return self.code.encode(self.module.encoding)

    def place(self, node: cst.CSTNode) -> tuple[int, int]:
        """The line (from 1) and the column (from 0) that a node starts on, after its comments and parentheses."""
        first = self._state.starts.get(id(node))
        if first is None:
            first, _ = self._state.spans.get(id(node), (0, 0))
        return self._at(self._offsets[first])

    def span(self, node: cst.CSTNode) -> tuple[tuple[int, int], tuple[int, int]]:
        """The place of a node, and the one behind its last character."""
        last_part = node.body[-1] if isinstance(node, cst.SimpleStatementLine) else node  # without its comment
        first, _ = self._state.spans.get(id(last_part), (0, 0))
        return self.place(node), self._at(self._offsets[first] + len(self.lines(last_part).rstrip(_BEHIND)))

    def _at(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1]

    def text(self, node: cst.CSTNode) -> str:
        """The source of a node, as LibCST's `code_for_node` gives it."""
        if id(node) in self._state.spans and isinstance(node, _IN_LINES):
            text = self.lines(node)
            if "\n" not in text and "\r" not in text:
                return text
        return self.module.code_for_node(node)  # of several lines: without the indentation of where it stands

    def lines(self, node: cst.CSTNode) -> str:
        """The source of a node as it stands in the file."""
        first, last = self._state.spans.get(id(node), (0, 0))
        return self.code[self._offsets[first] : self._offsets[last]]

    @cached_property
    def _offsets(self) -> list[int]:
        """How many characters stand before each token, and before the end."""
        ends = list(accumulate(map(len, self._state.tokens), initial=0))
        return [*ends, ends[-1]]  # the newline that a file lacks at its end was a token, too

    @cached_property
    def _lines(self) -> list[int]:
        """How many characters stand before each line."""
        return [0, *(match.end() for match in _NEWLINE.finditer(self.code))]


@lru_cache(KEPT_MODULES)
def module_text(module: cst.Module) -> ModuleText:
    """The text of a module. It is known by itself: modules are never changed in place."""
    return ModuleText(module)


class _Recording(CodegenState):
    """Remembers the tokens of each node: `spans` from its first to behind its last one, `starts` those of its syntax,
    which comments, indentation and parentheses may precede.
    """

    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.spans: dict[int, tuple[int, int]] = {}
        self.starts: dict[int, int] = {}
        self._begun: list[int] = []

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._begun.append(len(self.tokens))

    def after_codegen(self, node: cst.CSTNode) -> None:
        self.spans[id(node)] = (self._begun.pop(), len(self.tokens))

    def record_syntactic_position(  # type: ignore[override]  # a context manager that does nothing any more
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Recording:
        self.starts[id(node)] = len(self.tokens)
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass
