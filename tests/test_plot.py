"""No text over another, none outside; colours that all eyes and grey printers tell apart."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from sandbox.arguments import PICTURES
from sandbox.machine import Machine, Unit
from sandbox.machine.catalogue import named
from sandbox.problem import Problem
from sandbox.report import drawing, plot
from sandbox.result import Bound, Result, Source, Timing, Verdict
from sandbox.roofline import Level, ceiling, compulsory_bytes, intensity, pebble_bytes, work

SOURCE = Source("measured", "measured")


def unit(threads: int, peak: float, bandwidth: float, *inner: Level) -> Unit:
    levels = (Level("DRAM", 40 << 20, 1, bandwidth), *inner)
    cost = {"call": 2e-6}
    return Unit(f"fp32 {threads}", "cpu", "fp32", threads, peak, levels, cost, 32 << 20, SOURCE)


TWO = (unit(1, 117.5e9, 28.8e9), unit(2, 230.5e9, 32.3e9))
ZEN = Machine("AMD EPYC, Zen 4", 2, 2, TWO, "measured 2026-11-30")
INNER = (Level("L3", 2 << 20, 1, 90e9), Level("L2", 34 << 10, 2, 260e9))
DEEP = Machine("A" * 200, 2, 2, (unit(2, 230.5e9, 32.3e9, *INNER),), "measured")


def row(variant: str, threads: int, n: int, flops: float, machine: Machine = ZEN) -> Result:
    problem = Problem(n, n, n)
    u = machine.unit("cpu", "fp32", threads)
    assert u
    least = pebble_bytes(problem.gemm, u.fast_bytes)
    most = intensity(problem.gemm, least)
    roof = ceiling(u.peak_flops, u.bandwidth, most)
    bound = Bound(roof.flops, roof.bound_by, most, least, compulsory_bytes(problem.gemm), SOURCE)
    t = work(problem.gemm) / flops
    timing = Timing(t, 0.9 * t, 1.1 * t, 9)
    return Result(
        variant, "cpu", False, "fp32", problem, threads, "warm", Verdict(True), timing, bound=bound
    )


def close(count: int, machine: Machine = ZEN) -> list[Result]:
    """So many rows within 2 %, at the peak of one thread."""
    threads = [1 + i % 2 if machine is ZEN else 2 for i in range(count)]
    return [
        row(f"variant_{i}", threads[i], 512, 115e9 * (1 + 0.02 * i / count), machine)
        for i in range(count)
    ]


def swept(count: int, sizes: list[int]) -> list[Result]:
    return [
        row(f"step_{i}", 1, n, 1e9 * n / 8 * (1 + i / 700)) for i in range(count) for n in sizes
    ]


GRACE = [
    row(f"v{i}", t, 512, 9e11 * (1 + i / 999), named("gh200")) for i in range(9) for t in (1, 72)
]
BOTH = [
    *GRACE[:6],
    *(
        replace(GRACE[0], variant=v, device="gpu", unit=u)
        for v, u in (("a", "fp32"), ("b", "tf32"))
    ),
]
FIGURES = {
    "roofline": lambda: plot.roofline(close(14), ZEN),
    "one row": lambda: plot.roofline(close(1), ZEN),
    "forty": lambda: plot.roofline(close(40), ZEN),
    "deep": lambda: plot.roofline(close(14, DEEP), DEEP),
    "slow": lambda: plot.roofline([row("naive", 1, 512, 9e8), *close(6)], ZEN),
    "gh200": lambda: plot.roofline(GRACE, named("gh200")),
    "two devices": lambda: plot.roofline(BOTH, named("gh200")),
    "long names": lambda: plot.roofline([row("x" * 80, 2, 512, 1e11)], ZEN),
    "roofline of a sweep": lambda: plot.roofline(swept(14, [32, 128, 512]), ZEN),
    "sweep": lambda: plot.sweep(swept(14, [32, 64, 128, 256, 512]), ZEN),
    "sweep of one size": lambda: plot.sweep(swept(3, [300]), ZEN),
    "wide sweep": lambda: plot.sweep(swept(5, [2, 16, 16384]), ZEN),
}


def visible(figure: Figure) -> list[Text]:
    """The texts that are drawn: not the tick labels beyond the ends of an axis."""
    ax = figure.axes[0]
    unseen = []
    for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        ticks = [t for minor in (False, True) for t in axis.get_ticklabels(minor=minor)]
        values = [t.get_position()[axis is ax.yaxis] for t in ticks]
        pairs = zip(ticks, values, strict=True)
        unseen += [t for t, value in pairs if not ends[0] <= value <= ends[1]]
    return [t for t in figure.findobj(Text) if t.get_text() and t.get_visible() and t not in unseen]


@pytest.mark.parametrize("name", FIGURES)
def test_texts_neither_overlap_nor_leave_the_figure(name: str) -> None:
    figure = FIGURES[name]()
    figure.set_dpi(2 * drawing.DPI)  # as it is saved
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [(t.get_text(), t.get_window_extent()) for t in visible(figure)]
    for text, box in shown:
        inside = figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
        assert inside, f"{text} leaves the figure"
        assert figure.bbox.y0 <= box.y0, f"{text} leaves the figure"
        assert box.y1 <= figure.bbox.y1, f"{text} leaves the figure"
    for (text, box), (other, its) in combinations(shown, 2):
        assert not box.overlaps(its), f"{text} over {other}"


def words(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.axes[0].texts]


def test_roofline_names_rows_peaks_levels_and_ridges() -> None:
    figure = plot.roofline([row("naive", 1, 512, 1e9), row("numpy", 2, 512, 2e11)], ZEN)
    assert set(words(figure)) == {
        "naive, 1 thread",
        "numpy, 2 threads",
        "peak 118 GFLOP/s, 1 thread",
        "peak 230 GFLOP/s, 2 threads",
        "DRAM 32.3 GB/s",
        "ridge 7.1",
    }
    assert {"L2 260 GB/s", "L3 90.0 GB/s", "DRAM 32.3 GB/s"} <= set(
        words(plot.roofline(close(3, DEEP), DEEP))
    )


def test_points_stand_at_the_bounds_intensity_and_the_rate_reached() -> None:
    one = row("tiled", 1, 512, 74e9)
    lines = plot.roofline([one], ZEN).axes[0].lines
    assert one.bound
    points = [tuple(p) for line in lines for p in np.asarray(line.get_xydata())]
    assert any(p == pytest.approx((one.bound.intensity, one.flops)) for p in points)


def test_sweep_has_a_line_a_variant_and_its_interval() -> None:
    ax = plot.sweep(swept(2, [64, 128]), ZEN).axes[0]
    bars: list[Any] = [c for c in ax.collections if len(c.get_paths()) == 2]
    assert len(bars) == 2
    low, high = bars[0].get_paths()[0].vertices[:, 1]
    assert (low, high) == pytest.approx((8e9 / 1.1, 8e9 / 0.9))


def test_rows_without_a_time_are_no_figure() -> None:
    nothing = Result("x", "cpu", False, "fp32", Problem(8, 8, 8), 1, "warm")
    with pytest.raises(ValueError, match="no row has both"):
        plot.roofline([nothing], ZEN)
    with pytest.raises(ValueError, match="no row has a time"):
        plot.sweep([nothing], ZEN)


@pytest.mark.parametrize("suffix", PICTURES)
def test_saved_figures_are_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        plot.save(plot.roofline(close(2), ZEN), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_svg_keeps_text_as_text(tmp_path: Path) -> None:
    plot.save(plot.roofline(close(2), ZEN), tmp_path / "a.svg")
    assert "variant_0, 1 thread</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")


@given(st.lists(st.floats(-50, 550), min_size=1, max_size=20).map(sorted))
def test_spread_keeps_gap_order_and_limits(wanted: list[float]) -> None:
    places = drawing.spread(wanted, 15, 0, 500)
    assert all(b - a >= 15 - 1e-6 for a, b in pairwise(places))
    assert places[0] >= -1e-6
    assert places[-1] <= 500 + 1e-6


def test_spread_leaves_alone_what_is_far_apart() -> None:
    assert drawing.spread([10, 100, 300], 15, 0, 500) == [10, 100, 300]
    assert drawing.spread([100, 100, 300], 20, 0, 500) == [90, 110, 300]
    assert drawing.spread([], 20, 0, 500) == []


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB, white D65."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x = np.array(to_xyz) @ rgb / [0.9505, 1.0, 1.089]
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira and Fernandes, IEEE TVCG 2009, full severity.
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]
    ),
    "deuteranopia": np.array(
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]
    ),
}


@pytest.mark.parametrize("eyes", EYES)
def test_colours_are_far_apart(eyes: str) -> None:
    seen = [lab(np.clip(EYES[eyes] @ linear(c), 0, 1)) for c in drawing.COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 25


def test_colours_differ_in_lightness_and_markers_outlast_them() -> None:
    lightness = [lab(linear(c))[0] for c in drawing.COLOURS]
    assert min(abs(a - b) for a, b in combinations(lightness, 2)) > 9
    styles = {(s["color"], s["marker"]) for s in (drawing.style(i, 0) for i in range(77))}
    assert len(styles) == 77
    assert len({drawing.style(i, 0)["marker"] for i in range(11)}) == 11


def test_the_report_does_without_matplotlib() -> None:
    code = "import sys, sandbox, sandbox.report.table; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
