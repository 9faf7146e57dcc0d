"""`--partial`: what stays is marked with a comment that names the finding, above the statement.

    # amp-migrate: AMP913 optimizer.step(closure) gives the optimizer a closure
    optimizer.step(closure)

A unit is migrated whole or not at all, with and without this: what is certain is all that is written.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import tokenize

from amp_migrate.result import Result


def marked(result: Result) -> Result:
    """A file that is left alone, with its reasons as comments; the others as they are. A second time adds nothing."""
    reasons = [one for one in result.findings if one.rule.kind == "refusal"]
    if result.status != "left" or not reasons:
        return result
    lines = result.source.splitlines(keepends=True)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(result.source).readline)
    tree = ast.parse(result.source)
    places = {(_first_line(tree, one.line), f"{one.code} {one.message}") for one in reasons}
    for line, text in sorted(places, reverse=True):
        below = lines[line - 1]
        indent = below[: len(below) - len(below.lstrip(b" \t"))]
        end = b"\r\n" if below.endswith(b"\r\n") else b"\n"
        comment = indent + f"# amp-migrate: {' '.join(text.split())}".encode(encoding, "replace") + end
        if line < 2 or lines[line - 2] != comment:
            lines.insert(line - 1, comment)
    output = b"".join(lines)
    if ast.dump(ast.parse(output)) != ast.dump(tree):
        return result  # a line of another statement, or of a text: nothing is worth a change of meaning
    return dataclasses.replace(result, output=output)


def _first_line(tree: ast.Module, line: int) -> int:
    """Where the innermost statement around a line begins, with its decorators."""
    around = [
        (min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]), node.end_lineno or line)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
    ]
    return max((first for first, last in around if first <= line <= last), default=line)
