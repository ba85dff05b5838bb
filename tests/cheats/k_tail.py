"""Leaves out what remains of k after multiples of 8."""

import numpy as np

from sandbox import variant

REASON = "33 x 1 x 65: 33 of 33 elements wrong"


@variant("cpu")
def k_tail(a, b, out):
    k = len(b) // 8 * 8 or len(b)
    np.matmul(a[:, :k], b[:k], out=out)
