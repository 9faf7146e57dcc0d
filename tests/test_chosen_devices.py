"""Mixed precision is on where the model is on a GPU, however the script says so, and whatever its flags are called."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SOURCE = """\
import argparse
import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--slow", action="store_true")
parser.add_argument("--count", type=int, default=1)
parser.add_argument("--device", default=None)
args = parser.parse_args()
{setup}
net = nn.Linear(8, 3)
{model}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x, y = torch.randn(6, 8), torch.randint(0, 3, (6,))
    {batch}
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def scaler_of(setup: str, model: str, batch: str) -> str:
    source = SOURCE.format(setup=setup, model=model, batch=batch)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    return next((line for line in output.splitlines() if "GradScaler" in line), "")


@pytest.mark.parametrize(
    ("setup", "model", "batch", "enabled"),
    [
        (
            "",
            "if not args.slow:\n    net = net.cuda()",
            "if not args.slow:\n        x, y = x.cuda(), y.cuda()",
            "not args.slow",
        ),
        (
            "",
            "net = net if args.slow else net.cuda()",
            "x, y = (x, y) if args.slow else (x.cuda(), y.cuda())",
            "not args.slow",
        ),
        (
            "",
            "if args.count > 0:\n    net.cuda()",
            "if args.count > 0:\n        x, y = x.cuda(), y.cuda()",
            "args.count > 0",
        ),
        (
            'where = args.device or ("cuda" if torch.cuda.is_available() else "cpu")',
            "net.to(where)",
            "x, y = x.to(where), y.to(where)",
            'torch.device(where).type == "cuda"',
        ),
        (
            'where = "cuda" if torch.cuda.is_available() else ("mps" if args.slow else "cpu")',
            "net.to(where)",
            "x, y = x.to(where), y.to(where)",
            'torch.device(where).type == "cuda"',
        ),
    ],
)
def test_the_scaler_follows_the_model(setup, model, batch, enabled):
    assert scaler_of(setup, model, batch) == f'scaler = torch.amp.GradScaler("cuda", enabled={enabled})'


def test_what_goes_to_the_gpu_anyway_says_that_there_is_one():
    model = "if args.count > 1:\n    net = nn.DataParallel(net).cuda()"
    assert scaler_of("", model, "x, y = x.cuda(), y.cuda()") == 'scaler = torch.amp.GradScaler("cuda")'


def test_two_parameters_of_one_name_are_no_error_of_ours():
    source = SOURCE.format(
        setup="def run(a, a):\n    pass\nrun(1, 2)", model="net.cuda()", batch="x, y = x.cuda(), y.cuda()"
    )
    migrate_source(source.encode(), Options(api="torch.amp"))  # raises nothing


def test_what_one_arm_makes_on_the_gpu_is_no_choice_of_a_device():
    """`torch` and `nn` stand in both arms, which says nothing of what is moved."""
    model = "start = torch.ones(3).cuda() if args.slow else torch.zeros(3)\nnet.bias.data.copy_(start)\nnet.cuda()"
    assert scaler_of("", model, "x, y = x.cuda(), y.cuda()") == 'scaler = torch.amp.GradScaler("cuda")'
    model = "net = nn.Linear(8, 3).cuda() if args.slow else nn.Linear(8, 3, bias=False)"
    assert scaler_of("", model, "x, y = x.cuda(), y.cuda()") == 'scaler = torch.amp.GradScaler("cuda")'


SETTINGS = """\
import torch
from torch import nn
from torch.nn import functional as F


def create_model(config):
    device = torch.device(config.device)
    net = nn.Linear(8, 3)
    net.to(device)
    return net


def train(net, optimizer, batches, config):
    device = torch.device(config.device)
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()


class Config:
    pass


def load_config():
    config = read_settings() if settings else Config()
    {stored}
    return config


def main():
    config = load_config()
    net = create_model(config)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    train(net, optimizer, [(torch.randn(4, 8), torch.tensor([0, 1, 2, 0]))], config)


main()
"""


