"""The proof finds what a migration must not do, and accuses nothing that is the same program."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

import amp_migrate.check.proof
from amp_migrate import Options, migrate_source
from amp_migrate.check.proof import Proof, Prover
from amp_migrate.check.proof.program import Program
from amp_migrate.check.proof.side import Side
from amp_migrate.check.proof.survey import Survey

_BEFORE = """
import torch
from apex import amp


def train(model, optimizer, criterion, loader, args):
    if args.amp:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        if args.amp:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.clip)
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        if args.log:
            print(loss.item())
    return model
"""
_AFTER = """
import torch


def train(model, optimizer, criterion, loader, args):
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.cuda.amp.autocast(enabled=args.amp):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        if args.log:
            print(loss.item())
    return model
"""


def _proof(before: dict[str, str], after: dict[str, str]) -> Proof:
    """Of a tree in which the files of `after` have other contents."""
    trees = [{path: text.encode() for path, text in one.items()} for one in (before, {**before, **after})]
    return Prover(*trees).prove(after)


def _kinds(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {one.kind for one in _proof(before, after).breaches}


def _changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


_TRAINER_BEFORE = """
import torch
from apex import amp


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = self.model(x).sum()
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
            self.optimizer.step()


class Other:
    def fit(self, loader, scaler=None, use_amp=False):
        print(scaler, use_amp)


def main(model, optimizer, loader, args):
    trainer = Trainer(model, optimizer)
    # here
    if args.amp:
        trainer.model, trainer.optimizer = amp.initialize(
            trainer.model, trainer.optimizer, opt_level="O1"
        )
    trainer.fit(loader)
"""
_TRAINER_AFTER = """
import torch


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def fit(self, loader, scaler, use_amp):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", enabled=use_amp):
                loss = self.model(x).sum()
            scaler.scale(loss).backward()
            scaler.step(self.optimizer)
            scaler.update()


class Other:
    def fit(self, loader, scaler=None, use_amp=False):
        print(scaler, use_amp)


