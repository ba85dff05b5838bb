"""Writes nothing."""

from sandbox import variant

REASON = "never written"


@variant("cpu")
def nothing(a, b, out):
    pass
