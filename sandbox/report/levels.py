"""The hierarchical roofline: what has to cross each memory level, and the roof that makes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from sandbox.report.table import Fitted, Trimmed, scaled, significant
from sandbox.result import Bound, Result
from sandbox.roofline import work

_HEADERS = ("level", "at least", "FLOP/byte", "bandwidth", "GFLOP/s", "")


def levels(results: Sequence[Result]) -> Trimmed:
    """The levels' bounds, once for all rows that share them, and which of them binds."""
    shared: dict[Bound, list[Result]] = {}
    for r in results:
        if r.bound:
            shared.setdefault(r.bound, []).append(r)
    parts: list[RenderableType] = []
    for bound, rows in shared.items():
        names = ", ".join(dict.fromkeys(r.variant for r in rows))
        first, threads = rows[0], rows[0].threads
        many = f", {threads} thread{'s' * (threads > 1)}" if first.device == "cpu" else ""
        head = f"{first.unit}{many}: {names}"
        parts += [Text(head, style="bold"), Fitted(_HEADERS, _lines(bound)), Text()]
    if any(level.held_bytes for bound in shared for level in bound.levels):
        parts.append(Text("Warm: what near memory can hold from the call before need not move."))
    if moving := [r for r in results if r.moved]:
        parts += [Text(), Text("What the rows move, and the roof that makes", style="bold")]
        parts.append(_moving(moving))
    return Trimmed(Group(*parts))


def _lines(bound: Bound) -> list[tuple[str, tuple[str, ...]]]:
    lines = [
        (
            level.name,
            scaled(level.bytes, "B"),
            "-" if level.intensity is None else significant(level.intensity),
            "unknown" if level.bandwidth is None else scaled(level.bandwidth, "B/s"),
            "-" if level.ceiling_flops is None else significant(level.ceiling_flops / 1e9),
        )
        for level in bound.levels
    ]
    if bound.bound_by == "compute":
        lines.append(("compute", "", "", "", significant(bound.ceiling_flops / 1e9)))
    return [
        ("bold", (*line, "binds")) if line[0] == bound.bound_by else ("", (*line, ""))
        for line in lines
    ]


def _moving(results: Sequence[Result]) -> Fitted:
    """The bytes that each row moves at each level, and the level that they make the slowest."""
    names = list(dict.fromkeys(x.name for r in results if r.bound for x in r.bound.levels))
    rows = []
    for r in results:
        assert r.bound
        flop = work(r.problem.gemm)
        seconds = {r.bound.bound_by: flop / r.bound.ceiling_flops}
        for x in r.bound.levels:
            if x.bandwidth and x.name in r.moved:
                moving = r.moved[x.name] / x.bandwidth
                seconds[x.name] = max(moving, seconds.get(x.name, 0.0))
        slowest = max(seconds, key=lambda name: seconds[name])
        moved = (scaled(r.moved[x], "B") if x in r.moved else "-" for x in names)
        roof = significant(flop / seconds[slowest] / 1e9)
        threads = str(r.threads) if r.device == "cpu" else ""
        rows.append(("", (r.variant, threads, *moved, roof, slowest)))
    return Fitted(("step", "thr", *names, "GFLOP/s", "binds"), rows)
