"""Can the measured ceilings be trusted?

python -m experiments.calibration --check

Measures them twice. The two have to agree within their spreads; no level may be measured slower
than the one behind it; no library and not `simd` may pass its ceiling by more than the spreads.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator

from rich.table import Table

from sandbox import runner
from sandbox.machine import Machine
from sandbox.machine.here import this_machine
from sandbox.plan import Plan, expand
from sandbox.problem import Problem
from sandbox.registry import discover
from sandbox.report.console import Terminal
from sandbox.report.table import percent, scaled
from sandbox.result import Result


def ceilings(machine: Machine) -> dict[str, tuple[float, float, str]]:
    """By name: the rate a second, its spread as a fraction, its unit."""
    found = {}
    for u in machine.units:
        found[f"{u.device} {u.name}"] = (u.peak_flops, u.spread, "FLOP/s")
        threads = f" {u.threads} threads" if u.device == "cpu" else ""
        for x in u.levels:
            if x.bandwidth:
                found[f"{u.device}{threads} {x.name}"] = (x.bandwidth, x.spread, "B/s")
    return found


def faults(first: Machine, second: Machine, results: list[Result]) -> Iterator[str]:
    """What does not hold, in words."""
    again = ceilings(second)
    for name, (rate, spread, _) in ceilings(first).items():
        difference = abs(again[name][0] / rate - 1)
        if difference > spread + again[name][1]:
            yield f"{name}: two runs differ by {percent(difference)}, more than their spreads"
    for u in (*first.units, *second.units):
        for level in u.levels:
            if "at least" in level.source:
                yield f"{u.device} {u.name}: {level.name}, {level.source}, and measured slower"
    for r in results:
        if r.impossible:
            yield f"{r.variant} at N={r.problem.n}: {percent(r.of_roof or 0)} of its ceiling"


def main() -> int:
    """Print both runs; with --check return 1 where something does not hold, 2 where it is busy."""
    p = ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true", help="exit with 1 where it does not hold")
    options = p.parse_args()
    out = Terminal(sys.stdout)
    first, second = (this_machine(remeasure=True, levels=True, gpu=True) for _ in range(2))
    out.print(f"{first.name}, ceilings {second.note}")
    if "busy" in first.note + second.note:
        return 2
    table = Table("", "first", "again", "spread", box=None, pad_edge=False)
    again = ceilings(second)
    for name, (rate, spread, unit) in ceilings(first).items():
        table.add_row(name, scaled(rate, unit), scaled(again[name][0], unit), percent(spread))
    out.print(table)
    variants = [v for v in discover().variants if v.reference or v.name == "simd"]
    problems = [Problem(n, n, n) for n in (256, 1024)]
    results = [
        r for found in runner.run(Plan(expand(variants, None), problems, second)) for r in found
    ]
    missing = list(faults(first, second, results))
    for line in missing or [
        "Two runs agree, nearer levels are faster, nothing passes its ceiling."
    ]:
        out.print(line)
    return int(options.check and bool(missing))


if __name__ == "__main__":
    sys.exit(main())
