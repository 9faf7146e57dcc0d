"""What the facts say about small pieces of code."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import libcst as cst
import pytest

from amp_migrate.facts import Facts, SourceFile
from amp_migrate.facts.paths import Graph
from amp_migrate.facts.tree import Class, Statement, called_name
from amp_migrate.files.helpers import Helpers
from amp_migrate.files.imports import forget, module_name
from amp_migrate.files.parse import parse


def facts_of(code: str) -> Facts:
    return Facts.of_module(parse(textwrap.dedent(code).lstrip().encode()))


def asked(facts: Facts) -> list[cst.BaseExpression]:
    """The arguments of the calls `ask(...)`, which mark what a test is about."""
    return [
        arg.value
        for statement in facts.tree.all_statements()
        for part in facts.tree.expressions(statement)
        if isinstance(part, cst.Call) and called_name(part) == "ask"
        for arg in part.args
    ]


# -- targets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("a, b = one, two\nask(b)", ["two"]),
        ("[a, (b, c)] = one, (two, three)\nask(b)", ["two"]),
        ("a, self.b = one, two\nask(self.b)", ["two"]),
        ("a, d['b'] = one, two\nask(d['b'])", ["two"]),
        ("a, b = pair\nask(b)", []),
        ("a, *b = one, two\nask(b)", []),
        ("a, b = *one, two\nask(b)", []),
        ("for a, b in (one, two):\n    ask(b)", []),
    ],
)
def test_what_is_unpacked_in_sight_is_the_value_of_its_name(code, values):
    facts = facts_of(code)
    (node,) = asked(facts)
    assert [facts.text(one) for one in facts.objects.values_of(node)] == values


# -- objects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "model = Net()\nask(model)",
        "model = Net()\nmodel = model.cuda()\nnet = model\nask(net)",
        "def train(net):\n    ask(net)\nmodel = Net()\ntrain(model)",
        "def build():\n    return Net(), 1\nmodel, one = build()\nask(model)",
        "def build():\n    model = Net()\n    def inner():\n        ask(model)\n    return inner",
        "class T:\n    def __init__(self):\n        self.model = Net()\n    def train(self):\n        ask(self.model)",
        "models = [Net(), Other()]\nask(models[0])",
        "parts = {'a': Net()}\nask(parts['a'])",
        "for model in [Net()]:\n    ask(model)",
        "from functools import partial\ndef run(net):\n    ask(net)\ngo = partial(run, Net())\ngo()",
        "from torch.nn.parallel import DistributedDataParallel as Parallel\nask(Parallel(Net()))",
    ],
)
def test_an_object_is_followed_to_where_it_was_made(code):
    facts = facts_of(code)
    (question,) = asked(facts)
    origins = [one.origin for one in facts.objects.objects(question)]
    made = {facts.text(origin) for origin in origins if isinstance(origin, cst.Call)}
    assert any(text.startswith("Net()") for text in made), made
    assert not any(text.startswith("Other()") for text in made), made


@pytest.mark.parametrize(
    "body",
    [
        "return net",
        "return net.cuda()",
        "net = net.cuda()\n    if many:\n        net = DataParallel(net)\n    return net",
        "moved = net.cuda()\n    return moved",
    ],
)
def test_a_function_returns_what_this_call_gives_it(body):
    facts = facts_of(f"def move(net):\n    {body}\none, other = move(Net()), move(Net())\nask(one, other)")
    one, other = (facts.objects.objects(node) for node in asked(facts))
    assert one and other and not one & other


def test_what_a_function_makes_of_nothing_is_no_argument():
    facts = facts_of(
        "shared = Net()\ndef pick(net):\n    if bad:\n        net = shared\n    return net\n"
        "one, other = pick(Net()), pick(shared)\nask(one, other)"
    )
    one, other = (facts.objects.objects(node) for node in asked(facts))
    assert one & other


@pytest.mark.parametrize(
    ("code", "same"),
    [
        ("def make(net):\n    return SGD(net)\none, other = make(1), make(2)\nask(one, other)", False),
        ("def make(net):\n    return SGD(net)\none = make(1)\nother = one\nmake(2)\nask(one, other)", True),
        ("def make(net):\n    o = SGD(net)\n    ask(o)\n    return o\none = make(1)\nmake(2)\nask(one)", True),
        (
            "def inner(net):\n    return SGD(net)\ndef make(net):\n    o = inner(net)\n    return o\n"
            "one, other = make(1), make(2)\nask(one, other)",
            False,
        ),
        (
            "class T:\n    def make(self, net):\n        return SGD(net)\n    def __init__(self, a, b):\n"
            "        self.a = self.make(a)\n        self.b = self.make(b)\n        ask(self.a, self.b)",
            False,
        ),
    ],
)
def test_what_a_function_makes_for_two_callers_is_two_objects(code, same):
    facts = facts_of(code)
    one, other = (facts.objects.objects(node) for node in asked(facts))
    assert bool(one & other) == same
    assert {found.origin for found in one} == {found.origin for found in other}


def unit_of(**codes: str) -> Facts:
    """The facts of several modules, by name."""
    return Facts(
        [SourceFile(parse(textwrap.dedent(code).lstrip().encode()), f"{name}.py", name) for name, code in codes.items()]
    )


_STEP = "def mask_step(net, optimizer):\n    ask(optimizer)\ndef other_step(net, optimizer):\n    pass"
_FIT = "def fit(net, step, optimizer=None):\n    step(net, optimizer)"


@pytest.mark.parametrize(
    ("main", "called"),
    [
        ("fit(Net(), mask_step)", {"mask_step"}),
        ("fit(Net(), mask_step)\nfit(Net(), mask_step)", {"mask_step"}),
        ("fit(Net(), mask_step)\nfit(Net(), other_step)", set()),
        ("chosen = mask_step\nfit(Net(), chosen)", {"mask_step"}),
        ("fit(Net(), partial(mask_step, optimizer=Adam()))", {"mask_step"}),
        ("fit(Net(), partial(mask_step, optimizer=Adam()))\nfit(Net(), partial(mask_step, optimizer=SGD()))", set()),
        ("run = partial(fit, Net())\nrun(mask_step)", {"mask_step"}),
        ("def outer(step):\n    fit(Net(), step)\nouter(mask_step)", {"mask_step"}),
    ],
)
def test_a_function_that_is_passed_on_is_known_where_all_callers_pass_the_same(main, called):
    imports = "from functools import partial\nfrom steps import *\nfrom loops import fit\n"
    facts = unit_of(steps=_STEP, loops=_FIT, main=imports + main)
    functions = {function for function in facts.tree.functions if facts.calls.callers(function)}
    assert {function.name for function in functions} & {"mask_step", "other_step"} == called
    unknown = {function.name for function in facts.tree.functions if facts.calls.value_uses(function)}
    passed = {name for name in ("mask_step", "other_step") if name in main}
    assert unknown == passed - called


@pytest.mark.parametrize(
    "code",
    [
        "class T:\n    @staticmethod\n    def step(net):\n        ask(net)\nT.step(Net())",
        "class T:\n    @classmethod\n    def step(cls, net):\n        ask(net)\nT.step(Net())",
        "class T:\n    def step(self, net):\n        ask(net)\nT.step(T(), Net())",
        "class B:\n    @staticmethod\n    def step(net):\n        ask(net)\nclass T(B):\n    pass\nT.step(Net())",
    ],
)
def test_a_method_that_is_called_by_its_class_gets_all_that_is_given(code):
    facts = facts_of(code)
    (question,) = asked(facts)
    (made,) = (one.origin for one in facts.objects.objects(question))
    assert facts.text(made) == "Net()"
    method = next(one for one in facts.tree.functions if one.name == "step")
    assert len(facts.calls.callers(method)) == 1


def test_what_a_partial_binds_reaches_the_function_that_is_passed_on():
    main = "from functools import partial\nfrom steps import *\nfrom loops import fit\nadam = Adam()\n"
    facts = unit_of(steps=_STEP, loops=_FIT, main=main + "fit(Net(), partial(mask_step, optimizer=adam))")
    (question,) = asked(facts)
    assert {facts.text(one.origin) for one in facts.objects.objects(question)} == {"Adam()"}


@pytest.mark.parametrize(
    ("main", "uses"),
    [
        ("import steps\nsteps.mask_step(net, optimizer)", {}),
        ("import steps\nThread(target=steps.mask_step)", {"mask_step": "steps.mask_step"}),
        ("import steps\ntable = {'mask': steps.mask_step}", {"mask_step": "steps.mask_step"}),
        ("from functools import partial\nimport steps\nrun = partial(steps.mask_step, net)\nrun(optimizer)", {}),
        (
            "from functools import partial\nimport steps\nsubmit(partial(steps.mask_step, net))",
            {"mask_step": "steps.mask_step"},
        ),
        (
            "import steps\nchosen = getattr(steps, name)\nchosen(net, optimizer)",
            {"mask_step": "getattr(steps, name)", "other_step": "getattr(steps, name)"},
        ),
        ("from steps import mask_step\nglobals()[name](net)", {"mask_step": "globals()[name]"}),
        ("import steps\nsetattr(steps, 'depth', 2)\ngetattr(net, name)", {}),
    ],
)
def test_functions_that_are_used_as_values(main, uses):
    facts = unit_of(steps=_STEP, main=main)
    found = {f.name: [facts.text(use) for use in facts.calls.value_uses(f)] for f in facts.tree.functions}
    assert {name: texts for name, texts in found.items() if texts} == {name: [text] for name, text in uses.items()}


CALLS = """\
import functools
from torch.utils.checkpoint import checkpoint

