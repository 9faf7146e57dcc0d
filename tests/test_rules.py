"""The words of every code: what can be held of them by machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from amp_migrate import Options, migrate_source
from amp_migrate.check.proof import Breach
from amp_migrate.cli import _commands
from amp_migrate.engine import Outcome
from amp_migrate.findings import Finding
from amp_migrate.home import REPOSITORY
from amp_migrate.proving import _finding, _told
from amp_migrate.report.findings import finding_lines
from amp_migrate.report.formats import FORMATS
from amp_migrate.result import Result
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.rule import Case, Rule
from amp_migrate.rules.source_forms import TITLES
from amp_migrate.units.attempt import attempt_of
from tests.fixture import ROOT

PACKAGE = ROOT.parent / "amp_migrate"
WORDS = [
    pytest.param(words, id=" ".join(filter(None, (rule.code, name))))
    for rule in RULES.values()
    for name, words in [("", rule), *rule.cases.items()]
]


THEMES = [file for file in (PACKAGE / "rules").glob("*.py") if file.stem not in ("__init__", "rule", "catalogue")]
OTHERS = [file for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE / "rules"]


def nodes(files: Iterable[Path]) -> list[ast.AST]:
    return [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file)))]


def strings(files: Iterable[Path]) -> list[str]:
    """Every string of some files that is no docstring, the parts of an f-string each for itself."""
    known = nodes(files)
    docs = {id(node.value) for node in known if isinstance(node, ast.Expr)}
    texts = [node for node in known if isinstance(node, ast.Constant) and id(node) not in docs]
    return [node.value for node in texts if isinstance(node.value, str)]


def codes(texts: Iterable[str]) -> list[str]:
    return [code for text in texts for code in re.findall(r"\bAMP\d{3}\b", text)]


def test_nothing_but_the_rules_knows_a_code():
    """What is a rule's own is said by its object: what else it means, and what could help."""
    assert {str(file): found for file in OTHERS if (found := codes(strings([file])))} == {}


def test_each_code_is_written_once():
    assert sorted(codes(strings(THEMES))) == sorted({*RULES, *TITLES})


def test_nothing_is_decided_by_the_code_of_a_rule():
    """A code is for who reads it: `GRADIENTS_IN_USE.code` goes into a finding or into a text, and nowhere else."""
    known = nodes(OTHERS)
    parents = {id(child): node for node in known for child in ast.iter_child_nodes(node)}
    taken = [
        parents[id(node)]
        for node in known
        if isinstance(node, ast.Attribute) and node.attr == "code"
        if isinstance(node.value, ast.Name) and node.value.id.isupper()
    ]
    assert taken
    assert [ast.unparse(one) for one in taken if not isinstance(one, ast.Call | ast.IfExp | ast.FormattedValue)] == []


def test_a_file_that_could_not_be_processed_is_named_and_none_of_its_lines():
    assert {rule.about for rule in RULES.values() if rule.kind == "error"} == {"file"}


def test_only_what_keeps_a_unit_from_being_migrated_can_be_helped():
    assert {rule.kind for rule in RULES.values() if rule.helped_by} == {"refusal", "silence"}


@pytest.mark.parametrize("words", WORDS)
def test_every_text_is_whole(words: Rule | Case):
    for text in (words.title, words.why, words.what_to_do):
        assert text.strip() == text
        assert not text.endswith((".", ",", ":", ";"))  # whoever shows it ends the sentence
        assert text.count("`") % 2 == 0
        assert text.count("(") == text.count(")")
    assert len(words.title) < 100
    assert 15 < len(words.why) < 420
    assert len(words.what_to_do) < 350
    assert len({words.title, words.why, words.what_to_do}) == 3


@pytest.mark.parametrize("words", WORDS)
def test_no_text_says_less_than_it_seems_to(words: Rule | Case):
    """What has failed readers: "by hand" without a what, and words for a place that only we know."""
    text = f"{words.why} {words.what_to_do}"
    assert not re.search(r"\b(at hand|out of sight|this form|documented forms|comes with a later version)\b", text)


