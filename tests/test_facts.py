"""What the facts say about small pieces of code."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_migrate.facts import Facts
from amp_migrate.facts.paths import Graph
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.files.parse import parse


def facts_of(code: str) -> Facts:
    return Facts(parse(textwrap.dedent(code).lstrip().encode()))


def asked(facts: Facts) -> list[cst.BaseExpression]:
    """The arguments of the calls `ask(...)`, which mark what a test is about."""
    return [
        arg.value
        for statement in facts.tree.all_statements()
        for part in facts.tree.expressions(statement)
        if isinstance(part, cst.Call) and called_name(part) == "ask"
        for arg in part.args
    ]


# -- objects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "model = Net()\nask(model)",
        "model = Net()\nmodel = model.cuda()\nnet = model\nask(net)",
        "def train(net):\n    ask(net)\nmodel = Net()\ntrain(model)",
        "def build():\n    return Net(), 1\nmodel, one = build()\nask(model)",
        "def build():\n    model = Net()\n    def inner():\n        ask(model)\n    return inner",
        "class T:\n    def __init__(self):\n        self.model = Net()\n    def train(self):\n        ask(self.model)",
        "models = [Net(), Other()]\nask(models[0])",
        "parts = {'a': Net()}\nask(parts['a'])",
        "for model in [Net()]:\n    ask(model)",
        "from functools import partial\ndef run(net):\n    ask(net)\ngo = partial(run, Net())\ngo()",
    ],
)
def test_an_object_is_followed_to_where_it_was_made(code):
    facts = facts_of(code)
    (question,) = asked(facts)
    origins = [one.origin for one in facts.objects.objects(question)]
    made = {facts.text(origin) for origin in origins if isinstance(origin, cst.Call)}
    assert any(text.startswith("Net()") for text in made), made
    assert not any(text.startswith("Other()") for text in made), made


# -- conditions ---------------------------------------------------------------------------------------------

_OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--level", default="O1")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("args.fp16", "not not args.fp16"),
        ("args.fp16", "args.fp16 is True"),
        ("args.level != 'O0'", "not args.level == 'O0'"),
        ("not (args.fp16 and args.level)", "not args.fp16 or not args.level"),
        ("bool(args.fp16)", "args.fp16"),
    ],
)
def test_equivalent_conditions(first, second):
    facts = facts_of(_OPTIONS + f"ask({first}, {second})")
    one, other = (facts.conditions.compile(node) for node in asked(facts))
    assert facts.conditions.equivalent(one, other)


@pytest.mark.parametrize(
    ("first", "second", "follows"),
    [
        ("args.fp16 and args.level", "args.fp16", True),
        ("args.fp16", "args.fp16 and args.level", False),
        ("args.level == 'O2'", "args.level != 'O0'", True),
        ("args.level != 'O0'", "args.level == 'O2'", False),
        ("(int(args.count) if args.fp16 else 1) > 1", "args.level == 'O2'", False),
        ("args.fp16 and not args.fp16", "args.level == 'O2'", False),
    ],
)
def test_implied_conditions(first, second, follows):
    facts = facts_of(_OPTIONS + f"ask({first}, {second})")
    one, other = (facts.conditions.compile(node) for node in asked(facts))
    assert facts.conditions.implies(one, other) is follows


@pytest.mark.parametrize(
    ("expression", "is_bool"),
    [
        ("args.fp16", True),
        ("args.level", False),
        ("args.level != 'O0'", True),
        ("not args.level", True),
        ("args.fp16 and args.level", False),
        ("args.fp16 or args.level == 'O1'", True),
        ("None", False),
        ("torch.cuda.is_available()", True),
    ],
)
def test_proven_bools(expression, is_bool):
    facts = facts_of(_OPTIONS + f"import torch\nask({expression})")
    (question,) = asked(facts)
    assert facts.values.is_bool(question) is is_bool


# -- paths --------------------------------------------------------------------------------------------------


def path_exists(code: str, start: str, goal: str, avoid: str) -> bool:
    """Is there a path from the statement that calls `start` to that of `goal` around `avoid`?"""
    facts = facts_of(code)
    graph = Graph(facts, facts.tree.functions[0], lambda callee: True, lambda test: None, called_again=False)

    def calls(name: str) -> set[Statement]:
        return {
            statement
            for statement in facts.tree.all_statements()
            for part in facts.tree.expressions(statement)
            if isinstance(part, cst.Call) and called_name(part) == name
        }

    goals, avoided = calls(goal), calls(avoid)
    sources = [point for statement in calls(start) for point in graph.at(statement)]
    assert sources
    return graph.path_exists(sources, lambda p: p.statement in goals, lambda p: p.statement in avoided)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("for b in loader:\n    clip()\n    step()\n    backward()", False),
        ("for b in loader:\n    backward()\n    clip()\n    if b:\n        step()", True),
        ("for b in loader:\n    backward()\n    if b:\n        clip()\n        step()", False),
        ("for b in loader:\n    backward()\n    if b:\n        clip()\n    if b:\n        step()", False),
        ("for b in loader:\n    backward()\n    if b:\n        clip()\n    b = f(b)\n    if b:\n        step()", True),
        ("for b in loader:\n    backward()\n    clip()\n    if b:\n        continue\n    step()", True),
        ("def one():\n    clip()\n    step()\nfor b in loader:\n    backward()\n    one()", False),
        ("while go:\n    backward()\n    try:\n        clip()\n        step()\n    except E:\n        pass", False),
        ("clip()\nfor b in loader:\n    step()\n    backward()", False),
    ],
)
def test_paths_from_a_clip_to_the_next_backward(code, expected):
    assert path_exists(code, "clip", "backward", avoid="step") is expected
