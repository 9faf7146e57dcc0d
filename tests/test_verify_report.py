from __future__ import annotations

import dataclasses
import functools
import math
import random
import re
import sys
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import click
import pytest

from amp_migrate.report.document import CURVES_STYLE
from amp_migrate.report.origin import Origin
from amp_migrate.verify.comparison import Comparison, Line, Section, Side
from amp_migrate.verify.record import Backward, Failure, Record, Scaler, Step
from amp_migrate.verify.report import facts, html, plot, series, text
from amp_migrate.verify.report.panels import panels
from amp_migrate.verify.report.style import COLOURS, RC_PARAMS

matplotlib = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("error")  # matplotlib warns of what it cannot draw

GAN = ((0,), (1,))
ORIGIN = Origin("amp-migrate verify train.py", "1f0c2d", "2026-01-02T03:04:05+00:00")


def record(
    updates: int = 200,
    *,
    noise: float = 0.0,
    skips: tuple[int, ...] = (),
    gain: float = 1.0,
    nan_at: int = 0,
    groups: tuple[tuple[int, ...], ...] = ((0,),),
    gpu: bool = False,
) -> Record:
    """A run that learns: `noise` grows along it, `gain` multiplies the gradients, `skips` are tries."""
    steady, other = random.Random(0), random.Random(1)
    run = Record(torch="2.13.0", apex="stand-in", levels=["O1"], device="cuda" if gpu else "cpu")
    run.peak_bytes = 3 * 2**30 if gpu else None
    scale, applied, tries = 65536.0, 0, 0
    while applied < updates * len(groups):
        group = groups[applied % len(groups)]
        at = applied // len(groups)
        loss = 0.05 + 2.2 * math.exp(-at / 60) * (1 + 0.08 * steady.gauss(0, 1)) / (1 + group[0])
        loss *= 1 + noise * at / 200 * other.gauss(0, 1)
        loss = math.nan if nan_at and at + 1 >= nan_at else loss
        skipped = tries in skips
        norm = gain * (0.2 + 3 * math.exp(-at / 40)) * (1 + 0.2 * steady.random())
        norm = math.nan if nan_at and at + 1 >= nan_at else norm
        run.backwards.append(Backward(loss, scale, 0, autocast=False, dtype="float32", update=len(run.steps)))
        for optimizer in group:
            run.steps.append(
                Step(
                    optimizer=optimizer,
                    applied=not skipped,
                    grad_norm=None if skipped else norm,
                    loss_scale=scale,
                    scaler=0,
                    seconds=0.02 + 0.001 * other.random(),
                    calls=4,
                    low=4,
                )
            )
        tries += 1
        applied += not skipped
        scale = scale / 2 if skipped else scale
    run.scalers = [Scaler("GradScaler", 65536.0, scale)]
    return run


def native(updates: int = 200, **options: object) -> Record:
    return dataclasses.replace(record(updates, **options), apex=None, levels=[])


@functools.cache
def comparison(kind: str) -> Comparison:
    """A believable result of each kind."""
    return {
        "same": _same,
        "different": _different,
        "nan": _nan,
        "gan": _gan,
        "import error": _import_error,
        "gpu": _gpu,
    }[kind]()


KINDS = ("same", "different", "nan", "gan", "import error", "gpu")


