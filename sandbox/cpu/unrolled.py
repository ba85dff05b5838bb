"""Idea: unroll and jam. Two rows of C and two steps of k share one pass of the inner loop: each
word of B, once loaded, serves two rows, and each word of C takes two products before it is stored.
(Unrolling k alone, or jamming rows alone, gains nothing: it takes both to halve the traffic.)

Traffic: four multiply-adds load 2 words of B and 2 of C and store 2, so L1 feeds 1.5 mnk words,
half of what it did. B is read m/2 times instead of m.

Watch: the stores are the limit, and the second step of k halves them. An odd row or an odd step is
left over, and goes through the loop at the end.
"""

from numba import njit

from sandbox import variant


@variant("cpu", after="reordered")
@njit(fastmath={"contract"})  # a multiplication and an addition may become one instruction
def unrolled(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    m_even, k_even = m - m % 2, k - k % 2
    out[:, :] = 0
    for i in range(0, m_even, 2):
        for p in range(0, k_even, 2):
            a00, a01, a10, a11 = a[i, p], a[i, p + 1], a[i + 1, p], a[i + 1, p + 1]
            for j in range(n):
                b0, b1 = b[p, j], b[p + 1, j]
                out[i, j] += a00 * b0 + a01 * b1
                out[i + 1, j] += a10 * b0 + a11 * b1
    # What is left: the last step of an odd k in every row, and all steps of a last, odd row.
    for i in range(m):
        for p in range(k_even if i < m_even else 0, k):
            for j in range(n):
                out[i, j] += a[i, p] * b[p, j]
