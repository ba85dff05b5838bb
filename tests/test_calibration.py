"""The kernels that reach the ceilings, and how what they reach is summed up. Nothing is timed."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sandbox.machine import Gpu, assemble, calibrate, device, here, kernels

ROOT = Path(__file__).parents[1]
H200 = Gpu("GPU-1", "NVIDIA H200", "9.0", 132, 60 << 20, 228 << 10, 256 << 10, 256 << 10, 1 << 37)


def test_the_read_kernel_reads_every_word_once_a_round():
    kernel, step_bytes = kernels.read_kernel()
    assert step_bytes == 16 * kernels.vector_bits() // 8
    x = np.random.default_rng(0).integers(-(2**62), 2**62, 4096)
    steps = x.nbytes // step_bytes
    assert kernel(x, steps) == np.bitwise_xor.reduce(x)
    assert kernel(x, 2 * steps) == 0
    half = x[: x.size // 2]
    assert kernel(x, steps // 2) == np.bitwise_xor.reduce(half)


def test_its_loads_are_as_wide_as_the_vectors():
    (assembly,) = kernels.read_kernel()[0].inspect_asm().values()
    register = {128: "xmm", 256: "ymm", 512: "zmm"}[kernels.vector_bits()]
    pattern = rf"xor\w*\s+[-\d]*\(%r.*{register}" if "xmm" in assembly else r"ld[pr]\s+q\d+"
    assert len(re.findall(pattern, assembly)) >= (16 if "xmm" in assembly else 8)


def test_arrays_begin_at_a_page():
    x = calibrate._aligned(1 << 16)
    assert x.nbytes == 1 << 16
    assert x.ctypes.data % 4096 == 0


def test_threads_that_others_push_aside_are_noticed(monkeypatch):
    """The clocks tick in turn: 10 ms pass in a call, of which the thread runs 2 ms."""
    wall, ran = iter(range(1000)), iter(range(1000))
    monkeypatch.setattr(calibrate, "clock", lambda: 0.010 * next(wall))
    monkeypatch.setattr(calibrate, "cpu_clock", lambda: 0.002 * next(ran))
    pool = SimpleNamespace(map=map)
    assert calibrate._round(pool, 100.0, [lambda: None]) == pytest.approx((1e4, 0.2))


def test_disturbed_rounds_widen_no_spread_and_tell_that_the_machine_is_busy():
    quiet = [(100.0, 1.0), (98.0, 0.99), (98.0, 0.95), (97.0, 1.0), (99.0, 1.0)]
    disturbed = [(50.0, 0.5)] * 20
    rate = calibrate._summary(quiet + disturbed)
    assert rate == pytest.approx((100.0, 0.02, 1.0))
    assert not calibrate._busy([rate])
    assert calibrate._busy([rate, calibrate._summary(disturbed)])
    assert calibrate._summary(quiet[:1] * 9).spread == calibrate._DOUBT


@pytest.mark.parametrize(
    ("waited_s", "free", "busy"), [(0.0, 0.5, False), (1.0, 1.0, False), (1.0, 0.5, True)]
)
def test_a_fixed_cost_beside_other_work_is_noticed(monkeypatch, waited_s, free, busy):
    """Threads that wait for a core are in need only where multiply-adds lack one, too."""
    waited = itertools.count()
    monkeypatch.setattr(calibrate, "_waited_s", lambda: waited_s * next(waited))
    monkeypatch.setattr(calibrate, "cpu_clock", calibrate.clock)
    monkeypatch.setattr(calibrate, "_peak", lambda dtype, threads: (1.0, []))
    monkeypatch.setattr(calibrate, "_round", lambda pool, amount, tasks: (1.0, free))
    monkeypatch.setattr(calibrate, "_ROUND_S", 1e-4)
    monkeypatch.setattr(calibrate, "_PATIENCE_S", 0.0)
    found = calibrate.fixed_cost(1)
    assert found["busy"] is busy
    ((mode, (seconds, spread)),) = found["t0_s"].items()
    assert mode == "call"
    assert seconds > 0
    assert spread > 0


def test_what_all_threads_waited_for_a_core(monkeypatch, tmp_path):
    monkeypatch.setattr(calibrate, "Path", lambda path: tmp_path)
    assert calibrate._waited_s() == 0
    for thread, told in ((1, "5 2000000000 1"), (2, "7 500000000 3")):
        (tmp_path / f"{thread}").mkdir()
        (tmp_path / f"{thread}" / "schedstat").write_text(told)
    assert calibrate._waited_s() == 2.5


def test_a_threading_layer_that_is_not_there_is_left_out(monkeypatch):
    numba = pytest.importorskip("numba")

    def fixed_cost(threads):
        if numba.config.THREADING_LAYER == "tbb":
            raise ValueError("No threading layer could be loaded.")
        return {"t0_s": {"omp": [1e-6 * threads, 0.1]}, "busy": False}

    monkeypatch.setattr(numba.config, "THREADING_LAYER", "default")
    monkeypatch.setattr(calibrate, "fixed_cost", fixed_cost)
    found = {"t0_s": {"omp": [2e-6, 0.1]}, "busy": False}
    assert here._measure_layer("omp", [1, 2]) == {"2": found}
    assert here._measure_layer("tbb", [1, 2]) == {}


def test_levels_have_the_form_that_is_stored(monkeypatch):
    monkeypatch.setattr(calibrate, "_ROUNDS", 1)
    monkeypatch.setattr(calibrate, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(calibrate, "_ROUND_S", 1e-4)
    sizes = {"L1": 1 << 12, "L2": 1 << 14}
    found = json.loads(json.dumps(calibrate.levels(2, sizes)))
    assert set(found) == {"levels", "busy"}
    assert set(found["levels"]) == set(sizes)
    assert all(rate > 0 and 0 < spread < 1 for rate, spread in found["levels"].values())


# The GPU, without one.


@pytest.fixture
def cuda(monkeypatch):
    """torch's answers for an H200."""
    torch = pytest.importorskip("torch")
    facts = {"name": "NVIDIA H200", "major": 9, "minor": 0, "uuid": "abc", "total_memory": 1 << 37}
    facts |= {"multi_processor_count": 132, "L2_cache_size": 60 << 20}
    facts |= {"shared_memory_per_multiprocessor": 228 << 10, "regs_per_multiprocessor": 1 << 16}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: SimpleNamespace(**facts))


