"""The look of a figure: colours, markers, axes, and names that never overlap.

From one colour to the next the lightness rises and blue changes with red or yellow, so that they
differ in grey and to the colour-blind (compare Okabe and Ito, Color Universal Design, 2002). Names
stand at the right, level with the end of what they name and moved apart no more than they must be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullLocator
from scipy.optimize import isotonic_regression

COLOURS = ("#1b1647", "#6f1a28", "#0a54a8", "#c04a18", "#279a84", "#e59a10", "#80cdf8")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "h")
FILLS = ("full", "none", "left", "bottom", "right", "top")
INK, FAINT, GRID = "#222222", "#6b6b6b", "#ebebeb"
DPI = 100
RC: Any = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "sandbox",
    "pdf.fonttype": 42,
}

# Pixels at DPI.
_WIDTH, _HEIGHT, _LINE = 800, 500, 16
_LEFT, _BOTTOM, _TOP, _EDGE = 58, 48, 84, 12
_FAN, _KEY, _NAME = 22, 32, 42  # from the axes to the key's ends and the name
_LONGEST = 280  # of a name


@dataclass(frozen=True)
class Name:
    """A name for what ends at (x, y) in the data's units; `style` is that of its line."""

    text: str
    x: float
    y: float
    style: dict[str, Any]


def style(variant: int, threads: int) -> dict[str, Any]:
    """Colour and marker stand for the variant, the marker's filling for the number of threads."""
    colour, fill = COLOURS[variant % len(COLOURS)], FILLS[threads % len(FILLS)]
    return {
        "color": colour,
        "marker": MARKERS[variant % len(MARKERS)],
        "markersize": 5.5,
        "markerfacecolor": "white" if fill == "none" else colour,
        "markerfacecoloralt": "white",
        "fillstyle": "full" if fill == "none" else fill,
    }


def frame(title: str, subtitle: str, names: int) -> tuple[Figure, Axes]:
    """A figure, high enough for so many names, and its axes; FLOP/s is their y."""
    height = max(_HEIGHT, (names + 1) * _LINE + _BOTTOM + _TOP)
    figure = Figure(figsize=(_WIDTH / DPI, height / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    for text, down, how in (
        (title, 10, {"size": 11, "weight": "bold", "color": INK}),
        (subtitle, 31, {"color": FAINT}),
    ):
        _cut(figure.text(14 / _WIDTH, 1 - down / height, text, va="top", **how), _WIDTH - 28)
    ax = figure.add_axes((0, 0, 1, 1), xscale="log", yscale="log")
    ax.set_title("FLOP/s", loc="left", size=9, color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(which="both", color=FAINT, labelcolor=INK)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_major_formatter(EngFormatter())
    return figure, ax


def flops_range(ax: Axes, values: Sequence[float]) -> None:
    """Limits and ticks of y for these FLOP/s, one and a half decades at least."""
    top = 1.6 * max(values)
    bottom = min(0.5 * min(values), top / 40)
    ax.set_ylim(bottom, top)
    subs = (1.0,) if top / bottom > 200 else (1.0, 2.0, 5.0)
    ax.yaxis.set_major_locator(LogLocator(subs=subs))
    ax.yaxis.set_minor_locator(NullLocator())


def put_names(ax: Axes, names: Iterable[Name]) -> None:
    """Give the axes their place and write the names beside them. The limits are final by now."""
    figure = ax.get_figure(root=True)
    assert figure
    ordered = sorted(names, key=lambda name: name.y)
    written: dict[str, Any] = {"color": INK, "va": "center", "transform": ax.transAxes}
    texts = [_cut(ax.text(1, 0, name.text, **written), _LONGEST) for name in ordered]
    width, height = _WIDTH, figure.get_figheight() * DPI
    margin = _NAME + _EDGE + max((t.get_window_extent().width for t in texts), default=0)
    across, up = width - _LEFT - margin, height - _BOTTOM - _TOP
    ax.set_position((_LEFT / width, _BOTTOM / height, across / width, up / height))
    ends = ax.transAxes.inverted().transform(ax.transData.transform([(n.x, n.y) for n in ordered]))
    places = spread([up * y for _, y in ends], _LINE, -_LINE, up + _LINE)
    for name, text, (x, y), place in zip(ordered, texts, ends, places, strict=True):
        fan, key, left = (1 + pixels / across for pixels in (_FAN, _KEY, _NAME))
        text.set_position((left, place / up))
        beside: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False}
        line: dict[str, Any] = {"color": name.style["color"], "linewidth": 0.8, "alpha": 0.45}
        ax.add_line(Line2D([x, 1, fan], [y, y, place / up], **line, **beside))
        at = [(fan + key) / 2] if "marker" in name.style else [fan, key]
        ax.add_line(Line2D(at, [place / up] * len(at), **name.style, **beside))


def _cut(text: Text, width: float) -> Text:
    """The text, with an ellipsis where it is wider than so many pixels."""
    whole = text.get_text()
    for length in range(len(whole) - 1, 0, -1):
        if text.get_window_extent().width <= width:
            break
        text.set_text(f"{whole[:length]}…")
    return text


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least `gap` apart within low to high, in order, as near as can be to `wanted`.

    `wanted` ascends. Less i gaps, the i-th position need only not descend: isotonic regression.
    """
    if not wanted:
        return []
    steps = gap * np.arange(len(wanted))
    nearest = isotonic_regression(np.asarray(wanted) - steps).x
    return [float(y) for y in nearest.clip(low, high - steps[-1]) + steps]


def write_clear(
    ax: Axes, text: str, places: Iterable[tuple[float, float]], along: float | None = None
) -> None:
    """Write the text beside the first of these places where it hides no text or point: to the left
    of it, or above the line that passes it at so many degrees.

    It is left out where there is no such place.
    """
    others = [other.get_window_extent() for other in ax.texts]
    marked = [line for line in ax.lines if line.get_marker() not in ("None", "")]
    points = [line.get_transform().transform(line.get_xydata()) for line in marked]
    blank = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    how: Any = {"xytext": (-9, 0), "ha": "right", "va": "center"}
    if along is not None:
        how = {"xytext": (-3, 3), "ha": "left", "va": "bottom"}
        how |= {"rotation": along, "rotation_mode": "anchor"}
    written = ax.annotate(text, (1, 1), textcoords="offset points", color=FAINT, bbox=blank, **how)
    for place in places:
        written.xy = place
        box = written.get_window_extent().padded(3)
        inside = ax.bbox.x0 <= box.x0 and ax.bbox.y0 <= box.y0
        if inside and not box.count_overlaps(others) and not box.count_contains(np.vstack(points)):
            return
    written.remove()
