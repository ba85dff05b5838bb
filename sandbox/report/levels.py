"""The hierarchical roofline: what has to cross each memory level, and the roof that makes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from sandbox.report.table import Fitted, Trimmed, scaled, significant
from sandbox.result import Bound, Result

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
        threads = rows[0].threads
        head = f"{rows[0].unit}, {threads} thread{'s' * (threads > 1)}: {names}"
        parts += [Text(head, style="bold"), Fitted(_HEADERS, _lines(bound)), Text()]
    if any(level.held_bytes for bound in shared for level in bound.levels):
        parts.append(Text("Warm: what near memory can hold from the run before need not move."))
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
