"""The fixed cost of each row's calls, fitted from a sweep of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Group
from rich.text import Text

from sandbox.fixed_cost import LEAST_SIZES, Estimate, FixedCost, fit
from sandbox.report.table import Fitted, Trimmed, scaled
from sandbox.result import Result
from sandbox.roofline import Gemm

_HEADERS = ("step", "thr", "T0", "P_eff", "B_eff", "N for 50 %", "80 %", "90 %")


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
        if len(set(gemms)) >= LEAST_SIZES:
            found[key] = fit(gemms, seconds, most_flops=max(ceilings))
    return found


def fixed_costs(found: Mapping[tuple[str, int], FixedCost]) -> Trimmed:
    """T = T0 + max(W / P_eff, Q / B_eff): what the fits say, each above its 95 % interval."""
    rows = []
    for (name, threads), f in found.items():
        ns = [f"{f.n_for(eta):.0f}" if f.peak_flops else "-" for eta in (0.5, 0.8, 0.9)]
        of = ((f.t0_s, "s"), (f.peak_flops, "FLOP/s"), (f.bandwidth, "B/s"))
        values = [scaled(e.value, unit) if e else "-" for e, unit in of]
        rows.append(("", (name, str(threads), *values, *ns)))
        rows.append(("dim", ("", "", *(_interval(e, unit) for e, unit in of), "", "", "")))
    title = "Fixed cost: T = T0 + max(W / P_eff, Q / B_eff), with 95 % intervals"
    return Trimmed(Group(Text(title, style="bold"), Fitted(_HEADERS, rows)))


def _interval(e: Estimate | None, unit: str) -> str:
    if e is None:
        return ""
    high = "inf" if e.high == float("inf") else scaled(e.high, unit).removesuffix(unit)
    return f"{scaled(e.low, unit).removesuffix(unit).strip()} to {high.strip()}"
