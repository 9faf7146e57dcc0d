"""What torch has in the place of Apex's companions: call by call, and over several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Result, migrate_project, migrate_source
from amp_migrate.files.imports import forget

IMPORTS = """import torch
from torch import nn
from apex.normalization import FusedRMSNorm
from apex.optimizers import FusedAdagrad, FusedAdam, FusedSGD
from apex.parallel import DistributedDataParallel as DDP, SyncBatchNorm, convert_syncbn_model
"""


def written(line: str) -> str:
    """The last line of a file that imports all of these names."""
    return migrate_source((IMPORTS + line + "\n").encode()).output.decode().splitlines()[-1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("FusedAdam(ps, 1e-3)", "torch.optim.AdamW(ps, 1e-3, weight_decay=0.0)"),
        ("FusedAdam(ps, 1e-3, True)", "torch.optim.AdamW(ps, 1e-3, weight_decay=0.0)"),
        ("FusedAdam(ps, 1e-3, True, bs, e)", "torch.optim.AdamW(ps, 1e-3, bs, e, weight_decay=0.0)"),
        ("FusedAdam(ps, 1e-3, True, bs, e, True, wd)", "torch.optim.AdamW(ps, 1e-3, bs, e, wd)"),
        ("FusedAdam(params=ps, weight_decay=wd)", "torch.optim.AdamW(params=ps, weight_decay=wd)"),
        ("FusedAdam(ps, adam_w_mode=False)", "torch.optim.Adam(ps)"),
        ("FusedAdam(ps, amsgrad=False,)", "torch.optim.AdamW(ps, amsgrad=False, weight_decay=0.0,)"),
        ("FusedSGD(ps, 0.1, 0.9, 0, 1e-4, True, False)", "torch.optim.SGD(ps, 0.1, 0.9, 0, 1e-4, True)"),
        ("FusedAdagrad(ps, 0.1, 1e-8, wd)", "torch.optim.Adagrad(ps, 0.1, weight_decay=wd, eps=1e-8)"),
        ("SyncBatchNorm(4, 1e-3, fuse_relu=False)", "SyncBatchNorm(4, 1e-3)"),
        ("convert_syncbn_model(m, group)", "nn.SyncBatchNorm.convert_sync_batchnorm(m, group)"),
        ("DDP(module=m, prof=True)", "DDP(module=m, broadcast_buffers=False)"),
        ("DDP(m, shared_param = None)", "DDP(m, broadcast_buffers = False)"),
        ("DDP((m))", "DDP((m), broadcast_buffers=False)"),
    ],
)
def test_a_call(before, after):
    assert written(f"x = {before}") == f"x = {after}"


@pytest.mark.parametrize(
    "call",
    [
        "FusedAdam(ps, bias_correction=False)",
        "FusedAdam(ps, 1e-3, correct)",
        "FusedAdam(ps, adam_w_mode=mode)",
        "FusedAdam(ps, **options)",
        "FusedAdam(*args)",
        "FusedAdam(ps, master_weights=True)",
        "FusedAdam(ps, eps_inside_sqrt=True)",
        "FusedSGD(ps, 0.1, wd_after_momentum=True)",
        "FusedAdagrad(ps, adagrad_w_mode=True)",
        "SyncBatchNorm(4, channel_last=True)",
        "convert_syncbn_model(m, channel_last=True)",
        "DDP(m, gradient_average=False)",
        "DDP(m, device_ids=[0])",
        "DDP()",
        "make(FusedAdam)",
        "{'sgd': FusedSGD}",
        "isinstance(o, FusedSGD)",
        "FusedRMSNorm(4)",  # this torch may be too old
    ],
)
def test_a_call_that_stays(call):
    result = migrate_source((IMPORTS + f"x = {call}\n").encode())
    assert result.output.decode().splitlines()[-1] == f"x = {call}"
    assert [found.code[:5] for found in result.findings] == ["AMP94"]
    assert result.findings[0].line == 6


SPREAD = """import torch
from apex.optimizers import FusedAdam
optimizer = FusedAdam(
    params,
    lr=0.1,  # as in the paper
    set_grad_none=True
)
"""


def test_a_call_over_several_lines():
    expected = SPREAD.replace("from apex.optimizers import FusedAdam\n", "").replace("FusedAdam", "torch.optim.AdamW")
    assert migrate_source(SPREAD.encode()).output.decode() == expected.replace(
        "lr=0.1,  # as in the paper\n    set_grad_none=True", "lr=0.1,  # as in the paper\n    weight_decay=0.0"
    )


DEVICE = """import torch
from apex.parallel import DistributedDataParallel
def setup(args):
    {setup}
