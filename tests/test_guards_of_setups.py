"""The guard of a setup stays its guard, in whatever statements its objects are packed and taken apart."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import argparse
import torch
from apex import amp


class Fitter:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def fit(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.net(x.cuda()), y.cuda())
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
            self.optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    args = parser.parse_args()
    fitter = Fitter(torch.nn.Linear(8, 2).cuda())
    if args.fp16:
        {setup}
    fitter.fit([(torch.randn(4, 8), torch.randint(0, 2, (4,)))])


main()
"""
SETUPS = {
    "at once": ["fitter.net, fitter.optimizer = amp.initialize(fitter.net, fitter.optimizer, opt_level='O1')"],
    "by the elements of a pair": [
        "pair = amp.initialize(fitter.net, fitter.optimizer, opt_level='O1')",
        "fitter.net = pair[0]",
        "fitter.optimizer = pair[1]",
    ],
    "by a pair": [
        "pair = amp.initialize(fitter.net, fitter.optimizer, opt_level='O1')",
        "fitter.net, fitter.optimizer = pair",
    ],
}


@pytest.mark.parametrize("name", SETUPS)
def test_it_is_the_condition_of_mixed_precision(name):
    source = SCRIPT.format(setup="\n        ".join(SETUPS[name]))
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    text = result.output.decode()
    assert "use_amp = args.fp16\n" in text or "enabled=args.fp16" in text, text
    assert "if args.fp16" not in text


WITHOUT = """\
import sys

import torch

try:
    from apex import amp
except ImportError:
    amp = None

level = sys.argv[1]
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if level != "O0":
    if amp is None:
        {otherwise}
    else:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
loss = model(torch.randn(4, 8).cuda()).pow(2).mean()
if level != "O0":
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
else:
    loss.backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("otherwise", "is_said"), [('level = "O0"', True), ('raise ImportError("install apex")', False)]
)
def test_a_script_that_went_on_without_apex_is_told(otherwise, is_said):
    result = migrate_source(WITHOUT.format(otherwise=otherwise).encode(), Options())
    assert result.status == "migrated", result.findings
    assert ("AMP122" in [finding.code for finding in result.findings]) == is_said
