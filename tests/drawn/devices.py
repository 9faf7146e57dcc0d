"""Programs that choose a device: each way in each layout, migrated, and run with a GPU and without one.

`python -m tests.drawn.devices` names those that raise, or whose scaler or regions are on where nothing is on a GPU.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import textwrap
from collections import Counter

import click

from amp_migrate import Options, migrate_source
from tests.drawn.run import CLOSE, run
from tests.drawn.ways import WAYS, Way

_HEAD = """\
import argparse

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
parser = argparse.ArgumentParser()
parser.add_argument('--lr', type=float, default=0.01)
{options}

"""
_NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(F.relu(self.first(x)))


"""
_LOOP = """\
for step in range(2):
    x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))
    {batch}
    optimizer.zero_grad()
    loss = criterion(m(x), y)
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
"""
_SCRIPT = f"""\
args = parser.parse_args()
{{choice}}
m = Net()
criterion = nn.CrossEntropyLoss()
{{model}}
optimizer = torch.optim.SGD(m.parameters(), lr=args.lr)
{_LOOP}"""
_TRAIN = "def train({taken}):\n" + textwrap.indent(_LOOP, "    ") + "\n\n"
_SETUP = """\
    {choice}
    m = Net()
    criterion = nn.CrossEntropyLoss()
    {model}
    optimizer = torch.optim.SGD(m.parameters(), lr=args.lr)
"""
_CLASS = """\
class Trainer:
    def __init__(self, args):
        self.args = args
        {choice}
        self.m = Net()
        self.criterion = nn.CrossEntropyLoss()
        {model}
        self.optimizer = torch.optim.SGD(self.m.parameters(), lr=args.lr)

    def fit(self):
        for step in range(2):
            x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))
            {batch}
            self.step(x, y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.m(x), y)
        loss.backward()
        self.optimizer.step()
        print('loss', loss.item())


"""


def _script(way: Way) -> str:
    return _filled(_HEAD + way.helpers + "\n\n" + _NET + _SCRIPT, way)


def _main(way: Way) -> str:
    body = textwrap.indent(_SCRIPT, "    ")
    return _filled(
        _HEAD + way.helpers + "\n\n" + _NET + "def main():\n" + body + "\n\nif __name__ == '__main__':\n    main()\n",
        way,
    )


def _train_function(way: Way) -> str:
    named = ["m", "criterion", "optimizer", "args", *_chosen(way)]
    taken = ", ".join(named)
    main = f"def main():\n    args = parser.parse_args()\n{_SETUP}    train({taken})\n\n\nmain()\n"
    return _filled(_HEAD + way.helpers + "\n\n" + _NET + _TRAIN.replace("{taken}", taken) + main, way)


def _setup_function(way: Way) -> str:
    given = ", ".join(["m", "criterion", "optimizer", *_chosen(way)])
    setup = f"def setup(args):\n{_SETUP}    return {given}\n\n\n"
    return _filled(
        _HEAD + way.helpers + "\n\n" + _NET + setup + f"args = parser.parse_args()\n{given} = setup(args)\n" + _LOOP,
        way,
    )


def _trainer(way: Way) -> str:
    own = {name: f"self.{name}" for name in ["m", "criterion", *_chosen(way)]}
    renamed = dataclasses.replace(
        way,
        choice=_with_names(way.choice, own),
        model=_with_names(way.model, own),
        batch=_with_names(_with_names(way.batch, own), {"args": "self.args"}),
    )
    return _filled(_HEAD + way.helpers + "\n\n" + _NET + _CLASS + "Trainer(parser.parse_args()).fit()\n", renamed)


LAYOUTS = {
    "script": _script,
    "main": _main,
    "train function": _train_function,
    "setup function": _setup_function,
    "trainer": _trainer,
}


def _chosen(way: Way) -> list[str]:
    """The names that the choice binds and the batch reads."""
    bound = [
        node.id
        for node in ast.walk(ast.parse(way.choice))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    read = {node.id for node in ast.walk(ast.parse(way.batch)) if isinstance(node, ast.Name)}
    return [name for name in dict.fromkeys(bound) if name in read]


def _with_names(code: str, names: dict[str, str]) -> str:
    return re.sub(r"(?<![\w.'])(\w+)(?![\w'=])", lambda found: names.get(found[1], found[1]), code)


def _filled(template: str, way: Way) -> str:
    lines = []
    for line in template.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        match line.strip():
            case "{options}" | "{choice}" | "{model}" | "{batch}" as hole:
                lines += textwrap.indent(getattr(way, hole[1:-1]), indent).splitlines()
            case _:
                lines.append(line)
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("words", nargs=-1)
def main(words: tuple[str, ...]) -> None:
    """Run the ways and layouts whose names have one of the WORDS, else all."""
    outcomes: Counter[str] = Counter()
    for way in WAYS:
        for layout in LAYOUTS:
            name = f"{way.name}, {layout}"
            if words and not any(word in name for word in words):
                continue
            outcome, told = outcome_of(way, layout)
            outcomes[outcome] += 1
            if told:
                click.echo(f"{name}: {outcome}: {told}")
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    raise SystemExit(bool(outcomes["wrong"]))


def outcome_of(way: Way, layout: str) -> tuple[str, str]:
    """What comes of a program, in a word or two, with what is to be looked at."""
    source = LAYOUTS[layout](way)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    if result.status != "migrated":
        return "left alone", "; ".join(f"{one.code} {one.message}" for one in result.findings) or "nothing is said"
    output = result.output.decode()
    for gpu in (True, False):
        for arguments in (*way.on, *way.off):
            is_on = gpu and arguments in way.on
            # Where a GPU is redirected to the CPU, no model says that it stayed there.
            if gpu and not is_on and ".is_cuda" in output:
                continue
            told = _difference(source, output, tuple(arguments.split()), gpu, is_on)
            if told:
                return "wrong", f"{told}, with {arguments!r} and {'a' if gpu else 'no'} GPU"
    return "right", ""


def _difference(source: str, output: str, arguments: tuple[str, ...], gpu: bool, is_on: bool) -> str:
    original = run(source, arguments, gpu)
    if original.error:
        return ""  # `model.cuda()` without a GPU
    migrated = run(output.replace("GradScaler('cuda'", "GradScaler('cuda', init_scale=16.0"), arguments, gpu)
    if migrated.error:
        return f"{migrated.error} at `{migrated.line}`"
    if migrated.switched != (is_on,):
        return f"switched {migrated.switched}"
    before, after = original.losses[0], migrated.losses[0]
    return "" if abs(before - after) <= CLOSE * max(abs(before), 0.2) else f"{before} becomes {after}"


if __name__ == "__main__":
    main()
