"""The resolver of imports and the index of units, on small trees."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.files.imports import canonical, forget, look_up_to, member, module_name, split
from amp_migrate.units.index import Index, Unit
from amp_migrate.units.universe import universe_of
from amp_migrate.units.workspace import Workspace

WHOLE = """
from apex import amp
def main(model, optimizer, loss):
    model, optimizer = amp.initialize(model, optimizer)
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
"""
SETUP = "from apex import amp\ndef setup(model, optimizer):\n    return amp.initialize(model, optimizer)\n"
SCALING = "from apex import amp\ndef train(loss, optimizer):\n    with amp.scale_loss(loss, optimizer) as s:\n        s.backward()\n"
SAVING = "from apex import amp\ndef save(path):\n    return {'amp': amp.state_dict()}\n"


class Tree:
    """A repository in a temporary folder, written from `path -> content`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".git").mkdir()

    def __call__(self, files: dict[str, str]) -> Tree:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        forget()
        return self

    def path(self, name: str) -> Path:
        return self.root / name

    def named(self, dotted: str) -> str:
        return str(self.root / dotted)

    def index(self) -> Index:
        return Index(self.root.rglob("*.py"))

    def unit(self, seed: str) -> set[str]:
        return self.names(self.index().unit_of(self.path(seed)))

    def names(self, unit: Unit | None) -> set[str]:
        assert unit is not None
        return {str(file.relative_to(self.root)) for file in unit.files}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path.resolve())


