"""The bytes that hardware counters saw: NVIDIA's through ncu, those of a Linux CPU through perf.

Both tools run a process of their own, `python -m sandbox.traffic.counted`, which calls the variant.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from sandbox.problem import Problem
from sandbox.registry import Variant
from sandbox.result import Counters, Result

_TIMEOUT_S = 300
_LINE, _SECTOR, _WAVEFRONT = 64, 32, 128  # bytes
_CALLS = 20  # perf: what twice as many calls count more is what so many calls count
# Of ncu's metrics, what one unit of each is in bytes.
_NCU = {
    "dram_read_bytes": ("dram__bytes_read.sum", 1),
    "dram_write_bytes": ("dram__bytes_write.sum", 1),
    "l2_bytes": ("lts__t_sectors_srcunit_tex.sum", _SECTOR),
    "l1_bytes": ("l1tex__t_bytes.sum", 1),
    "shared_bytes": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", _WAVEFRONT),
}
_PERF = {
    "dram_read_bytes": ("LLC-load-misses", _LINE),
    "dram_write_bytes": ("LLC-store-misses", _LINE),
    "l2_bytes": ("L1-dcache-load-misses", _LINE),
}


class NotCounted(Exception):
    """Why there are no counters, and what to do."""


def counted(results: Iterable[Result], variants: Iterable[Variant]) -> list[Result]:
    """The results with what counters say of one call of each variant that is right.

    Raises NotCounted where this machine gives no counters.
    """
    by_name = {v.name: v for v in variants}

    def one(r: Result) -> Result:
        if r.timing is None:
            return r
        count = by_ncu if r.device == "gpu" else _by_perf
        return replace(r, counters=count(by_name[r.variant], r.problem, r.threads))

    return [one(r) for r in results]


def by_ncu(v: Variant, problem: Problem, threads: int = 1) -> Counters:
    """Caches start empty, as in the simulation; what stays in L2 at the end was not written.

    Raises NotCounted.
    """
    metrics = ",".join(metric for metric, _ in _NCU.values())
    command = [_tool("ncu", "comes with NVIDIA's CUDA toolkit"), "--csv", "--page", "raw"]
    command += ["--print-units", "base", "--metrics", metrics, "--clock-control", "none"]
    command += ["--profile-from-start", "off", "--target-processes", "all"]
    return ncu_counters(_run(command, v, problem, threads, calls=1).stdout)


def ncu_counters(text: str) -> Counters:
    """What ncu's CSV says, summed over all kernels of the call. Raises NotCounted."""
    if "ERR_NVGPUCTRPERM" in text:
        raise NotCounted(
            "the driver shows counters to administrators alone: run as root, or load it with "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    lines = [line for line in text.splitlines() if line.startswith('"')]
    kernels = [k for k in csv.DictReader(lines) if k["ID"]]  # below the names are the units
    if not kernels:
        said = [line for line in text.splitlines() if "==ERROR==" in line]
        raise NotCounted(f"ncu saw no kernel: {' '.join(said) or 'it says nothing more'}")

    def total(metric: str, unit: int) -> int | None:
        values = [k.get(metric, "").replace(",", "") for k in kernels]
        try:
            return round(sum(map(float, values)) * unit)
        except ValueError:  # not every GPU has it
            return None

    return Counters(**{name: total(*known) for name, known in _NCU.items()})


def _by_perf(v: Variant, problem: Problem, threads: int) -> Counters:
    """Starting Python counts, too: what more calls count more is theirs."""
    command = [_tool("perf", "comes with the kernel's tools (linux-tools, perf)"), "stat", "-x,"]
    command += ["-e", ",".join(event for event, _ in _PERF.values())]
    few, many = (
        perf_events(_run(command, v, problem, threads, calls=calls).stderr)
        for calls in (_CALLS, 2 * _CALLS)
    )
    return Counters(
        **{
            name: max(0, many[event] - few[event]) * unit // _CALLS if event in many else None
            for name, (event, unit) in _PERF.items()
        }
    )


def perf_events(text: str) -> dict[str, int]:
    """The events that perf counted. Raises NotCounted where it could count none."""
    rows = [line.split(",") for line in text.splitlines() if line.count(",") >= 3]
    found = {row[2].partition(":")[0]: int(row[0]) for row in rows if row[0].isdigit()}
    if not found:
        raise NotCounted(
            "perf counts nothing here: a virtual machine often has no counters; else "
            "kernel.perf_event_paranoid has to be 2 or less"
        )
    return found


def _tool(name: str, origin: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NotCounted(f"{name} is not installed: it {origin}")
    return path


def _run(
    command: Sequence[str], v: Variant, problem: Problem, threads: int, calls: int
) -> subprocess.CompletedProcess[str]:
    what = {"path": str(v.path), "name": v.name, "problem": asdict(problem), "threads": threads}
    counted = [sys.executable, "-m", "sandbox.traffic.counted", json.dumps(what | {"calls": calls})]
    try:
        return subprocess.run(
            [*command, *counted], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotCounted(f"{command[0]} did not end within {_TIMEOUT_S} s") from None
