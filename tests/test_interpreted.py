"""The stream of Triton kernels: every access, in the order in which a GPU's programs advance."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.traffic.instrument import ADDRESS_BITS
from sandbox.traffic.interpreted import pieces

pytest.importorskip("triton")
KERNELS = """
import numpy as np, torch
from sandbox.traffic.interpreted import Interpreted, TooLong

records = []
def traced(resident, call, limit_s=600):
    records.clear()
    keep = lambda batch: records.extend(batch.tolist())
    Interpreted(keep, lambda name: resident, limit_s).run(call)
    return [(r & (1 << 48) - 1, r >> 48 & 0x7FFF, r < 0) for r in records]

Interpreted(None, None, 1)  # before kernels are declared
import triton, triton.language as tl

@triton.jit
def rows(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    for k in range(0, n, BLOCK):
        tl.store(y + i * n + k + j, tl.load(x + i * n + k + j, mask=k + j < n), mask=k + j < n)

@triton.jit
def corner(x, out):
    p = tl.program_id(0) + 10 * tl.program_id(1)
    tl.atomic_add(out, tl.load(x + p))

def place(rows):
    room = torch.empty(256)  # a record ends at multiples of a power of two: no row is to cross one
    first = -room.data_ptr() % 512 // 4
    return room[first : first + 72].view(6, 12).copy_(rows)

x, y = place(torch.randn(6, 12)), place(torch.zeros(6, 12))
base, there = x.data_ptr(), y.data_ptr()
found = traced(2, lambda: rows[6,](x, y, 12, BLOCK=8))
assert (x == y).all()
"""
CHECKS = {
    "every byte once": """
loads = sorted((a - base, s) for a, s, store in found if not store)
assert loads == sorted((row * 48 + at, s) for row in range(6) for at, s in ((0, 32), (32, 16)))
assert sum(s for _, s, store in found if store) == 6 * 48
""",
    "programs in turn, in launch order": """
row = [(a - (there if store else base)) // 48 for a, _, store in found]
assert row == [0, 1] * 4 + [2, 3] * 4 + [4, 5] * 4
assert [store for *_, store in found[:4]] == [False, False, True, True]
""",
    "all at once": """
found = traced(9, lambda: rows[6,](x, y, 12, BLOCK=8))
row = [(a - (there if store else base)) // 48 for a, _, store in found]
assert row == list(range(6)) * 4
""",
    "x first, and atomics twice": """
out = torch.zeros(1)
found = traced(1, lambda: corner[2, 2](x, out))
assert [(a - base) // 4 for a, _, store in found[::3]] == [0, 1, 10, 11]
assert [store for *_, store in found[:3]] == [False, False, True]
""",
    "launch after launch": """
def twice():
    rows[6,](x, y, 12, BLOCK=8)
    rows[6,](y, x, 12, BLOCK=8)
assert [store for *_, store in traced(6, twice)] == ([False] * 6 + [True] * 6) * 4
""",
    "too long": """
try:
    traced(2, lambda: rows[6,](x, y, 12, BLOCK=8), limit_s=0)
    raise AssertionError
except TooLong as why:
    assert 0 < why.seconds < 60
""",
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_the_stream_of_a_kernel(name):
    """In a process of its own: kernels have to be declared for the interpreter."""
    command = [sys.executable, "-c", KERNELS + CHECKS[name]]
    done = subprocess.run(
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@given(
    st.lists(st.integers(0, 3000), unique=True, min_size=1, max_size=200), st.sampled_from([2, 4])
)
def test_pieces_cover_each_element_once(elements, itemsize):
    addresses = 4096 + np.array(elements, np.int64) * itemsize
    found = pieces(addresses, itemsize)
    starts, sizes = found & (1 << ADDRESS_BITS) - 1, found >> ADDRESS_BITS
    covered = [at for s, n in zip(starts, sizes, strict=True) for at in range(s, s + n, itemsize)]
    assert sorted(covered) == sorted(addresses)