class TestImports:
    def test_relative_to_the_package(self, tree: Tree) -> None:
        tree({"pkg/__init__.py": "", "pkg/sub/__init__.py": "", "pkg/sub/a.py": "", "pkg/utils.py": ""})
        here = tree.path("pkg/sub/a.py")
        assert canonical(here, "..utils.save") == tree.named("pkg/utils.save")
        assert canonical(here, "..utils") == tree.named("pkg/utils")
        assert canonical(here, "..") == tree.named("pkg")
        assert canonical(here, ".missing.x") == tree.named("pkg/sub.missing.x")

    def test_absolute_from_the_script_then_above_then_src(self, tree: Tree) -> None:
        tree({"tools/train.py": "", "tools/utils.py": "", "utils.py": "", "engine.py": "", "src/net/__init__.py": ""})
        here = tree.path("tools/train.py")
        assert canonical(here, "utils.save") == tree.named("tools/utils.save")
        assert canonical(here, "engine.train") == tree.named("engine.train")
        assert canonical(here, "net.Net") == tree.named("src/net.Net")
        assert canonical(here, "torch.nn.Linear") == "torch.nn.Linear"

    def test_a_module_is_no_package(self, tree: Tree) -> None:
        """`import net.models` in a package that holds a net.py, of a package net further up."""
        tree({"net/__init__.py": "", "net/models/__init__.py": "", "net/models/net.py": "class Net: pass\n"})
        here = tree.path("net/models/other.py")
        assert canonical(here, "net.models.Net") == tree.named("net/models.Net")
        assert canonical(here, "net.Net") == tree.named("net/models/net.Net")

    def test_a_module_has_no_module_in_it(self, tree: Tree) -> None:
        """`from model.layers import Layer` beside a model.py, in a folder that no package is."""
        tree({"model/layers.py": "", "model/model.py": "class Net: pass\nlr = 1\n", "model/lr.py": "", "train.py": ""})
        for here in (tree.path("model/trainer.py"), tree.path("model/model.py"), tree.path("train.py")):
            assert canonical(here, "model.layers.Layer") == tree.named("model/layers.Layer")
            assert canonical(here, "model.model.Net") == tree.named("model/model.Net")
        here = tree.path("model/trainer.py")
        assert canonical(here, "model.Net.apply") == tree.named("model/model.Net.apply")
        assert canonical(here, "model.lr") == tree.named("model/model.lr")

    def test_behind_a_link(self, tree: Tree) -> None:
        tree({"models/net.py": "", "models/zoo/__init__.py": "", "bench/train.py": "", "bench/sub/__init__.py": ""})
        tree.path("bench/models").symlink_to("../models")
        tree.path("bench/sub/net.py").symlink_to("../../models/net.py")
        forget()
        here = tree.path("bench/train.py")
        assert canonical(here, "models.net.Net") == tree.named("models/net.Net")
        assert canonical(here, "models.zoo.Net") == tree.named("models/zoo.Net")
        assert canonical(here, "sub.net.Net") == tree.named("models/net.Net")
        assert canonical(tree.path("bench/sub/other.py"), ".net.Net") == tree.named("models/net.Net")

    def test_not_above_the_repository(self, tree: Tree) -> None:
        tree({"inner/.git/HEAD": "", "inner/train.py": "", "engine.py": ""})
        assert canonical(tree.path("inner/train.py"), "engine.train") == "engine.train"

    @pytest.mark.parametrize("outer", ["", "inner/"])
    def test_however_deep_in_the_repository(self, tree: Tree, outer: str) -> None:
        tree({f"{outer}pkg/ops.py": "", f"{outer}pkg/a/b/c/d/head.py": ""})
        if outer:
            tree({"inner/.git/HEAD": "", "ops.py": ""})
        here = tree.path(f"{outer}pkg/a/b/c/d/head.py")
        assert canonical(here, "pkg.ops.Align") == tree.named(f"{outer}pkg/ops.Align")
        assert canonical(here, "ops.Align") == tree.named("pkg/ops.Align" if not outer else "inner/pkg/ops.Align")

    @pytest.mark.parametrize("given", [".", "pkg/.."])
    def test_a_folder_that_was_given_is_a_root(self, tree: Tree, given: str) -> None:
        tree({"pkg/ops.py": "", "pkg/a/b/c/d/head.py": "", "pkg/a/b/near.py": ""})
        (tree.root / ".git").rmdir()
        here = tree.path("pkg/a/b/c/d/head.py")
        assert canonical(here, "near.x") == tree.named("pkg/a/b/near.x")
        assert canonical(here, "pkg.ops.Align") == "pkg.ops.Align"
        look_up_to([tree.path(given)])
        assert canonical(here, "pkg.ops.Align") == tree.named("pkg/ops.Align")
        look_up_to([tree.path("pkg/a/b/c")])
        assert canonical(here, "near.x") == tree.named("pkg/a/b/near.x")

    def test_a_folder_that_was_given_hides_nothing_of_its_repository(self, tree: Tree) -> None:
        tree({"pkg/ops.py": "", "pkg/a/b/c/d/head.py": ""})
        look_up_to([tree.path("pkg/a")])
        assert canonical(tree.path("pkg/a/b/c/d/head.py"), "pkg.ops.Align") == tree.named("pkg/ops.Align")

    def test_a_folder_without_init_counts_for_what_is_below(self, tree: Tree) -> None:
        tree({"train.py": "", "models/net.py": "", "datasets/list.txt": ""})
        here = tree.path("train.py")
        assert canonical(here, "models.net.Net") == tree.named("models/net.Net")
        assert canonical(here, "models.zoo") == "models.zoo"
        assert canonical(here, "datasets.load_dataset") == "datasets.load_dataset"

    def test_a_package_before_a_module(self, tree: Tree) -> None:
        tree({"train.py": "", "utils/__init__.py": "", "utils.py": ""})
        assert split(canonical(tree.path("train.py"), "utils.save")) == (tree.path("utils/__init__.py"), "save")

    def test_what_shell_scripts_put_on_the_path_comes_before_the_folders_above(self, tree: Tree) -> None:
        path = "ROOT=$PWD/../../src\nexport PYTHONPATH=$ROOT/data/:${ROOT}/nets:$PYTHONPATH\n"
        tree({"src/bin/train.py": "", "src/data/__init__.py": "", "src/data/data.py": "", "src/nets/net.py": ""})
        here = tree.path("src/bin/train.py")
        assert canonical(here, "data.Loader") == tree.named("src/data.Loader")
        assert canonical(here, "net.Net") == "net.Net"
        tree({"egs/small/path.sh": path, "egs/data/list.txt": ""})
        assert canonical(here, "data.Loader") == tree.named("src/data/data.Loader")
        assert canonical(here, "net.Net") == tree.named("src/nets/net.Net")

    def test_a_local_folder_is_no_apex(self, tree: Tree) -> None:
        tree({"train.py": "", "apex/setup.py": "", "torch/__init__.py": ""})
        here = tree.path("train.py")
        assert [canonical(here, name) for name in ("apex.amp", "apex", "torch.nn")] == ["apex.amp", "apex", "torch.nn"]

    def test_a_copy_of_apex_is_apex(self, tree: Tree) -> None:
        tree({"apex/__init__.py": "", "apex/amp/__init__.py": "", "examples/main.py": ""})
        here = tree.path("examples/main.py")
        assert [canonical(here, name) for name in ("apex.amp.initialize", "apex")] == ["apex.amp.initialize", "apex"]

    def test_a_package_that_is_only_called_apex_is_local(self, tree: Tree) -> None:
        tree({"apex/__init__.py": "", "apex/tools.py": "", "examples/main.py": ""})
        assert canonical(tree.path("examples/main.py"), "apex.tools.load") == tree.named("apex/tools.load")

    def test_a_module_does_not_import_itself(self, tree: Tree) -> None:
        tree({"tools/wandb.py": "", "tools/__init__.py": "", "tools/logging.py": "", "tools/a.py": ""})
        assert canonical(tree.path("tools/wandb.py"), "wandb.init") == "wandb.init"
        assert canonical(tree.path("tools/a.py"), "logging.info") == "logging.info"
        assert canonical(tree.path("tools/a.py"), "wandb.init") == tree.named("tools/wandb.init")

    def test_a_script_means_the_module_beside_it_also_under_a_name_of_pythons(self, tree: Tree) -> None:
        tree({"train.py": "", "profile.py": ""})
        assert canonical(tree.path("train.py"), "profile.run") == tree.named("profile.run")

    def test_member(self, tree: Tree) -> None:
        tree({"pkg/__init__.py": "", "pkg/utils.py": "", "utils.py": "", "space/net.py": ""})
        assert member(tree.named("pkg"), "utils") == tree.named("pkg/utils")
        assert member(tree.named("pkg"), "save") == tree.named("pkg.save")
        assert member(tree.named("pkg/utils"), "save") == tree.named("pkg/utils.save")
        assert member(tree.named("space"), "net") == tree.named("space/net")
        assert member("torch", "nn") == "torch.nn"

    def test_split(self, tree: Tree) -> None:
        tree({"v1.0/train_v1.0.py": "", "pkg/__init__.py": ""})
        assert split(tree.named("v1.0/train_v1.0.Trainer.fit")) == (tree.path("v1.0/train_v1.0.py"), "Trainer.fit")
        assert split(tree.named("pkg.Net")) == (tree.path("pkg/__init__.py"), "Net")
        assert split(module_name(tree.path("pkg/__init__.py"))) == (tree.path("pkg/__init__.py"), "")
        assert split("torch.nn") is None
        assert split(tree.named("missing.x")) is None


