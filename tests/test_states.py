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
