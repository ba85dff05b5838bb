"""What variants move through caches of every size: as tables, and drawn against the bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sandbox.report.table import Trimmed, scaled, significant
from sandbox.result import Point

_SIDE_BY_SIDE = 3  # variants beside each other in 80 columns
_TITLES = {
    ("word", "lru"): "by word, LRU: the pebble game's own unit",
    ("word", "opt"): "by word, optimal replacement: the schedule without the cache's luck",
    ("line", "lru"): "by line of 64 bytes, LRU",
    ("line", "opt"): "by line of 64 bytes, optimal replacement",
}


_KINDS = {kind: title.split(":")[0] for kind, title in _TITLES.items()}


def size_name(size: int) -> str:
    """A capacity as it is sold: 32 KiB."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):g} {unit}"
    return f"{size} B"


def tables(points: Sequence[Point]) -> Trimmed:
    """A table for each granularity and replacement, with some variants side by side."""
    p = points[0].problem
    parts: list[RenderableType] = [
        Text(f"C = A B   {p.shape}  {p.dtype}  {p.layout}   bytes moved, one call", style="bold")
    ]
    names = list(dict.fromkeys(x.variant for x in points))
    for first in range(0, len(names), _SIDE_BY_SIDE):
        for kind, title in _TITLES.items():
            shown = {
                name: {x.cache_bytes: x for x in points if (x.variant, *_kind(x)) == (name, *kind)}
                for name in names[first : first + _SIDE_BY_SIDE]
            }
            if any(shown.values()):
                parts += [Text(), Text(title), _table(shown)]
    near = {x.variant: x.near_bytes - x.cache_bytes for x in points}
    held = ", ".join(f"{name} {scaled(size, 'B')}" for name, size in near.items())
    parts += [
        Text(),
        Text(
            "least: the pebble-game bound for the cache with what compiled code holds in registers "
            f"and on its stack, or all SMs in theirs ({held}); known: the best schedule written "
            "down for that much; "
            "x: moved over least. Both are shown for the variant that holds most."
        ),
    ]
    return Trimmed(Group(*parts))


def _kind(x: Point) -> tuple[str, str]:
    return x.granularity, x.replacement


def _table(shown: dict[str, dict[int, Point]]) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    for header in ("cache", "least", "known", *(h for name in shown for h in (name, "x"))):
        table.add_column(header, justify="right", overflow="fold")
    for size in sorted({size for found in shown.values() for size in found}):
        at = [found.get(size) for found in shown.values()]
        weakest = max((x for x in at if x), key=lambda x: x.near_bytes)
        cells = [size_name(size), scaled(weakest.bound_bytes, "B")]
        cells.append(scaled(weakest.best_schedule_bytes, "B"))
        for x in at:
            cells += [scaled(x.moved_bytes, "B"), significant(x.over_bound)] if x else ["-", "-"]
        table.add_row(*map(Text, cells))
    return table


def plot(points: Sequence[Point], path: Path) -> None:
    """Draw the curves over the cache size, and what lies below the bound in grey."""
    from matplotlib.figure import Figure  # heavy, and only needed here
    from matplotlib.ticker import EngFormatter, FuncFormatter

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    weakest = {x.cache_bytes: x for x in sorted(points, key=lambda x: x.near_bytes)}
    sizes = sorted(weakest)
    bound = [weakest[size].bound_bytes for size in sizes]
    axes.fill_between(sizes, bound, min(bound) / 2, color="0.85", label="pebble-game bound")
    known = [weakest[size].best_schedule_bytes for size in sizes]
    axes.plot(sizes, known, color="0.4", linestyle=":", label="best known schedule")
    for number, name in enumerate(dict.fromkeys(x.variant for x in points)):
        for kind, style in zip(_KINDS, ("-", "-.", "--", (0, (1, 2))), strict=True):
            mine = [x for x in points if (x.variant, *_kind(x)) == (name, *kind)]
            if mine:
                axes.plot(
                    [x.cache_bytes for x in mine],
                    [x.moved_bytes for x in mine],
                    color=f"C{number}",
                    linestyle=style,
                    marker=".",
                    label=f"{name}, {_KINDS[kind]}",
                )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: size_name(int(x))))
    axes.yaxis.set_major_formatter(EngFormatter("B"))
    axes.set_xlabel("fast memory")
    axes.set_ylabel("moved in one call")
    p = points[0].problem
    axes.set_title(f"C = A B, {p.shape}, {p.dtype}, {p.layout}")
    axes.legend(fontsize="small")
    figure.savefig(path)
