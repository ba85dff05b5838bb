"""What the article says of the naive kernel, in bytes; and blocked's schedule beside LRU's luck.

python -m experiments.traffic

Simulated: a machine that compiles the same code finds the same figures. It takes some minutes.
"""

from __future__ import annotations

import sys

from rich.table import Table
from rich.text import Text

from sandbox.problem import Problem
from sandbox.registry import Registry, discover
from sandbox.report.console import Terminal
from sandbox.report.curves import size_name
from sandbox.report.table import Trimmed, scaled, significant
from sandbox.roofline import intensity, work
from sandbox.traffic.game import blocked, score
from sandbox.traffic.levels import Cache
from sandbox.traffic.simulated import points, traffic

WORDS = 1024  # what blocked is told
STEPS = ("naive", "reordered", "unrolled", "tiled", "simd")
# One core of an AMD EPYC (Zen 3).
CACHES = [
    Cache("L1", 32 << 10, 8),
    Cache("L2", 512 << 10, 8),
    Cache("L3", 32 << 20, 16, policy="victim"),
]
# What is seen of LRU round the words that blocked was told.
SLACK = [4 * WORDS * x // 16 for x in (16, 17, 18, 20, 24, 32)]


def ladder(registry: Registry, n: int) -> Table:
    """Each step at N = n: bytes at each boundary, and what the one behind L2 means."""
    problem = Problem(n, n, n)
    headers = ("step", *(f"from {c.name}" for c in CACHES), "from DRAM")
    table = _table(*headers, "lines of L3 a multiply-add", "FLOP/byte")
    for name in STEPS:
        v = registry.get(name)
        assert v
        found = traffic(v, problem, CACHES)
        if found.reason:
            raise RuntimeError(f"{name}: {found.reason}")
        moved, steps = found.moved_bytes, work(problem.gemm) / 2
        lines = moved["L3"] / CACHES[1].line / steps
        cells = [*(scaled(q, "B") for q in moved.values()), significant(lines, 2)]
        table.add_row(name, *cells, significant(intensity(problem.gemm, moved["L3"]), 2))
    return table


def slack(registry: Registry, n: int) -> Table:
    """Words that blocked moves: as moves of the game, and through LRU caches of some sizes."""
    v, leading = registry.get("blocked"), 2 * n**3 / WORDS**0.5
    assert v
    table = _table(f"blocked, told {WORDS} words", "words moved", "x 2n^3/sqrt(S)")

    def row(name: str, words: float) -> None:
        table.add_row(name, f"{words:.0f}", significant(words / leading, 4))

    row(f"moves of the game, S = {WORDS}", score(n, n, n, WORDS, blocked(n, n, n, WORDS)))
    found = points(v, Problem(n, n, n), SLACK)
    if isinstance(found, str):
        raise RuntimeError(found)
    for x in found:
        if x.granularity == "word":
            row(f"LRU, {size_name(x.cache_bytes)}", x.moved_bytes / 4)
    return table


def _table(*headers: str) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, justify="left" if header == headers[0] else "right")
    return table


def main() -> int:
    """Print the tables; returns the exit code."""
    registry, out = discover(), Terminal(sys.stdout)
    out.print(Trimmed(ladder(registry, 1024)))
    out.print(Text())
    out.print(Trimmed(slack(registry, 496)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
