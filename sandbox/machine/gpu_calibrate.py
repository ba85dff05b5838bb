"""What this GPU reaches: reads at every level, multiply-adds, products, launches. For workers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from time import sleep
from typing import Any

import torch
import triton

from sandbox.machine import Gpu, device, gpu_kernels, gpu_tests
from sandbox.machine.gpu_tests import Key, Launch, Test
from sandbox.measure import clock, cpu_clock

_ROUNDS = 10
_ROUND_MS = 3.0
_REST_S = 0.02
_DOUBT = 0.01  # at least: clocks drift by so much between runs
_BUSY_PERCENT = 5
_PATIENCE = 15
_UNDISTURBED = 0.9  # of the time, spent running

Rate = tuple[float, float]  # the best of the rounds, a second, and its spread
Cost = tuple[float, float]  # the same in seconds


def measure(gpu: Gpu) -> dict[str, Any]:
    """Its ceilings in FLOP/s and bytes/s, T0 in seconds by mode, with spread; SM clocks in Hz.

    `busy` tells that other work was on the device, or took the core that launches.
    """
    ask = device.nvml(gpu.uuid)
    tests = gpu_tests.all_of(gpu)
    steps = _steps(tests)
    busy = _busy(ask)
    reached: dict[str, dict[Any, Rate]] = {}
    for (name, way), rate in _rates(tests, steps).items():
        reached.setdefault(name, {})[way] = rate
    peak = {name: reached.pop(name) for name in gpu_tests.ARITHMETIC if name in reached}
    clocks = {}
    for name, ways in peak.items():
        best = name, max(ways, key=lambda way: ways[way])
        tests[best][1](8 * steps[best])
        if mhz := ask("ClockInfo", "CLOCK_SM"):
            clocks[name] = mhz * 1e6
        torch.cuda.synchronize()
    t0_s, running = _fixed_costs()
    return {
        "device": asdict(gpu),
        "peak": {name: max(ways.values()) for name, ways in peak.items()},
        "bandwidth": reached,
        "t0_s": t0_s,
        "clock_hz": clocks,
        "busy": busy or running < _UNDISTURBED,
    }


def _busy(ask: Callable[..., Any]) -> bool:
    """Is other work on the device, once what was ours has left its record of the last second?"""
    for _ in range(_PATIENCE):
        use = ask("UtilizationRates")
        if use is None or use.gpu <= _BUSY_PERCENT:
            return False
        sleep(0.2)
    return True


def _steps(tests: Mapping[Key, Test]) -> dict[Key, int]:
    """How many steps fill a round, for each kernel that this device has room for.

    Sixteens of them: Triton compiles anew for numbers that are no multiple.
    """
    found = {}
    for key, (_, launch) in tests.items():
        with suppress(triton.runtime.errors.OutOfResources):
            steps = 16
            launch(steps)  # compiles
            torch.cuda.synchronize()
            while (taken := _ms(launch, steps)) < _ROUND_MS / 4:
                steps *= 4
            found[key] = max(1, int(steps / 16 * _ROUND_MS / taken)) * 16
    return found


def _rates(tests: Mapping[Key, Test], steps: Mapping[Key, int]) -> dict[Key, Rate]:
    """Round after round through all kernels, each after a rest: none has a hotter device."""
    rates: dict[Key, list[float]] = {key: [] for key in steps}
    for _ in range(_ROUNDS):
        for key, count in steps.items():
            amount, launch = tests[key]
            sleep(_REST_S)
            launch(count)  # and ready: the timed one follows without a gap
            rates[key].append(amount * count / _ms(launch, count) * 1e3)
    return {
        key: (max(found), max(_DOUBT, 1 - statistics.median(found) / max(found)))
        for key, found in rates.items()
    }


def _ms(launch: Launch, steps: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    launch(steps)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def _fixed_costs() -> tuple[dict[str, Cost], float]:
    """Seconds of an empty kernel: a launch among many, between two events, in a replayed graph;
    and the largest part of the time that the launching thread spent running."""
    x = torch.empty(1, device="cuda")
    few, many = 20, 200

    def once() -> None:
        gpu_kernels.empty[(1,)](x)

    once()
    launches, shares = [], []
    for _ in range(few):
        torch.cuda.synchronize()
        start, before = clock(), cpu_clock()
        for _ in range(many):
            once()
        spent, taken = cpu_clock() - before, clock() - start
        launches.append(taken / many)
        shares.append(spent / taken)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(many):
            once()
    events = [_ms(lambda steps: once(), 1) / 1e3 for _ in range(few)]
    replays = [_ms(lambda steps: graph.replay(), 1) / 1e3 / many for _ in range(few)]
    modes = {"launch": launches, "event": events, "graph": replays}
    return {mode: _cost(seconds) for mode, seconds in modes.items()}, max(shares)


def _cost(seconds: list[float]) -> Cost:
    least = min(seconds)
    return least, max(_DOUBT, statistics.median(seconds) / least - 1)
