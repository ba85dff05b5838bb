"""What kernels move on a GPU: as ncu counts it there, and as it is simulated without one.

python -m experiments.gpu_traffic           # simulates every row that was counted
python -m experiments.gpu_traffic --count   # counts them anew, on an NVIDIA GPU
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict
from math import inf
from pathlib import Path

from experiments.common import RESULTS, Row, here, save, show
from sandbox.problem import Problem
from sandbox.registry import Variant, discover
from sandbox.report.console import Terminal
from sandbox.result import Traffic
from sandbox.traffic import counters, simulated_gpu
from sandbox.traffic.on_gpu import Chip

STEPS = ("element", "shared", "tensorcore", "cublas", "cublas_tf32")
COUNTED = [(step, "float32", n) for n in (1024, 4096, 8192) for step in STEPS]
COUNTED += [(step, "float16", n) for n in (4096, 8192) for step in ("tensorcore", "grouped")]
LARGEST = 2048  # a larger problem is simulated at this size, on a chip as much smaller
COLUMNS = (
    ("", "step", ""),
    ("", "dtype", ""),
    ("N", "n", "N"),
    ("DRAM, least", "least_bytes", "B"),
    ("simulated", "simulated_dram_bytes", "B"),
    ("read", "dram_read_bytes", "B"),
    ("written", "dram_write_bytes", "B"),
    ("asked for", "simulated_l2_bytes", "B"),
    ("counted L1", "l1_bytes", "B"),
    ("L2", "l2_bytes", "B"),
)
Say = Callable[[str], None]


def variant(name: str) -> Variant:
    found = discover().get(name)
    assert found is not None
    return found


def count(say: Say) -> int:
    """Have ncu count every row, and keep them; 2 where this machine does not count."""
    machine = here()
    chip = Chip.of_gpu(machine.gpu)
    if chip is None:
        print("error: no CUDA device is seen here", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for step, dtype, n in COUNTED:
        say(f"{step}, {dtype}, N = {n}")
        try:
            found = counters.by_ncu(variant(step), Problem(n, n, n, dtype=dtype))
        except counters.NotCounted as why:
            print(f"error: {why}", file=sys.stderr)
            return 2
        rows.append({"step": step, "dtype": dtype, "n": n, **asdict(found)})
    save("gpu_traffic", machine, {"chip": asdict(chip), "rows": rows})
    return 0


def simulated(row: Row, chip: Chip, factor: int) -> Traffic:
    """Of a problem whose sides are so many times shorter, on a chip as much smaller."""
    n = row["n"] // factor
    problem = Problem(n, n, n, dtype=row["dtype"])
    return simulated_gpu.traffic(variant(row["step"]), problem, chip.scaled(factor), inf)


def simulate(row: Row, chip: Chip) -> None:
    """Add what the simulation says of the row's variant, dtype and N, where it says something."""
    factor = max(1, row["n"] // LARGEST)
    found = simulated(row, chip, factor)
    if found.reason:
        return
    row["least_bytes"] = found.bound_bytes["DRAM"] * factor**2
    row["simulated_dram_bytes"] = found.moved_bytes["DRAM"] * factor**2
    # What programs ask for is x n^3 + y n^2: two sizes tell both.
    asked, half = found.moved_bytes["L2"], simulated(row, chip, 2 * factor).moved_bytes["L2"]
    cubic = 2 * (asked - 4 * half)
    row["simulated_l2_bytes"] = cubic * factor**3 + (asked - cubic) * factor**2


def table(path: Path, say: Say) -> None:
    """Simulate every row of a file, print it and keep it."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    for row in kept["rows"]:
        if row["step"] != "element":  # a program an element: the interpreter would take hours
            say(f"{row['step']}, {row['dtype']}, N = {row['n']}")
            simulate(row, Chip(**kept["chip"]))
            path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    title = f"{kept['hardware']}: one call, from empty caches; L2 keeps what is not written yet"
    show(title, COLUMNS, kept["rows"])


def main() -> int:
    """Print a table for each GPU on which something was counted; 2 where --count cannot."""
    p = ArgumentParser(description=__doc__)
    p.add_argument("--count", action="store_true", help="count anew with ncu, on this GPU")
    options = p.parse_args()
    with Terminal(sys.stderr).status("starting") as status:
        if options.count and (code := count(status.update)):
            return code
        for path in sorted(RESULTS.glob("gpu_traffic-*.json")):
            table(path, status.update)
    return 0


if __name__ == "__main__":
    sys.exit(main())
