"""Compare variants of matrix multiplication with the libraries, the roofline and the pebble game.

python -m sandbox.compare tiled
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # before anything else is imported: that can be interrupted, too
    from sandbox.__main__ import main as command

    sys.exit(command(["compare", *sys.argv[1:]]))

from argparse import Namespace
from collections.abc import Sequence
from math import inf
from pathlib import Path

from rich.text import Text

from sandbox import plan, processes, runner
from sandbox.arguments import Parser, capacity, picture, positive, seconds, shapes, sizes, writable
from sandbox.judgement import article_storage
from sandbox.machine import Machine, catalogue, detect
from sandbox.machine.here import this_machine
from sandbox.problem import ITEMSIZE, LAYOUTS, Problem
from sandbox.registry import DEVICES, BrokenFile, Registry, Variant, discover
from sandbox.report.console import Terminal
from sandbox.report.counters import counters
from sandbox.report.explain import explain
from sandbox.report.files import as_csv, as_json
from sandbox.report.levels import levels
from sandbox.report.table import Whole, report, row_name
from sandbox.report.traffic import traffic
from sandbox.result import Result
from sandbox.traffic.counters import NotCounted, counted
from sandbox.traffic.levels import Cache, of_bytes, of_catalogue, of_this_machine
from sandbox.traffic.on_gpu import Chip
from sandbox.traffic.simulated import LONG_S, estimated_s, simulated

_STDOUT = Path("-")
_STORAGE = "what is nearer than DRAM: all on the chip, or the last-level cache alone"


def parser() -> Parser:
    """The command's arguments."""
    p = Parser(prog="sandbox.compare", description=(__doc__ or "").splitlines()[0])
    p.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a step (with the ladder up to it), cpu, gpu, all, or a file with variants",
    )
    add = p.add_argument
    add("--n", type=sizes, default=[], metavar="256,512", help="square products (default 512)")
    add("--shape", type=shapes, default=[], metavar="MxNxK", help="C (M x N) = A (M x K) B (K x N)")
    add("--batch", type=positive, default=1, metavar="B", help="so many independent products")
    add("--dtype", choices=ITEMSIZE, default="float32")
    add("--layout", choices=LAYOUTS, default="nn", help="t: the operand lies transposed in memory")
    add("--threads", type=positive, metavar="T", help="for what is parallel (default: 1, and all)")
    add("--cache", choices=("warm", "cold"), default="warm", help="cold: flushed before each call")
    add("--machine", metavar="NAME", help="ceilings of a catalogue machine instead of this one")
    add("--storage", choices=("all", "article"), default="all", help=_STORAGE)
    add("--levels", action="store_true", help="the roofline at every memory level")
    add("--explain", action="store_true", help="where the time goes; with 5 sizes, a fit of T0")
    add("--rounds", type=positive, default=9, metavar="R", help="visits of each row (default 9)")
    add("--timeout", type=seconds, default=60.0, metavar="S", help="seconds a stage (default 60)")
    add("--json", type=writable, metavar="FILE", help="save the rows; - is standard output")
    add("--csv", type=writable, metavar="FILE", help="the same as CSV")
    add("--traffic", action="store_true", help="bytes that a call moves through simulated caches")
    add("--fast-memory", type=capacity, metavar="32KiB", help="simulate one cache of this size")
    add("--yes", action="store_true", help="simulate even if it takes minutes")
    add("--counters", action="store_true", help="bytes that hardware counters saw (ncu, perf)")
    add("--plot", type=picture, metavar="FILE", help="the roofline, or a sweep: .svg, .png, .pdf")
    add("--remeasure", action="store_true", help="measure the ceilings of this machine again")
    add("--list", action="store_true", help="show the variants and end")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = parser()
    options = p.parse_intermixed_args(arguments)
    p.apart(options, "json", "csv", "plot")
    to_stdout = _STDOUT in (options.json, options.csv)
    out, err = Terminal(sys.stderr if to_stdout else sys.stdout), Terminal(sys.stderr)
    registry = discover()
    for broken in registry.broken:
        err.print(f"warning: {broken}", soft_wrap=True)
    if options.list:
        out.print(_listing(registry))
        return 0
    try:
        variants = plan.select(registry, options.names)
        rows = plan.expand(variants, options.threads)
        problems = _problems(options)
        machine = None if options.machine is None else catalogue.named(options.machine)
        plan.fits(rows, problems)
        caches = _caches(options, problems, variants)
    except (ValueError, BrokenFile) as error:
        p.exit(2, f"error: {error}\n")
    processes.context(detect.usable_cores())  # it imports while the rest is made ready
    results: list[Result] = []
    uncounted = ""
    status = err.status("starting", spinner="line")
    interactive = out.is_terminal and err.is_terminal
    if interactive:
        status.start()
    try:
        deep = options.levels or options.explain or options.plot is not None
        machine = machine or this_machine(
            {t for _, t in rows},
            options.remeasure,
            status.update,
            levels=deep,
            gpu=any(v.device == "gpu" for v, _ in rows),
        )
        if options.storage == "article":
            machine = article_storage(machine)
        limit_s = inf if options.yes else LONG_S
        cold = options.cache == "cold"
        what = plan.Plan(rows, problems, machine, cold, options.rounds, options.timeout)
        for found in runner.run(what, status.update):
            status.stop()
            if results:
                out.print()
            results += found
            out.print(report(found, machine, registry.variants))
            if options.traffic:
                results[-len(found) :] = found = simulated(
                    found, variants, caches, Chip.of(machine), limit_s, status.update
                )
                out.print(traffic(found, caches))
            if options.counters and not uncounted:
                try:
                    results[-len(found) :] = found = counted(found, variants)
                except NotCounted as why:
                    uncounted = str(why)
            for detail in (counters, levels, explain):
                if getattr(options, detail.__name__):
                    out.print()
                    out.print(detail(found))
            if interactive:
                status.start()
        if options.explain:
            from sandbox.report import fixed_cost  # imports SciPy

            if found_costs := fixed_cost.fits(results):
                out.print()
                out.print(fixed_cost.fixed_costs(found_costs))
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError) as error:  # no room for the output or for a process
        p.exit(2, f"error: {error}\n")
    finally:
        status.stop()
        _save(results, machine, options, p)
    for r in results:
        if r.traceback:
            err.print(f"\n{row_name(r)}:\n{r.traceback}", soft_wrap=True)
    if uncounted:
        err.print(f"error: {uncounted}", soft_wrap=True)
        return 2
    by_name = options.names and not {"all", *DEVICES} & {*options.names}
    asked = [r for r in results if not (by_name and r.reference)] or results
    if all(r.skipped for r in asked):
        err.print(f"error: {asked[0].variant}: {asked[0].skipped}", soft_wrap=True)
        return 2
    return int(any(r.verdict and not r.verdict.ok for r in results))


