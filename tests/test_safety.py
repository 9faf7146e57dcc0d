"""The half-safety scan (rule H4): what it knows of torch is run, and what it does to scripts is read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest
import torch

from amp_migrate.facts.elsewhere import Elsewhere
from amp_migrate.findings import Refusal
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.safety.reach import Reach
from tests.plain_scan import facts_of, migrated, planned
from tests.safety_patterns import FINE, PATTERNS

ROOT = Path(__file__).parent.parent


# -- torch --------------------------------------------------------------------------------------------------


def print_outcomes() -> None:
    """For each pattern, what its two forms give under CUDA's policy on the CPU."""
    from amp_migrate.verify import redirect

    redirect.install()
    warnings.simplefilter("ignore")
    print(
        json.dumps({"broken": outcomes(0), "repaired": outcomes(1), "fine": {k: outcome(f) for k, f in FINE.items()}})
    )


def outcomes(form: int) -> dict[str, str]:
    return {name: outcome(forms[form]) for name, forms in PATTERNS.items()}


def outcome(form) -> str:
    with torch.autocast("cuda", dtype=torch.float16):
        try:
            found = form()
        except (RuntimeError, NotImplementedError):
            return "raises"
    if not torch.isfinite(found).all():
        return "not finite"
    return "float32" if found.dtype is torch.float32 else "half"


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, str]]:
    command = "from tests import test_safety as t; t.print_outcomes()"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", PATTERNS)
def test_what_is_repaired_breaks_in_half(measured, name):
    assert measured["broken"][name] in ("raises", "not finite")


@pytest.mark.parametrize("name", PATTERNS)
def test_the_repair_is_finite_and_in_float32(measured, name):
    expected = "half" if name == "assignment of float32" else "float32"
    assert measured["repaired"][name] == expected


@pytest.mark.parametrize("name", FINE)
def test_what_is_left_alone_works(measured, name):
    assert measured["fine"][name] in ("half", "float32")


# -- scripts ------------------------------------------------------------------------------------------------

SCRIPT = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

{before}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)
        self.token = nn.Parameter(torch.zeros(16))
        self.register_buffer("mel", torch.rand(8, 9))
        self.act = nn.Sigmoid()

    def forward(self, x, mask):
        h = self.inner(x)
        {line}
        return self.head(h)

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, mask, y in loader:
    optimizer.zero_grad()
    output = model(x, mask)
    loss = {loss}
    loss.backward()
    optimizer.step()