class Base:
    @staticmethod
    def scaled(x):
        return x
    @classmethod
    def made(cls, x):
        return x
    def step(self, x):
        return x

class Trainer(Base):
    def __init__(self):
        self.hooks = [self.step]
        self.run = self.step
    def train(self, batch):
        step = getattr(self, "step")
        ask({call})

Trainer().train(1)
"""


@pytest.mark.parametrize(
    ("call", "given"),
    {
        "self.step(batch)": {"x": "batch"},
        "Base.step(self, batch)": {"self": "self", "x": "batch"},
        "Base.step(self, x=batch)": {"self": "self", "x": "batch"},
        "type(self).step(self, batch)": {"self": "self", "x": "batch"},
        "self.__class__.step(self, batch)": {"self": "self", "x": "batch"},
        "getattr(self, 'step')(batch)": {"x": "batch"},
        "step(batch)": {"x": "batch"},
        "self.run(batch)": {"x": "batch"},
        "self.hooks[0](batch)": {"x": "batch"},
        "functools.partial(self.step, batch)()": {"x": "batch"},
        "checkpoint(self.step, batch, use_reentrant=False)": {"x": "batch"},
        "Base.scaled(batch)": {"x": "batch"},
        "self.scaled(batch)": {"x": "batch"},
        "Base.made(batch)": {"x": "batch"},
        "self.made(batch)": {"x": "batch"},
    }.items(),
)
def test_a_method_is_known_however_it_is_called(call, given):
    facts = facts_of(CALLS.format(call=call))
    (question,) = asked(facts)
    assert isinstance(question, cst.Call)
    (function,) = facts.objects.candidates(question)
    assert facts.objects.called_function(question) is function
    found = facts.objects.arguments(question, function)
    assert {param.name.value: facts.text(arg.value) for param, arg in found} == given


@pytest.mark.parametrize(
    "body", ["raise NotImplementedError", "raise NotImplementedError('later')", "...", "'Later.'", "pass"]
)
def test_an_abstract_method_stands_for_the_one_below(body):
    base = f"class Base:\n    def fit(self):\n        self.step(1)\n    def step(self, batch):\n        {body}"
    below = "from base import Base\nclass Below(Base):\n    def step(self, batch):\n        return batch.loss"
    facts = unit_of(base=base, below=below)
    called = {function for function in facts.tree.functions if facts.calls.callers(function)}
    assert [function.owner.name for function in called if function.owner is not None] == ["Below"]


def test_methods_that_differ_are_not_chosen_from():
    base = "class Base:\n    def fit(self):\n        self.step(1)\n    def step(self, batch):\n        return 0"
    below = "from base import Base\nclass Below(Base):\n    def step(self, batch):\n        return batch.loss"
    facts = unit_of(base=base, below=below)
    assert not any(facts.calls.callers(function) for function in facts.tree.functions)


def test_a_parameter_has_the_key_of_what_another_file_gives_it():
    helper = "def backward_step(loss, fp16):\n    ask(fp16)"
    main = "import helper\nargs = parse()\nask(args.fp16)\nhelper.backward_step(loss, args.fp16)"
    facts = unit_of(helper=helper, main=main)
    given, taken = asked(facts)
    assert facts.identity.key(given) == facts.identity.key(taken)
    assert facts.identity.key(given) is not None


@pytest.mark.parametrize(
    ("again", "same"),
    [
        ("walk(args, depth - 1)", True),
        ("walk(args=args, depth=0)", True),
        ("other = args\n    walk(other, depth - 1)", True),
        ("Node().walk(args)", True),
        ("walk(changed(args), depth - 1)", False),
        ("walk(OTHER, depth - 1)", False),
        ("args = changed(args)\n    walk(args, depth - 1)", False),
    ],
)
def test_a_parameter_that_is_handed_on_to_itself_has_the_value_of_the_first_call(again, same):
    node = "class Node:\n    def walk(self, args):\n        walk(args, 1)" if "Node" in again else ""
    code = f"""{node}
