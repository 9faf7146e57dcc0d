"""Several programs ask flags of their own whether to use a GPU, and give them to one trainer."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source

TRAINER = """\
import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, cuda, model, optimizer):
        self.cuda = cuda
        self.model = model
        self.optimizer = optimizer

    def train(self, batches):
        for x, y in batches:
            if self.cuda:
                x, y = x.cuda(), y.cuda()
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
PROGRAM = """\


def NAME():
    cuda = torch.cuda.is_available()
    model = nn.Linear(8, 1)
    if cuda:
        model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(cuda=cuda, model=model, optimizer=optimizer)
    trainer.train([(torch.randn(4, 8), torch.ones(4, 1))])
"""
AGREE = {
    "the same": [],
    "another name": [("cuda = ", "on_gpu = "), ("if cuda", "if on_gpu"), ("cuda=cuda", "cuda=on_gpu")],
    "turned": [("if cuda:\n        model", "if not cuda:\n        pass\n    else:\n        model")],
    "by position": [("cuda=cuda, model=model, optimizer=optimizer", "cuda, model, optimizer")],
}
DIFFER = {
    "another value": [("cuda=cuda", "cuda=True")],
    "the opposite": [("if cuda:", "if not cuda:")],
    "twice": [("    trainer =", "    Trainer(False, model, optimizer).train([])\n    trainer =")],
    "not given": [("Trainer(cuda=cuda, model=model", "Trainer(model=model, **dict(cuda=cuda)")],
}


def migrated(changes):
    other = PROGRAM
    for old, new in changes:
        assert old in other
        other = other.replace(old, new)
    script = TRAINER + PROGRAM.replace("NAME", "one") + other.replace("NAME", "two")
    return migrate_source(script.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("name", AGREE)
def test_what_the_trainer_is_given_is_the_flag_of_each(name):
    result = migrated(AGREE[name])
    assert 'GradScaler("cuda", enabled=cuda)' in result.output.decode(), result.findings


@pytest.mark.parametrize("name", DIFFER)
def test_what_the_trainer_is_given_may_be_another(name):
    assert [one.code for one in migrated(DIFFER[name]).findings] == ["AMP966"]


ARMS = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int)
parser.add_argument("--world", type=int, default=1)
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
model = nn.Linear(4, 2)
ARMS
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randint(2, (8,)))):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NESTED = """\
if args.distributed:
    if args.gpu is not None:
        model = model.cuda(args.gpu)
    else:
        model = model.cuda()
elif args.gpu is not None:
    model = model.cuda(args.gpu)
else:
    LAST
"""
FLAT = """\
if args.world == 1:
    model = model.cuda()
elif args.world == 2:
    model = nn.DataParallel(model).cuda()
else:
    LAST
"""
RESUMED = """\
if args.distributed:
    model.load_state_dict(torch.load("last.pt"))
    if args.gpu is not None:
        model = model.cuda(args.gpu)
    else:
        model = model.cuda()
"""
ASKED = 'GradScaler("cuda", enabled=next(model.parameters()).is_cuda)'
ON_CPU = ["model = model.cpu()", "model = model.to('cpu')", "model.to(torch.device('cpu'))"]