def test_every_rule_is_raised_somewhere():
    used = {node.id for node in nodes(OTHERS) if isinstance(node, ast.Name)}
    made = [node for node in nodes(THEMES) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    names = {target.id for node in made for target in node.targets if isinstance(target, ast.Name)}
    assert len(names) == len(RULES)
    assert names - used == {"PLAIN_LOOP"}  # a source form, which is reported by the code of that


def test_every_case_is_raised_somewhere():
    said = set(strings(OTHERS))
    assert [(rule.code, case) for rule in RULES.values() for case in rule.cases if case not in said] == []


def test_a_case_has_words_of_its_own():
    general, case = Finding("", 1, "AMP142", ""), Finding("", 1, "AMP142", "", case="buffers")
    assert "broadcasts buffers" in case.why
    assert "broadcast_buffers" in case.what_to_do
    assert (general.why, general.what_to_do) == (RULES["AMP142"].why, RULES["AMP142"].what_to_do)
    with pytest.raises(KeyError):
        _ = Finding("", 1, "AMP142", "", case="else").why


def test_text_shows_the_words_of_the_case():
    shown = "\n".join(finding_lines([Finding("train.py", 1, "AMP142", "", case="buffers")], {}))
    assert "add broadcast_buffers=False" in shown


def of_setup(arguments: str) -> list[str]:
    """What is said of the arguments of amp.initialize."""
    source = f"""\
import argparse
import torch
from apex import amp
parser = argparse.ArgumentParser()
parser.add_argument("--level", dest="opt_level", default="none")
args = parser.parse_args()
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, {arguments})
for x in torch.randn(3, 2, 4).cuda():
    optimizer.zero_grad()
    with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
    found = migrate_source(source.encode(), Options(api="torch.amp")).findings
    return [f"{one.code} {one.message}" for one in found]


def test_enabled_is_not_the_level():
    assert of_setup("args.opt_level")[0] == (
        "AMP117 args.opt_level is given as `enabled`, and not as the level: apex runs O1 here"
    )
    both = of_setup('enabled=args.opt_level != "O0", opt_level=args.opt_level')
    assert both[0] == "AMP111 the default none is no level of apex: it raises"
    assert not any("AMP117" in one for one in both)


def step(*lines: str) -> bytes:
    """A training step in native AMP that ends with some lines."""
    body = "".join(f"    {line}\n" for line in lines)
    source = f"""\
import torch
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in torch.randn(3, 2, 4).cuda():
    optimizer.zero_grad()
    with torch.amp.autocast("cuda"):
        loss = model(x).mean()
    scaler.scale(loss).backward()
{body}"""
    return source.encode()


def in_step(*lines: str) -> list[tuple[str, str, str]]:
    """What is said of such a step: code, message and case."""
    found = migrate_source(step(*lines), Options(api="torch.amp")).findings
    return [(one.code, one.message, one.case) for one in found]


def test_a_step_past_the_scaler_has_the_words_of_what_came_before_it():
    past = "optimizer steps without the scaler, on"
    assert ("AMP405", f"{past} scaled gradients", "") in in_step("optimizer.step()", "scaler.update()")
    assert ("AMP405", f"{past} unscaled gradients", "unscaled") in in_step(
        "scaler.unscale_(optimizer)", "optimizer.step()", "scaler.update()"
    )
    assert ("AMP405", "optimizer steps again, without the scaler", "again") in in_step(
        "scaler.step(optimizer)", "optimizer.step()", "scaler.update()"
    )


def test_a_second_step_raises_only_before_the_update():
    assert [one[2] for one in in_step("scaler.step(optimizer)", "scaler.step(optimizer)", "scaler.update()")] == [""]
    again = in_step("scaler.step(optimizer)", "scaler.update()", "scaler.step(optimizer)", "scaler.update()")
    assert [(code, case) for code, _, case in again] == [("AMP404", "updated")]


def test_two_scripts_that_need_a_line_in_two_ways_are_both_quoted():
    before = b"def train(model):\n    loss = model()\n    loss.backward()\n"
    with_one = before.replace(b"    loss =", b"    with autocast():\n        loss =")
    with_other = before.replace(b"    loss =", b"    with autocast(enabled=on):\n        loss =")
    programs = {
        script: Outcome([Result("shared.py", before, after, "migrated")])
        for script, after in (("a.py", with_one), ("b.py", with_other))
    }
    (reason,) = attempt_of({"a.py": "", "b.py": "", "shared.py": ""}, programs).reasons
    assert (reason.line, reason.message, reason.case) == (
        2,
        "a.py needs `with autocast():` here, and b.py needs `with autocast(enabled=on):`",
        "two ways",
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((3, "a()"), (4, "b()"), "`a()` on line 3 of the original becomes `b()` on line 4 of the result"),
        ((3, "a()"), None, "`a()` on line 3 of the original"),
        (None, (4, "b()"), "`b()` on line 4 of the result"),
        (None, None, "in the file as a whole"),
    ],
)
def test_what_is_not_the_same_program_is_told_with_its_lines(before, after, said):
    finding = _finding({}, Breach("not the same program", "train.py", "main", before, after, "with mixed precision on"))
    assert finding.message == f"not the same program: with mixed precision on: {said}"
    assert f"{REPOSITORY}/issues" in finding.what_to_do


@pytest.mark.parametrize("format_", ["text", *FORMATS, "page"])
def test_every_format_shows_the_words_of_the_case(format_, tmp_path):
    script, page = tmp_path / "train.py", tmp_path / "page.html"
    script.write_bytes(step("scaler.unscale_(optimizer)", "optimizer.step()", "scaler.update()"))
    asked = {"text": [], "page": ["--report", str(page)]}.get(format_, ["--output-format", format_])
    result = CliRunner().invoke(_commands, ["migrate", "--api", "torch.amp", *asked, str(script)])
    shown = page.read_text() if format_ == "page" else result.output
    assert "where they overflowed they are inf or NaN" in " ".join(shown.split())


def test_a_unit_that_is_not_the_same_program_says_so_once():
    wrong = Finding("train.py", 3, "AMP998", "not the same program")
    assert _told([wrong], ["model.py", "train.py"]) == {
        "model.py": (
            Finding(
                "model.py", 1, "AMP901", "belongs together with train.py, which cannot be migrated (line 3, AMP998)"
            ),
        ),
        "train.py": (wrong,),
    }
    elsewhere = _told([wrong], ["a.py", "b.py"])
    assert [one.code for told in elsewhere.values() for one in told] == ["AMP998", "AMP901"]