def main(model, optimizer, loader, args):
    trainer = Trainer(model, optimizer)
    # here
    use_amp = args.amp
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    trainer.fit(loader, scaler, use_amp)
"""


def test_what_a_method_is_given_anew_goes_where_the_class_of_its_object_is_certain():
    assert not _kinds({"train.py": _TRAINER_BEFORE}, {"train.py": _TRAINER_AFTER})


@pytest.mark.parametrize(
    "old, new",
    [
        ("    # here\n", "    trainer = args.other or trainer\n"),
        ("    # here\n", "    trainer.fit = Other().fit\n"),
        ("    # here\n", "    setattr(trainer, 'fit', Other().fit)\n"),
        ("    # here\n", "    if args.other:\n        trainer = Other()\n"),
        ("    trainer = Trainer(model, optimizer)\n", "    trainer = args.trainer\n"),
        ("class Trainer:\n", "@other\nclass Trainer:\n"),
        ("class Trainer:\n", "class Trainer(metaclass=Other):\n"),
        ("class Trainer:\n", "class Trainer:\n    def __new__(cls, *args):\n        return Other()\n\n"),
    ],
)
def test_what_a_method_is_given_stays_where_its_object_may_be_another(old: str, new: str):
    before, after = (_changed(one, old, new) for one in (_TRAINER_BEFORE, _TRAINER_AFTER))
    assert _kinds({"train.py": before}, {"train.py": after})


def test_a_condition_that_names_its_value_answers_as_that_value():
    before = _BEFORE.replace("    if args.amp:\n        model", "    if (on := args.amp):\n        model")
    assert before != _BEFORE and not _kinds({"train.py": before}, {"train.py": _AFTER})


@pytest.mark.parametrize("test", ["not args.amp", "(on := not args.amp)"])
def test_a_condition_that_names_another_value_is_another_condition(test: str):
    before = _BEFORE.replace("if args.amp:", f"if {test}:")
    assert "switch" in _kinds({"train.py": before}, {"train.py": _AFTER})


def test_the_same_program():
    proof = _proof({"train.py": _BEFORE}, {"train.py": _AFTER})
    assert proof.breaches == ()
    assert [one.what for one in proof.assumptions] == ["optimizer has the parameters model.parameters()"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("enabled=args.amp):", "enabled=True):"),
        ("(enabled=args.amp):", "():"),
        ("GradScaler(enabled=args.amp)", "GradScaler()"),
        ("GradScaler(enabled=args.amp)", "GradScaler(enabled=args.amp or args.log)"),
    ],
)
def test_a_guard_lost_is_a_switch(old: str, new: str):
    assert _kinds({"train.py": _BEFORE}, {"train.py": _changed(_AFTER, old, new)}) == {"switch"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        optimizer.zero_grad()\n", ""),
        ("    model.train()\n", "    model.eval()\n"),
        ("criterion(model(x), y)", "criterion(model(x))"),
        ("criterion(model(x), y)", "criterion(y, model(x))"),
        ("if args.log:", "if not args.log:"),
        ("        if args.log:\n            print(loss.item())\n", ""),
        ("args.clip)", "2 * args.clip)"),
        ("        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)\n", ""),
        ("scaler.scale(loss)", "scaler.scale(loss / 2)"),
        ("        scaler.step(optimizer)\n", ""),
        ("for x, y in loader:", "for y, x in loader:"),
        ("    return model\n", ""),
        (
            "        if args.log:\n            print(loss.item())\n    return model",
            "    if args.log:\n        print(loss.item())\n    return model",
        ),
    ],
)
def test_another_program_is_found(old: str, new: str):
    assert "not the same program" in _kinds({"train.py": _BEFORE}, {"train.py": _changed(_AFTER, old, new)})


@pytest.mark.parametrize(
    ("test", "is_proved"),
    [
        ("'scaler' in state", True),
        ("state.get('scaler')", True),
        ("args.log and state.get('scaler') is not None", True),
        ("'scaler' not in state", False),
        ("'scalar' in state", False),
        ("args.log", False),
    ],
)
def test_a_new_load_asks_for_what_old_checkpoints_lack(test: str, is_proved: bool):
    load = "    optimizer.load_state_dict(state['optimizer'])\n"
    before, after = (_changed(one, "    model.train()\n", f"{load}    model.train()\n") for one in (_BEFORE, _AFTER))
    new = f"    if {test}:\n        scaler.load_state_dict(state['scaler'])\n"
    after = _changed(after, "    model.train()\n", f"{new}    model.train()\n")
    assert (_kinds({"train.py": before}, {"train.py": after}) == set()) is is_proved


def test_an_import_that_may_fail():
    tried = "try:\n    import munch\nexcept ImportError:\n    munch = None\n\n\ndef train("
    before, after = (_changed(one, "def train(", tried) for one in (_BEFORE, _AFTER))
    assert _kinds({"train.py": before}, {"train.py": after}) == set()
    assert _kinds({"train.py": before}, {"train.py": _changed(after, tried, "import munch\n\n\ndef train(")}) != set()


def test_both_lines_are_told():
    after = _changed(_AFTER, "model.train()", "model.eval()")
    (breach, *_) = _proof({"train.py": _BEFORE}, {"train.py": after}).breaches
    assert (breach.before, breach.after) == ((9, "model.train()"), (7, "model.eval()"))
    assert breach.function == "train"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if not args.fp32:\n    f(x)", "if args.fp32:\n    pass\nelse:\n    f(x)"),
        ("if a:\n    return f(x)\nelse:\n    g(x)", "if a:\n    return f(x)\ng(x)"),
        ("unused = 0\nf(x)", "f(x)"),
        ("y = torch.float\nf(x, y)", "y = torch.float32\nf(x, y)"),
        ("if a:\n    p = x\n    f(p)\nelse:\n    q = x\n    f(q)", "q = x\nf(q)"),
    ],
)
def test_other_words_for_the_same_program(before: str, after: str):
    assert _kinds_of_words(before, after) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if a:\n    p = x\n    x = g()\n    f(p)\nelse:\n    x = g()\n    f(x)", "x = g()\nf(x)"),
        ("if a:\n    p = x\n    f(p)\nelse:\n    q = x\n    f(q)\nuse(p)", "p = x\nf(p)\nuse(p)"),
    ],
)
def test_arms_that_are_not_one_step(before: str, after: str):
    assert _kinds_of_words(before, after) == {"not the same program"}


def _kinds_of_words(before: str, after: str) -> set[str]:
    sides = [_with_first(text, one) for text, one in ((_BEFORE, before), (_AFTER, after))]
    return _kinds({"train.py": sides[0]}, {"train.py": sides[1]})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = g(x)\nf(x)\nuse(y)", "f(x)\nuse(g(x))"),
        ("y = x\nx = g(a)\nuse(y)", "x = g(a)\nuse(x)"),
        ("if a:\n    f(x)\ng(x)", "if a:\n    f(x)\nelse:\n    g(x)"),
        ("f(x.g((x := h(a))))", "x = h(a)\nf(x.g(x))"),
        ("f(a, (x := h(a)))", "x = h(a)\nf(x)"),
    ],
)
def test_other_words_for_another_program(before: str, after: str):
    sides = [_with_first(text, one) for text, one in ((_BEFORE, before), (_AFTER, after))]
    assert _kinds({"train.py": sides[0]}, {"train.py": sides[1]}) == {"not the same program"}


@pytest.mark.parametrize(("limit", "wrong"), [("clip={}", set()), ("max_norm=2 * {}", {"not the same program"})])
def test_a_clip_by_keyword(limit: str, wrong: set[str]):
    folder = Path(__file__).parent.parent / "fixtures/fp16_utils/clip_master_grads"
    before, after = ((folder / name).read_text() for name in ("before.py", "after.py"))
    by_keyword = re.sub(r"(clip_master_grads)\((.+?)\)", lambda call: f"{call[1]}({limit.format(call[2])})", before)
    assert by_keyword != before
    assert _kinds({"train.py": by_keyword}, {"train.py": after}) == wrong


def _with_first(text: str, statements: str) -> str:
    """The script with another function before that of the training."""
    function = "def other(args, a, f, g, x, use):\n" + textwrap.indent(statements, "    ") + "\n\n\ndef train("
    return _changed(text, "def train(", function)


_CLASS = """
class Trainer:
    def __init__(self, args):
        self.args = args
        if args.amp:
            self.level = "O1"
            self.model, self.optimizer = amp.initialize(args.model, args.optimizer, opt_level=self.level)

    def step(self, loss):
        with amp.scale_loss(loss, self.optimizer) as scaled_loss:
            scaled_loss.backward()
        self.optimizer.step()

    def described(self):
        return str(self.level)