def walk(args, depth=3):
    ask(args.level)
    {again}
def main():
    args = parser.parse_args()
    if args.level:
        walk(args)
"""
    facts = facts_of(code)
    (question,) = asked(facts)
    (test,) = (one.node.test for one in facts.tree.all_statements() if isinstance(one.node, cst.If))
    assert (facts.identity.key(question) == facts.identity.key(test)) is same


_PACKAGE_IMPORTS = [
    "from pkg import train\nask(train)",
    "import pkg\nask(pkg.train)",
    "import pkg.train\nask(pkg.train)",
]


@pytest.mark.parametrize("code", [*_PACKAGE_IMPORTS, "import pkg.train as train\nask(train)"])
@pytest.mark.parametrize(
    ("init", "is_function"), [("from .train import train", True), ("from . import train", False), ("", False)]
)
def test_a_name_of_a_package_hides_the_module_of_that_name(code, init, is_function, tmp_path):
    forget()
    sources = {"pkg/__init__": init, "pkg/train": "def train():\n    pass", "main": code}
    files = []
    for name, source in sources.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        files.append(SourceFile(parse(source.encode()), str(path), module_name(path)))
    facts = Facts(files, Helpers())
    (question,) = asked(facts)
    found = facts.objects.function_named(question)
    assert (found is not None and found.name == "train") is is_function
    module = facts.names.module(question)
    assert (module is not None and facts.files[module].path.endswith("pkg/train.py")) is not is_function


# -- conditions ---------------------------------------------------------------------------------------------

_OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--level", default="O1")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("args.fp16", "not not args.fp16"),
        ("args.fp16", "args.fp16 is True"),
        ("args.level != 'O0'", "not args.level == 'O0'"),
        ("not (args.fp16 and args.level)", "not args.fp16 or not args.level"),
        ("bool(args.fp16)", "args.fp16"),
    ],
)
def test_equivalent_conditions(first, second):
    facts = facts_of(_OPTIONS + f"ask({first}, {second})")
    one, other = (facts.conditions.compile(node) for node in asked(facts))
    assert facts.conditions.equivalent(one, other)


@pytest.mark.parametrize(
    "level", ["'O' + str(args.count)", "'O' + args.level", "'O%d' % args.count", "'O' * args.count"]
)
def test_a_text_that_is_put_together_may_be_the_one_it_is_compared_with(level):
    facts = facts_of(_OPTIONS + f"ask({level} != 'O0')")
    assert facts.conditions.constant(facts.conditions.compile(asked(facts)[0])) is None


@pytest.mark.parametrize(
    ("first", "second", "follows"),
    [
        ("args.fp16 and args.level", "args.fp16", True),
        ("args.fp16", "args.fp16 and args.level", False),
        ("args.level == 'O2'", "args.level != 'O0'", True),
        ("args.level != 'O0'", "args.level == 'O2'", False),
        ("(int(args.count) if args.fp16 else 1) > 1", "args.level == 'O2'", False),
        ("args.fp16 and not args.fp16", "args.level == 'O2'", False),
    ],
)
def test_implied_conditions(first, second, follows):
    facts = facts_of(_OPTIONS + f"ask({first}, {second})")
    one, other = (facts.conditions.compile(node) for node in asked(facts))
    assert facts.conditions.implies(one, other) is follows


@pytest.mark.parametrize(
    ("expression", "is_bool"),
    [
        ("args.fp16", True),
        ("args.level", False),
        ("args.level != 'O0'", True),
        ("not args.level", True),
        ("args.fp16 and args.level", False),
        ("args.fp16 or args.level == 'O1'", True),
        ("None", False),
        ("torch.cuda.is_available()", True),
    ],
)
def test_proven_bools(expression, is_bool):
    facts = facts_of(_OPTIONS + f"import torch\nask({expression})")
    (question,) = asked(facts)
    assert facts.values.is_bool(question) is is_bool


@pytest.mark.parametrize(
    ("config", "is_bool"),
    [
        ("FP16 = True", True),
        ("FP16 = True\nif DEBUG:\n    FP16 = False", True),
        ("FP16: bool = False", True),
        ("from defaults import FP16", True),
        ("FP16 = 1", False),
        ("FP16 = True\nFP16 |= DEBUG", False),
        ("FP16 = True\nfor FP16 in range(2):\n    pass", False),
        ("OTHER = True", False),
    ],
)
@pytest.mark.parametrize("in_unit", [False, True])
def test_a_switch_of_a_config_module_is_a_bool(config, is_bool, in_unit, tmp_path):
    forget()
    (tmp_path / "config.py").write_text(config)
    (tmp_path / "defaults.py").write_text("FP16 = True")
    main = tmp_path / "main.py"
    files = [SourceFile(parse(b"import config as cfg\nask(cfg.FP16)"), str(main), module_name(main))]
    if in_unit:
        file = tmp_path / "config.py"
        files.append(SourceFile(parse(config.encode()), str(file), module_name(file)))
    facts = Facts(files, Helpers())
    (question,) = asked(facts)
    assert facts.values.is_bool(question) is is_bool


def test_a_switch_that_the_unit_sets_to_something_else_is_no_bool(tmp_path):
    forget()
    (tmp_path / "config.py").write_text("FP16 = True")
    main = tmp_path / "main.py"
    code = b"import config as cfg\ncfg.FP16 = options.level\nask(cfg.FP16)"
    facts = Facts([SourceFile(parse(code), str(main), module_name(main))], Helpers())
    (question,) = asked(facts)
    assert not facts.values.is_bool(question)


# -- paths --------------------------------------------------------------------------------------------------


def path_exists(code: str, start: str, goal: str, avoid: str, root: str = "<module>") -> bool:
    """Is there a path from the statement that calls `start` to that of `goal` around `avoid`?"""
    facts = facts_of(code)
    (function,) = (one for one in facts.tree.functions if one.name == root)
    graph = Graph(facts, function, lambda callee: callee.name != "advance", lambda test: None, called_again=False)

    def calls(name: str) -> set[Statement]:
        return {
            statement
            for statement in facts.tree.all_statements()
            for part in facts.tree.expressions(statement)
            if isinstance(part, cst.Call) and called_name(part) == name
        }

    goals, avoided = calls(goal), calls(avoid)
    sources = [point for statement in calls(start) for point in graph.at(statement)]
    assert sources
    return graph.path_exists(sources, lambda p: p.statement in goals, lambda p: p.statement in avoided)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("for b in loader:\n    clip()\n    step()\n    backward()", False),
        ("for b in loader:\n    backward()\n    clip()\n    if b:\n        step()", True),
        ("for b in loader:\n    backward()\n    if b:\n        clip()\n        step()", False),
        ("for b in loader:\n    backward()\n    if b:\n        clip()\n    if b:\n        step()", False),
        ("for b in loader:\n    backward()\n    if b:\n        clip()\n    b = f(b)\n    if b:\n        step()", True),
        ("for b in loader:\n    backward()\n    clip()\n    if b:\n        continue\n    step()", True),
        ("def one():\n    clip()\n    step()\nfor b in loader:\n    backward()\n    one()", False),
        ("while go:\n    backward()\n    try:\n        clip()\n        step()\n    except E:\n        pass", False),
        ("clip()\nfor b in loader:\n    step()\n    backward()", False),
    ],
)
def test_paths_from_a_clip_to_the_next_backward(code, expected):
    assert path_exists(code, "clip", "backward", avoid="step") is expected


@pytest.mark.parametrize(
    ("first", "then", "between", "both"),
    [
        ("opt.task == 'a'", "opt.task == 'b'", "log()", False),
        ("opt.task == 'a'", "'b' == opt.task", "log()", False),
        ("opt.task != 'b'", "opt.task == 'b'", "log()", False),
        ("not task == 'b'", "task == 'b' and flag", "log()", False),
        ("cfg['task'] in ('a', 'c')", "cfg['task'] == 'b'", "costs[0] = log()", False),
        ("task is None", "task == 'b'", "log()", False),
        ("task == 'a' or task == 'c'", "task == 'b'", "log()", False),
        ("opt.task == 'a'", "opt.task in ('a', 'b')", "log()", True),
        ("opt.task == 'a'", "opt.kind == 'b'", "log()", True),
        ("opt.task != 'a'", "opt.task == 'b'", "log()", True),
        ("opt.task == 'a'", "opt.task == 'b'", "opt.task = 'b'", True),
        ("opt.task == 'a'", "opt.task == 'b'", "advance(opt)", True),
        ("task == 'a'", "task == 'b'", "advance(opt)", True),
        ("cfg['task'] == 'a'", "cfg['task'] == 'b'", "cfg['task'] = 'b'", True),
        ("level == 1", "level is True", "log()", True),
        ("opt.task == name", "opt.task == 'b'", "log()", True),
    ],
)
def test_arms_of_one_option_exclude_each_other(first, then, between, both):
    advance = "def advance(opt):\n    global task\n    opt.task, task = 'b', 'b'" if "advance" in between else ""
    code = f"""{advance}
