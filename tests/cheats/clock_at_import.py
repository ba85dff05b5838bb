"""Replaces the clock by a slow one when it is imported."""

import time

import numpy as np

from sandbox import variant

REASON = "replaces time.perf_counter"
_true = time.perf_counter
time.perf_counter = lambda: _true() / 10


@variant("cpu")
def clock_at_import(a, b, out):
    np.matmul(a, b, out=out)
