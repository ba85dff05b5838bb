"""Results as figures: the roofline of a machine, and FLOP/s against the size.

Nothing here shows or keeps a figure; `save` writes it. This module and `drawing` alone import
matplotlib, and nothing imports them before a figure is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import atan2, cbrt, ceil, degrees, floor, inf, log2
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from sandbox.machine import Machine, Unit
from sandbox.report import drawing
from sandbox.report.drawing import FAINT, Name
from sandbox.report.table import scaled, significant
from sandbox.result import Result
from sandbox.roofline import ridge, work


@dataclass(frozen=True)
class _Series:
    """One variant on so many threads, from left to right: FLOP/s with its 95 % interval."""

    name: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    style: dict[str, Any]


def figure(results: Sequence[Result], machine: Machine) -> Figure:
    """The roofline of rows of one problem, a sweep of several; raises ValueError as these do."""
    of_one = len({r.problem for r in results}) == 1
    return (roofline if of_one else sweep)(results, machine)


def roofline(results: Iterable[Result], machine: Machine) -> Figure:
    """FLOP/s against arithmetic intensity in FLOP/byte, both logarithmic.

    Each unit that the rows ran on has a flat roof. The slanted ones are those of each device on the
    most threads, one for each level whose bandwidth is known, with the slowest's ridge marked. A
    row stands at its bound's intensity, the most that DRAM traffic allows. Rows of one variant on
    as many threads share a name.

    Raises ValueError where no row has both a time and a ceiling.
    """
    rows = [r for r in results if r.flops and r.bound and r.bound.intensity]
    if not rows:
        raise ValueError("no row has both a time and a ceiling: there is no roofline to draw")
    series = _series([(r.bound.intensity, r) for r in rows if r.bound])
    units = _units(rows, machine)
    widest = {u.device: u for u in sorted(units, key=lambda u: (u.threads, u.peak_flops))}
    corners = [ridge(u.peak_flops, rate) for u in widest.values() for rate in _rates(u).values()]
    at = [*corners, *(x for s in series for x in s.x)]
    with mpl.rc_context(drawing.RC):
        figure, ax = _frame(rows, machine, len(series) + len(units))
        ax.set_xlabel("arithmetic intensity, FLOP/byte")
        ax.set_xlim(min(at) / 12, max(at) * 3)
        peaks = _peaks(ax, units, "-")
        for u, peak in zip(units, peaks, strict=True):
            fastest = max(_rates(widest[u.device]).values(), default=inf)
            start = max(u.peak_flops / fastest, ax.get_xlim()[0])
            ax.plot([start, peak.x], [peak.y] * 2, **peak.style)
        _draw(ax, series, peaks)
        for u in widest.values():
            _slopes(ax, u)
    return figure


def sweep(results: Iterable[Result], machine: Machine) -> Figure:
    """FLOP/s against N with 95 % intervals, both logarithmic; the peaks are dotted.

    N is the cube root of mnk. Each variant on each number of threads has its line.

    Raises ValueError where no row has a time.
    """
    rows = [r for r in results if r.flops]
    if not rows:
        raise ValueError("no row has a time: there is no sweep to draw")
    series = _series([(cbrt(r.problem.m * r.problem.n * r.problem.k), r) for r in rows])
    sizes = [x for s in series for x in s.x]
    least, most = min(sizes), max(sizes)
    with mpl.rc_context(drawing.RC):
        units = _units(rows, machine)
        figure, ax = _frame(rows, machine, len(series) + len(units))
        ax.set_xlabel("N")
        ax.set_xlim(least / 1.2, most * 1.1)
        powers = [2.0**i for i in range(ceil(log2(least)), floor(log2(most)) + 1)]
        every = 1 + len(powers) // 12
        ax.set_xticks(powers[::every] if len(powers) > 1 else sorted({least, most}))
        ax.xaxis.set_minor_locator(NullLocator())
        peaks = _peaks(ax, units, ":")
        for peak in peaks:
            ax.axhline(peak.y, **peak.style)
        _draw(ax, series, peaks)
        for s in series:
            ax.vlines(s.x, s.low, s.high, colors=s.style["color"], linewidth=1.2)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure as the suffix says; in SVG text stays text.

    The same figure gives the same bytes.
    """
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    with mpl.rc_context(drawing.RC):
        figure.savefig(path, dpi=2 * drawing.DPI, metadata=undated)


