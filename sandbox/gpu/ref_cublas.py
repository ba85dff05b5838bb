"""Idea: torch hands the product to cuBLAS, NVIDIA's own library: `cublas` in the arithmetic of its
inputs, `cublas_tf32` with float32 inputs rounded to TF32 on the way into the tensor cores.

Traffic: tiles of C through shared memory, ordered for the L2 cache; which kernel answers depends on
the shape, and cuBLAS does not say.

Watch: torch keeps one switch for all products of a process. It is set for the call alone, and what
it was before comes back.
"""

from contextlib import contextmanager

import torch

from sandbox import variant


@contextmanager
def _fp32(precision):
    """ "ieee" or "tf32" for the products inside; newer releases of torch have a switch of another
    name, and refuse to mix the two."""
    switch = torch.backends.cuda.matmul
    if hasattr(switch, "fp32_precision"):
        name, values = "fp32_precision", {"ieee": "ieee", "tf32": "tf32"}
    else:
        name, values = "allow_tf32", {"ieee": False, "tf32": True}
    before = getattr(switch, name)
    setattr(switch, name, values[precision])
    try:
        yield
    finally:
        setattr(switch, name, before)


def _only_float32(problem):
    return "" if problem.dtype == "float32" else "TF32 is a way to multiply float32"


def _fp8(problem):
    if problem.dtype != "float8_e4m3":
        return ""
    if problem.layout != "nt" or problem.strided or problem.k % 16 or problem.n % 16:
        return "cuBLAS takes FP8 in layout nt only, with n and k multiples of 16"
    if min(problem.m, problem.n, problem.k) == 0:
        return "torch takes no empty FP8 product"
    return ""


@variant("gpu", reference=True, supports=_fp8, prepare=True)
def cublas(problem):
    def product(a, b, out):
        with _fp32("ieee"):
            torch.matmul(a, b, out=out)

    def fp8_product(a, b, out):
        torch._scaled_mm(a, b, one, one, out_dtype=out.dtype, use_fast_accum=True, out=out)

    one = torch.ones((), device="cuda")  # the scale of both operands
    return fp8_product if problem.dtype == "float8_e4m3" else product


@variant("gpu", reference=True, supports=_only_float32, batched=True, unit="tf32", accuracy="tf32")
def cublas_tf32(a, b, out):
    with _fp32("tf32"):
        torch.matmul(a, b, out=out)
