"""Labels that NumPy makes of an evaluation, casts by hand in a model of half weights, and attributes of an unseen base."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.drawn.run import run

LABELS = """\
import numpy as np
import torch
import torch.nn as nn

device = "cuda" if torch.cuda.is_available() else "cpu"


def optimize_labels(PS):
    N, K = PS.shape
    PS = PS.T
    c = np.ones((N, 1)) / N
    PS **= 25
    inv_K, inv_N = 1. / K, 1. / N
    for _ in range(10):
        r = inv_K / (PS @ c)
        c = inv_N / (r.T @ PS).T
    PS *= np.squeeze(c)
    PS = PS.T
    PS *= np.squeeze(r)
    return torch.LongTensor(np.nanargmax(PS, 1))


def relabel(model, data):
    PS = np.zeros((100, 10))
    PS[:] = nn.functional.softmax(model(data), 1).detach().cpu().numpy()
    return optimize_labels(PS).to(device)


model = nn.Linear(8, 10).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(100, 8).to(device)
selflabels = torch.randint(10, (100,)).to(device)
for step in range(100):
    if step % 20 == 0:
        with torch.no_grad():
            selflabels = relabel(model, data)
    optimizer.zero_grad()
    outputs = model(data)
    loss = criterion(outputs, selflabels)
    loss.backward()
    optimizer.step()
"""
FLOAT32 = """\
import torch
from apex import amp


def sinkhorn(x, y):
    cost = 1 - x.matmul(y.transpose(1, 2))
    kernel = torch.exp(-cost / 0.05)
    u = torch.ones(x.size(0), x.size(1), 1, dtype=cost.dtype, device=x.device)
    for _ in range(50):
        v = 1 / kernel.transpose(1, 2).matmul(u)
        u = 1 / kernel.matmul(v)
    return (u * kernel * v.transpose(1, 2) * cost).sum(dim=(1, 2))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.text = torch.nn.Linear(16, 16)
        self.image = torch.nn.Linear(16, 16)

    def forward(self, text, image):
        text = torch.nn.functional.normalize(self.text(text), dim=-1)
        image = torch.nn.functional.normalize(self.image(image), dim=-1)
        return sinkhorn({given}).mean()


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
for step in range(100):
    text, image = torch.randn(4, 7, 16).cuda(), torch.randn(4, 9, 16).cuda()
    loss = model(text, image)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
# Where the product stands: each in files of its own, with what `given` becomes.
ELSEWHERE = {
    "a function": ({"ot.py": "SINKHORN"}, "from ot import sinkhorn", "sinkhorn({given})"),
    "of a module": ({"ot.py": "SINKHORN"}, "import ot", "ot.sinkhorn({given})"),
    "handed on": (
        {"losses/__init__.py": "from .ot import sinkhorn\n", "losses/ot.py": "SINKHORN"},
        "from losses import sinkhorn",
        "sinkhorn({given})",
    ),
    "a module": (
        {
            "ot.py": "SINKHORN\n\nclass Distance(torch.nn.Module):\n"
            "    def forward(self, x, y):\n        return sinkhorn(x, y)\n"
        },
        "from ot import Distance\ndistance = Distance()",
        "distance({given})",
    ),
    "a method of a class": (
        {"ot.py": "SINKHORN\n\nclass Distance:\n    @staticmethod\n    def of(x, y):\n        return sinkhorn(x, y)\n"},
        "from ot import Distance",
        "Distance.of({given})",
    ),
    "a method of a base": (
        {
            "ot.py": "SINKHORN\n\nclass Base(torch.nn.Module):\n"
            "    def distance(self, x, y):\n        return sinkhorn(x, y)\n"
        },
        "from ot import Base",
        "self.distance({given})",
    ),
    "a cast elsewhere": (
        {"ot.py": "SINKHORN\n\ndef stable(x, y):\n    return sinkhorn(x.float(), y.to(torch.float32))\n"},
        "from ot import stable",
        "stable(text, image)",
    ),
    "of two files": (
        {
            "ot.py": "SINKHORN",
            "stable.py": "from ot import sinkhorn\n\n\ndef stable(x, y):\n    return sinkhorn(x.float(), y.float())\n",
        },
        "from stable import stable",
        "stable(text, image)",
    ),
}
TYPED = """\
    kernel = torch.ones(4, 7, 9, dtype=x.dtype, device=x.device)
    kernel.masked_fill_(torch.zeros(7, 9).cuda() > 0, 0)
    cost = (x.mean() * kernel).matmul(torch.full((4, 9, 9), 3).cuda().to(y.dtype))
"""
PRODUCT = "1 - kept(x.matmul(y.transpose(1, 2)))"
INHERITED = """\
import torch
from argus import Model


class FreesoundModel(Model):
    def __init__(self, params):
        super().__init__(params)
        self.use_amp = "amp" in params
        if self.use_amp:
            from apex import amp
            self.amp = amp
            self.nn_module, self.optimizer = self.amp.initialize(
                self.nn_module, self.optimizer, opt_level="O1")

    def train_step(self, batch):
        self.optimizer.zero_grad()
        input, target = batch
        prediction = self.nn_module(input.cuda())
        loss = torch.nn.functional.mse_loss(prediction, target.cuda())
        if self.use_amp:
            with self.amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        self.optimizer.step()
        return loss.item()
"""
ISLAND = """\
    with torch.amp.autocast('cuda', enabled=False):
        cost = 1 - x.matmul(y.transpose(1, 2))
"""


