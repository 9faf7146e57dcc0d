"""What a constructor hands to that of its base is what the base keeps: engines of one base have one device."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Engine:
    def __init__(self, config):
        self.config = config
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x, y):
        if self.config["use_cuda"] is True:
            x, y = x.cuda(), y.cuda()
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()


class Small(Engine):
    def __init__(self, config):
        self.model = nn.Linear(8, 1)
        if config["use_cuda"] is True:
            self.model.cuda()
        super(Small, self).__init__(config)


class Large(Engine):
    def __init__(self, config):
        self.model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
        if TEST:
            self.model.cuda()
        GIVEN
"""
TEST = 'config["use_cuda"] is True'
ONE = {
    "by position": (TEST, "super(Large, self).__init__(config)"),
    "of its own class": (TEST, "super().__init__(config)"),
    "by name": (TEST, "super().__init__(config=config)"),
    "by the base": (TEST, "Engine.__init__(self, config)"),
    "turned": ('not config["use_cuda"] is not True', "super().__init__(config)"),
}
SEVERAL = {
    "another": (TEST, "super().__init__(dict(config))"),
    "bound again": (TEST, "config = dict(config)\n        super().__init__(config)"),
    "another key": ('config["cuda"] is True', "super().__init__(config)"),
    "kept anew": (TEST, "super().__init__(config)\n        self.config = dict(config)"),
}


@pytest.mark.parametrize("name", ONE)
def test_the_condition_of_all_is_that_of_the_base(name):
    test, given = ONE[name]
    script = SCRIPT.replace("TEST", test).replace("GIVEN", given)
    result = migrate_source(script.encode(), Options(api="torch.amp"))
    assert 'GradScaler("cuda", enabled=config["use_cuda"] is True)' in result.output.decode(), result.findings


@pytest.mark.parametrize("name", SEVERAL)
def test_what_may_be_another_is_none(name):
    test, given = SEVERAL[name]
    script = SCRIPT.replace("TEST", test).replace("GIVEN", given)
    result = migrate_source(script.encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP966"], result.output.decode()