"""
_CLASS_AFTER = """
class Trainer:
    def __init__(self, args):
        self.args = args
        if args.amp:
            self.level = "O1"
            self.model, self.optimizer = args.model, args.optimizer
            self.scaler = torch.cuda.amp.GradScaler()

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def described(self):
        return str(self.level)
"""
_IMPORTS = "import torch\nfrom apex import amp\n"


def test_an_attribute_lost_that_is_read():
    before = {"trainer.py": _IMPORTS + _CLASS}
    after = "import torch\n" + _CLASS_AFTER
    assert _kinds(before, {"trainer.py": after}) == set()
    assert "name" in _kinds(before, {"trainer.py": _changed(after, '            self.level = "O1"\n', "")})


@pytest.mark.parametrize(
    ("elsewhere", "is_lost"),
    [
        ("def level(name):\n    return name\n", True),
        ("class Base:\n    def level(self):\n        return 1\n", False),
        ("def put(one):\n    one.level = 1\n", False),
    ],
)
def test_an_attribute_lost_whose_name_other_files_have(elsewhere: str, is_lost: bool):
    before = {"trainer.py": _IMPORTS + _CLASS, "other.py": elsewhere}
    lost = _changed("import torch\n" + _CLASS_AFTER, '            self.level = "O1"\n', "")
    assert ("name" in _kinds(before, {"trainer.py": lost})) == is_lost


def test_a_helper_lost_that_a_test_script_calls():
    helper = "def reduced(x):\n    return x\n\n\ndef train("
    before = {"train.py": _changed(_BEFORE, "def train(", helper), "test.py": "from train import reduced\n"}
    assert "name" in _kinds(before, {"train.py": _AFTER})
    assert "name" not in _kinds({**before, "test.py": "import torch\n"}, {"train.py": _AFTER})


def test_an_import_before_the_statement_that_makes_it_global():
    before = textwrap.dedent("""
        class Trainer:
            def __init__(self, model, optimizer, fp16):
                self.model, self.optimizer, self.fp16 = model, optimizer, fp16

            def setup(self):
                if self.fp16:
                    from apex import amp
                    global amp
                    self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")

            def step(self, loss):
                if self.fp16:
                    with amp.scale_loss(loss, self.optimizer) as scaled:
                        scaled.backward()
                else:
                    loss.backward()
                self.optimizer.step()
    """)
    after = textwrap.dedent("""
        import torch
        class Trainer:
            def __init__(self, model, optimizer, fp16):
                self.model, self.optimizer, self.fp16 = model, optimizer, fp16

            def setup(self):
                self.scaler = torch.amp.GradScaler("cuda", enabled=bool(self.fp16))

            def step(self, loss):
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
    """)
    assert _kinds({"train.py": before}, {"train.py": after}) == set()


def test_a_module_whose_name_is_no_utf_8():
    before = _changed(_BEFORE, "def train(", "def reduced(x):\n    return x\n\n\ndef train(")
    name = "caf\udce9.py"
    assert "name" not in _kinds({name: before, "test.py": "import torch\n"}, {name: _AFTER})


@pytest.mark.parametrize("name", ["evaluate", "\u00e9valu\u00e9"])
def test_a_parameter_lost_that_another_file_gives(name: str):
    function = f"def {name}(x, level=None):\n    return x\n\n\ndef train("
    before = {
        "train.py": _changed(_BEFORE, "def train(", function),
        "test.py": f"from train import {name}\n{name}(1, level=2)\n",
    }
    after = _changed(_AFTER, "def train(", function.replace(", level=None", ""))
    assert "name" in _kinds(before, {"train.py": after})
    assert "name" not in _kinds({**before, "test.py": f"from train import {name}\n{name}(1)\n"}, {"train.py": after})


@pytest.mark.parametrize("caught", ["ImportError", "(ImportError, AttributeError)", "Exception as error", ""])
def test_an_import_of_apex_that_may_fail(caught: str):
    tried = f"try:\n    from apex.normalization import FusedLayerNorm as Norm\nexcept {caught}:\n    Norm = torch.nn.LayerNorm\n"
    before = _changed(_BEFORE, "import torch\n", "import torch\n" + tried)
    after = _changed(_AFTER, "import torch\n", "import torch\nNorm = torch.nn.LayerNorm\n")
    assert _kinds({"train.py": before + "Norm(3)\n"}, {"train.py": after + "Norm(3)\n"}) == set()


def test_an_assertion_about_apex():
    tried = "try:\n    import apex\n    has_apex = True\nexcept ImportError:\n    has_apex = False\n"
    asserted = "assert has_apex, 'install Apex'\n"
    before = _changed(_BEFORE, "from apex import amp\n", tried + asserted + "from apex import amp\n")
    left = _changed(_AFTER, "import torch\n", "import torch\n" + tried + asserted)
    assert "needs Apex" in _kinds({"train.py": before}, {"train.py": left})
    assert "needs Apex" not in _kinds({"train.py": before}, {"train.py": _AFTER})


def _infers(setup: str, region: str, type_: str = "int") -> str:
    return f"""
