"""Ridge points I* = P / B: from how many FLOP a byte on is compute the limit?

The article has those of DRAM; nearer memories have lower ones.
"""

from __future__ import annotations

from experiments.common import ARTICLE, Row, here, save, show, units
from sandbox.roofline import ridge


def main() -> None:
    machine = here()
    known = units(machine)
    rows: list[Row] = []
    for name, (peak, bandwidth) in ARTICLE.items():
        unit = known.get(name)
        rates = {x.name: x.bandwidth for x in unit.levels} if unit else {"DRAM": None}
        for level, rate in rates.items():
            row: Row = {"unit": f"{name}: {level}"}
            row["article"] = ridge(peak, bandwidth) if level == "DRAM" else None
            row["here"] = ridge(unit.peak_flops, rate) if unit and rate else None
            rows.append(row)
    columns = ("", "unit", ""), ("article", "article", ""), ("here", "here", "")
    show("Ridge point, FLOP/byte", columns, rows)
    save("ridge_points", machine, {"rows": rows})


if __name__ == "__main__":
    main()
