"""Keeps the product by the content of its inputs: right, but no product is computed twice."""

import numpy as np

from sandbox import variant

REASON = "remembers: "
_products = {}


@variant("cpu")
def remembers_content(a, b, out):
    key = out.shape, a.tobytes(), b.tobytes()
    if key not in _products:
        _products.clear()
        _products[key] = np.einsum("ip,pj->ij", a.astype(np.longdouble), b)
    out[...] = _products[key]
