"""The fixed cost of a call and the rates behind it, from a sweep of problem sizes.

The model is T = T0 + max(W / P_eff, Q / B_eff). A sweep tells its terms apart only with sizes on
both sides: small ones, whose time is nearly all T0, and large ones, whose time is nearly all W / P;
a bandwidth shows only between them, where Q / B exceeds both. What the sweep does not tell gets a
wide interval, down to 0 for T0 and up to infinity for a rate.

Sources: Hockney and Curington, Parallel Computing 10, 1989 (f_1/2: T0 from a straight line);
Williams et al., CACM 2009 (the max).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import fdtri, stdtrit

from sandbox.roofline import Gemm, compulsory_bytes, n_for_efficiency, work

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

LEAST_SIZES = 5


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval; `high` is infinite where the sweep sets no upper limit."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FixedCost:
    """T0 in seconds, P_eff in FLOP/s and B_eff in bytes/s.

    A rate is None where no size is bound by it. Where all sizes have the same intensity the two
    cannot be told apart, and the one that there is counts as `peak_flops`.
    """

    t0_s: Estimate
    peak_flops: Estimate | None
    bandwidth: Estimate | None

    def n_for(self, eta: float) -> float:
        """Square size N that reaches `eta` of P_eff in spite of T0 (`n_for_efficiency`).

        Raises ValueError where eta is outside 0 <= eta < 1, or P_eff is not known.
        """
        if self.peak_flops is None:
            raise ValueError("no size in the sweep is compute-bound, so its peak is not known")
        return n_for_efficiency(eta, self.t0_s.value, self.peak_flops.value)


@dataclass(frozen=True)
class _Model:
    """T0, 1/P and 1/B, half their 95 % intervals, and the sum of the squared relative errors."""

    x: Array
    half: Array
    cost: float


def fit(
    gemms: Sequence[Gemm],
    seconds: Sequence[float],
    moved_bytes: Sequence[float] | None = None,
    most_flops: float = inf,
) -> FixedCost:
    """T0, P_eff and B_eff of a sweep, with 95 % intervals.

    `moved_bytes` is Q for each point, compulsory traffic where it is not given; `most_flops` is an
    upper limit of P_eff, such as the measured peak. The fit minimises the squared errors relative
    to the measured times, so that a time that is far too long has little weight. A bandwidth
    beside a peak enters only where the errors say so (F test at 1 %); the intervals allow for all
    models that the errors do not rule out.

    Raises ValueError where there are fewer than 5 different sizes, or values not positive.
    """
    t, w, q = _points(gemms, seconds, moved_bytes)
    least = np.array([0.0, 1 / most_flops, 0.0])
    # With their order by intensity known, each number of memory-bound sizes is a linear problem.
    rank = np.argsort(np.argsort(w / q))
    models = [_solve(t, w, q, rank < split, least) for split in range(len(t) + 1)]
    simple = min((models[0], models[-1]), key=lambda model: model.cost)
    full = min(models, key=lambda model: model.cost)
    rest = len(t) - 3
    most_cost = full.cost * (1 + fdtri(1, rest, 0.99) / rest)
    chosen = simple if simple.cost <= most_cost else full
    possible = [m for m in models if m.cost <= most_cost]
    low = np.min([m.x - m.half for m in possible], axis=0)
    high = np.max([m.x + m.half for m in possible], axis=0)
    ends = (np.maximum(x, least) for x in (chosen.x, low, high))
    t0, *inverse = (Estimate(*map(float, e)) for e in zip(*ends, strict=True))
    peak, bandwidth = (_rate(e) if e.value else None for e in inverse)
    return FixedCost(t0, peak, bandwidth)


def _points(
    gemms: Sequence[Gemm], seconds: Sequence[float], moved_bytes: Sequence[float] | None
) -> tuple[Array, Array, Array]:
    moved = [compulsory_bytes(g) for g in gemms] if moved_bytes is None else moved_bytes
    if not len(gemms) == len(seconds) == len(moved):
        raise ValueError(f"{len(gemms)} sizes, {len(seconds)} times, {len(moved)} traffics")
    t, w, q = (np.array(v, dtype=float) for v in (seconds, [work(g) for g in gemms], moved))
    if (sizes := len(set(w))) < LEAST_SIZES:
        raise ValueError(f"a fit needs {LEAST_SIZES} different sizes, not {sizes}")
    if not all(np.all((v > 0) & np.isfinite(v)) for v in (t, q)):
        raise ValueError("times and traffics must be positive and finite")
    return t, w, q


def _solve(t: Array, w: Array, q: Array, bound: Array, least: Array) -> _Model:
    """The model with just the `bound` points memory-bound; its cost is that of the maximum."""
    terms = np.column_stack([np.ones_like(t), w * ~bound, q * bound]) / t[:, None]
    size = np.linalg.norm(terms, axis=0)
    free = size > 0
    columns = terms[:, free] / size[free]
    x = np.where(free, least, 0.0)
    x[free] += nnls(columns, 1 - terms @ x)[0] / size[free]
    errors = (x[0] + np.maximum(w * x[1], q * x[2])) / t - 1
    cost = float(errors @ errors)
    spread = np.diag(np.linalg.pinv(columns.T @ columns)) * cost / (len(t) - free.sum())
    half = np.full(3, inf)
    half[free] = stdtrit(len(t) - free.sum(), 0.975) * np.sqrt(spread) / size[free]
    return _Model(x, half, cost)


def _rate(e: Estimate) -> Estimate:
    """The rate whose inverse is in `e`."""
    low, value, high = (1 / x if x else inf for x in (e.high, e.value, e.low))
    return Estimate(value, low, high)
