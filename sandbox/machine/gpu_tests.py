"""What a GPU is put to for its ceilings: how each kernel is launched, what one step of it does."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sandbox.machine import Gpu, gpu_kernels

_BLOCK = 4096  # numbers of four bytes
_SCALE, _SHIFT = 0.5, 0.75  # x / 2 + 3 / 4 stays near 3 / 2
_PRODUCTS = {  # arithmetic: operands, sums, K of a tile; 128 bytes of K at least
    "fp64": (torch.float64, torch.float64, 32),
    "tf32": (torch.float32, torch.float32, 64),
    "fp16": (torch.float16, torch.float32, 128),
    "bf16": (torch.bfloat16, torch.float32, 128),
    "fp8": (torch.float8_e4m3fn, torch.float32, 128),
}
ARITHMETIC = ("fp32", *_PRODUCTS)
# N of a tile and warps: which of them is fastest depends on the generation.
_TILES = ((64, 4), (128, 4), (256, 8))


Launch = Callable[[int], object]  # so many steps of a kernel
Test = tuple[float, Launch]  # what one step does: FLOP or bytes
Key = tuple[str, str]  # arithmetic or level, and the way


def all_of(gpu: Gpu) -> dict[Key, Test]:
    """Every way of every arithmetic that this device has, and of every level."""
    peaks = {(a, f"{i}"): x for a in ARITHMETIC for i, x in enumerate(_peaks(gpu, a))}
    return peaks | {
        ("DRAM", "read"): _stream(gpu, "read"),
        ("DRAM", "copy"): _stream(gpu, "copy"),
        ("L2", "read"): _l2(gpu),
        ("shared", "read"): _shared(gpu),
    }


def _peaks(gpu: Gpu, arithmetic: str) -> list[Test]:
    """For every way this arithmetic can be done here."""
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


def _multiply_adds(gpu: Gpu, dtype: torch.dtype) -> Test:
    programs, block, unroll = 8 * gpu.sms, 1024, 16
    out = torch.empty(programs * block, dtype=dtype, device="cuda")

    def launch(steps: int) -> object:
        kernel = gpu_kernels.multiply_add[(programs,)]
        return kernel(out, _SCALE, _SHIFT, steps, BLOCK=block, UNROLL=unroll)

    return 2.0 * programs * block * unroll, launch


def _products(gpu: Gpu, arithmetic: str, n: int, warps: int) -> Test:
    """Normal numbers: with zeros a device under its power limit clocks higher than it ever will."""
    operand, total, k = _PRODUCTS[arithmetic]
    m, n = (128, n) if operand.itemsize < 8 else (64, n // 2)
    programs = 4 * gpu.sms
    a, b = (torch.randn(rows, k, device="cuda").to(operand) for rows in (m, n))
    out = torch.empty(programs * m * n, dtype=total, device="cuda")

    def launch(steps: int) -> object:
        kernel = gpu_kernels.product[(programs,)]
        return kernel(a, b, out, steps, M=m, N=n, K=k, num_warps=warps)

    return 2.0 * programs * m * n * k, launch


def _stream(gpu: Gpu, how: str) -> Test:
    """Each step reads (and writes) one block a program, of arrays sixteen times as large as L2."""
    blocks = min(16 * gpu.l2_bytes, gpu.memory_bytes // 8) // (4 * _BLOCK)
    return _reads(gpu, blocks, how)


def _l2(gpu: Gpu) -> Test:
    """A sixteenth of L2: it stays in the near half where a device has two."""
    return _reads(gpu, gpu.l2_bytes // 16 // (4 * _BLOCK), "read")


def _reads(gpu: Gpu, blocks: int, how: str) -> Test:
    programs = 8 * gpu.sms
    x = torch.ones(blocks * _BLOCK, dtype=torch.int32, device="cuda")
    out = torch.empty(max(blocks, programs) * _BLOCK, dtype=torch.int32, device="cuda")

    def launch(steps: int) -> object:
        kernel = getattr(gpu_kernels, how)[(programs,)]
        return kernel(x, out, blocks, steps, BLOCK=_BLOCK, num_warps=8)

    return 4.0 * _BLOCK * programs * (2 if how == "copy" else 1), launch


def _shared(gpu: Gpu) -> Test:
    programs, rows, buffers = 2 * gpu.sms, 64, 2
    out = torch.empty(programs * rows * 128, dtype=torch.int32, device="cuda")

    def launch(steps: int) -> object:
        kernel = gpu_kernels.read_shared[(programs,)]
        return kernel(out, steps, buffers - 1, ROWS=rows, BUFFERS=buffers, num_warps=8)

    return 4.0 * 128 * rows * programs, launch