def main(args, model):
    setup(args)
    if args.distributed:
        model = DistributedDataParallel(model)
"""


@pytest.mark.parametrize(
    ("setup", "devices"),
    [
        ("torch.cuda.set_device(args.gpu)", "device_ids=[args.gpu], "),
        ("torch.cuda.set_device(args.gpus[0])", "device_ids=[args.gpus[0]], "),
        ("if args.distributed: torch.cuda.set_device(args.gpu)", "device_ids=[args.gpu], "),
        ("if torch.cuda.is_available(): torch.cuda.set_device(args.gpu)", "device_ids=[args.gpu], "),
        ("if args.gpu is not None: torch.cuda.set_device(args.gpu)", ""),
        ("if not args.distributed: torch.cuda.set_device(args.gpu)", ""),
        ("torch.cuda.set_device(rank() % 8)", ""),
        ("gpu = 0; torch.cuda.set_device(gpu)", ""),
        ("torch.cuda.set_device(args.gpu); args.gpu = 0", ""),
    ],
)
def test_the_device_of_a_wrapped_model(setup, devices):
    output = migrate_source(DEVICE.format(setup=setup).encode()).output.decode()
    assert (
        output.splitlines()[-1].strip() == f"model = DistributedDataParallel(model, {devices}broadcast_buffers=False)"
    )


def project(root: Path, **files: str) -> dict[str, Result]:
    forget()
    (root / ".git").mkdir()
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)
    return {Path(result.path).stem: result for result in migrate_project([root])}


WRAPS = """import torch
from apex.parallel import DistributedDataParallel
{0}
def run(model):
    return DistributedDataParallel(model)
"""
TESTS = """from apex.parallel import DistributedDataParallel
def inner(model):
    return model.module if isinstance(model, DistributedDataParallel) else model
