"""Numbers of classes that go to NumPy are no half values, however they were chosen: floats are no indices."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import CLOSE, run

SCRIPT = """\
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
rewards = [1.0, 2.0, 3.0, 4.0]
for _ in range(3):
    loss = 0
    for _ in range(2):
        logit = net(torch.randn(4, 8).cuda())
        probs = F.softmax(logit, 1)
        choices = torch.distributions.Categorical(probs)
        if "--best" in sys.argv:
            {best}
        else:
            action = choices.sample().detach()
        chosen = action.cpu().numpy()
        reward = torch.tensor([rewards[i] for i in chosen]).cuda()
        loss += -(choices.log_prob(action) * reward).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


@pytest.mark.parametrize(
    "best",
    [
        "_, action = logit.max(1)",
        "action = probs.max(1)[1].detach()",
        "action = logit.argmax(1)",
        "action = choices.sample()",
    ],
)
def test_they_stay_integers(best):
    source = SCRIPT.format(best=best)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "chosen = action.cpu().numpy()" in output and "autocast" in output
    before, after = run(source, ("--best",)), run(output, ("--best",))
    assert not before.error and not after.error and after.losses[0] == pytest.approx(before.losses[0], rel=CLOSE)
