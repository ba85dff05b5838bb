"""The CUDA device of this process: is there one, and how does it fare while it works?"""

from __future__ import annotations

from contextlib import suppress

from sandbox.result import Clocks

_LEAST = (8, 0)  # compute capability: asynchronous copies, TF32, BF16


def missing() -> str:
    """Why no variant can run on a GPU here, or nothing. For workers only: imports torch."""
    import torch

    if torch.version.cuda is None:
        return "this torch was built without CUDA"
    if not torch.cuda.is_available():
        return "there is no CUDA device, or its driver does not answer"
    found = torch.cuda.get_device_capability()
    if found < _LEAST:
        has, least = (".".join(map(str, x)) for x in (found, _LEAST))
        return f"{torch.cuda.get_device_name()} has compute capability {has}, {least} is needed"
    return ""


class Sensors:
    """Clock, power and temperature of torch's current device, found by its UUID: whatever
    CUDA_VISIBLE_DEVICES says, it is the same one."""

    def __init__(self) -> None:
        import torch

        self._handle = None
        with suppress(Exception):  # no NVML, or none that answers: nothing is known
            import pynvml

            pynvml.nvmlInit()
            uuid = f"GPU-{torch.cuda.get_device_properties().uuid}"
            self._nvml, self._handle = pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def read(self) -> Clocks | None:
        """What the device does now; None where that is not known."""
        if self._handle is None:
            return None
        nvml, handle = self._nvml, self._handle
        try:
            return Clocks(
                sm_hz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6,
                most_hz=nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6,
                watts=nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
                celsius=nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            )
        except nvml.NVMLError:
            return None