def with_arms(arms):
    return migrate_source(ARMS.replace("ARMS\n", arms).encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("last", [*ON_CPU, "pass", "print('slow')"])
def test_arms_with_tests_of_a_device_of_which_the_last_stays_on_the_cpu(last):
    assert ASKED in with_arms(NESTED.replace("LAST", last)).output.decode()


@pytest.mark.parametrize("last", ON_CPU)
def test_arms_of_which_the_last_goes_to_the_cpu(last):
    assert ASKED in with_arms(FLAT.replace("LAST", last)).output.decode()
    two = FLAT.replace("elif args.world == 2:\n    model = nn.DataParallel(model).cuda()\n", "").replace("LAST", last)
    assert 'GradScaler("cuda", enabled=args.world == 1)' in with_arms(two).output.decode()


@pytest.mark.parametrize("arms", [NESTED, FLAT, RESUMED])
def test_arms_that_all_go_to_a_gpu(arms):
    assert 'GradScaler("cuda")' in with_arms(arms.replace("LAST", "model = model.cuda()")).output.decode()


NETS = """\
import torch
from torch import nn
from torch.nn import functional as F

MAKERS = {"adam": torch.optim.Adam}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.fc(x)


class Trainer(nn.Module):
    def __init__(self, device="cuda"):
        super().__init__()
        self.device = device
        self.net = nn.Sequential(Block(), nn.Linear(4, 2))
        self.to(device)

    def forward(self, x):
        return self.net(x)

    def fit(self, loader):
        for x, y in loader:
            loss = F.cross_entropy(self(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def train_all(self, loader):
        MADE
        self.fit(loader)
"""
OTHER = """\
import torch
from torch import nn
from torch.nn import functional as F
from nets import Block

data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randint(2, (16,)))


def main():
    net = nn.Sequential(Block(), nn.Linear(4, 2)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data):
        loss = F.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""
OF_ITS_OWN = 'enabled=torch.device(device).type == "cuda"'


@pytest.mark.parametrize(
    "made",
    [
        "self.optimizer = torch.optim.Adam(self.parameters())",
        "self.optimizer = getattr(torch.optim, 'Adam')(self.parameters(), 0.1)",
        "self.optimizer = MAKERS['adam'](self.parameters(), 0.1)",
    ],
)
def test_a_program_that_borrows_a_block_of_a_training_decides_nothing_for_it(tmp_path, made):
    (tmp_path / "nets.py").write_text(NETS.replace("MADE", made))
    (tmp_path / "other.py").write_text(OTHER)
    nets, other = migrate_project([tmp_path], Options(api="torch.amp"))
    assert OF_ITS_OWN in nets.output.decode(), nets.findings
    assert 'GradScaler("cuda")' in other.output.decode(), other.findings


MAIN = """\
import torch
import torch.utils.data
from torch import nn
HEAD

def main():
    DEVICE
    model = nn.Linear(8, 1).MOVED
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, [(torch.randn(4, 8).MOVED, torch.ones(4, 1).MOVED)], optimizer)


if __name__ == "__main__":
    main()
"""
SHARED = """
def train(model, batches, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""
MADE = [
    'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    'torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")',
    'torch.device("cpu" if not torch.cuda.is_available() else "cuda:0")',
    '"cuda" if torch.cuda.is_available() else "cpu"',
]


def of_two_scripts(tmp_path, made, other, moved="to(device)"):
    first = MAIN.replace("HEAD\n", SHARED).replace("DEVICE", f"device = {made}").replace("MOVED", "to(device)")
    second = MAIN.replace("HEAD\n", "from first import train\n").replace("DEVICE", other).replace("MOVED", moved)
    (tmp_path / "first.py").write_text(first)
    (tmp_path / "second.py").write_text(second)
    return migrate_project([tmp_path], Options(api="torch.amp"))


@pytest.mark.parametrize("other", MADE)
@pytest.mark.parametrize("made", MADE)
def test_devices_that_ask_for_a_gpu_alike(tmp_path, made, other):
    first, second = of_two_scripts(tmp_path, made, f"place = {other}", "to(place)")
    for result in first, second:
        assert result.status == "migrated", result.findings
        assert 'GradScaler("cuda", enabled=torch.cuda.is_available())' in result.output.decode()


@pytest.mark.parametrize("made", MADE[:3])
def test_devices_of_modules_that_are_made_alike(tmp_path, made):
    known = f"device = {made}\n"
    (tmp_path / "first.py").write_text(
        MAIN.replace("DEVICE", "pass").replace("HEAD\n", known + SHARED).replace("MOVED", "to(device)")
    )
    second = (
        MAIN.replace("DEVICE", "pass")
        .replace("HEAD\n", known + "from first import train\n")
        .replace("MOVED", "to(device)")
    )
    (tmp_path / "second.py").write_text(second)
    for result in migrate_project([tmp_path], Options(api="torch.amp")):
        assert result.status == "migrated", result.findings
        assert 'GradScaler("cuda", enabled=device.type == "cuda")' in result.output.decode()


@pytest.mark.parametrize("made", MADE)
def test_beside_a_script_that_needs_a_gpu(tmp_path, made):
    for result in of_two_scripts(tmp_path, made, "pass", "cuda()"):
        assert result.status == "migrated", result.findings
        assert "GradScaler('cuda', enabled=" in result.output.decode().replace('"', "'")


def test_beside_a_script_that_needs_a_gpu_an_option_decides(tmp_path):
    made = 'torch.device("cuda" if torch.cuda.is_available() and "--slow" not in __import__("sys").argv else "cpu")'
    assert [one.status for one in of_two_scripts(tmp_path, made, "pass", "cuda()")] == ["left", "untouched"]
