"""What the program of a unit does not run: left out of sight where it alone prevents the migration of a plain loop."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

MAIN = """\
import torch
import helpers
from helpers import distance

net = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4).cuda()
    loss = distance(net(x), x.sum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HELPERS = """\
import torch


def distance(x, y):
    return (x.sum(1) - y).pow(2).mean()


"""
LIMIT = """\
def limit(net):
    for p in net.parameters():
        p.register_hook(lambda grad: grad.clamp(-1, 1))


"""
SELF_TEST = """\
if __name__ == "__main__":
    net = torch.nn.Linear(4, 2).cuda()
    distance(net(torch.randn(8, 4).cuda()), torch.zeros(8).cuda()).backward()
"""
TRAINER = """\
import torch
from helpers import distance


class Trainer:
    def __init__(self, net):
        self.net = net.cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self, batches):
        for x in batches:
            loss = distance(self.net(x.cuda()), x.sum(1).cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
USER = """\
import torch
from helpers import limit
from trainer import Trainer

net = torch.nn.Linear(4, 2)
limit(net)
Trainer(net).fit([torch.randn(8, 4)])
"""


def statuses(root, **files: str) -> dict[str, str]:
    write_tree(root, {f"{name}.py": text.encode() for name, text in files.items()})
    (root / ".git").mkdir()
    results = migrate_project([root], Options(api="torch.amp"))
    return {result.path.rpartition("/")[2]: result.status for result in results}


@pytest.mark.parametrize("extra", [LIMIT, SELF_TEST, LIMIT + SELF_TEST])
def test_what_does_not_run_does_not_count(tmp_path, extra):
    assert statuses(tmp_path, main=MAIN, helpers=HELPERS + extra)["main.py"] == "migrated"


@pytest.mark.parametrize(
    "line",
    [
        "helpers.limit(net)",
        "from helpers import limit as prepare\nprepare(net)",
        "getattr(helpers, 'limit')(net)",
        "import sys\ngetattr(helpers, sys.argv[1])(net)",
        "vars(helpers)['lim' + 'it'](net)",
        "eval('helpers.' + 'lim' + 'it')(net)",
    ],
)
def test_what_may_run_counts(tmp_path, line):
    main = MAIN.replace("for _", f"{line}\nfor _")
    assert statuses(tmp_path, main=main, helpers=HELPERS + LIMIT)["main.py"] == "left"


NETS = """\
from torch import nn
from drop import Drop


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""
DROP = """\
from torch import nn


class Drop(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x)
"""
LOADED = "import sys\nfrom nets import Net\nnet = torch.load(sys.argv[1]) if sys.argv[1:] else Net()\nnet.cuda()"


def test_a_class_that_is_imported_is_read_where_a_model_is_loaded_whole(tmp_path):
    """The self-test of another file keeps nothing else out of sight."""
    main = MAIN.replace("net = torch.nn.Linear(4, 2).cuda()", LOADED)
    files = {"main": main, "helpers": HELPERS + SELF_TEST, "nets": NETS, "drop": DROP}
    assert statuses(tmp_path, **files)["main.py"] == "migrated"


def test_a_method_called_eval_looks_nothing_up(tmp_path):
    own = "class Probe:\n    def eval(self, x):\n        return x\n\n\n"
    assert statuses(tmp_path, main=MAIN, helpers=HELPERS + own + LIMIT)["main.py"] == "migrated"


def test_a_self_test_of_the_script_itself_is_its_program(tmp_path):
    assert statuses(tmp_path, main=HELPERS + LIMIT + SELF_TEST)["main.py"] == "left"


def test_another_file_may_run_it_with_the_training(tmp_path):
    found = statuses(tmp_path, trainer=TRAINER, helpers=HELPERS + LIMIT, user=USER)
    assert found["trainer.py"] == "left"


CPU_TEST = """\
if __name__ == "__main__":
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        loss = distance(net(torch.randn(8, 4)), torch.zeros(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "status"),
    [(CPU_TEST, "untouched"), (CPU_TEST.replace("Linear(4, 2)", "Linear(4, 2).cuda()"), "migrated")],
)
def test_a_self_test_that_trains_is_asked_for_its_own_device(tmp_path, test, status):
    found = statuses(tmp_path, main=MAIN, helpers=HELPERS + test)
    assert found == {"main.py": "migrated", "helpers.py": status}


LIMITS = """\
class Limits:
    def __init__(self, nets):
        self.all = [Limits([net]) for net in nets[1:]]

    def set(self, net):
        for p in net.parameters():
            p.register_hook(lambda grad: grad.clamp(-1, 1))


"""


@pytest.mark.parametrize("extra", [LIMIT, LIMITS])
def test_what_nobody_refers_to_is_no_part_of_a_training_that_others_run(tmp_path, extra):
    user = USER.replace("from helpers import limit\n", "").replace("limit(net)\n", "")
    found = statuses(tmp_path, trainer=TRAINER, helpers=HELPERS + extra, user=user)
    assert found["trainer.py"] == "migrated"


def test_a_class_that_others_make_may_be_a_part_of_it(tmp_path):
    user = USER.replace("limit\n", "Limits\n").replace("limit(net)", "Limits([]).set(net)")
    found = statuses(tmp_path, trainer=TRAINER, helpers=HELPERS + LIMITS, user=user)
    assert found["trainer.py"] == "left"


def test_who_calls_the_training_is_a_part_of_it(tmp_path):
    main = "from helpers import limit\nfrom trainer import Trainer\n\n\ndef main(net, batches):\n    limit(net)\n"
    main += "    Trainer(net).fit(batches)\n"
    trainer = main.replace("from trainer import Trainer\n", "") + TRAINER.replace("from helpers import distance\n", "")
    trainer = "from helpers import distance\n" + trainer
    user = USER.replace("from helpers import limit\n", "").replace("limit(net)\n", "")
    found = statuses(tmp_path, trainer=trainer, helpers=HELPERS + LIMIT, user=user)
    assert found["trainer.py"] == "left"


OWN_AMP = {
    "a function": "def gram(x):\n    with {off}:\n        return x @ x.T\n",
    "another class": "class Other(torch.nn.Module):\n    def forward(self, x):\n        with {off}:\n            return x @ x.T\n",
    "a class of it": "class Other:\n    @custom_fwd\n    def forward(ctx, x):\n        with {off}:\n            return gram(x)\n",
}


@pytest.mark.parametrize("extra", OWN_AMP.values(), ids=OWN_AMP)
@pytest.mark.parametrize(
    "off", ["autocast(enabled=False)", "torch.cuda.amp.autocast(False)", "torch.autocast('cuda', enabled=False)"]
)
def test_native_amp_that_no_training_runs_decides_nothing(tmp_path, off, extra):
    helpers = HELPERS.replace("torch\n", "torch\nfrom torch.cuda.amp import autocast, custom_fwd\n", 1)
    found = statuses(tmp_path, main=MAIN, helpers=helpers + extra.format(off=off))
    assert found["main.py"] == "migrated"


@pytest.mark.parametrize(
    ("main", "helpers"),
    [
        (MAIN.replace("net(x),", "helpers.gram(net(x)),"), HELPERS + OWN_AMP["a function"]),
        (MAIN, HELPERS.replace("(x.sum(1)", "(gram(x).sum(1)") + OWN_AMP["a function"]),
        (MAIN.replace("net(x),", "getattr(helpers, name)(net(x)),"), HELPERS + OWN_AMP["a function"]),
        (MAIN, HELPERS.replace("    return", "    with {off}:\n        return")),
        (MAIN, HELPERS + "{off}.__enter__()\n"),
    ],
)
def test_native_amp_that_a_training_may_run_decides(tmp_path, main, helpers):
    found = statuses(tmp_path, main=main, helpers=helpers.format(off="torch.cuda.amp.autocast(enabled=False)"))
    assert found["main.py"] == "untouched"


LENDING = """\
class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.optimizer = {optimizer}

    def fit(self, batches):
        for x in batches:
            loss = self.layer(x.cuda()).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
RUN = "import torch\nfrom helpers import Trained\n\nTrained().cuda().fit([torch.randn(8, 4)])\n"
OPTIMIZERS = {"torch.optim.SGD(self.parameters(), lr=0.1)": "migrated", "torch.optim.LBFGS(self.parameters())": "left"}


@pytest.mark.parametrize("borrowing", ["a", "z"])
@pytest.mark.parametrize("running", ["b", "y"])
@pytest.mark.parametrize(("optimizer", "status"), OPTIMIZERS.items(), ids=OPTIMIZERS.values())
def test_a_file_that_lends_something_to_a_training_has_its_own(tmp_path, borrowing, running, optimizer, status):
    helpers = HELPERS + LENDING.format(optimizer=optimizer)
    found = statuses(tmp_path, **{borrowing: MAIN, running: RUN}, helpers=helpers)
    assert (found[f"{borrowing}.py"], found["helpers.py"]) == ("migrated", status)


PROBE = (
    MAIN.replace("net = ", "def main():\n    net = ", 1)
    .replace("\noptimizer = ", "\n    optimizer = ")
    .replace("\nfor _", "\n    for _")
    .replace("\n    x =", "\n        x =")
    .replace("\n    loss", "\n        loss")
    .replace("\n    optimizer.", "\n        optimizer.")
    + '\n\nif __name__ == "__main__":\n    main()\n'
)
AFTER_IT = MAIN + "import probe\nprobe.main()\n"


def test_a_script_that_another_one_runs_as_well_trains_beside_a_self_test(tmp_path):
    """`probe.py` is a program, although its last lines do not run where `main.py` imports it."""
    found = statuses(tmp_path, main=AFTER_IT, probe=PROBE, helpers=HELPERS + SELF_TEST)
    assert found == {"main.py": "migrated", "probe.py": "migrated", "helpers.py": "left"}
    written = [result.output for result in migrate_project([tmp_path], Options(api="torch.amp"))]
    assert sum(b"scaler.scale(loss).backward()" in output for output in written) == 2
