"""What each row moves through simulated caches, beside the least that has to be moved."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sandbox.report.curves import size_name
from sandbox.report.table import Trimmed, scaled, significant
from sandbox.result import Result
from sandbox.traffic.levels import Cache


def traffic(results: Sequence[Result], caches: Sequence[Cache]) -> Trimmed:
    """A line for each variant: bytes at each boundary, and how many times the least they are."""
    known = {r.variant: r.traffic for r in results if r.traffic}
    names = ["L1", *(c.name for c in caches[1:]), "DRAM"]
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    table.add_column("moved", overflow="fold")
    for header in (h for name in names for h in (f"from {name}", "x")):
        table.add_column(header, justify="right", no_wrap=True)
    notes = []
    for variant, found in known.items():
        if found.reason:
            notes.append(Text(f"{variant} is not traced: {found.reason}.", style="dim"))
            continue
        pairs = ((found.moved_bytes[x], found.over_bound[x]) for x in names)
        cells = [text for q, x in pairs for text in (scaled(q, "B"), significant(x, 2))]
        table.add_row(*map(Text, (variant, *cells)))
    sizes = ", ".join(f"{c.name} {size_name(c.bytes)} {c.ways}-way" for c in caches)
    about = f"One call on one thread, simulated with {sizes}; x: over the pebble-game bound."
    return Trimmed(Group(Text(), table, Text(), Text(about), *notes))