class TestTouches:
    def test_by_name_and_by_method(self, tree: Tree) -> None:
        tree(
            {
                "a.py": """
                import apex
                from apex import amp as mixed
                def alias(o): return mixed.master_params(o)
                def dotted(m): return apex.amp.initialize(m)
                def parameter(amp, loss, o):
                    with amp.scale_loss(loss, o): pass
                class Held:
                    def save(self): return self.apex_amp.state_dict()
                def nothing(model, optimizer): return model.state_dict(), optimizer.initialize()
                """.replace("\n                ", "\n")
            }
        )
        assert tree.index().touches(tree.path("a.py")) == {"alias", "dotted", "parameter", "Held", "mixed"}

    def test_native_amp_and_own_methods_are_no_handle(self, tree: Tree) -> None:
        tree(
            {
                "a.py": "import apex.parallel\nfrom torch.cuda import amp\ndef f(): return amp.state_dict()\n"
                "class Own:\n    def scale_loss(self, x): return x\n    def g(self): return self.scale_loss(1)\n"
            }
        )
        assert tree.index().touches(tree.path("a.py")) == set()

    def test_a_handle_that_is_handed_to_a_parameter(self, tree: Tree) -> None:
        keeper = "class Keeper:\n    def __init__(self, amp=None): self.held = dict(amp=amp)\n"
        tree({"keeper.py": keeper, "train.py": "from keeper import Keeper\n" + WHOLE + "    Keeper(amp=amp)\n"})
        assert tree.unit("train.py") == {"train.py", "keeper.py"}

    def test_an_option_of_that_name_is_none(self, tree: Tree) -> None:
        keeper = "class Keeper:\n    def __init__(self, amp=False): self.amp = amp\n"
        tree({"keeper.py": keeper, "train.py": "from keeper import Keeper\n" + WHOLE + "    Keeper(amp=args.amp)\n"})
        assert tree.unit("train.py") == {"train.py"}


