"""`torch.autograd.backward(loss)` is what `loss.backward()` is, by whatever name it is called."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

ARMS = """\
import argparse
import torch
from torch import nn
from apex.fp16_utils import FP16_Optimizer, network_to_half

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
model = nn.Linear(4, 2).cuda()
if args.fp16:
    model = network_to_half(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.fp16:
    optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
for i in range(5):
    x, y = torch.randn(8, 4).cuda(), torch.randint(0, 2, (8,)).cuda()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if args.fp16:
        optimizer.backward(lossOTHERS)
    else:
        PLAIN
    optimizer.step()
"""


@pytest.mark.parametrize("given", ["loss", "[loss]", "(loss,)"])
@pytest.mark.parametrize("others", ["", ", retain_graph=True"])
def test_in_the_plain_arm_beside_an_optimizer_of_apex(given, others):
    source = ARMS.replace("OTHERS", others).replace("PLAIN", f"torch.autograd.backward({given}{others})")
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert f"scaler.scale(loss).backward({others[2:]})" in result.output.decode(), result.findings


@pytest.mark.parametrize("given", ["[loss, loss.sum()]", "loss, torch.ones_like(loss)", "*[loss]"])
def test_several_losses_or_other_gradients_are_refused_there(given):
    source = ARMS.replace("OTHERS", "").replace("PLAIN", f"torch.autograd.backward({given})")
    assert [one.code for one in migrate_source(source.encode(), Options(api="torch.amp")).findings] == ["AMP930"]


PLAIN = """\
import torch
from torch import nn
IMPORT

torch.manual_seed(0)
model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(5):
    x, y = torch.randn(8, 4).cuda(), torch.randint(0, 2, (8,)).cuda()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    print("loss", loss.item())
    BACKWARD(GIVEN)
    optimizer.step()
"""


@pytest.mark.parametrize("given", ["loss", "[loss]", "loss, retain_graph=True"])
@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("import torch.autograd as ag", "ag.backward"),
        ("from torch import autograd", "autograd.backward"),
        ("from torch.autograd import backward", "backward"),
        ("from torch.autograd import Variable, backward", "backward"),
    ],
)
def test_in_a_plain_loop(imported, called, given):
    source = PLAIN.replace("IMPORT", imported).replace("BACKWARD", called).replace("GIVEN", given)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    scaled = given.replace("loss", "scaler.scale(loss)", 1)
    assert f"    {called}({scaled})\n    scaler.step(optimizer)" in result.output.decode(), result.findings
    before, after = run(source), run(result.output.decode())
    assert not after.error
    assert after.losses == pytest.approx(before.losses, rel=0.02)


def test_a_function_of_that_name_is_none_of_torch():
    own = "def backward(x):\n    x.backward()"
    result = migrate_source(PLAIN.replace("IMPORT", own).replace("BACKWARD(GIVEN)", "backward(loss)").encode())
    assert b"backward(scaler.scale(loss))" not in result.output


APEX = """\
import torch
from torch import nn
IMPORT
from apex import amp

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for i in range(5):
    x, y = torch.randn(8, 4).cuda(), torch.randint(0, 2, (8,)).cuda()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        BACKWARD(scaled_loss)
    optimizer.step()
"""


@pytest.mark.parametrize("called", ["torch.autograd.backward", "backward"])
def test_of_a_loss_that_apex_has_scaled(called):
    source = APEX.replace("IMPORT", "from torch.autograd import backward").replace("BACKWARD", called)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert f"    {called}(scaler.scale(loss))\n" in result.output.decode(), result.findings


@pytest.mark.parametrize("called", ["torch.autograd.backward", "backward"])
def test_what_is_scaled_is_unscaled_before_a_plain_one(called):
    source = APEX.replace("IMPORT", "from torch.autograd import backward").replace(
        "BACKWARD(scaled_loss)", "scaled_loss.backward()"
    )
    source = source.replace("    optimizer.step()", f"    {called}(loss.sum())\n    optimizer.step()")
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert f"    scaler.unscale_(optimizer)\n    {called}(loss.sum())\n" in result.output.decode(), result.findings
