"""What ncu and perf print is read right, and what they refuse is said in a line."""

import shutil

import pytest

from sandbox.result import Counters
from sandbox.traffic import counters

NCU = """==PROF== Connected to process 100 (/usr/bin/python3.12)
==PROF== Profiling "kernel" - 0: 0%....50%....100% - 2 passes
==PROF== Disconnected from process 100
"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","l1tex__t_bytes.sum",\
"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum","lts__t_sectors_srcunit_tex.sum"
"","","byte","byte","byte","",""
"0","kernel","1000","24","5,000","2","10"
"1","kernel","500","0","n/a","3","20"
"""
PERF = """12345,,LLC-load-misses:u,1000,100.00,,
<not supported>,,LLC-store-misses:u,0,100.00,,
99,,L1-dcache-load-misses:u,1000,100.00,,
"""


def test_the_kernels_of_a_call_are_summed():
    assert counters.ncu_counters(NCU) == Counters(1500, 24, 30 * 32, None, 5 * 128)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "NVreg_Restrict"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "LibraryNotLoaded"),
        ("", "no kernel"),
    ],
)
def test_why_ncu_counts_nothing(text, words):
    with pytest.raises(counters.NotCounted, match=words):
        counters.ncu_counters(text)


def test_perf_counts_what_it_can():
    assert counters.perf_events(PERF) == {"LLC-load-misses": 12345, "L1-dcache-load-misses": 99}
    with pytest.raises(counters.NotCounted, match="virtual machine"):
        counters.perf_events("<not supported>,,LLC-load-misses,0,100.00,,\n")


def test_a_tool_that_is_not_there(compare, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    code, out, err = compare("numpy", "--n", 16, "--rounds", 1, "--threads", 1, "--counters")
    assert code == 2
    assert err.splitlines() == ["error: perf is not installed: it comes with the kernel's tools "
                                "(linux-tools, perf)"]  # fmt: skip
    assert "GFLOP/s" in out
