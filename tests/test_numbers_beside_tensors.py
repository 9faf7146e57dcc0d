"""Arguments of torch's operations that are numbers are cast to nothing, also where their values are out of sight."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.fc = nn.Linear(64, 64)
        self.value = settings.value
        self.settings = settings

    def forward(self, x):
        h = self.fc(x)
        return {result}


def train(loader, settings):
    net = Net(settings).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        loss = net(x.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CAST = {
    "torch.stft(h, self.value, window=self.settings.window).pow(2)": "torch.stft(h.float(), self.value, window=",
    "h.stft(self.settings.value).pow(2)": "h.float().stft(self.settings.value)",
    "torch.quantile(h, self.value, dim=1)": "torch.quantile(h.float(), self.value, dim=1)",
    "h.nanquantile(self.settings.value)": "h.float().nanquantile(self.settings.value)",
    "torch.linalg.matrix_rank(h, self.value) * h.mean()": "torch.linalg.matrix_rank(h.float(), self.value)",
    "torch.linalg.solve(h, self.settings.right)": "torch.linalg.solve(h.float(), self.settings.right.float())",
}


@pytest.mark.parametrize("result", CAST)
def test_a_number_stays_and_a_tensor_is_cast(result):
    output = migrate_source(SCRIPT.format(result=result).encode(), Options()).output.decode()
    assert CAST[result] in output


@pytest.mark.parametrize("result", ["h + torch.rand(*h.shape, dtype=h.dtype)", "h * torch.ones(*x.shape).to(h)"])
def test_a_size_that_is_unpacked_counts_nothing(result):
    migrated = migrate_source(SCRIPT.format(result=result).encode(), Options())
    assert migrated.status == "migrated" and result in migrated.output.decode()


def test_what_makes_a_tensor_of_numbers_shows_no_tensor():
    script = SCRIPT.format(result="self.spectra(h, self.settings.sizes)").replace(
        "    def forward",
        "    def spectra(self, x, sizes):\n"
        "        found = 0\n"
        "        for size in sizes:\n"
        "            window = torch.hann_window(size).to(x)\n"
        "            found = found + torch.stft(x, size, size // 4, size, window, return_complex=True).abs().mean()\n"
        "        return found\n\n"
        "    def forward",
    )
    output = migrate_source(script.encode(), Options()).output.decode()
    assert "torch.stft(x.float(), size, size // 4, size, window.float(), return_complex=True)" in output
