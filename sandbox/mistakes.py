"""A wrong answer in words: how many elements, in what pattern, and by which well-known mistake."""

from __future__ import annotations

import numpy as np

TF32 = 2 * 2.0**-10  # both inputs lose all but 10 bits, by truncation at worst


def describe(
    bad: np.ndarray, unwritten: np.ndarray, got: np.ndarray, reference: np.ndarray, mistake: str
) -> str:
    """Which elements (batch, m, n) are wrong, in what pattern, and the first of them."""
    if unwritten[bad].all():
        kind = "never written"
    else:
        kind = "NaN" if np.isnan(got[bad]).all() else "wrong"
    first = tuple(int(x) for x in np.argwhere(bad)[0])
    index = list(first if bad.shape[0] > 1 else first[1:])
    value = "unwritten" if unwritten[first] else f"{got[first]:.9g}"
    what = f"{np.count_nonzero(bad)} of {bad.size} elements {kind}"
    what = ", ".join(filter(None, (what, _edge(bad), mistake)))
    return f"{what}; first c{index} = {value}, not {reference[first]:.9g}"


def mistake(
    a: np.ndarray,
    b: np.ndarray,
    got: np.ndarray,
    reference: np.ndarray,
    allowance: np.ndarray,
    magnitude: np.ndarray,
) -> str:
    """A well-known way of being wrong that gives just this answer; all in float64."""
    (_, m, k), n = a.shape, b.shape[2]
    if not got.any():
        return "all zero"
    others = {}
    if m == n > 1:
        others["the transpose of the product"] = reference.swapaxes(1, 2)
    if n == k > 1:
        others["a times b transposed"] = np.matmul(a, b.swapaxes(1, 2))
    if m == k > 1:
        others["a transposed times b"] = np.matmul(a.swapaxes(1, 2), b)
    for name, other in others.items():
        if (abs(got - other) <= allowance + 1e-5 * abs(other)).all():
            return name
    error = abs(got - reference)
    if (error > allowance).mean() < 0.1:  # rounding spares few
        return ""
    for name, rounding in (("TF32", TF32), ("BF16", 8 * TF32)):
        if (error <= allowance + rounding * magnitude).all():
            return f"no more accurate than {name}"
    return ""


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
