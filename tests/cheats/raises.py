"""Raises an exception."""

from sandbox import variant

REASON = "ValueError: no such shape (during verification)"


@variant("cpu")
def raises(a, b, out):
    raise ValueError("no such shape")
