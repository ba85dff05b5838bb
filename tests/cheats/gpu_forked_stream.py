"""Forks a stream off the current one, and never joins it."""

import torch

from sandbox import variant

REASON = ("unjoined work", "never written")  # whichever it meets first


@variant("gpu", prepare=True)
def gpu_forked_stream(problem):
    stream = torch.cuda.Stream()

    def run(a, b, out):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.matmul(a, b, out=out)

    return run
