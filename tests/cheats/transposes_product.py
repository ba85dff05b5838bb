"""Gives the transpose of the product where that has the same shape."""

from sandbox import variant

REASON = "the transpose of the product"


@variant("cpu")
def transposes_product(a, b, out):
    out[...] = (a @ b).T if len(a) == b.shape[1] else a @ b
