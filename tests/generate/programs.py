"""A whole script around the step: imports, model, data, setup, loop, evaluation, checkpoints."""

from __future__ import annotations

from tests.generate.shape import Shape
from tests.generate.steps import Block, Names, backward, step, zero_at_start_of_epoch


def program(shape: Shape) -> Block:
    names = Names(shape, "self." if shape.layout == "trainer" else "")
    head = [*_imports(shape), *_classes(shape), *_helpers(shape)]
    if shape.layout == "module":
        return [*head, *_arguments(shape), *_build(shape, names), *_data(), *_epochs(shape, names)]
    if shape.layout == "main":
        body = [*_arguments(shape), *_build(shape, names), *_data(), *_epochs(shape, names)]
        return [*head, ("def main():", body), _MAIN]
    if shape.layout == "functions":
        return [*head, *_functions(shape, names)]
    return [*head, *_trainer(shape, names)]


_MAIN: tuple[str, Block] = ('if __name__ == "__main__":', ["main()"])


def _uses_apex(shape: Shape) -> bool:
    return shape.form in ("apex", "fp16_utils", "handle")


def _imports(shape: Shape) -> Block:
    lines: Block = ["import argparse", "import math", "import sys", ""]
    lines += ["import torch", "import torch.nn as nn", "import torch.nn.functional as F"]
    return [*lines, *(_apex_import(shape) if shape.imports != "inside" else [])]


def _apex_import(shape: Shape) -> Block:
    if not _uses_apex(shape):
        return []
    if shape.form == "fp16_utils":
        plain: Block = ["from apex.fp16_utils import FP16_Optimizer, network_to_half"]
    else:
        plain = [
            {"alias": "from apex import amp as apex_amp", "dotted": "import apex"}.get(
                shape.imports, "from apex import amp"
            )
        ]
        if shape.imports == "dotted":
            plain += ["import apex.amp"]
    if shape.imports != "tried":
        return plain
    reason: Block = ['raise ImportError("Please install apex from https://www.github.com/nvidia/apex")']
    return [("try:", plain), ("except ImportError:", reason)]


def _classes(shape: Shape) -> Block:
    if shape.model != "class":
        return []
    init: Block = ["super().__init__()", "self.body = nn.Linear(6, 16)", "self.head = nn.Linear(16, 3)"]
    forward: Block = ["hidden = torch.relu(self.body(x))", "return self.head(hidden)"]
    return [("class Net(nn.Module):", [("def __init__(self):", init), ("def forward(self, x):", forward)])]


def _helpers(shape: Shape) -> Block:
    blocks: Block = []
    if shape.loss == "method":
        float32 = ".float()" if shape.form in ("fp16_utils", "half") else ""
        blocks.append(("def compute_loss(model, x, y, criterion):", [f"return criterion(model(x){float32}, y)"]))
    return blocks


def _arguments(shape: Shape) -> Block:
    lines: Block = [
        "parser = argparse.ArgumentParser()",
        f'parser.add_argument("--epochs", type=int, default={shape.epochs})',
        'parser.add_argument("--opt_level", default="O1")',
        'parser.add_argument("--fp16", action="store_true")',
        'parser.add_argument("--fp32", action="store_true")',
        "args = parser.parse_args()",
    ]
    if shape.guard == "use_amp":
        lines.append("use_amp = args.fp16 and torch.cuda.is_available()")
    return [*lines, "torch.manual_seed(3)"]


def _build(shape: Shape, names: Names) -> Block:
    lines: Block = []
    if shape.device == "device":
        lines.append(f'{names.device} = torch.device("cuda" if torch.cuda.is_available() else "cpu")')
    elif shape.device == "string":
        lines.append(f'{names.device} = "cuda"')
    lines += _apex_import(shape) if shape.imports == "inside" else []
    if shape.form == "handle":
        lines.append(f"{names.amp_handle} = {names.amp}.init()")
    lines += _model(shape, names)
    lines += _optimizers(shape, names)
    lines += [f"{names.criterion} = nn.CrossEntropyLoss()"]
    lines += _adversary(shape, names)
    lines += _mixed(shape, names)
    if shape.schedule != "none":
        inner = f"{names.optimizer}.optimizer" if shape.form == "fp16_utils" and not shape.guard else names.optimizer
        if not (shape.form == "fp16_utils" and shape.guard):
            lines.append(f"{names.scheduler} = torch.optim.lr_scheduler.StepLR({inner}, 2, gamma=0.5)")
    return lines + _load(shape, names)


