"""FLOP/s against N: the article's figure, and its table of what each method saturates at."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.common import (
    FP32,
    NAIVE,
    NUMPY,
    STEP,
    TF32,
    Row,
    here,
    measure,
    methods,
    save,
    show,
)
from sandbox.machine import Machine
from sandbox.report.plot import sweep
from sandbox.result import Result

# The most FLOP/s that the article reached, and the peak that it sets beside them.
SATURATED = {
    NAIVE: (4.3e9, 99.2e9),
    STEP: (3.2e12, 7.1e12),
    NUMPY: (4.5e12, 7.1e12),
    FP32: (51.5e12, 67e12),
    TF32: (399e12, 494e12),
}
SMALL, LARGE = (32, 64, 128, 256, 512), (1024, 2048, 4096, 8192)
COLUMNS = (
    ("", "method", ""),
    ("article", "article_flops", "G"),
    ("of peak", "article_of_peak", "%"),
    ("", "variant", ""),
    ("here", "here_flops", "G"),
    ("at N", "at", "N"),
    ("of peak", "here_of_peak", "%"),
    ("N=1024", "article_1024", "G"),
    ("here", "here_1024", "G"),
)


def largest(machine: Machine) -> dict[str, int]:
    """Up to which N each method is measured: enough to saturate it, in seconds a call at most."""
    cpu = 4096 if machine.cores >= 8 else 2048
    return {NAIVE: 1024, STEP: cpu, NUMPY: cpu, FP32: 8192, TF32: 8192}


def swept(machine: Machine) -> Iterator[Result]:
    """The methods at powers of two; three visits have to do where a call takes seconds."""
    chosen, ends = methods(), largest(machine)
    yield from measure(chosen.values(), SMALL, machine)
    for n in LARGE:
        if rows := [row for name, row in chosen.items() if ends[name] >= n]:
            yield from measure(rows, [n], machine, rounds=3)


def main() -> None:
    machine, chosen = here(), methods()
    results = list(swept(machine))
    table: list[Row] = []
    points: dict[str, list[Row]] = {}
    for name, (flops, peak) in SATURATED.items():
        row: Row = {"method": name, "article_flops": flops, "article_of_peak": flops / peak}
        row["article_1024"] = 1.4e9 if name == NAIVE else None
        v, threads = chosen.get(name, (None, 0))
        mine = [r for r in results if v and (r.variant, r.threads) == (v.name, threads)]
        if mine and v:
            best = max(mine, key=lambda r: r.flops or 0.0)
            row |= {"variant": v.name, "threads": threads, "here_flops": best.flops}
            row["at"] = best.problem.n
            row["here_1024"] = next((r.flops for r in mine if r.problem.n == 1024), None)
            row["here_of_peak"] = best.of_roof
        points[name] = [{"n": r.problem.n, **vars(r.timing)} for r in mine if r.timing]
        table.append(row)
    show("The most that is reached, GFLOP/s", COLUMNS, table)
    save("n_sweep", machine, {"rows": table, "points": points}, sweep(results, machine))


if __name__ == "__main__":
    main()
