"""A GPU that is not there: Triton compiles for it, and what is launched on it is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from sandbox.compiled.occupancy import Architecture
from sandbox.problem import Problem

_DEVICE = torch.device("cuda", 0)


@dataclass(frozen=True)
class Launch:
    """One kernel as it would have been launched: its name, its cubin, and Triton's metadata."""

    kernel: str
    cubin: bytes
    metadata: Any
    grid: tuple[int, int, int]


class _Driver:
    """What Triton's runtime asks of a driver, answered for a GPU of some compute capability."""

    def __init__(self, capability: int, properties: SimpleNamespace) -> None:
        self.launches: list[Launch] = []
        self._target = GPUTarget("cuda", capability, 32)
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {
                "max_shared_mem": properties.shared_memory_per_block_optin,
                "multiprocessor_count": properties.multi_processor_count,
                "max_num_regs": 65536,
                "warpSize": 32,
            },
            load_binary=lambda name, cubin, shared, device: (name, (name, cubin), 0, 0, 1024),
        )

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        def launch(x: int, y: int, z: int, stream: int, kernel: Any, *_: object) -> None:
            self.launches.append(Launch(kernel[0], kernel[1], metadata, (x, y, z)))

        return launch

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return _DEVICE

    def get_benchmarker(self) -> Any:
        """An autotuner's candidates are all compiled; none is faster than another."""
        return lambda call, quantiles, **_: (call(), [1.0] * len(quantiles))[1]


class _OnDevice(TorchFunctionMode):  # type: ignore[misc]
    """Tensors without memory ("meta") that say that they lie on the GPU, aligned."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == torch.Tensor.device.__get__:
            return _DEVICE
        if func == torch.Tensor.is_cuda.__get__:
            return True
        return func(*args, **kwargs | ({"device": "meta"} if "device" in kwargs else {}))


def operands(problem: Problem, batched: bool) -> Iterator[tuple[torch.Tensor, ...]]:
    """a, b and out of each call that the problem takes; on the GPU while `gpu` is entered."""
    p, dtype = problem, problem.dtype.replace("e4m3", "e4m3fn")

    def empty(rows: int, cols: int, layout: str, dtype: str) -> torch.Tensor:
        order = (rows, cols) if layout == "n" else (cols, rows)
        x = torch.empty((p.batch, *order), dtype=getattr(torch, dtype), device="meta")
        return x if layout == "n" else x.mT

    a, b = empty(p.m, p.k, p.layout[0], dtype), empty(p.k, p.n, p.layout[1], dtype)
    out = empty(p.m, p.n, "n", "bfloat16" if p.dtype.startswith("float8") else dtype)
    yield from [(a, b, out)] if batched and p.batch > 1 else zip(a, b, out, strict=True)


@contextmanager
def gpu(capability: int, architecture: Architecture) -> Iterator[list[Launch]]:
    """Tensors and kernels go to a GPU of this compute capability (90 for 9.0) instead of a real
    one; gives the launches. In a process of its own: Triton's kernels remember their device."""
    properties = SimpleNamespace(
        name=f"sm_{capability}",
        major=capability // 10,
        minor=capability % 10,
        multi_processor_count=architecture.multiprocessors,
        shared_memory_per_block_optin=architecture.shared_bytes,
        shared_memory_per_multiprocessor=architecture.shared_kib * 1024,
        warp_size=32,
    )
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda device=None: properties
    torch.cuda.get_device_capability = lambda device=None: (properties.major, properties.minor)
    stand_in = _Driver(capability, properties)
    driver.set_active(stand_in)
    with _OnDevice():
        yield stand_in.launches
