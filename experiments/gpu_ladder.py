"""Do the GPU steps keep up with cuBLAS, and is each faster than the one before it?

python -m experiments.gpu_ladder --check

Kernel times: graphs of repeated calls, replayed in turn with cuBLAS's, caches warm.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import triton

from experiments.common import RESULTS
from sandbox.problem import Problem
from sandbox.registry import discover, load

SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
RUNS = (  # dtype, layout, unit of cuBLAS
    ("float32", "nn", "fp32"),
    ("float32", "nt", "tf32"),
    ("float32", "nn", "tf32"),
    ("float16", "nn", "fp16"),
    ("bfloat16", "nn", "bf16"),
    ("float8_e4m3", "nt", "fp8"),
    ("float64", "nn", "fp64"),
)
# The best step's speed relative to cuBLAS, least, where (unit, layout) and N are these.
FLOORS: dict[tuple[str, str], Callable[[int], float]] = {
    ("fp32", "nn"): lambda n: 1.05 if n <= 512 else 0.87 if n >= 2048 else 0,
    ("tf32", "nt"): lambda n: 1.0,
    ("fp16", "nn"): lambda n: 0.96 if n >= 2048 else 0,
    ("bf16", "nn"): lambda n: 0.96 if n >= 2048 else 0,
}
ORDERED_AT, EQUAL = (4096, 8192), 1.03  # steps whose times differ by less differ in traffic
ROUNDS, REPLAY_S, ROW_S = 15, 2e-3, 1.0

Run = Callable[[Any, Any, Any], None]
Row = dict[str, Any]


def seconds(call: Callable[[], None], repeats: int = 1) -> float:
    """Device time of one of `repeats` calls."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / repeats


def graph(call: Callable[[], None]) -> tuple[Any, int]:
    """A graph of so many calls that a replay takes REPLAY_S, and how many."""
    call()
    repeats = max(1, min(500, round(REPLAY_S / seconds(call))))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(repeats):
            call()
    return captured, repeats


def sensors(captured: Any, times: int) -> Row:
    """Clock, power and temperature while the graph is being replayed."""
    for _ in range(times):
        captured.replay()
    found = {
        "sm_mhz": torch.cuda.clock_rate(),
        "watts": torch.cuda.power_draw() / 1e3,
        "celsius": torch.cuda.temperature(),
    }
    torch.cuda.synchronize()
    return found


def measure(
    runs: dict[str, Run], dtype: str, layout: str, n: int
) -> Iterator[tuple[str, list[float], Row]]:
    """Each run, its seconds in each round, and what the sensors say; one that has had ROW_S is
    visited no more."""
    kind = getattr(torch, dtype.replace("e4m3", "e4m3fn"))
    a, b = (torch.randn(n, n, device="cuda").to(kind) for _ in range(2))
    a, b = (x.T if way == "t" else x for x, way in zip((a, b), layout, strict=True))
    out = torch.empty(n, n, device="cuda", dtype=torch.bfloat16 if kind.itemsize == 1 else kind)
    graphs = {name: graph(partial(run, a, b, out)) for name, run in runs.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(ROUNDS):
        for name in random.sample(list(runs), len(runs)):
            captured, repeats = graphs[name]
            if turn < 2 or sum(taken[name]) * repeats < ROW_S:
                if repeats > 1:
                    captured.replay()  # what was read by others leaves the caches
                taken[name].append(seconds(captured.replay, repeats))
    for name, (captured, repeats) in graphs.items():
        once = min(taken[name]) * repeats
        yield name, taken[name], sensors(captured, max(1, round(0.02 / once)))


def sweep(sizes: Sequence[int]) -> Iterator[Row]:
    """A row for cuBLAS and each step that computes in the unit, on one problem after the other."""
    variants = [v for v in discover().variants if v.device == "gpu"]
    for dtype, layout, unit in RUNS:
        for n in sizes:
            problem = Problem(n, n, n, dtype=dtype, layout=layout)
            runs = {}
            for v in sorted(variants, key=lambda v: not v.reference):
                kernel = load(v)
                same = v.unit_for(dtype) == unit or (unit != "tf32" and v.unit_for(dtype) == "fp32")
                if same and not kernel.refuses(problem):
                    runs[v.name] = kernel.run(problem)
            best = 0.0
            for name, times, state in measure(runs, dtype, layout, n):
                median = statistics.median(times)
                best = best or median  # cuBLAS comes first
                yield {
                    "step": name,
                    "dtype": dtype,
                    "layout": layout,
                    "unit": unit,
                    "n": n,
                    "seconds": median,
                    "least": min(times),
                    "most": max(times),
                    "tflops": 2e-12 * n**3 / median,
                    "to_cublas": best / median,
                    **state,
                }


def shortfalls(rows: Sequence[Row]) -> Iterator[str]:
    """What does not hold, in words."""
    problems: dict[tuple[str, str, int], list[Row]] = {
        (r["unit"], r["layout"], r["n"]): [] for r in rows
    }
    for r in rows:
        problems[r["unit"], r["layout"], r["n"]].append(r)
    for (unit, layout, n), (_, *steps) in problems.items():
        floor = FLOORS[unit, layout](n) if (unit, layout) in FLOORS else 0.0
        best = max(r["to_cublas"] for r in steps)
        if best < floor:
            yield f"{unit} {layout} N={n}: {best:.3f} of cuBLAS, {floor} expected"
        for before, r in pairwise(steps):
            if n in ORDERED_AT and r["seconds"] > EQUAL * before["seconds"]:
                yield f"{unit} {layout} N={n}: {r['step']} is slower than {before['step']}"


def main() -> int:
    """Print and save the rows; with --check return 1 where a floor is missed."""
    p = ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true", help="exit with 1 where a floor is missed")
    options = p.parse_args()
    rows = []
    for r in sweep(SIZES):
        rows.append(r)
        print(
            f"{r['unit']:5} {r['layout']} {r['n']:5} {r['step']:12} {r['seconds'] * 1e6:11.1f} us"
            f" {r['tflops']:8.2f} TFLOP/s {r['to_cublas']:7.3f} of cuBLAS {r['sm_mhz']:5} MHz",
            flush=True,
        )
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    versions["cuda"] = str(torch.version.cuda)
    found = {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(),
        "versions": versions,
        "rows": rows,
    }
    (RESULTS / "gpu_ladder.json").write_text(json.dumps(found, indent=1) + "\n")
    missing = list(shortfalls(rows))
    for line in missing or ["Every floor holds, and each step is faster than the one before it."]:
        print(line)
    return int(options.check and bool(missing))


if __name__ == "__main__":
    sys.exit(main())
