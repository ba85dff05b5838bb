"""What the compiler made of a variant, on any machine: `python -m sandbox compiled`.

Nothing is executed on a GPU, so that none is needed; a CPU's variant runs once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from sandbox import plan, processes
from sandbox.arguments import Parser, positive, writable
from sandbox.compiled import Code, inspect, missing
from sandbox.compiled.occupancy import ARCHITECTURES
from sandbox.machine import detect
from sandbox.problem import ITEMSIZE, LAYOUTS, Problem
from sandbox.registry import BrokenFile, Variant, discover
from sandbox.report.code import report
from sandbox.report.console import Terminal

TARGETS = [f"sm_{capability}" for capability in ARCHITECTURES]


def _target(text: str) -> str:
    if text.removesuffix("a") not in TARGETS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(TARGETS)}")
    return text.removesuffix("a")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 where code lacks what its variant expects."""
    p = Parser(prog="sandbox compiled", description=__doc__)
    add = p.add_argument
    add("names", nargs="+", metavar="NAME", help="a step, cpu, gpu, all, or a file with variants")
    add("--target", type=_target, metavar="sm_90", help="a GPU to compile for (default: this one)")
    add("--n", type=positive, default=512, metavar="N", help="N x N x N (default 512)")
    add("--dtype", choices=ITEMSIZE, default="float32")
    add("--layout", choices=LAYOUTS, default="nn", help="t: the operand lies transposed in memory")
    add("--json", type=writable, metavar="FILE", help="save the figures; - is standard output")
    options = p.parse_intermixed_args(arguments)
    problem = Problem(options.n, options.n, options.n, dtype=options.dtype, layout=options.layout)
    registry, to_stdout = discover(), str(options.json) == "-"
    out, err = Terminal(sys.stderr if to_stdout else sys.stdout), Terminal(sys.stderr)
    try:
        named = [v for name in options.names for v in plan.named(registry, name)]
        cpu = [(v, 1) for v in named if v.device == "cpu"]
        if cpu and options.target:
            raise ValueError(f"{cpu[0][0].name} is compiled for this CPU: leave --target out")
        if cpu:  # they run
            plan.fits(cpu[:1], [problem])
    except (ValueError, BrokenFile) as error:
        p.exit(2, f"error: {error}\n")
    chosen = [v for v in registry.variants if v in named]
    context = processes.context(detect.usable_cores())
    found: list[tuple[Variant, list[Code] | str]] = []
    lost = []
    for v in chosen:
        try:
            answer = processes.in_child(context, inspect, v, problem, options.target)
            found.append((v, answer))
        except processes.Lost as why:
            lost.append(v)
            err.print(f"{v.name}: {why.traceback or why}", soft_wrap=True)
        except KeyboardInterrupt:
            return 130
    codes = [code for _, answer in found if not isinstance(answer, str) for code in answer]
    if not codes and not lost:
        p.exit(2, f"error: {found[0][0].name}: {found[0][1]}\n")
    out.print(report(problem, found))
    text = json.dumps([asdict(code) for code in codes], indent=1) + "\n"
    if to_stdout:
        Terminal(sys.stdout).write(text)
    elif options.json:
        options.json.write_text(text, encoding="utf-8")
    return int(bool(lost) or any(missing(v, answer) for v, answer in found))
