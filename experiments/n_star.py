"""N* = 6 I*: from which N on is a float32 product compute-bound, if each matrix moves once?

Beside it I_max = sqrt(M) / 8, the most that large products reach: above the ridge they stay
compute-bound. The article's M is the last-level cache, the safe one all storage on the chip.
"""

from __future__ import annotations

from experiments.common import ARTICLE, CPU, FP32, TF32, Row, here, save, show, units
from sandbox.roofline import Gemm, intensity_limit, n_star, ridge

LAST_LEVEL = {CPU: 117_000_000, FP32: 50_000_000, TF32: 50_000_000}
COLUMNS = (
    ("", "unit", ""),
    ("N*, article", "article", "N"),
    ("here", "here", "N"),
    ("I_max, article", "article_limit", ""),
    ("here, its M", "limit_last_level", ""),
    ("all on the chip", "limit", ""),
)


def main() -> None:
    machine = here()
    known, one = units(machine), Gemm(1, 1, 1)
    rows: list[Row] = []
    for name, sheet in ARTICLE.items():
        row: Row = {"unit": name, "article": n_star(ridge(*sheet))}
        row["article_limit"] = intensity_limit(one, LAST_LEVEL[name])
        if unit := known.get(name):
            row["here"] = n_star(ridge(unit.peak_flops, unit.bandwidth))
            row["limit_last_level"] = intensity_limit(one, unit.article_bytes)
            row["limit"] = intensity_limit(one, unit.fast_bytes)
        rows.append(row)
    show("From which N on compute is the limit, and the intensity of large products", COLUMNS, rows)
    save("n_star", machine, {"rows": rows})


if __name__ == "__main__":
    main()
