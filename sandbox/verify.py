"""Is the answer right? The oracle, the allowance, the poison and the guard bands.

The oracle is torch.matmul in float64, from private copies, after the variant ran. It aims at
accidents and simple cheats: a variant shares its process and could do anything; this is no jail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from sandbox.cases import DTYPES, Case, Placed, bits, cases, inputs, resized
from sandbox.mistakes import TF32, describe, mistake
from sandbox.problem import Problem
from sandbox.result import Verdict

Run = Callable[[Any, Any, Any], None]

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
_POISON = {2: 0x7EDD, 4: 0x7FC0DEAD, 8: 0x7FF8DEADDEADDEAD}
_SMALL = 2**28  # multiplications
_REPEATS, _RACES = 3, 5  # calls of a parallel variant, on each case and on the long one
_LONG = (200, 200, 8000)  # milliseconds a thread
NUMPY_DTYPES = ("float64", "float32", "float16")
WHERE = {"cpu": "cpu", "gpu": "cuda"}  # torch's names
_matmul = torch.matmul


class Trial:
    """One product's arrays between guard bands, and the private copies that the oracle uses.

    On the device of the variant that is tried, "cpu" or "gpu". Raises TypeError for a dtype that
    NumPy, which a CPU's variants are given, does not have.
    """

    def __init__(
        self,
        case: Case,
        batched: bool,
        accuracy: str,
        seed: int,
        fill: float = np.nan,
        device: str = "cpu",
    ) -> None:
        self._case, self._accuracy = case, accuracy
        if device == "cpu" and case.problem.dtype not in NUMPY_DTYPES:
            raise TypeError(f"NumPy has no {case.problem.dtype}")
        where = WHERE[device]
        self._a, self._b = (x.to(where) for x in inputs(case, seed))
        p = case.problem
        self._dtype = torch.bfloat16 if p.dtype == "float8_e4m3" else DTYPES[p.dtype]
        around = torch.tensor(fill, device=where).to(self._a.dtype)
        poison = torch.tensor(_POISON[self._dtype.itemsize], device=where)
        self._poison = poison.to(bits(torch.empty(0, dtype=self._dtype)).dtype).view(self._dtype)
        self._given_a = Placed(self._a, case.view, around, device)
        self._given_b = Placed(self._b, case.view, around, device)
        out = self._poison.expand(p.batch, p.m, p.n).contiguous()
        self._out = Placed(out, case.view, self._poison, device)
        whole = batched and p.batch > 1
        self._calls = [self.arrays] if whole else list(zip(*self.arrays, strict=True))
        self._reference: tuple[torch.Tensor, torch.Tensor] | None = None
        self._chosen = (0, 0, 0, 0)
        self._stale: list[tuple[int, int]] = []
        self._asked, self._lazy = False, ""

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """The whole of a, b and out, as a variant is given them."""
        return self._given_a.given, self._given_b.given, self._out.given

    def call(self, run: Run) -> None:
        """The whole problem: one call a product where the variant takes no batch."""
        for a, b, out in self._calls:
            run(a, b, out)

    def poison(self) -> None:
        """Make every element of out one that only the variant can make right."""
        self._out.clear()
        self._asked = False

    def written(self) -> bool:
        """Is any element of out no longer the poison?"""
        return not bool(self._unwritten(self._out.read()).all())

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
            element = self._out.at(i, j)
            if self._asked and self._unwritten(element).any():
                self._lazy = f"a call returned before it had written c{[i, j]}"
            self._asked = True
            element.copy_(self._poison)
            for changed in (self._given_a.at(i, x), self._a[:, i, x]):
                changed.fill_(value)
            for changed in (self._given_b.at(y, j), self._b[:, y, j]):
                changed.fill_(-value)

    def verdict(self) -> Verdict:
        """Judge what lies in out now, the inputs and the guard bands."""
        with _threads(1):
            got = self._out.read()  # first of all: what is written later comes too late
            if reason := self._lazy or self._touched():
                return Verdict(False, None, f"{self._case}: {reason}")
        expected = self._expected()
        with _threads(1):
            return self._compare(got, *expected)

    def _expected(self) -> tuple[torch.Tensor, torch.Tensor]:
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
        for name, given, mine in (("a", self._given_a, self._a), ("b", self._given_b, self._b)):
            if not torch.equal(bits(given.read()), bits(mine)):
                return f"changes its input {name}"
            if not given.only_inside():
                return f"writes outside its input {name}"
        return "" if self._out.only_inside() else "writes outside out"

    def _unwritten(self, out: torch.Tensor) -> torch.Tensor:
        return bits(out) == bits(self._poison)

    def _compare(
        self, out: torch.Tensor, reference: torch.Tensor, magnitude: torch.Tensor
    ) -> Verdict:
        got, allowance = out.double(), self._allowance(reference, magnitude)
        error = (got - reference).abs()
        rounded = reference.to(self._dtype).double()
        same = (got == rounded) | (got.isnan() & rounded.isnan())
        # Within one rounding of overflow, infinity and the largest number are both right.
        overflow = reference.abs() + allowance > torch.finfo(self._dtype).max
        same |= overflow & got.isinf() & (got.sign() == reference.sign())
        # NaN is never <=; an infinite answer allows no other.
        right = ((error <= allowance) & reference.isfinite()) | same
        over = torch.where(same, 0.0, error / allowance)
        finite = over[over.isfinite()]
        worst = float(finite.max()) if len(finite) else 0.0
        if right.all():
            return Verdict(True, worst)
        a, b, *rest = (
            x.cpu().numpy()
            for x in (self._a.double(), self._b.double(), got, reference, allowance, magnitude)
        )
        unwritten = self._unwritten(out).cpu().numpy()
        why = mistake(a, b, *rest)
        reason = describe(~right.cpu().numpy(), unwritten, rest[0], rest[1], why)
        error_known = worst if finite.numel() == over.numel() else None
        return Verdict(False, error_known, f"{self._case}: {reason}")

    def _allowance(self, reference: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
        """Higham, Accuracy and Stability of Numerical Algorithms, 3.5, with 8 sqrt(k) for k on
        zero-mean data; nothing where every partial sum is an integer that the accumulator holds."""
        k, data = self._case.problem.k, self._case.data
        tf32 = self._accuracy == "tf32"
        if data == "integers" or (data == "wide" and not tf32):
            return torch.zeros_like(reference)
        u = UNIT_ROUNDOFF[self._accuracy]
        growth = k * u / (1 - k * u) if data == "positive" else 8 * k**0.5 * u
        info = torch.finfo(self._dtype)
        smallest_subnormal = info.smallest_normal * info.eps
        rounding = info.eps / 2 * reference.abs() + smallest_subnormal / 2
        return (growth + TF32 * tf32) * magnitude + rounding


def _oracle(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A B and |A| |B| in float64."""
    a64, b64 = a.double(), b.double()
    with _threads(1 if a.numel() * b.shape[-1] < _SMALL else torch.get_num_threads()):
        return _matmul(a64, b64), _matmul(a64.abs(), b64.abs())


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Little work stays on one thread, lest torch's pool spin beside another's."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def judge(
    prepare: Callable[[Problem], Run],
    refuses: Callable[[Problem], str],
    problem: Problem,
    *,
    batched: bool,
    accuracy: str,
    parallel: bool,
    device: str = "cpu",
) -> Verdict:
    """Try all cases until one fails; `parallel` ones more than once, since a race does not show
    every time, and last a long one, in which threads are interrupted however few the cores are."""
    trials = [(case, _REPEATS if parallel else 1) for case in cases(problem, device)]
    trials += [(Case(resized(problem, *_LONG)), _RACES)] * parallel
    worst, refused = 0.0, None
    for seed, (case, repeat) in enumerate(trials):
        if why := refuses(case.problem):
            refused = refused or f"{case}: {why}"
            continue
        run = prepare(case.problem)
        trial = Trial(case, batched, accuracy, seed, device=device)
        for _ in range(repeat):
            trial.poison()
            trial.call(run)
            verdict = trial.verdict()
            if not verdict.ok:
                outside = _reads_outside(run, case, batched, accuracy, seed, device)
                return outside or verdict
            worst = max(worst, verdict.error or 0.0)
    return Verdict(True, worst, refused=refused)


def _reads_outside(
    run: Run, case: Case, batched: bool, accuracy: str, seed: int, device: str
) -> Verdict | None:
    """Right whenever zeros lie round a and b, never when NaN does: it reads what lies there."""

    def right(fill: float) -> bool:
        trial = Trial(case, batched, accuracy, seed, fill, device)
        trial.call(run)
        return trial.verdict().ok

    if [right(fill) for fill in (0, np.nan) * 3] != [True, False] * 3:
        return None
    reason = f"{case}: reads outside its inputs: right only while zeros lie round a and b"
    return Verdict(False, None, reason)