def _model(shape: Shape, names: Names) -> Block:
    layers = {
        "sequential": "nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))",
        "class": "Net()",
        "norm": "nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))",
        "wrapped": "nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))",
    }[shape.model]
    lines: Block = [f"{names.model} = {layers}", f"{names.model} = {names.on_gpu(names.model)}"]
    if shape.form == "half":
        lines += names.guarded([f"{names.model} = {names.model}.half()"], [])
    if shape.form == "fp16_utils":
        cast = f"{names.model} = network_to_half({names.model})" if shape.model != "class" else f"{names.model}.half()"
        lines += names.guarded([cast], [])
    return lines


def _optimizers(shape: Shape, names: Names) -> Block:
    made = {
        "SGD": "torch.optim.SGD({0}.parameters(), lr=0.1, momentum=0.9)",
        "Adam": "torch.optim.Adam({0}.parameters(), lr=1e-2, eps=1e-4)",
        "AdamW": "torch.optim.AdamW({0}.parameters(), lr=1e-2, eps=1e-4)",
        "groups": 'torch.optim.SGD([{{"params": {0}.parameters(), "weight_decay": 1e-4}}], lr=0.1)',
    }[shape.optimizer].format(names.model)
    if not shape.two_optimizers:
        lines: Block = [f"{names.optimizer} = {made}"]
    elif shape.model == "class":
        lines = [f"{names.optimizer} = torch.optim.SGD({names.model}.body.parameters(), lr=0.1)"]
        lines += [f"{names.second} = torch.optim.SGD({names.model}.head.parameters(), lr=0.05)"]
    else:
        lines = [f"{names.optimizer} = torch.optim.SGD({names.model}[0].parameters(), lr=0.1)"]
        lines += [f"{names.second} = torch.optim.SGD({names.model}[-1].parameters(), lr=0.05)"]
    return lines


def _adversary(shape: Shape, names: Names) -> Block:
    if not shape.adversary:
        return []
    return [
        f"{names.critic} = {names.on_gpu('nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))')}",
        f"{names.critic_optimizer} = torch.optim.Adam({names.critic}.parameters(), lr=1e-3)",
        f"{names.adversarial} = nn.BCEWithLogitsLoss()",
    ]


def _mixed(shape: Shape, names: Names) -> Block:
    if shape.form == "fp16_utils":
        scale = "dynamic_loss_scale=True" if shape.clip != "none" else "static_loss_scale=128.0"
        return names.guarded([f"{names.optimizer} = FP16_Optimizer({names.optimizer}, {scale})"], [])
    if shape.form != "apex":
        return []
    keywords = shape.keywords.replace("args.", f"{names.prefix}args.")
    if shape.adversary:
        models = f"[{names.model}, {names.critic}]"
        optimizers = f"[{names.optimizer}, {names.critic_optimizer}]"
    else:
        models = names.model
        optimizers = names.optimizer if not shape.two_optimizers else f"[{names.optimizer}, {names.second}]"
    call = f"{names.amp}.initialize({models}, {optimizers}, {keywords})"
    target = f"{models}, {optimizers}"
    return names.guarded([f"{target} = {call}"], [])


def _scheduled(shape: Shape) -> bool:
    return shape.schedule != "none" and not (shape.form == "fp16_utils" and shape.guard)


def _data() -> Block:
    return [
        "data = torch.randn(36, 6)",
        "labels = data[:, :3].argmax(1)",
        "loader = [(data[k : k + 9], labels[k : k + 9]) for k in range(0, 36, 9)]",
    ]


def _loop(shape: Shape, names: Names) -> Block:
    """One epoch."""
    start: Block = [f"{names.model}.train()"]
    start += {"list": ["losses = []"], "average": ["total = 0.0"]}.get(shape.log, [])
    body = _without_schedule(step(shape, names)) if not _scheduled(shape) else step(shape, names)
    end: Block = {"list": ["print(sum(losses) / max(len(losses), 1))"], "average": ["print(total / 36)"]}.get(
        shape.log, []
    )
    if shape.closure and shape.log in ("list", "average"):
        start, end = start[:1], []
    return [*start, *zero_at_start_of_epoch(shape, names), ("for i, (x, y) in enumerate(loader):", body), *end]


def _without_schedule(block: Block) -> Block:
    kept: Block = []
    for item in block:
        if isinstance(item, tuple):
            kept.append((item[0], _without_schedule(item[1])))
        elif "scheduler.step()" not in item:
            kept.append(item)
    return kept


def _epochs(shape: Shape, names: Names) -> Block:
    body = _loop(shape, names) + _after_epoch(shape, names)
    if shape.evaluate != "none":
        body += _evaluation(shape, names)
    return [(f"for epoch in range({names.args}.epochs):", body), *_save(shape, names)]


def _after_epoch(shape: Shape, names: Names) -> Block:
    return [f"{names.scheduler}.step()"] if shape.schedule == "epoch" and _scheduled(shape) else []


