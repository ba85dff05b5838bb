"""What is known of this machine, and what its data sheet makes of what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from sandbox.machine import Fact, Gpu, Machine, catalogue, detect, sheet


def of_this(machine: Machine) -> tuple[Fact, ...]:
    """What the system says of this machine, beside its data sheet; unknown hardware has none."""
    return (*_cpu(machine), *(_gpu(machine, machine.gpu) if machine.gpu else ()))


def _cpu(machine: Machine) -> Iterator[Fact]:
    name = detect.microarchitecture()
    yield Fact("microarchitecture", name, "archspec")
    yield Fact("vectors", detect.vector_isa(), "archspec")
    cores = f"{machine.cores} of {machine.of_cores}"
    yield Fact("cores", cores, "affinity and the control group's quota (joblib, psutil)")
    for c in detect.hierarchy():
        said = [f"{c.one_bytes >> 10} KiB x {c.instances}", f"{c.ways or '?'} ways"]
        said += [f"lines of {c.line_bytes or '?'} B", f"policy {c.policy}"]
        yield Fact(f"L{c.level}", ", ".join(said), "/sys; policy: the data sheet")
    known = detect.data_sheet()
    for u in machine.units:
        if u.device == "cpu" and known and (peak := known.peaks.get(u.arithmetic)):  # type: ignore[call-overload]
            clock = u.peak_flops / peak.flop_per_clock / u.threads
            source = f"{peak.flop_per_clock} FLOP/clock a core: {peak.source}"
            yield Fact(f"{u.name}: implied clock", clock, source, peak.doubt, "Hz")


def _gpu(machine: Machine, gpu: Gpu) -> Iterator[Fact]:
    yield Fact("GPU", f"{gpu.name}, {gpu.sms} SMs", "torch")
    yield Fact("UUID", gpu.uuid, "torch")
    for name in ("l2_bytes", "shared_bytes", "register_bytes", "memory_bytes"):
        yield Fact(name, getattr(gpu, name), "torch", unit="B")
    for name, unit in (("max_clock_hz", "Hz"), ("power_limit_w", "W")):
        value = getattr(gpu, name)
        yield Fact(name, "unknown" if value is None else value, "NVML", unit=unit if value else "")
    yield Fact("MIG", {None: "unknown", True: "on", False: "off"}[gpu.mig], "NVML")
    known = catalogue.gpu(gpu.name)
    for u in machine.units:
        if u.device == "gpu" and known and (peak := known.peaks.get(u.arithmetic)):  # type: ignore[call-overload]
            most = peak.sheet or sheet.derived(known, peak)
            said = f"{u.peak_flops / most:.1%} of {most / 1e12:.4g} TFLOP/s"
            clock = f" at {u.clock_hz / 1e6:.0f} MHz" if u.clock_hz else ""
            yield Fact(f"{u.name} reached", said + clock, peak.source, peak.doubt)
