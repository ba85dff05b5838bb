"""Results as rich renderables. Nothing here prints; ASCII only, so that any terminal shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sandbox.machine import Machine, Unit
from sandbox.registry import Variant
from sandbox.result import Result
from sandbox.roofline import compulsory_bytes, intensity, pebble_bytes, ridge

_BAR = 14
_NOISY = 0.1
# From the one that a narrow terminal can best do without.
_DISPENSABLE = ("", "+-", "err", "GFLOP/s", "thr", "of roof")


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """Three significant digits with an SI prefix: 6.39 ms, 11.5 MB."""
    for prefix, factor in zip(("T", "G", "M", "k", "", "m", "u"), range(12, -9, -3), strict=True):
        if value >= 0.9995 * 10.0**factor:
            return f"{significant(value / 10.0**factor, digits)} {prefix}{unit}"
    return f"{significant(value * 1e9, digits)} n{unit}" if value else f"0 {unit}"


def significant(x: float, digits: int = 3) -> str:
    """So many significant digits without an exponent, never cutting whole ones."""
    before = len(str(int(abs(x)))) if abs(x) >= 1 else 0
    return f"{x:.{max(0, digits - before)}f}"


def percent(x: float) -> str:
    """One decimal below 10 %."""
    return f"{100 * x:.1f}%" if x < 0.0995 else f"{100 * x:.0f}%"


class Fitted:
    """A table without the columns for which the terminal has no room."""

    def __init__(self, headers: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._headers, self._rows = headers, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = list(self._headers)
        for header in ("none", *_DISPENSABLE):
            kept = [h for h in kept if h != header]
            table = self._table(kept)
            if Measurement.get(console, options, table).maximum <= options.max_width:
                break
        yield table

    def _table(self, kept: list[str]) -> Table:
        table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
        for header in kept:
            left = header in ("step", "")
            table.add_column(header, justify="left" if left else "right", overflow="fold")
        for style, cells in self._rows:
            shown = [Text(c) for h, c in zip(self._headers, cells, strict=True) if h in kept]
            table.add_row(*shown, style=style)
        return table


def report(results: Sequence[Result], machine: Machine, variants: Iterable[Variant]) -> Group:
    """Everything about one problem: what holds for all rows, the rows, and what they mean."""
    parts: list[RenderableType] = [_title(results[0], machine), Text()]
    parts += [_ceilings(results, machine), _sources(results, machine), Text()]
    parts += [_rows(results), Text(), *_notes(results)]
    if line := _conclusion(results, list(variants)):
        parts.append(line)
    return Group(*(Padding(p, (0, 0, 0, 1)) for p in parts))


def _title(first: Result, machine: Machine) -> RenderableType:
    p = first.problem
    what = f"C = A B   {p.shape}  {p.dtype}  {p.layout}  {first.cache}"
    who = f"{machine.name}, {machine.cores} of {machine.of_cores} cores"
    return Columns([Text(what, style="bold"), Text(who)], padding=(0, 4))


def _ceilings(results: Sequence[Result], machine: Machine) -> RenderableType:
    problem = results[0].problem
    wanted = dict.fromkeys((r.device, r.unit, r.threads) for r in results)
    units = [u for key in sorted(wanted, key=lambda x: x[2]) if (u := machine.unit(*key))]
    if not units:
        return Text(f"No ceiling is known for {results[0].unit} on this machine.")
    several = len({u.arithmetic for u in units}) > 1
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="")
    table.add_column("", overflow="fold")
    for u in units:
        head = f"{u.threads} thread{'s' * (u.threads > 1)}"
        table.add_column(f"{u.arithmetic} {head}" if several else head, justify="right")
    table.add_column("")
    lines = {
        "peak": ([u.peak_flops / 1e9 for u in units], "GFLOP/s"),
        "DRAM": ([u.bandwidth / 1e9 for u in units], "GB/s"),
        "ridge": ([ridge(u.peak_flops, u.bandwidth) for u in units], "FLOP/byte"),
    }
    for name, (values, unit) in lines.items():
        table.add_row(name, *(f"{v:.1f}" for v in values), unit)
    gemm, widest = problem.gemm, units[-1]
    facts = [Text("must move at least")]
    for level in widest.levels:
        least = pebble_bytes(gemm, level.fast_bytes, level.memories)
        why = "compulsory" if least == compulsory_bytes(gemm) else "pebble game"
        verb = "from" if level.name == "DRAM" else "into"
        facts.append(Text(f"{scaled(least, 'B'):>8} {verb} {level.name} ({why})"))
    facts.append(Text(_intensity(widest, results)))
    return Columns([table, Group(*facts)], padding=(0, 3))


def _intensity(widest: Unit, results: Sequence[Result]) -> str:
    gemm = results[0].problem.gemm
    least = pebble_bytes(gemm, widest.fast_bytes)
    bound_by = {r.bound.bound_by for r in results if r.bound}
    word = "compute-bound" if bound_by == {"compute"} else f"bound by {', '.join(sorted(bound_by))}"
    return f"intensity {intensity(gemm, least):.1f}: {word}" if least else "nothing to move"


def _sources(results: Sequence[Result], machine: Machine) -> Text:
    versions = results[0].versions or {}
    names = {"openblas": "OpenBLAS", "mkl": "MKL", "numba": "Numba"}
    names |= {"numpy": "NumPy", "torch": "torch"}
    said = ", ".join(f"{name} {versions[key]}" for key, name in names.items() if key in versions)
    return Text(f"Ceilings {machine.note}; {said}" if said else f"Ceilings {machine.note}")


def _rows(results: Sequence[Result]) -> Fitted:
    against = {r.ratio.to for r in results if r.ratio}
    ratio_header = f"x {against.pop()}" if len(against) == 1 else "x best lib"
    headers = ("step", "thr", "time", "+-", "GFLOP/s", "of roof", "", ratio_header, "err")
    right = [r for r in results if r.timing and not r.reference and not r.impossible]
    best = min(right, key=lambda r: r.timing.median_s if r.timing else 0, default=None)
    rows = []
    for r in results:
        style = "bold green" if r is best else "dim" if r.skipped else ""
        style = style if r.timing or r.skipped else "red"
        rows.append((style, _cells(r)))
    return Fitted(headers, rows)


def _cells(r: Result) -> tuple[str, ...]:
    name, threads = r.variant, str(r.threads)
    if r.timing is None or r.flops is None:
        word = "skipped" if r.skipped else "wrong" if r.verdict else "unknown"
        return (name, threads, "-", "", "", "", f"{word}, see below", "", "")
    error = (r.verdict and r.verdict.error) or 0.0
    bar = "#" * max(1, round(_BAR * min(1.0, r.of_roof))) if r.of_roof is not None else ""
    return (
        name,
        threads,
        scaled(r.timing.median_s, "s"),
        percent(r.timing.spread) if r.timing.rounds > 1 else "?",
        significant(r.flops / 1e9) if r.flops < 1e12 else f"{r.flops / 1e9:.0f}",
        "-" if r.of_roof is None else percent(r.of_roof),
        "impossible" if r.impossible else bar,
        "-" if r.ratio is None else significant(r.ratio.value, 3 if r.ratio.value >= 1 else 2),
        f"{error:.2f}".removeprefix("0"),
    )


def _notes(results: Sequence[Result]) -> list[Text]:
    notes = []
    for r in results:
        name = f"{r.variant} ({r.threads} thread{'s' * (r.threads > 1)})"
        if r.skipped:
            notes.append(Text(f"{name} is left out: {r.skipped}.", style="dim"))
        elif r.verdict and not r.verdict.ok:
            notes.append(Text(f"{name} is wrong: {r.verdict.reason}.", style="red"))
        elif r.verdict and r.verdict.refused:
            notes.append(Text(f"{name} does not take all shapes: {r.verdict.refused}."))
        if r.impossible:
            text = f"{name} is {percent(r.of_roof or 0)} of its ceiling, more than both spreads "
            text += "allow, and not ranked: that ceiling is too low. Measure it again: --remeasure."
            notes.append(Text(text, style="yellow"))
        if r.timing and r.timing.spread > _NOISY:
            text = f"{name} is noisy: {scaled(r.timing.low_s, 's')} to"
            notes.append(Text(f"{text} {scaled(r.timing.high_s, 's')}.", style="yellow"))
    return notes + ([Text()] if notes else [])


def _conclusion(results: Sequence[Result], variants: list[Variant]) -> Text | None:
    """How far the last step is from the one before it, from the libraries and from the roof."""
    steps = [r for r in results if r.timing and not r.reference and not r.impossible]
    if not steps:
        return None
    last = steps[-1]
    after = next((v.after for v in variants if v.name == last.variant), None)
    before = [r for r in steps if r.variant == after]
    assert last.timing
    said = []
    if before and before[-1].timing:
        gain = before[-1].timing.median_s / last.timing.median_s
        said.append(f"{last.variant} is {significant(gain, 2)} times {before[-1].variant}")
    to = []
    if last.ratio:
        to.append(f"{significant(1 / last.ratio.value, 2)} times to {last.ratio.to}")
    if last.of_roof:
        to.append(f"{significant(1 / last.of_roof, 2)} to the roof")
    return Text("; ".join([*said, ", ".join(to)]) + ".") if said or to else None
