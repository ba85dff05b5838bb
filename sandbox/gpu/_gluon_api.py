"""Gluon under one set of names: all that differs between the Triton releases that work, 3.6 on."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import ampere, hopper
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # 3.6 has the latter alone
copy_async = getattr(ampere.async_copy, "async_load", None)  # 3.9 on
copy_async = copy_async or ampere.async_copy.async_copy_global_to_shared
tma_load = getattr(hopper.tma, "async_load", None) or hopper.tma.async_copy_global_to_shared
tma_store = getattr(hopper.tma, "async_store", None) or hopper.tma.async_copy_shared_to_global

_ELEMENT = {
    torch.float32: gl.float32,
    torch.float16: gl.float16,
    torch.bfloat16: gl.bfloat16,
    torch.float8_e4m3fn: gl.float8e4nv,
}


def from_triton(function):
    """A device function written for Triton, for Gluon to call."""
    return gluon.jit(function.fn)


def descriptor(x, block):
    """Of the matrix x in blocks, swizzled so that neither TMA nor wgmma meets a bank twice."""
    layout = gl.NVMMASharedLayout.get_default_for(block, _ELEMENT[x.dtype])
    return TensorDescriptor.from_tensor(x, block, layout)
