"""What a variant really moves, for caches of every size, beside the pebble-game bound."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path

from sandbox import plan, processes
from sandbox.arguments import Parser, capacity, picture, positive, shapes, writable
from sandbox.machine import catalogue, detect, device
from sandbox.problem import ITEMSIZE, LAYOUTS, Problem
from sandbox.processes import Lost
from sandbox.registry import BrokenFile, Variant, discover
from sandbox.report import curves
from sandbox.report.console import Terminal
from sandbox.result import Point
from sandbox.traffic import WRONG
from sandbox.traffic.levels import LINE_BYTES
from sandbox.traffic.on_gpu import Chip
from sandbox.traffic.simulated import LONG_S, estimated_s, points, powers_of_two
from sandbox.worker import Absent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = Parser(prog="sandbox pebble", description=__doc__)
    add = p.add_argument
    add("names", nargs="+", metavar="NAME", help="a variant, cpu, gpu, or a file with variants")
    add("--n", type=positive, default=256, metavar="N", help="N x N x N (default 256)")
    add("--shape", type=shapes, metavar="MxNxK", help="C (M x N) = A (M x K) B (K x N)")
    add("--dtype", choices=ITEMSIZE, default="float32")
    add("--layout", choices=LAYOUTS, default="nn", help="t: the operand lies transposed in memory")
    add("--fast-memory", type=capacity, metavar="32KiB", help="a cache of this size alone")
    add("--machine", metavar="NAME", help="the GPU of a catalogue machine instead of this one's")
    add("--plot", type=picture, metavar="FILE", help="draw the curves (svg, pdf, png)")
    add("--json", type=writable, metavar="FILE", help="save the points; - is standard output")
    add("--yes", action="store_true", help="even if it takes minutes")
    options = p.parse_intermixed_args(arguments)
    p.apart(options, "plot", "json")
    m, n, k = options.shape[0] if options.shape else (options.n,) * 3
    problem = Problem(m, n, k, dtype=options.dtype, layout=options.layout)
    word = ITEMSIZE[problem.dtype]
    least = max(LINE_BYTES, 3 * word)
    try:
        if options.shape and len(options.shape) > 1:
            raise ValueError("--shape: one shape at a time")
        if options.fast_memory and options.fast_memory < least:
            raise ValueError(
                f"--fast-memory {options.fast_memory}: a cache holds a line of {LINE_BYTES} bytes "
                f"and three words at least, so {least} bytes or more"
            )
        named_chip = None
        if options.machine is not None:
            named_chip = Chip.of(catalogue.named(options.machine))
            if named_chip is None:
                raise ValueError(f"{options.machine} has no GPU: name one that has, as h200")
        registry = discover()
        named: list[Variant] = []
        for name in options.names:
            named += [v for v in plan.named(registry, name) if v not in named]
        plan.fits([(v, 1) for v in named], [problem])
        seconds = estimated_s([problem], sum(v.device == "cpu" for v in named))
        if seconds > LONG_S and not options.yes:
            raise ValueError(
                f"{problem.shape} takes about {seconds / 60:.0f} minutes to trace: "
                "choose a smaller size, or give --yes"
            )
    except (ValueError, BrokenFile) as error:
        p.exit(2, f"error: {error}\n")
    context = processes.context(detect.usable_cores())
    to_stdout = options.json == Path("-")
    out, err = Terminal(sys.stderr if to_stdout else sys.stdout), Terminal(sys.stderr)
    found: list[Point] = []
    failed: dict[str, str] = {}
    code = 0  # 1 where a variant is wrong or broken; not to be traceable is neither
    limit_s = inf if options.yes else LONG_S
    try:
        with err.status("starting", spinner="line") as status:
            chip = named_chip
            if chip is None and any(v.device == "gpu" for v in named):
                chip = Chip.of_gpu(processes.in_child(context, device.gpu))
            for v in named:
                status.update(f"{problem.shape}: tracing {v.name}")
                sizes = [options.fast_memory] if options.fast_memory else powers_of_two(problem)
                try:
                    answer = points(v, problem, sizes, chip, limit_s)
                except Absent as why:
                    answer = str(why)
                except Lost as why:
                    answer, code = str(why), 1
                    if why.traceback:
                        err.print(f"{v.name}:\n{why.traceback}", soft_wrap=True)
                if isinstance(answer, str):
                    failed[v.name] = answer
                    code = 1 if answer.startswith(WRONG) else code
                else:
                    found += answer
    except KeyboardInterrupt:
        code = 130
    if found:
        out.print(curves.tables(found))
    for name, reason in failed.items():
        err.print(f"error: {name} cannot be traced: {reason}", soft_wrap=True)
    if options.plot and found:
        curves.plot(found, options.plot)
    if options.json:
        text = json.dumps([point.to_json() for point in found], indent=1) + "\n"
        if to_stdout:
            Terminal(sys.stdout).write(text)
        else:
            options.json.write_text(text, encoding="utf-8")
    return code or (2 if failed and not found else 0)
