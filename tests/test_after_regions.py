"""Half outputs in operations after a region: what breaks in half, and what takes one dtype and meets float32."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn
{imports}

model = {model}.cuda()
optimizer = torch.optim.Adam(model.parameters())
seen = torch.zeros(8, 1).cuda()
out = None
{helper}
for i in range(10):
    batch = torch.rand(8, 4).cuda()
    labels = torch.rand(8, 1).cuda()
    mask = batch[:, 0] > 0.5
    rows = torch.arange(8).cuda()
    {before}
    optimizer.zero_grad()
    out = model(batch)
    loss = nn.functional.mse_loss(out, labels)
    loss.backward()
    optimizer.step()
    {after}
"""
DEFAULTS = {"imports": "", "model": "nn.Linear(4, 1)", "helper": "", "before": "pass", "after": "pass"}
CAST = {
    "a mask": {"after": "seen[mask] = out.detach()[mask]"},
    "named first": {"after": "chosen = out.detach()[mask]\n    seen[mask] = chosen"},
    "a list": {"after": "seen[[1, 2]] = out.detach()[:2]"},
    "row numbers": {"after": "seen[rows] = out.detach()"},
    "index_copy_": {"after": "seen.index_copy_(0, rows, out.detach())"},
    "scatter_": {"after": "seen.scatter_(0, rows[:, None], out.detach())"},
    "in a test": {"after": "if i % 2:\n        seen[mask] = out.detach()[mask]"},
    "in the next round": {"before": "if out is not None:\n        seen[mask] = out.detach()[mask]"},
    "in a helper": {"helper": "def keep(given):\n    seen[rows] = given.detach()\n", "after": "keep(out)"},
    "out of sight": {
        "imports": "from torchvision.models import resnet18",
        "model": "resnet18(num_classes=1)",
        "after": "seen[mask] = out.detach()[mask]",
    },
}
KEPT = {
    "a slice": {"after": "seen[:4] = out.detach()[:4]"},
    "a number": {"after": "seen[i] = out.detach()[0]"},
    "cast by hand": {"after": "seen[mask] = out.detach()[mask].float()"},
    "a half destination": {"after": "like = torch.zeros_like(out)\n    like[mask] = out.detach()[mask]"},
    "a loss": {"after": "seen[rows] = loss.detach()"},
    "what no region made": {"after": "seen[mask] = batch[mask][:, :1]"},
    "a model without autocast": {"after": "seen[mask] = nn.Linear(4, 1).cuda()(batch).detach()[mask]"},
}