import argparse
import torch
from apex import amp
parser = argparse.ArgumentParser()
parser.add_argument("--amp", type={type_}, default=0)
params = parser.parse_args()
net = torch.nn.Linear(4, 4).cuda()
{setup}
with torch.no_grad():
    {region}
"""


_NUMBERED = ['"O%i" % params.amp', '"O%d" % (params.amp,)', 'f"O{params.amp}"']


@pytest.mark.parametrize("level", _NUMBERED)
@pytest.mark.parametrize(
    "guard", ["params.amp != 0", "params.amp > 0", "params.amp >= 1", "params.amp", "not params.amp == 0"]
)
def test_a_level_that_is_made_of_a_number_is_off_where_that_is_0(level: str, guard: str):
    before = _infers(f"if {guard}:\n    net = amp.initialize(net, opt_level={level})", "print(net(1))")

    def kinds(enabled: str) -> set[str]:
        region = f'with torch.amp.autocast("cuda", enabled={enabled}):\n        print(net(1))'
        return _kinds({"a.py": before}, {"a.py": _infers("", region).replace("from apex import amp\n", "")})

    assert kinds(guard if guard != "params.amp" else "bool(params.amp)") == set()
    assert kinds("params.amp != 1") == {"switch"}
    assert kinds("True") == {"switch"}


@pytest.mark.parametrize("level", _NUMBERED)
def test_a_level_that_is_made_of_a_number_alone(level: str):
    before = _infers(f"net = amp.initialize(net, opt_level={level})", "print(net(1))")

    def kinds(before: str, enabled: str, type_: str = "int") -> set[str]:
        region = f'with torch.amp.autocast("cuda", enabled={enabled}):\n        print(net(1))'
        return _kinds({"a.py": before}, {"a.py": _infers("", region, type_).replace("from apex import amp\n", "")})

    assert kinds(before, "params.amp != 0") == set()
    assert kinds(before, "True") == {"switch"}
    setup = 'if params.amp != 0:\n    net = amp.initialize(net, opt_level=f"O{params.amp}")'
    text = _infers(setup, "print(net(1))", "str")
    assert kinds(text, "params.amp != 0", "str") == {"switch"}  # "0" is not 0


_NEEDS_APEX = [
    "from apex import amp\n",
    "import apex.amp as amp\n",
    "try:\n    from apex import amp\nexcept ImportError:\n    raise ImportError('install Apex')\n",
    "try:\n    import apex\n    there = True\nexcept ImportError:\n    there = False\nassert there\n",
]


@pytest.mark.parametrize("needs", _NEEDS_APEX)
def test_a_file_that_stays_with_apex_beside_a_program_that_never_had_its_amp(needs: str):
    files = {
        "deform.py": f"{needs}\n\nclass Net:\n    pass\n",
        "main.py": "from apex.parallel import DistributedDataParallel\nfrom deform import Net\nDistributedDataParallel(Net())\n",
    }
    after = "from torch.nn.parallel import DistributedDataParallel\nfrom deform import Net\nDistributedDataParallel(Net())\n"
    assert "needs Apex" not in _kinds(files, {"main.py": after})
    assert "needs Apex" in _kinds(files, {"main.py": needs + after})


@pytest.mark.parametrize("needs", _NEEDS_APEX)
def test_a_file_that_stays_with_apex_beside_a_program_that_had_its_amp(needs: str):
    files = {"deform.py": f"{needs}\n\nclass Net:\n    pass\n", "train.py": "import deform\n" + _BEFORE}
    assert "needs Apex" in _kinds(files, {"train.py": "import deform\n" + _AFTER})
    plain = {**files, "train.py": "import deform, torch\ndeform.Net()(1)\n"}
    after = "import deform, torch\nwith torch.amp.autocast('cuda'):\n    deform.Net()(1)\n"
    assert "needs Apex" in _kinds(plain, {"train.py": after})


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("model.half()", True),
        ("model = model.to(torch.float16)", True),
        ("model.apply(halve)", True),
        ("torch.set_default_dtype(torch.float16)", True),
        ("x = x.half()", False),
    ],
)
def test_half_weights_beside_a_scaler(statement: str, wrong: bool):
    after = f"""
