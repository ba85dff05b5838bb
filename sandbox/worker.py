"""One row in a process of its own: it imports the variant, verifies it, and times it when asked.

Nothing heavy is imported before `main` runs: the server that workers are forked from has numba and
torch already, the parent never has.
"""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import measure
from sandbox.problem import Problem
from sandbox.registry import Kernel, Variant, load
from sandbox.result import Verdict

if TYPE_CHECKING:
    from sandbox.verify import Run


def main(connection: Connection, v: Variant, threads: int, cores: int) -> None:
    """Serve one row. Answers ("done", what), ("raised", one line, traceback); a compiler at work
    says ("compiling", True) and ("compiling", False), and its time is nobody's fault. What cannot
    run here answers ("absent", why)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    os.dup2(2, 1)  # what a variant prints must not mix with a table or JSON
    row = None
    while True:
        try:
            name, *args = connection.recv()
        except EOFError:
            return
        try:
            if row is None:
                row = _kind(v)(connection, v, threads, cores)
            connection.send(("done", getattr(row, name)(*args)))
        except Absent as why:
            connection.send(("absent", str(why)))
        except Exception as error:
            connection.send(("raised", (one_line(error), traceback.format_exc())))


class Absent(Exception):
    """A library that the variant needs is not installed, or refuses to work with the others."""


def _kind(v: Variant) -> type[Row]:
    if v.device == "gpu":
        from sandbox.worker_gpu import GpuRow

        return GpuRow
    return Row


def one_line(error: Exception) -> str:
    """An exception as a row tells it."""
    return " ".join([f"{type(error).__name__}:", *str(error).split()][:40])


class Row:
    """A variant on so many threads, and the problem that it is being judged on."""

    watched: tuple[tuple[Any, str], ...] = ()  # of the judge's ground, what a device adds

    def __init__(self, connection: Connection, v: Variant, threads: int, cores: int) -> None:
        import numpy as np
        import torch

        from sandbox import verify

        np.seterr(all="ignore")  # the numbers that verification tries are meant to be awkward
        self._verify, self._torch = verify, torch
        # Bound before the variant is imported, and looked at again whenever it has run.
        watched = [(time, n) for n in ("perf_counter", "perf_counter_ns", "monotonic", "time")]
        watched += [(torch, "matmul"), (measure, "clock"), (measure, "burst"), (verify, "Trial")]
        watched += self.watched
        self._watched = [(module, name, getattr(module, name)) for module, name in watched]
        self._v, self._threads, self._cores = v, threads, cores
        self._own_threads = v.parallel and not v.reference
        self._kernel: Kernel = self._load(connection)

    def _load(self, connection: Connection) -> Kernel:
        """Import the variant; its compiler reports when it works."""
        if not why_not("numba"):
            use_widest_vectors()
            _report_compilation(connection)
            _use_compile_cache(self._v)
        kernel = load_or_say(self._v)
        self._cache_compiled(kernel.function)
        return kernel

    def versions(self) -> dict[str, str]:
        """The libraries that answer, and which of its kernels OpenBLAS chose."""
        import numpy as np
        from threadpoolctl import threadpool_info

        found = {"numpy": np.__version__, "torch": self._torch.__version__}
        if not why_not("numba"):
            found["numba"] = import_module("numba").__version__
        for library in threadpool_info():
            if library["internal_api"] == "openblas":
                found["openblas"] = f"{library['version']} {library['architecture']}"
        build = self._torch.__config__.show()
        if "Math Kernel Library Version " in build:
            found["mkl"] = build.split("Math Kernel Library Version ")[1].split("-")[0]
        return found

    def verify(self, problem: Problem, cold: bool) -> Verdict | str:
        """The verdict over all cases and over the problem itself; or why it takes no part."""
        v, verify = self._v, self._verify
        if why := self._refuses(problem):
            return why
        accuracy = v.accuracy_for(problem.dtype)
        verdict = Verdict(True)
        if not v.trusted:
            self._use_threads(max(2, self._cores) if self._own_threads else self._threads)
            verdict = verify.judge(
                self._prepare,
                self._refuses,
                problem,
                batched=v.batched,
                accuracy=accuracy,
                parallel=self._own_threads,
                device=v.device,
            )
        if not verdict.ok:
            return verdict
        self._use_threads(self._threads)
        run = self._prepare(problem)
        self._rng = verify.np.random.default_rng()
        self._trial = verify.Trial(verify.Case(problem), v.batched, accuracy, 0, device=v.device)
        self._trial.choose(self._rng)
        self._call: Callable[[], None] = lambda: self._trial.call(run)
        whole = self._ready(cold)
        worst = max(verdict.error or 0.0, whole.error or 0.0)
        return Verdict(True, worst, refused=verdict.refused) if whole.ok else whole

    def _ready(self, cold: bool) -> Verdict:
        """Make ready to be timed; is the problem's own answer right?"""
        self._flush = _flusher() if cold else None
        self._plan, self._asked_again = measure.plan(self._call, self._change, cold), False
        return self.check()

    def burst(self, again: bool) -> measure.Burst:
        """One visit: times on numbers that change before each, and where asked on the same."""
        self._trial.choose(self._rng)
        self._trial.poison()
        if again and not self._plan.warm_s:  # a long call proves it at once
            again, self._asked_again = not self._asked_again, True
        return measure.burst(self._call, self._change, self._flush, self._plan, again)

    def _change(self, new: bool) -> None:
        if new:
            self._value = self._rng.standard_normal()
        self._trial.change(self._value)

    def check(self) -> Verdict:
        """Is what the last call left right, and is the judge's own ground untouched?"""
        for module, name, original in self._watched:
            if getattr(module, name) is not original:
                return Verdict(False, None, f"replaces {module.__name__}.{name}")
        verdict: Verdict = self._trial.verdict()
        return verdict

    def trace(self, what: str, problem: Problem, *args: object) -> Any:
        """What a function of `sandbox.traffic.trace` finds out, or why it cannot, in words."""
        from sandbox.cases import Case
        from sandbox.traffic import trace
        from sandbox.traffic.instrument import Untraceable

        if why := self._refuses(problem):
            return why
        self._use_threads(1)
        case, accuracy = Case(problem), self._v.accuracy_for(problem.dtype)
        trial = self._verify.Trial(case, self._v.batched, accuracy, 0, device=self._v.device)
        try:
            return getattr(trace, what)(trial, self._prepare(problem), *args)
        except Untraceable as reason:
            return str(reason)

    def _prepare(self, problem: Problem) -> Run:
        run = self._kernel.run(problem)
        if self._v.prepare:
            self._cache_compiled(run)
        return run

    def _cache_compiled(self, function: Callable[..., Any]) -> None:
        function = getattr(function, "func", function)  # of a partial
        if self._v.built_in and hasattr(function, "enable_caching"):  # Numba's
            function.enable_caching()

    def _refuses(self, problem: Problem) -> str:
        if self._v.device == "cpu" and problem.dtype not in self._verify.NUMPY_DTYPES:
            return f"NumPy has no {problem.dtype}"
        return self._kernel.refuses(problem)

    def _use_threads(self, threads: int) -> None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads)
        self._torch.set_num_threads(threads)
        if self._own_threads:
            import_module("numba").set_num_threads(threads)