def added(tmp_path, parts) -> list[str]:
    """The writes that are no longer as they were."""
    text = SCRIPT.format(**{**DEFAULTS, **parts})
    write_tree(tmp_path, {"train.py": text.encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    assert result.status == "migrated", result
    return [line for line in result.output.decode().splitlines() if ".to(seen.dtype)" in line or ".to(like" in line]


@pytest.mark.parametrize("name", CAST)
def test_a_half_output_takes_the_dtype_of_its_destination(tmp_path, name):
    assert len(added(tmp_path, CAST[name])) == 1


@pytest.mark.parametrize("name", KEPT)
def test_what_needs_no_cast_stays(tmp_path, name):
    assert added(tmp_path, KEPT[name]) == []


OPERATIONS = {
    "torch.mm(o, W)": "torch.mm(o.float(), W)",
    "o.mm(W)": "o.float().mm(W)",
    "o @ W": "o.float() @ W",
    "torch.addmm(seen, o, W)": "torch.addmm(seen, o.float(), W)",
    'torch.einsum("bi,ij->bj", o, W)': 'torch.einsum("bi,ij->bj", o.float(), W)',
    "F.linear(o, W)": "F.linear(o.float(), W)",
    "torch.bmm(o[None], W[None])": "torch.bmm(o[None].float(), W[None])",
    "torch.cdist(o, W)": "torch.cdist(o.float(), W)",
    "torch.svd(o)[1]": "torch.svd(o.float())[1]",
    "torch.inverse(o[:1])": "torch.inverse(o[:1].float())",
    "torch.svd(W.type_as(o))[1]": "torch.svd(W.type_as(o).float())[1]",
    "torch.svd(torch.zeros(2, 2, dtype=o.dtype))[1]": "torch.svd(torch.zeros(2, 2, dtype=o.dtype).float())[1]",
    "torch.quantile(o, 0.5)": "torch.quantile(o.float(), 0.5)",
    "torch.fft.fft(o).abs()": "torch.fft.fft(o.float()).abs()",
    "o.masked_fill(seen == 0, -1e9)": "o.float().masked_fill(seen == 0, -1e9)",
    "(1e3 * o[mask]).abs()": "(1e3 * o[mask].float()).abs()",
    "o * 1000": "o.float() * 1000",
    "1e3 * out.data": "1e3 * out.data.float()",
    "o * seen.std() + seen.mean()": "o.float() * seen.std() + seen.mean()",
    "(seen.mean() - o).abs()": "(seen.mean() - o.float()).abs()",
    "torch.mm(out.data.T, seen)": "torch.mm(out.data.T.float(), seen)",
    "torch.log(torch.sigmoid(o) + 1e-8)": "torch.log(torch.sigmoid(o).float() + 1e-8)",
    "sorted([o], key=lambda one: (one @ W).sum().item())": "sorted([o], key=lambda one: (one.float() @ W).sum().item())",
    "max([o, o], key=len) @ W": "max([o, o], key=len).float() @ W",
    "functools.reduce(lambda one, two: one + two, [o, o]) @ W": (
        "functools.reduce(lambda one, two: one + two, [o, o]).float() @ W"
    ),
    "functools.reduce(operator.add, [o, o]) @ W": "functools.reduce(operator.add, [o, o]).float() @ W",
    "functools.reduce(torch.add, [o, o]) @ W": "functools.reduce(torch.add, [o, o]).float() @ W",
}
UNTOUCHED = [
    "torch.where(seen == 0, o, seen)",
    "torch.cat([o, seen])",
    "o - o.max()",
    "(seen - o) * seen.std()",
    "(o - seen).abs().mean()",
    "o.argmax(1)",
    "o * 100",
    "1e3 * batch",
    "torch.mm(batch[:, :1], W)",
    "torch.log(torch.sigmoid(batch) + 1e-8)",
    "torch.svd(batch)[1]",
    "torch.svd(W.type_as(batch))[1]",
]


def printed(tmp_path, expression: str) -> str:
    imports = "import functools\nimport operator\nimport torch.nn.functional as F\n"
    parts = {**DEFAULTS, "imports": f"{imports}\nW = torch.rand(1, 1).cuda()"}
    parts["after"] = f"o = out.detach()\n    print({expression})"
    write_tree(tmp_path, {"train.py": SCRIPT.format(**parts).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    assert result.status == "migrated", result
    return result.output.decode().splitlines()[-1].strip()


@pytest.mark.parametrize(("before", "after"), OPERATIONS.items())
def test_an_operation_gets_float32(tmp_path, before, after):
    assert printed(tmp_path, before) == f"print({after})"


@pytest.mark.parametrize("expression", UNTOUCHED)
def test_an_operation_that_takes_half_stays(tmp_path, expression):
    assert printed(tmp_path, expression) == f"print({expression})"


LAYERS = """\
import torch
from torch import nn

def criterion(out, energy):
    at = out.detach().requires_grad_(True)
    force = torch.autograd.grad(energy(at).sum(), at, create_graph=True)[0]
    return (force**2).mean() + out.pow(2).mean()

net, energy = nn.Linear(4, 3).cuda(), {layers}.cuda()
optimizer = torch.optim.SGD([*net.parameters(), *energy.parameters()], lr=0.1)
for x in batches:
    out = net(x.cuda())
    loss = criterion(out, energy)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("layers", ["nn.Linear(3, 1)", "nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))"])
def test_layers_get_float32_after_a_region(layers):
    result = migrate_source(LAYERS.format(layers=layers).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    assert "energy(at.float())" in result.output.decode()


METRICS = """\
class Result:
    def evaluate(self, output, target):
        self.error = (1e3 * output - 1e3 * target).abs().mean().item()


def score(output, target):
    return (1e3 * output - target).abs().mean()
"""


@pytest.mark.parametrize(
    ("made", "before", "after"),
    [
        ("pass", "score(out.data, labels)", "score(out.float().data, labels)"),
        ("result = Result()", "result.evaluate(out.detach(), labels)", "result.evaluate(out.float().detach(), labels)"),
        ("pass", "print(out.shape)", "print(out.shape)"),
        ("pass", "score(batch[:, :1], labels)", "score(batch[:, :1], labels)"),
    ],
)
def test_an_output_goes_in_float32_to_code_that_is_not_read(tmp_path, made, before, after):
    parts = {**DEFAULTS, "imports": "from metrics import Result, score", "before": made, "after": before}
    files = {"train.py": SCRIPT.format(**parts).encode(), "metrics.py": METRICS.encode()}
    write_tree(tmp_path, files)
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    train = next(result for result in results if result.path.endswith("train.py"))
    assert train.output.decode().splitlines()[-1].strip() == after


MAKERS = {"out of sight": "make_cache()", "a class out of sight": "Cache()", "a dict": "{}"}
WRITES = {
    "a tuple": (
        "cache[batch] = (out.detach().cpu(), loss.item())",
        "cache[batch] = (out.detach().cpu().float(), loss.item())",
    ),
    "two keys": ("cache[i, rows.cpu()] = [out.detach()]", "cache[i, rows.cpu()] = [out.detach().float()]"),
    "one tensor": ("cache[batch] = out.detach().cpu()", "cache[batch] = out.detach().cpu().float()"),
    "in a helper": ("keep(cache, batch, out.detach())", "    cache[key] = given.float()"),
}


@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize("how", WRITES)
def test_what_may_be_a_dict_is_not_asked_for_its_dtype(tmp_path, how, made):
    """It may also be a buffer of float32, which takes no half; a dict of the script takes anything."""
    after, expected = WRITES[how]
    parts = {"imports": "from caches import Cache, make_cache", "before": f"cache = {MAKERS[made]}", "after": after}
    parts["helper"] = "def keep(cache, key, given):\n    cache[key] = given\n"
    text = SCRIPT.format(**{**DEFAULTS, **parts})
    write_tree(tmp_path, {"train.py": text.encode(), "caches.py": b"from elsewhere import Cache, make_cache\n"})
    (result,) = (one for one in migrate_project([tmp_path], Options()) if one.path.endswith("train.py"))
    assert result.status == "migrated", result
    changed = [one for one in result.output.decode().splitlines() if "cache" in one and one not in text.splitlines()]
    assert [one.strip() for one in changed] == ([expected.strip()] if made != "a dict" else [])


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ("model.places(scores)", "model.places(scores.float())"),
        ("model.places(scores[:, 1:])", "model.places(scores[:, 1:].float())"),
        ("model.head(scores)", "model.head(scores.float())"),
    ],
)
def test_a_method_of_the_model_gets_float32_after_a_region(call, written):
    """Exponentials of half maps that are summed there are infinite."""
    source = f"""
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 9), nn.Linear(9, 9)

    def forward(self, x):
        return self.body(x)

    def places(self, scores):
        weights = torch.exp(scores - scores.max())
        return (weights * torch.arange(scores.shape[1])).sum(1) / weights.sum(1)

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    scores = model(x.cuda())
    loss = nn.functional.cross_entropy(scores, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        print({call}, scores.softmax(1))
"""
    assert written in migrate_source(source.encode()).output.decode()


SHOWING = """\
import torch
import torchvision
from torch import nn
from torchvision.utils import make_grid

W = torch.ones(8, 8).cuda()


def show(output, name="out"):
    {function}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 8)
        self.fc = nn.Linear(8, 4)
        self.weight = nn.Parameter(torch.ones(8, 8))
        self.cuda()
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return dict(loss=(x - self.fc(h)).abs().mean(), h=h)

    def show(self, output, name="out"):
        {method}

    def fit(self, batches):
        for x in batches:
            found = self(x.cuda())
            loss = found["loss"]
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            {call}


Net().fit([torch.rand(2, 5, 4)])
"""
SHOWN = {
    "a function": ("torchvision.utils.make_grid(output.cpu())", "output.float().cpu()"),
    "by its name": ("make_grid(output.data.cpu().unsqueeze(1), normalize=True)", "output.float().data.cpu()"),
    "by a keyword": ("make_grid(tensor=output.detach()[:8].cpu())", "output.detach()[:8].float().cpu()"),
    "of torch": ("torch.save(output.cpu(), name)", "torch.save(output.cpu().float(), name)"),
    "NumPy": ("print(output.cpu().numpy())", "output.float().cpu()"),
    "a sum of NumPy": ("print(output.cpu().numpy().sum())", "print(output.float().cpu().numpy().sum())"),
    "a list of numbers": ("print(sum(output.cpu().tolist()[0]))", "print(sum(output.cpu().tolist()[0]))"),
    "a product": ("return output @ W", "output.float() @"),
}


def shown(call: str, *, function: str = "pass", method: str = "pass") -> str:
    source = SHOWING.format(call=call, function=function, method=method)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    return result.output.decode()


@pytest.mark.parametrize("call", ["show(found['h'])", "show(output=found['h'])"])
@pytest.mark.parametrize(("use", "written"), SHOWN.values(), ids=SHOWN)
def test_a_function_gets_half_and_its_uses_are_asked(use, written, call):
    output = shown(call, function=use)
    assert written in output
    assert f"            {call}\n" in output


@pytest.mark.parametrize(
    "use", ["return self.fc(output)", "made = self.fc\n        return made(output)", "print(output)"]
)
@pytest.mark.parametrize("call", ["self.show({})", "self.show(output={})"])
def test_a_method_of_the_model_gets_float32(use, call):
    assert call.format("found['h'].float()") in shown(call.format("found['h']"), method=use)


KEPT_FOR_LATER = "self.h = output\n        self.run()\n\n    def run(self):\n        self.fc(self.h)"


@pytest.mark.parametrize("use", ["return self.fc(output['h'])", KEPT_FOR_LATER.replace("= output", "= output['h']")])
def test_a_layer_is_given_float32_where_a_method_gets_a_dict(use):
    output = shown("self.show(found)", method=use)
    assert "self.fc(output['h'].float())" in output or "self.fc(self.h.float())" in output


TAKEN = """\
import torch
import torch.nn.functional as F
from torch import nn


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.first(x).relu())


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.judge, self.last = Judge(), nn.Linear(3, 3)

    def forward(self, batch):
        return self.last(self.judge(batch["x"]))


class Trainer:
    def __init__(self):
        self.G, self.judge, self.layer = nn.Linear(8, 8).cuda(), Judge().cuda(), nn.Linear(8, 3).cuda()
        self.W, self.bank = torch.randn(8, 8).cuda(), torch.zeros(4, 8).cuda()
        self.optimizer = torch.optim.SGD(self.G.parameters(), lr=0.1)
        self.reader, self.rnn = Reader().cuda(), nn.LSTM(8, 8).cuda()
        self.kept, self.log = [], {{}}
        self.last = None

    def train(self, x):
        self.optimizer.zero_grad()
        fake = self.G(x)
        loss = torch.mean((fake - 1) ** 2)
        loss.backward()
        self.optimizer.step()
        self.last = fake.detach()
        return {returned}

    def look(self, fake):
        return {use}


trainer = Trainer()
for step in range(3):
    out = trainer.train(torch.randn(4, 8).cuda())
    trainer.look({given})
"""
WAYS = {
    "fake": "out",
    "(loss, fake)": "out[1]",
    "dict(fake=fake)": "out['fake']",
    "[fake]": "out[0]",
    "None": "trainer.last",
    "self.kept.append(fake)": "trainer.kept[-1]",
    "self.log.setdefault('fake', []).append(fake)": "trainer.log['fake'][0]",
    "list(map(lambda one: one.detach(), [fake]))": "out[0]",
}
YIELDED = {"return None\n": "yield loss, fake\n", "out = trainer.train": "(_, out), = trainer.train"}
USES = {
    "self.judge(fake)": "self.judge(fake.float())",
    "self.layer(fake)": "self.layer(fake.float())",
    "fake @ self.W": "fake.float() @ self.W",
    "self.reader(dict(x=fake))": "self.judge(batch['x'].float())",
    "nn.Sequential(self.judge, nn.ReLU())(fake)": "nn.ReLU())(fake.float())",
    "self.rnn(fake[None], (fake[None], self.W[None, :4]))": "self.rnn(fake[None].float(), (fake[None].float(), self.W",
    "list(map(self.judge, [fake]))": "self.first(x.float())",
    "self.layer(fake.softmax(1))": "self.layer(fake.softmax(1).float())",
    "F.binary_cross_entropy(fake.sigmoid(), self.W[:4])": "F.binary_cross_entropy(fake.sigmoid().float(), ",
    "nn.MSELoss()(fake, self.W[:4])": "nn.MSELoss()(fake.float(), ",
    "nn.ReLU()(fake)": "nn.ReLU()(fake)\n",
    "torch.cdist(fake, self.W)": "torch.cdist(fake.float(), self.W)",
    "self.bank.index_copy_(0, torch.arange(4).cuda(), fake)": "torch.arange(4).cuda(), fake.to(self.bank.dtype))",
    "fake.argmax(1)": "fake.argmax(1)",
}


@pytest.mark.parametrize(("returned", "given"), WAYS.items())
@pytest.mark.parametrize(("use", "written"), USES.items())
def test_what_a_function_returns_or_keeps_is_half_elsewhere_too(use, written, returned, given):
    source = TAKEN.format(returned=returned, use=use, given=given)
    written_alone(written, source)


def written_alone(written: str, source: str) -> None:
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode().replace('"', "'")
    assert written in output
    assert output.count(".float()") == written.count(".float()")


@pytest.mark.parametrize(("use", "written"), USES.items())
def test_what_a_generator_yields_is_half_elsewhere_too(use, written):
    source = TAKEN.format(returned="None", use=use, given="out")
    for before, after in YIELDED.items():
        source = source.replace(before, after)
    written_alone(written, source)


def test_two_casts_in_a_tuple_are_two():
    use = "self.rnn(self.W[None, :4], (fake[None], fake[None]))"
    written_alone("(fake[None].float(), fake[None].float())", TAKEN.format(returned="fake", use=use, given="out"))


STORED = {
    "return loss, fake": "return loss, fake.float()",
    "return {'loss': loss, 'fake': fake}": "return {'loss': loss, 'fake': fake.float()}",
    "kept = []\n        kept.append(fake)\n        return loss, kept": "kept.append(fake.float())",
    "yield loss, fake": "yield loss, fake.float()",
    "self.fake = fake.detach()": "self.fake = fake.detach().float()",
    "self.fake, self.loss = fake, loss": "self.fake, self.loss = fake.float(), loss",
    "self.fake = {'fake': fake}": "self.fake = {'fake': fake.float()}",
    "self.fake['last'] = fake": "self.fake['last'] = fake.float()",
    "self.unseen = fake": "self.unseen = fake\n",
    "self.fake = Result(loss, fake)": "self.fake = Result(loss, fake.float())",
    "return Result(loss=loss, fake=fake)": "return Result(loss=loss, fake=fake.float())",
    "global LAST\n        LAST = fake": "LAST = fake.float()",
    "x['fake'] = fake": "x['fake'] = fake.float()",
    "self.fake['run'](fake)": "self.fake['run'](fake.float())",
    "for hook in self.fake.values():\n            hook(fake)": "hook(fake.float())",
    "torch.save([fake], 'last.pt')": "torch.save([fake.float()], 'last.pt')",
    "pickle.dump({1: fake}, x)": "pickle.dump({1: fake.float()}, x)",
    "return fake.argmax(1)": "return fake.argmax(1)\n",
}


@pytest.mark.parametrize(("kept", "written"), STORED.items())
@pytest.mark.parametrize(("level", "is_cast"), [("", True), ("O2", True), ("O1", False)])
def test_what_another_unit_sees_is_float32_where_it_was(tmp_path, kept, written, level, is_cast):
    """Under Apex's O1 what a model returned was half already."""
    trainer = TAKEN.format(returned="None", use="fake", given="out").split("\n\ntrainer = ")[0] + "\n"
    trainer = "import pickle\n" + trainer.replace("return None", kept).replace("self.last = None", "self.fake = {}")
    if level:
        made = f"self.G, self.optimizer = amp.initialize(self.G, self.optimizer, opt_level='{level}')"
        scaled = "with amp.scale_loss(loss, self.optimizer) as scaled:\n            scaled.backward()"
        trainer = "from apex import amp\n" + trainer.replace("self.fake = {}", f"self.fake = {{}}\n        {made}")
        trainer = trainer.replace("loss.backward()", scaled)
    trainer += "\n\nLAST = None\n"
    main = "import torch\nimport trainer as module\nfrom trainer import Trainer\n\ntrainer = Trainer()\n"
    main += "for step in range(3):\n    found = trainer.train(torch.randn(4, 8).cuda())\n"
    main += "    print(found, trainer.fake, module.LAST)\n"
    write_tree(tmp_path, {"trainer.py": trainer.encode(), "main.py": main.encode()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    (output,) = (one.output.decode() for one in results if one.status == "migrated")
    assert (written in output) == (is_cast or written.endswith("\n"))
    assert output.count(".float()") == (written.count(".float()") if is_cast else 0)


def test_a_file_that_is_handed_a_trainer_gets_float32_from_it(tmp_path):
    trainer = TAKEN.format(returned="fake", use="fake", given="out").split("\n\ntrainer = ")[0] + "\n"
    library = "def run(trainer, x, W):\n    return trainer.train(x) @ W, trainer.last @ W\n"
    main = "import torch\nfrom library import run\nfrom trainer import Trainer\n\n"
    main += "print(run(Trainer(), torch.randn(4, 8).cuda(), torch.randn(8, 8).cuda()))\n"
    files = {"trainer.py": trainer, "library.py": library, "main.py": main}
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    (output,) = (one.output.decode() for one in results if one.status == "migrated")
    assert "return fake.float()\n" in output
    assert "self.last = fake.detach().float()\n" in output


UNPACKED = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, y):
        return self.fc(x) + y


body = nn.Linear(4, 4).cuda()
head = Head().cuda()
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
for x, *rest in loader:
    x = x.cuda()
    out = body(x)
    loss = out.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    given = {given}
    with torch.no_grad():
        print({run})
"""


@pytest.mark.parametrize("run", ["head(*given)", "head.forward(*given)", "unknown(*given)"])
@pytest.mark.parametrize("given", ["[out.detach(), x]", "(out.detach(), x)", "[out.detach()] + [x]", "[out] + rest"])
def test_what_is_unpacked_is_cast_by_its_parts(given, run):
    output = migrate_source(UNPACKED.format(given=given, run=run).encode(), Options()).output.decode()
    assert run in output
    assert f"given = {given}".replace("out", "out.float()") in output or run.startswith("unknown")