class TestUnits:
    @pytest.mark.parametrize(
        ("importing", "call"),
        [
            ("from engine import train", "train(1, 2)"),
            ("from engine import train as run", "run(1, 2)"),
            ("import engine", "engine.train(1, 2)"),
            ("import engine as e", "e.train(1, 2)"),
            ("from engine import *", "train(1, 2)"),
            ("import engine", "getattr(engine, name)(1, 2)"),
            ("from functools import partial\nfrom engine import train", "partial(train, 1)"),
        ],
    )
    def test_a_function_of_another_module(self, tree: Tree, importing: str, call: str) -> None:
        tree({"engine.py": SCALING, "main.py": f"{SETUP}{importing}\nsetup(1, 2)\n{call}\n"})
        assert tree.unit("main.py") == tree.unit("engine.py") == {"main.py", "engine.py"}

    def test_inside_of_a_function_and_a_try(self, tree: Tree) -> None:
        body = "def go():\n    try:\n        from engine import train\n    except ImportError:\n        return\n    train(1, 2)\n"
        tree({"engine.py": SCALING, "main.py": SETUP + body})
        assert tree.unit("main.py") == {"main.py", "engine.py"}

    def test_an_import_alone_is_no_link(self, tree: Tree) -> None:
        tree({"engine.py": SCALING, "main.py": "from engine import train\n" + WHOLE})
        assert tree.unit("main.py") == {"main.py"}

    def test_a_local_name_hides_the_import(self, tree: Tree) -> None:
        tree({"engine.py": SCALING, "main.py": "from engine import train\n" + WHOLE + "def f(train): train()\n"})
        assert tree.unit("main.py") == {"main.py"}

    def test_a_re_export_joins(self, tree: Tree) -> None:
        tree(
            {
                "pkg/__init__.py": "from .engine import train as run\n",
                "pkg/engine.py": SCALING,
                "main.py": f"{SETUP}from pkg import run\nrun(1, 2)\n",
            }
        )
        assert tree.unit("main.py") == {"main.py", "pkg/__init__.py", "pkg/engine.py"}

    def test_a_re_export_for_two_trainings_does_not_join_them(self, tree: Tree) -> None:
        use = "from pkg import {0}\ndef more(): {0}(1, 2)\n"
        tree(
            {
                "pkg/__init__.py": "from .one import main as one\nfrom .two import main as two\n",
                "pkg/one.py": WHOLE,
                "pkg/two.py": WHOLE,
                "a.py": WHOLE + use.format("one"),
                "b.py": WHOLE + use.format("two"),
            }
        )
        assert tree.unit("a.py") == {"a.py", "pkg/__init__.py", "pkg/one.py"}

    def test_files_between_join(self, tree: Tree) -> None:
        between = "from engine import train\ndef run(): train(1, 2)\ndef other(): pass\n"
        tree({"engine.py": SCALING, "between.py": between, "main.py": f"{SETUP}from between import run\nrun()\n"})
        assert tree.unit("main.py") == {"main.py", "between.py", "engine.py"}
        tree({"main.py": f"{SETUP}from between import other\nother()\n"})
        assert tree.unit("main.py") == {"main.py"}

    def test_a_class_hierarchy(self, tree: Tree) -> None:
        base = SETUP + "class Base:\n    def __init__(self, m, o): self.m, self.o = amp.initialize(m, o)\n"
        tree({"base.py": base, "sub.py": "from base import Base\nclass Sub(Base):\n    amp.scale_loss(1, 2)\n"})
        assert tree.unit("base.py") == {"base.py", "sub.py"}

    def test_a_handle_hung_on_an_object(self, tree: Tree) -> None:
        tree(
            {
                "model.py": "class Model:\n    amp = None\n    def step(self):\n        self.amp.scale_loss(1, 2)\n",
                "setup.py": "def setup(model):\n    from apex import amp\n    amp.initialize(model)\n    model.amp = amp\n",
                "train.py": "from model import Model\nfrom setup import setup\nsetup(Model())\n",
            }
        )
        assert tree.unit("setup.py") == {"setup.py", "model.py", "train.py"}

    def test_two_whole_files_with_a_common_caller_are_not_linked(self, tree: Tree) -> None:
        caller = "import one, two\none.main(1, 2, 3)\ntwo.main(1, 2, 3)\n"
        tree({"one.py": WHOLE, "two.py": WHOLE, "all.py": caller})
        assert tree.unit("one.py") == {"one.py"}

    def test_a_shared_helper(self, tree: Tree) -> None:
        user = WHOLE + "    from utils import save, log\n    {0}(1)\n"
        tree({"utils.py": SAVING + "def log(x): print(x)\n", "a.py": user.format("save"), "b.py": user.format("save")})
        assert tree.unit("a.py") == {"a.py", "b.py", "utils.py"}
        tree({"a.py": user.format("log"), "b.py": user.format("log")})
        assert tree.unit("a.py") == {"a.py"}

    @pytest.mark.parametrize(
        "use", ["from compat import APEX\nprint(APEX)\n", "import compat\ncompat.amp.initialize(1)\n"]
    )
    def test_a_guarded_import_in_another_module(self, tree: Tree, use: str) -> None:
        compat = "try:\n    from apex import amp\n    APEX = True\nexcept ImportError:\n    APEX = False\n"
        tree({"compat.py": compat, "main.py": use})
        assert tree.unit("compat.py") == {"compat.py", "main.py"}

    def test_an_annotation_is_no_link(self, tree: Tree) -> None:
        tree(
            {
                "engine.py": SCALING + "class T:\n    amp.x\n",
                "main.py": f"from engine import T\n{WHOLE}\ndef f(t: T): pass\n",
            }
        )
        assert tree.unit("main.py") == {"main.py"}

    def test_apex_without_amp_stays_alone(self, tree: Tree) -> None:
        tree({"a.py": "from apex.parallel import DistributedDataParallel\n"})
        unit = tree.index().unit_of(tree.path("a.py"))
        assert tree.names(unit) == {"a.py"}

    def test_reasons_are_in_words(self, tree: Tree) -> None:
        tree({"engine.py": SCALING, "main.py": f"{SETUP}from engine import train\ntrain(1, 2)\n"})
        unit = tree.index().unit_of(tree.path("main.py"))
        assert dict(unit.reasons) == {
            tree.path("engine.py"): "its train, which uses apex.amp, is used by main.py",
            tree.path("main.py"): "uses apex.amp",
        }

    def test_files_that_do_not_parse_are_skipped(self, tree: Tree) -> None:
        tree({"old.py": "from apex import amp\nprint 'x'\n", "main.py": "import old\n" + WHOLE + "old.f()\n"})
        assert tree.unit("main.py") == {"main.py"}
        assert tree.unit("old.py") == {"old.py"}

    def test_only_what_matters_is_parsed(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        tree({"engine.py": SCALING, "main.py": "from engine import train\ntrain()\n", "net.py": "import engine\n"})
        from amp_migrate.units import sources

        parsed: list[str] = []
        summarise = sources.summarise
        monkeypatch.setattr(
            sources, "summarise", lambda file, source, tie: parsed.append(file.name) or summarise(file, source, tie)
        )
        index = tree.index()
        assert parsed == []
        index.unit_of(tree.path("engine.py"))
        assert sorted(parsed) == ["engine.py", "main.py"]


class TestGrown:
    def test_by_callers_bases_and_helpers_then_by_theirs(self, tree: Tree) -> None:
        trainer = (
            "from base import Base\nfrom clip import clip\nfrom words import words\nfrom apex import amp\n"
            "class Trainer(Base):\n    def step(self):\n        amp.scale_loss(1, 2)\n        clip(self.m)\n        words()\n"
        )
        tree(
            {
                "trainer.py": trainer,
                "base.py": "class Base:\n    pass\n",
                "clip.py": "import torch\ndef clip(m): torch.nn.utils.clip_grad_norm_(m, 1)\n",
                "words.py": "def words(): print('words')\n",
                "run.py": "from trainer import Trainer\ndef run(): Trainer()\n",
                "cli.py": "from run import run\nrun()\n",
                "other.py": "from clip import clip\nclip(1)\n",
            }
        )
        index = tree.index()
        unit = index.unit_of(tree.path("trainer.py"))
        assert tree.names(unit) == {"trainer.py"}
        grown = index.grown(unit)
        assert tree.names(grown) == {"trainer.py", "base.py", "clip.py", "run.py"}
        assert grown is not None and grown.reasons[tree.path("run.py")] == "uses Trainer of trainer.py"
        largest = index.grown(grown)
        assert tree.names(largest) == {"trainer.py", "base.py", "clip.py", "run.py", "cli.py"}
        assert largest is not None and index.grown(largest) is None

    def test_what_joins_brings_its_own_unit(self, tree: Tree) -> None:
        base = "from apex import amp\nfrom utils import save\nclass Base:\n    step = save\n"
        trainer = "from apex import amp\nfrom base import Base\nclass Trainer(Base):\n    amp.scale_loss(1, 2)\n"
        caller = "from base import more\n" + WHOLE
        tree({"utils.py": SAVING, "base.py": base, "trainer.py": trainer, "other.py": caller})


class TestRelatives:
    def test_derived_classes_and_the_bases_of_all(self, tree: Tree) -> None:
        tree(
            {
                "root.py": "class Root:\n    pass\n",
                "base.py": "from root import Root\nclass Base(Root):\n    pass\n",
                "trainer.py": f"{WHOLE}\nfrom base import Base\nclass Trainer(Base):\n    fit = main\nclass Log:\n    pass\n",
                "sub.py": "from trainer import Trainer\nclass Sub(Trainer):\n    pass\n",
                "tests/test_sub.py": "import sub\nfrom mixins import Mixin\nclass Fake(sub.Sub, Mixin):\n    pass\n",
                "mixins.py": "class Mixin:\n    pass\n",
                "sibling.py": "from base import Base\nclass Sibling(Base):\n    pass\n",
                "log.py": "from trainer import Log\nclass Own(Log):\n    pass\n",
                "user.py": "from trainer import Trainer\nclass User:\n    trainer = Trainer()\n",
            }
        )
        index = tree.index()
        unit = index.unit_of(tree.path("trainer.py"))
        assert tree.names(unit) == {"trainer.py"}
        relatives = index.relatives(unit)
        assert {str(file.relative_to(tree.root)): reason for file, reason in relatives.items()} == {
            "root.py": "its Root is a base class of Base of base.py",
            "base.py": "its Base is a base class of Trainer of trainer.py",
            "sub.py": "its Sub inherits from Trainer of trainer.py",
            "tests/test_sub.py": "its Fake inherits from Sub of sub.py",
            "mixins.py": "its Mixin is a base class of Fake of tests/test_sub.py",
        }
        assert index.relatives(unit.extended(relatives)) == {}

    def test_through_a_package(self, tree: Tree) -> None:
        tree(
            {
                "pkg/__init__.py": "from .trainer import Trainer\n",
                "pkg/trainer.py": f"{WHOLE}\nclass Trainer:\n    fit = main\n",
                "sub.py": "import pkg\nclass Sub(pkg.Trainer):\n    pass\n",
            }
        )
        index = tree.index()
        assert list(index.relatives(index.unit_of(tree.path("pkg/trainer.py")))) == [tree.path("sub.py")]

    def test_a_base_class_is_of_the_program_although_amp_is_used_beside_it(self, tree: Tree) -> None:
        base = SAVING + "class Base:\n    pass\n"
        tree({"base.py": base, "trainer.py": f"{WHOLE}\nfrom base import Base\nclass Trainer(Base):\n    fit = main\n"})
        both = (tree.path("base.py"), tree.path("trainer.py"))
        assert tree.index().programs(Unit(both, {})) == {tree.path("trainer.py"): both}


class TestUsers:
    def test_of_a_function(self, tree: Tree) -> None:
        tree(
            {
                "utils.py": SAVING,
                "pkg/__init__.py": "from utils import save\n",
                "a.py": "from utils import save\nsave(1)\n",
                "b.py": "import pkg\npkg.save(1)\n",
                "c.py": "import utils\nprint(utils.__dict__['save'])\n",
                "d.py": "def save(x): pass\nsave(1)\n",
            }
        )
        index = tree.index()
        unit = index.unit_of(tree.path("a.py"))
        assert tree.names(unit) == {"a.py"}
        users = index.users_of("save", tree.path("utils.py"), unit)
        assert [file.name for file in users] == ["b.py", "c.py"]
        assert users[tree.path("b.py")] == "uses save of pkg/__init__.py"

    def test_of_a_method(self, tree: Tree) -> None:
        tree(
            {
                "net.py": "class Net:\n    def fit(self): pass\n    def __call__(self): pass\n",
                "sub.py": "from net import Net\nclass Sub(Net): pass\n",
                "factory.py": "import sub\ndef build(): return sub.Sub()\n",
                "a.py": "from factory import build\nbuild().fit()\n",
                "b.py": "from factory import build\nbuild().predict()\n",
                "c.py": "def use(net):\n    net.fit()\n",
                "d.py": "from net import Net\ndef use(net: Net):\n    net.fit()\n",
            }
        )
        index = tree.index()
        unit = Unit((tree.path("net.py"),), {})
        assert [file.name for file in index.users_of("Net.fit", tree.path("net.py"), unit)] == ["a.py", "d.py"]
        called = index.users_of("Net.__call__", tree.path("net.py"), unit)
        assert [file.name for file in called] == ["a.py", "b.py", "d.py", "factory.py", "sub.py"]


class TestUniverse:
    def test_the_repository(self, tree: Tree) -> None:
        tree({"a/main.py": "", "b/utils.py": "", "venv/pyvenv.cfg": "", "venv/x.py": ""})
        assert universe_of([tree.path("a/main.py")]) == [tree.path("a/main.py"), tree.path("b/utils.py")]

    def test_outside_of_a_repository(self, tree: Tree) -> None:
        tree(
            {
                "a/main.py": "from b.utils import x\n",
                "a/beside.py": "",
                "b/utils.py": "import c\n",
                "c.py": "",
                "d.py": "",
            }
        )
        (tree.root / ".git").rmdir()
        forget()
        names = {str(file.relative_to(tree.root)) for file in universe_of([tree.path("a/main.py")])}
        assert names == {"a/main.py", "a/beside.py", "b/utils.py", "c.py"}


def test_one_file_costs_its_program(tree: Tree) -> None:
    """What no chain of imports connects with the files that were given is not looked at."""
    tree(
        {
            "train.py": "import models\namp = 1\n",
            "models.py": "amp = 1\n",
            "other.py": "import models\namp = 1\n",
            "apart.py": "import beside\namp = 1\n",
            "beside.py": "",
        }
    )
    train = tree.path("train.py")
    near = Workspace([train], {train: train.read_bytes()}).index().holding(re.compile(rb"amp"))
    assert [file.name for file in near] == ["models.py", "other.py", "train.py"]
    both = Workspace([tree.root], {train: b"", tree.path("apart.py"): b"import beside"}).index()
    assert [file.name for file in both.holding(re.compile(rb""))] == ["apart.py", "beside.py", "train.py"]


def test_neither_libcst_nor_torch_is_imported() -> None:
    program = "import sys, amp_migrate.units.index; print({'libcst', 'torch'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "set()\n"
