"""What a script's other modules do is read where they are found on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import migrate_project
from amp_migrate.files.casting import Casting, casting_of
from amp_migrate.files.definitions import any_named
from amp_migrate.files.gradients import trains
from amp_migrate.files.one_dtype import wants_one_dtype

SCRIPT = """import torch
from apex import amp

from losses import ClickLoss
from reports import report


def train(model, optimizer, loader):
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    criterion = ClickLoss()
    for x, y in loader:
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        report(model)
        optimizer.step()
"""

REPORT = "def report(model):\n    print(model.training)\n"
LOSS = "class ClickLoss:\n    def __call__(self, p, y):\n        return (p - y).abs().mean()\n"
BCE = """import torch
from torch import nn

class Inner(nn.Module):
    def forward(self, p, y):
        return nn.functional.binary_cross_entropy(p, y)

class ClickLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, p, y):
        return self.inner(p, y)
"""
GUARDED_BCE = """import torch
from torch import nn

class ClickLoss(nn.Module):
    def forward(self, p, y):
        with torch.cuda.amp.autocast(enabled=False):
            return nn.functional.binary_cross_entropy(p.float(), y)
"""
READS = """def report(model):
    print(sum(p.grad.norm() for p in model.parameters()))
"""


def _migrated(folder, losses, reports):
    (folder / "train.py").write_text(SCRIPT)
    (folder / "losses.py").write_text(losses)
    (folder / "reports.py").write_text(reports)
    return next(result for result in migrate_project(str(folder)) if result.path.endswith("train.py"))


ISLAND = """        with torch.amp.autocast("cuda", enabled=False):
            return nn.functional.binary_cross_entropy(p.float(), y)
"""


@pytest.mark.parametrize(("losses", "joins"), [(LOSS, False), (BCE, True), (GUARDED_BCE, False)])
def test_a_binary_cross_entropy_in_another_file_leaves_autocast(tmp_path, losses, joins):
    result = _migrated(tmp_path, losses, REPORT)
    assert (result.status, result.findings) == ("migrated", ())
    changed = {Path(one.path).name: one for one in migrate_project(str(tmp_path)) if one.changed}
    assert ("losses.py" in changed) == joins
    assert not joins or ISLAND in changed["losses.py"].output.decode()


def test_a_binary_cross_entropy_in_a_file_that_is_not_given_prevents_the_migration(tmp_path):
    _migrated(tmp_path, BCE, REPORT)
    (result,) = migrate_project(str(tmp_path / "train.py"))
    assert (result.status, [finding.code for finding in result.findings]) == ("left", ["AMP901"])


@pytest.mark.parametrize(("reports", "unscales"), [(REPORT, False), (READS, True)])
def test_a_function_of_another_file_that_reads_gradients_gets_them_unscaled(tmp_path, reports, unscales):
    result = _migrated(tmp_path, LOSS, reports)
    assert result.status == "migrated"
    assert (b"scaler.unscale_(optimizer)\n        report(model)" in result.output) == unscales


@pytest.mark.parametrize(("inner", "joins"), [(LOSS, False), (BCE, True)])
def test_a_loss_is_found_behind_a_factory_and_its_imports(tmp_path, inner, joins):
    (tmp_path / "made.py").write_text(inner)
    factory = "from made import *\n\n\ndef make():\n    return ClickLoss()\n"
    script = SCRIPT.replace("from losses import ClickLoss", "from losses import make").replace("ClickLoss()", "make()")
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "losses.py").write_text(factory)
    (tmp_path / "reports.py").write_text(REPORT)
    changed = {Path(one.path).name: one for one in migrate_project(str(tmp_path)) if one.changed}
    assert ("train.py" in changed, "made.py" in changed) == (True, joins)
    assert not joins or ISLAND in changed["made.py"].output.decode()


DRAWS = SCRIPT.replace(
    "        report(model)\n",
    "        report(model.named_parameters())\n"
    "        print(1)\n"
    "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
)
COUNTS = "def report(parameters):\n    print(len(dict(parameters)))\n"
NORMS = "def report(parameters):\n    print([p.grad.norm() for _, p in parameters])\n"


@pytest.mark.parametrize(("reports", "first"), [(COUNTS, b"torch.nn.utils.clip"), (NORMS, b"report(")])
def test_gradients_are_unscaled_before_the_first_function_that_looks_at_them(tmp_path, reports, first):
    (tmp_path / "train.py").write_text(DRAWS)
    (tmp_path / "losses.py").write_text(LOSS)
    (tmp_path / "reports.py").write_text(reports)
    result = next(result for result in migrate_project(str(tmp_path)) if result.path.endswith("train.py"))
    assert b"scaler.unscale_(optimizer)\n        " + first in result.output


@pytest.mark.parametrize(("level", "status"), [("O1", "left"), ("O0", "migrated")])
def test_casts_by_the_level_in_an_imported_file_keep_the_script_on_apex(tmp_path, level, status):
    head = f"def cast(x, cfg):\n    return x.half() if cfg.level == '{level}' else x\n\n\n"
    (tmp_path / "losses.py").write_text(head + LOSS)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "reports.py").write_text(REPORT)
    result = next(result for result in migrate_project(str(tmp_path)) if result.path.endswith("train.py"))
    assert result.status == status
    assert any("casts to half by the level" in finding.message for finding in result.findings) == (status == "left")


@pytest.mark.parametrize(("decorator", "status"), [("@amp.float_function", "left"), ("@torch.no_grad()", "migrated")])
def test_casts_that_need_apex_in_an_imported_file_keep_the_script_on_apex(tmp_path, decorator, status):
    layer = f"import torch\nfrom apex import amp\n\n\n{decorator}\ndef pool(x):\n    return x\n\n\n"
    (tmp_path / "layers.py").write_text(layer)
    (tmp_path / "losses.py").write_text("import layers\n" + LOSS)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "reports.py").write_text(REPORT)
    result = next(result for result in migrate_project(str(tmp_path)) if result.path.endswith("train.py"))
    assert result.status == status


ACCUMULATES = """import torch
from apex import amp

