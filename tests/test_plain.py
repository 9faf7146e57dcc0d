"""Plain float32 loops: which are none of our business, which are left alone by name, and the device's decision."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

START = """\
import torch
from torch import nn, optim
model = nn.Linear(4, 2).cuda()
optimizer = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4).cuda()
"""
STEP = """\
loss = model(x).pow(2).mean()
loss.backward()
optimizer.step()
"""

LEFT_ALONE = {
    "a test": (
        "AMP950",
        START + "def test_training():\n    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()",
    ),
    "callers unknown": (
        "AMP951",
        "def train(model, optimizer, batches):\n    for x in batches:\n        loss = model(x.cuda()).mean()\n"
        "        loss.backward()\n        optimizer.step()\nimport torch\n",
    ),
    "optimizer unknown": (
        "AMP952",
        START.replace("optim.SGD(model.parameters(), lr=0.1)", "load()") + "from store import load\n" + STEP,
    ),
    "a closure": (
        "AMP953",
        START
        + "def closure():\n    loss = model(x).sum()\n    loss.backward()\n    return loss\noptimizer.step(closure)",
    ),
    "LBFGS": ("AMP953", START.replace("SGD", "LBFGS") + STEP),
    "SAM": ("AMP953", START + STEP + "optimizer.first_step(zero_grad=True)\n"),
    "float64": ("AMP954", START + "model.double()\n" + STEP),
    "float64 by default": ("AMP954", START + "torch.set_default_dtype(torch.float64)\n" + STEP),
    "a Hessian": ("AMP955", START + STEP.replace("backward()", "backward(create_graph=True)")),
    "gradients of an update": (
        "AMP955",
        START + "grads = torch.autograd.grad(model(x).sum(), list(model.parameters()), create_graph=True)\n" + STEP,
    ),
    "K-FAC": (
        "AMP955",
        "from kfac import KFACOptimizer\n"
        + START.replace("optim.SGD(model.parameters(), lr=0.1)", "KFACOptimizer(model)")
        + STEP,
    ),
    "Hogwild": ("AMP956", START + "model.share_memory()\n" + STEP),
    "saliency": ("AMP957", START + "model(x).max().backward()\nprint(x.grad)\n"),
    "a hook": ("AMP958", START + "model.weight.register_hook(print)\n" + STEP),
    "an input's gradient": ("AMP958", START + "x.requires_grad_()\n" + STEP + "adversarial = x + x.grad.sign()\n"),
    "an update by hand": (
        "AMP959",
        START + "model(x).sum().backward()\nfor p in model.parameters():\n    p.data.add_(p.grad, alpha=-0.1)\n",
    ),
    "another update by hand": (
        "AMP959",
        START
        + "model(x).sum().backward()\nwith torch.no_grad():\n    for p in model.parameters():\n        p -= 0.1 * p.grad\n",
    ),
    "gradients given by hand": (
        "AMP959",
        START
        + "grads = torch.autograd.grad(model(x).sum(), model.parameters())\n"
        + "for p, g in zip(model.parameters(), grads):\n    p.grad = g\noptimizer.step()\n",
    ),
    "Accelerate": (
        "AMP960",
        "from accelerate import Accelerator\naccelerator = Accelerator()\n"
        + START
        + STEP.replace("loss.backward()", "accelerator.backward(loss)"),
    ),
    "DeepSpeed": (
        "AMP960",
        "import deepspeed\n"
        + START
        + "engine, *_ = deepspeed.initialize(model=model)\n"
        + STEP.replace("loss.backward()", "engine.backward(loss)"),
    ),
    "ignite": (
        "AMP960",
        "from ignite.engine import create_supervised_trainer\n"
        + START
        + "create_supervised_trainer(model, optimizer, nn.MSELoss()).run([(x, x)])\n"
        + STEP,
    ),
    "torch 0.3": ("AMP961", START + STEP + "print(loss.data[0])\n"),
    "torch 0.4": ("AMP961", "from torch.utils.serialization import load_lua\n" + START + STEP),
    "Python 2": ("AMP961", START + "for i in xrange(3):\n    " + STEP.replace("\n", "\n    ")),
    "a list of losses by its name": (
        "AMP964",
        START + STEP.replace("loss.backward()", "losses = [loss, loss]\ntorch.autograd.backward(losses)"),
    ),
    "a list in a list": (
        "AMP964",
        START + STEP.replace("loss.backward()", "torch.autograd.backward([*losses])"),
    ),
    "gradients of its own": (
        "AMP964",
        START + STEP.replace("loss.backward()", "torch.autograd.backward(loss, torch.ones(()).cuda())"),
    ),
    "probabilities of elsewhere": (
        "AMP967",
        "from models import Net\n"
        + START.replace("nn.Linear(4, 2)", "Net()")
        + STEP.replace("model(x).pow(2).mean()", "model(x)\nloss = nn.functional.binary_cross_entropy(loss, x)"),
    ),
    "a penalty on the graph of the loss": (
        "AMP968",
        START
        + "x.requires_grad_()\nout = model(x)\n"
        + "g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]\n"
        + STEP.replace("model(x).pow(2).mean()", "out.mean() + g.pow(2).sum()"),
    ),
    "a loss on the CPU": ("AMP969", START + STEP.replace("model(x)", "model(x).cpu()")),
    "an own thread": (
        "AMP924",
        "import threading\n" + START + "def work():\n    model(x)\nthreading.Thread(target=work).start()\n" + STEP,
    ),
    "remote calls": (
        "AMP924",
        "from torch.distributed.rpc import rpc_sync\n"
        + START
        + "def act(x):\n    return model(x)\nrpc_sync('worker', act, args=(x,))\n"
        + STEP,
    ),
}


# The gradient of a penalty is taken where the critic runs for the loss: in what is called, not where it is called.
PENALIZED = """\
import torch
from torch import autograd, nn, optim


