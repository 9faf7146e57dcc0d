"""Losses and models as research code writes them, each in four layouts, migrated and run in half.

`python -m tests.drawn.idioms` names those that raise, that lose their numbers, or whose loss or gradients are others
by more than half rounds. Those that are left alone are named with `--alone`. The idioms are in `texts/`, by field: the
shape of what a network returns, what a batch has, what is kept (`self.`), the code, and its helpers.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from amp_migrate import Options, migrate_source
from tests.drawn.run import CLOSE, run

LAYOUTS = ("loop", "function", "module", "forward", "method", "two parts", "trainer")
_NOISE = 5e-4  # of a result of half layers: a rounding by 2 ** -11, of what is summed as well
_FAR = 0.1  # of the step of the weights: gradients are rounded more often than losses
_SCALES = (4096.0, 16.0, 1 / 16, 2**-12)


@dataclasses.dataclass(frozen=True)
class Idiom:
    """`batch` and `kept` are expressions by name; `out` is what the code reads, and `loss` what it binds."""

    name: str
    field: str
    shape: tuple[int, ...]
    gain: float
    batch: dict[str, str]
    kept: dict[str, str]
    code: str
    helpers: str

    @property
    def read(self) -> list[str]:
        """The names of the batch that the code reads."""
        return [name for name in self.batch if re.search(rf"(?<![\w.]){name}\b", self.code)]


def idioms() -> list[Idiom]:
    folder = Path(__file__).parent / "texts"
    return [one for path in sorted(folder.glob("*.txt")) for one in _read(path.read_text(), path.stem)]


def _read(text: str, field: str) -> Iterator[Idiom]:
    for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, code, *helpers = re.split(r"^---\n", block, flags=re.MULTILINE)
        name, *lines = head.splitlines()
        words = dict(line.split(" ", 1) for line in lines if line and " = " not in line)
        given = dict(line.split(" = ", 1) for line in lines if " = " in line)
        yield Idiom(
            name=name,
            field=field,
            shape=tuple(int(size) for size in words["out"].split("x")),
            gain=float(words.get("gain", 1)),
            batch={name: made for name, made in given.items() if not name.startswith("self.")},
            kept={name[5:]: made for name, made in given.items() if name.startswith("self.")},
            code=code.strip() + "\n",
            helpers="".join(helpers).strip(),
        )


def program(idiom: Idiom, layout: str) -> str:
    """The idiom as a script; comments show where weights are compared and where noise goes."""
    code = idiom.code if layout not in ("loop", "function") else idiom.code.replace("self.", "")
    given = ["x", *idiom.read]
    taken = ["out", *idiom.read]
    network = [*_class("Net", _body(idiom), idiom.kept if layout in ("forward", "method", "two parts") else {})]
    criterion: list[str] = []
    setup, trained = ["net = Net().cuda()"], "net.parameters()"
    forward = "out = self.body(x)\n# noise\n"
    if layout == "forward":
        network += _function(f"forward(self, {', '.join(given)})", forward + code)
        loss = f"loss = net({', '.join(given)})\n"
    elif layout == "method":
        network += _function("forward(self, x)", forward, "out")
        network += _function(f"loss(self, {', '.join(given)})", "out = self(x)\n" + code)
        loss = f"loss = net.loss({', '.join(given)})\n"
    elif layout == "two parts":
        first, second = _parts(code)
        passed = [name for name in dict.fromkeys([*_bound(first), "out"]) if name in _names(second)] or ["out"]
        network += _function(f"forward(self, {', '.join(given)})", forward + first, ", ".join(passed))
        network += _function(
            f"loss(self, {', '.join([*passed, *(one for one in idiom.read if one not in passed)])})", second
        )
        results = ", ".join(f"{name}_" for name in passed)
        rest = ", ".join([f"{name}_" for name in passed] + [one for one in idiom.read if one not in passed])
        loss = f"{results} = net({', '.join(given)})\nloss = net.loss({rest})\n"
    elif layout == "trainer":
        network += _function("forward(self, x)", forward, "out")
        criterion = ["", "", "class Trainer:", "    def __init__(self, net):", "        self.net = net"]
        criterion += [f"        self.{name} = {_moved(made)}" for name, made in idiom.kept.items()]
        criterion += _function(f"compute(self, {', '.join(given)})", "out = self.net(x)\n" + code)
        setup.append("trainer = Trainer(net)")
        loss = f"loss = trainer.compute({', '.join(given)})\n"
        trained = _all_parameters(idiom, "trainer.")
    else:
        network += ["", "    def forward(self, x):", "        return self.body(x)"]
        loss = "out = net(x)\n# noise\n"
        match layout:
            case "loop":
                loss += code
            case "function":
                criterion = ["", *_function(f"criterion({', '.join([*taken, *idiom.kept])})", code, depth=0)]
                loss += f"loss = criterion({', '.join([*taken, *idiom.kept])})\n"
            case "module":
                criterion = ["", "", *_class("Criterion", [], idiom.kept)]
                criterion += _function(f"forward(self, {', '.join(taken)})", code)
                loss += f"loss = criterion({', '.join(taken)})\n"
        if layout == "module":
            setup.append("criterion = Criterion().cuda()")
            if any(_is_trained(made) for made in idiom.kept.values()):
                trained = "list(net.parameters()) + list(criterion.parameters())"
        else:
            setup += [f"{name} = {_moved(made)}" for name, made in idiom.kept.items()]
            trained = _all_parameters(idiom)
    step = f"x = {idiom.gain} * torch.randn({_input(idiom)}).cuda()\n"
    step += "".join(f"{name} = ({made}).cuda()\n" for name, made in idiom.batch.items() if name in idiom.read)
    step += loss + "optimizer.zero_grad()\nloss.backward()\noptimizer.step()\nprint('loss', loss.item())\n"
    lines = [
        *("import math", "", "import torch", "import torch.nn.functional as F", "from torch import nn", ""),
        *(["", *idiom.helpers.splitlines(), ""] if idiom.helpers else []),
        *("", *network, *criterion, "", "", "torch.manual_seed(0)", *setup),
        *(f"optimizer = torch.optim.SGD({trained}, lr=0.0001)", "torch.manual_seed(1)", "# before"),
        *("for step in range(2):", *textwrap.indent(step, "    ").splitlines(), "# after"),
    ]
    return "\n".join(lines) + "\n"


def _body(idiom: Idiom) -> list[str]:
    if len(idiom.shape) == 4:
        wide = f"nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, {idiom.shape[1]}, 3, padding=1)"
    else:
        wide = f"nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, {idiom.shape[-1]})"
    return [f"        self.body = nn.Sequential({wide})"]


def _input(idiom: Idiom) -> str:
    sizes = [*idiom.shape]
    if len(sizes) == 4:
        sizes[1] = 3
    else:
        sizes[-1] = 64
    return ", ".join(map(str, sizes))


def _class(name: str, lines: list[str], kept: dict[str, str]) -> list[str]:
    made = [f"class {name}(nn.Module):", "    def __init__(self):", "        super().__init__()", *lines]
    for one, text in kept.items():
        is_buffer = not text.startswith("nn.")
        made.append(f"        self.register_buffer('{one}', {text})" if is_buffer else f"        self.{one} = {text}")
    return made


def _function(head: str, code: str, returned: str = "loss", depth: int = 1) -> list[str]:
    text = f"def {head}:\n" + textwrap.indent(f"{code}return {returned}\n", "    ")
    return ["", *textwrap.indent(text, "    " * depth).splitlines()]


def _parts(code: str) -> tuple[str, str]:
    """The code, cut between two of its statements."""
    statements = ast.parse(code).body
    starts = [one.lineno - 1 for one in statements]
    lines = code.splitlines(keepends=True)
    cut = starts[len(starts) // 2] if len(starts) > 1 else 0
    return "".join(lines[:cut]), "".join(lines[cut:])


def _bound(code: str) -> list[str]:
    """What a code binds that is no module."""
    return [one.id for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]


def _names(code: str) -> set[str]:
    return {one.id for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Name)}


def _all_parameters(idiom: Idiom, owner: str = "") -> str:
    kept = [_parameters(f"{owner}{name}", made) for name, made in idiom.kept.items() if _is_trained(made)]
    return " + ".join(["list(net.parameters())", *kept])


def _moved(made: str) -> str:
    return (
        re.sub(r"^nn\.Parameter\((.*?)((?:, requires_grad=False)?)\)$", r"nn.Parameter((\1).cuda()\2)", made)
        if (made.startswith("nn.Parameter("))
        else f"({made}).cuda()"
    )


def _is_trained(made: str) -> bool:
    return made.startswith("nn.") and "requires_grad=False" not in made and "affine=False" not in made


def _parameters(name: str, made: str) -> str:
    return f"[{name}]" if made.startswith("nn.Parameter(") else f"list({name}.parameters())"


def _watched(source: str, noise: int | None = None, scale: float | None = None) -> str:
    """The program with eight numbers of the step of its weights, and with noise on what its network returns."""
    before = "start = [p.detach().clone() for p in net.parameters()]"
    after = (
        "draws = torch.Generator().manual_seed(7)\n"
        "steps = [p.detach().double() - s.double() for p, s in zip(net.parameters(), start)]\n"
        "draws = [torch.randn(8, *s.shape, generator=draws, dtype=torch.double) for s in steps]\n"
        f"is_skipped = 'scaler' in globals() and scaler.get_scale() < {scale}\n"
        "for i in range(8):\n"
        "    print('loss', 0.0 if is_skipped else sum((s * d[i]).sum() for s, d in zip(steps, draws)).item())"
    )
    noisy = "pass"
    if noise is not None:
        made = f"torch.randn(out.shape, generator=torch.Generator().manual_seed({noise}))"
        noisy = f"out = out + {_NOISE} * (out.abs() + out.abs().mean()).detach() * {made}"
    for mark, text in (("# before", before), ("# after", after), ("# noise", noisy)):
        source = re.sub(rf"^( *){mark}$", lambda found, text=text: textwrap.indent(text, found[1]), source, flags=re.M)
    return source if scale is None else re.sub(r"GradScaler\((['\"])cuda\1", rf"\g<0>, init_scale={scale}", source)


def outcome_of(idiom: Idiom, layout: str) -> tuple[str, str]:
    """What comes of a program, in a word or two, with what is to be looked at."""
    source = program(idiom, layout)
    original = run(_watched(source))
    if original.error or not all(map(math.isfinite, original.losses)):
        return "no program", f"{original.error} at `{original.line}`" if original.error else f"{original.losses}"
    if abs(original.losses[1]) > 10 * abs(original.losses[0]) + 1:
        return "no program", f"it diverges: {original.losses[:2]}"
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    if result.status != "migrated":
        return "left alone", "; ".join(f"{one.code} {one.message}" for one in result.findings) or "nothing is said"
    output = result.output.decode()
    for scale in _SCALES:  # GradScaler halves its scale where gradients overflow.
        migrated = run(_watched(output, scale=scale))
        if migrated.error:
            return "raises", f"{migrated.error} at `{migrated.line}`"
        if not all(map(math.isfinite, migrated.losses)):
            return "not finite", f"{original.losses[0]} becomes {migrated.losses[:2]}"
        if any(migrated.losses[2:]):
            break
    else:
        return "no step", f"its gradients are not finite at a scale of {_SCALES[-1]}"
    off = _distances(original.losses, migrated.losses)
    if off[0] <= CLOSE and off[1] <= _FAR:
        return "right", ""
    noisy = [_distances(original.losses, run(_watched(source, noise)).losses) for noise in (1, 2, 3)]
    for word, kind, least in (("another loss", 0, CLOSE), ("another step", 1, _FAR)):
        by_noise = max(one[kind] for one in noisy)
        if off[kind] > least + 4 * by_noise:
            told = f"off by {off[kind]:.3g}, and by {by_noise:.2g} with noise"
            return word, told + (f": {original.losses[:2]} becomes {migrated.losses[:2]}" if kind == 0 else "")
    return "right", ""


def _distances(before: tuple[float, ...], after: tuple[float, ...]) -> tuple[float, float]:
    """How far the losses, and the numbers of the steps, of a run are from those of another."""
    if len(before) != len(after) or not all(map(math.isfinite, after)):
        return math.inf, math.inf
    loss = max(abs(a - b) / max(abs(a), 0.2) for a, b in zip(before[:2], after[:2], strict=True))
    return loss, math.dist(before[2:], after[2:]) / (math.hypot(*before[2:]) or 1.0)


@click.command()
@click.argument("words", nargs=-1)
@click.option("--layout", "layouts", multiple=True, type=click.Choice(LAYOUTS), default=LAYOUTS, help="Only these.")
@click.option("--alone", is_flag=True, help="Name those that are left alone, too.")
@click.option("--gain", default=1.0, show_default=True, help="How much larger all inputs are than they should be.")
def main(words: tuple[str, ...], layouts: tuple[str, ...], alone: bool, gain: float) -> None:
    """Run the idioms whose names or fields have one of the WORDS, else all."""
    outcomes: Counter[str] = Counter()
    for idiom in (dataclasses.replace(one, gain=one.gain * gain) for one in idioms()):
        if words and not any(word in f"{idiom.field}: {idiom.name}" for word in words):
            continue
        for layout in layouts:
            outcome, told = outcome_of(idiom, layout)
            outcomes[outcome] += 1
            if told and (alone or outcome != "left alone"):
                click.echo(f"{idiom.field}: {idiom.name}, {layout}: {outcome}: {told}")
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    raise SystemExit(bool(outcomes.keys() - {"right", "left alone"}))


if __name__ == "__main__":
    main()