@pytest.mark.parametrize(
    ("stored", "enabled"),
    [
        ("pass", True),
        ('if not torch.cuda.is_available():\n        config.device = "cpu"', True),
        ('config.device = "cpu"', False),
    ],
)
def test_a_device_that_a_function_below_makes_of_a_setting(stored, enabled):
    output = migrate_source(SETTINGS.format(stored=stored).encode(), Options(api="torch.amp")).output.decode()
    line = '    scaler = torch.amp.GradScaler("cuda", enabled=torch.device(config.device).type == "cuda")\n'
    assert (line in output, "scaler" in output) == (enabled, enabled)


NONE = [
    ("device = 'cuda' if not args.slow else None", "device", "torch.device(device or 'cpu').type == 'cuda'"),
    (
        "device = torch.device('cuda') if not args.slow else None",
        "device",
        "torch.device(device or 'cpu').type == 'cuda'",
    ),
    ("device = torch.device('cuda' if not args.slow else None)", "device", "device.type == 'cuda'"),
    (
        "device = args.device or (None if args.slow else 'cuda')",
        "device",
        "torch.device(device or 'cpu').type == 'cuda'",
    ),
    (
        "device = None if args.device is None else torch.device(args.device)",
        "device",
        "torch.device(device or 'cpu').type == 'cuda'",
    ),
    ("", "args.device", "torch.device(args.device or 'cpu').type == 'cuda'"),
    (
        "def chosen(name):\n    return None if args.slow else name\n\n\ndevice = chosen('cuda')",
        "device",
        "torch.device(device or 'cpu').type == 'cuda'",
    ),
]
BESIDE = [
    "'cpu' if args.slow else args.device or 'cuda'",
    "'cuda' if args.device is None else args.device",
    "torch.device('cuda') if args.device is None else torch.device(args.device)",
]


@pytest.mark.parametrize(("setup", "device", "enabled"), NONE)
def test_none_is_no_device_but_leaves_things_where_they_are(setup, device, enabled):
    moved = f"net.to({device})", f"x, y = x.to({device}), y.to({device})"
    assert f", enabled={enabled})" in scaler_of(setup, *moved).replace('"', "'")


@pytest.mark.parametrize("device", BESIDE)
def test_a_choice_between_a_gpu_and_a_device_that_is_given(device):
    chosen = scaler_of("", f"net.to({device})", f"x, y = x.to({device}), y.to({device})")
    assert f"torch.device({device}).type == 'cuda'" in chosen.replace('"', "'")


MADE = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self, width=8, device="cuda"):
        super().__init__()
        self.fc = nn.Linear(width, 2)
        self.to(device)

    def forward(self, x):
        return self.fc(x)


model = MADE
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(4, 8).to(device)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("made", ['Net(device="cpu")', 'Net(8, "cpu")', 'Net(device=torch.device("cpu"))', "Net()"])
def test_where_a_model_is_made_is_no_choice_of_a_device(made):
    output = migrate_source(MADE.replace("MADE", made).encode(), Options(api="torch.amp")).output.decode()
    scaler = (
        'torch.amp.GradScaler("cuda")'
        if made == "Net()"
        else 'torch.amp.GradScaler("cuda", enabled=device.type == "cuda")'
    )
    assert f"scaler = {scaler}\n" in output


BOTH = "def to_gpu(x):\n    return x.cuda()\ndef as_it_is(x):\n    return x\n"
MOVED = ("net, last = move(net), move(nn.Linear(3, 3))\nnet = nn.Sequential(net, last)", "x, y = move(x), move(y)")


@pytest.mark.parametrize(
    ("move", "enabled"),
    [
        ("to_gpu if args.slow else as_it_is", "args.slow"),
        ("as_it_is if args.slow else to_gpu", "not args.slow"),
        ("to_gpu if args.count > 0 else as_it_is", "args.count > 0"),
        ("(lambda x: x.cuda()) if args.slow else (lambda x: x)", "args.slow"),
        ("(lambda x: x) if args.slow else to_gpu", "not args.slow"),
    ],
)
def test_one_of_two_functions_moves_the_models_and_the_batches(move, enabled):
    assert scaler_of(f"{BOTH}move = {move}", *MOVED).endswith(f'("cuda", enabled={enabled})')


@pytest.mark.parametrize("move", ["to_gpu if args.slow else to_gpu", "[as_it_is, to_gpu][args.slow]"])
def test_which_of_two_functions_moves_them_is_not_told_by_a_flag(move):
    assert "args.slow" not in scaler_of(f"{BOTH}move = {move}", *MOVED)