import torch

def halve(m):
    m.half()

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for x, y in loader:
    {statement}
    loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    assert ("half weights" in _kinds({"train.py": ""}, {"train.py": after})) == wrong


@pytest.mark.parametrize(
    ("callback", "wrong"),
    [
        ("return float(sum(p.grad.norm() for p in model.parameters()))", True),
        ("return len(list(model.parameters()))", False),
        ("for p in model.parameters():\n        p.data.add_(p.grad / torch.norm(p.grad))", False),
        ("for p in model.parameters():\n        p.data.add_(p.grad / torch.norm(p.data))", True),
        ("for p in model.parameters():\n        if p.grad is None:\n            p.grad = torch.zeros_like(p)", False),
        (
            "for p in model.parameters():\n        if p.grad is None:\n            p.grad = p.new(p.size()).zero_()",
            False,
        ),
        ("for p in model.parameters():\n        p.grad = torch.ones_like(p)", True),
    ],
)
def test_scaled_gradients_reach_nobody(callback: str, wrong: bool):
    seen = f"def seen(model):\n    {callback}\n\n\ndef train("
    before, after = (_changed(text, "def train(", seen) for text in (_BEFORE, _AFTER))
    before = _changed(before, "        optimizer.step()", "        seen(model)\n        optimizer.step()")
    early = _changed(after, "        scaler.unscale_", "        seen(model)\n        scaler.unscale_")
    assert ("scaled gradients" in _kinds({"train.py": before}, {"train.py": early})) == wrong


@pytest.mark.parametrize("call", ["for hook in hooks:\n            hook(model)", "self.logger(model)", "watch(model)"])
def test_who_is_out_of_sight_is_assumed_not_to_look(call: str):
    before = _changed(_BEFORE, "        optimizer.step()", f"        {call}\n        optimizer.step()")
    before = _changed(before, "import torch\n", "import torch\nfrom elsewhere import watch\n")
    after = _changed(_AFTER, "        scaler.unscale_", f"        {call}\n        scaler.unscale_")
    after = _changed(after, "import torch\n", "import torch\nfrom elsewhere import watch\n")
    said = [one.what for one in _proof({"train.py": before}, {"train.py": after}).assumptions]
    name = call.rpartition("\n")[2].strip().partition("(")[0]
    assert f"`{name}` does not look at gradients" in said


