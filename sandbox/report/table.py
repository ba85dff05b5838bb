"""Results as rich renderables. Nothing here prints; ASCII only, so that any terminal shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sandbox.machine import Machine, Unit
from sandbox.registry import Variant
from sandbox.result import Result, Timing
from sandbox.roofline import compulsory_bytes, intensity, pebble_bytes, ridge

_BAR = 14
_NOISY = 0.1
_SAGGED = 0.95
_REMEDY = {  # where a whole device is unknown
    "cpu": "the machine named is a GPU alone. Leave --machine out, or name gh200, say",
    "gpu": "no GPU of this machine is known. Name a machine with one, as --machine h200",
}
# From the one that a narrow terminal can best do without.
_DISPENSABLE = ("", "+-", "err", "GFLOP/s", "kernel", "blocks", "thr", "of roof")
_LEFT = ("step", "level", "kernel", "occupancy, limit", "")


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """So many significant digits with an SI prefix, of a number from 0 on: 6.39 ms, 11.5 MB."""
    if not value:
        return f"0 {unit}"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1]) // 3 * 3
    exponent = min(max(exponent, -9), 12)
    prefix = ("n", "u", "m", "", "k", "M", "G", "T")[exponent // 3 + 3]
    return f"{significant(value / 10.0**exponent, digits)} {prefix}{unit}"


def significant(x: float, digits: int = 3) -> str:
    """So many significant digits without an exponent, never cutting whole ones."""
    exponent = int(f"{x:.{digits - 1}e}".split("e")[1])
    return f"{x:.{max(0, digits - 1 - exponent)}f}"


def percent(x: float) -> str:
    """One decimal below 10 %."""
    if 0 < x < 0.0005:
        return "<0.1%"
    return f"{100 * x:.1f}%" if abs(x) < 0.0995 else f"{100 * x:.0f}%"


def row_name(r: Result) -> str:
    """A row as messages name it."""
    if r.device == "gpu":
        return r.variant
    return f"{r.variant} ({r.threads} thread{'s' * (r.threads > 1)})"


class Trimmed:
    """What it holds, one space from the left and without blanks at the ends of lines."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update_width(max(1, options.max_width - 1))
        for line in console.render_lines(self._content, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            yield Segment(" " * bool(line))
            yield from line[:-1]
            yield from (Segment(s.text.rstrip(), s.style) for s in line[-1:])
            yield Segment.line()


class Whole(Table):
    """A table whose cells fold between words alone, where the terminal has room for the words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unlimited = options.update_width(10_000)
        spare = options.max_width - Measurement.get(console, unlimited, self).minimum
        if spare >= 0:
            texts = ["\n".join(map(str, (c.header, *c.cells))) for c in self.columns]
            needs = [Measurement.get(console, unlimited, Text(text)) for text in texts]
            # What lacks least is made whole first: figures before prose.
            for c, need in sorted(zip(self.columns, needs, strict=True), key=lambda x: x[1].span):
                more = min(spare, need.span)
                c.width, c.no_wrap, spare = need.minimum + more, False, spare - more
        yield from super().__rich_console__(console, options)


class Fitted:
    """A table without the columns for which the terminal has no room; at last its cells fold."""

    def __init__(
        self,
        headers: Sequence[str],
        rows: Sequence[tuple[str, Sequence[str]]],
        known: Sequence[str] = (),
    ) -> None:
        self._headers, self._rows, self._known = headers, rows, known or headers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept, unlimited = list(self._known), options.update_width(10_000)
        for header in ("none", *_DISPENSABLE):
            kept = [h for h in kept if h != header]
            table = self._table(kept)
            if Measurement.get(console, unlimited, table).maximum <= options.max_width:
                break
        yield table

    def _table(self, kept: list[str]) -> Whole:
        table = Whole(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
        for header in kept:
            table.add_column(
                header,
                justify="left" if header in _LEFT else "right",
                overflow="fold",
                no_wrap=header != "step",
            )
        for style, cells in self._rows:
            shown = [Text(c) for h, c in zip(self._headers, cells, strict=True) if h in kept]
            table.add_row(*shown, style=style)
        return table


def report(results: Sequence[Result], machine: Machine, variants: Iterable[Variant]) -> Trimmed:
    """Everything about one problem: what holds for all rows, the rows, and what they mean."""
    parts: list[RenderableType] = [_title(results, machine), Text()]
    parts += [*_ceilings(results, machine), *_unknown(results, machine)]
    parts += [_sources(results, machine), Text()]
    parts += [_rows(results), Text(), *_notes(results)]
    if line := _conclusion(results, list(variants)):
        parts.append(line)
    return Trimmed(Group(*parts))


def _title(results: Sequence[Result], machine: Machine) -> RenderableType:
    p, cache = results[0].problem, results[0].cache
    what = f"C = A B   {p.shape}  {p.dtype}  {p.layout}  {cache}"
    cores = f", {machine.cores} of {machine.of_cores} cores"
    who = machine.name + cores * (machine.cores > 0)
    if machine.gpu and all(r.device == "gpu" for r in results):
        who = f"{machine.gpu.name}, {machine.gpu.sms} SMs"
    return Columns([Text(what, style="bold"), Text(who)], padding=(0, 4))


def _ceilings(results: Sequence[Result], machine: Machine) -> list[RenderableType]:
    problem = results[0].problem
    taking_part = [r for r in results if not r.skipped] or results
    wanted = dict.fromkeys((r.device, r.unit, r.threads) for r in taking_part)
    units = [u for key in sorted(wanted, key=lambda x: x[2]) if (u := machine.unit(*key))]
    if not units:
        return []
    several = len({u.arithmetic for u in units}) > 1
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="")
    table.add_column("", overflow="fold")
    for u in units:
        head = f"{u.threads} thread{'s' * (u.threads > 1)}" if u.device == "cpu" else ""
        named = several or not head
        table.add_column(f"{u.arithmetic} {head}".strip() if named else head, justify="right")
    table.add_column("")
    lines = {
        "peak": ([u.peak_flops / 1e9 for u in units], "GFLOP/s"),
        "DRAM": ([u.bandwidth / 1e9 for u in units], "GB/s"),
        "ridge": ([ridge(u.peak_flops, u.bandwidth) for u in units], "FLOP/byte"),
    }
    for name, (values, unit) in lines.items():
        table.add_row(name, *(f"{v:.1f}" for v in values), unit)
    costs = [u.timed_t0_s for u in units]
    if any(costs):
        table.add_row("fixed", *(significant(s * 1e6, 2) if s else "-" for s in costs), "us")
    gemm, widest = problem.gemm, units[-1]
    facts = [Text("must move at least")]
    for level in widest.levels:
        least = pebble_bytes(gemm, level.fast_bytes, level.memories)
        why = "compulsory" if least == compulsory_bytes(gemm) else "pebble game"
        facts.append(Text(f"{scaled(least, 'B'):>8} from {level.name} ({why})"))
    facts.append(Text(_intensity(widest, results)))
    return [Columns([table, Group(*facts)], padding=(0, 3))]


def _unknown(results: Sequence[Result], machine: Machine) -> list[Text]:
    """What takes part without a ceiling, and what can be done."""
    lines = []
    for device, unit in dict.fromkeys((r.device, r.unit) for r in results if not r.skipped):
        if any(u.device == device for u in machine.units):
            if not machine.unit(device, unit, 1):
                lines.append(f"No ceiling is known for {unit} on {machine.name}.")
        else:
            lines.append(f"No ceiling is known for the {device.upper()}'s rows: {_REMEDY[device]}.")
    return [Text(line) for line in dict.fromkeys(lines)]


def _intensity(widest: Unit, results: Sequence[Result]) -> str:
    gemm = results[0].problem.gemm
    least = pebble_bytes(gemm, widest.fast_bytes)
    most = intensity(gemm, least)
    bound_by = {r.binds for r in results if r.binds}
    word = "compute-bound" if bound_by == {"compute"} else f"bound by {', '.join(sorted(bound_by))}"
    in_cache = bound_by == {"compute"} and most < ridge(widest.peak_flops, widest.bandwidth)
    return f"intensity {most:.1f}: {'stays in cache' if in_cache else word}"


def _sources(results: Sequence[Result], machine: Machine) -> Text:
    versions = results[0].versions or {}
    names = {"openblas": "OpenBLAS", "mkl": "MKL", "numba": "Numba", "numpy": "NumPy"}
    names |= {"cuda": "CUDA", "triton": "Triton", "torch": "torch"}
    said = ", ".join(f"{name} {versions[key]}" for key, name in names.items() if key in versions)
    return Text(f"Ceilings {machine.note}; {said}" if said else f"Ceilings {machine.note}")


def _rows(results: Sequence[Result]) -> Fitted:
    against = {r.ratio.to for r in results if r.ratio}
    ratio_header = f"x {against.pop()}" if len(against) == 1 else "x best lib"
    headers = ["step", "thr", "time", "+-", "call", "GFLOP/s", "of roof", "", ratio_header, "err"]
    right = [r for r in results if r.timing and not r.reference and not r.impossible]
    best = min(right, key=lambda r: r.timing.median_s if r.timing else 0, default=None)
    rows = []
    for r in results:
        style = "bold green" if r is best else "dim" if r.skipped else ""
        style = style if r.timing or r.skipped else "red"
        rows.append((style, _cells(r)))
    some = {"call": any(r.call for r in results), "thr": any(r.device == "cpu" for r in results)}
    known = [h for h in headers if some.get(h, True)]
    return Fitted(headers, rows, known)


def _cells(r: Result) -> tuple[str, ...]:
    name, threads = r.variant, str(r.threads) if r.device == "cpu" else ""
    if r.timing is None or r.flops is None:
        word = "skipped" if r.skipped else "failed"
        return (name, threads, word if r.skipped or r.verdict else "unknown", *[""] * 7)
    error = (r.verdict and r.verdict.error) or 0.0
    bar = "#" * max(1, round(_BAR * min(1.0, r.of_roof))) if r.of_roof is not None else ""
    return (
        name,
        threads,
        scaled(r.timing.median_s, "s"),
        percent(r.timing.spread) if r.timing.rounds > 1 else "?",
        scaled(r.call.median_s, "s") if r.call else "",
        significant(r.flops / 1e9),
        _of_roof(r),
        "impossible" if r.impossible else bar,
        "-" if r.ratio is None else significant(r.ratio.value, 3 if r.ratio.value >= 0.995 else 2),
        f"{error:.2f}".removeprefix("0"),
    )


def _of_roof(r: Result) -> str:
    """With what binds, unless that is compute."""
    if r.of_roof is None:
        return "-"
    return f"{percent(r.of_roof)} {'' if r.binds == 'compute' else r.binds}".rstrip()


def _notes(results: Sequence[Result]) -> list[Text]:
    notes = []
    for why in dict.fromkeys(r.skipped for r in results if r.skipped):
        names = list(dict.fromkeys(r.variant for r in results if r.skipped == why))
        are = "are" if len(names) > 1 else "is"
        notes.append(Text(f"{', '.join(names)} {are} left out: {why}.", style="dim"))
    for r in results:
        name = row_name(r)
        if r.verdict and not r.verdict.ok:
            notes.append(Text(f"{name} failed: {r.verdict.reason}.", style="red"))
        elif r.verdict and r.verdict.refused and not r.reference:
            notes.append(Text(f"{r.variant} does not take all shapes: {r.verdict.refused}."))
        if r.impossible:
            text = f"{name} is {percent(r.of_roof or 0)} of its ceiling, more than both spreads "
            text += "allow, and not ranked: that ceiling is too low. Measure it again: --remeasure."
            notes.append(Text(text, style="yellow"))
        if r.timing and r.timing.spread > _NOISY:
            text = f"{name} is noisy: {scaled(r.timing.low_s, 's')} to"
            notes.append(Text(f"{text} {scaled(r.timing.high_s, 's')}.", style="yellow"))
        if r.uncaptured:
            text = f"{name} is called, not replayed: no graph could be made of it: {r.uncaptured}."
            notes.append(Text(text, style="yellow"))
        if r.clocks and r.clocks.sm_hz < _SAGGED * r.clocks.most_hz:
            c = r.clocks
            text = f"{name}: the clock was down to {c.sm_hz / 1e6:.0f} of {c.most_hz / 1e6:.0f} MHz"
            notes.append(
                Text(f"{text}, at {c.watts:.0f} W and {c.celsius:.0f} degrees.", style="dim")
            )
    once = list({note.plain: note for note in notes}.values())
    return once + ([Text()] if once else [])


def _overlap(x: Timing, y: Timing) -> str:
    if min(x.rounds, y.rounds) == 1:
        return " (one round tells little)"
    apart = x.high_s < y.low_s or y.high_s < x.low_s
    return "" if apart else " (their intervals overlap)"


def _conclusion(results: Sequence[Result], variants: list[Variant]) -> Text | None:
    """How far the last step is from the one before it, from the libraries and from the roof."""
    steps = [r for r in results if r.timing and not r.reference and not r.impossible]
    if not steps:
        return None
    last = steps[-1]
    after = next((v.after for v in variants if v.name == last.variant), None)
    before = [r for r in steps if r.variant == after]
    assert last.timing
    times, to = [], []
    if before and before[-1].timing:
        gain = before[-1].timing.median_s / last.timing.median_s
        doubt = _overlap(before[-1].timing, last.timing)
        times.append(f"{significant(gain, 2)} times {before[-1].variant}{doubt}")
    if last.ratio and last.ratio.value >= 1:
        same = [r for r in results if r.timing and r.variant == last.ratio.to]
        rival = next((r.timing for r in same if r.threads == last.threads), None)
        doubt = _overlap(rival, last.timing) if rival else ""
        times.append(f"{significant(last.ratio.value, 2)} times {last.ratio.to}{doubt}")
    elif last.ratio:
        to.append(f"{significant(1 / last.ratio.value, 2)} times to {last.ratio.to}")
    if last.of_roof:
        to.append(f"{significant(1 / last.of_roof, 2)} {'' if to else 'times '}to the roof")
    if times:
        said = "; ".join(filter(None, (f"{last.variant} is {' and '.join(times)}", ", ".join(to))))
    else:
        said = f"{last.variant}: {', '.join(to)}"
    return Text(f"{said}.") if times or to else None
