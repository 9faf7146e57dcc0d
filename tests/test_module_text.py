"""Texts and places that are read off one pass of the code generator are those that LibCST gives."""

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from amp_migrate.facts.tree import walk
from amp_migrate.module_text import ModuleText

_SOURCE = """\
# a comment
def train(x, *rest, lr=1e-3, **more):
    y = (x[0, 1:, ...]) + f(x , *rest, lr = lr,)  # behind
    z = f(  # of two lines
        x[{"a": 1}["a"]],
        **more
    )
    return [one for one in (y, z) if one[:1]]
"""


@pytest.mark.parametrize("source", [_SOURCE, _SOURCE.replace("\n", "\r\n"), _SOURCE.removesuffix("\n")])
def test_texts_and_places_are_those_of_libcst(source: str) -> None:
    module = cst.parse_module(source)
    text = ModuleText(module)
    assert text.code == module.code
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    places = wrapper.resolve(PositionProvider)
    for node in walk(module):
        if isinstance(node, cst.BaseExpression | cst.Arg | cst.SubscriptElement):
            assert text.text(node) == module.code_for_node(node)
            assert text.place(node) == (places[node].start.line, places[node].start.column)
