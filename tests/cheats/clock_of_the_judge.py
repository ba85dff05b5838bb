"""Replaces the judge's own clock by a slow one."""

import numpy as np

from sandbox import measure, variant

REASON = "replaces sandbox.measure.clock"
_true = measure.clock


@variant("cpu")
def clock_of_the_judge(a, b, out):
    measure.clock = lambda: _true() / 10
    np.matmul(a, b, out=out)