def penalty(critic, x):
    x = x.requires_grad_()
    gradient = autograd.grad(critic(x).sum(), x, create_graph=True)[0]
    return gradient.pow(2).sum()


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Linear(4, 1)

    def forward(self, x):
        return self.critic(x).mean() + penalty(self.critic, x)


def losses_of(model, x):
    return model(x).mean() + penalty(model, x)


"""
OF_LOSSES = """\
model = Losses().cuda()
optimizer = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4).cuda()
loss = model(x)
loss.backward()
optimizer.step()
"""
BY_METHOD = PENALIZED.replace(
    "penalty(self.critic, x)\n", "self.of(x)\n\n    def of(self, x):\n        return penalty(self.critic, x)\n"
)
PENALTIES_INSIDE = {
    "a forward": PENALIZED + OF_LOSSES,
    "a forward of its base": PENALIZED
    + "class Mine(Losses):\n    pass\n\n\n"
    + OF_LOSSES.replace("Losses()", "Mine()"),
    "a method of a forward": BY_METHOD + OF_LOSSES,
    "in parallel": PENALIZED + OF_LOSSES.replace("Losses().cuda()", "nn.DataParallel(Losses().cuda())"),
    "forward by name": PENALIZED + OF_LOSSES.replace("model(x)", "model.forward(x)"),
    "on a field": PENALIZED
    + "class Run:\n    def __init__(self):\n        self.model = Losses().cuda()\n"
    + "        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1)\n\n"
    + "    def step(self, x):\n        loss = self.model(x)\n        loss.backward()\n        self.optimizer.step()\n\n"
    + "Run().step(torch.randn(8, 4).cuda())\n",
    "a helper": PENALIZED + OF_LOSSES.replace("Losses()", "nn.Linear(4, 1)").replace("model(x)", "losses_of(model, x)"),
}


@pytest.mark.parametrize("source", PENALTIES_INSIDE.values(), ids=PENALTIES_INSIDE)
def test_a_penalty_inside_what_is_called_for_the_loss(source):
    result = migrate_source(source.encode(), Options())
    assert (result.status, [finding.code for finding in result.findings]) == ("left", ["AMP968"])


@pytest.mark.parametrize("name", ["Losses", "Both"])
def test_only_the_forward_with_a_penalty_stays_out(name):
    source = PENALIZED + OF_LOSSES.replace("model = Losses()", "body = nn.Linear(4, 4).cuda()\nmodel = Losses()")
    source = source.replace("optim.SGD(model.parameters()", "optim.SGD([*model.parameters(), *body.parameters()]")
    source = source.replace("loss = model(x)", "h = body(x)\nloss = model(h)").replace("Losses", name)
    output = migrate_source(source.encode(), Options()).output.decode()
    assert "with torch.cuda.amp.autocast():\n    h = body(x)\nloss = model(h.float())\nscaler" in output


WRAPPED_STEP = "class Run:\n    def step(self, closure=None):\n        optimizer.step(closure)\n"


@pytest.mark.parametrize(
    "before, step",
    [
        ("", "optimizer.step(None)"),
        ("", "optimizer.step(closure=None)"),
        (WRAPPED_STEP, "Run().step()"),
        (WRAPPED_STEP, "Run().step(None)"),
        (WRAPPED_STEP, "Run().step(closure=None)"),
    ],
)
def test_none_is_no_closure(before, step):
    result = migrate_source((START + before + STEP.replace("optimizer.step()", step)).encode(), Options())
    assert result.status == "migrated", result.findings
    assert "scaler.step(optimizer)\n" in result.output.decode()


@pytest.mark.parametrize("code, source", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_left_alone_by_name(code, source):
    result = migrate_source(source.encode(), Options())
    assert (result.status, [finding.code for finding in result.findings]) == ("left", [code])
    assert result.output == result.source


UNTOUCHED = {
    "no GPU": START.replace(".cuda()", "") + STEP,
    "a GPU in a message": START.replace(".cuda()", "") + "print(torch.cuda.is_available())\n" + STEP,
    "seeds": START.replace(".cuda()", "") + "torch.cuda.manual_seed_all(0)\n" + STEP,
    "where checkpoints go": START.replace(".cuda()", "") + "torch.load('x', map_location='cuda')\n" + STEP,
    "native AMP": START + "scaler = torch.cuda.amp.GradScaler()\n" + STEP,
    "native AMP in a function": START + "def f():\n    with torch.autocast('cuda'):\n        pass\n" + STEP,
    "no backward": START,
    "a backward in a text": START + "text = 'loss.backward()'\n",
}


@pytest.mark.parametrize("source", UNTOUCHED.values(), ids=UNTOUCHED)
def test_none_of_our_business(source):
    result = migrate_source(source.encode(), Options())
    assert (result.status, result.findings, result.output) == ("untouched", (), result.source)


MODEL = "import torch\nfrom torch import nn, optim\nimport argparse\nmodel = nn.Linear(4, 2)\nx = torch.randn(8, 4)\n"
FLAG = "parser = argparse.ArgumentParser()\nparser.add_argument('--gpu', action='store_true')\nargs = parser.parse_args()\n"
ENABLED = {
    "always": ("model.cuda()", ""),
    "a device that is one": ("device = torch.device('cuda:0')\nmodel.to(device)", ""),
    "a flag around the move": (FLAG + "if args.gpu:\n    model.cuda()", "enabled=args.gpu"),
    "a flag of its own": ("use_cuda = torch.cuda.is_available()\nif use_cuda:\n    model.cuda()", "enabled=use_cuda"),
    "availability": ("if torch.cuda.is_available():\n    model.cuda()", "enabled=torch.cuda.is_available()"),
    "the other arm": (FLAG + "if not args.gpu:\n    pass\nelse:\n    model.cuda()", "enabled=args.gpu"),
    "every arm": (FLAG + "if args.gpu:\n    model.cuda()\nelse:\n    model = nn.DataParallel(model).cuda()", ""),
    "a device": (
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nmodel.to(device)",
        "enabled=device.type == 'cuda'",
    ),
    "a device beside something else": (
        "device, seed = torch.device('cuda' if torch.cuda.is_available() else 'cpu'), 3\nmodel.to(device)",
        "enabled=device.type == 'cuda'",
    ),
    "a device by a flag": (
        FLAG + "device = torch.device('cuda' if args.gpu else 'cpu')\nmodel.to(device)",
        "enabled=args.gpu",
    ),
    "a string": (
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nmodel.to(device)",
        "enabled=torch.device(device).type == 'cuda'",
    ),
    "a device in a dict": (
        FLAG + "own = {'device': 'cuda' if args.gpu else 'cpu'}\nmodel.to(own['device'])",
        "enabled=args.gpu",
    ),
    "a test that names no device": (FLAG + "if x is not None:\n    model.cuda()", "enabled=x is not None"),
}


@pytest.mark.parametrize("move, enabled", ENABLED.values(), ids=ENABLED)
def test_the_scripts_own_decision(move, enabled):
    source = MODEL + move + "\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n" + STEP
    result = migrate_source(source.encode(), Options())
    assert result.status == "migrated", result.findings
    assert f"scaler = torch.cuda.amp.GradScaler({enabled})\n" in result.output.decode()


SET, CUDA, WRAPPED = "args.gpu = gpu\n", "model.cuda(args.gpu)", "model = nn.DataParallel(model).cuda()"
SPREAD = "if args.spread:\n    if args.gpu is not None:\n        {}\n    else:\n        {}\n"
BY_NUMBER = {
    "in each arm": (
        SET + SPREAD + "elif args.gpu is not None:\n    {}\nelse:\n    {}",
        [CUDA, "model.cuda()", CUDA, WRAPPED],
        "",
    ),
    "no inner else": (
        SET + "if args.spread:\n    {}\nelif args.gpu is not None:\n    {}\nelse:\n    {}",
        [CUDA, CUDA, WRAPPED],
        "",
    ),
    "inner arms alone": (SET + SPREAD + "else:\n    {}", [CUDA, WRAPPED, WRAPPED], ""),
    "the number itself": (
        SPREAD.replace("args.gpu", "gpu") + "elif gpu is not None:\n    {}\nelse:\n    {}",
        ["model.cuda(gpu)", "model.cuda()", "model.cuda(gpu)", WRAPPED],
        "",
    ),
    "the CPU without a number": (
        SET + SPREAD + "elif args.gpu is not None:\n    {}\nelse:\n    {}",
        [CUDA, "pass", CUDA, "pass"],
        "enabled=args.gpu is not None",
    ),
    "the CPU when not spread": (
        SET + "if args.spread:\n    {}\nelif args.cuda:\n    {}",
        [CUDA, CUDA],
        "enabled=next(model.parameters()).is_cuda",
    ),
}


@pytest.mark.parametrize(("layout", "arms", "enabled"), BY_NUMBER.values(), ids=BY_NUMBER)
def test_arms_that_are_all_on_a_gpu_ask_for_none(layout, arms, enabled):
    options = FLAG.replace("'--gpu', action='store_true'", "'--gpu', type=int")
    options += "parser.add_argument('--spread', action='store_true')\n"
    body = layout.format(*arms) + "\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n" + STEP
    main = "def main(gpu, args):\n    model = nn.Linear(4, 2)\n"
    main += "".join(f"    {line}\n" for line in body.splitlines()) + "main(args.gpu, args)\n"
    result = migrate_source((MODEL + options + main).encode(), Options())
    assert result.status == "migrated", result.findings
    assert f"scaler = torch.cuda.amp.GradScaler({enabled})\n" in result.output.decode()


def test_an_update_of_its_own_that_ignite_calls():
    update = "def update(engine, x):\n    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    source = "from ignite.engine import Engine\n" + START + update + "Engine(update).run([x])\n"
    result = migrate_source(source.encode(), Options())
    assert (result.status, result.findings) == ("migrated", ())
    assert "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n" in result.output.decode()


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
@pytest.mark.parametrize("move", ["model.to(device)", "if device:\n        model.to(device)"])
def test_a_device_that_a_call_gives_is_asked_for_nowhere(device, move):
    train = f"def train(model, optimizer, batches, device='cpu'):\n    {move}\n"
    steps = "optimizer.zero_grad()\n" + STEP.replace("(x)", "(x.to(device))")
    loop = "    for x in batches:\n" + "".join(f"        {line}\n" for line in steps.splitlines())
    main = "def main():\n    model = nn.Linear(4, 2)\n    optimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    call = f"    train(model, optimizer, [torch.randn(8, 4)], device={device!r})\nmain()\n"
    source = "import torch\nfrom torch import nn, optim\n" + train + loop + main + call
    result = migrate_source(source.encode(), Options())
    assert result.status == "migrated", result.findings
    assert "scaler = torch.cuda.amp.GradScaler()\n" in result.output.decode()


@pytest.mark.parametrize(
    "device, test, is_left",
    [
        ("'cuda'", "device", False),
        ("'cuda:1'", "device is not None", False),
        ("torch.device('cuda')", "device", False),
        ("'cuda'", "device != ''", False),
        ("'cuda'", "device == 'cuda'", True),  # a switch, turned by hand
        ("'cuda'", "device and torch.cuda.is_available()", True),
    ],
)
def test_a_test_that_holds_for_each_device_asks_for_none(device, test, is_left):
    train = "def train(model, optimizer, batches):\n    device = " + device + "\n"
    move = f"    if {test}:\n        if torch.cuda.device_count() > 1:\n            model = nn.DataParallel(model)\n"
    steps = "        model.to(device)\n    for x in batches:\n        optimizer.zero_grad()\n"
    loop = "".join(f"        {line}\n" for line in STEP.replace("(x)", "(x.cuda())").splitlines())
    main = "def main():\n    model = nn.Linear(4, 2)\n    optimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    call = "    train(model, optimizer, [torch.randn(8, 4)])\nmain()\n"
    source = "import torch\nfrom torch import nn, optim\n" + train + move + steps + loop + main + call
    result = migrate_source(source.encode(), Options())
    assert result.status == ("left" if is_left else "migrated"), result.findings
    assert is_left or "scaler = torch.cuda.amp.GradScaler()\n" in result.output.decode()


def test_the_output_is_left_alone():
    result = migrate_source((START + STEP).encode(), Options())
    again = migrate_source(result.output, Options())
    assert (again.status, again.findings, again.output) == ("untouched", (), result.output)


def test_a_state_that_is_loaded_before_its_optimizer_is_made():
    resume = "def resume():\n    checkpoint = torch.load('f')\n    optimizer.load_state_dict(checkpoint['o'])\n"
    made = "optimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    source = START.replace(made, resume + "if options.resume:\n    resume()\n" + made) + STEP
    result = migrate_source((source + "torch.save({'o': optimizer.state_dict()}, 'f')\n").encode(), Options())
    assert (result.status, [one.code for one in result.findings]) == ("migrated", ["AMP413"])


@pytest.mark.parametrize(("between", "count"), [("d['net'] = 1\n", 1), ("torch.save(d, 'g')\n", 2)])
def test_the_scaler_is_saved_once_in_a_dict_that_is_filled_key_by_key(between, count):
    save = (
        f"d = {{}}\nd['o'] = optimizer.state_dict()\n{between}d['again'] = optimizer.state_dict()\ntorch.save(d, 'f')\n"
    )
    output = migrate_source((START + STEP + save).encode(), Options()).output.decode()
    assert output.count("d['scaler'] = scaler.state_dict()") == count


@pytest.mark.parametrize(("load", "is_saved"), [("torch.load('f')", False), ("json.load(open('f'))", True)])
def test_a_checkpoint_that_becomes_keywords_gets_no_key(load, is_saved):
    more = f"def resume():\n    data = {load}\n    return State(**data)\n"
    more += "torch.save({'optimizer': optimizer.state_dict()}, 'f')\n"
    result = migrate_source((START + STEP + more).encode(), Options())
    assert ("'scaler': scaler.state_dict()" in result.output.decode()) == is_saved
    assert ("AMP413" in {one.code for one in result.findings}) != is_saved


def test_the_scaler_is_loaded_after_a_load_of_what_has_a_name_of_its_own():
    resume = "checkpoint = torch.load('f')\nstate = checkpoint['o']\noptimizer.load_state_dict(state)\n"
    source = START + resume + STEP + "torch.save({'o': optimizer.state_dict()}, 'f')\n"
    assert resume + "if checkpoint.get('scaler'):\n" in migrate_source(source.encode(), Options()).output.decode()


def test_the_scaler_is_loaded_after_a_load_whose_result_is_kept():
    resume = "checkpoint = torch.load('f')\nmissing = optimizer.load_state_dict(checkpoint['o'])\n"
    source = START + resume + STEP + "torch.save({'o': optimizer.state_dict()}, 'f')\n"
    result = migrate_source(source.encode(), Options())
    assert result.status == "migrated", result.findings
    assert resume + "if checkpoint.get('scaler'):\n" in result.output.decode()


@pytest.mark.parametrize(
    ("line", "status"), [("", "migrated"), ("GradScaler(enabled=False)\n", "untouched"), ("@autocast()\n", "untouched")]
)
def test_an_import_of_native_amp_that_nothing_uses_decides_nothing(line, status):
    start = START.replace("torch\n", "torch\nfrom torch.cuda.amp import autocast, GradScaler\n", 1)
    source = start + line + "def forward(x):\n    return model(x)\n" + STEP.replace("model(x)", "forward(x)")
    assert migrate_source(source.encode(), Options()).status == status


PLAYERS = """\
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