def _problems(options: Namespace) -> list[Problem]:
    squares = options.n or ([] if options.shape else [512])
    wanted = [*((n, n, n) for n in squares), *options.shape]
    batch, dtype, layout = options.batch, options.dtype, options.layout
    return [Problem(m, n, k, batch, dtype, layout) for m, n, k in wanted]


def _caches(
    options: Namespace, problems: Sequence[Problem], variants: Sequence[Variant]
) -> list[Cache]:
    """What `--traffic` simulates, nothing without it.

    Raises ValueError where its caches are unknown, or the time it takes is long and not asked for.
    """
    if not options.traffic:
        return []
    traced = sum(v.device == "cpu" and not v.reference for v in variants)
    if not traced:
        return []
    if (minutes := estimated_s(problems, traced) / 60) > 2 and not options.yes:
        raise ValueError(
            f"--traffic takes about {minutes:.0f} minutes more: choose smaller sizes or fewer "
            "rows, or give --yes"
        )
    if options.fast_memory and (options.levels or options.explain):
        raise ValueError(
            "--fast-memory simulates another machine than --levels and --explain tell of: "
            "leave one of them out"
        )
    if options.fast_memory:
        return of_bytes(options.fast_memory)
    if options.machine:
        return of_catalogue(options.machine)
    return of_this_machine()


def _save(
    results: Sequence[Result], machine: Machine | None, options: Namespace, p: Parser
) -> None:
    for text, path in ((as_json, options.json), (as_csv, options.csv)):
        try:
            if path == _STDOUT:
                Terminal(sys.stdout).write(text(results))
            elif path:
                path.write_text(text(results), encoding="utf-8")
        except OSError as error:
            p.exit(2, f"error: cannot write {path}: {error.strerror}\n")
    if options.plot and machine and results:
        from sandbox.report import plot  # imports matplotlib

        try:
            plot.save(plot.figure(results, machine), options.plot)
        except (OSError, ValueError) as error:
            p.exit(2, f"error: cannot draw {options.plot}: {error}\n")


def _listing(registry: Registry) -> Whole:
    table = Whole(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for header in ("variant", "device", "after", "idea"):
        table.add_column(header, overflow="fold")
    for v in registry.variants:
        after = "reference" if v.reference else v.after or ""
        table.add_row(*(Text(x) for x in (v.name, v.device, after, v.summary)))
    return table