def _series(points: Iterable[tuple[float, Result]]) -> list[_Series]:
    """A series for each variant and number of threads, styled by their order of appearance."""
    grouped: dict[tuple[str, int], list[tuple[float, Result]]] = {}
    for x, row in points:
        grouped.setdefault((row.variant, row.threads), []).append((x, row))
    variants = list(dict.fromkeys(variant for variant, _ in grouped))
    threads = sorted({threads for _, threads in grouped}, reverse=True)
    series = []
    for (variant, many), members in grouped.items():
        members.sort(key=lambda point: point[0])
        timed = [(work(r.problem.gemm), r.timing) for _, r in members if r.timing]
        name = variant + _threads(members[0][1].device, many)
        name += ", impossible" if any(r.impossible for _, r in members) else ""
        series.append(
            _Series(
                name,
                x=[x for x, _ in members],
                y=[flop / t.median_s for flop, t in timed],
                low=[flop / t.high_s for flop, t in timed],
                high=[flop / t.low_s for flop, t in timed],
                style=drawing.style(variants.index(variant), threads.index(many)),
            )
        )
    return series


def _threads(device: str, many: int) -> str:
    return f", {many} thread{'s' * (many > 1)}" if device == "cpu" else ""


def _units(rows: Iterable[Result], machine: Machine) -> list[Unit]:
    wanted = dict.fromkeys((r.device, r.unit, r.threads) for r in rows)
    return [u for key in wanted if (u := machine.unit(*key))]


def _rates(unit: Unit) -> dict[str, float]:
    """The levels' known bandwidths in bytes/s, by name."""
    return {level.name: level.bandwidth for level in unit.levels if level.bandwidth}


def _frame(rows: Sequence[Result], machine: Machine, names: int) -> tuple[Figure, Axes]:
    """Empty axes under what all rows have in common."""
    problems = [r.problem for r in rows]
    facts: list[set[str]] = [{p.shape for p in problems}, {p.dtype for p in problems}]
    facts += [{p.layout for p in problems}, {r.cache for r in rows}]
    title = "  ".join(["C = A B", *(one.pop() for one in facts if len(one) == 1)])
    return drawing.frame(title, f"{machine.name}, ceilings {machine.note}", names)


def _peaks(ax: Axes, units: list[Unit], dashes: str) -> list[Name]:
    """The units' peaks as names at the right end of the axes."""
    style = {"color": FAINT, "linestyle": dashes, "linewidth": 1.3}
    several = len({u.arithmetic for u in units}) > 1
    names = []
    for u in units:
        text = f"peak {scaled(u.peak_flops, 'FLOP/s')}{_threads(u.device, u.threads)}"
        text = f"{u.arithmetic} {text}" if several else text
        names.append(Name(text, ax.get_xlim()[1], u.peak_flops, style))
    return names


def _draw(ax: Axes, series: list[_Series], peaks: list[Name]) -> None:
    """The rows, and the names of all that ends at the right; nothing moves the axes any more."""
    values = [y for s in series for y in (*s.low, *s.high, *s.y)]
    drawing.flops_range(ax, [*values, *(p.y for p in peaks)])
    for s in series:
        ax.plot(s.x, s.y, linewidth=1.5, zorder=3, **s.style)
    names = [Name(s.name, s.x[-1], s.y[-1], s.style) for s in series]
    drawing.put_names(ax, [*names, *peaks])


def _slopes(ax: Axes, unit: Unit) -> None:
    """The slanted roofs of a unit's levels, each named along its line, and the slowest's ridge."""
    left, bottom = ax.get_xlim()[0], ax.get_ylim()[0]
    rates = sorted(_rates(unit).items(), key=lambda item: item[1])
    for _, rate in rates:
        ends = [left, ridge(unit.peak_flops, rate)]
        ax.plot(ends, [rate * x for x in ends], color=FAINT, linewidth=1.3)
    if rates:
        x, y = ridge(unit.peak_flops, rates[0][1]), unit.peak_flops
        ax.plot([x, x], [bottom, y], color=FAINT, linewidth=0.8, linestyle=":")
        ax.plot(x, y, "o", color=FAINT, markersize=4)
        places = [(x, up) for up in np.geomspace(bottom, y, 60)]
        drawing.write_clear(ax, f"ridge {significant(x, 2 if x < 10 else 3)}", places)
    for name, rate in rates:
        start, end = max(left, bottom / rate), ridge(unit.peak_flops, rate)
        along = [(x, rate * x) for x in np.geomspace(start, end, 41)]
        (x0, y0), (x1, y1) = ax.transData.transform([along[0], along[-1]])
        angle = degrees(atan2(y1 - y0, x1 - x0))
        drawing.write_clear(ax, f"{name} {scaled(rate, 'B/s')}", along[:30], angle)
