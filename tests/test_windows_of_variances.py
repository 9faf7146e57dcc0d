"""A window that averages for a variance by difference (SSIM) runs in float32, be it a function or a layer."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Blur(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 11, padding=5, groups=3, bias=False)

    def forward(self, x):
        return self.inner(x)


class SSIM(nn.Module):
    def __init__(self):
        super().__init__()
        self.other = nn.Linear(32, 32)
        self.window = MADE

    def forward(self, x, y):
        mx, my = self.window(x), self.window(y)
        sx = XX - mx * mx
        sy = self.window(y * y) - my.pow(2)
        sxy = self.window(x * y) - mx * my
        return (((2 * mx * my + 0.01) * (2 * sxy + 0.03)) / ((mx**2 + my**2 + 0.01) * (sx + sy + 0.03))).mean()


net = nn.Conv2d(3, 3, 3, padding=1).cuda()
ssim = SSIM().cuda()
for p in ssim.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(torch.rand(8, 3, 32, 32), 4):
    x = x.cuda()
    loss = 1 - ssim(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CONV = "nn.Conv2d(3, 3, 11, padding=5, groups=3, bias=False)"
WINDOWS = {
    "a layer": CONV,
    "a container": f"nn.Sequential(nn.ReflectionPad2d(5), {CONV.replace('padding=5, ', '')})",
    "a pool": "nn.AvgPool2d(11, 1, 5)",
}


def output_of(made: str, square: str) -> str:
    result = migrate_source(SCRIPT.replace("MADE", made).replace("XX", square).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    return result.output.decode()


@pytest.mark.parametrize("made", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("square", ["self.window(x * x)", "self.window(x**2)", "self.window(x.pow(2))"])
def test_the_window_takes_float32(made, square):
    output = output_of(made, square)
    assert "self.window(x.float())" in output
    assert ("enabled=False" in output) == ("Conv2d" in made)


def test_the_window_of_a_module_of_the_unit_runs_outside_of_autocast():
    assert "enabled=False):\n            return self.inner(x.float())" in output_of("Blur()", "self.window(x * x)")


def test_a_layer_that_averages_no_square_stays_in_half():
    source = SCRIPT.replace("self.window(y * y) - my.pow(2)", "my").replace("self.window(x * y) - mx * my", "mx")
    source = source.replace("MADE", CONV).replace("XX", "self.other(x)")
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "autocast" in output and "enabled=False" not in output
