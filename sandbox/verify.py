"""Is the answer right? The oracle, the allowance, the shapes, the poison and the guard bands.

The oracle is torch.matmul in float64, from private copies, after the variant ran. It aims at
accidents and simple cheats: a variant shares its process and could do anything; this is no jail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from sandbox.problem import Problem, make_inputs
from sandbox.result import Verdict

Run = Callable[[np.ndarray, np.ndarray, np.ndarray], None]

# Unit roundoff of the accumulation, by the accuracy that a variant is held to.
UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-24,
    "bfloat16": 2.0**-24,
    "tf32": 2.0**-24,
    "float8_e4m3": 2.0**-13,
}
# A NaN that arithmetic does not make: where it is still there, nothing was written.
_POISON: dict[int, np.unsignedinteger[Any]] = {
    2: np.uint16(0x7EDD),
    4: np.uint32(0x7FC0DEAD),
    8: np.uint64(0x7FF8DEADDEADDEAD),
}
_GUARD = 64  # elements before and after, and it keeps arrays on cache-line boundaries
_TF32 = 2 * 2.0**-10  # both inputs lose all but 10 bits, by truncation at worst
_SMALL = 2**28  # multiplications
_REPEATS, _RACES = 3, 5  # calls of a parallel variant, on each case and on the long one
_LONG = (200, 200, 8000)  # milliseconds a thread
_matmul = torch.matmul

SHAPES = (
    (1, 1, 1), (1, 37, 64), (33, 1, 65), (5, 7, 1), (1, 128, 1), (64, 64, 64), (100, 100, 100),
    (127, 129, 65), (16, 16, 700), (257, 31, 100), (31, 257, 100), (96, 200, 300),
    (0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 0),
)  # fmt: skip
VIEWS = ("sliced", "reversed", "fortran")
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


def cases(problem: Problem) -> Iterator[Case]:
    """What every variant has to get right in the problem's dtype and layout, small things first."""
    for shape in SHAPES:
        yield Case(_resized(problem, *shape))
    for data in DATA:
        for shape in ((64, 64, 64), (45, 67, 90)):
            yield Case(_resized(problem, *shape), data)
    for view in VIEWS:
        for shape in ((45, 67, 90), (1, 5, 33), (130, 70, 65)):
            yield Case(replace(_resized(problem, *shape), strided=True), view=view)
    yield Case(replace(_resized(problem, 17, 19, 23), batch=3))
    # Just past the problem's own sizes, where large tiles end; never all of them at once.
    m, n, k = (min(size, 700) for size in (problem.m, problem.n, problem.k))
    yield Case(_resized(problem, m + 1, min(n, 40) + 1, min(k, 40) + 3))
    yield Case(_resized(problem, min(m, 40) + 1, n + 1, k + 3))


def _resized(problem: Problem, m: int, n: int, k: int) -> Problem:
    return replace(problem, m=m, n=n, k=k, batch=1)


