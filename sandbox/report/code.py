"""What compilers made, as rich renderables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from sandbox.compiled import Code, missing
from sandbox.problem import Problem
from sandbox.registry import Variant
from sandbox.report.table import Fitted, Trimmed, Whole, percent


def report(problem: Problem, found: Sequence[tuple[Variant, Sequence[Code] | str]]) -> Trimmed:
    """For each device what its kernels take, and their instructions; then what is missing."""
    codes = [code for _, answer in found if not isinstance(answer, str) for code in answer]
    parts: list[RenderableType] = []
    for target in dict.fromkeys(code.target for code in codes):
        ours = [code for code in codes if code.target == target]
        what = f"{problem.shape}  {problem.dtype}  {problem.layout}"
        title = f"{what}   for {target}   {ours[0].compiler}"
        parts += [Text(title, style="bold"), Text(), _taken(ours), Text(), _counts(ours), Text()]
    parts += [note for v, answer in found if (note := _note(v, answer))]
    return Trimmed(Group(*parts))


def _note(v: Variant, answer: Sequence[Code] | str) -> Text | None:
    if isinstance(answer, str):
        return Text(f"{v.name} is left out: {answer}.", style="dim")
    if lacks := missing(v, answer):
        return Text(f"{v.name} lacks what it expects: {', '.join(lacks)}.", style="red")
    return Text(f"{v.name} has what it expects: {', '.join(v.expects)}.") if v.expects else None


def _taken(codes: Sequence[Code]) -> Fitted:
    headers = ["step", "kernel", "vector registers", "spills"]
    if codes[0].warps is not None:
        headers = ["step", "kernel", "regs", "spills"]
        headers += ["shared", "warps", "blocks", "occupancy, limit"]
    rows = []
    for c in codes:
        cells = [c.variant, c.kernel, str(c.registers), f"{c.spills} B"]
        if c.grid and c.occupancy is not None:
            blocks = " x ".join(str(x) for x in c.grid if x > 1) or "1"
            cells += [f"{c.shared_bytes / 1024:.0f} KiB", str(c.warps), blocks]
            cells += [f"{percent(c.occupancy)} {c.limited_by}"]
        rows.append(("", cells))
    return Fitted(headers, rows)


def _counts(codes: Sequence[Code]) -> Whole:
    table = Whole(box=None, padding=(0, 0, 0, 2), pad_edge=False, header_style="bold")
    for header in ("step", "instructions"):
        table.add_column(header, overflow="fold")
    for c in codes:
        counts = ", ".join(f"{count} {name}" for name, count in c.instructions.items())
        table.add_row(Text(c.variant), Text(counts))
    return table
