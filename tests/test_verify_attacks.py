"""What an attack on `verify` found: wrong migrations that once passed, and right ones that once failed.

One small script, its Apex original and its migration by hand; each case changes a few places of them.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable

import pytest

from tests.test_execution import run_both

_PLAIN = """\
import torch
from torch.nn import functional as F

torch.manual_seed(0)
batches = [(torch.randn(8, 12), torch.randint(0, 4, (8,))) for _ in range(10)]
model = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.ReLU(), torch.nn.Linear(24, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x, y in batches:
    x, y = x.cuda(), y.cuda()
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
"""
_MODEL = "torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.ReLU(), torch.nn.Linear(24, 4)).cuda()\n"
_LOOP = "for x, y in batches:\n"
_FORWARD = "    output = model(x)\n"
_LOSS = "    loss = F.cross_entropy(output, y)\n"
_STEP = "    loss.backward()\n    optimizer.step()\n"

_INITIALIZE = 'from apex import amp\nmodel, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n'
_APEX_STEP = "    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n    optimizer.step()\n"

_REGION = '    with torch.autocast("cuda", dtype=torch.float16):\n'
_SCALED_STEP = "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n"

Change = tuple[str, str]


def _changed(text: str, changes: Iterable[Change]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, f"there {text.count(old)} times: {old!r}"
        text = text.replace(old, new)
    return text


def _in_region(lines: str) -> str:
    return _REGION + textwrap.indent(lines, "    ")


_APEX = _changed(_PLAIN, [(_LOOP, _INITIALIZE + _LOOP), (_STEP, _APEX_STEP)])
_MIGRATED = _changed(
    _PLAIN,
    [
        (_LOOP, 'scaler = torch.amp.GradScaler("cuda")\n' + _LOOP),
        (_FORWARD + _LOSS, _in_region(_FORWARD + _LOSS)),
        (_STEP, _SCALED_STEP),
    ],
)


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    reason: str = "10 optimizer updates compared"  # a part of what the verdict says
    original: str = _PLAIN
    both: tuple[Change, ...] = ()
    before: tuple[Change, ...] = ()  # in the original only
    after: tuple[Change, ...] = ()  # in the migrated script only
    end: str = ""  # of both; indented, it is still in the loop
    end_before: str = ""
    end_after: str = ""

    def scripts(self) -> tuple[str, str]:
        before = _changed(self.original, (*self.both, *self.before)) + self.end + self.end_before
        after = _changed(_MIGRATED, (*self.both, *self.after)) + self.end + self.end_after
        return before, after


_CRITIC = """\
critic = torch.nn.Linear(4, 1).cuda()
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
"""
_CRITIC_LOSS = "    critic_loss = critic(output.detach()).square().mean()\n"
_CRITIC_STEP = "    critic_loss.backward()\n    critic_optimizer.step()\n    critic_optimizer.zero_grad()\n"
_SECOND_PHASE = f"{_LOOP}    optimizer.zero_grad()\n    loss = F.cross_entropy(model(x.cuda()), y.cuda()) / 2\n"
_NUMBERED = (_LOOP, "for number, (x, y) in enumerate(batches):\n")
_NOISE = "    loss = loss + F.linear(1e5 * x, torch.ones(4, 12).cuda()).mean() * 1e-9\n"  # infinite in float16
_CLIP = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n"
_UNSCALE = "    scaler.unscale_(optimizer)\n"
_GRADIENTS = """\
    gradients = torch.autograd.grad({}, list(model.parameters()))
    for weight, gradient in zip(model.parameters(), gradients):
        weight.grad = gradient
"""


# Under one autocast over everything this overflows: the script's own noise is no limit then.
_CLIP_BESIDE_NOISE = Attack(
    "a clip beside infinite noise",
    both=(_NUMBERED,),
    before=((_LOSS, _LOSS + _NOISE), ("    optimizer.step()\n", f"{_CLIP}    optimizer.step()\n")),
    after=(
        ("    scaler.scale", f"{_NOISE}    scaler.scale"),
        ("    scaler.step", f"{_UNSCALE}{_CLIP}    scaler.step"),
    ),
)

_MISTAKES = [
    Attack(
        "weight decay lost, beside amp.state_dict() without a guard",
        "without AMP, the loss of update 2",
        original=_APEX,
        before=(("momentum=0.9", "momentum=0.9, weight_decay=1e-2"),),
        end_before='torch.save(amp.state_dict(), "amp.pt")\n',
        end_after='torch.save(scaler.state_dict(), "amp.pt")\n',
    ),
    Attack("float16 without a scaler", "float16 without a loss scale", after=((_SCALED_STEP, _STEP),)),
    Attack(
        "one of two GAN losses scaled",
        "scaled losses: 10 of 20",
        both=((_LOOP, _CRITIC + _LOOP),),
        end_before=_CRITIC_LOSS + _CRITIC_STEP,
        end_after=_in_region(_CRITIC_LOSS) + _CRITIC_STEP,
    ),
    Attack(
        "autocast lost in a second phase",
        "the forward of update 11 lies outside of an autocast region",
        end_before=_SECOND_PHASE + _STEP,
        end_after=_SECOND_PHASE + _SCALED_STEP,
    ),
    Attack(
        "autocast lost in a second phase of Apex",
        "the forward of update 11 lies outside of an autocast region",
        original=_APEX,
        end_before=_SECOND_PHASE + _APEX_STEP,
        end_after=_SECOND_PHASE + _SCALED_STEP,
    ),
    Attack(
        "scaled by one scaler, stepped by another",
        "steps through the scaler: 0 of 10 (all): optimizer 1 is stepped by another scaler",
        after=(
            (_LOOP, f'other = torch.amp.GradScaler("cuda")\nother.scale(torch.ones(()).cuda())\n{_LOOP}'),
            ("    scaler.step", "    other.step"),
            ("scaler.update", "other.update"),
        ),
    ),
    Attack(
        "36 of 40 steps skipped",
        "36 of 40 steps of the migrated script overflow",
        both=(("range(10)]", "range(1)] * 40"), _NUMBERED),
        after=(
            (
                "    scaler.step",
                "    if scaler.is_enabled() and number % 10:\n        model[0].weight.grad[0] = torch.inf\n    scaler.step",
            ),
        ),
    ),
    Attack(
        "model.eval() lost",
        "the buffers at the end differ",
        both=(("torch.nn.ReLU()", "torch.nn.BatchNorm1d(24), torch.nn.ReLU()"),),
        end_before="model.eval()\nmodel(3 * batches[0][0].cuda())\n",
        end_after="model(3 * batches[0][0].cuda())\n",
    ),
    Attack("loss outside of the region", "loss 1 is computed in half", after=((f"    {_LOSS}", _LOSS),)),
    dataclasses.replace(
        _CLIP_BESIDE_NOISE,
        name="a clip of scaled gradients from update 3 on, beside infinite noise",
        reason="the two train apart",
        after=(*_CLIP_BESIDE_NOISE.after, (_UNSCALE, f"    if number < 2:\n    {_UNSCALE}")),
    ),
]

_NOT_COMPARABLE = [
    Attack(
        "gradients by torch.autograd.grad only",
        "no backward was seen in the original",
        before=(("    loss.backward()\n", _GRADIENTS.format("loss")),),
        after=(("    scaler.scale(loss).backward()\n", _GRADIENTS.format("scaler.scale(loss)")),),
    ),
    Attack("not repeatable", "the original is not repeatable", both=(("torch.manual_seed(0)", "torch.seed()"),)),
]


def _cast_by_hand(cast: str, dtype: str) -> Attack:
    casts = (
        ("24, 4)).cuda()", f"24, 4)).cuda().{cast}"),
        ("x.cuda()", f"x.cuda().{cast}"),
        ("(output,", "(output.float(),"),
    )
    return Attack(f"an original with {cast}", before=casts, after=(("torch.float16", dtype),))


_RIGHT = [
    _cast_by_hand("bfloat16()", "torch.bfloat16"),
    _cast_by_hand("to(torch.float16)", "torch.float16"),
    Attack("a loss in half", both=(("F.cross_entropy(output, y)", "output.square().mean()"),)),
    Attack(
        "a non-reentrant checkpoint",
        both=(("model(x)", "torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)"),),
    ),
    Attack(
        "torch.func.grad in the loss",
        both=(("(output, y)", "(output, y) + torch.func.grad(lambda z: model(z).square().mean())(x).square().sum()"),),
    ),
    Attack(
        "an attack on the inputs in float32",
        both=(
            (
                "    optimizer.zero_grad()\n",
                "    x.requires_grad_()\n    F.cross_entropy(model(x), y).backward()\n"
                "    x = (x + 0.01 * x.grad.sign()).detach()\n    optimizer.zero_grad()\n",
            ),
        ),
    ),
    Attack("os._exit(0) at the end", end="import os\nos._exit(0)\n"),
    Attack("sys.exit(metric) at the end", end="import sys\nsys.exit(loss.item())\n"),
    Attack("LOCAL_RANK asked for", both=((_LOOP, f'import os\nprint(int(os.getenv("LOCAL_RANK")))\n{_LOOP}'),)),
    Attack(
        "gradients near an optimum",
        both=(
            (_MODEL, "torch.nn.Linear(12, 4).cuda()\nbest = 1.0001 * model.weight.detach()\n"),
            ("x, y = x.cuda(), y.cuda()", "x = x.cuda()\n    y = F.linear(x, best, model.bias.detach())"),
            ("F.cross_entropy", "F.mse_loss"),
        ),
    ),
    _CLIP_BESIDE_NOISE,
]

_WAITS_FOR_SIGTERM = Attack(
    "a handler of SIGTERM in a loop without an end",
    "optimizer updates compared",
    both=(
        (
            _LOOP,
            "import itertools, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('saving'))\n"
            "for x, y in itertools.cycle(batches):\n",
        ),
    ),
)


def _compare(scripts: Iterable[str], pool, folder, **settings):
    before, after = (script.encode() for script in scripts)
    return run_both(before, after, (), pool, folder, **settings)


def _parameters(verdict: str, attacks: list[Attack]) -> list:
    return [pytest.param(verdict, attack, id=attack.name) for attack in attacks]


@pytest.mark.parametrize(
    ("verdict", "attack"),
    [
        *_parameters("different", _MISTAKES),
        *_parameters("not comparable", _NOT_COMPARABLE),
        *_parameters("same", _RIGHT),
    ],
)
def test_verdict(verdict: str, attack: Attack, pool, tmp_path):
    comparison = _compare(attack.scripts(), pool, tmp_path)
    assert (comparison.verdict, attack.reason in comparison.reason) == (verdict, True), comparison.reason


def test_training_in_a_thread(pool, tmp_path):
    start = "import threading\nthread = threading.Thread(target=train)\nthread.start()\nthread.join()\n"
    scripts = [f"def train():\n{textwrap.indent(script, '    ')}{start}" for script in (_APEX, _MIGRATED)]
    comparison = _compare(scripts, pool, tmp_path)
    assert (comparison.verdict, comparison.reason) == ("same", "10 optimizer updates compared")


def test_time_limit_of_a_script_that_handles_sigterm(pool, tmp_path):
    comparison = _compare(_WAITS_FOR_SIGTERM.scripts(), pool, tmp_path, time_limit=1)
    assert comparison.verdict == "same", comparison.reason
    assert {run.outcome for run in comparison.runs.values()} <= {"time limit", "stopped"}