class Player:
    def __init__(self, net):
        self.opt = torch.optim.Adam(net.parameters(), 0.1)


gen, dis = nn.Linear(4, 6).cuda(), nn.Linear(6, 1).cuda()
{make}
for _ in range(3):
    {dis}.zero_grad()
    fake = gen(torch.randn(8, 4).cuda())
    loss = dis(fake.detach()).mean()
    loss.backward()
    clip_grad_norm_(dis.parameters(), 1.0)
    {dis}.step()
    {gen}.zero_grad()
    loss = -dis(fake).mean()
    loss.backward()
    clip_grad_norm_(gen.parameters(), 1.0)
    {gen}.step()
"""
MADE_IN_ONE_PLACE = [
    ("g, d = Player(gen), Player(dis)", "g.opt", "d.opt"),
    ("opts = {n: torch.optim.Adam(m.parameters()) for n, m in (('g', gen), ('d', dis))}", "opts['g']", "opts['d']"),
    ("opt_g, opt_d = [torch.optim.Adam(m.parameters()) for m in (gen, dis)]", "opt_g", "opt_d"),
]


@pytest.mark.parametrize(("make", "gen", "dis"), MADE_IN_ONE_PLACE)
def test_what_is_unscaled_is_what_is_stepped_next(make, gen, dis):
    result = migrate_source(PLAYERS.format(make=make, gen=gen, dis=dis).encode(), Options())
    assert result.status == "migrated", result.findings
    lines = result.output.decode().splitlines()
    unscaled = [line.rpartition("unscale_")[2] for line in lines if "unscale_(" in line]
    assert unscaled == [f"({dis})", f"({gen})"]


@pytest.mark.parametrize(("make", "gen", "dis"), MADE_IN_ONE_PLACE)
def test_optimizers_of_one_place_that_step_together_are_not_told_apart(make, gen, dis):
    source = PLAYERS.format(make=make, gen=gen, dis=dis)
    together = source.replace(f"    {dis}.step()\n", "").replace(
        f"    {gen}.step()", f"    {dis}.step()\n    {gen}.step()"
    )
    result = migrate_source(together.encode(), Options())
    assert (result.status, {one.code for one in result.findings}) == ("left", {"AMP904"})


# A round of the training may replace its optimizer: the scaler is that of the whole training all the same.
REPLACED = """\
import torch
from torch import nn, optim


