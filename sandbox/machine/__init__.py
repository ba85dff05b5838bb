"""What the hardware can do: the ceilings of this machine, measured, or of one in the catalogue."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sandbox.result import Source
from sandbox.roofline import Level


@dataclass(frozen=True)
class Unit:
    """An arithmetic unit on so many threads (1 on a GPU), and the memory that feeds it.

    `peak_flops` in FLOP/s, `bandwidth` in bytes/s from DRAM, `t0_s` the fixed cost of a call,
    `spread` the doubt of the peak as a fraction of it. `article_bytes` is the last-level cache
    alone, which the article takes for the fast memory; `levels` count all storage nearer than a
    boundary, DRAM first.
    """

    name: str
    device: str
    arithmetic: str
    threads: int
    peak_flops: float
    bandwidth: float
    t0_s: float
    article_bytes: int
    levels: tuple[Level, ...]
    source: Source
    spread: float = 0.0

    @property
    def fast_bytes(self) -> int:
        """All storage on the chip."""
        return self.levels[0].fast_bytes


@dataclass(frozen=True)
class Machine:
    """A machine's name, the cores that can be used of those it has, and its ceilings."""

    name: str
    cores: int
    of_cores: int
    units: tuple[Unit, ...]
    note: str

    def unit(self, device: str, arithmetic: str, threads: int) -> Unit | None:
        """The ceiling that applies; where only all threads are known, their share of the peak."""
        known = [u for u in self.units if (u.device, u.arithmetic) == (device, arithmetic)]
        exact = next((u for u in known if u.threads == threads), None)
        if exact or not known:
            return exact
        widest = max(known, key=lambda u: u.threads)
        share = min(1.0, threads / widest.threads)
        return replace(widest, threads=threads, peak_flops=widest.peak_flops * share)
