"""A name that an import binds, and then a `def` or another import: which of them does a call run?"""

from __future__ import annotations

import pytest

from amp_migrate import migrate_project
from tests.unit_fixture import write_tree

LOOP = """\
    for x, y in loader:
        loss = model(x, y)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""
TRAINER = f"from apex import amp\n\n\ndef do_train(model, loader, optimizer):\n{LOOP}"
OWN = f"def do_train(model, loader, optimizer):\n{LOOP}"
OTHER = "def do_train(model, loader, optimizer):\n    raise NotImplementedError\n"
TRAIN = """\
def train(model, loader):
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    do_train(model, loader, optimizer)
    return model
"""
HEAD = "import torch\nfrom apex import amp\n"
IMPORT = "from pkg.trainer import do_train\n"


def _statuses(folder, demo):
    script = HEAD + IMPORT + TRAIN
    files = {
        "demo.py": demo,
        "train_net.py": script,
        "pkg/__init__.py": "",
        "pkg/trainer.py": TRAINER,
        "pkg/other.py": OTHER,
    }
    write_tree(folder, {name: text.encode() for name, text in files.items()})
    results = {result.path.removeprefix(f"{folder}/"): result for result in migrate_project(str(folder))}
    return [results[name].status for name in ("demo.py", "train_net.py", "pkg/trainer.py")]


@pytest.mark.parametrize(
    "parts",
    [
        (IMPORT, OWN, TRAIN),
        (IMPORT, TRAIN, OWN),  # a function is read when it is called
        (IMPORT, TRAIN, OWN, "def main():\n    train(torch.nn.Linear(3, 2), [])\n", "main()\n"),
        (IMPORT, "setup = torch.device('cuda')\n", OWN, TRAIN),
        ("from pkg.trainer import do_train as do_train, amp\n", OWN, TRAIN),
        ("from pkg.other import do_train\n", OWN, TRAIN),
        ("from pkg.other import do_train\n", IMPORT, TRAIN),
        (IMPORT, "class Old:\n    base = do_train\n", OWN, TRAIN),
    ],
)
def test_the_last_one_is_called(tmp_path, parts):
    demo = HEAD + "\n\n".join(parts)
    assert _statuses(tmp_path, demo) == ["migrated"] * 3


@pytest.mark.parametrize(
    "parts",
    [
        (IMPORT, f"if torch.cuda.is_available():\n    {OWN.replace(chr(10), chr(10) + '    ').rstrip()}\n", TRAIN),
        (IMPORT, TRAIN, "train(torch.nn.Linear(3, 2), [])\n", OWN),  # the import's, and the own one from then on
        (IMPORT, TRAIN, "def main():\n    train(torch.nn.Linear(3, 2), [])\n", "main()\n", OWN),
    ],
)
def test_either_may_be_called(tmp_path, parts):
    assert _statuses(tmp_path, HEAD + "\n\n".join(parts))[0] == "left"