"""


def script(line: str, before: str = "", loss: str = "F.cross_entropy(output, y)") -> str:
    return SCRIPT.format(line=textwrap.indent(line, " " * 8).strip(), before=before, loss=loss)


def body(line: str, **parts: str) -> str:
    """What becomes of a few lines of a forward."""
    found = migrated(script(line, **parts)).partition("h = self.inner(x)\n")[2].partition("\n        return")[0]
    return textwrap.dedent(found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s = h.masked_fill(mask, -1e9)", "s = h.float().masked_fill(mask, -1e9)"),
        ("s = torch.masked_fill(h @ h.t() * 2, mask, -2**32+1)", None),
        ("h.masked_fill_(mask, -1e9)", "h = h.float()\nh.masked_fill_(mask, -1e9)"),
        ("s = torch.where(mask, h, -1e9)", "s = torch.where(mask, h.float(), -1e9)"),
        ("h.fill_diagonal_(-1e9)", "h = h.float()\nh.fill_diagonal_(-1e9)"),
        ("s = h.scatter(1, mask, -1e9)", "s = h.float().scatter(1, mask, -1e9)"),
        ("s = F.pad(h, (1, 1), value=-1e9)", "s = F.pad(h.float(), (1, 1), value=-1e9)"),
        ("s = torch.full_like(h, torch.finfo(torch.float32).min)", None),
        ("s = h + (1 - mask.to(h.dtype)) * -1e9", "s = h + (1 - mask.to(h.dtype)).float() * -1e9"),
        ("h[mask] = -1e9", "h = h.float()\nh[mask] = -1e9"),
        ("v = h.clone().detach()\nv[mask] = -1e9", "v = h.clone().detach()\nv = v.float()\nv[mask] = -1e9"),
        ("v = h.detach()\nv = (v * 2).view(-1)\nv[0] = -1e9", None),
        (
            "g = h.t() @ h / 16",
            'with torch.amp.autocast("cuda", enabled=False):\n    g = h.t().float() @ h.float() / 16',
        ),
        (
            "g = F.linear(h, h)",
            'with torch.amp.autocast("cuda", enabled=False):\n    g = F.linear(h.float(), h.float())',
        ),
        (
            "g = h.unsqueeze(1) @ h.unsqueeze(2)",
            'with torch.amp.autocast("cuda", enabled=False):\n    g = h.unsqueeze(1).float() @ h.unsqueeze(2).float()',
        ),
        ("f = h.view(4, 4, 16)\nt = f.swapdims(1, 2)\ng = torch.baddbmm(torch.zeros(4, 4, 4), f, t)", None),
        (
            "d = (h**2).sum() + torch.zeros(8, 8)\nd.addmm_(1, -2, h, h.t())",
            "d = (h**2).sum() + torch.zeros(8, 8)\nd.addmm_(1, -2, h.float(), h.t().float())",
        ),
        (
            "d = torch.zeros(8, 8) - 2 * h @ x.t()",
            'with torch.amp.autocast("cuda", enabled=False):\n    d = torch.zeros(8, 8) - 2 * h.float() @ x.t().float()',
        ),
        (
            "d = torch.zeros(8, 8) - 2 * F.linear(h, x)",
            'with torch.amp.autocast("cuda", enabled=False):\n'
            "    d = torch.zeros(8, 8) - 2 * F.linear(h.float(), x.float())",
        ),
        (
            "w = torch.stft(x, 16, return_complex=True).abs().pow(2)\ng = self.mel @ w",
            "w = torch.stft(x.float(), 16, return_complex=True).abs().pow(2)\n"
            'with torch.amp.autocast("cuda", enabled=False):\n    g = self.mel @ w',
        ),
        (
            "t = torch.stack([x[0] ** i for i in range(16)])\ng = h @ t",
            "t = torch.stack([x[0] ** i for i in range(16)])\n"
            'with torch.amp.autocast("cuda", enabled=False):\n    g = h.float() @ t',
        ),
        (
            "p = h.softmax(1)\ng = 1 / torch.mm(p, p.sum(0)[:, None])",
            "p = h.softmax(1)\n"
            'with torch.amp.autocast("cuda", enabled=False):\n    g = 1 / torch.mm(p, p.sum(0)[:, None])',
        ),
        (
            "m = torch.bmm(h, x)\nc = (m[:, 0, 0] + m[:, 1, 1] - 1) / 2\nt = torch.acos(c.clamp(-0.9, 0.9))",
            'with torch.amp.autocast("cuda", enabled=False):\n    m = torch.bmm(h.float(), x.float())\n'
            "c = (m[:, 0, 0] + m[:, 1, 1] - 1) / 2\nt = torch.acos(c.clamp(-0.9, 0.9))",
        ),
        ("g = torch.inverse(h)", "g = torch.inverse(h.float())"),
        ("g = h.logdet()", "g = h.float().logdet()"),
        ("g = torch.pinverse(h)", 'with torch.amp.autocast("cuda", enabled=False):\n    g = torch.pinverse(h.float())'),
        ("g = torch.fft.rfft(h)", "g = torch.fft.rfft(h.float())"),
        ("g = torch.fft.fft(torch.fft.fft(h)).real", "g = torch.fft.fft(torch.fft.fft(h.float())).real"),
        ("b = torch.zeros(8, 16)\nb[mask] = h", "b = torch.zeros(8, 16)\nb[mask] = h.to(b.dtype)"),
        ("h[mask] = self.token", "h[mask] = self.token.to(h.dtype)"),
        ("b = torch.zeros(8, 16).index_add_(0, mask, h)", "b = torch.zeros(8, 16).index_add_(0, mask, h.float())"),
        (
            "b = torch.zeros_like(h).index_add_(0, mask, h.softmax(1))",
            "b = torch.zeros_like(h).float().index_add_(0, mask, h.softmax(1))",
        ),
        (
            "b = torch.scatter(torch.zeros(8, 16), 0, mask, h)",
            "b = torch.scatter(torch.zeros(8, 16), 0, mask, h.float())",
        ),
        ("self.bank.scatter_add_(0, mask, h)", "self.bank.scatter_add_(0, mask, h.to(self.bank.dtype))"),
        ("p = torch.log(torch.sigmoid(h))", "p = torch.log(torch.sigmoid(h.float()))"),
        ("p = self.act(h)\nq = -torch.log(1 - p)", "p = self.act(h.float())\nq = -torch.log(1 - p)"),
        ("q = torch.log(F.relu(h) + 1e-8)", "q = torch.log(F.relu(h).float() + 1e-8)"),
        ("v = h.var(1)\nq = h / (v + 1e-8) ** 0.5", "v = h.float().var(1)\nq = h / (v + 1e-8) ** 0.5"),
        (
            "v = torch.mean(h * h, 1)\nq = torch.rsqrt(v.unsqueeze(1) + 1e-8)",
            "v = torch.mean(h.float() * h, 1)\nq = torch.rsqrt(v.unsqueeze(1) + 1e-8)",
        ),
        ("v = (h**2).mean(1) - h.mean(1) ** 2", "v = (h**2).mean(1) - h.float().mean(1) ** 2"),
        (
            "m = torch.mean(h, 1)\nv = h.square().mean(1) - m.pow(2)",
            "m = torch.mean(h.float(), 1)\nv = h.square().mean(1) - m.pow(2)",
        ),
        (
            "m = 0.1 * h.mean(1).mean(0) + x.sum()\ns = (h * h).mean(1).mean(0)\nq = h / torch.sqrt(1e-5 + s - m * m)",
            "m = 0.1 * h.float().mean(1).mean(0) + x.sum()\ns = (h.float() * h).mean(1).mean(0)\n"
            "q = h / torch.sqrt(1e-5 + s - m * m)",
        ),
        (
            "g = self.inner(x)\nm, n = F.avg_pool1d(h, 3), F.avg_pool1d(g, 3)\nc = F.avg_pool1d(h * g, 3) - m * n",
            "g = self.inner(x)\nm, n = F.avg_pool1d(h.float(), 3), F.avg_pool1d(g.float(), 3)\n"
            "c = F.avg_pool1d(h.float() * g, 3) - m * n",
        ),
        (
            "g = h if mask else x\nw = torch.ones(16, 4) / 16\nv = torch.mm(g * g, w) - torch.mm(g, w) ** 2",
            'g = h if mask else x\nw = torch.ones(16, 4) / 16\nwith torch.amp.autocast("cuda", enabled=False):\n'
            "    v = torch.mm(g.float() * g, w) - torch.mm(g.float(), w) ** 2",
        ),
        (
            "w = torch.ones(16, 4) / 16\nv = torch.mm(h * h, w) - torch.mm(h, w) ** 2",
            'w = torch.ones(16, 4) / 16\nwith torch.amp.autocast("cuda", enabled=False):\n'
            "    v = torch.mm(h.float() * h, w) - torch.mm(h.float(), w) ** 2",
        ),
        ("p = h.clamp(1e-4, 1 - 1e-4)", "p = h.float().clamp(1e-4, 1 - 1e-4)"),
        (
            "n = (h.mean(1) + 1e-12).unsqueeze(1)\nq = h / n",
            "n = (h.mean(1).float() + 1e-12).unsqueeze(1)\nq = h / n",
        ),
        ("q = h / (h.mean() + 1e-12)", "q = h / (h.mean().float() + 1e-12)"),
        ("i = h.new_tensor(range(9)).long()", "i = h.float().new_tensor(range(9)).long()"),
        (
            "t = h if mask else h.argmax(1)\ni = t.new_tensor(range(9)).long()",
            "t = h if mask else h.argmax(1)\ni = t.float().new_tensor(range(9)).long()",
        ),
        ("p = h.sigmoid() * 4999\ni = p.floor().long()", "p = h.sigmoid().float() * 4999\ni = p.floor().long()"),
        ("i = (len(x) * h.sigmoid()).clamp(0, 9).int()", "i = (len(x) * h.sigmoid().float()).clamp(0, 9).int()"),
        (
            "e = torch.finfo(h.dtype).eps\nq = x / (x + e)",
            "h = h.float()\ne = torch.finfo(h.dtype).eps\nq = x / (x + e)",
        ),
        ("i = torch.arange(9).type_as(h).to(torch.long)", "i = torch.arange(9).type_as(h.float()).to(torch.long)"),
    ],
)
def test_a_line_that_breaks_in_half_is_repaired(before, after):
    found = body(before)
    assert found != before
    assert after is None or found == after


@pytest.mark.parametrize(
    "call",
    [
        *(
            f"torch.{name}(h)"
            for name in "symeig eig potrf potri btrifact btrifact_with_info pstrf matrix_rank".split()
        ),
        *(f"torch.{name}(h, 1)" for name in "fft ifft rfft irfft".split()),
        *(f"torch.{name}(h, y)" for name in "solve gesv lstsq gels trtrs potrs".split()),
        "torch.btrisolve(h, *torch.btrifact(y))",
        *(f"h.{name}(1)" for name in "fft ifft rfft irfft".split()),
        *(f"h.{name}()" for name in "symeig eig potrf potri btrifact pstrf".split()),
        *(f"h.{name}(y)" for name in "gesv lstsq gels trtrs potrs".split()),
    ],
)
def test_what_torch_has_no_more_takes_float32_as_what_came_after_it(call):
    y = "y = torch.zeros(16, 16)\n"
    assert body(f"{y}g = {call}") == f"{y}g = {re.sub(r'(?<![a-z_])h(?![a-z_])', 'h.float()', call)}"


MARKS = [
    "m = F.one_hot(mask, 8).float()",
    "m = (mask[:, None] == torch.arange(8)).float()",
    "m = torch.zeros(16, 8).scatter(1, mask[:, None].long(), 1)",
    "m = torch.zeros(16, 8).scatter_(1, x.argmin(1)[:, None], 1.0)",
    "m = torch.zeros(16, 8)\nm.scatter_(1, x.argmin(1)[:, None], 1)",
    "m = torch.zeros(16, 8)\nm[x.argmin(1), x.argmax(1)] = 1",
    "m = torch.eye(8)[mask]",
]
NO_MARKS = [
    "m = torch.zeros(16, 8)",
    "m = torch.zeros(16, 8)\nm[:, 0] = x[:, 0]",
    "m = torch.zeros(16, 8).scatter(1, mask[:, None].long(), x)",
    "m = (x > 0).float()",
]


@pytest.mark.parametrize("marks", MARKS)
def test_a_product_that_picks_rows_of_a_table_runs_in_float32(marks):
    expected = f'{marks}\nwith torch.amp.autocast("cuda", enabled=False):\n    t = m @ h.float()'
    assert body(f"{marks}\nt = m @ h").replace("'", '"') == expected


@pytest.mark.parametrize("marks", NO_MARKS)
def test_another_product_stays(marks):
    assert "autocast" not in body(f"{marks}\nt = m @ h")


CONSTANTS = {
    "a part of a tuple": ("def small():\n    return 0.5, 1e-8\n", "w, e = small()"),
    "an element": ("SMALL = (0.5, 1e-8)\n", "e = SMALL[1]"),
    "a dict": ("SMALL = {'w': 0.5, 'e': 1e-8}\n", "e = SMALL['e']"),
    "a dict with get": ("SMALL = {'w': 0.5}\n", "e = SMALL.get('e', 1e-8)"),
    "keywords": ("from types import SimpleNamespace\nSMALL = SimpleNamespace(w=0.5, e=1e-8)\n", "e = SMALL.e"),
    "a function": ("def small(e=None):\n    return e or 1e-8\n", "e = small()"),
    "None before": ("SMALL = None\n", "e = 1e-8 if SMALL is None else SMALL"),
    "converted": ("SMALL = '1e-8', 1e-8\n", "e = float(SMALL[1])"),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_known_wherever_it_comes_from(name):
    before, line = CONSTANTS[name]
    assert body(f"{line}\nq = h / (h.mean() + e)", before=before) == f"{line}\nq = h / (h.mean().float() + e)"


@pytest.mark.parametrize("number", ["np.log(1e-14)", "float(np.log(1e-14))", "abs(np.log(1e-14))"])
def test_a_constant_of_a_function_is_another_number_than_what_that_is_given(number):
    line = f"e = {number}\nq = torch.clamp(h, min=e)"
    assert body(line, before="import numpy as np\n") == line


@pytest.mark.parametrize(
    "line",
    [
        "s = h.masked_fill(mask, float('-inf'))",
        "s = h.masked_fill(mask, torch.finfo(h.dtype).min)",
        "s = h.masked_fill(mask, -10000.0)",
        "s = h.float().masked_fill(mask, -1e9)",
        "s = F.softmax(h, dim=-1).masked_fill(mask, -1e9)",
        "s = h.double().masked_fill(mask, -1e9)",
        "s = h + (1.0 - mask.float()) * -1e9",
        "g = h @ self.inner.weight.t()",
        "g = h @ h",
        "q, k = h.chunk(2, 1)\ns = q @ k.t()",
        "n = h / (h.norm(dim=1, keepdim=True) + 1e-6)\nsimilarity = n @ n.t()",
        "n = F.normalize(h, dim=1)\nsimilarity = n @ n.t()",
        "d = torch.mm(h, h.t().exp()) ** 2 - torch.mm(h**2, (h.t() + 1) ** 2)",
        "d = (h**2).mean(1) - h.sum(1) ** 2",
        "d = (h * h).mean(1) - (h.mean(1) - h.amax(1))",
        "d = torch.det(h.double())",
        "w = self.inner.inverse(h)",
        "b = torch.zeros(8, 16)\nb[0] = h[0]\nb[:, 1:2] = h[:, 1:2]",
        "b = torch.zeros(8, 16)\nfor i in range(3):\n    b[i] = h[i]",
        "b = torch.zeros(8, 16)\nfor i in tqdm(range(3)):\n    b[i + 1] = h[i]",
        "b = torch.zeros(8, 16)\nfor i, _ in enumerate(reversed(range(3))):\n    b[i] = h[i]",
        "import numpy as np\nb = torch.zeros(8, 16)\nfor i in np.arange(3):\n    b[i] = h[i]",
        "b = torch.zeros(8, dtype=torch.long)\nb[mask] = h.argmax(1)",
        "states = {}\nstates[mask] = h",
        "b = torch.zeros(8, 16)\nb[mask] += h",
        "p = F.softmax(h, -1)\nq = -torch.log(p + 1e-8)",
        "p = F.softmax(h, -1)\nq = -torch.log(p + torch.finfo(p.dtype).eps)",
        "s = h.masked_fill(mask, torch.finfo(h.dtype).min)",
        "q = h / (h.norm(dim=1, keepdim=True) + 1e-12)",
        "q = torch.log(F.relu(h) + 1e-5)",
        "h.clamp_(min=1e-12)\nq = torch.log(h)",
        "g = [a @ b.t() for a in h.view(2, 4, 16) for b in h.view(2, 4, 16)]",
        "p = self.act(h)",
        "i = torch.zeros(3).new_tensor(range(9)).long()",
        "i = h.new_tensor(range(9), dtype=torch.long).long()",
        "with torch.amp.autocast('cuda', enabled=False):\n    g = torch.inverse(h.float()) @ h.float()",
    ],
)
def test_what_survives_half_stays(line):
    assert body(line) == line


@pytest.mark.parametrize(
    ("code", "line", "before"),
    [
        ("AMP980", "v = h.view(-1)\nv.masked_fill_(mask, -1e9)", ""),
        ("AMP980", "v = h.view(-1)\nv[mask] = -1e9", ""),
        ("AMP981", "g = self.head(torch.pinverse(h))", ""),
        (
            "AMP983",
            "g = kernels.run(h)",
            "from torch.utils.cpp_extension import load\nkernels = load(name='k', sources=['k.cu'])",
        ),
        ("AMP983", "g = alt_cuda.run(h)", "import alt_cuda"),
        (
            "AMP982",
            "g = Square.apply(h)",
            "class Square(torch.autograd.Function):\n    def forward(self, x):\n        return x * x\n",
        ),
        (
            "AMP982",
            "g = Square()(h)",
            "class Square(torch.autograd.Function):\n    def forward(self, x):\n        return x * x\n",
        ),
    ],
)
def test_a_line_without_an_exact_repair_is_refused(code, line, before):
    with pytest.raises(Refusal) as refused:
        migrated(script(line, before=before))
    assert refused.value.rule.code == code


FUNCTION = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, (grad * x).sum(0)
"""


