"""A helper that keeps the state of a training is also called before there is an optimizer, or a scaler."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

SCRIPT = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--load", action="store_true")
parser.add_argument("--train", action="store_true")


class Session:
    def bind(self, save, load):
        self.save, self.load = save, load


def bind(session, model, {param}):
    def save(path):
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)

    def load(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        if optimizer is not None:
            optimizer.load_state_dict(state["optimizer"])

    session.bind(save, load)


def main():
    args = parser.parse_args()
    session = Session()
    model = torch.nn.Linear(8, 2)
    model.cuda()
    early = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.load:
        bind(session, model{early})
        session.load("model.pt")
    if args.train:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        bind(session, model, optimizer)
        for x, y in [(torch.randn(4, 8), torch.randint(0, 2, (4,)))]:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        session.save("model.pt")


main()
"""


def migrated(tmp_path, **parts):
    write_tree(tmp_path, {"train.py": SCRIPT.format(**parts).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    return result


@pytest.mark.parametrize(
    ("parts", "given"),
    [
        ({"param": "optimizer=None", "early": ""}, "bind(session, model)"),
        ({"param": "optimizer=None", "early": ", None"}, "bind(session, model, None)"),
        ({"param": "optimizer=None", "early": ", optimizer=None"}, "bind(session, model, optimizer=None)"),
        ({"param": "optimizer", "early": ", None"}, "bind(session, model, None, None)"),
    ],
)
def test_a_call_without_an_optimizer_gives_no_scaler(tmp_path, parts, given):
    result = migrated(tmp_path, **parts)
    assert result.status == "migrated", result.findings
    text = result.output.decode()
    assert given in text and "bind(session, model, optimizer, scaler)" in text


def test_where_one_gives_another_optimizer_the_checkpoint_stays_as_it_is(tmp_path):
    result = migrated(tmp_path, param="optimizer=None", early=", early")
    assert result.status == "migrated" and b"        bind(session, model, optimizer)\n" in result.output
    assert [one.code for one in result.findings] == ["AMP413"]
