"""What the experiments share: the article's rows on any machine, and where results are kept."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from sandbox import runner
from sandbox.machine import Machine, Unit, detect
from sandbox.machine.here import this_machine
from sandbox.plan import Plan
from sandbox.problem import Problem
from sandbox.registry import Variant, discover
from sandbox.report.console import Terminal
from sandbox.report.table import scaled, significant
from sandbox.result import Result, Timing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
NAIVE, STEP, NUMPY = "CPU, naive", "CPU, last step", "CPU, NumPy"
FP32, TF32 = "GPU, FP32", "GPU, TF32"
Row = dict[str, Any]
Column = tuple[str, str, str]  # header, key, unit

# The article's specification table: FLOP/s, and bytes/s from DRAM, of the NVIDIA GH200's units.
CPU = "CPU, FP32"
ARTICLE = {CPU: (7.1e12, 512e9), FP32: (67e12, 4.0e12), TF32: (494e12, 4.0e12)}
# Its times at N = 512, and the unit on which each method runs.
SECONDS = {NAIVE: 93.81e-3, NUMPY: 157.6e-6, FP32: 17.23e-6, TF32: 13.04e-6}
UNIT = {NAIVE: CPU, NUMPY: CPU, FP32: FP32, TF32: TF32}
N512 = Problem(512, 512, 512)


def here() -> Machine:
    """This machine with all its ceilings."""
    err = Terminal(sys.stderr)
    return this_machine(say=err.print, levels=True, gpu=True)


def units(machine: Machine) -> dict[str, Unit]:
    """Those of the article's three arithmetic units that the machine has."""
    found = {
        CPU: machine.unit("cpu", "fp32", machine.cores),
        FP32: machine.unit("gpu", "fp32", 1),
        TF32: machine.unit("gpu", "tf32", 1),
    }
    return {name: unit for name, unit in found.items() if unit}


def methods() -> dict[str, tuple[Variant, int]]:
    """Variant and threads for each of the article's methods that this installation has.

    The ladder's last step stands in the place of the article's own CPU code.
    """
    variants, cores = discover().variants, detect.usable_cores()
    named = {v.name: v for v in variants}
    last = [v for v in variants if v.device == "cpu" and not v.reference][-1]
    found = {
        NAIVE: (named["naive"], 1),
        STEP: (last, cores if last.parallel else 1),
        NUMPY: (named["numpy"], cores),
    }
    for v in variants:
        if v.device == "gpu" and v.reference:
            found.setdefault({"tf32": TF32}.get(v.unit_for("float32"), FP32), (v, 1))
    return found


def measure(
    chosen: Iterable[tuple[Variant, int]], sizes: Iterable[int], machine: Machine, rounds: int = 9
) -> list[Result]:
    """The rows at each N x N x N that have a time; says on standard error what it does."""
    plan = Plan(list(chosen), [Problem(n, n, n) for n in sizes], machine, rounds=rounds)
    with Terminal(sys.stderr).status("starting") as status:
        return [r for found in runner.run(plan, status.update) for r in found if r.timing]


def at_512(machine: Machine) -> dict[str, Result]:
    """The article's methods at N = 512, those that there are here."""
    chosen = {name: row for name, row in methods().items() if name in SECONDS}
    found = {(r.variant, r.threads): r for r in measure(chosen.values(), [512], machine)}
    keys = {name: (v.name, threads) for name, (v, threads) in chosen.items()}
    return {name: found[key] for name, key in keys.items() if key in found}


def call(r: Result) -> Timing:
    """The call as its caller sees it, which is what the article times."""
    timing = r.call or r.timing
    assert timing
    return timing


def hardware(machine: Machine) -> str:
    """The machine in words: its GPU, or its processor and cores."""
    return machine.gpu.name if machine.gpu else processor(machine)


def processor(machine: Machine) -> str:
    """Its name and microarchitecture, and the cores that are used."""
    brand, _, architecture = machine.name.partition(", ")
    known = architecture not in ("", "unknown")
    name = f"{brand} ({re.sub(r'^zen', 'Zen ', architecture)})" if known else brand
    return f"{name}, {machine.cores} core{'s' * (machine.cores > 1)}"


def show(title: str, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """A table on standard output: of each row what the columns' keys say, in their units."""
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    for i, (header, _, _) in enumerate(columns):
        table.add_column(header, justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(key), unit)) for _, key, unit in columns))
    out = Terminal(sys.stdout)
    for content in (Text(title, style="bold"), table, ""):
        out.print(content)


def _cell(value: Any, unit: str) -> str:
    """As the unit wants it: N is a whole number, G are thousand millions, "" has no unit. What this
    machine does not have is a dash."""
    if value is None or isinstance(value, str):
        return value or "-"
    if unit == "N":
        return str(int(value + 0.5))
    if unit == "%":
        return f"{significant(100 * value, 2)}%"
    if unit == "G":
        return significant(value / 1e9, 3)
    return scaled(value, unit) if unit else significant(value, 4)


def results_path(experiment: str, hardware: str, suffix: str) -> Path:
    """Where an experiment's results on such hardware are kept."""
    slug = re.sub(r"[^a-z0-9]+", "-", hardware.lower()).strip("-")
    RESULTS.mkdir(exist_ok=True)
    return RESULTS / f"{experiment}-{slug}{suffix}"


def save(
    experiment: str, machine: Machine, data: Mapping[str, Any], figure: Figure | None = None
) -> None:
    """Keep the data as JSON, and the figure as SVG, under the experiment's and machine's names."""
    name = hardware(machine)
    path = results_path(experiment, name, ".json")
    date = datetime.date.today().isoformat()
    kept = {"hardware": name, "processor": processor(machine), "date": date}
    kept |= {"ceilings": machine.note, **data}
    path.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if figure is not None:
        from sandbox.report import plot  # imports matplotlib

        plot.save(figure, path.with_suffix(".svg"))
    Terminal(sys.stdout).print(f"saved as {path}", soft_wrap=True)
