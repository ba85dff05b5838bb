"""Is every step of the CPU ladder faster than the one before it, and `simd` near the peak?

python -m experiments.ladder --check
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sandbox import runner
from sandbox.machine.here import this_machine
from sandbox.plan import Plan, expand, select
from sandbox.problem import Problem
from sandbox.registry import discover
from sandbox.report.console import Terminal
from sandbox.report.table import percent, report
from sandbox.result import Result

STEPS = ("naive", "reordered", "unrolled", "tiled", "simd")
ORDERED_AT = (512, 1024)
OF_PEAK = {256: 0.65, 512: 0.75}  # what simd has to reach on one core


def shortfalls(results: Sequence[Result]) -> Iterator[str]:
    """What does not hold, in words: steps whose intervals touch, and simd too far from the peak."""
    found = {(r.variant, r.problem.n): r for r in results}
    for n in ORDERED_AT:
        for slower, faster in pairwise(found[step, n] for step in STEPS):
            pair = f"{faster.variant} against {slower.variant} at N={n}"
            if slower.timing is None or faster.timing is None:
                yield f"{pair}: no time"
            elif faster.timing.high_s >= slower.timing.low_s:
                ratio = slower.timing.median_s / faster.timing.median_s
                yield f"{pair}: {ratio:.2f} times as fast, intervals overlap"
    for n, least in OF_PEAK.items():
        reached = found["simd", n].of_roof or 0.0
        if reached < least:
            yield f"simd at N={n}: {percent(reached)} of the peak, {percent(least)} expected"


def main() -> int:
    """Print the tables; with --check return 1 where the ladder does not hold."""
    p = ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true", help="exit with 1 where it does not hold")
    p.add_argument("--rounds", type=int, default=25)
    options = p.parse_args()
    registry = discover()
    rows = expand([v for v in select(registry, STEPS) if v.name in STEPS or v.reference], None)
    machine = this_machine(remeasure=True)
    problems = [Problem(n, n, n) for n in sorted({*ORDERED_AT, *OF_PEAK})]
    out = Terminal(sys.stdout)
    results: list[Result] = []
    for found in runner.run(Plan(rows, problems, machine, rounds=options.rounds)):
        results += found
        out.print(report(found, machine, registry.variants))
        out.print()
    missing = list(shortfalls(results))
    for line in missing or ["Each step is faster than the one before it; simd is near the peak."]:
        out.print(line)
    return int(options.check and bool(missing))


if __name__ == "__main__":
    sys.exit(main())