def output_of(source: str) -> str:
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    return result.output.decode()


def test_labels_of_an_evaluation_stay_in_float32_and_in_numpy():
    output = output_of(LABELS)
    assert output.count("autocast(") == 1
    assert ".float()" not in output


@pytest.mark.parametrize(
    ("given", "is_island"),
    [
        ("text.float(), image.float()", True),
        ("torch.exp(text.float()), 1 - image.float()", True),
        ("text, image", False),
    ],
)
def test_what_comes_from_a_cast_by_hand_is_multiplied_in_float32(given, is_island):
    output = output_of(FLOAT32.replace("{given}", given)).replace('"cuda"', "'cuda'")
    assert (ISLAND in output) == is_island


OF_BOTH = """\
import torch
from apex import amp


def similarity(a, b):
    cost = torch.matmul(a, b.transpose(0, 1))
    return torch.exp(-cost / 0.05).sum()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        return h, WITHIN


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net, optimizer = amp.initialize(net, optimizer, opt_level="O2")
for x in torch.utils.data.DataLoader(torch.randn(8, 4), 4):
    h, near = net(x.cuda())
    loss = near + BEYOND
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
IN_FLOAT32 = ["similarity(h.float(), h.float())", "similarity(h.to(torch.float32), h.float())"]


@pytest.mark.parametrize("single", IN_FLOAT32)
@pytest.mark.parametrize("half", ["similarity(h, h)", "similarity(h, h.relu())"])
def test_what_another_call_gives_in_half_is_float32_as_well(single, half):
    both = [(half, single), (single, half), (f"{half} + {single}", "0")]
    for within, beyond in both:
        output = output_of(OF_BOTH.replace("WITHIN", within).replace("BEYOND", beyond))
        assert "enabled=False):\n        cost = torch.matmul(a.float(), b.transpose(0, 1).float())" in output


def test_what_every_call_gives_in_half_is_not():
    output = output_of(OF_BOTH.replace("WITHIN", "similarity(h, h)").replace("BEYOND", "0"))
    assert "enabled=False" not in output


@pytest.mark.parametrize(("kept", "is_island"), [("z.contiguous().view(4, 7, 9)", True), ("z @ z.mT @ z", False)])
def test_a_function_that_needs_no_autocast_runs_in_the_island(kept, is_island):
    source = FLOAT32.replace("{given}", "text.float(), image.float()").replace(
        "1 - x.matmul(y.transpose(1, 2))", PRODUCT
    )
    output = output_of(source.replace("def sinkhorn", f"def kept(z):\n    return {kept}\n\n\ndef sinkhorn"))
    assert (f"enabled=False):\n        cost = {PRODUCT}" in output) == is_island


@pytest.mark.parametrize("where", ELSEWHERE)
def test_it_is_wherever_the_product_stands(tmp_path, where):
    files, imports, call = ELSEWHERE[where]
    start, end = FLOAT32.index("def sinkhorn"), FLOAT32.index("class Net")
    given = "text.float(), image.float()"
    script = (FLOAT32[:start] + FLOAT32[end:]).replace("sinkhorn({given})", call.replace("{given}", given))
    script = script.replace("torch.nn.Module", "Base") if "Base" in imports else script
    written = {"train.py": script.replace("from apex import amp", f"from apex import amp\n{imports}")}
    sinkhorn = f"import torch\n\n\n{FLOAT32[start:end]}"
    for name, source in (written | files).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source.replace("SINKHORN", sinkhorn))
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    assert [one.findings for one in results if one.status == "left"] == []
    assert ISLAND in "".join(one.output.decode() for one in results).replace('"cuda"', "'cuda'")


@pytest.mark.parametrize(("given", "is_island"), [("text.float(), image.float()", True), ("text, image", False)])
def test_what_has_the_dtype_of_a_cast_by_hand_is_float32_as_well(given, is_island):
    source = FLOAT32.replace("{given}", given).replace("    cost = 1 - x.matmul(y.transpose(1, 2))\n", TYPED)
    assert ("enabled=False):\n        cost" in output_of(source)) == is_island


def test_what_a_base_class_out_of_sight_has_set_is_still_there():
    assert "self.scaler.step(self.optimizer)" in output_of(INHERITED)


BESIDE_OUTPUTS = """\
import numpy as np
import torch
import torch.nn as nn


