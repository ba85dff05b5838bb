"""The problem: one matrix product C = A B, its work, its sizes and its inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sandbox.roofline import Gemm

# Bytes an element; the order is the one in which messages list them.
ITEMSIZE: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3": 1,
}
LAYOUTS = ("nn", "nt", "tn", "tt")


@dataclass(frozen=True)
class Problem:
    """C (m x n) = A (m x k) B (k x n), `batch` times, each product with matrices of its own.

    `layout` says how a and b lie in memory: n row by row, t the transpose of that (column by
    column). `strided` says that the arrays may have any strides, negative ones included; it is
    False for every problem that is timed.

    Raises ValueError for a negative size, a batch below 1, an unknown dtype or layout.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "float32"
    layout: str = "nn"
    strided: bool = False

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k) < 0 or self.batch < 1:
            raise ValueError(f"{self.shape}: sizes must be 0 or more, and the batch 1 or more")
        if self.dtype not in ITEMSIZE:
            raise ValueError(f"unknown dtype {self.dtype!r}: choose from {', '.join(ITEMSIZE)}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"unknown layout {self.layout!r}: choose from {', '.join(LAYOUTS)}")

    @property
    def shape(self) -> str:
        """M x N x K as it is written on the screen, after the batch where there is one."""
        size = f"{self.m} x {self.n} x {self.k}"
        return size if self.batch == 1 else f"{self.batch} of {size}"

    @property
    def gemm(self) -> Gemm:
        """The sizes in bytes that the model needs (out has the input's dtype, bfloat16 for fp8)."""
        size = ITEMSIZE[self.dtype]
        return Gemm(
            self.m,
            self.n,
            self.k,
            self.batch,
            a_bytes=size,
            b_bytes=size,
            out_bytes=max(size, 2),
            acc_bytes=max(size, 4),
        )

    @property
    def held_bytes(self) -> int:
        """Memory that one row keeps: its arrays, the private copies, the reference."""
        size = ITEMSIZE[self.dtype]
        inputs, outputs = self.k * (self.m + self.n), self.m * self.n
        return self.batch * (inputs * 2 * size + outputs * (size + 16))

    @property
    def judged_bytes(self) -> int:
        """What judging needs on top for a while: float64 copies and comparisons."""
        return self.batch * (self.k * (self.m + self.n) * 16 + self.m * self.n * 56)


def make_inputs(problem: Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A (batch, m, k) and B (batch, k, n), N(0, 1), in the problem's dtype and layout.

    The same seed gives the same numbers whatever the layout. bfloat16 and float8_e4m3, which NumPy
    does not have, come as float32.
    """
    rng = np.random.default_rng(seed)
    draw = np.float64 if problem.dtype == "float64" else np.float32
    dtype = np.float16 if problem.dtype == "float16" else draw

    def fill(rows: int, cols: int, order: str) -> np.ndarray:
        x = rng.standard_normal((problem.batch, rows, cols), dtype=draw).astype(dtype, copy=False)
        return x if order == "n" else np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)

    a = fill(problem.m, problem.k, problem.layout[0])
    return a, fill(problem.k, problem.n, problem.layout[1])
