"""What a worker is asked for: the traffic of one call that is traced. For workers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from sandbox.traffic import WRONG
from sandbox.traffic.caches import Hierarchy
from sandbox.traffic.distances import Distances
from sandbox.traffic.instrument import Untraceable
from sandbox.traffic.levels import LINE_BYTES, Cache
from sandbox.traffic.optimal import Accesses
from sandbox.traffic.stream import Stream
from sandbox.traffic.twin import Tracer
from sandbox.verify import Run, Trial

_ELSEWHERE = "code that Numba did not compile reads a or b, or writes out"
Consumer = Callable[[np.ndarray, int], None]


def through(trial: Trial, run: Run, caches: Sequence[Cache]) -> tuple[int, list[int]]:
    """Bytes nearer than any cache, and those moved: by loads and stores, then behind each cache.

    Raises Untraceable.
    """
    hierarchy = Hierarchy(caches)
    near_bytes, stream = _traced(trial, run, [hierarchy])
    return near_bytes, [stream.accessed_bytes, *hierarchy.moved_bytes()]


def curves(
    trial: Trial, run: Run, word_bytes: int, cache_bytes: Sequence[int], optimal: int
) -> tuple[int, dict[tuple[str, str], list[int]]]:
    """Bytes nearer than any cache, and those moved at each size, by granularity and replacement.

    Optimal replacement for the first `optimal` sizes. Raises Untraceable.
    """
    units = {"word": word_bytes, "line": LINE_BYTES}
    lru = {name: Distances(cache_bytes, size, name == "word") for name, size in units.items()}
    opt = {name: Accesses(size, name == "word") for name, size in units.items() if optimal}
    near_bytes, stream = _traced(trial, run, [*lru.values(), *opt.values()])
    if not all(lru["word"].accessed(stream.addresses(x)) for x in trial.arrays):
        raise Untraceable(_ELSEWHERE)
    found = {(name, "lru"): x.moved_bytes() for name, x in lru.items()}
    found |= {(name, "opt"): x.moved_bytes(cache_bytes[:optimal]) for name, x in opt.items()}
    return near_bytes, found


def _traced(trial: Trial, run: Run, consumers: Sequence[Consumer]) -> tuple[int, Stream]:
    """Run it as it is, then its twin: the answer has to be right, and the same to the last bit."""
    a, b, out = trial.arrays
    trial.poison()
    trial.call(run)
    expected = out.tobytes()
    stream = Stream(consumers)
    trial.poison()
    near_bytes = _tracer().run(lambda: trial.call(run), stream)
    verdict = trial.verdict()
    if not verdict.ok:
        raise Untraceable(f"{WRONG}: {verdict.reason}")
    if out.tobytes() != expected:
        raise Untraceable("its twin gives another answer")
    if any((stream.addresses(x) < 0).any() for x in (a, b, out)):
        raise Untraceable(_ELSEWHERE)
    return near_bytes, stream


@cache
def _tracer() -> Tracer:
    return Tracer()
