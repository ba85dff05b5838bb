"""Keeps the product by the address of its inputs and copies it."""

from sandbox import variant

REASON = "wrong"
_products = {}


@variant("cpu")
def remembers_product(a, b, out):
    key = out.shape, a.ctypes.data, b.ctypes.data
    if key not in _products:
        _products[key] = a @ b
    out[...] = _products[key]
