"""N = 512 against the roofline min(P, I B), with I = N / 6: table and figure.

The ceiling is the article's, which lets all data come from DRAM; a warm run finds them in a cache.
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
from sandbox.report.plot import roofline
from sandbox.roofline import ceiling, compulsory_bytes, intensity, work

COLUMNS = (
    ("", "method", ""),
    ("article", "article_flops", "G"),
    ("ceiling", "article_ceiling", "G"),
    ("of it", "article_of_ceiling", "%"),
    ("here", "here_flops", "G"),
    ("ceiling", "here_ceiling", "G"),
    ("of it", "here_of_ceiling", "%"),
)


def main() -> None:
    machine = here()
    known, results, flop = units(machine), at_512(machine), work(N512.gemm)
    most = intensity(N512.gemm, compulsory_bytes(N512.gemm))
    rows: list[Row] = []
    for name, seconds in SECONDS.items():
        row: Row = {"method": name}
        both = {"article": (seconds, *ARTICLE[UNIT[name]])}
        if r := results.get(name):
            unit = known[UNIT[name]]
            both["here"] = call_s(r), unit.peak_flops, unit.bandwidth
        for where, (t, peak, bandwidth) in both.items():
            roof = ceiling(peak, bandwidth, most).flops
            row[f"{where}_flops"], row[f"{where}_ceiling"] = flop / t, roof
            row[f"{where}_of_ceiling"] = flop / t / roof
        rows.append(row)
    show(f"N = 512 against the roofline at {most:.1f} FLOP/byte, GFLOP/s", COLUMNS, rows)
    save("roofline_512", machine, {"rows": rows}, roofline(results.values(), machine))


if __name__ == "__main__":
    main()
