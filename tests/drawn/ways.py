"""The ways in which scripts choose a device."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to choose a device: `options`, `choice`, and how a model `m` and a batch `x`, `y` get there.

    `on` are the arguments with which a machine with a GPU trains on it, `off` those with which it does not.
    """

    name: str
    options: str = ""
    choice: str = ""
    model: str = "m.to(device)"
    batch: str = "x, y = x.to(device), y.to(device)"
    on: tuple[str, ...] = ("",)
    off: tuple[str, ...] = ()
    helpers: str = ""


_CUDA_IF = {"model": "if {c}:\n    m.cuda()", "batch": "if {c}:\n    x, y = x.cuda(), y.cuda()"}


def _if(condition: str) -> dict[str, str]:
    return {key: text.replace("{c}", condition) for key, text in _CUDA_IF.items()}


_NO_CUDA = "parser.add_argument('--no-cuda', action='store_true')"
_GPU_NUMBER = "parser.add_argument('--gpu', type=int, default=0)"
_AVAILABLE = "torch.cuda.is_available()"

WAYS = [
    Way("device of what is there", choice=f"device = torch.device('cuda' if {_AVAILABLE} else 'cpu')"),
    Way("text of what is there", choice=f"device = 'cuda:0' if {_AVAILABLE} else 'cpu'"),
    Way("any GPU that is counted", choice="device = torch.device('cuda' if torch.cuda.device_count() > 0 else 'cpu')"),
    Way("a number of a GPU", _GPU_NUMBER, f"device = torch.device('cuda:%d' % args.gpu if {_AVAILABLE} else 'cpu')"),
    Way(
        "a number, negative for none",
        _GPU_NUMBER,
        "device = torch.device(f'cuda:{args.gpu}' if args.gpu >= 0 else 'cpu')",
        off=("--gpu=-1",),
    ),
    Way("cuda if a number", _GPU_NUMBER, **_if("args.gpu >= 0"), off=("--gpu=-1",)),
    Way(
        "a number or None",
        "parser.add_argument('--gpu', type=int)",
        **_if("args.gpu is not None"),
        on=("--gpu=0",),
        off=("",),
    ),
    Way("no cuda", _NO_CUDA, f"args.cuda = not args.no_cuda and {_AVAILABLE}", **_if("args.cuda"), off=("--no-cuda",)),
    Way(
        "no cuda, a name",
        _NO_CUDA,
        f"use_cuda = not args.no_cuda and {_AVAILABLE}\ndevice = torch.device('cuda' if use_cuda else 'cpu')",
        off=("--no-cuda",),
    ),
    Way(
        "no cuda, a method of the device",
        _NO_CUDA,
        f"device = torch.device('cuda' if not args.no_cuda and {_AVAILABLE} else 'cpu')",
        model="if device.type == 'cuda':\n    m.cuda()",
        off=("--no-cuda",),
    ),
    Way(
        "cpu first",
        _NO_CUDA,
        f"device = torch.device('cpu')\nif {_AVAILABLE} and not args.no_cuda:\n    device = torch.device('cuda')",
        off=("--no-cuda",),
    ),
    Way(
        "arms",
        _NO_CUDA,
        f"if {_AVAILABLE} and not args.no_cuda:\n    device = torch.device('cuda')\nelse:\n    device = torch.device('cpu')",
        off=("--no-cuda",),
    ),
    Way("cpu", "parser.add_argument('--cpu', action='store_true')", **_if("not args.cpu"), off=("--cpu",)),
    Way(
        "cpu, a device",
        "parser.add_argument('--cpu', action='store_true')",
        "device = torch.device('cpu') if args.cpu else torch.device('cuda')",
        off=("--cpu",),
    ),
    Way(
        "a text of a device",
        "parser.add_argument('--device', default='cuda')",
        model="m.to(args.device)",
        batch="x, y = x.to(args.device), y.to(args.device)",
        off=("--device=cpu",),
    ),
    Way(
        "a device of an option",
        "parser.add_argument('--device', default='cuda:0')",
        "device = torch.device(args.device)",
        off=("--device=cpu",),
    ),
    Way(
        "a device or what is there",
        "parser.add_argument('--device', default=None)",
        f"device = args.device or ('cuda' if {_AVAILABLE} else 'cpu')",
        off=("--device=cpu",),
    ),
    Way(
        "the arguments hold it",
        _NO_CUDA,
        f"args.device = torch.device('cuda' if {_AVAILABLE} and not args.no_cuda else 'cpu')",
        model="m.to(args.device)",
        batch="x, y = x.to(args.device), y.to(args.device)",
        off=("--no-cuda",),
    ),
    Way("a list of devices", _NO_CUDA, "device = ['cuda', 'cpu'][int(args.no_cuda)]", off=("--no-cuda",)),
    Way("a dict of devices", _NO_CUDA, "device = {True: 'cpu', False: 'cuda'}[args.no_cuda]", off=("--no-cuda",)),
    Way("an and-or", _NO_CUDA, f"device = {_AVAILABLE} and not args.no_cuda and 'cuda' or 'cpu'", off=("--no-cuda",)),
    Way(
        "how many",
        "parser.add_argument('--ngpu', type=int, default=1)",
        f"device = torch.device('cuda:0' if ({_AVAILABLE} and args.ngpu > 0) else 'cpu')",
        off=("--ngpu=0",),
    ),
    Way("how many, cuda", "parser.add_argument('--ngpu', type=int, default=1)", **_if("args.ngpu"), off=("--ngpu=0",)),
    Way(
        "a list of numbers",
        "parser.add_argument('--gpus', default='0')",
        "gpus = [int(one) for one in args.gpus.split(',') if one]",
        **_if("len(gpus) > 0"),
        off=("--gpus=",),
    ),
    Way(
        "a list that is there",
        "parser.add_argument('--gpus', default=[0], type=int, nargs='*')",
        **_if("args.gpus"),
        off=("--gpus",),
    ),
    Way(
        "a function of the device",
        _NO_CUDA,
        "device = pick(args)",
        off=("--no-cuda",),
        helpers=f"def pick(args):\n    if {_AVAILABLE} and not args.no_cuda:\n        return torch.device('cuda')\n    return torch.device('cpu')\n",
    ),
    Way(
        "a function that moves",
        _NO_CUDA,
        model="m = moved(m, args)",
        batch="x, y = moved(x, args), moved(y, args)",
        off=("--no-cuda",),
        helpers="def moved(what, args):\n    return what if args.no_cuda else what.cuda()\n",
    ),
    Way(
        "a function that may move",
        "",
        model="m = moved(m)",
        batch="x, y = moved(x), moved(y)",
        helpers=f"def moved(what):\n    if {_AVAILABLE}:\n        what = what.cuda()\n    return what\n",
    ),
    Way(
        "a constant of the module",
        "",
        model="m = moved(m)",
        batch="x, y = moved(x), moved(y)",
        helpers=f"USE_CUDA = {_AVAILABLE}\n\n\ndef moved(what):\n    return what.cuda() if USE_CUDA else what\n",
    ),
    Way(
        "a chosen function",
        _NO_CUDA,
        "move = (lambda one: one) if args.no_cuda else (lambda one: one.cuda())",
        model="m = move(m)",
        batch="x, y = move(x), move(y)",
        off=("--no-cuda",),
    ),
    Way(
        "a bound choice",
        _NO_CUDA,
        model="m = m if args.no_cuda else m.cuda()",
        batch="x = x if args.no_cuda else x.cuda()\ny = y if args.no_cuda else y.cuda()",
        off=("--no-cuda",),
    ),
    Way(
        "a type",
        _NO_CUDA,
        "dtype = torch.FloatTensor if args.no_cuda else torch.cuda.FloatTensor",
        model="m.type(dtype)",
        batch="x, y = x.type(dtype), y.type(dtype)",
        off=("--no-cuda",),
    ),
    Way("true or false", choice=f"cuda = True if {_AVAILABLE} else False", **_if("cuda")),
    Way(
        "an int flag", "parser.add_argument('--cuda', type=int, default=1)", **_if("args.cuda == 1"), off=("--cuda=0",)
    ),
    Way(
        "a text flag",
        "parser.add_argument('--use_gpu', default='yes')",
        **_if("args.use_gpu == 'yes'"),
        off=("--use_gpu=no",),
    ),
    Way("a getattr", _NO_CUDA, **_if("not getattr(args, 'no_cuda', False)"), off=("--no-cuda",)),
    Way(
        "a dict of options",
        _NO_CUDA,
        "opt = vars(args)\nopt['cuda'] = not opt['no_cuda']",
        **_if("opt['cuda']"),
        off=("--no-cuda",),
    ),
    Way(
        "a text that is compared",
        "parser.add_argument('--gpu', default='0')",
        **_if("args.gpu != 'cpu'"),
        off=("--gpu=cpu",),
    ),
    Way(
        "a count that is bound",
        _NO_CUDA,
        "n_gpu = 0 if args.no_cuda else torch.cuda.device_count()",
        **_if("n_gpu > 0"),
        off=("--no-cuda",),
    ),
    Way(
        "several devices",
        _NO_CUDA,
        "n_gpu = 0 if args.no_cuda else torch.cuda.device_count()",
        model="if n_gpu > 1:\n    m = nn.DataParallel(m).cuda()\nelif n_gpu == 1:\n    m = m.cuda()",
        batch="if n_gpu:\n    x, y = x.cuda(), y.cuda()",
        off=("--no-cuda",),
    ),
    Way(
        "three devices",
        choice=f"if {_AVAILABLE}:\n    device = 'cuda'\nelif torch.backends.mps.is_available():\n    device = 'mps'\nelse:\n    device = 'cpu'",
    ),
    Way(
        "raises without",
        choice=f"if not {_AVAILABLE}:\n    raise SystemExit('a GPU is needed')",
        model="m.cuda()",
        batch="x, y = x.cuda(), y.cuda()",
    ),
    Way("asserts", choice=f"assert {_AVAILABLE}", model="m.cuda()", batch="x, y = x.cuda(), y.cuda()"),
    Way("always", model="m.cuda()", batch="x, y = x.cuda(), y.cuda()"),
    Way(
        "in a loop",
        _NO_CUDA,
        model="for one in (m, criterion):\n    if not args.no_cuda:\n        one.cuda()",
        batch="if not args.no_cuda:\n    x, y = x.cuda(), y.cuda()",
        off=("--no-cuda",),
    ),
    Way(
        "options that overrule",
        _NO_CUDA,
        f"if not {_AVAILABLE}:\n    args.no_cuda = True",
        **_if("not args.no_cuda"),
        off=("--no-cuda",),
    ),
    Way(
        "a device that is asked",
        _NO_CUDA,
        f"device = torch.device('cuda' if {_AVAILABLE} and not args.no_cuda else 'cpu')",
        batch="x, y = x.to(next(m.parameters()).device), y.to(next(m.parameters()).device)",
        off=("--no-cuda",),
    ),
    Way(
        "a keyword",
        _NO_CUDA,
        f"where = dict(device='cuda' if {_AVAILABLE} and not args.no_cuda else 'cpu')",
        model="m.to(**where)",
        batch="x, y = x.to(**where), y.to(**where)",
        off=("--no-cuda",),
    ),
]