@pytest.mark.parametrize("extra", ["", ", find_unused_parameters=True"])
def test_frozen_after_the_wrapping(extra: str):
    frozen = "    for p in model.layer1.parameters():\n        p.requires_grad = False\n    model.train()\n"
    wrapped = f"    model = DistributedDataParallel(model{extra})\n"
    sides = [
        _changed(text, "    model.train()\n", wrap + frozen)
        for text, wrap in ((_BEFORE, "    model = DistributedDataParallel(model)\n"), (_AFTER, wrapped))
    ]
    before = _changed(sides[0], "import amp\n", "import amp\nfrom apex.parallel import DistributedDataParallel\n")
    after = _changed(
        sides[1], "import torch\n", "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n"
    )
    assert ("wrapper" in _kinds({"train.py": before}, {"train.py": after})) == (not extra)


@pytest.mark.parametrize(("made", "seen"), [("Net()", True), ("getattr(nets, name)()", False), ("model", False)])
def test_a_wrapped_model_out_of_sight_is_assumed_to_use_its_parameters(made: str, seen: bool):
    net = "import sys\nfrom torch import nn\nnets = sys.modules\n\n\nclass Net(nn.Module):\n    pass\n\n\ndef train("
    wrapped = f"    net = {made}\n    net = DDP(net)\n    model.train()\n"
    sides = [_changed(text, "    model.train()\n", wrapped).replace("def train(", net, 1) for text in (_BEFORE, _AFTER)]
    before = _changed(
        sides[0], "import amp\n", "import amp\nfrom apex.parallel import DistributedDataParallel as DDP\n"
    )
    after = _changed(
        sides[1], "import torch\n", "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    )
    said = [one.what for one in _proof({"train.py": before}, {"train.py": after}).assumptions]
    assert ("each parameter of `net` gets a gradient in each iteration" in said) == (not seen)


_NET = """
import random

from torch import nn


def freeze(layer):
    layer.weight.requires_grad = False


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.start()

    def start(self):
        for p in self.norm.parameters():
            p.requires_grad = False

    def forward(self, x):
        return self.norm(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.fc = nn.Linear(3, 3)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.fc(self.block(x))
"""
_FORWARD = "        return self.fc(self.block(x))"
_TRAINS = "    def train(self, mode=True):\n        super().train(mode)\n"


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (_FORWARD, _FORWARD, False),
        (
            "    def start(self):",
            f"{_TRAINS}        self.norm.weight.requires_grad = False\n\n    def start(self):",
            True,
        ),
        ("    def start(self):", f"{_TRAINS}        freeze(self.norm)\n\n    def start(self):", True),
        ("    def start(self):", f"{_TRAINS}        self.start()\n\n    def start(self):", False),
        (_FORWARD, "        self.block.requires_grad_(False)\n" + _FORWARD, True),
        (_FORWARD, "        if random.random() < 0.5:\n            x = self.fc(x)\n        return self.block(x)", True),
        (_FORWARD, "        if random.random() < 0.5:\n            x = self.relu(x)\n" + _FORWARD, False),
        ("        self.relu", "        self.more = nn.Sequential(nn.Linear(3, 3))\n        self.relu", True),
        ("        self.relu", "        self.more = Block()\n        self.relu", True),
        ("        self.relu", "        self.more = nn.Softmax(dim=1)\n        self.relu", False),
        (_FORWARD, "        for layer in self.children():\n            x = layer(x)\n        return x", False),
    ],
)
def test_classes_that_leave_parameters_out(old: str, new: str, wrong: bool):
    made = "    net = Net()\n    model = DDP(net{})\n    model.train()\n"
    before = _changed(_BEFORE, "    model.train()\n", made.format(""))
    before = _changed(
        before,
        "import amp\n",
        "import amp\nfrom apex.parallel import DistributedDataParallel as DDP\nfrom net import Net\n",
    )
    after = _changed(_AFTER, "    model.train()\n", made.format(", broadcast_buffers=False"))
    after = _changed(
        after,
        "import torch\n",
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\nfrom net import Net\n",
    )
    net = {"net.py": _changed(_NET, old, new)}
    assert ("wrapper" in _kinds({"train.py": before, **net}, {"train.py": after})) == wrong


