"""Takes b for its transpose where that has the same shape."""

from sandbox import variant

REASON = "a times b transposed"


@variant("cpu")
def transposes_b(a, b, out):
    out[...] = a @ (b.T if len(b) == b.shape[1] else b)
