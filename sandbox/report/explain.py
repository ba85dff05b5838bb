"""Where the time of each row goes: a bar of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rich.console import Group
from rich.text import Text

from sandbox.report.table import Fitted, Trimmed, percent, scaled
from sandbox.result import Result
from sandbox.roofline import Parts

_WIDTH = 24
_SIGNS = "=#+."
_LEGEND = (
    "= T0, the fixed cost   # the roof: max(W/P, Q/B), least bytes",
    "+ the bytes that really move   . the rest   < more than the time",
)


def explain(results: Sequence[Result]) -> Trimmed:
    """Each part as a fraction of the time, and the bar that they make: of every row, and of the
    whole call where a kernel on a GPU has one."""
    headers = ("step", "thr", "time", "T0", "roof", "moved", "rest", "")
    rows = []
    for r in results:
        threads = str(r.threads) if r.device == "cpu" else ""
        if r.parts:
            rows.append(("", (r.variant, threads, *_cells(r.parts))))
        if r.call_parts:
            rows.append(("", (f"{r.variant}, the call", threads, *_cells(r.call_parts))))
    if not rows:
        return Trimmed(Text("Where the time goes: no fixed cost is known of what has a time."))
    legend = [Text(line, style="dim") for line in _LEGEND]
    return Trimmed(Group(Text("Where the time goes", style="bold"), Fitted(headers, rows), *legend))


def _cells(parts: Parts) -> tuple[str, ...]:
    each = (parts.t0_s, parts.bound_s, parts.traffic_s, parts.rest_s)
    time_s = sum(part or 0.0 for part in each)
    fractions = ("-" if part is None else percent(part / time_s) for part in each)
    return scaled(time_s, "s"), *fractions, bar(parts)


def bar(parts: Parts) -> str:
    """The parts side by side; of a negative rest `<` covers what goes beyond the time."""
    known = [parts.t0_s, parts.bound_s, parts.traffic_s or 0.0]
    ends = list(accumulate([*known, max(0.0, parts.rest_s)]))
    cells = [round(_WIDTH * end / ends[-1]) for end in ends]
    drawn = "".join(
        sign * (end - start) for sign, start, end in zip(_SIGNS, [0, *cells], cells, strict=False)
    )
    beyond = round(_WIDTH * max(0.0, -parts.rest_s) / ends[-1])
    return drawn[: _WIDTH - beyond] + "<" * beyond
