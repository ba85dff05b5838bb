"""Multiplies on a stream of its own, which who times the current stream does not see."""

import torch

from sandbox import variant

REASON = ("works on another stream", "never written")  # whichever it meets first


@variant("gpu", prepare=True)
def gpu_other_stream(problem):
    stream = torch.cuda.Stream()

    def run(a, b, out):
        with torch.cuda.stream(stream):
            torch.matmul(a, b, out=out)

    return run