from reports import grad_norm


def train(model, optimizer, loader, criterion, every):
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / every
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        norm = grad_norm(amp.master_params(optimizer))
        print(norm)
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
NORM = """def grad_norm(parameters, norm_type=2):
    total_norm = 0
    for p in parameters:
        total_norm += p.grad.data.norm(norm_type).item() ** norm_type
    return total_norm ** (1. / norm_type)
"""
NO_NORM = """def grad_norm(parameters, norm_type=2):
    return max(p.grad.abs().max().item() for p in parameters)
"""


@pytest.mark.parametrize(("reports", "status"), [(NORM, "migrated"), (NO_NORM, "left")])
def test_a_norm_of_another_file_is_taken_on_micro_batches(tmp_path, reports, status):
    (tmp_path / "train.py").write_text(ACCUMULATES)
    (tmp_path / "reports.py").write_text(reports)
    result = next(result for result in migrate_project(str(tmp_path)) if result.path.endswith("train.py"))
    assert result.status == status
    assert (b" / scaler.get_scale()\n        print(norm)" in result.output) == (status == "migrated")


STAR = ACCUMULATES.replace("from reports import grad_norm", "from reports import *").replace(
    "        norm = grad_norm(amp.master_params(optimizer))\n        print(norm)\n",
    "        Sparsity.add_penalty(model.layers)\n",
)
PENALTY = """class Sparsity:
    @staticmethod
    def add_penalty(layers):
        for layer in layers:
            layer.weight.grad.data.add_(0.001 * layer.weight.data.sign())
"""
NO_PENALTY = """class Sparsity:
    @staticmethod
    def add_penalty(layers):
        print(len(layers))
"""


