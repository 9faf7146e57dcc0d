"""One of several functions trains, as a table has them: each takes the scaler where a call of the table gives it."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SOURCE = """\
import argparse

import torch
from torch import nn, optim


def train_a(loader, model, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()


def train_b(loader, model, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()


def val_a(loader, model):
    return model


def val_b(loader, model):
    return model


TRAIN = {"a": train_a, "b": train_b}


def main(args):
    model = nn.Linear(4, 2).cuda()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    TRAIN[args.mode]([], model, optimizer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode")
    main(parser.parse_args())
"""
PAIRS = 'TRAIN = {"a": (train_a, val_a), "b": (train_b, val_b)}'
TABLE = 'TRAIN = {"a": train_a, "b": train_b}'
CALL = "TRAIN[args.mode]([], model, optimizer)"

TABLES = {
    "called": (TABLE, CALL),
    "named": (TABLE, "train = TRAIN[args.mode]\n    train([], model, optimizer)"),
    "with get": (TABLE, "TRAIN.get(args.mode)([], model, optimizer)"),
    "asked before": (TABLE, f"assert args.mode in TRAIN.keys()\n    {CALL}"),
    "a part": (PAIRS, "TRAIN[args.mode][0]([], model, optimizer)"),
    "unpacked": (PAIRS, "train, val = TRAIN[args.mode]\n    train([], model, optimizer)\n    val([], model)"),
    "an expression": ("", "train = train_a if args.mode else train_b\n    train([], model, optimizer)"),
    "two of each": (
        "",
        "train, val = (train_a, val_a) if args.mode else (train_b, val_b)\n    train([], model, optimizer)",
    ),
}
OPEN = {
    "handed on": (TABLE, "run(TRAIN, model, optimizer)"),
    "gone through": (TABLE, "for train in TRAIN.values():\n        train([], model, optimizer)"),
    "added to": (TABLE, f'TRAIN["c"] = elsewhere.train\n    {CALL}'),
    "another kind": ('TRAIN = {"a": train_a, "b": train_b, "c": val_a}', CALL),
    "another place": (TABLE, CALL),
}


def migrated(table: str, call: str) -> str:
    source = SOURCE.replace(TABLE, table).replace(CALL, call)
    return migrate_source(source.encode(), Options(api="torch.amp")).output.decode()


@pytest.mark.parametrize(("table", "call"), TABLES.values(), ids=TABLES)
def test_each_takes_the_scaler(table, call):
    output = migrated(table, call)
    assert call.replace("model, optimizer)", "model, optimizer, scaler)") in output
    assert output.count("(loader, model, optimizer, scaler):") == 2


@pytest.mark.parametrize("name", OPEN)
def test_a_table_with_other_uses_is_left_alone(name):
    source = SOURCE.replace(TABLE, OPEN[name][0]).replace(CALL, OPEN[name][1])
    if name == "another place":
        source = source.replace("def train_b(loader, model, optimizer)", "def train_b(loader, optimizer, model)")
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "left"
    assert {"AMP998", "AMP999"}.isdisjoint(one.code for one in result.findings)


def test_a_table_that_another_file_imports(tmp_path):
    first, script = SOURCE.split("def main")
    files = {"tables.py": first, "run.py": "import argparse\n\nfrom tables import *\n\n\ndef main" + script}
    files["run.py"] = files["run.py"].replace("import *", "import TRAIN, nn, optim")
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = {one.path.rpartition("/")[2]: one for one in migrate_project([tmp_path], Options(api="torch.amp"))}
    assert b"TRAIN[args.mode]([], model, optimizer, scaler)" in results["run.py"].output