class Nvml(SimpleNamespace):
    NVMLError = ValueError
    NVML_CLOCK_SM = 1

    def nvmlDeviceGetHandleByUUID(self, uuid):
        assert uuid == "GPU-abc"
        return "handle"

    def nvmlInit(self): ...

    def nvmlDeviceGetMaxClockInfo(self, device, clock):
        return 1980

    def nvmlDeviceGetPowerManagementLimit(self, device):
        return 700_000

    def nvmlDeviceGetMigMode(self, device):
        raise ValueError("not supported")


def test_a_gpu_as_torch_and_nvml_describe_it(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    gpu = device.gpu()
    assert (gpu.uuid, gpu.sms, gpu.capability) == ("abc", 132, "9.0")
    assert (gpu.l1_bytes, gpu.register_bytes) == (256 << 10, 256 << 10)
    assert (gpu.max_clock_hz, gpu.power_limit_w, gpu.mig) == (1.98e9, 700.0, None)


def test_without_nvml_its_facts_are_unknown(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if not installed
    gpu = device.gpu()
    assert gpu.sms == 132
    assert (gpu.max_clock_hz, gpu.power_limit_w, gpu.mig) == (None, None, None)


def test_no_gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device.gpu() is None


def test_the_fastest_way_of_each_arithmetic_is_its_peak(monkeypatch):
    """Two ways of FP32, one of them too large for the device; the launches take a step a ms."""
    pytest.importorskip("triton")
    from sandbox.machine import gpu_calibrate as g

    def too_large(steps):
        raise g.triton.runtime.errors.OutOfResources(1, 0, "shared memory")

    tests = {("fp32", "0"): (2e9, id), ("fp32", "1"): (3e9, id), ("fp16", "0"): (1.0, too_large)}
    tests |= {(level, "read"): (1e9, id) for level in ("DRAM", "L2", "shared")}
    use = SimpleNamespace(gpu=0)
    answers = {"UtilizationRates": use, "ClockInfo": 1980}
    monkeypatch.setattr(g.gpu_tests, "all_of", lambda gpu: tests)
    monkeypatch.setattr(g.device, "nvml", lambda uuid: lambda name, *constants: answers[name])
    monkeypatch.setattr(g, "_ms", lambda launch, steps: float(steps))
    running = 1.0
    monkeypatch.setattr(g, "_fixed_costs", lambda: ({"launch": g._cost([1e-5] * 2)}, running))
    monkeypatch.setattr(g, "_REST_S", 0.0)
    monkeypatch.setattr(g, "sleep", lambda s: None)
    monkeypatch.setattr(g.torch.cuda, "synchronize", lambda: None)
    found = g.measure(H200)
    assert found["peak"] == {"fp32": (3e12, g._DOUBT)}
    assert found["clock_hz"] == {"fp32": 1.98e9}
    assert found["busy"] is False
    cpu = {"date": "d", "threads": {}}
    machine = assemble.machine(cpu, json.loads(json.dumps(found | {"date": "d"})))
    assert machine.unit("gpu", "fp32", 1).peak_flops == 3e12
    assert machine.gpu == H200
    assert machine.unit("gpu", "fp32", 1).fixed_cost_spread == {"launch": g._DOUBT}
    running = 0.5
    assert g.measure(H200)["busy"] is True
    running, use.gpu = 1.0, 50
    assert g.measure(H200)["busy"] is True


INTERPRETED = """
import torch
from sandbox.machine import gpu_kernels as k
sums = torch.empty(2 * 64)
k.multiply_add[(2,)](sums, 0.5, 0.75, 20, BLOCK=64, UNROLL=4)
assert torch.allclose(sums, torch.full_like(sums, 1.5))
x = torch.randint(0, 1 << 30, (8 * 32,), dtype=torch.int32)
rows, out, y = x.view(8, 32), torch.empty(2 * 32, dtype=torch.int32), torch.zeros_like(x)
k.read[(2,)](x, out, 8, 4, BLOCK=32)
assert (out.view(2, 32)[1] == (rows[1] ^ rows[3] ^ rows[5] ^ rows[7])).all()
k.copy[(2,)](x, y, 8, 4, BLOCK=32)
assert (x == y).all()
a, b, c = torch.randn(16, 16), torch.randn(16, 16), torch.empty(16 * 16)
k.product[(1,)](a, b, c, 3, M=16, N=16, K=16)
assert torch.allclose(c.view(16, 16), 3 * a @ b.T, atol=1e-4)
"""


def test_the_triton_kernels_do_what_is_counted():
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


I32, F32 = "*i32", "*fp32"
READ = {"x": I32, "out": I32, "blocks": "i32", "count": "i32"}
MULTIPLY_ADD = {"out": F32, "scale": "fp32", "shift": "fp32", "count": "i32"}
HALF = {"a": "*fp16", "b": "*fp16", "out": F32, "count": "i32"}
SINGLE = HALF | {"a": F32, "b": F32}
TILE = {"M": 128, "N": 64, "K": 64}
COMPILED = [
    ("read", READ, {"BLOCK": 4096}, 90, r"ld\.global\.cg", 4),
    ("multiply_add", MULTIPLY_ADD, {"BLOCK": 1024, "UNROLL": 16}, 90, r"fma\.rn\.f32", 128),
    ("product", HALF, TILE, 80, r"mma\.sync", 1),
    ("product", HALF, TILE, 90, r"wgmma\.mma_async", 1),
    ("product", SINGLE, TILE, 90, r"wgmma\.mma_async.*tf32", 1),
    ("product", HALF, TILE, 100, r"tcgen05\.mma", 1),
    ("read_shared", {"out": I32, "count": "i32", "mask": "i32"}, {"ROWS": 64, "BUFFERS": 2}, 90,
     r"ld\.shared\.v4", 8),
]  # fmt: skip


@pytest.mark.parametrize(("name", "signature", "constants", "target", "pattern", "least"), COMPILED)
def test_the_triton_kernels_compile_to_what_is_counted(
    name, signature, constants, target, pattern, least
):
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    from sandbox.machine import gpu_kernels

    source = GluonASTSource if name == "read_shared" else ASTSource
    types = signature | dict.fromkeys(constants, "constexpr")
    kernel = source(getattr(gpu_kernels, name), signature=types, constexprs=constants)
    compiled = triton.compile(kernel, target=GPUTarget("cuda", target, 32))
    assert len(re.findall(pattern, compiled.asm["ptx"])) >= least
