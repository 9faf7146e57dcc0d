"""What a generated script is like."""

from __future__ import annotations

import dataclasses
from random import Random

_KEYWORDS = (
    'opt_level="O1"',
    'opt_level="O2"',
    "opt_level=args.opt_level",
    'opt_level="O1", loss_scale=128.0',
    'opt_level="O2", loss_scale="dynamic", keep_batchnorm_fp32=True',
    'opt_level="O1", verbosity=0, min_loss_scale=1.0',
    'opt_level="O0"',
    'enabled=True, opt_level="O1"',
)


@dataclasses.dataclass(frozen=True)
class Shape:
    form: str  # apex, handle, fp16_utils, half, plain
    layout: str  # module, main, functions, trainer
    guard: str  # the condition under which precision is mixed; empty for always
    imports: str  # how apex is imported: plain, alias, dotted, tried, inside
    keywords: str  # of amp.initialize
    model: str  # sequential, class, norm, wrapped
    device: str  # cuda, device, string
    optimizer: str
    two_optimizers: bool
    loss: str  # criterion, functional, arithmetic, terms, averaged, method
    accumulate: int  # micro-batches; 1 for none
    rest_of_epoch: bool  # a step for the micro-batches that are left over
    clip: str  # none, master, model, value, logged
    zero: str  # start, before, after, model, none_first
    schedule: str  # none, step, epoch
    closure: bool
    evaluate: str  # none, with, decorator, inline
    checkpoint: str  # none, save, load, all
    skip: str  # none, continue, exit
    log: str  # item, list, average, norm
    backward_in_helper: bool
    adversary: bool  # a second network that is trained in turn
    epochs: int


def draw(random: Random) -> Shape:
    form = random.choice(("apex", "apex", "apex", "plain", "plain", "fp16_utils", "half", "handle"))
    guard = random.choice(("", "", "args.fp16", "args.fp16", "use_amp", "not args.fp32"))
    adversary = form in ("apex", "plain") and random.random() < 0.15
    return Shape(
        form=form,
        layout=random.choice(("module", "main", "functions", "trainer")),
        guard="" if form in ("plain", "handle") else guard,
        imports=random.choice(("plain", "plain", "alias", "dotted", "tried", "inside")),
        keywords=random.choice(_KEYWORDS),
        model=random.choice(("sequential", "class", "norm", "wrapped")),
        device=random.choice(("cuda", "device", "string")),
        optimizer=random.choice(("SGD", "Adam", "AdamW", "groups")),
        two_optimizers=not adversary and form in ("apex", "plain") and random.random() < 0.2,
        loss=random.choice(("criterion", "functional", "arithmetic", "terms", "averaged", "method")),
        accumulate=random.choice((1, 1, 1, 2, 3)),
        rest_of_epoch=random.random() < 0.3,
        clip=random.choice(("none", "none", "master", "model", "value", "logged")),
        zero=random.choice(("start", "start", "before", "after", "model", "none_first")),
        schedule=random.choice(("none", "none", "step", "epoch")),
        closure=form in ("apex", "plain") and random.random() < 0.06,
        evaluate=random.choice(("none", "with", "decorator", "inline")),
        checkpoint=random.choice(("none", "none", "save", "load", "all")),
        skip=random.choice(("none", "none", "none", "continue", "exit")),
        log=random.choice(("item", "list", "average", "norm")),
        backward_in_helper=random.random() < 0.15,
        adversary=adversary,
        epochs=random.choice((1, 2)),
    )
