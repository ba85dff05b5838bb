"""What Triton kernels move on an NVIDIA H200: simulated without a GPU, beside what ncu counted.

python -m experiments.gpu_traffic
"""

from __future__ import annotations

import json
import sys
from math import inf

from experiments.common import RESULTS, Row, show
from sandbox.machine import catalogue
from sandbox.problem import Problem
from sandbox.registry import discover
from sandbox.report.console import Terminal
from sandbox.traffic import simulated_gpu
from sandbox.traffic.on_gpu import Chip

LARGEST = 2048  # a larger problem is simulated at this size, on a chip as much smaller
COLUMNS = (
    ("", "step", ""),
    ("", "dtype", ""),
    ("N", "n", "N"),
    ("DRAM, least", "least_bytes", "B"),
    ("simulated", "simulated_dram_bytes", "B"),
    ("counted", "dram_bytes", "B"),
    ("read", "dram_read_bytes", "B"),
    ("asked of L1 and L2", "simulated_l2_bytes", "B"),
    ("counted L1", "l1_bytes", "B"),
    ("counted L2", "l2_bytes", "B"),
)


def simulate(row: Row, chip: Chip) -> None:
    """Add what the simulation says of the row's variant, dtype and N."""
    v = discover().get(row["step"])
    assert v is not None
    factor = max(1, row["n"] // LARGEST)
    n = row["n"] // factor
    problem, small = Problem(n, n, n, dtype=row["dtype"]), chip.scaled(factor)
    found = simulated_gpu.traffic(v, problem, small, inf)
    if found.reason:
        return
    row["least_bytes"] = found.bound_bytes["DRAM"] * factor**2
    row["simulated_dram_bytes"] = found.moved_bytes["DRAM"] * factor**2
    if factor == 1:
        row["simulated_l2_bytes"] = found.moved_bytes["L2"]


def main() -> None:
    """Simulate every counted row, print both and keep them."""
    chip = Chip.of(catalogue.named("h200"))
    assert chip is not None
    path = RESULTS / "gpu_traffic-nvidia-h200.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    with Terminal(sys.stderr).status("starting") as status:
        for row in kept["rows"]:
            status.update(f"{row['step']}, {row['dtype']}, N = {row['n']}")
            simulate(row, chip)
            path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    show(
        "One call, from empty caches; ncu leaves in L2 what was not written yet",
        COLUMNS,
        kept["rows"],
    )


if __name__ == "__main__":
    main()
