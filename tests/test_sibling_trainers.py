"""Classes with a common base, each with an optimizer of its own, train by one function that is no method."""

from __future__ import annotations

from amp_migrate import Options, migrate_source

SOURCE = """\
import torch
from torch import nn
from torch.optim import Adam, RMSprop


def update_params(optim, loss, networks, retain_graph=False, grad_cliping=None):
    optim.zero_grad()
    loss.backward(retain_graph=retain_graph)
    if grad_cliping:
        for net in networks:
            torch.nn.utils.clip_grad_norm_(net.parameters(), grad_cliping)
    optim.step()


class BaseAgent:
    def __init__(self, cuda=True):
        self.device = torch.device("cuda" if cuda and torch.cuda.is_available() else "cpu")

    def run(self):
        for _ in range(10):
            self.learn()

    def learn(self):
        raise NotImplementedError


class Agent(BaseAgent):
    def __init__(self, cuda=True):
        super(Agent, self).__init__(cuda)
        self.net = nn.Linear(4, 2).to(self.device)
        self.optim = Adam(self.net.parameters(), lr=0.1)

    def learn(self):
        x = torch.randn(4, 4).to(self.device)
        loss, errors = self.calculate_loss(x)
        update_params(self.optim, loss, networks=[self.net], grad_cliping=5.0)

    def calculate_loss(self, x):
        out = self.net(x)
        with torch.no_grad():
            target = self.net(x)
        return (out - target).pow(2).mean(), out.detach().abs()


class Other(BaseAgent):
    def __init__(self, cuda=True):
        super(Other, self).__init__(cuda)
        self.net = nn.Linear(4, 2).to(self.device)
        self.head = nn.Linear(2, 2).to(self.device)
        self.head_optim = RMSprop(self.head.parameters(), lr=0.1)
        self.net_optim = Adam(self.net.parameters(), lr=0.1)

    def learn(self):
        x = torch.randn(4, 4).to(self.device)
        out = self.calculate_loss(x)[0]
        head_loss = self.head(out.detach()).pow(2).mean()
        loss = out.pow(2).mean()
        update_params(self.head_optim, head_loss, networks=[self.head], retain_graph=True, grad_cliping=5.0)
        update_params(self.net_optim, loss, networks=[self.net], retain_graph=False, grad_cliping=5.0)

    def calculate_loss(self, x):
        return self.net(x), None


def run(args):
    agent = Other(cuda=args.cuda) if args.other else Agent(cuda=args.cuda)
    agent.run()


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--other", action="store_true")
    run(parser.parse_args())
"""


def test_each_makes_its_loss_under_autocast_and_has_the_scaler_of_the_base():
    output = migrate_source(SOURCE.encode(), Options(api="torch.amp")).output.decode()
    line = "        self.scaler = torch.amp.GradScaler("
    assert output.count(line) == 1 and output.index(line) < output.index("class Agent(")
    region = '        with torch.amp.autocast("cuda", enabled=self.scaler.is_enabled()):\n            '
    assert region + "loss, errors = self.calculate_loss(x)\n" in output
    assert region + "out = self.calculate_loss(x)[0]\n" in output
    assert output.count("self.scaler, ") == 3
