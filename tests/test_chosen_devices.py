"""Mixed precision is on where the model is on a GPU, however the script says so, and whatever its flags are called."""

from __future__ import annotations

import dataclasses

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import CLOSE, run

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


BY_OPTION = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", {option})
class Trainer:
    def __init__(self, configs):
        self.configs = configs
        self.net = nn.Linear(8, 3).{move}
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, x, y):
        x, y = x.{move_to}, y.to({y})
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

torch.manual_seed(0)
trainer = Trainer(parser.parse_args())
for _ in range(3):
    print("loss", trainer.train(torch.randn(6, 8), torch.randint(0, 3, (6,))))
"""


def by_option(option: str) -> str:
    place = "self.configs.device"
    return BY_OPTION.format(option=option, move="to(configs.device)", move_to=f"to({place})", y=place)


@pytest.mark.parametrize(
    "option", ['default="cpu"', 'type=str, default="cpu:0"', 'default="cpu", choices=["cpu", "cuda"]']
)
def test_an_option_that_is_the_cpu_by_default_may_be_a_gpu(option: str) -> None:
    source = by_option(option)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert 'enabled=torch.device(configs.device).type == "cuda"' in output
    assert run(output).losses == run(source).losses
    assert run(output).switched == (False,)
    on_gpu = run(output, ("--device", "cuda"))
    assert not on_gpu.error
    assert on_gpu.losses == pytest.approx(run(source).losses, abs=CLOSE)
    assert on_gpu.switched == (True,)


def test_an_option_that_can_only_be_the_cpu_shows_no_gpu() -> None:
    source = by_option('default="cpu", choices=["cpu"]')
    assert migrate_source(source.encode(), Options(api="torch.amp")).status == "untouched"


def test_an_option_for_a_type_is_no_device() -> None:
    source = BY_OPTION.format(
        option='default="torch.FloatTensor"',
        move="type(configs.device)",
        move_to="type(self.configs.device)",
        y='"cpu"',
    )
    assert migrate_source(source.encode(), Options(api="torch.amp")).status == "untouched"


ENTRY = """\
import sys
import torch
from torch import nn

known = {{}}

def train():
    torch.manual_seed(0)
    net = nn.Linear(8, 3)
    net.to({device})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        x, y = torch.randn(6, 8).to({device}), torch.randint(0, 3, (6,)).to({device})
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        print("loss", loss.item())

def main(given):
    known.update(given)
    train()

if __name__ == "__main__":
    main(dict(one.split("=") for one in sys.argv[1:]))
"""


@pytest.mark.parametrize("device", ['known["device"]', 'known.get("device", "cpu")', 'known.get("device")'])
def test_an_entry_that_is_called_device_says_where_the_training_is(device: str) -> None:
    source = ENTRY.format(device=device)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "GradScaler" in output
    if run(source).losses:
        assert run(output) == dataclasses.replace(run(source), switched=(False,))
    for given in ("cpu", "cuda"):
        done = run(output, (f"device={given}",))
        assert not done.error, done
        assert done.switched == (given == "cuda",)
        assert done.losses == pytest.approx(run(source, (f"device={given}",)).losses, abs=CLOSE)


@pytest.mark.parametrize("device", ["known", 'known["other"]'])
def test_another_entry_shows_no_gpu(device: str) -> None:
    assert migrate_source(ENTRY.format(device=device).encode(), Options(api="torch.amp")).status == "untouched"


KEYWORDS = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()

def get_device(is_gpu=True):
    return torch.device("cuda" if torch.cuda.is_available() and is_gpu else "cpu")

class Adversarial:
    def __init__(self, device):
        self.device = device
        self.critic = nn.Linear(3, 1).to(self.device)
        self.optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def step(self, x, net, optimizer):
        out = net(x)
        loss = out.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        self.optimizer.zero_grad()
        wrong = self.critic(out.detach()).pow(2).mean()
        wrong.backward()
        self.optimizer.step()

def make(**kwargs):
    return Adversarial(kwargs["device"])

def main(loader):
    device = get_device(is_gpu=not args.no_cuda)
    net = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net = net.to(device)
    both = make(device=device, **vars(args))
    for x in loader:
        both.step(x.to(device), net, optimizer)

main([])
"""


def test_an_entry_of_keywords_is_what_the_callers_give() -> None:
    result = migrate_source(KEYWORDS.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", [one.message for one in result.findings]
    assert 'GradScaler("cuda", enabled=device.type == "cuda")' in result.output.decode()


ARMS = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--train", action="store_true")
parser.add_argument("--test", action="store_true")
args = parser.parse_args()


def get_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fit(model, optimizer, device):
    for _ in range(3):
        loss = model(torch.randn(6, 8, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


def main():
    if not args.train and not args.test:
        print("nothing to do")
    elif args.{first}:
        {made_first}
    {second}
        {made_second}


if __name__ == "__main__":
    main()
"""
IN_TRAINING = """model = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        device = get_device()
        model = model.to(device)
        fit(model, optimizer, device)"""
IN_TEST = """device = get_device()
        model = nn.Linear(8, 3).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.load_state_dict(torch.load("state.pt"))"""


@pytest.mark.parametrize("second", ["elif args.{}:", "else:"])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_optimizer_of_an_arm_that_does_not_train_decides_nothing(second: str, is_first: bool) -> None:
    names, made = ["train", "test"], [IN_TRAINING, IN_TEST]
    (first, other), (made_first, made_second) = (names, made) if is_first else (names[::-1], made[::-1])
    source = ARMS.format(first=first, second=second.format(other), made_first=made_first, made_second=made_second)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    there = 'device = get_device()\n        scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")\n'
    assert there in output
    assert run(output, ("--train",)).losses == pytest.approx(run(source, ("--train",)).losses, abs=CLOSE)
