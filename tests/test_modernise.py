"""`torch.cuda.amp` to `torch.amp`: what changes, what stays and why, and for which projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Options, Result, migrate_project, migrate_source
from tests.test_cli import run


def modernised(source: str) -> Result:
    return migrate_source(source.encode(), Options(api="torch.amp"))


IMPORT = "import torch\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'),
        ("torch.cuda.amp.autocast(use_amp)", 'torch.amp.autocast("cuda", enabled=use_amp)'),
        ("torch.cuda.amp.autocast(enabled=use_amp)", 'torch.amp.autocast("cuda", enabled=use_amp)'),
        (
            "torch.cuda.amp.autocast(a, torch.bfloat16, False)",
            'torch.amp.autocast("cuda", enabled=a, dtype=torch.bfloat16, cache_enabled=False)',
        ),
        ("torch.cuda.amp.autocast(**options)", 'torch.amp.autocast("cuda", **options)'),
        ("torch.cpu.amp.autocast(True)", 'torch.amp.autocast("cpu", enabled=True)'),
        ("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")'),
        ("torch.cuda.amp.GradScaler(1024.0, 2.0)", 'torch.amp.GradScaler("cuda", 1024.0, 2.0)'),
        ("torch.cuda.amp.GradScaler(*options)", 'torch.amp.GradScaler("cuda", *options)'),
        ("torch.cuda.amp.GradScaler(enabled='x' in y)", "torch.amp.GradScaler('cuda', enabled='x' in y)"),
        ("torch.cuda.amp.grad_scaler.GradScaler()", 'torch.amp.grad_scaler.GradScaler("cuda")'),
        ("isinstance(scaler, torch.cuda.amp.GradScaler)", "isinstance(scaler, torch.amp.GradScaler)"),
        ("isinstance(scaler, (int, torch.cuda.amp.GradScaler))", "isinstance(scaler, (int, torch.amp.GradScaler))"),
        ("scaler: torch.cuda.amp.GradScaler = None", "scaler: torch.amp.GradScaler = None"),
        ("def f(s: Optional[torch.cuda.amp.GradScaler]): ...", "def f(s: Optional[torch.amp.GradScaler]): ..."),
        ("x = 'torch.cuda.amp.autocast()'", "x = 'torch.cuda.amp.autocast()'"),
        ("# torch.cuda.amp.autocast()", "# torch.cuda.amp.autocast()"),
        ("GradScaler().update()", "GradScaler().update()"),
        ("@torch.cuda.amp.autocast()\ndef f(): ...", '@torch.amp.autocast("cuda")\ndef f(): ...'),
        (
            "with torch.no_grad(), torch.cuda.amp.autocast(a):  # half\n\ty = f( x )",
            'with torch.no_grad(), torch.amp.autocast("cuda", enabled=a):  # half\n\ty = f( x )',
        ),
        (
            "s = torch.cuda.amp.GradScaler(\n    init_scale=2.0,\n    enabled=a,\n)",
            's = torch.amp.GradScaler(\n    "cuda",\n    init_scale=2.0,\n    enabled=a,\n)',
        ),
        (
            "with (torch.cuda.amp.autocast() if amp else nullcontext()): pass",
            'with (torch.amp.autocast("cuda") if amp else nullcontext()): pass',
        ),
        (
            "autocast = torch.cuda.amp.autocast\nwith autocast(a): pass",
            'autocast = torch.amp.autocast\nwith autocast("cuda", enabled=a): pass',
        ),
        (
            "import functools\nctx = functools.partial(torch.cuda.amp.autocast, a)\nwith ctx(): pass",
            'import functools\nctx = functools.partial(torch.amp.autocast, "cuda", enabled=a)\nwith ctx(): pass',
        ),
        (
            "from functools import partial\nrun(partial(torch.cuda.amp.autocast, enabled=a))",
            'from functools import partial\nrun(partial(torch.amp.autocast, "cuda", enabled=a))',
        ),
    ],
)
def test_written_out_names(before, after):
    result = modernised(IMPORT + before + "\n")
    assert result.output.decode() == IMPORT + after + "\n"
    assert (result.status, result.findings) == ("migrated" if before != after else "untouched", ())
    again = modernised(result.output.decode())
    assert (again.status, again.output, again.findings) == ("untouched", result.output, ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "from torch.cuda.amp import autocast, GradScaler\nwith autocast(): pass\ns = GradScaler()",
            'from torch.amp import autocast, GradScaler\nwith autocast("cuda"): pass\ns = GradScaler("cuda")',
        ),
        (
            "from torch.cuda.amp import GradScaler as Scaler  # native\ns = Scaler(2.0)",
            'from torch.amp import GradScaler as Scaler  # native\ns = Scaler("cuda", 2.0)',
        ),
        (
            "from torch.cuda.amp.autocast_mode import autocast\nwith autocast(): pass",
            'from torch.amp.autocast_mode import autocast\nwith autocast("cuda"): pass',
        ),
        ("from torch.cuda import amp\ns = amp.GradScaler()", 'from torch import amp\ns = amp.GradScaler("cuda")'),
        (
            "import torch.cuda.amp as amp\nwith amp.autocast(): pass",
            'import torch.amp as amp\nwith amp.autocast("cuda"): pass',
        ),
        (
            "import torch.cuda.amp\ns = torch.cuda.amp.GradScaler()",
            'import torch.amp\ns = torch.amp.GradScaler("cuda")',
        ),
        (
            "import torch\nfrom torch import cuda\ns = cuda.amp.GradScaler()\ncuda.synchronize()",
            'import torch\nfrom torch import cuda\ns = torch.amp.GradScaler("cuda")\ncuda.synchronize()',
        ),
        ("from torch import cuda\ns = cuda.amp.GradScaler()", 'import torch\ns = torch.amp.GradScaler("cuda")'),
        (
            "from torch.cuda import amp, is_available\ns = amp.GradScaler(enabled=is_available())",
            "from torch import amp\nfrom torch.cuda import is_available\n"
            's = amp.GradScaler("cuda", enabled=is_available())',
        ),
        (
            "def f():\n    from torch.cuda.amp import autocast\n    with autocast(): pass",
            'def f():\n    from torch.amp import autocast\n    with autocast("cuda"): pass',
        ),
        ("import torch as th\ns = th.cuda.amp.GradScaler()", 'import torch as th\ns = th.amp.GradScaler("cuda")'),
        (
            "from torch.cuda.amp import autocast\nfrom torch.cpu.amp import autocast as on_cpu\nautocast()\non_cpu()",
            'from torch.amp import autocast\nfrom torch.amp import autocast as on_cpu\nautocast("cuda")\non_cpu("cpu")',
        ),
    ],
)
def test_imported_names(before, after):
    result = modernised(before + "\n")
    assert result.output.decode() == after + "\n"
    assert (result.status, result.findings) == ("migrated", ())
    again = modernised(result.output.decode())
    assert (again.status, again.findings) == ("untouched", ())


@pytest.mark.parametrize(
    ("source", "code", "line"),
    [
        ("import torch\ncontext = torch.cuda.amp.autocast if amp else nullcontext", "AMP301", 2),
        ("import torch\nrun(torch.cuda.amp.autocast)", "AMP301", 2),
        ("import torch\nif amp: f = torch.cuda.amp.autocast\nelse: f = print\nf(1)", "AMP301", 2),
        ("import torch\nclass A:\n    context = torch.cuda.amp.autocast", "AMP301", 3),
        ("import torch\ntorch.cuda.amp.autocast(*options)", "AMP301", 2),
        ("from torch.cuda.amp import autocast\nwith autocast(): pass\nrun(autocast)", "AMP301", 3),
        ("from torch.cuda import amp\nwith amp.autocast(): pass\nrun(amp)", "AMP301", 3),
        ("from torch.cuda.amp import *\nwith autocast(): pass", "AMP301", 1),
        ("from functools import partial\nimport torch\nrun(partial(torch.cuda.amp.autocast))", "AMP301", 3),
        ("import torch\nclass S(torch.cuda.amp.GradScaler): pass", "AMP302", 2),
        (
            "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    autocast = None\nautocast()",
            "AMP303",
            2,
        ),
        (
            "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n    from torch.cuda.amp import GradScaler\n"
            "s = GradScaler()",
            "AMP303",
            2,
        ),
        ("import torch\nif torch.__version__ < '2.4':\n    s = torch.cuda.amp.GradScaler()", "AMP303", 3),
        ("import torch\nx = torch.cuda.amp.autocast() if hasattr(torch.cuda, 'amp') else None", "AMP303", 2),
        ("from torch.cuda.amp import autocast\n__all__ = ['autocast']", "AMP304", 1),
        ("import torch\nx = torch.cuda.amp.grad_scaler.OptState.READY  # GradScaler", "AMP305", 2),
        ("from torch.cuda.amp.grad_scaler import OptState\nx = OptState.READY  # GradScaler", "AMP305", 2),
        ("import torch\ntorch.cuda.amp.common.amp_definitely_not_available()\n# GradScaler", "AMP305", 2),
        ("from torch.cuda.amp import custom_fwd\n@custom_fwd\ndef f(ctx, x): ...", "AMP306", 2),
    ],
)
def test_what_stays(source, code, line):
    result = modernised(source + "\n")
    assert (result.status, result.output) == ("untouched", source.encode() + b"\n")
    assert [(one.code, one.line) for one in result.findings] == [(code, line)]


def test_a_name_with_old_values_in_several_places_stays():
    source = "import torch\nif amp:\n    f = torch.cuda.amp.autocast\nelse:\n    f = torch.cuda.amp.autocast\nf(1)\n"
    result = modernised(source)
    assert (result.status, [one.code for one in result.findings]) == ("untouched", ["AMP301"])


def test_a_bool_as_the_initial_scale():
    result = modernised("import torch\nscaler = torch.cuda.amp.GradScaler(args.level != 'O0')\n")
    assert result.output == b"import torch\nscaler = torch.amp.GradScaler('cuda', args.level != 'O0')\n"
    assert [one.code for one in result.findings] == ["AMP314"]


def test_a_part_of_an_import_stays():
    source = "from torch.cuda.amp import autocast, custom_bwd, GradScaler\nautocast()\n@custom_bwd\ndef f(c, g): ...\nGradScaler()\n"
    result = modernised(source)
    assert result.output.decode() == (
        "from torch.amp import autocast, GradScaler\nfrom torch.cuda.amp import custom_bwd\n"
        'autocast("cuda")\n@custom_bwd\ndef f(c, g): ...\nGradScaler("cuda")\n'
    )
    assert [one.code for one in result.findings] == ["AMP306"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("torch.amp.GradScaler(65536.)", "AMP311"),
        ("torch.amp.GradScaler(2.**16, enabled=a)", "AMP311"),
        ("torch.GradScaler(device)", None),
        ("torch.amp.GradScaler('cuda', not args.cpu)", "AMP314"),
        ("torch.amp.GradScaler('cuda', 65536.)", None),
        ("torch.amp.autocast('cuda', True)", "AMP312"),
        ("torch.autocast('cuda', args.level != 'O0')", "AMP312"),
        ("torch.autocast('cuda', torch.float16)", None),
        ("torch.autocast('cuda', dtype)", None),
        ("torch.autocast(True)", "AMP313"),
        ("torch.amp.autocast()", "AMP313"),
        ("torch.autocast(enabled=a)", "AMP313"),
        ("torch.autocast(device_type=d, enabled=a)", None),
        ("torch.autocast(**options)", None),
    ],
)
@pytest.mark.parametrize("api", ["torch.amp", "torch.cuda.amp"])
def test_traps_of_the_new_names(source, code, api):
    result = migrate_source(f"import torch\n{source}\n".encode(), Options(api=api))
    assert [one.code for one in result.findings] == [code] * (code is not None)
    assert not result.changed


SCRIPT = b"import torch\nscaler = torch.cuda.amp.GradScaler()\n"
CUSTOM = (
    b"from torch.cuda.amp import custom_fwd, custom_bwd\n@custom_fwd\ndef f(c, x): ...\n@custom_bwd\ndef b(c, g): ...\n"
)


@pytest.mark.parametrize(
    ("requirements", "options", "changes"),
    [
        (None, Options(), False),  # whatever torch is installed here
        (None, Options(api="torch.amp"), True),
        ("torch", Options(), False),
        ("torch>=2.3", Options(), True),
        ("torch>=2.3", Options(api="torch.cuda.amp"), False),
        ("torch==1.13", Options(), False),
        ("torch>=1.7", Options(api="torch.amp"), True),
        ("numpy", Options(), False),
    ],
)
def test_the_declared_torch_switches_it_on(tmp_path, requirements, options, changes):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    if requirements is not None:
        (tmp_path / "requirements.txt").write_text(f"{requirements}\n")
    [result] = migrate_project(tmp_path, options)
    assert (result.changed, result.findings) == (changes, ())


@pytest.mark.parametrize(("torch", "changes"), [("2.3", False), ("2.4", True)])
def test_custom_functions_came_later(tmp_path, torch, changes):
    (tmp_path / "functions.py").write_bytes(CUSTOM)
    (tmp_path / "requirements.txt").write_text(f"torch>={torch}\n")
    [result] = migrate_project(tmp_path)
    expected = CUSTOM.replace(b"torch.cuda", b"torch").replace(b"@custom_fwd", b'@custom_fwd(device_type="cuda")')
    expected = expected.replace(b"@custom_bwd", b'@custom_bwd(device_type="cuda")')
    assert result.output == (expected if changes else CUSTOM)
    assert [one.code for one in result.findings] == ([] if changes else ["AMP306", "AMP306"])


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        (b"from train import autocast\nautocast()\n", True),
        (b"import train\nwith train.autocast(): pass\n", True),
        (b"from train import *\nautocast()\n", True),
        (b"from train import run\nrun()\n", False),
        (b"from torch.cuda.amp import autocast\nautocast()\n", False),
    ],
)
def test_names_that_other_files_take(tmp_path: Path, other, stays):
    source = b"from torch.cuda.amp import autocast\ndef run():\n    with autocast(): pass\n"
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_bytes(source)
    (tmp_path / "other.py").write_bytes(other)
    (tmp_path / "setup.cfg").write_text("[options]\ninstall_requires = torch>=2.4\n")
    [result] = migrate_project(tmp_path / "train.py")
    assert result.changed is not stays
    assert [one.code for one in result.findings] == ["AMP304"] * stays


def test_formats_are_kept():
    source = b"import torch\r\nif amp:\r\n\twith torch.cuda.amp.autocast( amp ) :\r\n\t\tf()  \r\n"
    result = migrate_source(b"\xef\xbb\xbf" + source, Options(api="torch.amp"))
    expected = source.replace(b"torch.cuda.amp.autocast( amp )", b'torch.amp.autocast( "cuda", enabled=amp )')
    assert result.output == b"\xef\xbb\xbf" + expected


def test_what_does_not_parse_is_told_where_it_might_be_native(tmp_path):
    (tmp_path / "old.py").write_bytes(b"import torch\nprint 'autocast'\n")
    (tmp_path / "other.py").write_bytes(b"import torch\nprint 'nothing of it'\n")
    result = run(".", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"old.py:2: AMP991" in result.stderr
    assert b"other.py" not in result.stderr


def test_findings_alone_change_nothing(tmp_path):
    source = SCRIPT + (
        b"model = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor x in loader:\n"
        b"    scaler.scale(model(x).sum()).backward()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
        b"    scaler.step(optimizer)\n    scaler.update()\n"
    )
    (tmp_path / "train.py").write_bytes(source)
    result = run("--check", ".", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, b"")
    assert b"train.py:7: AMP401 torch.nn.utils.clip_grad_norm_ clips gradients that are still scaled" in result.stderr
    (tmp_path / "requirements.txt").write_bytes(b"torch>=2.3\n")
    assert run("--check", ".", cwd=tmp_path).returncode == 1
    assert run("--write", ".", cwd=tmp_path).returncode == 0
    assert run("--check", ".", cwd=tmp_path).returncode == 0
    assert b'torch.amp.GradScaler("cuda")' in (tmp_path / "train.py").read_bytes()
    assert (
        b'torch.amp.GradScaler("cuda")' in run("-", "--write", "--api", "torch.amp", cwd=tmp_path, stdin=source).stdout
    )
