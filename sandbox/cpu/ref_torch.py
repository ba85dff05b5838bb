"""Idea: torch on the CPU hands the product to MKL or oneDNN.

Traffic: packed panels, as in NumPy's library; which one answers depends on the processor.

Watch: the NumPy arrays are shared with torch, not copied; that costs about a microsecond a call.
"""

import torch

from sandbox import variant


def _strides(problem):
    return "torch takes no negative strides" if problem.strided else ""


@variant(
    "cpu",
    name="torch",
    reference=True,
    parallel=True,
    batched=True,
    unit={"float16": "fp32"},
    supports=_strides,
)
def torch_matmul(a, b, out):
    torch.matmul(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))
