"""Do the last steps of the CPU ladder beat NumPy and torch, and how near is the peak?

python -m experiments.cpu_limit --check
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median

import archspec.cpu

from experiments.common import processor, results_path
from sandbox import runner
from sandbox.machine import detect
from sandbox.machine.here import this_machine
from sandbox.plan import Plan
from sandbox.problem import Problem
from sandbox.registry import Registry, Variant, discover
from sandbox.report.files import as_json
from sandbox.report.table import percent
from sandbox.result import Result

OURS = {"one": ("vectorised", "packed"), "all": ("parallel",)}
LIBRARIES = ("numpy", "torch")


@dataclass(frozen=True)
class Part:
    """Problems of one kind, and the floors: ratios to the best library, fractions of the peak."""

    title: str
    problems: Sequence[Problem]
    floors: dict[str, tuple[float, float]]  # by threads: geometric mean, least
    of_peak: dict[str, dict[int, float]]  # by threads: from N on


def squares(*sizes: int, dtype: str = "float32") -> list[Problem]:
    return [Problem(n, n, n, dtype=dtype) for n in sizes]


LARGE = 2048  # from here on three rounds do, and `vectorised`, which has no blocks, is left out
SHAPES = [(2000, 64, 64), (64, 2000, 64), (64, 64, 4000), (1000, 1000, 8), (1000, 1000, 1)]
SHAPES += [(1000, 1, 1000), (1, 1000, 1000)]  # M, N, K
ODD = squares(100, 127, 129, 250, 333, 500, 511, 517, 1000, 1023, 1025, 1500)
ODD += [Problem(*shape) for shape in SHAPES]
ODD += [Problem(500, 500, 500, layout=layout) for layout in ("nt", "tn", "tt")]
PARTS = (
    Part(
        "float32, multiples of 32",
        squares(128, 256, 384, 512, 768, 1024, 2048, 4096),
        {"one": (1.05, 0.98), "all": (1.08, 0.98)},
        {"one": {128: 0.95, 769: 0.90}, "all": {256: 0.92}},
    ),
    Part("float32, small", squares(8, 16, 24, 32, 48, 64, 96), {"one": (1.2, 1.0)}, {}),
    Part(
        "float32, other sizes, shapes and layouts",
        ODD,
        {"one": (0.97, 0.85), "all": (0.97, 0.85)},
        {},
    ),
    Part(
        "float64",
        squares(64, 128, 256, 333, 512, 1024, dtype="float64"),
        {"one": (1.02, 0.95), "all": (1.05, 0.95)},
        {"one": {128: 0.92, 769: 0.87}, "all": {256: 0.89}},
    ),
)
Row = tuple[Variant, int]  # and its threads
SATURATION = ("naive", "reordered", "unrolled", "tiled", "simd", "vectorised", "packed")


def best_core_type() -> str:
    """The core type with which OpenBLAS is fastest here at N=512, "" for its own choice.

    A process each, since OpenBLAS asks for it once; the median of five turns.
    """
    features = archspec.cpu.host().features
    types = [""] + ["Haswell", "Zen"] * ("avx2" in features)
    types += ["SkylakeX", "Cooperlake", "SapphireRapids"] * ("avx512f" in features)
    code = (
        "import numpy as np, time; a = np.ones((512, 512), 'f4'); out = a.copy(); s = []\n"
        "for _ in range(40): t = time.perf_counter(); np.matmul(a, a, out=out);"
        " s.append(time.perf_counter() - t)\nprint(sorted(s)[20])"
    )
    one = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP")}
    taken: dict[str, list[float]] = {name: [] for name in types}
    for _ in range(5):
        for name, seconds in taken.items():
            environment = os.environ | one | ({"OPENBLAS_CORETYPE": name} if name else {})
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, check=True
            )
            seconds.append(float(done.stdout))
    return min(taken, key=lambda name: median(taken[name]))


def rows(registry: Registry, names: Sequence[str], threads: int) -> list[Row]:
    return [(v, threads) for name in names if (v := registry.get(name))]


def cell(r: Result | None) -> str:
    if r is None or r.timing is None or r.flops is None:
        return "-"
    return f"{r.flops / 1e9:.1f} ({percent(r.of_roof or 0.0)}, +-{percent(r.timing.spread)})"


def ratio(found: dict[str, Result], ours: Sequence[str]) -> tuple[float, float] | None:
    """Our best step's speed over the best library's, and its fraction of the peak."""
    seconds = {name: r.timing.median_s for name, r in found.items() if r.timing}
    steps, rivals = ([x for x in names if x in seconds] for names in (ours, LIBRARIES))
    if not steps or not rivals:
        return None
    best = min(steps, key=seconds.__getitem__)
    return min(seconds[x] for x in rivals) / seconds[best], found[best].of_roof or 0.0


def table(part: Part, results: Sequence[Result], which: str, threads: int) -> Iterator[str]:
    """Markdown: GFLOP/s (of the peak, half the interval), and what was not reached."""
    ours = OURS[which]
    names = (*LIBRARIES, *ours)
    yield f"\n{part.title}, {threads} thread{'s' * (threads > 1)}: GFLOP/s (of the roof, spread)\n"
    yield f"| M x N x K | {' | '.join(names)} | x best library |"
    yield "|---" * (len(names) + 2) + "|"
    ratios, missed = [], []
    floor_mean, floor_least = part.floors[which]
    for p in part.problems:
        found = {r.variant: r for r in results if r.problem == p and r.threads == threads}
        name = p.shape + (f" {p.layout}" if p.layout != "nn" else "")
        reached = ratio(found, ours)
        if reached is None:
            missed.append(f"{name}: no time")
            continue
        ratios.append(reached[0])
        cells = " | ".join(cell(found.get(x)) for x in names)
        yield f"| {name} | {cells} | {reached[0]:.2f} |"
        if reached[0] < floor_least:
            missed.append(f"{name}: {reached[0]:.2f} times the best library, floor {floor_least}")
        least = [x for n, x in part.of_peak.get(which, {}).items() if p.n >= n]
        if least and reached[1] < least[-1]:
            missed.append(f"{name}: {percent(reached[1])} of the peak, floor {percent(least[-1])}")
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        yield f"\ngeometric mean {mean:.3f} (floor {floor_mean}), least {min(ratios):.2f}"
        if mean < floor_mean:
            missed.append(f"geometric mean {mean:.3f}, floor {floor_mean}")
    for line in missed:
        yield f"- MISSED {part.title}, {threads} thread{'s' * (threads > 1)}: {line}"


def main() -> int:
    """Print the tables in markdown; with --check return 1 where a floor is missed."""
    p = ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true", help="exit with 1 where a floor is missed")
    p.add_argument("--rounds", type=int, default=11)
    p.add_argument("--json", type=Path, metavar="FILE", help="save the rows")
    options = p.parse_args()
    if core := best_core_type():
        os.environ["OPENBLAS_CORETYPE"] = core
    cores, registry = detect.usable_cores(), discover()
    machine = this_machine(remeasure=True)
    counts = {"one": 1, "all": cores}
    results: list[Result] = []
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    def judged(names: Sequence[Row], problems: Sequence[Problem]) -> list[Result]:
        large = [x for x in problems if min(x.m, x.n, x.k) >= LARGE]
        small = [x for x in problems if x not in large]
        blocked = [(v, threads) for v, threads in names if v.name != "vectorised"]
        plans = [Plan(names, small, machine, rounds=options.rounds)]
        plans += [Plan(blocked, large, machine, rounds=3)] * bool(large)
        found = [r for plan in plans for some in runner.run(plan) for r in some]
        results.extend(found)
        return found

    say(f"{machine.name}, {machine.cores} of {machine.of_cores} cores; {machine.note}")
    for u in machine.units:
        spread = percent(u.spread)
        say(f"- peak {u.name}: {u.peak_flops / 1e9:.1f} GFLOP/s (median {spread} below)")
    for part in PARTS:
        chosen = []
        for which in part.floors:
            chosen += rows(registry, (*OURS[which], *LIBRARIES), counts[which])
        found = judged(chosen, part.problems)
        if part is PARTS[0]:
            versions = ", ".join(f"{k} {v}" for k, v in (found[0].versions or {}).items())
            say(f"- {versions}; OPENBLAS_CORETYPE={core or 'its own choice'}")
        for which in part.floors:
            for line in table(part, found, which, counts[which]):
                say(line)
    say("\nSaturation at 512 x 512 x 512, float32\n\n| step | threads | GFLOP/s | of the peak |")
    say("|---|---|---|---|")
    last = rows(registry, (*SATURATION, *LIBRARIES), 1)
    last += rows(registry, (*OURS["all"], *LIBRARIES), cores)
    for r in judged(last, squares(512)):
        if r.flops:
            speed, reached = r.flops / 1e9, percent(r.of_roof or 0.0)
            say(f"| {r.variant} | {r.threads} | {speed:.1f} | {reached} |")
    kept = results_path("cpu_limit", processor(machine), ".md")
    kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"saved as {kept}")
    if options.json:
        options.json.write_text(as_json(results), encoding="utf-8")
    return int(options.check and any("MISSED" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
