"""Bytes to a LibCST module, or an error that a person can act on."""

from __future__ import annotations

import ast
import codecs
import re
import sys
import tokenize
from functools import lru_cache
from io import BytesIO

import libcst as cst

from amp_migrate.files.nesting import deepest
from amp_migrate.findings import Finding
from amp_migrate.module_text import KEPT_MODULES, module_text
from amp_migrate.plain_attributes import with_plain_attributes
from amp_migrate.rules.files import NOT_REPRODUCIBLE, UNDECODABLE, UNPARSABLE

_ALONE = re.compile(rb"\r(?!\n)")
_MOST_LEVELS = 3000  # from 3.11 on, CPython itself parses no more than about so many


class Unparsable(Exception):
    """A file that cannot be processed; `finding` says where and why, `is_python` that Python has no such trouble."""

    def __init__(self, finding: Finding, *, is_python: bool = False) -> None:
        super().__init__(finding.message)
        self.finding = finding
        self.is_python = is_python


@lru_cache(KEPT_MODULES)
def parse(source: bytes) -> cst.Module:
    """The module of a source file, exact to the byte. Raises Unparsable."""
    text = _decode(source)
    _check_syntax(source, text)
    try:
        module, output = _round_trip(source, cst.parse_module(source))
        if output != source:
            module, output = _round_trip(source, _with_last_lines(source))
    except (cst.ParserSyntaxError, SyntaxError, UnicodeError) as error:
        message = error.message if isinstance(error, cst.ParserSyntaxError) else str(error)
        line = _line_of_tokenizer_error(text, message)
        finding = Finding("", line, UNPARSABLE.code, f"LibCST cannot parse this file: {message}", case="parser")
        raise Unparsable(finding, is_python=True) from error
    if output != source:
        line = _first_difference(source, output)
        message = "parsed and written back, this line would not be the same"
        raise Unparsable(Finding("", line, NOT_REPRODUCIBLE.code, message, case="parser"))
    return module


def problem_of(source: bytes) -> Finding | None:
    """Why Python cannot parse a file; None where it can."""
    try:
        _check_syntax(source, _decode(source))
    except Unparsable as error:
        return error.finding
    return None


def _round_trip(source: bytes, module: cst.Module) -> tuple[cst.Module, bytes]:
    """The module that is analysed, and how it is written."""
    module = with_plain_attributes(module) if b"getattr" in source else module
    return module, module_text(module).bytes


def _with_last_lines(source: bytes) -> cst.Module:
    """The module, with the blank lines before a last line of white space, which LibCST loses."""
    end = source.find(b"\n", len(source.rstrip())) + 1
    lines = [line.decode() for line in source[end:].splitlines(keepends=True)] if end else []
    module = cst.parse_module(source[:end] if lines else source)
    if not lines:
        return module
    bare = [line.rstrip("\r\n") for line in lines]
    footer = [
        cst.EmptyLine(False, cst.SimpleWhitespace(text), newline=cst.Newline(line[len(text) :] or None))
        for line, text in zip(lines, bare, strict=True)
    ]
    return module.with_changes(footer=(*module.footer, *footer), has_trailing_newline=lines[-1] != bare[-1])


def _decode(source: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(source).readline)
    except SyntaxError as error:
        both = source.startswith(codecs.BOM_UTF8)
        message = "a byte order mark of UTF-8 and another encoding are declared" if both else str(error.msg)
        raise Unparsable(Finding("", 1, UNDECODABLE.code, message)) from error
    try:
        return source.decode(encoding)
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{source[error.start]:02x} is not valid {encoding}"
        raise Unparsable(Finding("", line, UNDECODABLE.code, message)) from error
    except (LookupError, UnicodeError) as error:
        raise Unparsable(Finding("", 1, UNDECODABLE.code, f"{encoding} is no encoding of text: {error}")) from error


def _check_characters(source: bytes) -> None:
    """Raise Unparsable for what the parsers take for something else."""
    if b"\0" in source:
        line = source.count(b"\n", 0, source.index(b"\0")) + 1
        raise Unparsable(Finding("", line, UNPARSABLE.code, "source code cannot contain null bytes"))
    alone = _ALONE.search(source)
    if alone is not None:
        line = source.count(b"\n", 0, alone.start()) + 1
        message = "a carriage return without a line feed ends this line"
        raise Unparsable(Finding("", line, NOT_REPRODUCIBLE.code, message))


def _check_syntax(source: bytes, text: str) -> None:
    """Raise Unparsable in CPython's words, at its line. It goes first: too deep a nesting would crash LibCST."""
    _check_characters(source)
    try:
        ast.parse(source)
        if sys.version_info < (3, 11) and deepest(source)[0] > _MOST_LEVELS:
            raise RecursionError
    except TabError as found:
        message = "tabs and spaces are mixed inconsistently in the indentation"
        raise Unparsable(Finding("", found.lineno or 1, UNPARSABLE.code, message)) from found
    except SyntaxError as found:
        line = found.lineno or 1
        raise Unparsable(Finding("", line, UNPARSABLE.code, _python_2(text, line) or found.msg)) from found
    except ValueError as found:
        raise Unparsable(Finding("", 1, UNPARSABLE.code, str(found))) from found
    except (RecursionError, MemoryError) as found:
        raise Unparsable(Finding("", 1, UNPARSABLE.code, "the code is nested too deeply", case="depth")) from found


def _python_2(text: str, line: int) -> str | None:
    """Names the usual reasons why an old script is no Python 3."""
    lines = text.splitlines()
    code = lines[line - 1] if line <= len(lines) else ""
    if re.search(r"\.cuda\(.*\basync\s*=|^\s*async\s*=", code):
        return "cuda(async=True): async is a keyword since Python 3.7; write non_blocking=True"
    if re.search(r"(?:^|:|;)\s*print\s+[^(=\s]", code):
        return "this is a Python 2 print statement"
    if re.match(r"\s*exec\s+[^(=\s]", code):
        return "this is a Python 2 exec statement"
    if re.search(r"\bexcept\s+[\w.]+\s*,\s*\w+\s*:", code):
        return "this is a Python 2 except clause; write `except Error as name:`"
    if re.match(r"\s*raise\s+[\w.]+\s*,", code):
        return "this is a Python 2 raise statement"
    return None


def _line_of_tokenizer_error(text: str, message: str) -> int:
    """LibCST's tokenizer names no line: it is the last of the shortest beginning that fails alike."""
    lines = text.splitlines(keepends=True)
    low, high = 1, len(lines)
    while low < high:
        middle = (low + high) // 2
        if _fails_alike("".join(lines[:middle]), message):
            high = middle
        else:
            low = middle + 1
    return low


def _fails_alike(text: str, message: str) -> bool:
    try:
        cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        return error.message == message
    return False


def _first_difference(source: bytes, output: bytes) -> int:
    for number, (one, other) in enumerate(zip(source.split(b"\n"), output.split(b"\n"), strict=False), start=1):
        if one != other:
            return number
    return max(source.count(b"\n"), 1)
