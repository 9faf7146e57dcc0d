"""Packages whose code is not read: they are named where they get half values, and refused where they get a model too."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn
from {package} import Layer, run


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.layer = Layer(4)

    def forward(self, x):
        out = self.linear(x)
        return {returned}


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(2, 4).cuda()
    loss = nn.functional.mse_loss(model(x), x)
    {between}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NAMED = ["self.layer(out)", "self.layer(out.relu(), x)", "run(out)", "run(out[:, 0])"]
NOT_NAMED = [
    "run(x) + out",
    "run(out.argmax(1)) + out",
    "out + len(str(out.shape))",
    "run('%d of %d' % (out.sum(), 4)) or out",
    "run('mean %.2f' % out.mean()) or out",
    "run(f'mean {out.mean()}') or out",
    "run('mean {}'.format(out.mean())) or out",
    "run('mean ' + str(out.mean())) or out",
]


def found(**parts: str) -> list[tuple[str, str]]:
    parts = {"package": "kernels_of_others", "returned": "out", "between": "pass", **parts}
    result = migrate_source(SCRIPT.format(**parts).encode(), Options())
    return [(result.status, one.code) for one in result.findings if one.code in ("AMP192", "AMP968")]


@pytest.mark.parametrize("returned", NAMED)
def test_a_package_that_gets_half_values_is_named(returned):
    assert found(returned=returned) == [("migrated", "AMP192")]


@pytest.mark.parametrize("returned", NOT_NAMED)
def test_one_that_gets_none_is_not(returned):
    assert found(returned=returned) == []


@pytest.mark.parametrize("returned", ["self.layer(x) + out", "out + self.layer(x.float(), 1)"])
def test_a_network_of_one_runs_under_autocast_whatever_it_gets(returned):
    result = migrate_source(SCRIPT.format(package="networks", returned=returned, between="pass").encode(), Options())
    assert [one.message for one in result.findings if one.case == "network"] == [
        "networks.Layer may run under autocast, and its code is not read"
    ]


@pytest.mark.parametrize("package", ["torchvision.ops", "timm.layers", "einops"])
def test_one_that_is_known_under_autocast_is_not(package):
    assert found(returned=NAMED[0], package=package) == []


@pytest.mark.parametrize(
    ("between", "left"),
    [
        ("weights = run(model, loss)\n    loss = nn.functional.mse_loss(model(x + weights), x)", True),
        ("loss = loss + run(model, model(x))", True),
        ("loss = loss + run(model, x)", False),
    ],
)
def test_one_that_may_take_gradients_under_autocast_refuses(between, left):
    assert (("left", "AMP968") in found(between=between)) == left


SOLVED = [
    "return run(torch.bmm(out, x).float())",
    "return Layer(4)(torch.bmm(out, x).double().cuda(), x)",
    "gram = torch.bmm(out, x)\n        gram = gram.double() if x.size(0) > 8 else gram.float()\n        return run(gram)",
    "pair = [one.float() for one in (torch.bmm(out, x), x)]\n        return run(pair[0], pair[1])",
    "gram = 50 * torch.eye(4).cuda() + torch.bmm(out, x)\n        return self.layer(gram.to(torch.float64), x)",
]


@pytest.mark.parametrize("solved", SOLVED)
def test_what_a_script_casts_for_one_is_computed_in_float32(solved):
    script = SCRIPT.format(package="solvers", returned="out", between="pass").replace("return out", solved)
    result = migrate_source(script.encode(), Options(api="torch.amp"))
    lines = result.output.decode().splitlines()
    islands = "".join(line for at, line in enumerate(lines) if "enabled=False" in "".join(lines[max(at - 2, 0) : at]))
    assert "torch.bmm(out.float(), x" in islands
    assert "return" in islands
    assert found(returned="out", package="solvers") == []


BATCH = """\
import torch
from solvers import Network, batches
from torch import nn

model = Network(4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches():
    x, y = torch.from_numpy(x).float().cuda(), torch.from_numpy(y).float().cuda()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_batch_that_is_cast_for_a_model_of_another_package_is_no_such_value():
    result = migrate_source(BATCH.encode(), Options(api="torch.amp"))
    assert result.status == "migrated"
    assert b"enabled=False" not in result.output
    assert "AMP191" not in {one.code for one in result.findings}


def test_it_ran_in_float32_under_half_weights():
    script = SCRIPT.format(package="solvers", returned="run(out.float())", between="pass")
    apex = 'model, optimizer = amp.initialize(model, optimizer, opt_level="O2")\nfor _'
    scaled = "with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()"
    script = (
        script.replace("for _", apex, 1)
        .replace("loss.backward()", scaled)
        .replace("import", "from apex import amp\nimport", 1)
    )
    output = migrate_source(script.encode(), Options(api="torch.amp")).output.decode()
    assert "enabled=False):\n            return run(out.float())" in output


def test_all_that_is_used_of_a_package_is_named_at_once():
    source = SCRIPT.format(package="kernels_of_others", returned="run(out) + self.layer(out)", between="pass")
    result = migrate_source(source.encode(), Options())
    (said,) = [one.message for one in result.findings if one.code == "AMP192"]
    assert said.startswith("kernels_of_others.run, kernels_of_others.Layer may be given half values, and their code")


CHOSEN = """\
import argparse

import losses
import torch
from torch import nn

args = argparse.ArgumentParser().parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


net = Net().cuda()
MADE
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(2, 4).cuda()
    loss = criterion(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MADE = {
    "criterion = eval(args.loss)": "eval(args.loss)",
    "criterion = {'loss': eval(args.loss)}['loss']": "eval(args.loss)",
    "def find(name):\n    return eval(name)()\n\ncriterion = find(args.loss)": "eval(name)",
    "criterion = getattr(losses, args.loss)()": "losses",
    "criterion = vars(losses)[args.loss]": "losses",
    "from pkg.losses import Loss\ncriterion = Loss()": "pkg.losses.Loss",
    "from pkg import losses as missing\ncriterion = missing.Loss()": "pkg.losses.Loss",
}


@pytest.mark.parametrize("made", MADE)
def test_a_loss_is_named_that_run_time_chooses_or_whose_file_is_missing(tmp_path, made):
    write_tree(tmp_path, {".git/HEAD": b"", "pkg/__init__.py": b"", "train.py": CHOSEN.replace("MADE", made).encode()})
    results = migrate_project([tmp_path], Options())
    said = [one.message for result in results for one in result.findings if one.code == "AMP192"]
    assert said == [f"{MADE[made]} may be given half values, and its code is not read"]


@pytest.mark.parametrize("made", ["criterion = getattr(nn, args.loss)()", "criterion = eval('nn.' + args.loss)()"])
def test_a_loss_of_torch_is_not(made):
    result = migrate_source(CHOSEN.replace("MADE", made).encode(), Options())
    assert (result.status, [one.code for one in result.findings]) == ("migrated", [])