def {name}(net, optimizer, step):
    optimizer.zero_grad()
    loss = net(torch.randn(8, 6).cuda()).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step == 3:
        optimizer = optim.SGD(net.parameters(), lr=0.1)
    return optimizer


net = nn.Linear(6, 2).cuda()
optimizer = optim.Adam(net.parameters())
for step in range(6):
    optimizer = {call}(optimizer, step)
"""


@pytest.mark.parametrize(
    "source",
    [
        REPLACED.format(name="train", call="train(net, optimizer, step)").replace(")(optimizer, step)", ")"),
        REPLACED.format(name="train", call="part").replace(
            "    optimizer = part", "    part = partial(train, net)\n    optimizer = part"
        )
        + "from functools import partial\n",
    ],
)
def test_an_optimizer_that_is_replaced_in_a_helper_keeps_the_scaler(source):
    result = migrate_source(source.encode(), Options())
    output = result.output.decode()
    assert (result.status, output.count("GradScaler()")) == ("migrated", 1)
    assert "optimizer = optim.Adam(net.parameters())\nscaler = torch.cuda.amp.GradScaler()\nfor step" in output


# The argument goes to the call that gives the one before it: to the `partial`, or to the call of what that makes.
BOUND = """\
from functools import partial

import torch
from torch import nn, optim


