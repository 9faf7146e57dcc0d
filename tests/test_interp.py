"""What values are under autocast, whatever way they take through the code."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.values import Value, Values
from amp_migrate.plan.safety.passing import moves
from amp_migrate.plan.safety.repairs import Safety
from tests.plain_scan import facts_of

SCRIPT = """\
import functools
import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def doubled(t):
    return t * 2


one = lambda t: t.abs()
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor


def first_of(*given):
    return given[0]


def last_of(first, *given):
    return given[0]


def handed(*given):
    return last_of(*given)


def both(t):
    return t, t.argmax(1)


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class Named(nn.Linear):
    pass


class Own(nn.Linear):
    def forward(self, x):
        return super().forward(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
        layers = [nn.Linear(4, 4)]
        self.fc = nn.Linear(4, 4)
        self.container = nn.Sequential(*layers, nn.ReLU(), nn.Linear(4, 4))
        self.normed = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        self.named = nn.Sequential(nn.LayerNorm(4), Named(4, 4))
        self.empty = nn.Sequential()
        self.grown = nn.Sequential()
        self.grown.add_module("norm", nn.LayerNorm(4))
        self.weight = nn.Parameter(torch.zeros(4))
        self.register_buffer("low", torch.tensor(-1e9))
        self.act = torch.relu
        self.hooks = [self.same]

    @staticmethod
    def exact(t):
        return torch.exp(t)

    def first_of(self, pair, key):
        return pair[0]

    @property
    def scale(self):
        return self.weight

    def same(self, t):
        return t

    def forward(self, x, margin=0.3):
        h = self.fc(x)
        s = torch.zeros(3, 4)
        parts = []
        parts.append(h)
        named = {{"half": h, "single": s}}
        where = "cuda:0"
        first = 0
        for _ in range(3):
            h = h.relu()
        found = {expression}
        return found


net = Net().cuda()
loss = net(torch.randn(3, 4).cuda()).sum()
"""

EXPECTED = {
    # an operation of the table
    "x": "single",
    "h": "half",
    "h + s": "single",
    "h * s.mean()": "half",
    "h + x.double().mm(x.double().t()).float()": "single",
    "h * 2.0": "half",
    "2.0 / h": "single",
    "h / 2.0": "half",
    "h**2": "single",
    "h @ s": "half",
    "h.double() * h": "double",
    "torch.where(h > 0, h, s)": "single",
    "Tensor(3, 4)": "single",
    "(torch.cuda.FloatTensor if margin else torch.FloatTensor)(3, 4)": "single",
    "h.argmax(1)": "integer",
    "h > 0": "boolean",
    "h.topk(2)[1]": "integer",
    "h.topk(2)[0]": "half",
    "torch.cat([h, s])": "single",
    "torch.cat([h, h])": "half",
    "torch.zeros_like(h)": "half",
    "h.to(s.dtype)": "single",
    "h.to(s)": "single",
    "s.to(h)": "half",
    "h.to(where)": "half",
    "s.to(first)": "single",
    "x.argmax(1).to(where)": "integer",
    "s.to(h[0], non_blocking=True)": "half",
    "h.type_as(s)": "single",
    "h.to(x.device)": "half",
    "h.size(0)": "number",
    "math.sqrt(h.size(0))": "number",
    "h * margin": "half",
    # an identity, of every kind
    "h.contiguous()": "half",
    "h.flatten().unflatten(0, (3, 4))": "half",
    "h.swapdims(0, 1)": "half",
    "h.movedim(0, 1)": "half",
    "h.expand_as(h)": "half",
    "h.view_as(h)": "half",
    "h[...]": "half",
    "h.clone()": "half",
    # an array of NumPy
    "torch.from_numpy(np.eye(3).astype(np.float32))": "single",
    "torch.from_numpy(np.eye(3).flatten().astype('float32')).view(1, 9)": "single",
    "torch.from_numpy(np.zeros(3, dtype=np.float64))": "double",
    "torch.from_numpy(np.float32(margin))": "single",
    "torch.from_numpy(margin.astype(np.int64))": "integer",
    # a layer, a container, a function that is stored
    "self.normed(x)": "single",
    "self.named(x)": "half",
    "self.first_of((s, h), key=h)": "single",
    "self.container(x)": "half",
    "self.empty(h)": "half",
    "self.empty(s)": "single",
    "self.act(h)": "half",
    "self.weight": "single",
    "self.low": "single",
    "nn.Linear(4, 4)(x)": "half",
    "Part()(x)": "half",
    "Own(4, 4)(x)": "half",
    "Named(4, 4)(x)": "half",
    "self.part.__call__(x)": "half",
    "self.part.forward(x)": "half",
    "Part.forward(self.part, x)": "half",
    "self.part(torch.randint(4, (4, 4)))": "half",  # raises: whatever runs gives it floats
    "checkpoint(self.part, x)": "half",
    # a call, however it is made
    "doubled(h)": "half",
    "doubled(s)": "single",
    "doubled(h) + doubled(h)": "half",
    "Net.exact(h)": "single",
    "self.exact(h)": "single",
    "type(self).same(self, h)": "half",
    "Net.same(self, h)": "half",
    "getattr(self, 'same')(h)": "half",
    "self.hooks[0](h)": "half",
    "functools.partial(self.same, h)()": "half",
    "checkpoint(self.same, h)": "half",
    "(lambda t: t * 2)(h)": "half",
    "one(h)": "half",
    "one(s)": "single",
    "[one(t) for t in (h, h)][0]": "half",
    # arguments by a star
    "one(*[h])": "half",
    "first_of(h, s)": "half",
    "last_of(h, s)": "single",
    "last_of(*(h, s))": "single",
    "last_of(h, *[s])": "single",
    "handed(h, s)": "single",
    "handed(s, h)": "half",
    # a function of Python
    "max(h.size(0), 3)": "number",
    "max([h.size(0), 3])": "number",
    "abs(margin)": "number",
    "sum(parts)": "half",
    "self.scale": "single",
    "both(h)[0]": "half",
    "both(h)[1]": "integer",
    # a container
    "torch.stack(parts)": "half",
    "torch.cat([t for t in parts])": "half",
    "named['half']": "half",
    "named['single']": "single",
    "named.get('single')": "single",
    "(h, s)[1]": "single",
    "next(iter(parts))": "half",
}


def _found(facts: Facts) -> cst.BaseExpression:
    (found,) = (
        one.node.value
        for one in facts.tree.all_statements()
        if isinstance(one.node, cst.Assign) and facts.text(one.node).startswith("found = ")
    )
    return found


def _value(expression: str) -> Value:
    facts = facts_of(SCRIPT.format(expression=expression))
    return Values(facts, facts.analysis(Steps), Safety()).of(_found(facts))


@pytest.mark.parametrize(("expression", "dtype"), EXPECTED.items())
def test_the_dtype_of_a_value_under_autocast(expression, dtype):
    assert [one.value for one in _value(expression).dtypes] == [dtype]


@pytest.mark.parametrize(
    ("expression", "dtypes"), {"h if margin else s": {"half", "single"}, "[h, s][margin]": {"half", "single"}}.items()
)
def test_a_value_may_be_one_or_the_other(expression, dtypes):
    assert {one.value for one in _value(expression).dtypes} == dtypes


def test_an_array_may_be_of_any_dtype():
    assert {one.value for one in _value("torch.from_numpy(np.eye(3))").dtypes} > {"half", "single", "double"}


@pytest.mark.parametrize("expression", ["unknown(h)", "self.grown(h)"])
def test_what_is_not_in_sight_may_be_half(expression):
    value = _value(expression)
    assert value.is_open and value.may_be_half and not value.is_half


@pytest.mark.parametrize("changed", ["{0}.to(1)", "{0}", "2 * {0}[0]"])
@pytest.mark.parametrize("held", ["self.batch.x", "batch.x", "self.x"])
def test_what_an_attribute_was_before_it_is_made_of_itself_is_not_in_sight(held, changed):
    code = f"""
        from elsewhere import Held, read

        class Run(Held):
            def prepare(self, batch):
                self.batch = read()
                {held} = {changed.format(held)}

            def other(self, batch):
                {held} = {held}.cuda()
                found = {held}
        """
    facts = facts_of(textwrap.dedent(code))
    assert Values(facts, facts.analysis(Steps), Safety()).of(_found(facts)).is_open


def test_nothing_is_half_where_autocast_is_off():
    facts = facts_of(SCRIPT.format(expression="s @ s"))
    values = Values(facts, facts.analysis(Steps), Safety())
    found = _found(facts)
    assert values.of(found).is_half
    assert [one.value for one in values.alone(found).dtypes] == ["single"]
    assert values.of(found).is_half


def test_a_recursion_ends():
    code = """
        import torch

        def turned(t, n):
            return turned(t.relu(), n - 1) if n else t

        found = turned(torch.mm(torch.zeros(2, 2), torch.zeros(2, 2)), 3)
        """
    facts = facts_of(textwrap.dedent(code))
    assert Values(facts, facts.analysis(Steps), Safety()).of(_found(facts)).is_half


@pytest.mark.parametrize(
    ("given", "depth", "is_half"),
    [
        ("[s]", 1, False),
        ("[[s, [s, s]]]", 3, False),
        ("[m]", 1, True),
        ("[[s, m]]", 2, True),
        ("[s, [[s, [m, s]]]]", 4, True),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        "return [turned(one) for one in t] if isinstance(t, list) else t.detach()",
        "return tuple(map(turned, t)) if isinstance(t, list) else t.detach()",
        "return [turned(t[0]), *(turned(one) for one in t[1:])] if isinstance(t, list) else t.detach()",
    ],
)
def test_a_recursion_returns_what_was_given_to_its_first_call(
    function: str, given: str, depth: int, is_half: bool
) -> None:
    code = f"""
        import torch

        def turned(t):
            {function}

        s = torch.zeros(2, 2)
        m = torch.mm(s, s)
        other = turned([[m, [m, m]]])
        found = turned({given})
        """
    facts = facts_of(textwrap.dedent(code))
    place = Place(_found(facts), (ANY,) * depth)
    assert Values(facts, facts.analysis(Steps), Safety()).may_leave_autocast(place) is is_half


def test_a_search_goes_through_what_passes_and_names_where_it_ends():
    facts = facts_of(SCRIPT.format(expression="torch.cat([doubled(h)[:, 0].clone(), self.same(s)], 1)"))
    ways = trace(facts.analysis(Steps), Place(_found(facts)), moves)
    assert sorted(facts.text(one.node) for one in ways.ends) == ["t * 2", "torch.zeros(3, 4)"]
    assert not ways.open


def test_a_search_says_where_it_is_lost():
    facts = facts_of(SCRIPT.format(expression="torch.cat([h, unknown(s)])"))
    ways = trace(facts.analysis(Steps), Place(_found(facts)), moves)
    assert [facts.text(one.node) for one in ways.open] == ["unknown(s)"]


def test_a_function_that_goes_into_containers_by_calling_itself_ends():
    facts = facts_of(
        """
        import torch

        def to_torch(given):
            if isinstance(given, list):
                given = [to_torch(one) for one in given]
            return torch.from_numpy(given)

        found = to_torch(read())
        """
    )
    places = Steps(facts)
    node = facts.tree.roots[0].body.statements[-1].node.value
    assert Values(facts, places, Safety()).of(node).is_open
    assert len(places._known) < 200
