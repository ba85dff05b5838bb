"""The model's figures for a machine: what `python -m sandbox.roofline` prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sandbox import roofline as model
from sandbox.arguments import Parser, side, writable
from sandbox.machine import Machine, Unit, catalogue, facts
from sandbox.machine.here import this_machine
from sandbox.problem import ITEMSIZE, Problem
from sandbox.registry import UNITS
from sandbox.report.console import Terminal
from sandbox.report.machines import listing, sources
from sandbox.report.table import percent, scaled, significant

_EFFICIENCIES = (0.5, 0.8, 0.9)
_SIDE_BY_SIDE = 4


@dataclass(frozen=True)
class LevelFigures:
    """One boundary of the hierarchy: bytes/s, FLOP/byte, the least bytes, FLOP/s; None unknown."""

    name: str
    bandwidth: float | None
    spread: float
    source: str
    fast_bytes: int
    memories: int
    ridge: float | None
    bytes: float
    intensity: float | None
    ceiling_flops: float | None


@dataclass(frozen=True)
class UnitFigures:
    """One arithmetic unit at one size N: FLOP/s, bytes/s, bytes, FLOP/byte, seconds.

    `levels` are the boundaries, each with all that is nearer as fast memory, and `bound_by_level`
    the one that binds a product that starts in DRAM. `moved_into` holds the bound in bytes for
    each level, `n_for` the N that reaches 50, 80 and 90 % of the peak in spite of `t0_s`.
    """

    unit: str
    peak_flops: float
    spread: float
    bandwidth: float
    source: str
    ridge: float
    n_star: float
    fast_bytes: int
    intensity_limit: float
    compulsory_bytes: int
    pebble_bytes: float
    best_schedule_bytes: int
    best_schedule: str
    intensity: float
    ceiling_flops: float
    bound_by: str
    levels: tuple[LevelFigures, ...]
    bound_by_level: str
    moved_into: dict[str, float]
    t0_s: float | None
    fixed_cost_s: dict[str, float]
    fixed_cost_spread: dict[str, float]
    n_for: dict[str, float]


def figures(unit: Unit, n: int, storage: str) -> UnitFigures:
    """What the model says of an N x N x N product on a unit.

    `storage` is what counts as fast memory: `all` that is on the chip, with the safe bound; or the
    last-level cache alone with the article's asymptotic bound.
    """
    dtype = {unit: dtype for dtype, unit in UNITS.items()}.get(unit.arithmetic, "float32")
    gemm = Problem(n, n, n, dtype=dtype).gemm
    article = storage == "article"
    fast = unit.article_bytes if article else unit.fast_bytes
    least = model.article_pebble_bytes(gemm, fast) if article else model.pebble_bytes(gemm, fast)
    best = model.best_schedule(gemm, fast)
    ridge = model.ridge(unit.peak_flops, unit.bandwidth)
    flop_per_byte = model.intensity(gemm, least)
    roof = model.ceiling(unit.peak_flops, unit.bandwidth, flop_per_byte)
    bounds = model.level_bounds(gemm, unit.levels, unit.peak_flops)
    binding = model.binding_level(bounds, unit.peak_flops)
    return UnitFigures(
        unit=unit.name,
        peak_flops=unit.peak_flops,
        spread=unit.spread,
        bandwidth=unit.bandwidth,
        source=f"{unit.source.peak}, {unit.source.bandwidth}",
        ridge=ridge,
        n_star=model.n_star(ridge, ITEMSIZE[dtype]),
        fast_bytes=fast,
        intensity_limit=model.intensity_limit(gemm, fast),
        compulsory_bytes=model.compulsory_bytes(gemm),
        pebble_bytes=least,
        best_schedule_bytes=best.moved_bytes,
        best_schedule=f"{best.stationary} {best.rows}x{best.cols}",
        intensity=flop_per_byte,
        ceiling_flops=roof.flops,
        bound_by=roof.bound_by,
        levels=tuple(
            LevelFigures(
                **asdict(level),
                ridge=level.bandwidth and model.ridge(unit.peak_flops, level.bandwidth),
                bytes=bound.bytes,
                intensity=bound.intensity,
                ceiling_flops=bound.ceiling_flops,
            )
            for level, bound in zip(unit.levels, bounds, strict=True)
        ),
        bound_by_level=binding.name if binding else "compute",
        moved_into={near.name: far.bytes for far, near in pairwise(bounds[1:])},
        t0_s=unit.t0_s,
        fixed_cost_s=unit.fixed_cost_s,
        fixed_cost_spread=unit.fixed_cost_spread,
        n_for={
            f"{e:.0%}": model.n_for_efficiency(e, unit.t0_s, unit.peak_flops)
            for e in _EFFICIENCIES
            if unit.t0_s
        },
    )


def page(machine: Machine, found: Sequence[UnitFigures], n: int, storage: str) -> Group:
    """The figures of all units, a few side by side."""
    what = {"all": "all storage on the chip, with the safe bound"}
    what["article"] = "the last-level cache, with the article's bound"
    head = Text(f"{machine.name}   {machine.cores} of {machine.of_cores} cores", style="bold")
    parts: list[RenderableType] = [head if machine.cores else Text(machine.name, style="bold")]
    for device in ("cpu", "gpu"):
        same = [f for f, u in zip(found, machine.units, strict=True) if u.device == device]
        for first in range(0, len(same), _SIDE_BY_SIDE):
            parts += [Text(), _table(same[first : first + _SIDE_BY_SIDE], n)]
    notes = Text(f"Ceilings {machine.note}. Fast memory: {what[storage]}.")
    return Group(*parts, Text(), notes, Text(), sources(machine.facts))


def _table(found: Sequence[UnitFigures], n: int) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    table.add_column("", overflow="fold")
    for f in found:
        table.add_column(f.unit.replace(", ", "\n"), justify="right", overflow="fold")

    def row(name: str, *cells: str) -> None:
        table.add_row(Text(name), *(Text(c) for c in cells))

    def levels(name: str, cell: Callable[[LevelFigures], str]) -> None:
        for level in dict.fromkeys(x.name for f in found for x in f.levels):
            cells = ({x.name: cell(x) for x in f.levels}.get(level, "") for f in found)
            row(name.format(level), *cells)

    def doubt(*spreads: float | None) -> None:
        if any(spreads):
            row("  +-", *(percent(s) if s else "" for s in spreads))

    row("peak", *(scaled(f.peak_flops, "FLOP/s") for f in found))
    doubt(*(f.spread for f in found))
    levels("{}", lambda x: scaled(x.bandwidth, "B/s") if x.bandwidth else "unknown")
    levels("{} +-", lambda x: percent(x.spread) if x.spread else "")
    levels("{} ridge I*, FLOP/byte", lambda x: significant(x.ridge, 4) if x.ridge else "")
    row("N* = 3 s I* / 2", *(str(int(f.n_star + 0.5)) for f in found))
    row("fast memory M", *(scaled(f.fast_bytes, "B") for f in found))
    row("I_max for large N", *(f"{f.intensity_limit:.0f}" for f in found))
    row("")
    row(f"N = {n}: compulsory", *(scaled(f.compulsory_bytes, "B") for f in found))
    row("pebble-game bound", *(scaled(f.pebble_bytes, "B") for f in found))
    row("best known schedule", *(scaled(f.best_schedule_bytes, "B") for f in found))
    row("  keeping blocks of", *(f.best_schedule for f in found))
    row("intensity, at most", *(significant(f.intensity) for f in found))
    row("ceiling", *(scaled(f.ceiling_flops, "FLOP/s") for f in found))
    row("bound by", *(f.bound_by for f in found))
    levels("from {} at least", lambda x: scaled(x.bytes, "B"))
    row("all levels: bound by", *(f.bound_by_level for f in found))
    row("")
    for mode in dict.fromkeys(mode for f in found for mode in f.fixed_cost_s):
        known = [f.fixed_cost_s.get(mode) for f in found]
        row(f"fixed cost T0, {mode}", *(scaled(s, "s") if s else "" for s in known))
        doubt(*(f.fixed_cost_spread.get(mode) for f in found))
    for e in dict.fromkeys(e for f in found for e in f.n_for):
        row(f"N for {e} of peak", *(f"{f.n_for[e]:.0f}" if f.n_for else "" for f in found))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = Parser(prog="sandbox.roofline", description=__doc__)
    add = p.add_argument
    add("--machine", metavar="NAME", help=f"instead of this one: {', '.join(catalogue.names())}")
    add("--machines", action="store_true", help="list the catalogue")
    add("--storage", choices=("article", "all"), default="all", help="what is fast memory")
    add("--n", type=side, default=512, metavar="N", help="N x N x N (default 512)")
    add("--json", type=writable, metavar="FILE", help="save the figures; - is standard output")
    add("--remeasure", action="store_true", help="measure the ceilings of this machine again")
    options = p.parse_args(arguments)
    if options.machines and options.json:
        p.error(
            "--machines saves nothing: name one machine, as --machine h200, or leave --json out"
        )
    err = Terminal(sys.stderr)
    try:
        if options.machines:
            Terminal(sys.stdout).print(listing({n: catalogue.named(n) for n in catalogue.names()}))
            return 0
        if options.machine is not None:
            machine = catalogue.named(options.machine)
        else:
            machine = this_machine((), options.remeasure, err.print, levels=True, gpu=True)
            machine = replace(machine, facts=facts.of_this(machine))
    except ValueError as error:
        p.exit(2, f"error: {error}\n")
    found = [figures(unit, options.n, options.storage) for unit in machine.units]
    units = [asdict(f) for f in found]
    text = json.dumps({"machine": machine.name, "units": units}, indent=1) + "\n"
    to_stdout = str(options.json) == "-"
    Terminal(sys.stderr if to_stdout else sys.stdout).print(
        page(machine, found, options.n, options.storage)
    )
    if to_stdout:
        Terminal(sys.stdout).write(text)
    elif options.json:
        options.json.write_text(text, encoding="utf-8")
    return 0
