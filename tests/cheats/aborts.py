"""Aborts, as a failed assertion in C does."""

import os

from sandbox import variant

REASON = "killed by SIGABRT during verification"


@variant("cpu")
def aborts(a, b, out):
    os.abort()