def test_a_base_below_which_a_subclass_stays():
    base = {"trainer.py": _IMPORTS + _CLASS}
    special = "class Special(Trainer):\n    def level_of(self):\n        return self.level\n"
    sub = {"special.py": "from trainer import Trainer\n\n\n" + special}
    after = _changed("import torch\n" + _CLASS_AFTER, '            self.level = "O1"\n', "")
    after = _changed(after, "        return str(self.level)", "        return ''")
    assert "name" in _kinds({**base, **sub}, {"trainer.py": after})


def test_a_package_that_hands_on_a_function_of_its_modules_name():
    package = {
        "op/__init__.py": "from .up import up\n",
        "op/up.py": "def up(x):\n    return x\n",
        "net.py": "from op import up\nup.calls = 0\n",
    }
    paths = ["train.py", *package]
    before, after = ({**package, "train.py": text + "from op import up\nup.calls += 1\n"} for text in (_BEFORE, _AFTER))
    trees = [{path: text.encode() for path, text in one.items()} for one in (before, after)]
    proof = Prover(*trees).prove(paths)
    assert proof.breaches == ()
    assert "the file nests too deeply to be compared" not in [one.what for one in proof.assumptions]


@pytest.mark.parametrize("unread", ["y = " + "+".join(["1"] * 20_000), "print 'of Python 2'"])
def test_what_cannot_be_read_is_assumed(unread: str):
    proof = _proof({"train.py": f"{_BEFORE}{unread}\n"}, {"train.py": f"{_AFTER}{unread}\n"})
    assert proof.breaches == ()
    assert [one.what for one in proof.assumptions] == ["the file cannot be read by this Python, and was not compared"]


def test_an_output_that_cannot_be_read():
    assert "not the same program" in _kinds({"train.py": _BEFORE}, {"train.py": f"{_AFTER}:\n"})


# The names of Apex, what torch's operations do, and how Python reads a file: nothing that a plan made.
_SHARED = ("amp_migrate.check.proof.", "amp_migrate.apex_exports.", "amp_migrate.models", "amp_migrate.files.syntax.")


