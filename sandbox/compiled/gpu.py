"""What Triton and ptxas made for a GPU, which need not be there: nothing is executed."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from sandbox import registry
from sandbox.compiled import Code, Nothing
from sandbox.compiled.occupancy import ARCHITECTURES, occupancy
from sandbox.problem import Problem
from sandbox.registry import Variant

if TYPE_CHECKING:
    from sandbox.compiled.stand_in import Launch

_OPCODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)")
_USED = re.compile(r"REG:(\d+) STACK:(\d+)")
_MATTER = (
    *("FFMA*", "DFMA", "HFMA2", "*MMA"),  # multiply-adds, without and with tensor cores
    *("LDG", "LDGSTS", "UTMALDG", "STG", "UTMASTG", "RED", "ATOMG"),  # device memory
    *("LDS", "LDSM", "STS", "STSM", "LDTM", "STTM"),  # shared and tensor memory
    *("LDL", "STL"),  # local memory: what found no register
)


def counted(sass: str) -> dict[str, int]:
    """How often the instructions that matter stand in disassembled code, without modifiers."""
    count = Counter(_OPCODE.findall(sass))
    return {op: count[op] for p in _MATTER for op in sorted(count) if fnmatchcase(op, p)}


def codes(v: Variant, problem: Problem, target: str | None) -> list[Code]:
    """Every kernel that the variant would launch on the target, as it would launch it.

    Raises Nothing where there is no target, or where the variant refuses the problem, asks for more
    than the target has, or launches nothing of its own.
    """
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as ever, without Triton 3.9's warning
    import triton
    from triton.runtime.errors import OutOfResources

    from sandbox.compiled import stand_in

    capability = int(target.removeprefix("sm_")) if target else _here()
    with stand_in.gpu(capability, ARCHITECTURES[capability]) as launches:
        kernel = registry.load(v)
        if why := kernel.refuses(problem):
            raise Nothing(why)
        run = kernel.run(problem)
        try:
            for operands in stand_in.operands(problem, v.batched):
                run(*operands)
        except OutOfResources as error:
            raise Nothing(f"does not fit: {str(error).rstrip('.')}") from None
    if not launches:
        raise Nothing("launches no Triton kernel")
    once = {(x.kernel, x.cubin): x for x in launches}.values()
    return [_code(v, x, capability, f"Triton {triton.__version__}") for x in once]


def _here() -> int:
    import torch

    if not torch.cuda.is_available():
        raise Nothing("there is no GPU here: name one to compile for, as --target sm_90")
    major, minor = torch.cuda.get_device_capability()
    capability: int = 10 * major + minor
    if capability not in ARCHITECTURES:
        raise Nothing(
            f"this GPU, sm_{capability}, is not known: name one near it, as --target sm_90"
        )
    return capability


def _code(v: Variant, launch: Launch, capability: int, compiler: str) -> Code:
    from triton import knobs

    tool = knobs.nvidia.cuobjdump.path
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(launch.cubin)
        file.flush()
        command = [tool, "-res-usage", "-sass", file.name]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = _USED.search(said)
    assert used, "cuobjdump tells no registers"
    registers, stack = int(used[1]), int(used[2])
    warps, shared = launch.metadata.num_warps, launch.metadata.shared
    resident, limit = occupancy(ARCHITECTURES[capability], warps, registers, shared)
    return Code(
        variant=v.name,
        kernel=launch.kernel,
        target=f"sm_{capability}",
        compiler=compiler,
        registers=registers,
        spills=stack,
        shared_bytes=shared,
        instructions=counted(said),
        warps=warps,
        grid=launch.grid,
        occupancy=resident,
        limited_by=limit,
    )
