"""What is written into another tensor, by index or in part, gets that tensor's dtype: what raises for two dtypes is cast."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SOURCE = """\
import torch
import torch.nn.functional as F
from torch import nn

net = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(6, 8).cuda()
    y = torch.randint(0, 8, (6,)).cuda()
    rows = torch.randperm(6).cuda()
    places = torch.randint(0, 8, (6, 8)).cuda()
    h = net(x)
    {lines}
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("lines", "written"),
    [
        # What a write returns has the dtype of what it writes into, so that the next one knows it.
        (["a = torch.lerp(h, x, 0.3)", "out = a.index_add(0, rows, x)"], "a.index_add(0, rows, x.to(a.dtype))"),
        (["a = torch.scatter(h, 1, places, x)", "out = a.masked_scatter(x > 0, x)"], "(x > 0, x.to(a.dtype))"),
        (
            ["a = torch.scatter(h, 1, places, x)", "out = x.clone()", "out.index_put_((rows,), a)"],
            "out.index_put_((rows,), a.to(out.dtype))",
        ),
        # A copy has the dtype of what it is of.
        (["out = h.clone().index_copy_(0, rows, x)"], "h.clone().index_copy_(0, rows, x.to(h.dtype))"),
        (["out = h.contiguous().clone().index_copy_(0, rows, x)"], "index_copy_(0, rows, x.to(h.dtype))"),
        (["out = h.clone()[:6].index_add(0, rows, x)"], "index_add(0, rows, x.to(h.dtype))"),
        # The larger of two tensors has the wider dtype of both; the largest along a dimension has that of its tensor.
        (["a = torch.max(h, x)", "out = h.clone()", "out.index_put_((rows,), a)"], "(rows,), a.to(out.dtype))"),
        (["a = h.max(1, keepdim=True)[0] * h", "out = x.index_add(0, rows, a)"], "x.index_add(0, rows, a.to(x.dtype))"),
        # Numbers of NumPy are no half tensor, and what is made of them is one of float32 or of doubles.
        (
            ["a = net(torch.tensor(x.cpu().numpy(), device='cuda') * h)", "out = x.index_add(0, rows, a)"],
            "x.index_add(0, rows, a.to(x.dtype))",
        ),
    ],
)
def test_what_is_written_gets_the_dtype_of_what_it_is_written_into(lines, written):
    source = SOURCE.format(lines="\n    ".join(lines))
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert written in output


def test_numbers_of_numpy_are_not_cast_as_tensors_are():
    source = SOURCE.format(lines="out = torch.tensor(x.cpu().numpy().sum(1), device='cuda').unsqueeze(1) * h")
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "numpy().sum(1)" in output


LOSS = """\
import torch
import torch.nn.functional as F
from torch import nn


class Loss(nn.Module):
    def forward(self, model, x, y, other):
        a = model.second(x)
        {line}
        return F.cross_entropy(out, y)


net = nn.ModuleDict({{"first": nn.Linear(8, 8), "second": nn.Linear(8, 8)}}).cuda()
criterion = Loss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(6, 8).cuda()
    y = torch.randint(0, 8, (6,)).cuda()
    loss = criterion(net, x, y, torch.zeros(8, 8).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("out = other[:6].index_add(0, torch.arange(6).cuda(), a)", ".cuda(), a.to(other.dtype))"),
        ("out = torch.lerp(other[:6], a, 0.5)", "a.to(other.dtype)"),
        ("out = other[:6].clone().scatter_add_(1, y.unsqueeze(1).expand(6, 8), a)", "a.to(other.dtype)"),
        ("out = other[:6].masked_scatter(other[:6] == 0, a)", "a.to(other.dtype)"),
    ],
)
def test_what_is_written_as_a_tensor_is_one_whatever_has_made_it(line, written):
    output = migrate_source(LOSS.format(line=line).encode(), Options(api="torch.amp")).output.decode()
    assert written in output


@pytest.mark.parametrize(
    "lines",
    [
        ["kept = []", "for i in range(6):", "    kept.append([1.0] * 8)", "h = net(torch.tensor(kept).cuda())"],
        ["kept = []", "for row in x:", "    kept.append(row.tolist())", "h = net(torch.FloatTensor(kept).cuda())"],
        ["kept = [row.tolist() for row in x]", "h = net(torch.as_tensor(kept).cuda())"],
    ],
)
def test_a_tensor_of_a_list_is_something_whatever_has_filled_the_list(lines):
    source = SOURCE.format(lines="\n    ".join([*lines, "out = x.index_add(0, rows, h)"]))
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "x.index_add(0, rows, h.to(x.dtype))" in output