def load_or_say(v: Variant) -> Kernel:
    """Import the variant; raises Absent where that is its compiler's fault, not its own."""
    try:
        return load(v)
    except ImportError:
        source = v.path.read_text(encoding="utf-8")
        for library in ("numba", "triton"):
            if library in source and (why := why_not(library)):
                raise Absent(why) from None
        raise


def why_not(library: str) -> str:
    """Why a library cannot be used here, or nothing."""
    try:
        import_module(library)
    except ImportError as error:
        return f"{library} cannot be imported: {error}"
    return ""


def use_widest_vectors() -> None:
    """LLVM vectorises for 256 bits on processors whose early kin slowed down under 512; the peak
    that rows are measured against is that of the widest vectors."""
    import llvmlite.binding as llvm
    from numba.core import config

    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and config.CPU_FEATURES is None:
        config.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"


def _use_compile_cache(v: Variant) -> None:
    """What Numba keeps is found again as long as no file beside the variant's changes: by itself
    it looks at the variant's file alone, and serves stale code when a helper was edited."""
    from numba.core import config

    from sandbox.machine.here import store

    beside = sorted(v.path.parent.glob("*.py"))
    beside += [p for p in (store().with_name("blocking.json"),) if p.exists()]  # compiled in
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in beside)).hexdigest()
    folder = store().parent / "compiled" / digest[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # no place of our own: nothing is found again
        folder = Path(tempfile.mkdtemp())
    config.CACHE_DIR = str(folder)


def _report_compilation(connection: Connection) -> None:
    from numba.core import event

    class Tell(event.Listener):  # type: ignore[misc]
        depth = 0

        def on_start(self, event: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                connection.send(("compiling", True))

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                connection.send(("compiling", False))

    event.register("numba:compile", Tell())


def _flusher() -> Callable[[], None]:
    """Reads and writes twice the last-level cache."""
    import numpy as np

    from sandbox.machine import detect

    scratch = np.ones(2 * max(detect.caches().values())[1] // 8)
    return lambda: np.add(scratch, 1.0, out=scratch)  # type: ignore[return-value]