def as_array(x):
    return x.detach().cpu().numpy()


def chosen(embeddings, labels):
    labels = ARRAY
    counts = np.zeros(4)
    counts[labels] += 1
    return torch.LongTensor(np.flatnonzero(counts[labels] > 0))


def pair_loss(embeddings, target):
    return nn.functional.relu(1 - embeddings[chosen(embeddings, target).cuda()].pow(2).sum(1)).mean()


torch.manual_seed(0)
model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
LOADER
for data, target in loader:
    target = target.cuda()
    optimizer.zero_grad()
    outputs = model(data.cuda())
    JOINED
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""
LISTED = "loader = [(torch.randn(16, 8), torch.randint(0, 4, (16,))) for _ in range(3)]"
LOADED = """\
pairs = torch.utils.data.TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
loader = torch.utils.data.DataLoader(pairs, batch_size=16)"""


@pytest.mark.parametrize("loader", [LISTED, LOADED])
@pytest.mark.parametrize(
    "joined",
    [
        "given = (outputs,)\n    given += (target,)\n    loss = pair_loss(*given)",
        "given = ()\n    given += (outputs,)\n    given += (target,)\n    loss = pair_loss(*given)",
        "given = (outputs,) + (target,)\n    loss = pair_loss(*given)",
        "own, labels = (outputs,), (target,)\n    given = own + labels\n    loss = pair_loss(given[0], given[1])",
        "given = [outputs]\n    given.extend([target])\n    loss = pair_loss(*given)",
        "given = [outputs]\n    given.append(target)\n    loss = pair_loss(*given)",
        "given = (outputs,)\n    given += (target,)\n    first, second = given\n    loss = pair_loss(first, second)",
    ],
)
def test_class_numbers_that_are_joined_to_outputs_stay_integers(joined, loader):
    source = BESIDE_OUTPUTS.replace("ARRAY", "labels.cpu().numpy()").replace("JOINED", joined).replace("LOADER", loader)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    before, after = run(source), run(result.output.decode())
    assert result.changed
    assert after.losses == pytest.approx(before.losses, rel=3e-3), after


@pytest.mark.parametrize("loader", [LISTED, LOADED])
def test_a_helper_that_gets_class_numbers_as_well_is_given_float32_outputs(loader):
    joined = "loss = pair_loss(outputs, target)\n    shown = as_array(outputs)"
    source = BESIDE_OUTPUTS.replace("ARRAY", "as_array(labels)").replace("JOINED", joined).replace("LOADER", loader)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    before, after = run(source), run(result.output.decode())
    assert b"shown = as_array(outputs.float())" in result.output
    assert after.losses == pytest.approx(before.losses, rel=3e-3), after