def inputs(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The case's A and B. `wide`: odd 13-bit integers times {-1, 0, 1}, which TF32 cannot do."""
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
        bits = 13 if a.dtype.itemsize >= 4 else 5
        large[...] = rng.integers(2 ** (bits - 2), 2 ** (bits - 1), large.shape) * 2 + 1
        small[...] = rng.integers(-1, 2, small.shape)
    elif case.data == "nonfinite":
        a[..., 1, 2] = np.nan
        a[..., 5, 0] = np.inf
        b[..., 3, 4] = -np.inf
    return a, b


def place(x: np.ndarray, view: str, fill: float) -> tuple[np.ndarray, np.ndarray]:
    """A copy of x (batch, rows, cols) inside a larger buffer full of `fill`: copy and buffer.

    `plain` keeps x's own order of axes, contiguous; `sliced` and `reversed` leave gaps between
    elements, `reversed` with negative strides; `fortran` runs down the columns.
    """
    if view in ("plain", "fortran"):
        by_column = view == "fortran" or not x.flags.c_contiguous
        order = x.swapaxes(1, 2) if by_column else x
        raw = np.full(x.size + 3 * _GUARD, fill, x.dtype)
        start = -raw.ctypes.data % 64 // x.itemsize + _GUARD
        inner = raw[start : start + x.size].reshape(order.shape)
        inner = inner.swapaxes(1, 2) if by_column else inner
    else:
        batch, rows, cols = x.shape
        raw = np.full((batch, 2 * rows + 5, 3 * cols + 7), fill, x.dtype)
        inner = raw[:, 2 : 2 + 2 * rows : 2, 3 : 3 + 3 * cols : 3]
        inner = inner[:, ::-1, ::-1] if view == "reversed" else inner
    inner[...] = x
    return inner, raw


def _bits(x: np.ndarray) -> np.ndarray:
    return x.view(_POISON[x.itemsize].dtype)


class Trial:
    """One product's arrays between guard bands, and the private copies that the oracle uses."""

    def __init__(self, case: Case, batched: bool, accuracy: str, seed: int, fill: float = np.nan):
        self._case, self._accuracy = case, accuracy
        self._a, self._b = inputs(case, seed)
        p, dtype = case.problem, self._a.dtype
        self._fill, self._poison = dtype.type(fill), _POISON[dtype.itemsize].view(dtype)
        self._a_view, self._a_raw = place(self._a, case.view, self._fill)
        self._b_view, self._b_raw = place(self._b, case.view, self._fill)
        out = np.full((p.batch, p.m, p.n), self._poison, dtype)
        self._out, self._out_raw = place(out, case.view, self._poison)
        arrays = self._a_view, self._b_view, self._out
        whole = batched and p.batch > 1
        self._calls = [arrays] if whole else list(zip(*arrays, strict=True))
        self._reference: tuple[np.ndarray, np.ndarray] | None = None
        self._chosen = (0, 0, 0, 0)
        self._stale: list[tuple[int, int]] = []
        self._asked, self._lazy = False, ""

    def call(self, run: Run) -> None:
        """The whole problem: one call a product where the variant takes no batch."""
        for a, b, out in self._calls:
            run(a, b, out)

    def poison(self) -> None:
        """Make every element of out one that only the variant can make right."""
        self._out[...] = self._poison
        self._asked = False

    def choose(self, rng: np.random.Generator) -> None:
        """Choose the element of a and the element of b that `change` changes from now on."""
        p = self._case.problem
        if p.m and p.n and p.k:
            i, j, x, y = (int(r) for r in rng.integers((p.m, p.n, p.k, p.k)))
            self._chosen = i, j, x, y
            self._stale.append((i, j))

    def change(self, value: float) -> None:
        """Give the chosen elements another value, and the private copies with them.

        The element of out that hangs on both is poisoned: has the call since the last change
        written there?
        """
        i, j, x, y = self._chosen
        if self._stale:
            if self._asked and self._unwritten(self._out[:, i, j].copy()).any():
                self._lazy = f"a call returned before it had written c{[i, j]}"
            self._asked = True
            self._out[:, i, j] = self._poison
            self._a_view[:, i, x] = self._a[:, i, x] = value
            self._b_view[:, y, j] = self._b[:, y, j] = -value

    def verdict(self) -> Verdict:
        """Judge what lies in out now, the inputs and the guard bands."""
        got = self._out.astype(np.float64)  # first of all: what is written later comes too late
        reason = self._lazy or self._touched()
        if reason:
            return Verdict(False, None, f"{self._case}: {reason}")
        return self._compare(got, *self._expected())

    def _expected(self) -> tuple[np.ndarray, np.ndarray]:
        """A B and |A| |B|; once computed, only changed rows and columns are computed again."""
        if self._reference is None:
            self._reference = _oracle(self._a, self._b)
        elif self._stale:
            i, j = (sorted(set(x)) for x in zip(*self._stale, strict=True))
            rows = _oracle(self._a[:, i], self._b)
            columns = _oracle(self._a, self._b[:, :, j])
            for whole, row, column in zip(self._reference, rows, columns, strict=True):
                whole[:, i], whole[:, :, j] = row, column
        self._stale = []
        return self._reference

    def _touched(self) -> str:
        for name, view, raw, mine in (
            ("a", self._a_view, self._a_raw, self._a),
            ("b", self._b_view, self._b_raw, self._b),
        ):
            if not np.array_equal(_bits(view), _bits(mine)):
                return f"changes its input {name}"
            if not _only_inside(view, raw, self._fill):
                return f"writes outside its input {name}"
        return "" if _only_inside(self._out, self._out_raw, self._poison) else "writes outside out"

    def _unwritten(self, out: np.ndarray) -> np.ndarray:
        return np.asarray(_bits(out) == _bits(np.asarray(self._poison)))

    def _compare(self, got: np.ndarray, reference: np.ndarray, magnitude: np.ndarray) -> Verdict:
        allowance = self._allowance(reference, magnitude)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            error = abs(got - reference)
            rounded = reference.astype(self._out.dtype).astype(np.float64)
            same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
            # Within one rounding of overflow, infinity and the largest number are both right.
            overflow = abs(reference) + allowance > float(np.finfo(self._out.dtype).max)
            same |= overflow & np.isinf(got) & (np.sign(got) == np.sign(reference))
            # NaN is never <=; an infinite answer allows no other.
            right = ((error <= allowance) & np.isfinite(reference)) | same
            over = np.where(same, 0, error / allowance)
        finite = over[np.isfinite(over)]
        worst = float(finite.max(initial=0))
        if right.all():
            return Verdict(True, worst)
        mistake = self._mistake(got, reference, allowance, magnitude)
        reason = f"{self._case}: {self._describe(~right, got, reference, mistake)}"
        return Verdict(False, worst if finite.size == over.size else None, reason)

    def _allowance(self, reference: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
        """Higham, Accuracy and Stability of Numerical Algorithms, 3.5, with 8 sqrt(k) for k on
        zero-mean data; nothing where every partial sum is an integer that the accumulator holds."""
        k, data = self._case.problem.k, self._case.data
        tf32 = self._accuracy == "tf32"
        if data == "integers" or (data == "wide" and not tf32):
            return np.zeros_like(reference)
        u = UNIT_ROUNDOFF[self._accuracy]
        growth = k * u / (1 - k * u) if data == "positive" else 8 * k**0.5 * u
        info = np.finfo(self._out.dtype)
        rounding = float(info.eps) / 2 * abs(reference) + float(info.smallest_subnormal) / 2
        return np.asarray((growth + _TF32 * tf32) * magnitude + rounding)

    def _describe(
        self, bad: np.ndarray, got: np.ndarray, reference: np.ndarray, mistake: str
    ) -> str:
        """Which elements are wrong, in what pattern, and the first of them."""
        unwritten = bad & self._unwritten(self._out)
        if unwritten[bad].all():
            kind = "never written"
        else:
            kind = "NaN" if np.isnan(got[bad]).all() else "wrong"
        first = tuple(int(x) for x in np.argwhere(bad)[0])
        index = list(first if self._case.problem.batch > 1 else first[1:])
        value = "unwritten" if unwritten[first] else f"{got[first]:.9g}"
        what = f"{np.count_nonzero(bad)} of {bad.size} elements {kind}"
        what = ", ".join(filter(None, (what, _edge(bad), mistake)))
        return f"{what}; first c{index} = {value}, not {reference[first]:.9g}"

    def _mistake(
        self, got: np.ndarray, reference: np.ndarray, allowance: np.ndarray, magnitude: np.ndarray
    ) -> str:
        """A well-known way of being wrong that gives just this answer."""
        p, a, b = self._case.problem, self._a, self._b
        if not got.any():
            return "all zero"
        others = {}
        if p.m == p.n > 1:
            others["the transpose of the product"] = reference.swapaxes(1, 2)
        if p.n == p.k > 1:
            others["a times b transposed"] = _oracle(a, b.swapaxes(1, 2))[0]
        if p.m == p.k > 1:
            others["a transposed times b"] = _oracle(a.swapaxes(1, 2), b)[0]
        for name, other in others.items():
            if (abs(got - other) <= allowance + 1e-5 * abs(other)).all():
                return name
        error = abs(got - reference)
        if (error > allowance).mean() < 0.1:  # rounding spares few
            return ""
        for name, rounding in (("TF32", _TF32), ("BF16", 8 * _TF32)):
            if (error <= allowance + rounding * magnitude).all():
                return f"no more accurate than {name}"
        return ""


def _oracle(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A B and |A| |B| in float64; small ones on one thread, lest its pool spin beside another's."""
    a64, b64 = (torch.from_numpy(x.astype(np.float64)) for x in (a, b))
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if a.size * b.shape[-1] < _SMALL else threads)
    try:
        return _matmul(a64, b64).numpy(), _matmul(a64.abs(), b64.abs()).numpy()
    finally:
        torch.set_num_threads(threads)


def _only_inside(inner: np.ndarray, raw: np.ndarray, fill: np.generic) -> bool:
    """Is everything of the buffer outside of the array still the fill?"""
    kept = inner.copy()
    inner[...] = fill
    untouched = bool((_bits(raw) == _bits(np.asarray(fill))).all())
    inner[...] = kept
    return untouched


def _edge(bad: np.ndarray) -> str:
    """Whole rows or columns at an edge, where the wrong elements are just those."""
    _, m, n = bad.shape
    if bad.all():
        return ""
    rows, columns = (np.flatnonzero(bad.any(axes)) for axes in ((0, 2), (0, 1)))
    for word, found, size, other in (("row", rows, m, columns), ("column", columns, n, rows)):
        if len(found) == 1 and size > 1 and (len(other) > 1 or size == bad.size):
            return f"the last {word}" if found[0] == size - 1 else f"{word} {found[0]}"
        if found[-1] == size - 1 and len(found) == size - found[0] < size:
            return f"{word}s from {found[0]} on"
    return ""


def judge(
    prepare: Callable[[Problem], Run],
    refuses: Callable[[Problem], str],
    problem: Problem,
    *,
    batched: bool,
    accuracy: str,
    parallel: bool,
) -> Verdict:
    """Try all cases until one fails; `parallel` ones more than once, since a race does not show
    every time, and last a long one, in which threads are interrupted however few the cores are."""
    trials = [(case, _REPEATS if parallel else 1) for case in cases(problem)]
    trials += [(Case(_resized(problem, *_LONG)), _RACES)] * parallel
    worst, refused = 0.0, None
    for seed, (case, repeat) in enumerate(trials):
        if why := refuses(case.problem):
            refused = refused or f"{case}: {why}"
            continue
        run = prepare(case.problem)
        trial = Trial(case, batched, accuracy, seed)
        for _ in range(repeat):
            trial.poison()
            trial.call(run)
            verdict = trial.verdict()
            if not verdict.ok:
                return _reads_outside(run, case, batched, accuracy, seed) or verdict
            worst = max(worst, verdict.error or 0.0)
    return Verdict(True, worst, refused=refused)


def _try(run: Run, case: Case, batched: bool, accuracy: str, seed: int, fill: float) -> Verdict:
    trial = Trial(case, batched, accuracy, seed, fill)
    trial.call(run)
    return trial.verdict()


def _reads_outside(run: Run, case: Case, batched: bool, accuracy: str, seed: int) -> Verdict | None:
    """Right whenever zeros lie round a and b, never when NaN does: it reads what lies there."""
    tries = [_try(run, case, batched, accuracy, seed, fill).ok for fill in (0, np.nan) * 3]
    if tries != [True, False] * 3:
        return None
    reason = f"{case}: reads outside its inputs: right only while zeros lie round a and b"
    return Verdict(False, None, reason)
