"""What the compiler made of a variant: registers, spills, shared memory, and which instructions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sandbox import worker
from sandbox.problem import Problem
from sandbox.registry import Variant


@dataclass(frozen=True)
class Code:
    """One compiled kernel of a variant.

    `registers`: a thread's on a GPU; the vector registers that occur, on a CPU. `spills`: bytes of
    memory for what found no register, a thread. `instructions`: how often each that matters stands
    in the code. The rest is a GPU's: warps a block, blocks of the launch, the warps that are
    resident on a multiprocessor over the most that it can hold, and what allows no more.
    """

    variant: str
    kernel: str
    target: str
    compiler: str
    registers: int
    spills: int
    shared_bytes: int
    instructions: dict[str, int]
    warps: int | None = None
    grid: tuple[int, int, int] | None = None
    occupancy: float | None = None
    limited_by: str | None = None


class Nothing(Exception):
    """There is no code to look at, and why: one line."""


def inspect(v: Variant, problem: Problem, target: str | None) -> list[Code] | str:
    """The kernels that the variant uses for a problem, or why there are none.

    In a child process only: it imports the variant, and makes it compile without caring what else
    uses the compilers. On a CPU the variant runs once, on a GPU nothing does. `target` is a GPU's,
    as "sm_90", default this machine's.
    """
    os.dup2(2, 1)  # what a variant prints must not mix with a table or JSON
    if why := worker.why_not({"cpu": "numba", "gpu": "triton"}[v.device]):
        return why
    try:
        if v.device == "gpu":
            from sandbox.compiled import gpu

            return gpu.codes(v, problem, target)
        from sandbox.compiled import cpu

        return cpu.codes(v, problem)
    except Nothing as why:
        return str(why)


def missing(v: Variant, codes: Iterable[Code] | str) -> list[str]:
    """Those of the variant's `expects` (see `sandbox.variant`) that no kernel contains."""
    if isinstance(codes, str):
        return []
    found = {name for code in codes for name in code.instructions}

    def occurs(wanted: str) -> bool:
        return any(fnmatchcase(name, p) for name in found for p in wanted.split("|"))

    return [wanted for wanted in v.expects if not occurs(wanted)]
