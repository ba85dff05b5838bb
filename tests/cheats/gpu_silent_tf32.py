"""Lets the tensor cores round float32 to TF32, and does not say so."""

import torch

from sandbox import variant

REASON = "no more accurate than TF32"


@variant("gpu")
def gpu_silent_tf32(a, b, out):
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.matmul(a, b, out=out)
