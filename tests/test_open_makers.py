"""Whatever makes a model or a loss: its code is read, and repaired where half precision would break it."""

from __future__ import annotations

import pytest

from amp_migrate import migrate_project, migrate_source
from tests.unit_fixture import write_tree

HEAD = """\
import argparse
import collections
import copy
import functools
import os
from types import SimpleNamespace

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8)

    def forward(self, x, *labels):
        own = torch.eye(len(x), dtype=torch.bool, device=x.device)
        return (self.query(x) @ x.t()).masked_fill(own, -1e9).softmax(1).mean()


"""
MODEL = """
optimizer = torch.optim.SGD({it}.parameters(), lr=0.1)
for step in range(5):
    loss = {it}(torch.randn(6, 8).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOSS = """
model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x = torch.randn(6, 8).cuda()
    loss = {it}(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MADE = {
    "lambda": ("make = lambda: Net().cuda()\nnet = make()", "net"),
    "by a name": ('net = globals()["Net"]().cuda()', "net"),
    "attribute by a name": (
        "class Parts:\n    def __init__(self):\n        for name, part in [('net', Net().cuda())]:\n"
        "            setattr(self, name, part)\n\n\nparts = Parts()",
        "parts.net",
    ),
    "property": (
        "class Parts:\n    def __init__(self):\n        self._net = Net().cuda()\n\n"
        "    @property\n    def net(self):\n        return self._net\n\n\nparts = Parts()",
        "parts.net",
    ),
    "attribute of a class": ("class Config:\n    net = Net\n\n\nnet = Config.net().cuda()", "net"),
    "method of a class": (
        "class Sub(Net):\n    @classmethod\n    def build(cls):\n        return cls().cuda()\n\n\nnet = Sub.build()",
        "net",
    ),
    "attribute with a default": (
        'config = argparse.ArgumentParser().parse_args()\nnet = getattr(config, "net", Net()).cuda()',
        "net",
    ),
    "attribute in quotes": ('parts = SimpleNamespace(net=Net().cuda())\nnet = getattr(parts, "net")', "net"),
    "dict of a class": ('net = {"net": Net}.get("net")().cuda()', "net"),
    "map": ("(net,) = map(lambda cls: cls().cuda(), [Net])", "net"),
    "copies in a list": ("nets = [Net().cuda()] * 2", "nets[0]"),
    "two lists": ("nets = [Net().cuda()] + []", "nets[0]"),
    "factory of a dict": ('nets = collections.defaultdict(Net)\nnets["net"].cuda()', 'nets["net"]'),
    "copy": ("net = copy.deepcopy(Net()).cuda()", "net"),
    "or": ('net = (os.environ.get("NET") or Net()).cuda()', "net"),
    "registry": (
        "NETS = {}\n\n\ndef register(cls):\n    NETS[cls.__name__] = cls\n    return cls\n\n\nNet = register(Net)\n"
        'net = NETS["Net"]().cuda()',
        "net",
    ),
    "registry of another package": (
        'from fvcore.common.registry import Registry\n\nNETS = Registry("nets")\nNETS.register(Net)\n'
        'net = NETS.build({"type": "Net"}).cuda()',
        "net",
    ),
    "file": ('net = torch.load("net.pt").cuda()', "net"),
    "compiled file": ('net = torch.jit.load("net.pt").cuda()', "net"),
    "hub": ('net = torch.hub.load(".", "net", source="local").cuda()', "net"),
    "subclass": ("net = nn.Module.__subclasses__()[0]().cuda()", "net"),
    "subclass by its name": ("net = {c.__name__: c for c in nn.Module.__subclasses__()}['Net']().cuda()", "net"),
    "subclass that is looked for": (
        "def find(name):\n    for c in nn.Module.__subclasses__():\n        if c.__name__ == name:\n"
        "            return c\n    raise KeyError(name)\n\n\nnet = find('Net')().cuda()",
        "net",
    ),
    "table in a function": (
        "def find(name):\n    return {'net': Net, 'other': nn.Linear}[name]\n\n\nnet = find('net')().cuda()",
        "net",
    ),
    "manager": (
        "class Manager:\n    def __enter__(self):\n        return Net().cuda()\n\n"
        "    def __exit__(self, *error):\n        pass\n\n\nwith Manager() as net:\n    pass",
        "net",
    ),
}
MADE_IN_STEPS = {
    "update": ("parts = {}\nparts.update(net=Net().cuda())", 'parts["net"]'),
    "setdefault": ('parts = {}\nparts.setdefault("net", Net().cuda())', 'parts["net"]'),
    "extend": ("nets = []\nnets.extend([Net().cuda()])", "nets[0]"),
    "rest of a tuple": ("_, *rest = (1, Net().cuda())", "rest[0]"),
}


@pytest.mark.parametrize("case", MADE)
def test_a_model_is_read_however_it_is_made(case: str) -> None:
    made, it = MADE[case]
    assert is_repaired(made, MODEL.format(it=it))


OUTER = """\
class Outer(nn.Module):
    def __init__(self, name="Net"):
        super().__init__()
        self.inner = MADE

    def forward(self, *given):
        return self.inner(*given)


net = Outer().cuda()
"""
INNER = [
    "torch.hub.load('.', 'net', source='local')",
    "torch.jit.load('net.pt')",
    "globals()[name]()",
    "[c for c in nn.Module.__subclasses__() if c.__name__ == name][0]()",
]


@pytest.mark.parametrize("inner", INNER)
def test_a_part_of_a_model_is_read_however_it_is_made(inner: str) -> None:
    made = OUTER.replace("MADE", inner)
    assert is_repaired(made, MODEL.format(it="net"))
    source = HEAD + made + MODEL.format(it="net")
    said = [one for one in migrate_source(source.encode()).findings if one.case == "model"]
    assert [source.splitlines()[one.line - 1].strip() for one in said] == [f"self.inner = {inner}"] * ("load" in inner)


@pytest.mark.parametrize("case", MADE | MADE_IN_STEPS)
def test_a_loss_is_read_however_it_is_made(case: str) -> None:
    made, it = (MADE | MADE_IN_STEPS)[case]
    assert is_repaired(made, LOSS.format(it=it))


def test_what_settings_instantiate_is_not_known() -> None:
    made = "import hydra\n\nnet = hydra.utils.instantiate({}).cuda()"
    result = migrate_source((HEAD + made + MODEL.format(it="net")).encode())
    assert [finding.code for finding in result.findings] == ["AMP951"]


OF_A_MODULE = {
    "eval": "model = eval(args.net).Net()",
    "eval of its parts": 'model = eval(args.net + ".Net")()',
    "eval of a beginning": 'model = eval("nets." + args.net)()',
    "eval of a constant": 'model = eval("nets.Net")()',
    "eval of a call": 'model = eval("[nets.Net()]")[0]',
    "eval beside another use": "print(nets.__name__)\nmodel = eval(args.net).Net()",
    "eval in a helper": "def build(args):\n    return eval(args.net).Net()\n\n\nmodel = build(args)",
    "eval in a partial": 'model = functools.partial(eval("nets.Net"))()',
    "eval in a function that imports": "def build(args):\n    from nets import Net\n    return eval(args.net)()\n\n\n"
    "model = build(args)",
    "all modules": "model = sys.modules[args.net].Net()",
    "attribute of some module": "model = getattr(sys.modules[args.net], 'Net')()",
    "getter": 'model = operator.attrgetter("Net")(nets)()',
    "caller": 'model = operator.methodcaller("Net")(nets)',
    "reduced": 'model = functools.reduce(getattr, args.net.split("."), nets)()',
    "members": "model = dict(inspect.getmembers(nets))[args.net]()",
    "class of its own": "model = type('Own', (nets.Net,), {})()",
    "mapped": "model = next(map(lambda cls: cls(), [nets.Net]))",
    "locate": "model = pydoc.locate(args.net)()",
    "file": 'model = torch.load("net.pt")["nets"].Net()',
    "another package": "from other import build\n\nmodel = build(nets, args)",
    "attribute of a module": "class Outer(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.inner = sys.modules[args.net].Net()\n\n    def forward(self, x):\n        return self.inner(x)\n\n\n"
    "model = Outer()",
}
IMPORTS = "import argparse\nimport functools\nimport inspect\nimport operator\nimport pydoc\nimport sys\n"
ARGS = "\nargs = argparse.ArgumentParser().parse_args()\n"
NETS = HEAD.partition("\n\n\n")[2]


def trained_with(tmp_path, made: str, imports: str = "import nets"):
    """What comes of `nets.py` and of a script that trains a model which is made in some way."""
    (tmp_path / ".git").mkdir()
    script = f"{IMPORTS}\nimport torch\n\n{imports}\n{ARGS}{made}\nmodel.cuda()\n{MODEL.format(it='model')}"
    write_tree(
        tmp_path, {"nets.py": f"import torch\nfrom torch import nn\n\n\n{NETS}".encode(), "train.py": script.encode()}
    )
    return migrate_project([tmp_path])


PUT_INTO_A_MODULE = [
    "for name in nets.__dict__:\n    models.__dict__[name] = nets.__dict__[name]",
    "for name, net in nets.__dict__.items():\n    models.__dict__[name] = net",
    "for name in dir(nets):\n    setattr(models, name, getattr(nets, name))",
    "for name, net in vars(nets).items():\n    vars(models)[name] = net",
    "zoo = models.__dict__\nfor name in vars(nets):\n    zoo[name] = vars(nets)[name]",
    "models.__dict__.update(nets.__dict__)",
    "vars(models).update(vars(nets))",
    'models.__dict__.update({"net": nets.Net})',
    "models.__dict__.update(net=nets.Net)",
    'models.__dict__["net"] = nets.Net',
    "models.net = nets.Net",
    'setattr(models, "net", nets.Net)',
]
LOOKED_UP = ["models.__dict__[args.net]()", "getattr(models, args.net)()", "vars(models)[args.net]()"]
BESIDE = "import nets\nimport torchvision.models as models"


@pytest.mark.parametrize(
    ("put", "looked_up"),
    [(one, LOOKED_UP[0]) for one in PUT_INTO_A_MODULE] + [(PUT_INTO_A_MODULE[0], one) for one in LOOKED_UP[1:]],
)
def test_what_the_program_puts_into_a_module_is_read(tmp_path, put, looked_up):
    nets, train = trained_with(tmp_path, f"{put}\nmodel = {looked_up}", BESIDE)
    assert train.changed
    assert b"(self.query(x) @ x.t()).float().masked_fill(own, -1e9)" in nets.output


@pytest.mark.parametrize("put", ["torch.load(args.net)", "lambda: nets.Net()"])
def test_what_is_put_into_a_module_and_cannot_be_followed_is_not_known(tmp_path, put):
    made = f'models.__dict__["net"] = {put}\nmodel = models.__dict__[args.net]()'
    _, train = trained_with(tmp_path, made, BESIDE)
    assert [finding.code for finding in train.findings] == ["AMP951"]


@pytest.mark.parametrize("case", OF_A_MODULE)
def test_a_module_is_read_of_which_run_time_takes_a_model(tmp_path, case):
    nets, train = trained_with(tmp_path, OF_A_MODULE[case])
    assert train.changed
    assert b"(self.query(x) @ x.t()).float().masked_fill(own, -1e9)" in nets.output


@pytest.mark.parametrize(
    ("case", "said"),
    [("all modules", ["AMP192"]), ("locate", ["AMP192"]), ("file", ["AMP192"]), ("eval", []), ("members", [])],
)
def test_it_is_said_that_a_model_from_outside_is_taken_for_one_in_sight(tmp_path, case, said):
    _, train = trained_with(tmp_path, OF_A_MODULE[case])
    assert [finding.code for finding in train.findings if finding.case == "model"] == said


def test_a_module_in_a_package_is_read_of_which_run_time_takes_a_model(tmp_path):
    made = "found = getattr(zoo, args.net)\nmodel = found.Net()"
    write_tree(tmp_path, {"zoo/__init__.py": b"import nets"})
    nets, train, _ = trained_with(tmp_path, made, "import zoo")
    assert train.changed
    assert b".float().masked_fill" in nets.output


def test_a_builder_that_run_time_picks_is_read(tmp_path):
    own = "class Loss(torch.nn.Module):\n    def forward(self, x):\n        return x.mean()\n\n\n"
    write_tree(tmp_path, {"build.py": b"import nets\n\n\ndef make():\n    return nets.Net()\n"})
    _, nets, train = trained_with(tmp_path, f"{own}model = globals()[args.net]()", "from build import make")
    assert train.changed
    assert b".float().masked_fill" in nets.output


@pytest.mark.parametrize(
    "made",
    [
        'model = torch.load("net.pt")',
        "model = eval(args.net)()",
        "model = pydoc.locate(args.net)()",
        "model = sys.modules[args.net].Net()",
    ],
)
def test_a_model_that_nothing_names_is_not_known(tmp_path, made):
    _, train = trained_with(tmp_path, made, "")
    assert [finding.code for finding in train.findings] == ["AMP951"]


def is_repaired(made: str, training: str) -> bool:
    result = migrate_source((HEAD + made + "\n" + training).encode())
    return result.changed and b"(self.query(x) @ x.t()).float().masked_fill(own, -1e9)" in result.output


NET_WITH_LOSS = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 8)

    def forward(self, x):
        return self.fc(x)

    def loss(self, output, y):
        return nn.BCELoss()(nn.Sigmoid()(output[:, 0]), y)
