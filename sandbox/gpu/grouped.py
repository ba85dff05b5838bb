"""Idea: the same tiles in another order. Programs that run at the same time work on GROUP rows of
tiles, column after column, so that the tiles of A and B that they load are few and stay in L2.

Traffic: 132 programs at once in one row of tiles load one row of A and 132 columns of B; in a
square of tiles about 12 of each. From memory comes a fraction of what came; L2 gives as much.

Watch: the last group has fewer rows. A group too high or too low costs traffic before time: both
belong in the verdict.
"""

import triton
import triton.language as tl

from sandbox import variant
from sandbox.gpu import _operands
from sandbox.gpu.tensorcore import launch, product

GROUP = tl.constexpr(8)


@triton.jit
def order(index, down, across):
    """Row and column of the tile with this index, of `down` x `across`."""
    first = index // (GROUP * across) * GROUP
    rows = tl.minimum(GROUP, down - first)
    return first + index % (GROUP * across) % rows, index % (GROUP * across) // rows


@triton.jit
def _kernel(
    a,
    b,
    out,
    m,
    n,
    k,
    am,
    ak,
    bk,
    bn,
    cm,
    cn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile_m, tile_n = order(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN))
    product(a, b, out, m, n, k, am, ak, bk, bn, cm, cn, tile_m, tile_n, BM, BN, BK)


@variant(
    "gpu",
    after="tensorcore",
    unit={"float32": "tf32"},
    accuracy={"float32": "tf32"},
    supports=_operands.tensor_cores,
    expects=("*MMA",),
)
def grouped(a, b, out):
    launch(_kernel, a, b, out)