def _same() -> Comparison:
    return Comparison(
        "same",
        "200 updates on the cpu: same structure, same first losses, and curves within the control run's own spread",
        Side("original", "train.py", ("--epochs", "2", "--opt-level", "O1"), "verify-output/original.txt"),
        Side("migrated", "train.py", ("--epochs", "2", "--opt-level", "O1"), "verify-output/migrated.txt"),
        "cpu",
        (
            Section("neutralised run", (Line("weights without AMP", "ok", "identical", "identical"),)),
            Section(
                "structure",
                (
                    Line("scaled backwards", "ok", "203 of 203", "= 203"),
                    Line("backward under autocast", "ok", "0", "= 0"),
                    Line("skipped steps", "ok", "3 and 3", "equal"),
                    Line("low-precision share", "ok", "0.83", ">= 0.30 of 0.84", "of the bytes saved for backward"),
                ),
            ),
            Section(
                "first step",
                (Line("loss", "ok", "0", "<= 1.0e-06"), Line("gradient norm", "ok", "3.1e-06", "<= 1.0e-02")),
            ),
            Section(
                "curve",
                (
                    Line("largest loss difference", "ok", "2.1e-02", "<= 4 x 1.9e-02", "4 times the control run's"),
                    Line("time per step", "not compared", text="means nothing on a CPU"),
                ),
            ),
        ),
        {
            "original": record(skips=(0, 1, 90)),
            "migrated": native(skips=(0, 1, 90), noise=0.02),
            "control": record(skips=(0, 1, 90), noise=0.03),
        },
        (
            "apex is not installed: the original ran with the stand-in of amp-migrate",
            "There is no GPU here. CUDA calls ran on the CPU in real float16; this does not show a forgotten .cuda(), "
            "CUDA extensions, several GPUs, speed or memory.",
        ),
    )


def _different() -> Comparison:
    return dataclasses.replace(
        _same(),
        verdict="different",
        reason="gradients are clipped before unscale_: the norm seen by the first clip is 65536 times the original's",
        sections=(
            Section("structure", (Line("clip calls", "ok", "200 and 200", "equal"),)),
            Section(
                "first step",
                (
                    Line("loss", "ok", "0", "<= 1.0e-06"),
                    Line(
                        "gradient norm before clipping",
                        "different",
                        "65536 x",
                        "<= 1.0e-02",
                        "gradients are clipped before scaler.unscale_(optimizer), while they are still multiplied with "
                        "the loss scale; call unscale_ first",
                    ),
                    Line("gradient norm as applied", "different", "1.5e-05 x", "<= 1.0e-02"),
                ),
            ),
            Section("curve", (Line("largest loss difference", "warning", "0.7", "<= 0.4", "follows from the above"),)),
        ),
        runs={"original": record(), "migrated": native(noise=0.4, gain=1 / 65536), "control": record(noise=0.01)},
    )


def _nan() -> Comparison:
    return dataclasses.replace(
        _same(),
        verdict="not comparable",
        reason="the original becomes NaN at update 7",
        sections=(Section("structure", (Line("finite losses", "not compared", text="NaN in the original"),)),),
        runs={"original": record(40, nan_at=7), "migrated": native(40)},
    )


def _gan() -> Comparison:
    runs = {
        name: record(noise=noise, groups=GAN)
        for name, noise in (("original", 0), ("migrated", 0.01), ("control", 0.02))
    }
    return dataclasses.replace(_same(), runs=runs)


def _import_error() -> Comparison:
    failure = Failure("ModuleNotFoundError", "No module named 'torchvision'", "train.py", 12, "torchvision")
    ended = Record(outcome="error", failure=failure, torch="2.13.0")
    return dataclasses.replace(
        _same(),
        verdict="not comparable",
        reason="the original needs torchvision, which is not installed here",
        sections=(),
        runs={"original": ended, "migrated": ended},
        notes=(),
    )


def _gpu() -> Comparison:
    runs = {
        "original": record(skips=(0, 1), gpu=True),
        "migrated": native(skips=(0, 1), noise=0.01, gpu=True),
        "control": record(skips=(0, 1), noise=0.02, gpu=True),
        "original without AMP": record(50, gpu=True),
    }
    return dataclasses.replace(_same(), device="NVIDIA H200", runs=runs)


def lines(kind: str) -> list[str]:
    return list(text.lines(comparison(kind), colour=False))


@functools.cache
def svgs(kind: str) -> list[str]:
    return plot.svgs(comparison(kind))


@functools.cache
def page(kind: str) -> str:
    return html.page(comparison(kind), ORIGIN)


def svg_text(kind: str) -> str:
    return "".join(re.findall(r">([^<]+)</t", "".join(svgs(kind))))


