"""Time on a CUDA device: the kernel's own by replaying a graph, the call's by calling eagerly."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch

from sandbox.measure import BURST_S, Burst, Plan, clock
from sandbox.result import Clocks

# Bound before any variant is imported.
_Event, _Graph, _capture = torch.cuda.Event, torch.cuda.CUDAGraph, torch.cuda.graph
_synchronize = torch.cuda.synchronize
_WARM_S = 0.01  # until the clocks have risen
_REPLAY_S = 2e-4  # one replay is this long: hundreds of times what an event costs
_EAGER_S = 2e-3
_MOST = 100  # calls in a graph
_AGAIN = 5  # calls on numbers that did not change
_FEW = 3
_HELD_CYCLES, _LOOK_S = 40_000_000, 5e-3  # the current stream is held for about 20 ms


def works_elsewhere(call: Callable[[], None], written: Callable[[], bool]) -> bool:
    """Does the call write while the current stream is held? Then it works on another one, where
    nobody who times the current stream sees it."""
    _synchronize()
    torch.cuda._sleep(_HELD_CYCLES)
    released = _Event()
    released.record()
    call()
    start = clock()
    while clock() - start < _LOOK_S:
        pass
    with torch.cuda.stream(torch.cuda.Stream()):
        found = written() and not released.query()
    _synchronize()
    return found


class Replay:
    """A call on the current stream, made ready to be timed.

    Where no graph can be made of it, `uncaptured` says why, and it is called eagerly between two
    events.
    """

    def __init__(
        self, call: Callable[[], None], cold: bool, sensors: Callable[[], Clocks | None]
    ) -> None:
        self._call, self._sensors = call, sensors
        self.uncaptured: str | None = None
        self._cold, cache = cold, torch.cuda.get_device_properties().L2_cache_size
        self._scratch = torch.ones(2 * cache // 4 if cold else 0, device="cuda")
        self._replay = self._captured(1)
        seconds = min(self._kernel() for _ in range(_FEW))
        calls = 1 if cold else min(_MOST, max(1, math.ceil(_REPLAY_S / seconds)))
        if calls > 1:
            self._replay = self._captured(calls)
        samples = max(1, round(BURST_S / (2 * calls * seconds)))
        self.plan = Plan(min(samples, 50), calls, _WARM_S)

    def _captured(self, calls: int) -> Callable[[], None]:
        def several() -> None:
            for _ in range(calls):
                self._call()

        if self.uncaptured:
            return several
        _synchronize()
        graph = _Graph()
        try:
            with _capture(graph):
                several()
        except RuntimeError as error:
            if "unjoined work" in str(error):  # a stream was forked and never joined
                raise
            _synchronize()
            self.uncaptured = str(error).split("\n")[0]
            return several
        replay: Callable[[], None] = graph.replay
        return replay

    def once(self) -> None:
        """What is timed, to be looked at: has the graph all of the kernel?"""
        self._replay()

    def _kernel(self) -> float:
        """Seconds of one replay by the device's clock. What runs before hides the launch."""
        before, after = _Event(enable_timing=True), _Event(enable_timing=True)
        if self._cold:
            self._flush()
        else:
            self._replay()
        before.record()
        self._replay()
        after.record()
        _synchronize()
        return float(before.elapsed_time(after)) / 1e3

    def _flush(self) -> None:
        """Twice the L2 cache, often enough that the launches after it are hidden."""
        for _ in range(_FEW):
            self._scratch.mul_(1)

    def _eager(self, calls: int) -> float:
        """Seconds of one call as its caller sees them, one after the other."""
        if self._cold:
            self._flush()
        _synchronize()
        start = clock()
        for _ in range(calls):
            self._call()
        _synchronize()
        return (clock() - start) / calls

    def burst(self, change: Callable[[bool], None], again: bool) -> Burst:
        """As measure.burst, on the device. `host_s` is a call's share of many replays by the
        host's clock."""
        begin, calls = clock(), self.plan.repeats
        replays = 0
        _synchronize()
        warm = clock()
        while clock() - warm < self.plan.warm_s:
            self._replay()
            replays += 1
            if replays % 8 == 0:
                _synchronize()
        _synchronize()
        host_s = (clock() - warm) / (replays * calls)
        samples = []
        for _ in range(self.plan.samples):
            change(True)
            samples.append(self._kernel() / calls)
        clocks = self._sensors()
        kernel_s = statistics.median(samples)
        change(True)
        in_a_row, often = min(_MOST, math.ceil(_EAGER_S / kernel_s)), 1
        if self._cold:
            in_a_row, often = 1, _AGAIN
        eager_s = statistics.median(self._eager(in_a_row) for _ in range(often))
        fresh_s, again_s = math.inf, None
        if again:
            fresh, repeated = [], []
            for _ in range(_AGAIN):
                change(True)
                fresh.append(self._eager(1))
                change(False)
                repeated.append(self._eager(1))
            fresh_s, again_s = min(fresh), min(repeated)
        total_s = clock() - begin
        return Burst(kernel_s, fresh_s, again_s, total_s, eager_s, host_s, clocks, self.uncaptured)