def test_a_function_of_two_tensors_runs_in_float32():
    found = migrated(script("g = Scale.apply(h, self.token)", before=FUNCTION))
    forward, backward = (
        "@torch.amp.custom_fwd(device_type='cuda', cast_inputs=torch.float32)",
        "@torch.amp.custom_bwd(device_type='cuda')",
    )
    assert f"@staticmethod\n    {forward}\n    def forward" in found.replace('"', "'")
    assert f"@staticmethod\n    {backward}\n    def backward" in found.replace('"', "'")


def test_a_function_in_float32_needs_no_repair_in_it():
    """Also where something is called that nothing shows, and all modules of the unit may be it."""
    inverse = "torch.inverse(x.t() @ x)"
    unknown = "\n\nmake = lambda: torch.nn.Identity()\nidentity = make()\n"
    found = migrated(script("g = Scale.apply(identity(h), h)", before=FUNCTION.replace("x * w", inverse) + unknown))
    assert "custom_fwd" in found and inverse in found


def test_a_function_around_compiled_code_runs_in_float32():
    kernels = "from torch.utils.cpp_extension import load\nkernels = load(name='k', sources=['k.cu'])\n"
    helper = "\n\ndef scale(x, w):\n    return Scale.apply(x, w)\n"
    function = kernels + FUNCTION.replace("x * w", "kernels.scale(x, w)") + helper
    assert "custom_fwd" in migrated(script("g = scale(h, mask)", before=function))


