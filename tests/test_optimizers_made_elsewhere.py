"""Optimizers that a function of another file makes: what a GradScaler steps is theirs, not what stands around them."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_migrate import Options, migrate_project, migrate_source
from amp_migrate.facts import Facts
from amp_migrate.files.parse import parse
from amp_migrate.plan.given_models import GivenModels
from tests.drawn.run import CLOSE, run
from tests.unit_fixture import write_tree

TRAIN = """\
import torch
from optim import get_optim

net = torch.nn.Linear(4, 2).cuda()
optim = get_optim(net)
for _ in range(3):
    optim.zero_grad()
    loss = net(torch.randn(8, 4).cuda()).pow(2).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optim.step()
"""
WARMUP = """\
class Warmup{base}:
    def __init__(self, rate, optimizer):
        self.optimizer = optimizer
        self.rate = rate

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()
"""
MAKERS = {
    "returned": "return Warmup(0.1, inner)",
    "named first": "made = Warmup(0.1, inner)\n    return made",
    "in an arm": "if net.training:\n        return Warmup(0.1, inner)\n    return inner",
    "by a helper": "return wrap(inner)\n\n\ndef wrap(inner):\n    return Warmup(0.1, inner)",
    "by each other": "return wrap(inner)\n\n\ndef wrap(inner):\n    return Warmup(0.1, inner) if inner else get_optim(inner)",
}


def outputs(root, **files: str) -> dict[str, str]:
    write_tree(root, {f"{name}.py": text.encode() for name, text in files.items()})
    results = migrate_project([root], Options(api="torch.amp"))
    return {result.path.rpartition("/")[2]: result.output.decode() for result in results if result.status == "migrated"}


def made_by(body: str) -> str:
    return f"def get_optim(net):\n    inner = torch.optim.Adam(net.parameters())\n    {body}\n"


@pytest.mark.parametrize("body", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("base", ["", "(object)"])
def test_a_scaler_never_steps_what_stands_around_an_optimizer(tmp_path, body, base):
    optim = "import torch\n\n\n" + WARMUP.format(base=base) + "\n\n" + made_by(body)
    found = outputs(tmp_path, train=TRAIN, optim=optim)
    text = "".join(found.values())
    assert "scaler.step(optim)" not in text and "scaler.unscale_(optim)" not in text


def test_its_optimizer_is_stepped_and_unscaled(tmp_path):
    optim = "import torch\n\n\n" + WARMUP.format(base="") + "\n\n" + made_by(MAKERS["returned"])
    found = outputs(tmp_path, train=TRAIN, optim=optim)
    assert "scaler.unscale_(optim.optimizer)" in found["train.py"] and "optim.step(scaler)" in found["train.py"]
    assert "scaler.step(self.optimizer)" in found["optim.py"]


def test_a_plain_optimizer_of_another_file_is_taken_as_it_is(tmp_path):
    found = outputs(tmp_path, train=TRAIN, optim="import torch\n\n\n" + made_by("return inner"))
    assert [*found] == ["train.py"] and "scaler.step(optim)" in found["train.py"]


TWO_TRAININGS = """\
import torch
from optim import get_optim


def train(net):
    adam = torch.optim.Adam(net.parameters())
    for _ in range(3):
        adam.zero_grad()
        net(torch.randn(8, 4).cuda()).pow(2).mean().backward()
        adam.step()


def tune(net):
    {names} = get_optim(net)
    for _ in range(3):
        net.zero_grad()
        loss = net(torch.randn(8, 4).cuda()).pow(2).mean()
        loss.backward()
        optimizer.step()
    {after}


net = torch.nn.Linear(4, 2).cuda()
train(net)
tune(net)
"""


@pytest.mark.parametrize(
    "names, returned, after",
    [
        ("scheduler, optimizer", "schedule, inner", "scheduler.step()"),
        ("optimizer, scheduler", "inner, schedule", "scheduler.step()"),
        ("optimizer, rate", "inner, schedule", "rate.step()"),
        ("(optimizer, scheduler), name", "(inner, schedule), 'Adam'", "scheduler.step()"),
        ("optimizer", "inner", "print(optimizer)"),
    ],
)
def test_a_training_beside_another_one_has_the_optimizer_that_is_made_for_it(tmp_path, names, returned, after):
    optim = "import torch\n\n\n" + made_by(
        f"schedule = torch.optim.lr_scheduler.StepLR(inner, 1)\n    return {returned}"
    )
    found = outputs(tmp_path, train=TWO_TRAININGS.format(names=names, after=after), optim=optim)
    assert found["train.py"].count("scaler.step(") == 2
    assert "scaler.step(optimizer)\n" in found["train.py"]
    assert after in found["train.py"]


NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(self.a(x))

    def groups(self, rate):
        return [{"params": self.a.parameters(), "lr": rate}, {"params": self.b.parameters(), "lr": 2 * rate}]


"""
RUN = """\
class Run:
    def __init__(self):
        MAKE
        self.optimizer = torch.optim.SGD(PARAMS, lr=0.1)

    def train(self, x):
        for _ in range(3):
            self.optimizer.zero_grad()
            loss = self.net(x).pow(2).mean()
            loss.backward()
            self.optimizer.step()


Run().train(torch.randn(8, 4).cuda())
"""
WITH_PARAMETERS = [
    ("net, net.parameters()", "self.net, params = make()", "params"),
    ("net, net.groups(0.1)", "self.net, params = make()", "params"),
    ("net, net.groups(0.1)", "self.net, params = make()", "params=params"),
    ("net.groups(0.1), net", "params, self.net = make()", "params"),
    ("(net, net.groups(0.1)), 3", "(self.net, params), _ = make()", "params"),
    ("net", "self.net = make()", "self.net.groups(0.1)"),
]


