"""The storage nearer than any cache: what compiled code holds between a load and a store."""

from __future__ import annotations

import re

import llvmlite.binding as llvm

from sandbox.machine import detect
from sandbox.traffic.instrument import Untraceable, functions, size

_GENERAL_REGISTERS = 32 * 8
_NAME = r'%(?:"[^"]*"|[-\w.$]+)'


def near_bytes(text: str, assembly: str) -> int:
    """Bytes that a kernel holds outside of the memory that is traced.

    The register file and the stack frames (spills) of the machine code. The trace follows the order
    of the LLVM text, which the code generator may have changed within a block; where more values
    are alive in that order than registers and frames hold, those count. So every operand of a
    multiplication is, when it is multiplied, in the simulated cache or among these bytes, and the
    pebble bound at their sum holds for the trace.
    """
    frames = alive = 0
    module = llvm.parse_assembly(text)
    for name, _ in functions(text):
        frames += frame_bytes(assembly, name)
        alive += live_bytes(module.get_function(name))  # each may have been called by another
    return max(detect.vector_registers_bytes() + _GENERAL_REGISTERS + frames, alive)


def frame_bytes(assembly: str, name: str) -> int:
    """The stack that a function takes: what it pushes and what it subtracts from the pointer."""
    found = re.search(rf'^"?{re.escape(name)}"?:\n(.*?)^\.Lfunc_end', assembly, re.M | re.S)
    body = found[1] if found else assembly
    pushes = len(re.findall(r"\tpush", body)) * 8
    taken = re.findall(r"\tsubq?\t\$(\d+), %rsp|\tsub\tsp, sp, #(\d+)(?:, lsl #(12))?", body)
    taken += [("", x, "") for x in re.findall(r"\[sp, #-(\d+)\]!", body)]
    return pushes + sum(int(x or y) << int(shift or 0) for x, y, shift in taken)


def live_bytes(function: llvm.ValueRef) -> int:
    """The most bytes of values that may hold matrix data and are alive at once.

    Backward data flow. Pointers hold none, nor do integers where none is loaded or reinterpreted.
    """
    text, widths = str(function), dict[str, int]()
    integers = re.search(
        r"= load (?:volatile )?<?[^,]*\bi\d+|bitcast (?:<|half|float|double)", text
    )
    indices = r"ptr|void|label" if integers else r"ptr|void|label|i\d+"
    steps: dict[str, list[tuple[str, set[str]]]] = {}  # in each block: what is made, what is used
    edges: list[tuple[str, str, set[str], set[str]]] = []  # from, to, what flows, as what
    for block in function.blocks:
        label = re.search(rf"^({_NAME[1:]}):", str(block), re.M)
        here = "%" + (label[1] if label else "entry")
        made = steps[here] = []
        merges = []
        for instruction in block.instructions:
            line, type_name = str(instruction).strip(), str(instruction.type)
            left, equals, right = line.partition(" = ")
            name = left if equals and left.startswith("%") else ""
            if name and not re.fullmatch(indices, type_name):
                widths[name] = _width(type_name)
            if right.startswith("phi "):
                merges.append((name, re.findall(rf"\[ ([^,]+), ({_NAME}) \]", right)))
            else:
                made.append((name, set(re.findall(_NAME, right if equals else line))))
        for before in dict.fromkeys(x for _, sources in merges for _, x in sources):
            flows = {value for _, sources in merges for value, x in sources if x == before}
            edges.append((before, here, flows, {name for name, _ in merges}))
        edges += [(here, to, set(), set()) for _, used in made[-1:] for to in used]
    at_end: dict[str, set[str]] = {here: set() for here in steps}
    most, changed = 0, True
    while changed:
        at_start = {}
        for here, made in steps.items():
            alive = set(at_end[here])
            for name, used in reversed(made):
                most = max(most, sum(widths[x] for x in alive))
                alive = (alive - {name}) | (used & widths.keys())
            at_start[here] = alive
        changed = False
        for before, to, flows, merged in edges:
            if to in at_start:
                more = (flows & widths.keys()) | at_start[to] - merged
                changed |= not more <= at_end[before]
                at_end[before] |= more
    return most


def _width(type_name: str) -> int:
    try:
        return size(type_name)
    except Untraceable:  # a value of no number's type is none of a matrix
        return 0
