"""Fixed costs: what is left of the time at N = 512, and what a sweep of sizes says of it.

The article takes all that work and traffic do not explain at N = 512 for T0. A fit over many N
tells what is fixed from arithmetic below the peak, and T0 measured by itself, in calls that do
nothing, is the part that no kernel can avoid.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from math import isfinite

from experiments.common import (
    ARTICLE,
    FP32,
    N512,
    NUMPY,
    SECONDS,
    TF32,
    UNIT,
    Row,
    at_512,
    call_s,
    here,
    measure,
    methods,
    save,
    show,
    units,
)
from sandbox.report.console import Terminal
from sandbox.report.fixed_cost import fits, fixed_costs
from sandbox.roofline import compulsory_bytes, n_for_efficiency, work

SIZES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
LARGE = (1536, 2048, 3072, 4096)  # that a GPU needs to reach its peak
COLUMNS = (
    ("", "method", ""),
    ("W/P", "work_s", "s"),
    ("Q/B", "traffic_s", "s"),
    ("time", "time_s", "s"),
    ("rest: T0", "t0_s", "s"),
    ("T0 alone", "measured_t0_s", "s"),
    ("N, 80 %", "n_for", "N"),
)


def main() -> None:
    machine, chosen = here(), methods()
    known, results = units(machine), at_512(machine)
    table: list[Row] = []
    for name in (NUMPY, FP32, TF32):
        both: Row = {"article": (*ARTICLE[UNIT[name]], SECONDS[name], None)}
        if r := results.get(name):
            unit = known[UNIT[name]]
            both["here"] = unit.peak_flops, unit.bandwidth, call_s(r), unit.t0_s
        for where, (peak, bandwidth, time_s, measured_s) in both.items():
            row: Row = {"method": f"{name}: {where}", "time_s": time_s, "measured_t0_s": measured_s}
            row["work_s"] = work(N512.gemm) / peak
            row["traffic_s"] = compulsory_bytes(N512.gemm) / bandwidth
            row["t0_s"] = time_s - max(row["work_s"], row["traffic_s"])
            row["n_for"] = n_for_efficiency(0.8, max(0.0, row["t0_s"]), peak)
            table.append(row)
    show("The article's estimate: T0 = T - max(W/P, Q/B) at N = 512", COLUMNS, table)
    gpu = [row for name, row in chosen.items() if name in (FP32, TF32)]
    swept = measure([(chosen[NUMPY][0], 1), chosen[NUMPY], *gpu], SIZES, machine)
    found = fits([*swept, *(measure(gpu, LARGE, machine) if gpu else ())])
    Terminal(sys.stdout).print(fixed_costs(found))
    fitted = [
        {"variant": name, "threads": threads, **_finite(asdict(cost))}
        for (name, threads), cost in found.items()
    ]
    save("fixed_costs", machine, {"rows": table, "fits": fitted})


def _finite(data: Row) -> Row:
    """Without infinities, which JSON does not have."""
    return {
        key: _finite(x) if isinstance(x, dict) else x if x is not None and isfinite(x) else None
        for key, x in data.items()
    }


if __name__ == "__main__":
    main()
