"""The specification table: what the units compute a second, and what the memories deliver.

The article takes its figures from data sheets; this machine's are measured.
"""

from __future__ import annotations

from experiments.common import ARTICLE, Row, here, save, show, units


def main() -> None:
    machine = here()
    known = units(machine)
    peaks: list[Row] = []
    memories: list[Row] = []
    for name, (peak, bandwidth) in ARTICLE.items():
        unit = known.get(name)
        found = {"here": unit.peak_flops, "spread": unit.spread} if unit else {}
        peaks.append({"unit": name, "article": peak, **found})
        rates = {x.name: (x.bandwidth, x.spread) for x in unit.levels} if unit else {}
        for level in rates or ("DRAM",):
            rate, spread = rates.get(level, (None, None))
            row = {"unit": f"{name}: {level}", "here": rate, "spread": rate and spread}
            memories.append({**row, "article": bandwidth if level == "DRAM" else None})
    for title, rows, per_s in (("Peaks", peaks, "FLOP/s"), ("Bandwidth", memories, "B/s")):
        columns = ("", "unit", ""), ("article", "article", per_s), ("here", "here", per_s)
        show(title, (*columns, ("+-", "spread", "%")), rows)
    save("specifications", machine, {"peaks": peaks, "bandwidths": memories})


if __name__ == "__main__":
    main()