def test_it_shares_nothing_but_data_with_what_plans_and_writes():
    folder = Path(amp_migrate.check.proof.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("amp_migrate"):
                assert all(f"{node.module}.{one.name}".startswith(_SHARED) for one in node.names)


_ALIASES = {
    "precision.py": """
    from torch.cuda.amp import autocast as region
    import torch

    Half = torch.cuda.HalfTensor

    def none(model):
        return model.half() if model is not None else model
    """,
    "train.py": """
    import precision
    from apex import amp as a
    from torch.cuda.amp import GradScaler

    def plain(x):
        return x + 1

    def scaled(loss, optimizer):
        with a.scale_loss(loss, optimizer) as it:
            it.backward()

    def below(model, x, grad):
        with precision.region():
            return grad.scale(model(x))

    def above(model, x, steps):
        return below(model, x, GradScaler()) + steps

    def cast(x):
        return x.type(precision.Half)

    def unit(model):
        return precision.none(model)

    def other(model):
        return plain(model)
    """,
}


def test_what_erasure_does_not_look_at_is_not_about_precision():
    program = Program({path: textwrap.dedent(text).encode() for path, text in _ALIASES.items()})
    side, all_of_it = Side(program, _ALIASES), Side(program, _ALIASES)
    all_of_it.about = set(all_of_it.flow.functions)
    assert {one.name for one in side.flow.functions if one not in side.about} == {"plain", "other"}
    for one, other in zip(*(Survey(each).found.__dict__.values() for each in (side, all_of_it)), strict=True):
        assert _counted(one) == _counted(other)


def _counted(found: object) -> object:
    """What a survey has, without the scopes, which are others in each."""
    return len(found) if isinstance(found, (list, dict)) and found and not _is_around(found) else bool(found)


def _is_around(found: object) -> bool:
    """True for the tests around each call, also of functions about something else."""
    return isinstance(found, dict) and isinstance(next(iter(found)), ast.Call)


def test_names_that_are_bound_from_each_other_are_followed_once_each():
    names = "abcdefghijk"
    circle = "".join(f"{one} = {' + '.join(names)}\n" for one in names[:8])
    script = (
        f"import torch\nfrom data import prepare\n\n{', '.join(names)} = prepare()\n{circle}"
        "model = torch.nn.Linear(a, b).cuda()\noptimizer = torch.optim.Adam(model.parameters())\n"
        "for x, y in c:\n    loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    assert migrate_source(script.encode(), Options()).status == "migrated"  # it took minutes, one path at a time


NATIVE = """\
import torch
from torch.amp import GradScaler, autocast
{import_}

def main(args, loader):
    model = torch.nn.Linear(8, 2).cuda()
    {half}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cuda"{enabled})
    for x, y in loader:
        with autocast("cuda"{enabled}):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
HALF = "if args.half:\n        model.half()"


@pytest.mark.parametrize(
    ("half", "enabled", "new"),
    [
        (HALF, "", {}),
        ("model.half()", "", {}),
        ("", "", {"half": HALF, "kind": "half weights"}),
        (HALF, ", enabled=args.half", {"enabled": "", "kind": "switch"}),
    ],
)
def test_native_amp_that_was_there_before_is_no_breach(half, enabled, new):
    before = NATIVE.format(import_="import apex\n", half=half, enabled=enabled)
    after = NATIVE.format(import_="", half=new.get("half", half), enabled=new.get("enabled", enabled))
    kinds = _kinds({"train.py": before}, {"train.py": after})
    assert new["kind"] in kinds if new else not kinds


@pytest.mark.parametrize(
    "left", ["seen = 1", "pass", "for layer in model.modules():\n        pass", "is_half = model is None"]
)
def test_a_function_about_precision_may_stay_without_it(left):
    helper = f"def prepare(model):\n    model.half()\n    {left}\n"
    script = """\
import torch
from precision import prepare

model = torch.nn.Linear(8, 2).cuda()
prepare(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{scaler}for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    {backward}
    {step}
"""
    before = script.format(scaler="", backward="loss.backward()", step="optimizer.step()")
    after = script.format(
        scaler="scaler = torch.amp.GradScaler()\n",
        backward="scaler.scale(loss).backward()",
        step="scaler.step(optimizer)\n    scaler.update()",
    )
    empty = _changed(helper, "    model.half()\n", "")
    other = _changed(empty, left, "model.eval()")
    files = {"train.py": before, "precision.py": helper}
    assert not _kinds(files, {"train.py": after, "precision.py": empty})
    assert "not the same program" in _kinds(files, {"train.py": after, "precision.py": other})


@pytest.mark.parametrize("given", ["net, None, ", "net, optimizers=None, ", "net, "])
def test_without_an_optimizer_initialize_returns_the_model_alone(given):
    script = f"""\
import argparse
import torch
from apex import amp

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
net = torch.nn.Linear(4, 2).cuda()
if args.fp16:
    net = amp.initialize({given}opt_level="O1")
with torch.no_grad():
    out = net(torch.randn(8, 4).cuda())
print(out.float().mean().item())
"""
    assert migrate_source(script.encode(), Options()).status == "migrated"


_HALF = """
import torch
from torch import nn
from apex.optimizers import FP16_Optimizer, FusedAdam


def main(args, loader):
    {condition}
    model = nn.Linear(4, 2)
    if args.fp16:
        model.half()
    model.cuda()
    if args.fp16:
        optimizer = FusedAdam(model.parameters(), lr=0.1, max_grad_norm=1.0)
        optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        if args.fp16:
            optimizer.backward(loss)
        else:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "condition",
    [
        "args.fp16 = args.fp16 or args.amp",
        "args.fp16 = args.fp16 and torch.cuda.is_available()",
        "args.fp16 = args.amp if not args.fp16 else args.fp16",
        "args.fp16 = bool(args.fp16)",
        "if not torch.cuda.is_available():\n        args.fp16 = False",
    ],
)
def test_a_condition_that_is_made_of_what_it_was(condition: str) -> None:
    migrated = migrate_source(_HALF.format(condition=condition).encode(), Options(api="torch.amp"))
    assert migrated.status == "migrated", migrated.findings
    assert condition in migrated.output.decode()


def test_a_condition_that_is_made_of_something_else_than_before_is_another() -> None:
    before = _BEFORE.replace("    if args.amp:", "    args.amp = args.amp and args.gpu\n    if args.amp:", 1)
    after = _AFTER.replace("    scaler = ", "    args.amp = args.amp and args.cpu\n    scaler = ", 1)
    assert not _kinds({"train.py": before}, {"train.py": after.replace("args.cpu", "args.gpu")})
    assert _kinds({"train.py": before}, {"train.py": after})
