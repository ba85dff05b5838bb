"""Replaces the clock by a slow one when it is called."""

import time

import numpy as np

from sandbox import variant

REASON = "replaces time.perf_counter"
_true = time.perf_counter


@variant("cpu")
def clock_at_call(a, b, out):
    time.perf_counter = lambda: _true() / 10
    np.matmul(a, b, out=out)