# The terminal


def test_text_of_a_difference():
    assert lines("different") == [
        "              original                    migrated",
        "  script      train.py",
        "  arguments   --epochs 2 --opt-level O1",
        "  outcome     finished",
        "  device      cpu",
        "  torch       2.13.0",
        "  form        patched by Apex             native",
        "  apex        stand-in, O1                -",
        "  updates     200",
        "  last loss   0.123679                    0.128341",
        "  loss scale  65536",
        "  output      verify-output/original.txt  verify-output/migrated.txt",
        "",
        "structure",
        "  ok         clip calls                     200 and 200  equal",
        "first step",
        "  ok         loss                           0            <= 1.0e-06",
        "  different  gradient norm before clipping  65536 x      <= 1.0e-02",
        "             gradients are clipped before scaler.unscale_(optimizer), while they are still",
        "             multiplied with the loss scale; call unscale_ first",
        "  different  gradient norm as applied       1.5e-05 x    <= 1.0e-02",
        "curve",
        "  warning    largest loss difference        0.7          <= 0.4      follows from the above",
        "",
        "  note: apex is not installed: the original ran with the stand-in of amp-migrate",
        "  note: There is no GPU here. CUDA calls ran on the CPU in real float16; this does not show a",
        "    forgotten .cuda(), CUDA extensions, several GPUs, speed or memory.",
        "",
        "different: gradients are clipped before unscale_: the norm seen by the first clip is 65536 times the original's",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_text_ends_with_the_verdict(kind: str):
    compared = comparison(kind)
    assert lines(kind)[-1] == f"{compared.verdict}: {compared.reason}"


@pytest.mark.parametrize("kind", KINDS)
def test_colours_change_nothing_else(kind: str):
    coloured = list(text.lines(comparison(kind), colour=True))
    assert [click.unstyle(line) for line in coloured] == lines(kind)
    assert coloured != lines(kind)


def test_text_names_what_stopped_a_run():
    assert "  original: train.py:12: ModuleNotFoundError: No module named 'torchvision'" in lines("import error")


def test_text_counts_the_updates_of_each_optimizer():
    assert "  updates     200 + 200" in lines("gan")


def test_time_and_memory_are_for_a_gpu_only():
    assert any(line.startswith("  peak memory    3,072 MiB") for line in lines("gpu"))
    assert not any("peak memory" in line for line in lines("same"))


def test_what_the_script_says_does_not_steer_the_terminal():
    failure = Failure("ValueError", "\x1b[2Jgone\nand a second line", "train.py", 1)
    compared = dataclasses.replace(comparison("same"), runs={"original": Record(outcome="error", failure=failure)})
    shown = list(text.lines(compared, colour=False))
    assert "  original: train.py:1: ValueError: [2Jgone and a second line" in shown
    assert all(line.isprintable() for line in shown)


# The page


class _Page(HTMLParser):
    """Checks that tags are closed in order, and collects tags, attributes and the text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attributes)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attributes if name in ("href", "src", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_whole_and_loads_nothing(kind: str):
    parsed = _Page(page(kind))
    assert not parsed.open
    assert not parsed.tags & {"script", "link", "img", "iframe"}
    assert all(link.startswith("#") for link in parsed.links)
    assert not re.search(r"@import|url\((?!#)", page(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_page_says_everything(kind: str):
    compared = comparison(kind)
    said = _Page(page(kind)).text
    assert compared.reason in said
    assert all(part in said for part in (ORIGIN.version, ORIGIN.command, ORIGIN.commit, ORIGIN.time))
    for line in compared.lines():
        assert all(part in said for part in (line.check, line.status, line.number, line.threshold, line.text))
    assert all(note in said for note in compared.notes)
    assert all(failure in said for _, failure in facts.failures(compared))


def test_page_escapes_what_comes_from_outside():
    evil = "<script>alert('&')</script>"
    side = Side(evil, evil, (evil,), evil)
    failed = Record(outcome="error", failure=Failure(evil, evil, evil, 1), torch=evil, apex=evil, levels=[evil])
    trained = dataclasses.replace(record(3), torch=evil)
    content = html.page(
        Comparison(
            "different",
            evil,
            side,
            dataclasses.replace(side, output=""),
            evil,
            (Section(evil, (Line(evil, "note", evil, evil, evil),)),),
            {"original": trained, "migrated": failed, evil: failed},
            (evil,),
        ),
        Origin(evil, evil, evil),
    )
    assert "script" not in _Page(content).tags
    assert "&lt;script&gt;" in content


def test_page_of_no_run():
    said = _Page(html.page(dataclasses.replace(comparison("same"), runs={}), ORIGIN)).text
    assert "not run" in said
    assert "How they trained" not in said


def test_page_without_matplotlib(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    content = html.page(comparison("same"), ORIGIN)
    assert "<svg" not in content
    assert "needs matplotlib" in content


def test_page_knows_the_colours_of_the_figure():
    light, dark = files("amp_migrate.verify.report").joinpath("page.css").read_text("utf-8").split("@media screen", 1)
    shared = re.findall(r"--([\w-]+): (#\w+)", light)
    assert {name: colour for name, colour in shared if name in COLOURS}.items() <= COLOURS.items()
    assert COLOURS.keys() <= set(re.findall(r"--([\w-]+): #", dark + CURVES_STYLE))


# The figure


@pytest.mark.parametrize(("kind", "panels"), [("same", 4), ("nan", 4), ("gan", 4), ("gpu", 6), ("import error", 0)])
def test_panels(kind: str, panels: int):
    assert len(svgs(kind)) == panels


def test_what_hardly_moves_is_drawn_flat():
    one = comparison("same")
    noise = [7.6293945e-05 + 1e-11 * (number % 2) for number in range(1000)]
    runs = {
        name: dataclasses.replace(
            run,
            steps=[
                dataclasses.replace(step, grad_norm=norm if step.applied else None)
                for step, norm in zip(run.steps, noise, strict=False)
            ],
        )
        for name, run in one.runs.items()
    }
    with matplotlib.rc_context(RC_PARAMS):
        drawn = plot._figure(panels(dataclasses.replace(one, runs=runs)))
        drawn.canvas.draw()
    (axes,) = (axes for axes in drawn.axes if axes.get_title("left") == "Gradient norm, as applied")
    low, high = axes.get_ylim()
    assert high - low == pytest.approx(0.02 * 7.63e-05, rel=0.01)
    assert "+" not in axes.yaxis.get_offset_text().get_text()


def test_figure_names_its_curves():
    assert "original, 3 skipped" in svg_text("same")
    assert "control run" in svg_text("same")
    assert "original (NaN at update 7)" in svg_text("nan")
    assert "migrated, optimizer 2" in svg_text("gan")
    assert "20.5 ms" in svg_text("gpu")


def test_both_sides_are_seen_where_they_are_equal():
    runs = {"original": record(), "migrated": native()}
    loss = plot.svgs(dataclasses.replace(comparison("same"), runs=runs))[0]
    wide, thin = (re.search(rf'<path d="([^"]+)"[^>]+stroke: var\(--{name}-1[^>]+', loss) for name in ("wide", "thin"))
    assert wide and thin and wide[1] == thin[1]
    assert "stroke-width: 5" in wide[0] and "stroke-width: 1.2" in thin[0]
    assert wide.start() < thin.start()  # what comes later lies above


def test_same_comparison_same_picture():
    assert plot.svgs(comparison("nan")) == svgs("nan")


def all_skipped() -> Record:
    """The scale starts so high that no step is applied."""
    run = record(3)
    for step in run.steps:
        step.applied, step.grad_norm = False, None
    return run


@pytest.mark.parametrize(
    "runs",
    [
        {},
        {"original": Record(), "migrated": Record(), "control": Record()},
        {"original": record(1), "migrated": native(1), "control": record(1)},
        {"original": record(30, nan_at=1), "migrated": native(30, nan_at=1), "control": record(30, nan_at=1)},
        {"original": record(30), "migrated": native(30, gain=math.inf)},
        {"original": record(30), "migrated": native(3), "control": record(17)},
        {"original": record(30, groups=((0,), (1,), (0, 1))), "migrated": native(30, groups=((0, 1),))},
        {"original": record(4, groups=tuple((i,) for i in range(6))), "migrated": record(4)},
        {"migrated": native(5)},
        {"original": all_skipped(), "migrated": all_skipped()},
    ],
    ids=["no run", "empty", "one", "NaN", "infinite", "lengths", "groups", "6 optimizers", "one side", "all skipped"],
)
def test_every_record_can_be_shown(runs: dict[str, Record], tmp_path: Path):
    compared = dataclasses.replace(comparison("same"), runs=runs, device="cuda")
    plot.draw(compared, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert list(text.lines(compared, colour=False))


def test_figure_leaves_the_settings_of_matplotlib_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import matplotlib

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # an import of it fails
    with matplotlib.rc_context({"font.size": 5}):
        plot.draw(comparison("nan"), tmp_path / "figure.png")
        assert matplotlib.rcParams["font.size"] == 5


# The numbers that are drawn


def test_curves_are_counted_by_applied_updates():
    curve = series.curves([record(3, skips=(0, 2))])[(0,)]
    assert [update for update, _ in curve.losses] == [1, 2, 3]
    assert curve.skips == [0.5, 1.5]
    assert curve.loss_scales == [(0.5, 65536), (1, 32768), (1.5, 32768), (2, 16384), (3, 16384)]


def test_loss_scale_of_apex_is_that_of_the_backward():
    apex = record(2)
    for step in apex.steps:
        step.loss_scale = None
    assert series.curves([apex])[(0,)].loss_scales == [(1, 65536), (2, 65536)]


def test_a_restart_goes_on_where_the_first_part_ended():
    runs = {"original": record(3, skips=(0,)), "original, after the restart": record(2, skips=(1,))}
    compared = dataclasses.replace(comparison("same"), runs=runs)
    curve = series.curves(series.phases(compared, "original"))[(0,)]
    assert [update for update, _ in curve.losses] == [1, 2, 3, 4, 5]
    assert curve.skips == [0.5, 4.5]
    assert curve.restarts == [3.5]
    assert "restart" in "".join(plot.svgs(compared))
    assert facts.Row("updates", "5, 2 skipped", "0") in facts.rows(compared)


def test_relative_difference():
    before = [(1, 2.0), (2, 1.0), (3, 1.0), (4, -1.0), (5, 0.0), (6, math.nan), (7, 1.0)]
    after = [(1, 1.0), (2, 1.0), (3, 1.5), (4, 1.0), (5, 0.25), (6, math.nan)]
    differences = [value for _, value in series.relative_difference(before, after)]
    assert differences[:5] == [0.5, 0, 0.5, 2, 0.25]  # the last relative to a typical loss, 1
    assert math.isnan(differences[5]) and len(differences) == 6


def test_running_maximum_ends_at_nan():
    points = [(1, 0.2), (2, 0.1), (3, 0.3), (4, math.nan), (5, 0.1)]
    assert series.running_maximum(points) == [(1, 0.2), (2, 0.2), (3, 0.3)]


def test_thinning_keeps_peaks_and_gaps():
    points = [(float(i), 1.0) for i in range(10_000)]
    points[4321] = (4321.0, 99.0)
    points[6000:7000] = [(float(i), math.nan) for i in range(6000, 7000)]
    thin = series.thinned(points, 1000)
    assert len(thin) <= 1000
    assert (4321.0, 99.0) in thin
    assert any(math.isnan(value) for update, value in thin if 6000 <= update < 7000)
    assert thin == sorted(thin, key=lambda point: point[0])
    assert series.thinned(points[:1000], 1000) == points[:1000]
