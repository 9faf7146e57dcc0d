"""A node of LibCST's tree in Python's own, which reads other files: what both are asked has one answer."""

from __future__ import annotations

import ast
import textwrap

import libcst as cst

from amp_migrate.files.syntax import tree_of


def as_ast(node: cst.CSTNode) -> ast.Module:
    """Python's own tree of a node; an empty one for what does not stand for itself, such as a part of a line."""
    return tree_of(textwrap.dedent(cst.Module([]).code_for_node(node)))