def train(loader):
    for batch in loader:
        if {first}:
            clip()
        {between}
        if {then}:
            backward()
"""
    assert path_exists(code, "clip", "backward", avoid="train", root="train") is both


def test_what_makes_a_value_comes_in_the_order_of_the_file():
    choices = "".join(f"if n == {n}:\n    pool = package.pool{n}()\n" for n in range(9))
    facts = Facts.of_module(parse(f"import package\n{choices}pool(x)\n".encode()))
    (call,) = (one for one, _ in facts.tree.every(cst.Call) if facts.text(one.func) == "pool")
    assert facts.objects.paths_behind(call.func) == [f"package.pool{n}" for n in range(9)]


def test_the_objects_behind_a_name_have_one_order():
    """An answer on a circle depends on what is asked first: in another order it was another one in each run."""
    names = [f"name_{number}" for number in range(20)]
    code = f"from package import {', '.join(names)}\n" + "".join(f"net = {name}\n" for name in names) + "ask(net)\n"
    script = (
        "from tests.test_facts import asked, facts_of\n"
        f"facts = facts_of({code!r})\n"
        "print([one.origin for one in facts.objects.objects(asked(facts)[0])])"
    )
    run = [sys.executable, "-c", script]
    orders = {subprocess.check_output(run, env={**os.environ, "PYTHONHASHSEED": seed}) for seed in "1234"}
    assert len(orders) == 1


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("def go(a): ...\ndef go(a, b): ...\nask(go(1, 2))", 2),
        ("def go(a): ...\nask(go(1))\ndef go(a, b): ...", 1),
        ("def go(a): ...\ndef go(a, b): ...\ndef run():\n    ask(go(1, 2))", 2),
        ("def go(a): ...\nfrom other import own\ndef go(a, b): ...\ndef go(a, b, c): ...\nask(go(1, 2, 3))", 4),
        ("def run():\n    def go(): ...\n    def go(a): ...\n    ask(go(1))", 3),
        ("if here:\n    def go(): ...\nelse:\n    def go(a): ...\nask(go())", None),
        ("def go(): ...\ndef run():\n    ask(go())\nrun()\ndef go(a): ...", None),
        ("def go(): ...\ngo = other(go)\nask(go())", None),
        ("class Steps:\n    def go(self): ...\n    def go(self): ...\n    def run(self):\n        ask(self.go())", 3),
        ("class Steps:\n    def go(self): ...\nclass Steps:\n    def go(self): ...\nask(Steps().go())", 4),
    ],
)
def test_the_last_definition_counts(code, line):
    facts = facts_of(code)
    (call,) = asked(facts)
    run = facts.objects.called_function(call)
    assert (run and facts.line(run.node)) == line


def test_a_property_is_what_reads_it():
    (owner,) = facts_of(
        "class Steps:\n    @property\n    def rate(self): ...\n    @rate.setter\n    def rate(self, value): ...\n"
    ).tree.classes
    assert owner.methods["rate"].is_property


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("x = A()\nx = B(x)\nask(x)", {"B"}),
        ("x = A()\nask(x)\nx = B(x)", {"A"}),
        ("x = A()\nx = B(ask(x))", {"A"}),
        ("x = A()\nif c:\n    x = B(x)\nask(x)", {"A", "B"}),
        ("x = A()\nif c:\n    x = B(x)\nelse:\n    x = C(x)\nask(x)", {"B", "C"}),
        ("x = A()\nfor _ in y:\n    ask(x)\n    x = B(x)", {"A", "B"}),
        ("x = A()\ntry:\n    x = B(x)\nexcept E:\n    ask(x)", {"A", "B"}),
        ("try:\n    x = A()\n    x = B(x)\nexcept E:\n    x = C()\nelse:\n    ask(x)", {"A", "B", "C"}),
        ("x = A()\ntry:\n    x = B(x)\nfinally:\n    ask(x)", {"A", "B"}),
        ("def f():\n    ask(x)\nx = A()\nx = B(x)\nf()", {"A", "B"}),
        ("def f():\n    global x\n    x = A()\nx = B(x)\nf()\nask(x)", {"A", "B"}),
        ("x = A()\nrun = lambda: ask(x)\nx = B(x)", {"A", "B"}),
        ("ask(x)\nx = A()\nx = B(x)", {"A", "B"}),
    ],
)
def test_what_an_own_class_takes_over_is_told_from_what_it_was(code: str, meant: set[str]) -> None:
    facts = facts_of(f"class B:\n    def __init__(self, x):\n        self.x = x\n\n\n{code}\n")
    (node,) = asked(facts)
    origins = [one.origin for one in facts.objects.objects(node)]
    assert {one.name if isinstance(one, Class) else facts.text(one.func) for one in origins} == meant
