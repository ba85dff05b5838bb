"""What the hardware can do: the ceilings of this machine, measured, or of one in the catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil

from sandbox.result import Source
from sandbox.roofline import Level


@dataclass(frozen=True)
class Unit:
    """An arithmetic unit on so many threads (1 on a GPU), and the memories that feed it.

    `peak_flops` in FLOP/s; `spread` is its doubt as a fraction of it, `clock_hz` the clock that was
    held while it was measured (None: unknown). `levels` are the boundaries
    of the hierarchy from the farthest: DRAM, L3, L2, L1 on a CPU; DRAM, L2, shared on a GPU.
    `fixed_cost_s` are the seconds of a call that does nothing, by mode: `call` on one thread; the
    threading layer of fork and join on several (`omp`, `tbb`, `workqueue`), Numba's choice first;
    `launch`, `event`, `graph` on a GPU; none where unknown. `fixed_cost_spread` is by how much
    their median exceeds them, as a fraction of them. `article_bytes` is the last-level cache alone,
    which the article takes for the fast memory.
    """

    name: str
    device: str
    arithmetic: str
    threads: int
    peak_flops: float
    levels: tuple[Level, ...]
    fixed_cost_s: dict[str, float]
    article_bytes: int
    source: Source
    spread: float = 0.0
    clock_hz: float | None = None
    fixed_cost_spread: dict[str, float] = field(default_factory=dict)

    @property
    def bandwidth(self) -> float:
        """Bytes/s from DRAM: the one level that is always known."""
        assert self.levels[0].bandwidth
        return self.levels[0].bandwidth

    @property
    def fast_bytes(self) -> int:
        """All storage on the chip."""
        return self.levels[0].fast_bytes

    @property
    def t0_s(self) -> float | None:
        """Seconds of a call that does nothing, in the mode that calls are made in."""
        return next(iter(self.fixed_cost_s.values()), None)

    @property
    def timed_t0_s(self) -> float | None:
        """The same in the mode that is timed: a kernel on a GPU is replayed in a graph."""
        return self.fixed_cost_s.get("graph", self.t0_s)

    def narrowed(self, threads: int) -> Unit:
        """Its share of the peak and of the private memories' bandwidth for fewer threads."""
        share = min(1.0, threads / self.threads)

        def shared(level: Level) -> Level:
            if level.memories == 1:
                return level
            bandwidth = level.bandwidth and level.bandwidth * share
            return replace(level, memories=ceil(level.memories * share), bandwidth=bandwidth)

        levels = tuple(shared(level) for level in self.levels)
        return replace(self, threads=threads, peak_flops=self.peak_flops * share, levels=levels)


@dataclass(frozen=True)
class Gpu:
    """A CUDA device as it describes itself; None is unknown.

    Of each SM: `shared_bytes` that programs can take of its `l1_bytes`, and `register_bytes`.
    `mig` tells whether it is one instance of a partitioned device.
    """

    uuid: str
    name: str
    capability: str
    sms: int
    l2_bytes: int
    shared_bytes: int
    l1_bytes: int
    register_bytes: int
    memory_bytes: int
    max_clock_hz: float | None = None
    power_limit_w: float | None = None
    mig: bool | None = None


@dataclass(frozen=True)
class Fact:
    """One thing that is known of a machine, who says so, and what is doubtful about it."""

    name: str
    value: str | float
    source: str
    doubt: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Machine:
    """A machine's name, the cores that can be used of those it has, and its ceilings."""

    name: str
    cores: int
    of_cores: int
    units: tuple[Unit, ...]
    note: str
    gpu: Gpu | None = None
    facts: tuple[Fact, ...] = ()

    def unit(self, device: str, arithmetic: str, threads: int) -> Unit | None:
        """The ceiling that applies; where only all threads are known, their share of the peak."""
        known = [u for u in self.units if (u.device, u.arithmetic) == (device, arithmetic)]
        exact = next((u for u in known if u.threads == threads), None)
        if exact or not known:
            return exact
        return max(known, key=lambda u: u.threads).narrowed(threads)
