"""The access stream of Triton kernels on a GPU that need not be there.

Triton's interpreter runs one program after the other. Their loads and stores are recorded, and then
put in the order of a GPU: as many programs as are resident advance in turn, one load or store each,
and where one ends the next in launch order takes its place. What comes out is what the L2 cache is
asked for. L1 is left out: tiles go to shared memory past it, or are used once. Tiles are not
multiplied: where a kernel loads and stores does not hang on that.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sandbox.traffic.instrument import ADDRESS_BITS

_LOAD, _STORE = np.int64(0), np.int64(-1 << 63)
_LONGEST = 1 << 12  # bytes a record; it has 15 bits for them
_BATCH = 1 << 16  # records


class TooLong(Exception):
    """A trace that would take so many seconds, by what its first programs took."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the trace would take about {seconds:.0f} s")
        self.seconds = seconds


class Interpreted:
    """Runs Triton kernels under the interpreter and gives `consume` what they ask of L2.

    Records are 64 bits: the address, the size in bytes above bit 48, bit 63 for a store. `resident`
    tells, by a kernel's name, how many of its programs are on the GPU at a time; TooLong is raised
    early in a launch that would take more than `limit_s`. Make it before the variant's file is
    imported.
    """

    def __init__(
        self,
        consume: Callable[[np.ndarray], None],
        resident: Callable[[str], int],
        limit_s: float,
    ) -> None:
        os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is declared
        from triton.runtime import interpreter

        self._interpreter: Any = interpreter
        self._consume, self._resident, self._limit_s = consume, resident, limit_s
        self._programs: dict[int, list[np.ndarray]] = {}  # by number in launch order: their steps
        self._second_started = 0.0

    def run(self, call: Callable[[], None]) -> None:
        """Make the call with all accesses of its kernels recorded, launch after launch."""
        try:
            with self._recorded():
                call()
        except self._interpreter.InterpreterError as error:
            if isinstance(error.__cause__, TooLong):
                raise error.__cause__ from None
            raise

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """While loads, stores and launches of the interpreter are ours."""
        builder, executor = self._interpreter.InterpreterBuilder, self._interpreter.GridExecutor
        changes = [
            (builder, "create_masked_load", self._load),
            (builder, "create_masked_store", self._store),
            (builder, "create_atomic_rmw", self._atomic),
            (builder, "create_dot", lambda original: lambda builder, a, b, total, *rest: total),
            (executor, "__call__", self._launch),
        ]
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
        for (owner, name, change), (_, _, original) in zip(changes, originals, strict=True):
            setattr(owner, name, change(original))
        try:
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def _load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(builder: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
            self._record(builder, ptrs, mask, _LOAD)
            return original(builder, ptrs, mask, *rest, **named)

        return load

    def _store(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def store(builder: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
            self._record(builder, ptrs, mask, _STORE)
            return original(builder, ptrs, value, mask, *rest, **named)

        return store

    def _atomic(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def atomic(
            builder: Any, operation: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any
        ) -> Any:
            self._record(builder, ptrs, mask, _LOAD)
            self._record(builder, ptrs, mask, _STORE)
            return original(builder, operation, ptrs, value, mask, *rest, **named)

        return atomic

    def _launch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def launch(executor: Any, *args: Any, **kwargs: Any) -> None:
            original(executor, *args, **kwargs)
            self._interleave(self._resident(executor.fn.__name__))

        return launch

    def _record(self, builder: Any, ptrs: Any, mask: Any, kind: np.int64) -> None:
        (x, y, z), (nx, ny, nz) = builder.grid_idx, builder.grid_dim
        program = x + nx * (y + ny * z)
        if program not in self._programs:
            self._estimate(nx * ny * nz)
        itemsize = ptrs.get_element_ty().primitive_bitwidth // 8
        on = np.broadcast_to(mask.data, ptrs.data.shape)
        found = pieces(ptrs.data[on].astype(np.int64), itemsize)
        self._programs.setdefault(program, []).append(found | kind)

    def _estimate(self, programs: int) -> None:
        """When the third program begins, the second tells how long all will take; the first had
        to wait for the interpreter itself."""
        if len(self._programs) == 1:
            self._second_started = time.perf_counter()
        if len(self._programs) == 2:
            seconds = (time.perf_counter() - self._second_started) * programs
            if seconds > self._limit_s:
                raise TooLong(seconds)

    def _interleave(self, resident: int) -> None:
        waiting = deque(iter(steps) for _, steps in sorted(self._programs.items()))
        running = deque(waiting.popleft() for _ in range(min(resident, len(waiting))))
        batch: list[np.ndarray] = []
        gathered = 0
        while running:
            steps = running.popleft()
            step = next(steps, None)
            if step is None:
                if waiting:
                    running.append(waiting.popleft())
                continue
            running.append(steps)
            batch.append(step)
            gathered += step.size
            if gathered > _BATCH:
                self._consume(np.concatenate(batch))
                batch, gathered = [], 0
        if batch:
            self._consume(np.concatenate(batch))
        self._programs = {}


def pieces(addresses: np.ndarray, itemsize: int) -> np.ndarray:
    """Records, as int64, of elements at these addresses: one for each contiguous run."""
    if not addresses.size:
        return np.empty(0, np.int64)
    flat = addresses.ravel()
    if np.count_nonzero(np.diff(flat) != itemsize) > flat.size // 4:
        flat = np.unique(flat)  # in whatever order threads hold the elements, each is fetched once
    breaks = np.flatnonzero((np.diff(flat) != itemsize) | (flat[1:] % _LONGEST == 0)) + 1
    starts = np.concatenate([[0], breaks])
    sizes = np.diff(np.concatenate([starts, [flat.size]])) * itemsize
    records: np.ndarray = flat[starts] | sizes << ADDRESS_BITS
    return records
