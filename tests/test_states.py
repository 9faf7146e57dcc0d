"""Where an optimizer's state is read back, in whatever way, the scaler's is read beside it."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
saved = torch.load("last.pth")
{load}
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save({{"optimizer": optimizer.state_dict(), "model": model.state_dict()}}, "last.pth")
"""
LOADS = [
    'optimizer.load_state_dict(saved["optimizer"])',
    'optimizer.load_state_dict(saved.get("optimizer"))',
    'optimizer.load_state_dict(saved.pop("optimizer"))',
    'state = saved.pop("optimizer")\noptimizer.load_state_dict(state)',
]


@pytest.mark.parametrize("load", LOADS)
def test_a_scaler_is_loaded_from_where_the_optimizer_is(load):
    output = migrate_source(SCRIPT.format(load=load).encode(), Options(api="torch.amp")).output.decode()
    assert 'scaler.load_state_dict(saved["scaler"])' in output
    assert output.index(load) < output.index("scaler.load_state_dict")


APEX = """\
import torch
from apex import amp

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")


def restore(checkpoint):
{load}


restore(torch.load("last.pth"))
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
TESTS = [
    'if "amp" in checkpoint:\n    amp.load_state_dict(checkpoint["amp"])',
    'is_there = "amp" in checkpoint\nif is_there:\n    amp.load_state_dict(checkpoint["amp"])',
    'if "amp" in checkpoint:\n    state = checkpoint["amp"]\n    amp.load_state_dict(state)',
    'if not ("amp" in checkpoint):\n    return\namp.load_state_dict(checkpoint["amp"])',
    'if "amp" not in checkpoint:\n    return\namp.load_state_dict(checkpoint["amp"])',
    'if "amp" not in checkpoint:\n    print("none")\nelse:\n    amp.load_state_dict(checkpoint["amp"])',
]


@pytest.mark.parametrize("load", TESTS)
def test_a_test_whether_there_is_a_state_asks_for_its_format_as_well(load):
    source = APEX.format(load="\n".join(f"    {line}" for line in load.splitlines()))
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert "AMP107" not in {one.code for one in result.findings}
    assert 'in checkpoint["amp"]' in result.output.decode()


def test_a_state_that_is_read_only_later_is_no_test_of_it():
    load = 'amp.load_state_dict(checkpoint["amp"])\nif "amp" not in checkpoint:\n    return'
    source = APEX.format(load="\n".join(f"    {line}" for line in load.splitlines()))
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert "AMP107" in {one.code for one in result.findings}


WHOLE = [
    'torch.save({"model": model, "optimizer": optimizer}, "last.pth")',
    'torch.save([model, optimizer], "last.pth")',
    'torch.save(optimizer, "last.pth")',
    'state = {"model": model}\nstate["optimizer"] = optimizer\ntorch.save(state, "last.pth")',
    'utils.save_checkpoint({"model": model, "optimizer": optimizer}, True)',
    'def keep(state):\n    torch.save(state, "last.pth")\n\n\nkeep((model, optimizer))',
]
OTHER = [
    'torch.save({"model": model}, "last.pth")',
    'print({"optimizer": optimizer})',
    "utils.save_checkpoint(model, optimizer)",
]


@pytest.mark.parametrize("save", [*WHOLE, *OTHER])
def test_an_optimizer_that_is_saved_itself_leaves_no_room_beside_it(save):
    source = SCRIPT.format(load="").partition("torch.save")[0].replace("torch\n", "torch\nimport utils\n", 1) + save
    result = migrate_source(f"{source}\n".encode(), Options(api="torch.amp"))
    found = [one.message for one in result.findings if one.code == "AMP413"]
    assert (result.status, len(found)) == ("migrated", save in WHOLE)