def train(net, optimizer, x):
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    net = nn.Linear(6, 2).cuda()
    optimizer = optim.Adam(net.parameters())
    part = partial({bound})
    for x in torch.randn(3, 8, 6).cuda():
        part({given})


main()
"""


@pytest.mark.parametrize(
    "bound, given, expected",
    [
        ("train, net", "optimizer, x", "part(optimizer, scaler, x)"),
        ("train, net, optimizer", "x", "partial(train, net, optimizer, scaler)"),
        ("train", "net, optimizer, x", "part(net, optimizer, scaler, x)"),
        ("train, net", "x=x, optimizer=optimizer", "part(x=x, optimizer=optimizer, scaler=scaler)"),
        ("train, optimizer=optimizer", "net, x=x", "partial(train, optimizer=optimizer, scaler=scaler)"),
    ],
)
def test_the_scaler_goes_through_a_partial(bound, given, expected):
    result = migrate_source(BOUND.format(bound=bound, given=given).encode(), Options())
    assert (result.status, result.findings) == ("migrated", ())
    assert expected in result.output.decode()


# The generator's optimizer steps in rounds in which no gradient has reached it: the critic's loss has none for it.
CRITIC_ALONE = """\
import torch
from torch import nn


def detached(value):
    return value.detach()


@torch.no_grad()
def made_by(net, x):
    return net(x)


