"""Blocks as text, with the comments and the formatting of people who have no formatter."""

from __future__ import annotations

from random import Random

from tests.generate.steps import Block

_WORDS = "keep this; see the paper; TODO tune; note; slow; checked by hand; why?; naïve".split("; ")


def dressed(block: Block, random: Random) -> bytes:
    """The source: encoding, line ends, indentation and comments are all drawn."""
    dresser = _Dresser(random)
    lines = dresser.lines(block, "")
    text = "\n".join(lines) + random.choice(("\n", "\n", "\n", "", "\n\n"))
    if dresser.crlf:
        text = text.replace("\n", "\r\n")
    return (b"\xef\xbb\xbf" if random.random() < 0.05 else b"") + text.encode()


class _Dresser:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.indent = random.choice(("    ", "    ", "    ", "  ", "\t"))
        self.crlf = random.random() < 0.1
        self.comments = random.choice((0.0, 0.1, 0.3))
        self.oddity = random.choice((0.0, 0.0, 0.1, 0.3))
        self.number = 0

    def lines(self, block: Block, indent: str) -> list[str]:
        found: list[str] = []
        for item in block:
            if isinstance(item, tuple):
                found += self._compound(item[0], item[1], indent)
            else:
                found += self._simple(item, indent, found)
        return found

    def _compound(self, head: str, block: Block, indent: str) -> list[str]:
        continues = head.split(":")[0].split(" ")[0] in ("else", "except", "elif")
        before = [] if continues else self._comment_line(indent)
        is_one_line = len(block) == 1 and isinstance(block[0], str) and "\n" not in block[0]
        if is_one_line and not block[0].startswith(("@", "def")) and self._odd():
            return [*before, f"{indent}{head} {block[0]}{self._comment()}"]
        inner = self.lines(block, indent + self.indent)
        blank = [""] if head.startswith(("def ", "class ")) and not indent else []
        return [*blank, *before, f"{indent}{head}{self._comment()}", *inner, *blank]

    def _simple(self, line: str, indent: str, before: list[str]) -> list[str]:
        if not line:
            return [""]
        if line.startswith("@"):
            return [indent + line]
        spaced = [""] if self._odd() else []
        above = self._comment_line(indent)
        if self._odd() and line.endswith(")") and line.count("(") == 1 and '"' not in line:
            name, _, arguments = line[:-1].partition("(")
            if arguments:
                return [
                    *spaced,
                    *above,
                    f"{indent}{name}(",
                    f"{indent}{self.indent}{arguments}{self._comment()}",
                    f"{indent})",
                ]
        if self._odd() and before and not spaced and not above and self._joins(before[-1], indent):
            before[-1] = f"{before[-1]}; {line}{self._comment()}"
            return []
        ending = self.random.choice((" ", ";", " ;")) if self._odd() else ""
        return [*spaced, *above, f"{indent}{line}{ending}{self._comment()}"]

    def _joins(self, line: str, indent: str) -> bool:
        """True for a simple statement of the same block that another one may follow on its line."""
        body = line.removeprefix(indent)
        ends = (
            "if ",
            "else",
            "for ",
            "with ",
            "def ",
            "class ",
            "try",
            "except",
            "import",
            "@",
            "#",
            ")",
            " ",
            "from ",
            "",
        )
        if not line.startswith(indent) or not body or "#" in body or body.rstrip().endswith((";", ":", ",")):
            return False
        return not body.startswith(tuple(end for end in ends if end))

    def _odd(self) -> bool:
        return self.random.random() < self.oddity

    def _comment(self) -> str:
        return f"  {self._words()}" if self.random.random() < self.comments else ""

    def _comment_line(self, indent: str) -> list[str]:
        return [indent + self._words()] if self.random.random() < self.comments else []

    def _words(self) -> str:
        self.number += 1
        return f"# {self.random.choice(_WORDS)} {self.number}"
