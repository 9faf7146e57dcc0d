"""Mistakes that people make when they migrate by hand, each put into the right output of a fixture.

`cause` is a part of the reason that the verdict has to give.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from amp_migrate.verify.comparison import Comparison
from amp_migrate.verify.pool import Pool
from tests.fixture import FIXTURES, PAIRS, Fixture
from tests.test_execution import run_both


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    source: str  # the fixture; one of Apex's amp where no source form is named
    old: str  # in its expected output, exactly once
    new: str
    cause: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the comparison
    plain_arm: bool = False  # the original runs without its guard

    @property
    def fixture(self) -> Fixture:
        name = self.source if "/" in self.source else f"apex/{self.source}"
        return next(fixture for fixture in (*FIXTURES, *PAIRS) if fixture.name == name)

    def apply(self) -> bytes:
        text = self.fixture.expected.decode()
        assert text.count(self.old) == 1, f"{self.source} has this {text.count(self.old)} times: {self.old!r}"
        return text.replace(self.old, self.new).encode()


_SCALER = [
    Mutation(
        "no update",
        "arithmetic_loss",
        "    scaler.update()\n",
        "",
        "RuntimeError: step() has already been called since the last update()",
    ),
    Mutation(
        "no update, with a clip",
        "clip_master_params",
        "    scaler.update()\n",
        "",
        "RuntimeError: unscale_() is being called after step()",
    ),
    Mutation(
        "update in every micro-batch",
        "accumulation_window",
        "            scaler.update()\n            optimizer.zero_grad()\n\n",
        "            optimizer.zero_grad()\n        scaler.update()\n\n",
        "AssertionError: No inf checks were recorded prior to update",
    ),
    Mutation(
        "update once per epoch",
        "scale_backs_off",
        "        scaler.update()\n        total += loss.item()\n",
        "        total += loss.item()\n    scaler.update()\n",
        "RuntimeError: step() has already been called since the last update()",
    ),
    Mutation(
        "update before the step",
        "clip_master_params",
        "    scaler.step(optimizer)\n    scaler.update()\n",
        "    scaler.update()\n    scaler.step(optimizer)\n",
        "RuntimeError: unscale_() is being called after step()",
    ),
    Mutation(
        "scaler missing",
        "enabled_argument",
        "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n",
        "        loss.backward()\n        optimizer.step()\n",
        "scaled losses: 0 of 8 (all): backward 1 got a loss without loss scale",
    ),
    Mutation(
        "scaler never enabled",
        "enabled_argument",
        'GradScaler("cuda", enabled=args.fp16)',
        'GradScaler("cuda", enabled=not args.fp16)',
        "scaled losses: 0 of 8 (all): backward 1 got a loss without loss scale",
    ),
    Mutation(
        "loss scale that always overflows",
        "enabled_argument",
        'GradScaler("cuda", enabled=args.fp16)',
        'GradScaler("cuda", init_scale=2.0**100, enabled=args.fp16)',
        "steps of the migrated script overflow",
    ),
    Mutation(
        "scaler made in every epoch",
        "scale_backs_off",
        "    for epoch in range(4):\n",
        '    for epoch in range(4):\n        scaler = torch.amp.GradScaler("cuda")\n',
        "the scaler is made again and again",
    ),
    Mutation(
        "scaler not restored",
        "resume_after_overflow",
        '    scaler.load_state_dict(checkpoint["amp"])\n',
        "",
        "restored loss scale: 65536 (= 16384): the checkpoint does not restore the scaler",
        {"resume_args": ("--resume", "last.pt")},
    ),
    Mutation(
        "scaler not saved",
        "resume_after_overflow",
        '        "amp": scaler.state_dict(),\n',
        '        "amp": torch.amp.GradScaler("cuda").state_dict(),\n',
        "restored loss scale: 65536 (= 16384): the checkpoint does not restore the scaler",
        {"resume_args": ("--resume", "last.pt")},
    ),
]

_LOSSES = [
    Mutation(
        "one of two losses not scaled",
        "two_losses_one_step",
        "scaler.scale(loss_segment).backward()",
        "loss_segment.backward()",
        "scaled losses: 10 of 20 (all): backward 2 got a loss without loss scale",
    ),
    Mutation(
        "loss scaled twice",
        "self_targets",
        "self.scaler.scale(loss).backward()",
        "self.scaler.scale(self.scaler.scale(loss)).backward()",
        "the loss was scaled twice",
    ),
    Mutation(
        "loss not divided by the accumulation count",
        "accumulation_window",
        "criterion(model(x), y) / args.accum_steps",
        "criterion(model(x), y)",
        "without AMP, the loss of update 1",
    ),
    Mutation(
        "one of two backwards lost",
        "two_losses_one_step",
        "    scaler.scale(loss_segment).backward()\n",
        "",
        "a backward was lost",
    ),
    Mutation(
        "gradients of the first of two losses lost",
        "two_losses_one_step",
        "    scaler.scale(loss_segment).backward()\n",
        "    optim.zero_grad()\n    scaler.scale(loss_segment).backward()\n",
        "the gradients were changed between backward and step",
    ),
    Mutation(
        "lost zero_grad",
        "arithmetic_loss",
        "    optimizer.zero_grad()\n",
        "",
        "a lost zero_grad",
    ),
]

_GRADIENTS = [
    Mutation(
        "unscale_ twice",
        "clip_master_params",
        "    scaler.unscale_(optimizer)\n",
        "    scaler.unscale_(optimizer)\n    scaler.unscale_(optimizer)\n",
        "RuntimeError: unscale_() has already been called",
    ),
    Mutation(
        "unscale_ without scale",
        "clip_master_params",
        "scaler.scale(loss).backward()",
        "loss.backward()",
        "AssertionError: Attempted unscale_ but _scale is None",
    ),
    Mutation(
        "clip before unscale_",
        "clip_master_params",
        "    scaler.unscale_(optimizer)\n    torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)\n",
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)\n    scaler.unscale_(optimizer)\n",
        "the gradients were still scaled: scaler.unscale_(optimizer) belongs before the clip",
    ),
    Mutation(
        "unscale_ of the wrong optimizer",
        "two_optimizers_clipped",
        "scaler.unscale_(actor_optimizer)",
        "scaler.unscale_(critic_optimizer)",
        "of optimizer 2: 1.6e+04 (<= 1.0e-02): 5.819e+04 instead of 3.552: the gradients were still scaled",
    ),
    Mutation(
        "an extra division",
        "clip_master_params",
        "    scaler.unscale_(optimizer)\n",
        "    scaler.unscale_(optimizer)\n    for p in model.parameters():\n        p.grad.div_(scaler.get_scale())\n",
        "divided by the loss scale twice",
    ),
    Mutation(
        "step on scaled gradients, SGD",
        "arithmetic_loss",
        "    scaler.step(optimizer)\n    scaler.update()\n",
        "    optimizer.step()\n",
        "steps on scaled gradients by itself",
    ),
    Mutation(
        "step on scaled gradients, Adam",
        "enabled_argument",
        "        scaler.step(optimizer)\n        scaler.update()\n",
        "        optimizer.step()\n",
        "steps on scaled gradients by itself",
    ),
    Mutation(
        "clip lost",
        "clip_master_params",
        "    scaler.unscale_(optimizer)\n    torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)\n",
        "",
        "update 1 clips 0 time(s) instead of 1",
    ),
    Mutation(
        "step outside of the accumulation condition",
        "accumulation_window",
        "        if (i + 1) % args.accum_steps == 0:\n            scaler.step(optimizer)\n            scaler.update()\n",
        "        scaler.step(optimizer)\n        scaler.update()\n        if (i + 1) % args.accum_steps == 0:\n",
        "a step moved in or out of its condition",
    ),
    Mutation(
        "step twice",
        "arithmetic_loss",
        "    scaler.step(optimizer)\n",
        "    scaler.step(optimizer)\n    optimizer.step()\n",
        "update 1 steps optimizer 1 and optimizer 1 instead of optimizer 1",
    ),
    Mutation(
        "one of two optimizers not stepped",
        "optimizer_list",
        "        scaler.step(opt_b)\n",
        "",
        "update 1 steps optimizer 1 instead of optimizer 1 and optimizer 2",
    ),
]

_PRECISION = [
    Mutation(
        "autocast missing",
        "enabled_argument",
        '        with torch.amp.autocast("cuda", enabled=args.fp16):\n',
        "        if True:\n",
        "lies outside of an autocast region",
    ),
    Mutation(
        "autocast inverted",
        "enabled_argument",
        'torch.amp.autocast("cuda", enabled=args.fp16)',
        'torch.amp.autocast("cuda", enabled=not args.fp16)',
        "lies outside of an autocast region",
    ),
    Mutation(
        "forward outside of the region",
        "self_targets",
        '        with torch.amp.autocast("cuda"):\n            out = self.model(x)\n',
        '        out = self.model(x)\n        with torch.amp.autocast("cuda"):\n',
        "lies outside of an autocast region",
    ),
    Mutation(
        "backward inside of the region",
        "evaluation_no_grad",
        "        scaler.scale(loss).backward()\n",
        "            scaler.scale(loss).backward()\n",
        "backward runs inside of the autocast region",
    ),
    Mutation(
        "evaluation outside of a region",
        "evaluation_no_grad",
        '            with torch.amp.autocast("cuda", enabled=args.amp):\n                output = model(x)\n',
        "            output = model(x)\n",
        "half precision in evaluation: 0.00",
    ),
    Mutation(
        "weights left in half",
        "arithmetic_loss",
        "nn.Linear(16, 4)).to(device)",
        "nn.Linear(16, 4)).to(device).half()",
        "ValueError: Attempting to unscale FP16 gradients.",
    ),
    Mutation(
        "sigmoid in half before BCELoss",
        "bce_saturates",
        "torch.sigmoid(self.score(hidden).float())",
        "torch.sigmoid(self.score(hidden))",
        "RuntimeError: Found dtype Float but expected Half",
    ),
]

_MODES = [
    Mutation(
        "dropout off in training",
        "self_targets",
        "self.model.train()",
        "self.model.eval()",
        "without AMP, the loss of update 1",
    ),
    Mutation(
        "dropout on in evaluation",
        "self_targets",
        "        self.model.eval()\n",
        "",
        "without AMP, the loss of update 6",
    ),
]

MUTATIONS = [*_SCALER, *_LOSSES, *_GRADIENTS, *_PRECISION, *_MODES]


def run_mutation(mutation: Mutation, pool: Pool, folder: Path) -> Comparison:
    """The original against the mutated output of its fixture, with mixed precision on."""
    fixture = mutation.fixture
    arguments, more = fixture.arguments + fixture.guard, ()
    if mutation.plain_arm:
        arguments, more = fixture.arguments, fixture.guard
    settings = {"more_for_after": more, **mutation.settings}
    return run_both(fixture.before, mutation.apply(), arguments, pool, folder, **settings)
