"""Idea: unroll and jam. Four rows of C are computed in one pass over j, so that each word of B,
once loaded, serves four multiply-adds. (Unrolling k by itself was slower: the loop over j does as
much work as before.)

Traffic: loads of B fall by four, to mnk/4 words. C is still loaded and stored in every step of k:
2mnk words that only L1 can feed.

Watch: rows that four does not divide. They go one by one at the end.
"""

from numba import njit

from sandbox import variant

MR = 4  # rows of C that share a row of B


@variant("cpu", after="reordered")
@njit(fastmath={"contract"})  # a multiplication and an addition may become one instruction
def unrolled(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    m_main = m - m % MR
    out[:, :] = 0
    for i in range(0, m_main, MR):
        c0, c1, c2, c3 = out[i], out[i + 1], out[i + 2], out[i + 3]
        for p in range(k):
            a0, a1, a2, a3 = a[i, p], a[i + 1, p], a[i + 2, p], a[i + 3, p]
            row = b[p]
            for j in range(n):
                c0[j] += a0 * row[j]
                c1[j] += a1 * row[j]
                c2[j] += a2 * row[j]
                c3[j] += a3 * row[j]
    for i in range(m_main, m):
        for p in range(k):
            for j in range(n):
                out[i, j] += a[i, p] * b[p, j]
