"""The traffic of a Triton variant on a GPU that need not be there: between L2 and DRAM, and
between the SMs and L2. In a child process of its own, since kernels are declared for the
interpreter there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sandbox.machine import Gpu, Machine
from sandbox.problem import Problem
from sandbox.registry import Variant, load

_SECTOR_BYTES = 32
Traced = tuple[int, Any]


@dataclass(frozen=True)
class Chip:
    """A GPU's SMs, bytes of registers and of L1 and shared memory of one, bytes of L2."""

    sms: int
    near_bytes: int
    l2_bytes: int

    @classmethod
    def of(cls, machine: Machine) -> Chip | None:
        """The machine's; None where it has no GPU."""
        unit = next((u for u in machine.units if u.device == "gpu"), None)
        if unit is None:
            return None
        l2 = next(x for x in unit.levels if x.name == "L2")
        return cls(l2.memories, l2.fast_bytes, unit.article_bytes)

    @classmethod
    def of_gpu(cls, gpu: Gpu | None) -> Chip | None:
        """Of a device that was detected."""
        return cls(gpu.sms, gpu.l1_bytes + gpu.register_bytes, gpu.l2_bytes) if gpu else None

    def scaled(self, factor: int) -> Chip:
        """A smaller one, for a problem whose sides are so many times shorter: then the programs
        that run at once make the same part of all, and L2 holds the same part of the matrices."""
        sms = max(1, round(self.sms / factor**2))
        return Chip(sms, self.near_bytes, self.l2_bytes // factor**2)


def curves(
    v: Variant,
    problem: Problem,
    chip: Chip,
    per_sm: dict[str, int],
    limit_s: float,
    word_bytes: int,
    cache_bytes: Sequence[int],
) -> Traced | str:
    """What L2 caches of these sizes move: bytes of all SMs' own memory, and those moved by
    granularity under LRU; or in words why that is not known."""
    from sandbox.traffic.distances import Distances
    from sandbox.traffic.levels import LINE_BYTES

    units = {"word": word_bytes, "line": LINE_BYTES}
    lru = {name: Distances(cache_bytes, size, name == "word") for name, size in units.items()}
    found = _streamed(v, problem, chip, per_sm, limit_s, [*lru.values()])
    if isinstance(found, str):
        return found
    moved = {(name, "lru"): x.moved_bytes() for name, x in lru.items()}
    return chip.sms * chip.near_bytes, moved


def through(
    v: Variant, problem: Problem, chip: Chip, per_sm: dict[str, int], limit_s: float
) -> Traced | str:
    """Bytes of all SMs' own memory, and those moved between them and L2, and behind L2.

    L2 is taken for fully associative, in sectors: one that is stored whole is not fetched first.
    """
    from sandbox.traffic.distances import Distances

    l2 = Distances([chip.l2_bytes], _SECTOR_BYTES, word=True)
    asked = _streamed(v, problem, chip, per_sm, limit_s, [l2])
    if isinstance(asked, str):
        return asked
    return chip.sms * chip.near_bytes, [asked, *l2.moved_bytes()]


def _streamed(
    v: Variant,
    problem: Problem,
    chip: Chip,
    per_sm: dict[str, int],
    limit_s: float,
    consumers: Sequence[Callable[..., None]],
) -> int | str:
    """Bytes that L2 was asked for; the consumers saw the accesses in the order of a GPU."""
    from sandbox import verify
    from sandbox.cases import Case
    from sandbox.traffic.interpreted import Interpreted, TooLong
    from sandbox.traffic.stream import Stream

    if "experimental import gluon" in v.path.read_text(encoding="utf-8"):
        return "Gluon's kernels are not interpreted: --counters tells on a GPU"
    stream = Stream(consumers)
    traced = Interpreted(stream, lambda name: chip.sms * per_sm.get(name, 1), limit_s)
    kernel = load(v)
    vars(import_module("sandbox.gpu._operands"))["SIMULATED"] = chip.sms
    verify.WHERE["gpu"] = "cpu"
    if why := kernel.refuses(problem):
        return why
    run = kernel.run(problem)
    trial = verify.Trial(Case(problem), v.batched, v.accuracy_for(problem.dtype), 0, device="gpu")
    try:
        traced.run(lambda: trial.call(run))
    except TooLong as why:
        return f"{why}: choose a smaller size, or give --yes"
    return stream.accessed_bytes