"""
OF_RUN_TIME = """\
import sys
import torch
import nets

model = getattr(nets, sys.argv[1])().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = model.loss
for x, y in [(torch.randn(4, 4).cuda(), torch.ones(4).cuda())]:
    output = model(x)
    loss = LOSS(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("loss", ["criterion", "model.loss", "getattr(model, 'loss')"])
def test_a_loss_of_a_model_that_is_looked_up_is_read(tmp_path, loss):
    """torch raises for a binary cross entropy under autocast."""
    write_tree(tmp_path, {"nets.py": NET_WITH_LOSS.encode(), "train.py": OF_RUN_TIME.replace("LOSS", loss).encode()})
    nets, train = migrate_project([tmp_path])
    assert train.status == "migrated"
    assert b"autocast('cuda', enabled=False)" in nets.output.replace(b'"', b"'")


TWO_BINDINGS = """\
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(x)


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def train(self):
        for step in range(10):
            x = torch.randn(4, 8).cuda()
            self.optimizer.zero_grad()
            loss = -torch.mean(F.logsigmoid({call}))
            loss.backward()
            self.optimizer.step()


{made}
Trainer(model, torch.optim.Adam(model.parameters(), 1e-3)).train()
"""
UNKNOWN = 'torch.load("net.pt")["model"]'


@pytest.mark.parametrize("call", ["self.model(x)", "self.model.forward(x)", "[part(x) for part in [self.model]][0]"])
@pytest.mark.parametrize("net", ["Net().cuda()", "nn.Linear(8, 4).cuda()"])
@pytest.mark.parametrize(
    "made",
    [
        "model = {net} if sys.argv[1:] else {unknown}",
        "if sys.argv[1:]:\n    model = {unknown}\nelse:\n    model = {net}",
        "def build():\n    if sys.argv[1:]:\n        return {unknown}\n    return {net}\n\n\nmodel = build()",
        "Trainer({unknown}, None)\nmodel = {net}",
        "for model in [{unknown}, {net}]:\n    pass",
        "class Parts:\n    pass\n\n\nparts = Parts()\nparts.net = {unknown}\nparts.net = {net}\nmodel = parts.net",
    ],
)
def test_what_a_model_may_be_in_sight_is_not_lost_beside_what_it_may_be_out_of_sight(made, net, call):
    made = made.format(net=net, unknown=UNKNOWN)
    result = migrate_source(TWO_BINDINGS.format(made=made, call=call).encode())
    assert f"torch.mean(F.logsigmoid({call}).float())".encode() in result.output


PARSED = [
    "args = argparse.ArgumentParser().parse_args()",
    "args, rest = argparse.ArgumentParser().parse_known_args()",
    "def options():\n    parser = argparse.ArgumentParser()\n    args = parser.parse_args()\n    return args\n\n\nargs = options()",
]


@pytest.mark.parametrize("parsed", PARSED)
@pytest.mark.parametrize("kept", ["args.net = Net().cuda()", "net = Net().cuda()\nsetattr(args, 'net', net)"])
def test_the_command_line_has_no_models(parsed, kept):
    result = migrate_source((HEAD + f"{parsed}\n{kept}\n" + MODEL.format(it="args.net")).encode())
    assert (result.status, [one for one in result.findings if one.code == "AMP192"]) == ("migrated", [])
    assert ".float().masked_fill(own, -1e9)" in result.output.decode()


def test_a_model_of_a_file_that_the_command_line_names_is_assumed():
    made = "args = argparse.ArgumentParser().parse_args()\nargs.net = torch.load(args.path).cuda()\n"
    result = migrate_source((HEAD + made + MODEL.format(it="args.net")).encode())
    assert "AMP192" in [one.code for one in result.findings]


SELF_TEST = """\
if __name__ == "__main__":
    from nets import {names}
    print({made}(torch.ones(2, 8)))
"""
MAIN = """\
import torch
from nets import Net

net, head = Net().cuda(), torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for step in range(5):
    loss = net(head(torch.randn(6, 8).cuda()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("names", "made"), [("Net", "Net()"), ("Net as Made", "Made()")])
def test_a_file_that_imports_itself_is_read(tmp_path, names, made):
    nets = HEAD.replace("nn\n", "nn\n\n", 1) + SELF_TEST.format(names=names, made=made)
    write_tree(tmp_path, {"main.py": MAIN.encode(), "nets.py": nets.encode()})
    results = {one.path.rpartition("/")[2]: one for one in migrate_project([tmp_path])}
    assert ".float().masked_fill(own, -1e9)" in results["nets.py"].output.decode()
    assert [one for one in results["main.py"].findings + results["nets.py"].findings if one.code == "AMP192"] == []


def test_a_class_of_data_is_no_model():
    """`Pair(x, y)` of a namedtuple is called under autocast, and nothing has to be assumed about it."""
    made = 'Pair = collections.namedtuple("Pair", "left right")\nnet = Net().cuda()'
    run = MODEL.format(it="net").replace("torch.randn(6, 8).cuda())", "Pair(torch.randn(6, 8).cuda(), step).left)")
    result = migrate_source((HEAD + made + run).encode())
    assert result.status == "migrated"
    assert [one.code for one in result.findings] == []
