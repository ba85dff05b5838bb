"""Reads at address zero."""

import ctypes

from sandbox import variant

REASON = "killed by SIGSEGV during verification"


@variant("cpu")
def segfaults(a, b, out):
    ctypes.string_at(0)