def test_a_function_of_one_tensor_stays():
    reverse = FUNCTION.replace("x, w):", "x, w=1):").replace("ctx.save_for_backward(x, w)", "pass")
    assert "custom_fwd" not in migrated(script("g = Scale.apply(h, 0.5)", before=reverse))


def test_code_that_the_training_does_not_reach_stays():
    other = "class Other(nn.Module):\n    def forward(self, s, mask):\n        return s.masked_fill(mask, -1e9)\n"
    assert other in migrated(script("pass", before=other))


def test_parts_of_the_model_are_reached():
    other = "class Other(nn.Module):\n    def forward(self, s, mask):\n        return s.masked_fill(mask, -1e9)\n"
    model = "class Outer(nn.Module):\n    def __init__(self, part=Other):\n        super().__init__()\n"
    model += "        self.parts = nn.ModuleList([part() for _ in range(2)])\n    def forward(self, x, mask):\n        return x\n"
    code = script("pass", before=other + model).replace("model = Net()", "model = nn.Sequential(Net(), Outer())")
    assert "s.float().masked_fill(mask, -1e9)" in migrated(code)


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        ("F.mse_loss(output, y, reduction='sum')", ["AMP187"]),
        ("(y * F.log_softmax(output, 1)).sum()", ["AMP187"]),
        ("(-y * F.log_softmax(output, 1)).mean(0).sum()", []),
    ],
)
def test_a_summed_loss_is_noted(loss, codes):
    found = planned(facts_of(script("pass", loss=loss)))
    assert [one.code for one in found.findings] == codes


@pytest.mark.parametrize(
    ("returned", "codes"), [("p.sum(1), p", []), ("p.sum(), p", ["AMP187"]), ("p.sum(1)", ["AMP187"])]
)
def test_what_is_returned_beside_something_else_is_no_loss(returned, codes):
    losses = f"def losses(p, y=None):\n    if y is not None:\n        return F.mse_loss(p, y)\n    return {returned}\n"
    found = planned(facts_of(script("pass", before=losses, loss="losses(output, y)")))
    assert [one.code for one in found.findings] == codes


def test_local_modules_that_are_not_at_hand_are_named():
    class Disk(Elsewhere):
        def source_of(self, resolved: str) -> bytes | None:
            return b"" if resolved.startswith("layers.") else None

    code = script("g = mix(h)", before="from layers import mix, Block\n").replace("nn.Linear(16, 4)", "Block(16, 4)")
    facts = facts_of(code, Disk())
    plan = planned(facts)
    reach = Reach(facts, Forwards(facts, plan.roles), [found.region for found in plan.regions])
    assert sorted(reach.unread) == sorted(plan.safety.unread) == ["layers.Block", "layers.mix"]
