"""Idea: NumPy hands the product to OpenBLAS, whose kernels are written in assembly by hand.

Traffic: packs panels of both operands for the caches, as Goto and van de Geijn describe (ACM TOMS
34(3), 2008).

Watch: which kernel OpenBLAS chose stands above the table; OPENBLAS_CORETYPE overrides its choice.
"""

import numpy as np

from sandbox import variant


@variant("cpu", name="numpy", reference=True, parallel=True, batched=True, unit={"float16": "fp32"})
def numpy_matmul(a, b, out):
    np.matmul(a, b, out=out)