def scored(net, real, fake):
    return net(fake).mean() - net(real).mean()


def scores(net, real, fake):
    out = {{"real": net(real), "fake": net(fake)}}
    out["loss"] = out["fake"].mean() - out["real"].mean()
    return out


class Losses:
    def __init__(self, net):
        self.net = net

    def of(self, real, fake):
        self.fake = fake
        return self.net(self.fake).mean() - self.net(real).mean()


generator, critic = nn.Linear(4, 6).cuda(), nn.Linear(6, 1).cuda()
optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
optimizer_d = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
losses = Losses(critic)
for step in range(6):
    optimizer_g.zero_grad()
    optimizer_d.zero_grad()
    noise, real = torch.randn(8, 4).cuda(), torch.randn(8, 6).cuda()
    fake = generator(noise)
    loss_d = {loss}
    loss_d.backward()
    optimizer_d.step()
    if step % 2 == 0:
        loss_g = -critic(fake).mean()
        loss_g.backward()
    optimizer_g.step()
"""
WITHOUT_THE_GENERATOR = [
    "critic(fake.detach()).mean() - critic(real).mean()",
    "scored(critic, real, fake.detach())",
    "scored(critic, real, detached(fake))",
    "scored(critic, real, made_by(generator, noise))",
    "scores(critic, real, fake.data)['loss']",
    "losses.of(real, fake.detach())",
]
WITH_THE_GENERATOR = [
    "critic(fake).mean() - critic(real).mean()",
    "scored(critic, real, fake)",
    "scored(critic, real, generator(noise))",
    "scores(critic, real, fake)['loss']",
    "losses.of(real, fake)",
]


@pytest.mark.parametrize("loss", WITHOUT_THE_GENERATOR)
def test_a_step_that_no_gradient_reaches(loss):
    result = migrate_source(CRITIC_ALONE.format(loss=loss).encode(), Options())
    assert (result.status, [finding.code for finding in result.findings]) == ("migrated", ["AMP127"])
    assert "    scaler.step(optimizer_d)\n" in result.output.decode()
    assert "        scaler.step(optimizer_g)\n    scaler.update()\n" in result.output.decode()


@pytest.mark.parametrize("loss", WITH_THE_GENERATOR)
def test_a_step_that_the_gradient_of_another_loss_reaches(loss):
    result = migrate_source(CRITIC_ALONE.format(loss=loss).encode(), Options())
    assert not {"AMP127", "AMP921"} & {finding.code for finding in result.findings}


@pytest.mark.parametrize(
    "named", ["(loss := model(x).pow(2).mean()).backward()", "(total := model(x).pow(2).mean()).backward()"]
)
def test_a_loss_that_is_named_where_its_backward_is_called(named):
    result = migrate_source((START + named + "\noptimizer.step()\n").encode(), Options())
    name = named[1:].partition(" ")[0]
    assert result.status == "migrated"
    assert f"    {name} = model(x).pow(2).mean()\nscaler.scale({name}).backward()\n" in result.output.decode()


# A backward that only makes layers of a shape that the data decides: nothing steps on its gradients.
PREPARED = """\
import torch
from torch import nn


