"""Makes the device's clock run slow."""

import torch

from sandbox import variant

REASON = "replaces Event.elapsed_time"
elapsed_time = torch.cuda.Event.elapsed_time


@variant("gpu")
def gpu_event_clock(a, b, out):
    torch.cuda.Event.elapsed_time = lambda self, end: elapsed_time(self, end) / 10
    torch.matmul(a, b, out=out)
