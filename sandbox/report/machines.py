"""The catalogue as a table, and what is known of one machine with its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sandbox.machine import Fact, Machine
from sandbox.report.table import Whole, scaled, significant

_UNITS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")


def listing(machines: Mapping[str, Machine]) -> Group:
    """One line a device: dense peaks in TFLOP/s, DRAM in GB/s; ? marks what is unverified."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("name", no_wrap=True)
    for header in ("", *_UNITS, "DRAM"):
        table.add_column(header, justify="right", no_wrap=True)
    for name, machine in machines.items():
        for device in dict.fromkeys(u.device for u in machine.units):
            units = {u.arithmetic: u for u in machine.units if u.device == device}
            first = next(iter(units.values()))
            peaks = {a: _marked(u.peak_flops / 1e12, u.source.peak) for a, u in units.items()}
            dram = _marked(first.bandwidth / 1e9, first.source.bandwidth)
            cells = (name, device, *(peaks.get(a, "") for a in _UNITS), dram)
            table.add_row(*map(Text, cells))
    note = "Dense peaks in TFLOP/s, DRAM in GB/s; ? is unverified. --machine NAME has the sources."
    return Group(table, Text(), Text(note))


def _marked(value: float, source: str) -> str:
    return significant(value) + "?" * ("unverified" in source)


def sources(facts: Sequence[Fact]) -> Whole:
    """Each figure with who says so, and the doubt about it."""
    table = Whole(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for header in ("known", "value", "from", "doubt"):
        table.add_column(header, overflow="fold")
    for f in facts:
        value = scaled(float(f.value), f.unit) if f.unit else str(f.value)
        table.add_row(*map(Text, (f.name, value, f.source, f.doubt)))
    return table
