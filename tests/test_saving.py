"""A wrapper around an optimizer whose `state_dict` is that of the optimizer saves nothing itself."""

from __future__ import annotations

import ast

import pytest

from amp_migrate.files.saving import saves_given

CLASS = """\
class Wrapper:
    def __init__(self, optimizer):
        self.optim = optimizer

{methods}
"""
HANDS_ON = [
    "    def state_dict(self):\n        return self.optim.state_dict()\n",
    '    def state_dict(self):\n        """That of the optimizer."""\n        return self.optim.state_dict()\n',
    "    def state_dict(self, *args):\n        return self.optim.state_dict(*args)\n",
    "    def load_state_dict(self, state):\n        self.optim.load_state_dict(state)\n",
    "    def step(self):\n        self.optim.step()\n",
]
SAVES = [
    "    def save(self, path):\n        torch.save(self.optim.state_dict(), path)\n",
    "    def state_dict(self):\n        return {'optimizer': self.optim.state_dict()}\n",
    "    def load(self, state):\n        self.optim.load_state_dict(state)\n",
    "    def state_dict(self):\n        torch.save(self.optim.state_dict(), 'a.pth')\n        return {}\n",
]


def _saves(methods):
    return saves_given(ast.parse(CLASS.format(methods=methods)).body[0], 0)


@pytest.mark.parametrize("methods", [*HANDS_ON, "\n".join(HANDS_ON)])
def test_what_hands_a_state_on_saves_none(methods):
    assert not _saves(methods)


@pytest.mark.parametrize("methods", [*SAVES, HANDS_ON[0] + "\n" + SAVES[0]])
def test_what_saves_is_found(methods):
    assert _saves(methods)