class Model:
    def __init__(self):
        self.net = nn.LazyLinear(2).cuda()

    def prepare(self, x):
        self.loss(x).backward()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def loss(self, x):
        return self.net(x).pow(2).mean()

    def optimize(self, x):
        {first}loss = self.loss(x)
        loss.backward()
        {between}self.optimizer.step()
        self.optimizer.zero_grad()


def fit(model, batches):
    for x in batches:
        model.optimize(x.cuda())
"""
MAIN_OF_PREPARED = """

model = Model()
start(model, torch.randn(8, 4).cuda())
fit(model, torch.randn(3, 8, 4))
"""


@pytest.mark.parametrize(
    "first, between, codes",
    [
        ("self.optimizer.zero_grad()\n        ", "", []),
        ("", "", ["AMP911"]),
        ("self.net.zero_grad()\n        ", "", []),
        ("if x.sum() > 0:\n            self.optimizer.zero_grad()\n        ", "", ["AMP911"]),
        ("", "self.optimizer.zero_grad()\n        loss = self.loss(x)\n        loss.backward()\n        ", []),
    ],
)
def test_a_backward_whose_gradients_no_step_takes(first, between, codes):
    source = "from elsewhere import start\n" + PREPARED.format(first=first, between=between) + MAIN_OF_PREPARED
    result = migrate_source(source.encode(), Options())
    assert [finding.code for finding in result.findings] == codes
    assert (b"self.scaler.step(self.optimizer)" in result.output) == (not codes)
    assert b"        self.loss(x).backward()\n" in result.output


def test_a_model_clears_no_gradients_of_another_one_of_its_optimizer():
    others = PREPARED.replace("self.net.parameters()", "[*self.net.parameters(), *self.other.parameters()]")
    source = "from elsewhere import start\n" + others.format(first="self.net.zero_grad()\n        ", between="")
    result = migrate_source((source + MAIN_OF_PREPARED).encode(), Options())
    assert [finding.code for finding in result.findings] == ["AMP911"]


BESIDE_A_WRAPPER = """\
import torch
from torch import nn
from torch.nn import functional as F


class Scheduled:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.step()


def train(batches):
    net, critic = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
    scheduled = Scheduled(torch.optim.Adam(net.parameters()))
    optimizer = torch.optim.Adam(critic.parameters())
    for x, y in batches:
        x, y = x.cuda(), y.cuda()
        scheduled.optimizer.zero_grad()
        loss = F.mse_loss(net(x), x)
        loss.backward()
        scheduled.step()
        optimizer.zero_grad()
        loss = F.mse_loss(critic(x), y)
        loss.backward()
        optimizer.step()