@pytest.mark.parametrize(("reports", "codes"), [(PENALTY, ["AMP904"]), (NO_PENALTY, [])])
def test_star_imports_and_methods_of_classes_are_read_too(tmp_path, reports, codes):
    (tmp_path / "train.py").write_text(STAR)
    (tmp_path / "reports.py").write_text(reports)
    result = next(result for result in migrate_project(str(tmp_path)) if result.path.endswith("train.py"))
    assert [finding.code for finding in result.findings] == codes


HIDDEN = """import torch
from apex import amp

from reports import report


def train(model, optimizer, loader):
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        report(model, optimizer)
        optimizer.step()
"""
CLIPS = "from torch.nn.utils import clip_grad_norm_ as cut\n\ndef go(model):\n    cut(model.parameters(), 1.0)\n"
COUNTS_ONLY = "def go(model):\n    print(model.training)\n"
TWO_DEEP = "import low\n\ndef report(model, optimizer):\n    low.go(model)\n"
PLAIN_BACKWARD = "def report(model, optimizer):\n    model.penalty().backward()\n"
STEPS = "def report(model, optimizer):\n    model.penalty().backward()\n    optimizer.step()\n"
SCHEDULES = "def report(model, scheduler):\n    scheduler.step()\n"


@pytest.mark.parametrize(("low", "unscales"), [(CLIPS, True), (COUNTS_ONLY, False)])
def test_gradients_are_unscaled_before_a_function_that_calls_one_that_looks_at_them(tmp_path, low, unscales):
    (tmp_path / "low.py").write_text(low)
    result = _migrated_with(tmp_path, TWO_DEEP)
    assert result.status == "migrated"
    assert (b"scaler.unscale_(optimizer)\n        report(model" in result.output) == unscales


LOOKS = "def report(parameters):\n    print(max(p.grad.abs().max().item() for p in parameters))\n"
COUNTS = "def report(parameters):\n    print(sum(p.numel() for p in parameters))\n"


@pytest.mark.parametrize(("reports", "unscales"), [(LOOKS, True), (COUNTS, False)])
@pytest.mark.parametrize(
    "given",
    [
        "model.parameters()",
        "list(model.parameters())",
        "[*model.parameters()]",
        "[p for p in model.parameters() if p.requires_grad]",
        "list(model.parameters()) + list(optimizer.extra)",
        "weights",
    ],
)
def test_gradients_are_unscaled_for_a_function_of_another_file_that_looks_at_those_of_parameters(
    tmp_path, reports, unscales, given
):
    script = HIDDEN.replace("report(model, optimizer)", f"report({given})")
    script = script.replace("    for x, y in loader", "    weights = list(model.parameters())\n    for x, y in loader")
    result = _migrated_with(tmp_path, reports, script)
    assert result.status == "migrated"
    assert (b"scaler.unscale_(optimizer)\n        report(" in result.output) == unscales


def test_an_optimizer_is_not_taken_for_the_parameters_that_it_was_made_of(tmp_path):
    script = HIDDEN.replace("from reports import report\n", "from lib import show\n").replace(
        "def train(model, optimizer, loader):\n",
        "def train(model, loader):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
    )
    result = _migrated_with(tmp_path, "", script.replace("report(model, optimizer)", "show(optimizer)"))
    assert result.status == "migrated"
    assert b"        scaler.scale(loss).backward()\n        show(optimizer)\n" in result.output


@pytest.mark.parametrize(("reports", "unscales"), [(PLAIN_BACKWARD, True), (SCHEDULES, False)])
def test_a_plain_backward_in_a_function_of_another_file_gets_gradients_unscaled(tmp_path, reports, unscales):
    result = _migrated_with(tmp_path, reports)
    assert result.status == "migrated"
    assert (b"scaler.unscale_(optimizer)\n        report(model" in result.output) == unscales


