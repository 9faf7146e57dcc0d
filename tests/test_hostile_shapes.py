"""Shapes of code in which a search runs in a circle, or on ways that double with each line: it ends, and says something.

As scripts have them, in small; `test_hostile_analysis.py` has the large amounts.
"""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate import Options
from tests.metamorphic.outcome import Outcome, outcome_of

_TIME_LIMIT = 60  # seconds: a guard against an explosion, and no measurement
_HEADS = {
    "apex": """\
import torch
import torch.nn as nn
from apex import amp

model = nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
""",
    "plain": """\
import torch
import torch.nn as nn

model = nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
}
_BACKWARDS = {
    "apex": "with amp.scale_loss(loss, optimizer) as scaled_loss:\n    scaled_loss.backward()\n",
    "plain": "loss.backward()\n",
}
every_form = pytest.mark.parametrize("form", _HEADS)


def _script(form: str, above: str = "", before: str = "", between: str = "", after: str = "") -> str:
    step = f"out = model(x)\n{before}\nloss = out.float().mean()\n{_BACKWARDS[form]}{between}\noptimizer.step()\n"
    loop = "for i in range(4):\n    x = torch.randn(8, 3).cuda()\n    optimizer.zero_grad()\n"
    return _HEADS[form] + above + "\n" + loop + textwrap.indent(step, "    ") + after


def _outcome(script: str) -> Outcome:
    compile(script, "train.py", "exec")
    return outcome_of({"train.py": script.encode()}, Options(api="torch.amp"), _TIME_LIMIT)


def _options(count: int, then: str) -> str:
    return "\n".join(f"if option{number}:\n" + textwrap.indent(then, "    ") for number in range(count))


_MIGRATED = {
    "classes that inherit from each other": {"above": "class A(B): pass\nclass B(A): pass\nclass C(C): pass\nA()"},
    "classes of two bases each": {
        "above": "class A0:\n    def run(self, v): return v\n    other = run\nclass A1(A0): pass\n"
        + "".join(f"class A{n}(A{n - 1}, A{n - 2}): pass\n" for n in range(2, 28))
        + "class Last(A27):\n    def run(self, v):\n        return super().run(self.other(v))",
        "before": "out = Last().run(out)",
    },
    "lambdas that call themselves": {
        "above": "again = lambda v: again(v)\nTABLE = {'a': lambda v: TABLE['b'](v), 'b': lambda v: TABLE['a'](v)}",
        "before": "out = TABLE['a'](again(out))",
    },
    "options before the backward and after it": {
        "before": _options(15, "out = out * 2"),
        "between": _options(15, "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    },
    "a dict of the name that it holds": {
        "after": "state = optimizer.state_dict()\nstate = {'one': state}\nstate = {'all': state}\ntorch.save(state, 'f')",
    },
    "dicts that a loop puts into each other": {
        "above": "one, other = {}, {}",
        "after": "    one = {'other': other, 'optimizer': optimizer.state_dict()}\n    other = {'one': one}\n"
        "torch.save(other, 'f')",
    },
}


@every_form
@pytest.mark.parametrize("parts", _MIGRATED.values(), ids=_MIGRATED)
def test_it_ends(form: str, parts: dict[str, str]):
    outcome = _outcome(_script(form, **parts))
    assert outcome.error is None and outcome.decision.status == "migrated", outcome


_REBINDINGS = """\
out.detach()
out.float()
out.to(out)
out.view(-1)
out @ out.t()
out.mean() + out
(out - out).pow(2)
torch.exp(out)
torch.cat([out, out])
torch.inverse(out) @ out
torch.sparse.mm(out, out)
torch.acos(out)
torch.sin(out * out)
out.masked_fill(out > 0, -1e9)
out if out.numel() else -out
pick(out, out)
"""


@pytest.mark.parametrize("value", _REBINDINGS.splitlines())
def test_a_name_that_options_bind_again(value: str):
    """Of each value any of the others may be a part."""
    above = "def pick(one, other):\n    return one if one.numel() else other"
    outcome = _outcome(_script("plain", above=above, before=_options(14, f"out = {value}")))
    assert outcome.error is None and outcome.decision.status in ("migrated", "left"), outcome


@every_form
def test_calls_that_lead_to_a_backward_in_too_many_ways(form: str):
    """Nobody writes this: it is not followed to its end, and stays."""
    ways = "def f{0}(loss):\n    if option:\n        return f{1}(loss)\n    f{1}(loss * 2)\n"
    functions = "".join(ways.format(number, number + 1) for number in range(14))
    last = "def f14(loss):\n" + textwrap.indent(_BACKWARDS[form], "    ")
    step = "    optimizer.zero_grad()\n    f0(model(torch.randn(8, 3).cuda()).mean())\n    optimizer.step()\n"
    outcome = _outcome(f"{_HEADS[form]}{functions}{last}for i in range(4):\n{step}")
    assert len(outcome.said) == 1
    assert "AMP991 its calls go too deep to be analysed" in outcome.said[0]