"""


def test_an_optimizer_that_a_method_steps_is_fed_beside_one_that_is_stepped_here():
    result = migrate_source(BESIDE_A_WRAPPER.encode(), Options(api="torch.amp"))
    output = result.output.decode()
    assert "scaler.step(self.optimizer)" in output and "scaler.step(optimizer)" in output, result.findings


DROPS = {
    "values": ("if p.grad is not None and p.grad.sum() == 0:\n        p.grad = None", True),
    "values below": ("if p.grad is not None:\n        if p.grad.abs().max() < 1e-8:\n            p.grad = None", True),
    "a function": ("if p.grad is not None and torch.count_nonzero(p.grad) == 0:\n        p.grad = None", True),
    "presence": ("if p.grad is not None:\n        p.grad = None", False),
    "no test": ("p.grad = None", False),
}


@pytest.mark.parametrize("drop, looks", DROPS.values(), ids=DROPS)
def test_a_step_after_some_gradients_are_dropped(drop, looks):
    source = START + STEP.replace("optimizer", f"for p in model.parameters():\n    {drop}\noptimizer")
    result = migrate_source(source.encode(), Options())
    assert [finding.code for finding in result.findings] == ([] if looks else ["AMP921"])
    # The scaler has seen them, and never asserts.
    assert ("scaler.unscale_(optimizer)\nfor p" in result.output.decode()) == looks


@pytest.mark.parametrize("half", ["", "model.half()\n"], ids=["plain", "half"])
@pytest.mark.parametrize(
    ("losses", "scaled"),
    [
        ("loss", "scaler.scale(loss)"),
        ("loss, retain_graph=True", "scaler.scale(loss), retain_graph=True"),
        ("[loss]", "[scaler.scale(loss)]"),
        ("(loss, loss * 2)", "(scaler.scale(loss), scaler.scale(loss * 2))"),
        ("tensors=[loss, other]", "tensors=[scaler.scale(loss), scaler.scale(other)]"),
    ],
)
def test_a_backward_by_the_function_of_torch(losses, scaled, half):
    step = STEP.replace("loss.backward()", f"other = loss / 2\ntorch.autograd.backward({losses})")
    output = migrate_source((START + half + step).encode(), Options()).output.decode()
    assert f"\ntorch.autograd.backward({scaled})\n" in output


def test_the_loss_of_the_function_of_torch_gets_a_line_of_its_own():
    step = "torch.autograd.backward(model(x).pow(2).mean())\noptimizer.step()\n"
    output = migrate_source((START + step).encode(), Options()).output.decode()
    assert "    loss = model(x).pow(2).mean()\ntorch.autograd.backward(scaler.scale(loss))\n" in output


CRITIC = """\
model = nn.Linear(4, 1).cuda()
optimizer = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4).cuda().requires_grad_()
loss = model(x).mean()
loss.backward()
grad = torch.autograd.grad(outputs=model(x).sum(), inputs=x, create_graph=True)[0]
penalty = (grad.norm(2, 1) - 1).pow(2).mean()
penalty.backward()
optimizer.step()
"""


@pytest.mark.parametrize("together", [False, True])
def test_a_model_that_runs_in_the_call_for_its_gradient_stays_out_of_autocast(together):
    source = "import torch\nfrom torch import nn, optim\n" + CRITIC
    if together:
        source = source.replace("loss.backward()\n", "").replace("penalty = ", "penalty = loss + ")
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "\ngrad = torch.autograd.grad(outputs=model(x).sum(), inputs=x, create_graph=True)[0]\n" in output
    assert '\nwith torch.amp.autocast("cuda"):\n    loss = model(x).float().mean()\n' in output
    assert "\nscaler.scale(penalty).backward()\n" in output


def test_a_sum_of_nothing_but_starred_arguments_stops_nobody():
    source = START + "print(torch.sum(*[x]))\n" + STEP
    assert migrate_source(source.encode(), Options(api="torch.amp")).status == "migrated"


@pytest.mark.parametrize(
    ("given", "call"),
    [("None", "outer(x)"), ("None", "outer(x, None)"), ("optimizer", "outer(x)"), ("None", "train(x)")],
)
def test_gradients_alone_are_found_through_functions(given, call):
    outer = f"\n\ndef outer(x, other={given}):\n    train(x, other)\n\n\nouter(x, optimizer)\n{call}\n"
    train = (
        "def train(x, optimizer=None):\n    loss = model(x).mean()\n    loss.backward()\n"
        "    if optimizer is not None:\n        optimizer.step()\n"
    )
    codes = [one.code for one in migrate_source((START + train + outer).encode(), Options(api="torch.amp")).findings]
    assert ("AMP957" in codes) == (given == "None")
