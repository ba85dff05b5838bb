"""The process that counters watch: `python -m sandbox.traffic.counted JSON` calls one variant.

On a GPU the profiler is on during the calls alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from sandbox import cases, verify
from sandbox.problem import Problem
from sandbox.registry import discover, load, read


def main(what: str) -> None:
    """Call the variant `calls` times on the problem, after one call that compiles."""
    asked = json.loads(what)
    path, problem = Path(asked["path"]), Problem(**asked["problem"])
    built_in = [v for v in discover().variants if v.path == path]
    v = next(v for v in built_in or read(path) if v.name == asked["name"])
    if v.device == "cpu":
        torch.set_num_threads(asked["threads"])
    run = load(v).run(problem)
    accuracy = v.accuracy_for(problem.dtype)
    trial = verify.Trial(cases.Case(problem), v.batched, accuracy, 0, device=v.device)
    trial.call(run)
    if v.device == "gpu":
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
    for _ in range(asked["calls"]):
        trial.call(run)
    if v.device == "gpu":
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main(sys.argv[1])