@pytest.mark.parametrize("returned, make, params", WITH_PARAMETERS)
@pytest.mark.parametrize("is_apart", [False, True])
def test_the_parameters_that_come_with_a_model_are_its_own(tmp_path, returned, make, params, is_apart):
    maker = f"{NET}def make():\n    net = Net().cuda()\n    params = net.groups(0.1)\n    return {returned}\n\n\n"
    run = RUN.replace("MAKE", make).replace("PARAMS", params)
    if is_apart:
        found = outputs(tmp_path, maker=maker, train=f"import torch\nfrom maker import make\n\n\n{run}")
    else:
        found = outputs(tmp_path, train=maker + run)
    assert "scaler.step(self.optimizer)" in found["train.py"]


def test_what_is_bound_again_and_again_is_followed_once():
    maker = NET + "def make():\n    net = Net().cuda()\n    return net, net.parameters()\n\n\n"
    again = "made = make()\n        for _ in range(2):\n            made = made if made else make()\n"
    again += "            made = made\n        self.net, params = made"
    source = maker + RUN.replace("MAKE", again).replace("PARAMS", "params")
    assert "scaler.step(self.optimizer)" in migrate_source(source.encode(), Options()).output.decode()


def test_of_several_parts_an_optimizer_has_its_own():
    source = NET + "def make():\n    g, d = Net(), Net()\n    return g, d, g.parameters(), d.parameters()\n\n\n"
    source += "g, d, of_g, of_d = make()\nadam = torch.optim.Adam(of_d)\nadam.step()\n"
    facts = Facts.of_module(parse(source.encode()))
    (call,) = (one for one, _ in facts.tree.every(cst.Call) if facts.text(one.func) == "torch.optim.Adam")
    given = GivenModels(facts)
    found, _ = given.behind([call.args[0].value])
    assert [facts.text(one) for one in found] == ["d"]
    (adam,) = (one for one in facts.objects.objects(facts.names.loads_visible("adam", facts.tree.roots[0])[0]))
    assert given.all_of(adam)


@pytest.mark.parametrize(
    "lists",
    [
        "self.weights = list(a.parameters())\n        self.weights += list(b.parameters())",
        "self.weights = list(a.parameters())\n        self.weights.extend(b.parameters())",
        "self.weights = []\n        for one in (a, b):\n            self.weights += list(one.parameters())",
        "self.weights = [*a.parameters(), *b.parameters()]",
    ],
)
def test_a_list_in_an_attribute_has_all_that_is_added_to_it(lists):
    source = f"import torch\n\n\nclass Trainer:\n    def __init__(self, a, b):\n        {lists}\n"
    source += "        self.optimizer = torch.optim.Adam(self.weights)\n\n\nTrainer(torch.nn.ReLU(), torch.nn.GELU())\n"
    facts = Facts.of_module(parse(source.encode()))
    (call,) = (one for one, _ in facts.tree.every(cst.Call) if facts.text(one.func) == "torch.optim.Adam")
    found, _ = GivenModels(facts).behind([call.args[0].value])
    made = {facts.text(value) for one in found for value in facts.objects.calls_behind(one)}
    assert made == {"torch.nn.ReLU()", "torch.nn.GELU()"}


UNDER_ONE_NAME = """\
import torch


{warmup}

net = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{wrapped}
for _ in range(3):
    optimizer.zero_grad()
    loss = net(torch.randn(8, 4).cuda()).pow(2).mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


@pytest.mark.parametrize(
    "wrapped",
    [
        "optimizer = Warmup(0.1, optimizer)",
        "if net is not None:\n    optimizer = Warmup(0.1, optimizer)\nelse:\n    optimizer = Warmup(0.2, optimizer)",
    ],
)
def test_a_wrapper_that_takes_the_name_of_its_optimizer_steps_that(wrapped: str) -> None:
    source = UNDER_ONE_NAME.format(warmup=WARMUP.format(base=""), wrapped=wrapped)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "scaler.step(self.optimizer)" in output and "\n    optimizer.step()" in output
    assert run(output).losses == pytest.approx(run(source).losses, abs=CLOSE)


def test_what_is_a_wrapper_at_times_stays() -> None:
    wrapped = "if net.training:\n    optimizer = Warmup(0.1, optimizer)"
    migrated = migrate_source(UNDER_ONE_NAME.format(warmup=WARMUP.format(base=""), wrapped=wrapped).encode(), Options())
    assert [one.code for one in migrated.findings] == ["AMP912"]
