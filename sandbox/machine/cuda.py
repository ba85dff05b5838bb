"""The CUDA device of this process: is there one, and how does it fare while it works?"""

from __future__ import annotations

from sandbox.machine.device import nvml
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

        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._ask = nvml(str(getattr(properties, "uuid", "unknown")))

    def read(self) -> Clocks | None:
        """What the device does now; None where that is not known."""
        clock, most = self._ask("ClockInfo", "CLOCK_SM"), self._ask("MaxClockInfo", "CLOCK_SM")
        power, heat = self._ask("PowerUsage"), self._ask("Temperature", "TEMPERATURE_GPU")
        if None in (clock, most, power, heat):
            return None
        return Clocks(sm_hz=clock * 1e6, most_hz=most * 1e6, watts=power / 1e3, celsius=heat)
