"""What a variant is tried on: shapes, kinds of numbers, and how the arrays lie in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from sandbox.problem import Problem, make_inputs

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3": torch.float8_e4m3fn,
}
_SIGNIFICANT = {"float16": 5, "bfloat16": 5, "float8_e4m3": 3}  # bits of `wide` numbers; else 13
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_GUARD = 64  # elements before and after, and it keeps arrays on cache-line boundaries

SHAPES = (
    (1, 1, 1), (1, 37, 64), (33, 1, 65), (5, 7, 1), (1, 128, 1), (64, 64, 64), (100, 100, 100),
    (127, 129, 65), (16, 16, 700), (257, 31, 100), (31, 257, 100), (96, 200, 300),
    (0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 0),
)  # fmt: skip
VIEWS = ("sliced", "padded", "fortran", "reversed")  # torch has no negative strides: CPU only
DATA = ("positive", "tiny", "integers", "wide", "nonfinite")


@dataclass(frozen=True)
class Case:
    """One product to try: its problem, the kind of its numbers, and how its arrays lie."""

    problem: Problem
    data: str = "normal"
    view: str = "plain"

    def __str__(self) -> str:
        words = [self.problem.shape]
        words += [] if self.data == "normal" else [f"{self.data} numbers"]
        words += [] if self.view == "plain" else [f"{self.view} arrays"]
        return ", ".join(words)


def cases(problem: Problem, device: str) -> Iterator[Case]:
    """What every variant has to get right in the problem's dtype and layout, small things first."""
    for shape in SHAPES:
        yield Case(resized(problem, *shape))
    for data in DATA:
        for shape in ((64, 64, 64), (45, 67, 90)):
            yield Case(resized(problem, *shape), data)
    for view in VIEWS[:-1] if device == "gpu" else VIEWS:
        for shape in ((45, 67, 90), (1, 5, 33), (130, 70, 65)):
            yield Case(replace(resized(problem, *shape), strided=True), view=view)
    yield Case(replace(resized(problem, 17, 19, 23), batch=3))
    # Just past the problem's own sizes, where large tiles end; never all of them at once.
    m, n, k = (min(size, 700) for size in (problem.m, problem.n, problem.k))
    yield Case(resized(problem, m + 1, min(n, 40) + 1, min(k, 40) + 3))
    yield Case(resized(problem, min(m, 40) + 1, n + 1, k + 3))


def resized(problem: Problem, m: int, n: int, k: int) -> Problem:
    """One product of another size."""
    return replace(problem, m=m, n=n, k=k, batch=1)


def inputs(case: Case, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The case's A (batch, m, k) and B (batch, k, n) on the CPU, in its dtype.

    `wide`: odd integers, of 13 bits where the dtype holds them, times {-1, 0, 1}, which TF32
    cannot do.
    """
    a, b = make_inputs(case.problem, seed)
    rng = np.random.default_rng(seed + 1)
    if case.data == "positive":
        a, b = abs(a), abs(b)
    elif case.data == "tiny":
        a *= a.dtype.type(1e-3)
        b *= b.dtype.type(1e-3)
    elif case.data == "integers":
        a[...] = rng.integers(-3, 4, a.shape)
        b[...] = rng.integers(-3, 4, b.shape)
    elif case.data == "wide":
        large, small = (a, b) if seed % 2 else (b, a)
        bits = _SIGNIFICANT.get(case.problem.dtype, 13)
        large[...] = rng.integers(2 ** (bits - 2), 2 ** (bits - 1), large.shape) * 2 + 1
        small[...] = rng.integers(-1, 2, small.shape)
    elif case.data == "nonfinite":
        a[..., 1, 2] = np.nan
        a[..., 5, 0] = np.inf
        b[..., 3, 4] = -np.inf
    dtype = DTYPES[case.problem.dtype]
    return torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """The same memory as integers: they compare equal where the bits do, NaN or not."""
    return x.view(_BITS[x.element_size()])


class Placed:
    """A copy of x (batch, rows, cols) inside a larger buffer full of `fill`, a tensor of one
    element.

    `plain` keeps x's own order of axes, contiguous and aligned; `padded` is neither aligned nor
    are its rows; `sliced` and `reversed` leave gaps between elements, `reversed` with negative
    strides; `fortran` runs down the columns.
    """

    def __init__(self, x: torch.Tensor, view: str, fill: torch.Tensor, device: str) -> None:
        self._fill, self._reversed, self._device = bits(fill), view == "reversed", device
        batch, rows, cols = x.shape
        if view in ("plain", "fortran"):
            by_column = view == "fortran" or not x.is_contiguous()
            order = x.transpose(1, 2) if by_column else x
            self._raw = self._full((x.numel() + 3 * _GUARD,), x)
            start = -self._raw.data_ptr() % 64 // x.element_size() + _GUARD
            inner = self._raw[start : start + x.numel()].view(order.shape)
            self._inner = inner.transpose(1, 2) if by_column else inner
        elif view == "padded":
            self._raw = self._full((batch, rows + 2, cols + 3), x)
            self._inner = self._raw[:, 1 : 1 + rows, 1 : 1 + cols]
        else:
            self._raw = self._full((batch, 2 * rows + 5, 3 * cols + 7), x)
            self._inner = self._raw[:, 2 : 2 + 2 * rows : 2, 3 : 3 + 3 * cols : 3]
        self.write(x)

    def _full(self, shape: tuple[int, ...], x: torch.Tensor) -> torch.Tensor:
        fill = int(self._fill)
        return torch.full(shape, fill, dtype=self._fill.dtype, device=x.device).view(x.dtype)

    @property
    def given(self) -> torch.Tensor | np.ndarray:
        """What a variant is given: a NumPy array on the CPU, a torch tensor on a GPU."""
        if self._device == "gpu":
            return self._inner
        array: np.ndarray = self._inner.numpy()
        return array[:, ::-1, ::-1] if self._reversed else array

    def read(self) -> torch.Tensor:
        """A copy of what lies there."""
        return self._inner.flip(1, 2) if self._reversed else self._inner.clone()

    def write(self, x: torch.Tensor) -> None:
        """Put x there."""
        self._inner.copy_(x.flip(1, 2) if self._reversed else x)

    def clear(self) -> None:
        """Fill it like the rest of the buffer."""
        bits(self._inner).fill_(self._fill)

    def at(self, i: int, j: int) -> torch.Tensor:
        """Element (i, j) of every product, not a copy."""
        return self._inner[:, -1 - i, -1 - j] if self._reversed else self._inner[:, i, j]

    def only_inside(self) -> bool:
        """Is everything of the buffer outside of the array still the fill?"""
        kept = self._inner.clone()
        self.clear()
        untouched = bool((bits(self._raw) == self._fill).all())
        self._inner.copy_(kept)
        return untouched
