"""What the safety scan says of torch, to be run: each pattern in half under CUDA's policy, broken and repaired.

`half` makes half tensors, as autocast does. The repaired form has to give what float32 gives.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def half(*shape: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return (scale * torch.randn(*shape, generator=generator)).half()


def single(*shape: int) -> torch.Tensor:
    return half(*shape).float()


def island():
    return torch.autocast("cuda", enabled=False)


MASK = torch.tensor([True, False, True])
ALL = torch.tensor([True, True, True])
NEAR_ONE = torch.tensor([1.0, 1.0009765625, 1.0009765625]).half()
ROWS = torch.tensor([0, 2, 1])


def assigned(into: torch.Tensor, index, value) -> torch.Tensor:
    into[index] = value
    return into


def gram(x: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x, x.transpose(1, 2)) / x[0].numel()


def gram_in_island(x: torch.Tensor) -> torch.Tensor:
    with island():
        return gram(x.float())


def rows_of_themselves(x: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x.unsqueeze(1), x.unsqueeze(2))


def rows_of_themselves_in_island(x: torch.Tensor) -> torch.Tensor:
    with island():
        return rows_of_themselves(x.float())


def cubes(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.stack([torch.arange(41.0, 44.0) ** power for power in (1, 2, 3)])


def cubes_in_island(x: torch.Tensor) -> torch.Tensor:
    with island():
        return cubes(x.float())


def picked(table: torch.Tensor) -> torch.Tensor:
    return F.one_hot(torch.tensor([1, 1, 0]), 3).float() @ table


def picked_in_island(table: torch.Tensor) -> torch.Tensor:
    with island():
        return picked(table)


def one_by_product(x: torch.Tensor) -> torch.Tensor:
    p = torch.exp(x.float() - 12)
    return 1 / torch.mm(p, p.t())


def one_by_product_in_island(x: torch.Tensor) -> torch.Tensor:
    with island():
        return one_by_product(x)


def deviation(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.sqrt((x**2).mean() - mean**2)


def pinverse_in_island(x: torch.Tensor) -> torch.Tensor:
    with island():
        return torch.pinverse(x.float())


def entropy(p: torch.Tensor) -> torch.Tensor:
    return -(torch.log(p) + torch.log(1 - p))


def gradient_of_scaled_mean(x: torch.Tensor) -> torch.Tensor:
    leaf = torch.ones_like(x, dtype=torch.float32, requires_grad=True)
    ((x * leaf.to(x.dtype)).mean() * torch.tensor(65536.0)).backward()
    return leaf.grad


def gradient_of_sine(near_one: torch.Tensor) -> torch.Tensor:
    weight = near_one.clone().requires_grad_()
    cosine = torch.mm(torch.eye(1), weight)
    torch.sqrt(1.0 - cosine**2).sum().backward()
    return weight.grad


def gradient_of_sine_in_island(near_one: torch.Tensor) -> torch.Tensor:
    with island():
        return gradient_of_sine(near_one)


def waves_apart(frequencies: torch.Tensor) -> torch.Tensor:
    first, second = torch.sin(torch.mm(torch.eye(1), frequencies)).flatten()
    return 1.0 / (first - second)


def waves_apart_in_island(frequencies: torch.Tensor) -> torch.Tensor:
    with island():
        return waves_apart(frequencies)


def one_by_distance(x: torch.Tensor) -> torch.Tensor:
    """One over the squared distance of a row to itself, moved by 1."""
    moved = x + 1
    square = x.float().pow(2).sum(1, keepdim=True) + moved.float().pow(2).sum(1)
    return 1.0 / (square - 2 * x @ moved.t() - x.shape[1] + 1e-3).clamp(min=0)


def one_by_distance_in_island(x: torch.Tensor) -> torch.Tensor:
    with island():
        return one_by_distance(x.float())


CONTAINER = nn.Sequential(nn.Identity(), nn.Sigmoid())

# Each: the form that raises, overflows or loses precision, and the repaired one.
PATTERNS = {
    "trace": (lambda: torch.trace(half(3, 3).fill_(3e4)), lambda: torch.trace(half(3, 3).fill_(3e4).float())),
    "masked_fill": (lambda: half(3).masked_fill(MASK, -1e9), lambda: half(3).float().masked_fill(MASK, -1e9)),
    "masked_fill_": (lambda: half(3).masked_fill_(MASK, -1e9), lambda: half(3).float().masked_fill_(MASK, -1e9)),
    "fill_diagonal_": (
        lambda: half(3, 3).fill_diagonal_(-1e9),
        lambda: half(3, 3).float().fill_diagonal_(-1e9),
    ),
    "scatter of a number": (lambda: half(3).scatter(0, ROWS, -1e9), lambda: half(3).float().scatter(0, ROWS, -1e9)),
    "pad": (lambda: F.pad(half(3), (1, 1), value=-1e9), lambda: F.pad(half(3).float(), (1, 1), value=-1e9)),
    "full_like": (lambda: torch.full_like(half(3), -1e9), lambda: torch.full_like(half(3).float(), -1e9)),
    "fill_": (lambda: torch.empty_like(half(3)).fill_(1e6), lambda: torch.empty_like(half(3)).float().fill_(1e6)),
    "clamp": (lambda: half(3).clamp(max=1e9), lambda: half(3).float().clamp(max=1e9)),
    "where": (lambda: torch.where(MASK, half(3), -1e9), lambda: torch.where(MASK, half(3).float(), -1e9)),
    "softmax of a hidden row": (
        lambda: torch.where(ALL, -1e9, half(3)).softmax(0),
        lambda: torch.where(ALL, -1e9, half(3).float()).softmax(0),
    ),
    "mask times constant": (lambda: half(3).abs() * -1e9, lambda: half(3).abs().float() * -1e9),
    "gram": (lambda: gram(half(2, 4, 512, scale=30)), lambda: gram_in_island(half(2, 4, 512, scale=30))),
    "rows of themselves": (
        lambda: rows_of_themselves(half(2, 512, scale=30)),
        lambda: rows_of_themselves_in_island(half(2, 512, scale=30)),
    ),
    "cubes": (lambda: cubes(half(3, 3)), lambda: cubes_in_island(half(3, 3))),
    "rows of a table": (
        lambda: picked(torch.tensor([[1.0], [2.0], [1e5]])),
        lambda: picked_in_island(torch.tensor([[1.0], [2.0], [1e5]])),
    ),
    "one by a product": (lambda: one_by_product(half(3, 3)), lambda: one_by_product_in_island(half(3, 3))),
    "distance by a product": (
        lambda: one_by_distance(torch.full((1, 8), 40.3)),
        lambda: one_by_distance_in_island(torch.full((1, 8), 40.3)),
    ),
    "product in place": (
        lambda: torch.zeros(3, 3).addmm_(half(3, 3), half(3, 3)),
        lambda: torch.zeros(3, 3).addmm_(half(3, 3).float(), half(3, 3).float()),
    ),
    "half weights of a normalisation": (
        lambda: F.batch_norm(single(4, 3), torch.zeros(3), torch.ones(3), half(3), half(3), True),
        lambda: F.batch_norm(single(4, 3), torch.zeros(3), torch.ones(3), half(3).float(), half(3).float(), True),
    ),
    "mean of half": (
        lambda: gradient_of_scaled_mean(half(4)),
        lambda: gradient_of_scaled_mean(half(4).float()),
    ),
    "sine of a cosine": (
        lambda: gradient_of_sine(torch.tensor([[0.9999]])),
        lambda: gradient_of_sine_in_island(torch.tensor([[0.9999]])),
    ),
    "sine of a large angle": (
        lambda: waves_apart(torch.tensor([[301.0, 301.1]])),
        lambda: waves_apart_in_island(torch.tensor([[301.0, 301.1]])),
    ),
    "logarithm of sigmoid": (
        lambda: entropy(torch.sigmoid(10 + half(3).abs())),
        lambda: entropy(torch.sigmoid((10 + half(3).abs()).float())),
    ),
    "container": (
        lambda: torch.log(1 - CONTAINER(10 + half(3).abs())),
        lambda: torch.log(1 - CONTAINER[-1](CONTAINER[:-1](10 + half(3).abs()).float())),
    ),
    "epsilon under log": (lambda: torch.log(0 * half(3) + 1e-8), lambda: torch.log(0 * half(3).float() + 1e-8)),
    "epsilon under a power": (lambda: (0 * half(3) + 1e-8) ** -0.5, lambda: (0 * half(3).float() + 1e-8) ** -0.5),
    "variance of small numbers": (
        lambda: 1.0 / torch.var(half(512, scale=1e-4)).float(),
        lambda: 1.0 / torch.var(half(512, scale=1e-4).float()),
    ),
    "epsilon under a fraction": (lambda: 1.0 / (0 * half(3) + 1e-8), lambda: 1.0 / (0 * half(3).float() + 1e-8)),
    "clamp under log": (
        lambda: torch.log((0 * half(3)).clamp(min=1e-12)),
        lambda: torch.log((0 * half(3)).float().clamp(min=1e-12)),
    ),
    "assignment by mask": (
        lambda: assigned(torch.zeros(3), MASK, half(2)),
        lambda: assigned(torch.zeros(3), MASK, half(2).to(torch.float32)),
    ),
    "assignment of float32": (
        lambda: assigned(half(3), ROWS, single(3)),
        lambda: assigned(half(3), ROWS, single(3).half()),
    ),
    "scatter_": (
        lambda: torch.zeros(3).scatter_(0, ROWS, half(3)),
        lambda: torch.zeros(3).scatter_(0, ROWS, half(3).float()),
    ),
    "scatter_add_": (
        lambda: torch.zeros(3).scatter_add_(0, ROWS, half(3)),
        lambda: torch.zeros(3).scatter_add_(0, ROWS, half(3).float()),
    ),
    "index_add_": (
        lambda: torch.zeros(3).index_add_(0, ROWS, half(3)),
        lambda: torch.zeros(3).index_add_(0, ROWS, half(3).float()),
    ),
    "index_copy_": (
        lambda: torch.zeros(3).index_copy_(0, ROWS, half(3)),
        lambda: torch.zeros(3).index_copy_(0, ROWS, half(3).float()),
    ),
    "masked_scatter": (
        lambda: torch.zeros(3).masked_scatter(MASK, half(3)),
        lambda: torch.zeros(3).masked_scatter(MASK, half(3).float()),
    ),
    "inverse": (lambda: torch.inverse(half(3, 3)), lambda: torch.inverse(half(3, 3).float())),
    "svd": (lambda: torch.svd(half(3, 3))[1], lambda: torch.svd(half(3, 3).float())[1]),
    "slogdet": (lambda: torch.slogdet(half(3, 3))[1], lambda: torch.slogdet(half(3, 3).float())[1]),
    "solve": (
        lambda: torch.linalg.solve(half(3, 3), half(3, 1)),
        lambda: torch.linalg.solve(half(3, 3).float(), half(3, 1).float()),
    ),
    "pinverse": (lambda: torch.pinverse(half(4, 3)), lambda: pinverse_in_island(half(4, 3))),
    "quantile": (lambda: half(9).quantile(0.5), lambda: half(9).float().quantile(0.5)),
    "positions": (
        lambda: 1.0 / (half(1).new_tensor(torch.tensor([2049])).long() - 2048),
        lambda: 1.0 / (half(1).float().new_tensor(torch.tensor([2049])).long() - 2048),
    ),
    "variance as a difference": (
        lambda: deviation(NEAR_ONE.mean(), NEAR_ONE),
        lambda: deviation(NEAR_ONE.float().mean(), NEAR_ONE),
    ),
    "rfft": (lambda: torch.fft.rfft(half(6)).abs(), lambda: torch.fft.rfft(half(6).float()).abs()),
}

# What needs no repair: autocast runs it in float32, or copies with a cast.
FINE = {
    "assignment by slice": lambda: assigned(torch.zeros(3), slice(0, 2), half(2)),
    "assignment at a position": lambda: assigned(torch.zeros(3, 2), 1, half(2)),
    "softmax": lambda: F.softmax(half(3) * 100, dim=0),
    "normalize": lambda: F.normalize(0 * half(3, 3)),
    "norm and epsilon": lambda: half(3) / (half(3).norm() + 1e-12),
    "sum and epsilon": lambda: 0 * half(3) / (half(3).sum() * 0 + 1e-12),
    "hidden by infinity": lambda: half(3).masked_fill(MASK, float("-inf")).softmax(0),
    "hidden by ten thousand": lambda: half(3).masked_fill(MASK, -10000.0),
    "scatter_add": lambda: torch.zeros(3).scatter_add(0, ROWS, half(3)),
    "index_put": lambda: torch.zeros(3).index_put((ROWS,), half(3)),
    "linear algebra on float32": lambda: torch.linalg.cholesky(torch.eye(3)),
}
