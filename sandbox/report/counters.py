"""What hardware counters saw, beside the least that has to be moved."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from sandbox.report.table import Trimmed, row_name, scaled, significant
from sandbox.result import Counters, Result

_HEADERS = ("counted", "DRAM read", "DRAM write", "L2", "L1", "shared", "x bound")


def counters(results: Sequence[Result]) -> Trimmed:
    """A row for each result: bytes of one call at each boundary, DRAM's over the pebble bound.

    What a cache still holds of C when the call ends is written later: C counts as written.
    """
    table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    for header in _HEADERS:
        table.add_column(header, justify="left" if header == "counted" else "right")
    for r in results:
        if r.counters:
            table.add_row(*map(Text, _cells(r, r.counters)))
    return Trimmed(table)


def _cells(r: Result, c: Counters) -> list[str]:
    fields = (c.dram_read_bytes, c.dram_write_bytes, c.l2_bytes, c.l1_bytes, c.shared_bytes)
    cells = [row_name(r), *("-" if x is None else scaled(x, "B") for x in fields)]
    if r.bound is None or c.dram_read_bytes is None or c.dram_write_bytes is None:
        return [*cells, "-"]
    g = r.problem.gemm
    written = max(c.dram_write_bytes, g.batch * g.m * g.n * g.out_bytes)
    return [*cells, significant((c.dram_read_bytes + written) / r.bound.pebble_bytes, 2)]
