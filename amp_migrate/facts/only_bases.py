"""Classes that are named where others derive from them, and nowhere else: nobody makes one of these.

A base of accelerators with a plain `backward_step(loss)` of its own, beside the one class of them that scripts make:
what the derived class overrides does not run.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.names import Names
from amp_migrate.facts.tree import Class, Tree, called_name

_ASKING = ("super", "isinstance", "issubclass")


def only_bases(tree: Tree, names: Names) -> frozenset[Class]:
    """The classes of the unit that are nothing but bases."""
    bases = {base.value for owner in tree.classes for base in owner.node.bases}
    made: set[Class] = set()
    derived_from: set[Class] = set()
    loads = [load for variable in names.all_variables() for load in variable.loads]
    for node in (*loads, *(attribute for attribute, _ in tree.every(cst.Attribute))):
        variable = names.definition(node)
        only = variable.bindings[0] if variable is not None and len(variable.bindings) == 1 else None
        owner = tree.class_at.get(only.node) if only is not None else None
        if owner is not None and not _makes_none(tree, node):
            (derived_from if node in bases else made).add(owner)
    return frozenset(one for one in derived_from - made if not one.node.decorators)  # a registry may make it


def _makes_none(tree: Tree, node: cst.CSTNode) -> bool:
    """True for an annotation, `super(Base, self)`, `isinstance(one, Base)` and `Base.__init__(self)`."""
    parent = tree.parents.get(node)
    if isinstance(parent, cst.Arg):
        call = tree.parents.get(parent)
        return isinstance(call, cst.Call) and called_name(call) in _ASKING
    if isinstance(parent, cst.Attribute):
        return parent.value is node and parent.attr.value == "__init__"
    return isinstance(parent, cst.Annotation)