"""
REFUSED = "from apex import amp\n@amp.half_function\ndef casts():\n    pass\n"


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ("from apex.fp16_utils import *\nx = to_python_float(loss)\n", ["AMP946"]),
        ("from apex.contrib.sparsity import *\nx = ASP()\n", ["AMP942"]),
        ("from apex.parallel import *\nx = LARC(o)\n", ["AMP940"]),
        ("import apex\nx = getattr(apex.optimizers, name)\n", ["AMP940"]),
        ("from apex.parallel import DistributedDataParallel as D\nclass W(D):\n    pass\nx = D(m)\n", ["AMP942"]),
        (
            "try:\n    from apex.parallel import DistributedDataParallel as A\nexcept ImportError:\n"
            "    from torch.nn.parallel import DistributedDataParallel as T\nx = A(m) if fast else T(m)\n",
            ["AMP942"],
        ),
    ],
)
def test_a_file_that_stays(source, codes):
    result = migrate_source(source.encode())
    assert (result.status, result.output) == ("left", source.encode())
    assert [found.code for found in result.findings] == codes


class TestSeveralFiles:
    def test_instances_are_of_one_class_in_all_of_them(self, tmp_path):
        done = project(tmp_path, wraps=WRAPS.format(""), tests=TESTS)
        assert all(b"from torch.nn.parallel import" in result.output for result in done.values())

    @pytest.mark.parametrize(
        ("imported", "name"),
        [
            ("import apex", "apex.parallel.DistributedDataParallel"),
            ("import apex.parallel as parallel", "parallel.DistributedDataParallel"),
            ("from apex.parallel import DistributedDataParallel as DDP", "DDP"),
        ],
    )
    def test_where_one_has_to_stay_all_do(self, tmp_path, imported, name):
        tests = f"{imported}\ndef inner(model):\n    return model.module if isinstance(model, {name}) else model\n"
        done = project(tmp_path, wraps=WRAPS.format(REFUSED), tests=tests)
        assert [result.changed for result in done.values()] == [False, False]
        assert [found.code for found in done["tests"].findings] == ["AMP945"]

    def test_files_that_test_nothing_are_independent(self, tmp_path):
        done = project(tmp_path, wraps=WRAPS.format(REFUSED), other=WRAPS.format(""))
        assert [done[name].changed for name in ("wraps", "other")] == [False, True]

    def test_a_name_that_another_file_takes_stays(self, tmp_path):
        compat = (
            "try:\n    from apex.parallel import DistributedDataParallel as DDP\nexcept ImportError:\n    DDP = None\n"
        )
        done = project(tmp_path, compat=compat, train="from compat import DDP\nmodel = DDP(net, True)\n")
        assert not done["compat"].changed
        assert [found.code for found in done["compat"].findings] == ["AMP945"]

    def test_a_flag_that_another_file_takes_stays(self, tmp_path):
        compat = (
            "try:\n    from apex.optimizers import FusedSGD\n    FLAG = True\nexcept ImportError:\n    FLAG = False\n"
        )
        done = project(tmp_path, compat=compat, train="from compat import FLAG\nimport apex\nprint(FLAG)\n")
        assert not done["compat"].changed
        assert [found.code for found in done["compat"].findings] == ["AMP945"]

    def test_a_flag_of_the_same_name_elsewhere_is_another(self, tmp_path):
        flag = "try:\n    import apex\n    FLAG = True\nexcept ImportError:\n    FLAG = False\n\n\n"
        made = "from net import Net\n\n\ndef make():\n    net = Net()\n    if FLAG:\n"
        made += "        net = apex.parallel.convert_syncbn_model(net)\n    return net\n"
        used = "from compat import make\nif FLAG:\n    print(make())\n"
        net = "import torch.nn as nn\n\n\nclass Net(nn.Module):\n    pass\n"
        done = project(tmp_path, compat=flag + made, train=flag + used, net=net)
        assert b"FLAG" not in done["compat"].output

    def test_a_norm_that_another_file_takes_is_torchs_there_too(self, tmp_path):
        norms = "from apex.normalization import FusedLayerNorm\n"
        done = project(tmp_path, norms=norms, model="from norms import FusedLayerNorm\nlayer = FusedLayerNorm(8)\n")
        assert done["norms"].output.decode() == "from torch.nn import LayerNorm as FusedLayerNorm\n"

    def test_the_torch_that_the_project_asks_for(self, tmp_path):
        (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
        source = "import torch.nn as nn\nfrom apex.normalization import FusedRMSNorm\nnorm = FusedRMSNorm(8)\n"
        assert project(tmp_path, model=source)["model"].output.endswith(b"\nnorm = nn.RMSNorm(8, eps=1e-5)\n")


@pytest.mark.parametrize(
    ("theirs", "ours", "options"),
    [
        ("FusedAdam", "AdamW", {"weight_decay": 0.0}),
        ("FusedAdam", "AdamW", {"weight_decay": 0.1, "eps": 1e-6}),
        ("FusedSGD", "SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-2, "nesterov": True}),
        ("FusedAdagrad", "Adagrad", {"weight_decay": 1e-2}),
    ],
)
def test_the_optimizers_update_alike(theirs, ours, options):
    """Ten updates of the stand-in and of torch's, which differ by rounding only."""
    torch = pytest.importorskip("torch")
    from amp_migrate.verify.standin.apex import optimizers

    start, gradients = torch.randn(50), torch.randn(10, 50)
    results = []
    for make in (getattr(optimizers, theirs), getattr(torch.optim, ours)):
        param = torch.nn.Parameter(start.clone())
        optimizer = make([param], **options)
        for gradient in gradients:
            param.grad = gradient.clone()
            optimizer.step()
        results.append(param.detach())
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
    assert (results[0] - start).abs().max() > 1e-3
