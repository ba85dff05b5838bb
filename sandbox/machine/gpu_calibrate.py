"""What this GPU reaches: reads at every level, multiply-adds, products, launches. For workers."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch
import triton

from sandbox.machine import Gpu, device, gpu_kernels
from sandbox.measure import clock

_ROUNDS = 12
_ROUND_MS = 3.0
_DOUBT = 0.01  # at least: clocks drift by so much between runs
_BLOCK = 4096  # numbers of four bytes
_BUSY_PERCENT = 5
_SCALE, _SHIFT = 0.5, 0.75  # x / 2 + 3 / 4 stays near 3 / 2
_PRODUCTS = {  # arithmetic: operands, sums, K of a tile; 128 bytes of K at least
    "fp64": (torch.float64, torch.float64, 32),
    "tf32": (torch.float32, torch.float32, 64),
    "fp16": (torch.float16, torch.float32, 128),
    "bf16": (torch.bfloat16, torch.float32, 128),
    "fp8": (torch.float8_e4m3fn, torch.float32, 128),
}
# N of a tile and warps: which of them is fastest depends on the generation.
_TILES = ((64, 4), (128, 4), (256, 8))


def measure(gpu: Gpu) -> dict[str, Any]:
    """Its ceilings in FLOP/s and bytes/s with their spread, T0 in seconds by mode, SM clocks in Hz.

    `busy` tells that other work was on the device.
    """
    ask = device.nvml(gpu.uuid)
    use = ask("UtilizationRates")
    peak: dict[str, tuple[float, float]] = {}
    clocks: dict[str, float] = {}
    for arithmetic in ("fp32", *_PRODUCTS):
        found = []
        for test in _peak_tests(gpu, arithmetic):
            with suppress(triton.runtime.errors.OutOfResources):  # a tile too large for this SM
                found.append(_best(*test))
        if found:
            peak[arithmetic], launch, steps = max(found, key=lambda best: best[0])
            launch(8 * steps)
            mhz = ask("ClockInfo", "CLOCK_SM")
            clocks |= {arithmetic: mhz * 1e6} if mhz else {}
            torch.cuda.synchronize()
    return {
        "device": asdict(gpu),
        "peak": peak,
        "bandwidth": {
            "DRAM": {how: _best(*_stream(gpu, how))[0] for how in ("read", "copy")},
            "L2": {"read": _best(*_l2(gpu))[0]},
            "shared": {"read": _best(*_shared(gpu))[0]},
        },
        "t0_s": _fixed_costs(),
        "clock_hz": clocks,
        "busy": bool(use and use.gpu > _BUSY_PERCENT),
    }


Launch = Callable[[int], object]  # so many steps of a kernel


def _best(amount: float, launch: Launch) -> tuple[tuple[float, float], Launch, int]:
    """`amount` a step, per second: the best round, and the fraction by which their median falls
    short of it; and what was launched with how many steps.

    Steps come in sixteens: Triton compiles anew for numbers that are no multiple.
    """
    steps = 16
    launch(steps)
    torch.cuda.synchronize()
    while (taken := _ms(launch, steps)) < _ROUND_MS / 4:
        steps *= 4
    steps = max(1, int(steps / 16 * _ROUND_MS / taken)) * 16
    rates = [amount * steps / _ms(launch, steps) * 1e3 for _ in range(_ROUNDS)]
    spread = 1 - statistics.median(rates) / max(rates)
    return (max(rates), max(_DOUBT, spread)), launch, steps


def _ms(launch: Launch, steps: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    launch(steps)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def _peak_tests(gpu: Gpu, arithmetic: str) -> list[tuple[float, Launch]]:
    """FLOP a step and the launch, for every way this arithmetic can be done here."""
    tests = []
    if arithmetic in ("fp32", "fp64"):
        tests.append(_multiply_adds(gpu, getattr(torch, f"float{arithmetic[2:]}")))
    major, minor = (int(x) for x in gpu.capability.split("."))
    has = {
        "fp32": False,
        "fp64": major in (8, 9),  # Triton cannot build it for datacentre Blackwell
        "tf32": major >= 8,
        "fp16": major >= 7,
        "bf16": major >= 8,
        "fp8": (major, minor) >= (8, 9),
    }
    if has[arithmetic]:
        tests += [_products(gpu, arithmetic, n, warps) for n, warps in _TILES]
    return tests


def _multiply_adds(gpu: Gpu, dtype: torch.dtype) -> tuple[float, Launch]:
    programs, block, unroll = 8 * gpu.sms, 1024, 16
    out = torch.empty(programs * block, dtype=dtype, device="cuda")

    def launch(steps: int) -> object:
        kernel = gpu_kernels.multiply_add[(programs,)]
        return kernel(out, _SCALE, _SHIFT, steps, BLOCK=block, UNROLL=unroll)

    return 2.0 * programs * block * unroll, launch


def _products(gpu: Gpu, arithmetic: str, n: int, warps: int) -> tuple[float, Launch]:
    """Normal numbers: with zeros a device under its power limit clocks higher than it ever will."""
    operand, total, k = _PRODUCTS[arithmetic]
    m, n = (128, n) if operand.itemsize < 8 else (64, n // 2)
    programs = 2 * gpu.sms
    a, b = (torch.randn(rows, k, device="cuda").to(operand) for rows in (m, n))
    out = torch.empty(programs * m * n, dtype=total, device="cuda")

    def launch(steps: int) -> object:
        kernel = gpu_kernels.product[(programs,)]
        return kernel(a, b, out, steps, M=m, N=n, K=k, num_warps=warps)

    return 2.0 * programs * m * n * k, launch


def _stream(gpu: Gpu, how: str) -> tuple[float, Launch]:
    """Each step reads (and writes) one block a program, of arrays sixteen times as large as L2."""
    blocks = min(16 * gpu.l2_bytes, gpu.memory_bytes // 8) // (4 * _BLOCK)
    return _reads(gpu, blocks, how)


def _l2(gpu: Gpu) -> tuple[float, Launch]:
    """A sixteenth of L2: it stays in the near half where a device has two."""
    return _reads(gpu, gpu.l2_bytes // 16 // (4 * _BLOCK), "read")


def _reads(gpu: Gpu, blocks: int, how: str) -> tuple[float, Launch]:
    programs = 8 * gpu.sms
    x = torch.ones(blocks * _BLOCK, dtype=torch.int32, device="cuda")
    out = torch.empty(max(blocks, programs) * _BLOCK, dtype=torch.int32, device="cuda")

    def launch(steps: int) -> object:
        kernel = getattr(gpu_kernels, how)[(programs,)]
        return kernel(x, out, blocks, steps, BLOCK=_BLOCK, num_warps=8)

    return 4.0 * _BLOCK * programs * (2 if how == "copy" else 1), launch


def _shared(gpu: Gpu) -> tuple[float, Launch]:
    programs, rows, buffers = 2 * gpu.sms, 32, 2
    out = torch.empty(programs * rows * 128, dtype=torch.int32, device="cuda")

    def launch(steps: int) -> object:
        kernel = gpu_kernels.read_shared[(programs,)]
        return kernel(out, steps, buffers - 1, ROWS=rows, BUFFERS=buffers, num_warps=8)

    return 4.0 * 128 * rows * programs, launch


def _fixed_costs() -> dict[str, float]:
    """Seconds of an empty kernel: a launch among many, between two events, in a replayed graph."""
    x = torch.empty(1, device="cuda")
    few, many = 20, 200

    def once() -> None:
        gpu_kernels.empty[(1,)](x)

    once()
    launches = []
    for _ in range(few):
        torch.cuda.synchronize()
        start = clock()
        for _ in range(many):
            once()
        launches.append((clock() - start) / many)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(many):
            once()
    return {
        "launch": statistics.median(launches),
        "event": statistics.median(_ms(lambda steps: once(), 1) for _ in range(few)) / 1e3,
        "graph": min(_ms(lambda steps: graph.replay(), 1) for _ in range(few)) / 1e3 / many,
    }
