"""The fixed cost of each row's calls, fitted from a sweep of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from rich.console import Group
from rich.text import Text

from sandbox.fixed_cost import LEAST_SIZES, Estimate, FixedCost, fit
from sandbox.report.table import Fitted, Trimmed, significant
from sandbox.result import Result
from sandbox.roofline import Gemm, work

_HEADERS = ("step", "thr", "T0, us", "P, GFLOP/s", "B, GB/s", "N for 50 %", "80 %", "90 %")


def fits(results: Iterable[Result]) -> dict[tuple[str, int], FixedCost]:
    """By name and threads, of all rows, and of a GPU's calls, that have times at enough sizes."""
    rows: dict[tuple[str, int], list[tuple[Gemm, float, float]]] = {}
    for r in results:
        for name, timing in ((r.variant, r.timing), (f"{r.variant}, the call", r.call)):
            if timing and r.bound:
                point = r.problem.gemm, timing.median_s, r.bound.ceiling_flops
                rows.setdefault((name, r.threads), []).append(point)
    found = {}
    for key, points in rows.items():
        gemms, seconds, ceilings = zip(*points, strict=True)
        if len(set(map(work, gemms))) >= LEAST_SIZES:
            found[key] = fit(gemms, seconds, most_flops=max(ceilings))
    return found


def fixed_costs(found: Mapping[tuple[str, int], FixedCost]) -> Trimmed:
    """T = T0 + max(W / P, Q / B): what the fits say, each above its 95 % interval."""
    rows = []
    for (name, threads), f in found.items():
        each = ((f.t0_s, 1e6), (f.peak_flops, 1e-9), (f.bandwidth, 1e-9))
        values = ("-" if e is None else significant(e.value * factor) for e, factor in each)
        ns = (f"{f.n_for(eta):.0f}" if f.peak_flops else "-" for eta in (0.5, 0.8, 0.9))
        rows.append(("", (name, str(threads), *values, *ns)))
        rows.append(("dim", ("", "", *(_interval(e, factor) for e, factor in each), "", "", "")))
    title = "Fixed cost: T = T0 + max(W / P, Q / B), with 95 % intervals"
    return Trimmed(Group(Text(title, style="bold"), Fitted(_HEADERS, rows)))


def _interval(e: Estimate | None, factor: float) -> str:
    if e is None:
        return ""
    low, high = (significant(x * factor) if isfinite(x) else "inf" for x in (e.low, e.high))
    return f"{low} to {high}"
