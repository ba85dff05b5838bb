"""Crashes, but only after many calls on one problem."""

import ctypes
from collections import Counter

import numpy as np

from sandbox import variant

REASON = "killed by SIGSEGV during timing"
_calls = Counter()


@variant("cpu")
def dies_when_timed(a, b, out):
    _calls[out.shape] += 1
    if _calls[out.shape] > 300:
        ctypes.string_at(0)
    np.matmul(a, b, out=out)
