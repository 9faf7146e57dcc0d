"""Compare the Apex stand-in with a checkout of the real Apex: `python -m tests.against_apex CHECKOUT`.

Both sides train the same small models with equal seeds, in fp16, with CUDA redirected to the CPU, each case in a
process of its own. The printed table is the one in docs/verification.md. Not a part of the test suite, because no
checkout of Apex is.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import multiprocessing
import os
import subprocess
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

STANDIN = Path(__file__).parent.parent / "amp_migrate" / "verify" / "standin"
STEPS = 30
MODELS = ["mlp", "cnn", "transformer", "embedding", "autoencoder", "groupnorm"]


@dataclass(frozen=True)
class Case:
    model: str
    optimizer: str
    level: str
    variant: str = "plain"


def cases():
    yield from (Case(m, o, level) for m in MODELS for o in ("SGD", "Adam") for level in ("O0", "O1", "O2"))
    for level in ("O1", "O2"):
        for variant in ("overflow", "two losses", "accumulate", "delay_unscale", "static 128"):
            yield from (Case(m, "SGD", level, variant) for m in ("mlp", "cnn"))
        yield Case("dcgan", "Adam", level)
        yield Case("cnn", "Adam", level, "overflow")
        yield Case("cnn", "LARC", level)
    yield Case("mlp", "SGD", "O3")
    for variant in ("plain", "overflow", "clip", "accumulate"):
        yield from (Case(m, "SGD", "FP16_Optimizer", variant) for m in ("mlp", "cnn"))


def compare(checkout):
    """Print one row for each level and variant, over all its models and optimizers."""
    print("| level | variant | runs | largest loss difference | skipped steps | amp state | final weights |")
    print("|---|---|---|---|---|---|---|")
    pairs = list(zip(cases(), run_side(checkout), run_side(STANDIN), strict=True))
    for level, variant in dict.fromkeys((case.level, case.variant) for case in cases()):
        runs = [(real, standin) for case, real, standin in pairs if (case.level, case.variant) == (level, variant)]
        cells = [
            level,
            variant,
            str(len(runs)),
            f"{max(loss_difference(*run) for run in runs):.1e}",
            ", ".join(dict.fromkeys(f"{real['skipped']} = {standin['skipped']}" for real, standin in runs)),
            equal(runs, "state"),
            equal(runs, "weights"),
        ]
        print("| " + " | ".join(cells) + " |")


def loss_difference(real, standin):
    """The largest relative difference; inf where one side has a NaN."""
    differences = [abs(a - b) / max(abs(a), 1e-30) for a, b in zip(real["losses"], standin["losses"], strict=True)]
    return max(math.inf if math.isnan(difference) else difference for difference in differences)


def equal(runs, what):
    return f"equal in {sum(real[what] == standin[what] for real, standin in runs)}"


def run_side(folder):
    """The results of all cases, from a process that imports apex from `folder`."""
    command = [sys.executable, "-m", "tests.against_apex", "--side", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def side(folder):
    sys.path.insert(0, folder)
    from amp_migrate.verify import redirect

    redirect.install()
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        import apex.amp
        import apex.fp16_utils
    assert Path(apex.__file__).is_relative_to(Path(folder).resolve()), apex.__file__
    # O1 patches its process for good: each case gets a fork.
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        print(json.dumps(pool.map(run_case, [asdict(case) for case in cases()], chunksize=1)))


def run_case(fields):
    import torch

    case = Case(**fields)
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()):
        train = train_dcgan if case.model == "dcgan" else train_fp16 if case.level == "FP16_Optimizer" else train_amp
        return train(case)


def make_optimizer(name, model):
    import torch
    from apex.parallel.LARC import LARC

    if name == "Adam":
        return torch.optim.Adam(model.parameters(), 1e-3)
    sgd = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    return LARC(sgd) if name == "LARC" else sgd


def make_model(name):
    from torch import nn

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            return self.head(self.encoder(x).mean(1))

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 16)
            self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))

        def forward(self, ids):
            return self.head(self.table(ids).mean(1))

    conv = {"kernel_size": 3, "padding": 1}
    makers = {
        "mlp": lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)),
        "cnn": lambda: nn.Sequential(
            nn.Conv2d(3, 8, **conv), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, **conv), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
        ),
        "transformer": Transformer,
        "embedding": Embedding,
        "autoencoder": lambda: nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Sigmoid()
        ),
        "groupnorm": lambda: nn.Sequential(
            nn.Conv2d(3, 8, **conv), nn.GroupNorm(2, 8), nn.SiLU(), nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(8, 4, **conv), nn.Softplus(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        ),
    }  # fmt: skip
    return makers[name]().cuda()


def batch(name, step):
    import torch

    generator = torch.Generator().manual_seed(step)
    labels = torch.randint(4, (8,), generator=generator).cuda()
    if name == "embedding":
        return torch.randint(50, (8, 5), generator=generator).cuda(), labels
    shape = {"mlp": (8, 16), "transformer": (8, 5, 16)}.get(name, (8, 3, 8, 8))
    images = torch.randn(shape, generator=generator).cuda()
    return images, images.sigmoid() if name == "autoencoder" else labels


def loss_of(case, model, step):
    from torch.nn import functional

    inputs, targets = batch(case.model, step)
    outputs = model(inputs).float()
    loss = (
        functional.mse_loss(outputs, targets)
        if case.model == "autoencoder"
        else functional.cross_entropy(outputs, targets)
    )
    return loss * 2.0**30 if case.variant == "overflow" and step % 7 == 3 else loss


def train_amp(case):
    from apex import amp

    model = make_model(case.model)
    optimizer = make_optimizer(case.optimizer, model)
    static = {"loss_scale": 128.0} if case.variant == "static 128" else {}
    model, optimizer = amp.initialize(
        model, optimizer, opt_level=case.level, num_losses=2 if case.variant == "two losses" else 1, **static
    )
    micro_batches = 2 if case.variant in ("accumulate", "delay_unscale", "two losses") else 1
    losses, skipped = [], 0
    for step in range(STEPS):
        for part in range(micro_batches):
            loss = loss_of(case, model, step * micro_batches + part)
            delayed = case.variant == "delay_unscale" and part == 0
            loss_id = part if case.variant == "two losses" else 0
            with amp.scale_loss(loss, optimizer, loss_id=loss_id, delay_unscale=delayed) as scaled:
                scaled.backward()
            losses.append(loss.item())
        skipped += optimizer._amp_stash.already_patched
        optimizer.step()
        optimizer.zero_grad()
    return result(losses, skipped, amp.state_dict(), model)


def train_dcgan(case):
    import torch
    from apex import amp
    from torch import nn

    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 8, 4), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()
    ).cuda()
    critic = nn.Sequential(
        nn.Conv2d(3, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4), nn.Flatten(0)
    ).cuda()
    optimizers = [make_optimizer("Adam", critic), make_optimizer("Adam", generator)]
    (critic, generator), optimizers = amp.initialize(
        [critic, generator], optimizers, opt_level=case.level, num_losses=3
    )
    criterion = nn.BCEWithLogitsLoss()
    losses, skipped = [], 0

    def backward(loss, optimizer, loss_id):
        with amp.scale_loss(loss, optimizer, loss_id=loss_id) as scaled:
            scaled.backward()
        losses.append(loss.item())

    for step in range(STEPS):
        real, _ = batch("cnn", step)
        fake = generator(torch.randn(8, 8, 1, 1, generator=torch.Generator().manual_seed(step)).cuda())
        optimizers[0].zero_grad()
        backward(criterion(critic(real), torch.ones(8).cuda()), optimizers[0], 0)
        backward(criterion(critic(fake.detach()), torch.zeros(8).cuda()), optimizers[0], 1)
        skipped += optimizers[0]._amp_stash.already_patched
        optimizers[0].step()
        optimizers[1].zero_grad()
        backward(criterion(critic(fake), torch.ones(8).cuda()), optimizers[1], 2)
        skipped += optimizers[1]._amp_stash.already_patched
        optimizers[1].step()
    return result(losses, skipped, amp.state_dict(), nn.ModuleList([critic, generator]))


def train_fp16(case):
    from apex.fp16_utils import FP16_Optimizer, network_to_half

    model = network_to_half(make_model(case.model))
    optimizer = FP16_Optimizer(make_optimizer(case.optimizer, model), dynamic_loss_scale=True, verbose=False)
    micro_batches = 2 if case.variant == "accumulate" else 1
    losses, skipped = [], 0
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(micro_batches):
            loss = loss_of(case, model, step * micro_batches + part)
            optimizer.backward(loss, update_master_grads=micro_batches == 1)
            losses.append(loss.item())
        if micro_batches > 1:
            optimizer.update_master_grads()
        if case.variant == "clip":
            losses.append(float(optimizer.clip_master_grads(0.5)))
        skipped += optimizer.overflow
        optimizer.step()
    state = {"loss_scale": optimizer.loss_scale, "unskipped": optimizer.loss_scaler._unskipped}
    return result(losses, skipped, state, model)


def result(losses, skipped, state, model):
    weights = {name: tensor.double().flatten().tolist() for name, tensor in model.state_dict().items()}
    return {"losses": losses, "skipped": skipped, "state": state, "weights": weights}


if __name__ == "__main__":
    if sys.argv[1] == "--side":
        side(sys.argv[2])
    else:
        compare(sys.argv[1])
