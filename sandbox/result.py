"""Frozen records of what was found out about one row, and their JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from sandbox.problem import Problem
from sandbox.roofline import LevelBound, Parts, parts, work


@dataclass(frozen=True)
class Verdict:
    """Is the answer right? `error` is the worst error over its allowance, None where not finite.

    `refused` is why the variant itself takes no part in some of the cases that were tried.
    """

    ok: bool
    error: float | None = None
    reason: str | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Timing:
    """Seconds a call: the median over the rounds, with a distribution-free 95 % interval."""

    median_s: float
    low_s: float
    high_s: float
    rounds: int

    @property
    def spread(self) -> float:
        """Half the interval over the median."""
        return (self.high_s - self.low_s) / 2 / self.median_s


@dataclass(frozen=True)
class Clocks:
    """What a GPU did while a row was timed: SM clock in Hz and the most it can be, power in W,
    temperature in degrees Celsius."""

    sm_hz: float
    most_hz: float
    watts: float
    celsius: float


@dataclass(frozen=True)
class Counters:
    """What hardware counters saw of one call, in bytes; None where they do not tell.

    DRAM; between L2 and the L1 caches; through L1; through shared memory.
    """

    dram_read_bytes: int | None = None
    dram_write_bytes: int | None = None
    l2_bytes: int | None = None
    l1_bytes: int | None = None
    shared_bytes: int | None = None

    @property
    def dram_bytes(self) -> int | None:
        """Read and written, where both are known."""
        if self.dram_read_bytes is None or self.dram_write_bytes is None:
            return None
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True)
class Traffic:
    """What one call moves at each boundary of a simulated memory hierarchy, in bytes.

    A boundary bears the name of its far side: L1 is what loads and stores carry. `bound_bytes` is
    the least for all storage that is nearer. Both are empty where `reason` says why in words.
    """

    moved_bytes: dict[str, int]
    bound_bytes: dict[str, float]
    reason: str | None = None

    @property
    def over_bound(self) -> dict[str, float]:
        """How many times the least is moved."""
        return {name: moved / self.bound_bytes[name] for name, moved in self.moved_bytes.items()}


@dataclass(frozen=True)
class Point:
    """What a variant moves through one fully associative cache, beside the least; in bytes.

    `granularity` is word or line, `replacement` lru or opt. The bound and the best known schedule
    are those for `near_bytes`: the cache, the register file and the stack frames.
    """

    variant: str
    problem: Problem
    granularity: str
    replacement: str
    cache_bytes: int
    near_bytes: int
    moved_bytes: int
    bound_bytes: float
    best_schedule_bytes: int

    @property
    def over_bound(self) -> float:
        """How many times the least is moved."""
        return self.moved_bytes / self.bound_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        data = asdict(self)
        del data["problem"]["strided"]
        return data


@dataclass(frozen=True)
class Source:
    """Where the two ceilings come from: measured, datasheet or unknown."""

    peak: str
    bandwidth: str


@dataclass(frozen=True)
class Bound:
    """The roof over one row. FLOP/s, FLOP/byte, bytes; `spread` is the ceiling's own doubt.

    `pebble_bytes` is the least that any schedule moves between DRAM and everything nearer; `levels`
    are all boundaries, DRAM first; `t0_s` is the fixed cost in seconds, measured by itself, and
    `launch_s` that of a call as the caller of a kernel on a GPU sees it.
    """

    ceiling_flops: float
    bound_by: str
    intensity: float
    pebble_bytes: float
    compulsory_bytes: int
    source: Source
    spread: float = 0.0
    t0_s: float | None = None
    launch_s: float | None = None
    levels: tuple[LevelBound, ...] = ()


@dataclass(frozen=True)
class Ratio:
    """How fast the row is relative to the fastest correct reference with as many threads."""

    value: float
    to: str


@dataclass(frozen=True)
class Result:
    """One row. Raises ValueError where a variant that is not right is given a time.

    On a GPU `timing` is the kernel's, `call` that of the call as its caller sees it, and
    `uncaptured` says why the kernel's time is not that of a replayed graph.
    """

    variant: str
    device: str
    reference: bool
    unit: str
    problem: Problem
    threads: int
    cache: str
    verdict: Verdict | None = None
    timing: Timing | None = None
    call: Timing | None = None
    clocks: Clocks | None = None
    uncaptured: str | None = None
    counters: Counters | None = None
    traffic: Traffic | None = None
    bound: Bound | None = None
    ratio: Ratio | None = None
    skipped: str | None = None
    traceback: str | None = None
    machine: str = ""
    versions: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.timing and not (self.verdict and self.verdict.ok):
            raise ValueError(f"{self.variant}: only a variant that is right has a time")

    @property
    def flops(self) -> float | None:
        """FLOP/s reached, by the median time."""
        return work(self.problem.gemm) / self.timing.median_s if self.timing else None

    @property
    def of_roof(self) -> float | None:
        """The fraction of the ceiling that was reached."""
        return self.flops / self.bound.ceiling_flops if self.flops and self.bound else None

    @property
    def binds(self) -> str | None:
        """What sets the least time: compute, a level, or `fixed` where T0 is longer than the roof
        max(W / P, Q / B), and the row takes it; None where no ceiling is known."""
        if self.bound is None:
            return None
        roof_s = work(self.problem.gemm) / self.bound.ceiling_flops
        time_s = self.timing.median_s if self.timing else inf
        return "fixed" if roof_s < (self.bound.t0_s or 0.0) <= time_s else self.bound.bound_by

    @property
    def impossible(self) -> bool:
        """Above the ceiling by more than the row's and the ceiling's spread together."""
        if self.timing is None or self.of_roof is None or self.bound is None:
            return False
        return self.of_roof > 1 + self.timing.spread + self.bound.spread

    @property
    def parts(self) -> Parts | None:
        """Where the time goes, None where there is no time, no ceiling or no T0."""
        return self._parts(self.timing, self.bound.t0_s) if self.bound else None

    @property
    def call_parts(self) -> Parts | None:
        """Where the time of the whole call of a kernel on a GPU goes."""
        return self._parts(self.call, self.bound.launch_s) if self.bound else None

    @property
    def moved(self) -> dict[str, float]:
        """Bytes moved at each level, by its name, as far as they are known.

        Counted where counters were read, else simulated. ncu and the simulation start with empty
        caches: of a warm run, what may be held from the call before is taken off. perf sees calls
        that follow one another.
        """
        c = self.counters
        if self.bound is None or not (c or self.traffic):
            return {}
        known: dict[str, int | None] = {}
        if c:
            known = {"DRAM": c.dram_bytes, "L2": c.l2_bytes, "shared": c.shared_bytes}
        elif self.traffic:
            known = {**self.traffic.moved_bytes}
        emptied = self.device == "gpu" or c is None
        held = {x.name: x.held_bytes for x in self.bound.levels if emptied}
        return {x: max(0, q - held.get(x, 0)) for x, q in known.items() if q is not None}

    def _parts(self, timing: Timing | None, t0_s: float | None) -> Parts | None:
        if timing is None or self.bound is None or t0_s is None:
            return None
        rates = {x.name: x.bandwidth for x in self.bound.levels}
        moved = [(q, rate) for name, q in self.moved.items() if (rate := rates.get(name))]
        return parts(
            self.problem.gemm, timing.median_s, t0_s, self.bound.ceiling_flops, moved or None
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data: dicts, lists, strings, numbers and None."""
        data = asdict(self)
        del data["problem"]["strided"]
        levels = data["bound"].pop("levels") if self.bound else ()
        bound_by = self.bound.bound_by if self.bound else None
        data["levels"] = [
            x | {"moved_bytes": self.moved.get(x["name"]), "binds": x["name"] == bound_by}
            for x in levels
        ]
        data["parts"] = asdict(self.parts) if self.parts else None
        data["call_parts"] = asdict(self.call_parts) if self.call_parts else None
        if self.traffic:
            data["traffic"]["over_bound"] = self.traffic.over_bound
        data["gflops"] = self.flops / 1e9 if self.flops else None
        data["of_roof"] = self.of_roof
        data["binds"] = self.binds
        data["impossible"] = self.impossible
        return data