def test_a_step_in_a_function_of_another_file_is_a_step_of_the_scaler(tmp_path):
    result = _migrated_with(tmp_path, STEPS, HIDDEN.replace("        optimizer.step()\n", ""))
    assert result.status == "migrated"
    (helper,) = [one for one in migrate_project(str(tmp_path)) if one.path.endswith("reports.py")]
    assert b"scaler.unscale_(optimizer)\n    model.penalty().backward()\n    scaler.step(optimizer)" in helper.output


def test_a_step_beside_one_in_a_function_of_another_file_is_refused(tmp_path):
    """scaler.step would unscale the gradients once more that the function has stepped on."""
    assert _migrated_with(tmp_path, STEPS).status == "left"


def _migrated_with(folder, reports, script=HIDDEN):
    (folder / "train.py").write_text(script)
    (folder / "reports.py").write_text(reports)
    return next(result for result in migrate_project(str(folder)) if result.path.endswith("train.py"))


OVERRIDDEN = """import torch
from apex import amp


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = amp.initialize(model, optimizer, opt_level="O1")

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
            self.after()
            self.optimizer.step()

    def after(self):
        print(1)


class Clipping(Trainer):
    def after(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
"""


def test_a_method_counts_as_a_use_where_a_derived_class_makes_it_one(tmp_path):
    (tmp_path / "train.py").write_text(OVERRIDDEN)
    (result,) = migrate_project(str(tmp_path))
    assert result.status == "migrated"
    assert b"self.scaler.unscale_(self.optimizer)\n            self.after()" in result.output


HALF_LAYERS = "from apex.contrib.multihead_attn import SelfMultiheadAttn\n\n\n"


@pytest.mark.parametrize("name", ["losses.py", "train.py"])
def test_layers_of_apex_that_take_half_weights_only_keep_the_script_on_apex(tmp_path, name):
    _migrated(tmp_path, LOSS, REPORT)
    (tmp_path / name).write_text(HALF_LAYERS + (tmp_path / name).read_text())
    result = next(result for result in migrate_project(str(tmp_path)) if result.path.endswith("train.py"))
    assert (result.status, [finding.code for finding in result.findings]) == ("left", ["AMP901"])
    assert f"{name} has layers of Apex that take half weights only" in result.findings[0].message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x.half()", Casting.WHATEVER),
        ("return x.to(torch.half) if torch.is_tensor(x) else x", Casting.FLOATS),
        ("return {name: one.half() for name, one in x.items()}", Casting.FLOATS),
        ("return type(x)(half(one) for one in x) if isinstance(x, (list, tuple)) else x.half()", Casting.FLOATS),
        ("return ((x - 1) / 2).half()", None),
        ("return x.view(-1).half()", None),
        ("return x[:, 1:].half()", None),
        ("return x['image'].half()", None),
        ("image, label = x; return image.half()", None),
        ("return [one.half() for one in x if one is not None]", None),
        ("return -x.half()", None),
        ("return x.to(device).half()", None),
        ("return x.type(torch.cuda.HalfTensor)", None),
        ("return normalise(x).half()", None),
        ("return x.float() if x.dtype == torch.half else x", None),
        ("return x", None),
    ],
)
def test_a_function_that_only_casts(body: str, expected: Casting | None):
    assert casting_of("half", f"def half(x):\n    {body}\n") is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("marked", True),
        ("Marks.apply", True),
        ("partial(marked, mask=None)", True),
        ("Marks()", False),  # an object: what its class writes when it is set up says nothing of tensors
    ],
)
def test_functions_by_another_name_are_looked_into(tmp_path, value, expected):
    (tmp_path / "parts.py").write_text(
        "from functools import partial\n\n\ndef marked(x, mask):\n    x[mask] = mask\n    return x\n\n\n"
        "class Marks(dict):\n    def __setattr__(self, name, value):\n        self[name] = value\n\n\n"
        f"_part = {value}\npart = _part\n"
    )
    assert any_named(wants_one_dtype, f"{tmp_path}/parts.part") is expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("self.taken += 1", False),
        ("self.optimizer.step()", True),
        ("self.loss.backward()", True),
        ("self.cycle.step()", True),  # which steps this one: nothing shows that it ends in a count
    ],
)
def test_a_part_that_only_counts_is_no_optimizer(tmp_path, step, expected):
    (tmp_path / "schedule.py").write_text(
        "class Phase:\n    def __init__(self):\n        self.taken = 0\n        self.cycle = Cycle()\n\n"
        f"    def step(self):\n        {step}\n\n\n"
        "class Cycle:\n    def __init__(self):\n        self.phases = [Phase(), Phase()]\n\n"
        "    def step(self):\n        self.phases[0].step()\n"
    )
    assert trains(f"{tmp_path}/schedule.Cycle.step") is expected


