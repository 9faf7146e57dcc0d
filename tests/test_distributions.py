"""Distributions of torch compute in the dtype of what they are given."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
import torch.distributions as D
from torch import nn
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence
from torch.distributions.utils import probs_to_logits

net = nn.Linear(4, 4).cuda()
spread = nn.Parameter(torch.zeros(4).cuda())
optimizer = torch.optim.Adam([*net.parameters(), spread])
for x in loader:
    out = net(x.cuda())
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
KEPT = {
    "-Bernoulli(torch.sigmoid(out)).log_prob(x).mean()": "Bernoulli(torch.sigmoid(out.float()))",
    "-Bernoulli(probs=out.sigmoid()).entropy().mean()": "Bernoulli(probs=out.float().sigmoid())",
    "-D.Categorical(logits=out).entropy().mean()": "D.Categorical(logits=out.float())",
    "-Normal(out, spread.exp()).log_prob(x).mean()": "Normal(out.float(), spread.exp())",
    "probs_to_logits(out).mean()": "probs_to_logits(out.float())",
    "torch.distributions.Beta(out.exp(), out.exp() + 1).rsample().mean()": "torch.distributions.Beta(out.exp(), out",
}


@pytest.mark.parametrize("loss", KEPT)
def test_a_distribution_gets_float32(loss):
    """`exp` makes float32 under autocast."""
    output = migrate_source(SCRIPT.format(loss=loss).encode(), Options()).output.decode()
    assert KEPT[loss] in output


def test_what_is_float32_is_not_cast():
    loss = "-Categorical(out.softmax(1)).log_prob(x).mean() + kl_divergence(Normal(x, 1), Normal(x, 2)).mean()"
    assert loss in migrate_source(SCRIPT.format(loss=loss).encode(), Options()).output.decode()


def test_a_distribution_of_a_distribution_is_given_no_tensor():
    kept = "spread = D.TransformedDistribution(Normal(out, 1), D.transforms.TanhTransform())"
    body = f"{kept}\n    spread = D.Independent(spread, 1)\n    loss = spread.mode().mean()"
    output = migrate_source(SCRIPT.format(loss="0").replace("loss = 0", body).encode(), Options()).output.decode()
    assert kept.replace("Normal(out,", "Normal(out.float(),") in output and "Independent(spread, 1)" in output
