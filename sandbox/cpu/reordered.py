"""Idea: the same three loops in another order. With j innermost, B and C are walked along their
rows, one word after the other. The compiler sees that and works on whole vectors.

Traffic: every byte of a fetched line is used now. But each step of the inner loop loads a word of
B, loads a word of C and stores it again, for one multiply-add: 3mnk words that L1 has to feed.

Watch: C is set to zero first, since its elements grow a little in every step of k.
"""

from numba import njit

from sandbox import variant


@variant("cpu", after="naive")
@njit
def reordered(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    out[:, :] = 0
    for i in range(m):
        for p in range(k):
            for j in range(n):
                out[i, j] += a[i, p] * b[p, j]