BY_INSTANCE = """import torch
from model import Net

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    net.train_step(net, optimizer, x.cuda())
"""
METHOD = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        return self.fc(x)

    @staticmethod
    def train_step(model, optimizer, x):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
METHODS = {
    "static": METHOD,
    "of the class": METHOD.replace("static", "class").replace("train_step(model", "train_step(cls, model"),
}


@pytest.mark.parametrize("model", METHODS.values(), ids=METHODS)
def test_a_method_without_an_instance_gets_the_scaler_where_an_instance_calls_it(tmp_path, model):
    (tmp_path / "model.py").write_text(model)
    (tmp_path / "train.py").write_text(BY_INSTANCE)
    results = migrate_project(str(tmp_path))
    assert {one.status for one in results} == {"migrated"}
    assert b"net.train_step(net, optimizer, scaler, x.cuda())" in next(
        one.output for one in results if one.path.endswith("train.py")
    )


@pytest.mark.parametrize(
    ("imports", "cast"),
    [
        ("from half import network_to_half", "network_to_half"),
        ("from half import (\n    network_to_half,\n)", "network_to_half"),
        ("import half", "half.network_to_half"),
        ("from apex.fp16_utils import network_to_half", "network_to_half"),
    ],
)
def test_an_evaluation_that_casts_its_model_is_named(tmp_path, imports, cast):
    """What the training saves has other keys afterwards, be the function a copy in the tree or Apex's."""
    copy = "import torch.nn as nn\n\n\ndef network_to_half(net):\n    return nn.Sequential(ToHalf(), net.half())\n"
    (tmp_path / "half.py").write_text(copy)
    script = (
        f"import torch\n{imports}\n\nnet = {cast}(torch.nn.Linear(4, 4)).cuda()\nprint(net(torch.ones(4).cuda()))\n"
    )
    (tmp_path / "valid.py").write_text(script)
    results = {Path(one.path).name: one for one in migrate_project(str(tmp_path))}
    assert [finding.code for finding in results["valid.py"].findings] == ["AMP902"]


SETUP = """\
from apex import amp


def set_up(model, optimizer):
    return amp.initialize(model.cuda(), optimizer, opt_level="O1")
"""
TRAINS = """\
import torch
from apex import amp
from helpers import set_up

model = torch.nn.Linear(4, 4)
model, optimizer = set_up(model, torch.optim.SGD(model.parameters(), lr=0.1))
for _ in range(3):
    optimizer.zero_grad()
    with amp.scale_loss(model(torch.randn(2, 4).cuda()).pow(2).mean(), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
EVALUATES = """\
import torch
from helpers import set_up

model, _ = set_up(torch.nn.Linear(4, 4), None)
with torch.no_grad():
    print(model(torch.randn(2, 4).cuda()))
"""


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_file_that_only_evaluates_after_a_setup_of_others_is_said(tmp_path, evaluates):
    files = {"helpers.py": SETUP, "train.py": TRAINS, **({"embed.py": EVALUATES} if evaluates else {})}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    findings = [finding for one in migrate_project(str(tmp_path)) for finding in one.findings]
    said = [one.message for one in findings if one.code == "AMP106"]
    assert said == ["other files call set_up: forwards of theirs are in float32 now"] * evaluates
