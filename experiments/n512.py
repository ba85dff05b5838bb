"""N = 512: the article's first table, the times of four ways to multiply beside the peaks.

A call is timed as its caller sees it, as in the article; a GPU's kernel alone stands beside it.
"""

from __future__ import annotations

from experiments.common import (
    ARTICLE,
    N512,
    SECONDS,
    UNIT,
    Row,
    at_512,
    call_s,
    here,
    save,
    show,
    units,
)
from sandbox.roofline import work

COLUMNS = (
    ("", "method", ""),
    ("article", "article_s", "s"),
    ("GFLOP/s", "article_flops", "G"),
    ("of peak", "article_of_peak", "%"),
    ("here", "here_s", "s"),
    ("GFLOP/s", "here_flops", "G"),
    ("of peak", "here_of_peak", "%"),
    ("kernel", "kernel_s", "s"),
)


def main() -> None:
    machine = here()
    known, results, flop = units(machine), at_512(machine), work(N512.gemm)
    rows: list[Row] = []
    for name, seconds in SECONDS.items():
        row: Row = {"method": name}
        r = results.get(name)
        if r and r.call:
            row["kernel_s"] = r.timing.median_s if r.timing else None
        both = {"article": (seconds, ARTICLE[UNIT[name]][0])}
        if r:
            both["here"] = call_s(r), known[UNIT[name]].peak_flops
        for where, (t, peak) in both.items():
            row[f"{where}_s"], row[f"{where}_flops"] = t, flop / t
            row[f"{where}_of_peak"] = flop / t / peak
        rows.append(row)
    show("N = 512, and the fraction of the peak of the whole unit", COLUMNS, rows)
    save("n512", machine, {"rows": rows})


if __name__ == "__main__":
    main()
