"""Operands as the hardware takes them; what lies otherwise is copied first, within the timing.

The tensor cores read 32-bit and 8-bit operands along k only (PTX ISA, wgmma: "transposed" operands
are for 16-bit types); the copy engine, TMA, wants rows that start on multiples of 16 bytes.
"""

import torch
import triton
import triton.language as tl

SIMULATED = 2  # multiprocessors, for the interpreter


@triton.jit
def _copy(x, y, rows, cols, x_row, x_col, y_row, y_col, BLOCK: tl.constexpr):
    across = tl.cdiv(cols, BLOCK)
    i = (tl.program_id(0) // across).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    j = (tl.program_id(0) % across).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (i < rows) & (j < cols)
    tile = tl.load(x + i * x_row + j * x_col, mask=inside)
    tl.store(y + i * y_row + j * y_col, tile, mask=inside)


def copy(x, y):
    """y = x, both (rows, cols) of any strides: a transposition goes through shared memory."""
    blocks = triton.cdiv(x.shape[0], 64) * triton.cdiv(x.shape[1], 64)
    _copy[blocks,](x, y, *x.shape, *x.stride(), *y.stride(), BLOCK=64, num_warps=8)
    return y


def aligned(x):
    """An empty matrix of x's shape whose rows start on multiples of 16 bytes."""
    rows, cols = x.shape
    step = 16 // x.itemsize
    return x.new_empty(rows, triton.cdiv(cols, step) * step)[:, :cols]


def along_k(x):
    """x (rows, k) itself where the tensor cores take it, else a copy that runs along k."""
    return x if x.itemsize == 2 or x.itemsize == 8 or x.stride(1) == 1 else copy(x, aligned(x))


def tma_takes(x):
    """Can TMA address x (rows, cols) as it lies?"""
    row, col = x.stride()
    return col == 1 and row >= x.shape[1] and row * x.itemsize % 16 == x.data_ptr() % 16 == 0


def for_tma(x):
    """x (rows, k) or its transpose as TMA and the tensor cores take it, and which of the two."""
    if not tma_takes(x) and tma_takes(x.T) and x.itemsize == 2:
        return x.T, True
    return x if tma_takes(x) else copy(x, aligned(x)), False


def through_tma(launch, a, b, out):
    """launch(a or its transpose, b transposed or b, c, which for a, which for b) computes out."""
    if 0 in (*out.shape, a.shape[1]):
        out.zero_()
        return
    (x, a_t), (y, b_t) = for_tma(a), for_tma(b.T)
    c = out if tma_takes(out) else aligned(out)
    launch(x, y, c, a_t, b_t)
    if c is not out:
        copy(c, out)


def multiprocessors(x):
    """How many there are on x's device; on none that is a GPU, as many as are simulated."""
    if not x.is_cuda:
        return SIMULATED
    return torch.cuda.get_device_properties(x.device).multi_processor_count


def largest(tiles, m, n, x):
    """The first of the tiles (BM, BN, ...) that gives work to more than half of the SMs."""
    for tile in tiles:
        if triton.cdiv(m, tile[0]) * triton.cdiv(n, tile[1]) * 2 > multiprocessors(x):
            break
    return tile


def _capability():
    """Compute capability times ten of the GPU at hand, or what the interpreter stands for."""
    if triton.knobs.runtime.interpret:
        return 90
    return triton.runtime.driver.active.get_current_target().arch


def tensor_cores(problem):
    """Why `tl.dot` cannot take the problem to tensor cores."""
    if problem.dtype == "float8_e4m3" and _capability() < 89:
        return f"FP8 wants compute capability 8.9, not {_capability() / 10}"
    return ""


def tma(problem):
    """Why it cannot go through TMA."""
    if problem.dtype == "float64":
        return "wgmma has no FP64"
    return (
        "" if _capability() >= 90 else f"TMA wants compute capability 9.0, not {_capability() / 10}"
    )


def wgmma(problem):
    """Why wgmma, which Hopper alone has, cannot compute it."""
    found = _capability()
    return tma(problem) or (
        "" if found == 90 else f"wgmma wants compute capability 9.0, not {found / 10}"
    )