def _evaluation(shape: Shape, names: Names) -> Block:
    half = (
        [*names.guarded(["x = x.half()"], [])]
        if shape.form == "half" or (shape.form == "fp16_utils" and shape.model == "class")
        else []
    )
    inner: Block = [
        f"x, y = {names.on_gpu('x')}, {names.on_gpu('y')}",
        *half,
        f"output = {names.model}(x)",
        "correct += (output.argmax(1) == y).sum().item()",
    ]
    loop: tuple[str, Block] = ("for x, y in loader:", inner)
    rest: Block = [loop] if shape.evaluate == "decorator" else [("with torch.no_grad():", [loop])]
    return [f"{names.model}.eval()", "correct = 0", *rest, 'print("correct", correct)']


def _save(shape: Shape, names: Names) -> Block:
    if shape.checkpoint not in ("save", "all"):
        return []
    entries = f'"model": {names.model}.state_dict(), "optimizer": {names.optimizer}.state_dict()'
    lines: Block = [f"state = {{{entries}}}"]
    if shape.form == "apex":
        lines += names.guarded([f'state["amp"] = {names.amp}.state_dict()'], [])
    return [*lines, 'torch.save(state, "checkpoint.pt")']


def _load(shape: Shape, names: Names) -> Block:
    if shape.checkpoint not in ("load", "all"):
        return []
    lines: Block = ['state = torch.load("start.pt")', f'{names.model}.load_state_dict(state["model"])']
    if shape.form == "apex":
        lines += names.guarded([f'{names.amp}.load_state_dict(state["amp"])'], [])
    return ["import os", ('if os.path.exists("start.pt"):', lines)]


def _functions(shape: Shape, names: Names) -> Block:
    """The step in a function of its own, which is given what it needs."""
    given = ["args", "model", "loader", *names.optimizers, "criterion"]
    given += ["scheduler"] if _scheduled(shape) else []
    given += ["device"] if shape.device != "cuda" else []
    given += ["use_amp"] if shape.guard == "use_amp" else []
    given += ["critic", "critic_optimizer", "adversarial"] if shape.adversary else []
    given += ["amp_handle"] if shape.form == "handle" else []
    inside = _apex_import(shape) if shape.imports == "inside" and shape.form != "fp16_utils" else []
    train = (f"def train({', '.join(given)}):", [*inside, *_loop(shape, names)])
    functions: Block = [train]
    calls: Block = [f"train({', '.join(given)})", *_after_epoch(shape, names)]
    if shape.evaluate != "none":
        own = [
            "model",
            "loader",
            *(["args"] if "args" in names.guard else []),
            *(one for one in ("device", "use_amp") if one in given),
        ]
        decorator: Block = ["@torch.no_grad()"] if shape.evaluate == "decorator" else []
        functions += [*decorator, (f"def evaluate({', '.join(own)}):", _evaluation(shape, names))]
        calls.append(f"evaluate({', '.join(own)})")
    body = [*_arguments(shape), *_build(shape, names), *_data()]
    body += [("for epoch in range(args.epochs):", calls), *_save(shape, names)]
    return [*functions, ("def main():", body), _MAIN]


def _trainer(shape: Shape, names: Names) -> Block:
    init = [
        "self.args = args",
        *(["self.use_amp = args.fp16"] if shape.guard == "use_amp" else []),
        *_build(shape, names),
    ]
    again = _apex_import(shape) if shape.imports == "inside" and shape.form != "fp16_utils" else []
    methods: Block = [("def __init__(self, args):", init)]
    if shape.backward_in_helper:
        methods.append(("def backward(self, loss):", [*again, *backward(shape, names)]))
    methods.append(("def train_epoch(self, loader):", [*again, *_loop(shape, names)]))
    if shape.evaluate != "none":
        if shape.evaluate == "decorator":
            methods.append("@torch.no_grad()")
        methods.append(("def evaluate(self, loader):", _evaluation(shape, names)))
    saves = _save(shape, names)
    if saves:
        methods.append(("def save(self):", [*again, *saves]))
    run: Block = ["trainer = Trainer(args)", *_data()]
    epoch: Block = ["trainer.train_epoch(loader)"]
    epoch += ["trainer.scheduler.step()"] if _after_epoch(shape, names) else []
    epoch += ["trainer.evaluate(loader)"] if shape.evaluate != "none" else []
    run += [("for epoch in range(args.epochs):", epoch), *(["trainer.save()"] if saves else [])]
    body = [line for line in _arguments(shape) if not str(line).startswith("use_amp")] + run
    return [("class Trainer:", methods), ("def main():", body), _MAIN]
