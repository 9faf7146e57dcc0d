"""What may be half is written by index in the dtype of its destination, although another way gives it float32."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

net = nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.Sigmoid()).cuda()
opt = torch.optim.Adam(net.parameters(), lr=0.001)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 4, 10)), batch_size=8)
for (x,) in loader:
    x = x.cuda()
    buf = torch.zeros_like(x)
    s = x
    {again}
        s = net(s)
    {write}
    loss = F.l1_loss(buf, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("again", ["for _ in range(2):", "if len(x) > 2:"])
@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ("buf[[0, 1]] = s[[0, 1]]", "buf[[0, 1]] = s[[0, 1]].to(buf.dtype)"),
        ("buf[x > 0] = s[x > 0]", "buf[x > 0] = s[x > 0].to(buf.dtype)"),
        ("buf.scatter_(1, (x > 0).long(), s)", "buf.scatter_(1, (x > 0).long(), s.to(buf.dtype))"),
    ],
)
def test_what_may_be_half_is_written_in_the_dtype_of_its_destination(tmp_path, again, write, expected):
    (tmp_path / "train.py").write_text(SCRIPT.format(again=again, write=write))
    command = [sys.executable, "-m", "amp_migrate", "train.py"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert expected in shown
