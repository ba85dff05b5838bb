"""The CUDA device that torch takes, as torch and NVML describe it. For workers: it wakes CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.machine import Gpu

# L1 and shared memory of an SM in KiB, by compute capability (tuning guides); torch does not say.
_L1_KIB = {"7.0": 128, "7.5": 96, "8.0": 192, "8.6": 128, "8.9": 128, "12.0": 128}
_L1_AT_MOST_KIB = 256  # Hopper, datacentre Blackwell; a bound with more fast memory is never wrong


def gpu() -> Gpu | None:
    """The current CUDA device, or None where there is none that works."""
    import torch

    if not torch.cuda.is_available():
        return None
    p = torch.cuda.get_device_properties(torch.cuda.current_device())
    capability = f"{p.major}.{p.minor}"
    uuid = str(getattr(p, "uuid", "unknown"))
    ask = nvml(uuid)
    clock, watts = ask("MaxClockInfo", "CLOCK_SM"), ask("PowerManagementLimit")
    mig = ask("MigMode")
    return Gpu(
        uuid=uuid,
        name=p.name,
        capability=capability,
        sms=p.multi_processor_count,
        l2_bytes=p.L2_cache_size,
        shared_bytes=p.shared_memory_per_multiprocessor,
        l1_bytes=_L1_KIB.get(capability, _L1_AT_MOST_KIB) << 10,
        register_bytes=4 * p.regs_per_multiprocessor,
        memory_bytes=p.total_memory,
        max_clock_hz=clock and clock * 1e6,
        power_limit_w=watts and watts / 1e3,
        mig=None if mig is None else bool(mig[0]),
    )


def nvml(uuid: str) -> Callable[..., Any]:
    """`ask(name, *constants)`: what NVML's nvmlDeviceGetNAME says of the device with that UUID.

    None where NVML, its Python module or the answer is missing.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")
    except Exception:  # NVMLError is no single type, and a broken driver raises others
        return lambda name, *constants: None

    def ask(name: str, *constants: str) -> Any:
        try:
            values = [getattr(pynvml, f"NVML_{c}") for c in constants]
            return getattr(pynvml, f"nvmlDeviceGet{name}")(device, *values)
        except (pynvml.NVMLError, AttributeError):
            return None

    return ask
