"""A row on a CUDA device: its variant is compiled by Triton and timed by replaying a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from sandbox import measure, replay
from sandbox.machine.cuda import Sensors
from sandbox.problem import Problem
from sandbox.registry import Kernel
from sandbox.result import Verdict
from sandbox.worker import Row, load_or_say


class GpuRow(Row):
    """A variant on the current CUDA device, and the problem that it is being judged on."""

    watched = (
        (torch.cuda, "synchronize"),
        (torch.cuda, "CUDAGraph"),
        *((torch.cuda.Event, name) for name in ("record", "synchronize", "elapsed_time")),
        (replay, "Replay"),
    )

    def _load(self, connection: Connection) -> Kernel:
        torch.cuda.init()
        self._sensors = Sensors()
        kernel = load_or_say(self._v)
        if "triton" in sys.modules:
            _report_compilation(connection)
        return kernel

    def versions(self) -> dict[str, str]:
        """The device, and the libraries that answer."""
        found = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
        found["cuda"] = torch.version.cuda or ""
        if "triton" in sys.modules:
            found["triton"] = sys.modules["triton"].__version__
        return found

    def _refuses(self, problem: Problem) -> str:
        need, (free, _) = problem.held_bytes + problem.judged_bytes, torch.cuda.mem_get_info()
        if need > free:
            return (
                f"needs {need / 1e9:,.1f} GB of the GPU's memory, {free / 1e9:,.1f} GB are free: "
                "choose a smaller size or fewer rows"
            )
        return self._kernel.refuses(problem)

    def _use_threads(self, threads: int) -> None:
        pass

    def _ready(self, cold: bool) -> Verdict:
        """Right when called eagerly, and as a graph that is replayed."""
        self._trial.poison()
        if replay.works_elsewhere(self._call, self._trial.written):
            return Verdict(False, None, "works on another stream than the current one")
        found = self.check()
        if not found.ok:
            return found
        self._replay = replay.Replay(self._call, cold, self._sensors.read)
        self._trial.poison()
        self._replay.once()
        return self.check()

    def burst(self, again: bool) -> measure.Burst:
        """One visit: times on numbers that change before each, and where asked on the same."""
        self._trial.choose(self._rng)
        self._trial.poison()
        return self._replay.burst(self._change, again)

    def check(self) -> Verdict:
        """As on the CPU; what judging took of the device's memory goes back."""
        found = super().check()
        torch.cuda.empty_cache()
        return found


def _report_compilation(connection: Connection) -> None:
    """A hook before Triton compiles a kernel, and one after."""
    from triton import knobs

    def tell(compiling: bool) -> Callable[..., Any]:
        def hook(**_: Any) -> bool:
            connection.send(("compiling", compiling))
            return False  # go on

        return hook

    knobs.runtime.jit_cache_hook = tell(True)
    knobs.runtime.jit_post_compile_hook = tell(False)
