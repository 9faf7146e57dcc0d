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
