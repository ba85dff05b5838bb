"""Child processes, forked from a clean server: numba and torch imported, no thread pool yet."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

import psutil

from sandbox import measure, worker
from sandbox.registry import Variant

# The sandbox sets each row's threads itself; these would pin or limit them from outside.
_SET_BY_ROW = (
    *(f"{p}_NUM_THREADS" for p in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB", "NUMEXPR")),
    "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_THREAD_LIMIT",
)  # fmt: skip
SPARE_BYTES = 1 << 30  # what a worker may take beyond what its problem needs
_POLL_S = 0.05
_COMPILE_S = 300.0  # a compiler that works this long on one row has hung
# What the command imports is here too: a child imports the parent's main module again.
_PRELOAD = ["numba", "torch", "threadpoolctl", "sandbox.verify", "sandbox.runner"]
_PRELOAD += ["sandbox.report.table", "sandbox.report.files"]


@cache
def context(cores: int) -> BaseContext:
    """Start the server, whatever thread settings the caller's environment holds."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_PRELOAD)
    # A race needs two threads to show, whatever the number of cores. OpenBLAS starts its threads
    # when it is loaded: one is none. A worker that is killed leaves semaphores to the tracker,
    # which removes them; that is no news.
    ours = {
        "NUMBA_NUM_THREADS": str(max(2, cores)),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning,ignore::RuntimeWarning:runpy",
    }
    kept = {name: os.environ.pop(name) for name in (*_SET_BY_ROW, *ours) if name in os.environ}
    os.environ |= ours
    try:
        resource_tracker.ensure_running()  # to start it lets interrupts in again
        with _uninterrupted():
            forkserver.ensure_running()
    finally:
        for name in ours:
            del os.environ[name]
        os.environ |= kept
    return found


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """What starts here sees no interrupt of the whole group, and is not left half started."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def in_child(context: BaseContext, function: Callable[..., Any], *args: object) -> Any:
    """What `function` returns in a process of its own; raises Lost where that raises or dies."""
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(there,), daemon=True)  # type: ignore[attr-defined]
    with _uninterrupted():
        process.start()
    there.close()
    try:
        here.send((function, args))
        kind, answer = here.recv()
    except EOFError:
        process.join()
        raise Lost(f"{_ending(process.exitcode)} during {function.__name__}") from None
    finally:
        process.kill()
    if kind == "raised":
        raise Lost(*answer)
    return answer


def _answer(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    try:
        function, args = connection.recv()
    except EOFError:  # the parent was interrupted while it started this
        return
    try:
        connection.send(("done", function(*args)))
    except Exception as error:
        connection.send(("raised", (worker.one_line(error), traceback.format_exc())))


class Lost(RuntimeError):
    """A child that goes no further: one line, and the traceback where there is one."""

    def __init__(self, reason: str, traceback: str | None = None) -> None:
        super().__init__(reason)
        self.traceback = traceback


class Worker:
    """The parent's side of one worker."""

    def __init__(self, context: BaseContext, v: Variant, threads: int, cores: int) -> None:
        self._connection, there = context.Pipe()
        self._process = context.Process(  # type: ignore[attr-defined]
            target=worker.main, args=(there, v, threads, cores), daemon=True
        )
        with _uninterrupted():
            self._process.start()
        there.close()
        self._seen = psutil.Process(self._process.pid)
        self.limit_bytes = 2 * SPARE_BYTES

    @property
    def resident_bytes(self) -> int:
        """What the worker holds in memory now; 0 where it is gone."""
        try:
            return int(self._seen.memory_info().rss)
        except psutil.Error:
            return 0

    def ask(self, stage: str, timeout: float, *message: object) -> Any:
        """The answer to a message. Raises Lost where the worker dies, hangs, raises or swells,
        Absent where a library that its variant needs is not there."""
        left, compiler_left, compiling = timeout, _COMPILE_S, False
        before = measure.clock()
        try:
            self._connection.send(message)
            while True:
                if self.resident_bytes > self.limit_bytes:
                    limit = self.limit_bytes / 2**30
                    raise Lost(f"took more than {limit:.1f} GiB of memory during {stage}")
                if self._connection.poll(_POLL_S):
                    kind, answer = self._connection.recv()
                    if kind == "done":
                        return answer
                    if kind == "absent":
                        raise worker.Absent(answer)
                    if kind == "raised":
                        raise Lost(f"{answer[0]} (during {stage})", answer[1])
                    compiling = answer
                now = measure.clock()
                if compiling:
                    compiler_left -= now - before
                else:
                    left -= now - before
                before = now
                if left < 0:
                    raise Lost(f"no end of {stage} within {timeout:g} s (--timeout gives it more)")
                if compiler_left < 0:
                    raise Lost(f"still compiling after {_COMPILE_S:g} s")
        except (EOFError, OSError):
            self._process.join(2)
            raise Lost(f"{_ending(self._process.exitcode)} during {stage}") from None

    def end(self) -> None:
        """Kill it, whatever it is doing."""
        self._process.kill()
        self._connection.close()


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exited with code {code}"
    return f"killed by {signal.Signals(-code).name}"
