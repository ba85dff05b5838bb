"""The data sheets of the catalogue: their form, checked as they are read, and what they give.

Rates are dense. A peak is units x FLOP/clock x clock; where a sheet states it, the sheet's figure
is the ceiling, and a test holds the two together.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.machine import Fact, Machine, Unit
from sandbox.result import Source
from sandbox.roofline import Level

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(gt=0)]
Arithmetic = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
_SHARED_BYTES_PER_CLOCK = 128  # 32 banks of 4 bytes (CUDA C++ Programming Guide)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Sourced(_Part):
    """`doubt` is `secondary` where no primary source was seen, `unverified` where none was."""

    source: Annotated[str, Field(min_length=3)]
    doubt: Literal["", "secondary", "unverified"] = ""


class Number(_Sourced):
    """A rate or a clock: bytes/s, Hz, s."""

    value: Positive


class Count(_Sourced):
    """A number of things, or of bytes."""

    value: Whole


class Peak(_Sourced):
    """FLOP a clock of one core or SM, at a clock of its own where that differs.

    `sheet` is the dense peak of the whole unit as a data sheet prints it, in FLOP/s.
    """

    flop_per_clock: Whole
    clock_hz: Positive | None = None
    sheet: Positive | None = None
    t0_s: Positive | None = None
    name: str | None = None


class CacheSheet(_Sourced):
    """One level of data caches: bytes of one, and the cores that share it."""

    bytes: Whole
    shared_by: Whole
    policy: Literal["", "inclusive", "victim"] = ""
    bytes_per_clock: Whole | None = None


class Cpu(_Part):
    """`archspec` is the microarchitecture's name there; the part is one that carries it."""

    archspec: str
    part: str
    cores: Count
    clock_hz: Number
    bandwidth: Number
    register_bytes: Count
    caches: Annotated[tuple[CacheSheet, ...], Field(strict=False, min_length=1)]
    peaks: dict[Arithmetic, Peak]


class GpuSheet(_Part):
    """`device` is what the driver calls it; L1 includes shared memory; sizes an SM."""

    device: str
    sms: Count
    clock_hz: Number
    bandwidth: Number
    l2_bytes: Count
    l1_bytes: Count
    register_bytes: Count
    peaks: dict[Arithmetic, Peak]


class Sheet(_Part):
    """A data file of the catalogue."""

    name: str
    cpu: Cpu | None = None
    gpu: GpuSheet | None = None


def read(path: Path) -> Sheet:
    """The sheet in a file; raises ValueError in one line with the file, the key and the remedy."""
    try:
        sheet = Sheet.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{path}: {key}: {first['msg']}: correct this key") from None
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError among them
        raise ValueError(f"{path}: no valid TOML file: {error}: correct or remove it") from None
    if not (sheet.cpu or sheet.gpu):
        raise ValueError(f"{path}: cpu, gpu: both are missing: add one")
    return sheet


def derived(part: Cpu | GpuSheet, peak: Peak) -> float:
    """FLOP/s: units x FLOP/clock x clock."""
    units = part.cores if isinstance(part, Cpu) else part.sms
    return units.value * peak.flop_per_clock * (peak.clock_hz or part.clock_hz.value)


def machine(sheet: Sheet) -> Machine:
    """The machine that a sheet describes."""
    cores = sheet.cpu.cores.value if sheet.cpu else 0
    units = [u for part in (sheet.cpu, sheet.gpu) if part for u in _units(part)]
    facts = [f for part in (sheet.cpu, sheet.gpu) if part for f in _facts(part)]
    note = "from the data sheet of another machine, not measured"
    return Machine(sheet.name, cores, cores, tuple(units), note, facts=tuple(facts))


def _units(part: Cpu | GpuSheet) -> list[Unit]:
    on_cpu = isinstance(part, Cpu)
    levels = _cpu_levels(part) if isinstance(part, Cpu) else _gpu_levels(part)
    last = part.l2_bytes.value if isinstance(part, GpuSheet) else _total(part, part.caches[-1])
    return [
        Unit(
            name=peak.name or arithmetic,
            device="cpu" if on_cpu else "gpu",
            arithmetic=arithmetic,
            threads=part.cores.value if isinstance(part, Cpu) else 1,
            peak_flops=peak.sheet or derived(part, peak),
            levels=levels,
            fixed_cost_s={"call" if on_cpu else "launch": peak.t0_s} if peak.t0_s else {},
            article_bytes=last,
            source=Source(_source(peak), _source(part.bandwidth)),
        )
        for arithmetic, peak in part.peaks.items()
    ]


def _source(figure: _Sourced) -> str:
    return "datasheet, unverified" if figure.doubt == "unverified" else "datasheet"


def _total(cpu: Cpu, cache: CacheSheet) -> int:
    return cache.bytes * -(-cpu.cores.value // cache.shared_by)


def _cpu_levels(cpu: Cpu) -> tuple[Level, ...]:
    cores, near, sharers = cpu.cores.value, cpu.register_bytes.value, 1
    levels = []
    for i, cache in enumerate(cpu.caches, 1):
        per_clock = cache.bytes_per_clock
        bandwidth = per_clock and float(per_clock * cores * cpu.clock_hz.value)
        known = (bandwidth, 0.0, _source(cache)) if bandwidth else ()
        levels.append(Level(f"L{i}", near, -(-cores // sharers), *known))
        near, sharers = near * cache.shared_by // sharers + cache.bytes, cache.shared_by
    chip = cores * cpu.register_bytes.value + sum(_total(cpu, c) for c in cpu.caches)
    dram = Level("DRAM", chip, 1, cpu.bandwidth.value, 0.0, _source(cpu.bandwidth))
    return dram, *reversed(levels)


def _gpu_levels(gpu: GpuSheet) -> tuple[Level, ...]:
    sms, registers = gpu.sms.value, gpu.register_bytes.value
    near = registers + gpu.l1_bytes.value
    shared = float(_SHARED_BYTES_PER_CLOCK * sms * gpu.clock_hz.value)
    return (
        Level(
            "DRAM",
            gpu.l2_bytes.value + sms * near,
            1,
            gpu.bandwidth.value,
            0.0,
            _source(gpu.bandwidth),
        ),
        Level("L2", near, sms),
        Level("shared", registers, sms, shared, 0.0, "derived from the clock"),
    )


_UNIT = {"hz": "Hz", "bytes": "B", "bandwidth": "B/s"}


def _facts(part: Cpu | GpuSheet) -> list[Fact]:
    found = []
    for name, value in part:
        if isinstance(value, Number | Count):
            unit = _UNIT.get(name.rpartition("_")[2], "")
            found.append(Fact(name, value.value, value.source, value.doubt, unit))
        elif isinstance(value, str):
            found.append(Fact(name, value, "its maker"))
    for i, c in enumerate(part.caches if isinstance(part, Cpu) else (), 1):
        said = f"{c.bytes / 1024:g} KiB for {c.shared_by} cores" + f", {c.policy}" * bool(c.policy)
        found.append(Fact(f"L{i}", said, c.source, c.doubt))
    for arithmetic, p in part.peaks.items():
        said = f"{p.flop_per_clock} FLOP/clock: {derived(part, p) / 1e12:.4g} TFLOP/s"
        found.append(Fact(arithmetic, said, p.source, p.doubt))
    return found
