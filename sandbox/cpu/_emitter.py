"""Vector code for Numba: a register tile's multiply-adds, written as LLVM instructions.

The widths follow from what the processor has: 512, 256 or 128 bits, 32 or 16 registers, with fused
multiply-add or without.
"""

from dataclasses import dataclass

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_POINTER, _INT, _BYTE = ir.PointerType(), ir.IntType(64), ir.IntType(8)
_UNROLL = 4  # steps of k in one iteration


@dataclass(frozen=True)
class Target:
    """What a processor offers to vector code."""

    bits: int
    registers: int
    fused: bool

    @property
    def rows(self):
        """The most rows of a register tile that is 0, 1, 2, 3 vectors wide.

        Three vectors of B and one element of A have to fit beside the sums; and there have to be
        enough sums to hide the latency of two multiply-add units (at least 8, better 10).
        """
        return (0, 8, 6, 4) if self.registers == 16 else (0, 12, 12, 8)


def target(features, arm=False):
    """The Target of a processor with such features, by LLVM's names of them."""
    if features.get("avx512f"):
        return Target(512, 32, True)
    if features.get("avx"):
        return Target(256, 16, bool(features.get("fma")))
    return Target(128, 32, True) if arm else Target(128, 16, bool(features.get("fma")))


HOST = target(llvm.get_host_cpu_features(), llvm.get_process_triple().startswith("aarch64"))
VECTOR_BYTES = HOST.bits // 8


def tile_function(module, scalar, lanes, height, width, fused):
    """LLVM's function for a register tile of `height` rows by `width` vectors of C.

    void(a, a_row, a_step, b, b_step, c, c_row, last, k, add): k steps, in each of which row i takes
    the element of A at a + i * a_row times the vectors of B at b; the last of these lies `last`
    bytes behind the first, in B as in C. Then C becomes the sums, or grows by them. Strides are in
    bytes.
    """
    size = {ir.FloatType(): 32, ir.DoubleType(): 64}[scalar]
    name = f"tile_{height}x{width}_v{lanes}f{size}"
    if name in module.globals:
        return module.globals[name]
    vector = ir.VectorType(scalar, lanes)
    flag = ir.IntType(1)
    arguments = [_POINTER, _INT, _INT, _POINTER, _INT, _POINTER, _INT, _INT, _INT, flag]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    a, a_row, a_step, b, b_step, c, c_row, last, k, add = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    fma = module.globals.get(f"llvm.fma.v{lanes}f{size}") or ir.Function(
        module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{size}"
    )
    undefined = ir.Constant(vector, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)

    def at(pointer, offset):
        return builder.gep(pointer, [offset], source_etype=_BYTE)

    def load(pointer, kind=vector):
        return builder.load(pointer, typ=kind, align=size // 8)

    def splat(x):
        one = builder.insert_element(undefined, x, ir.IntType(32)(0))
        return builder.shuffle_vector(one, undefined, zeros)

    def multiply_add(x, y, total):
        if fused:
            return builder.call(fma, (x, y, total))
        return builder.fadd(builder.fmul(x, y), total)

    offsets = [_INT(v * lanes * size // 8) for v in range(width - 1)] + [last]
    rows = [builder.mul(_INT(i), a_row) for i in range(height)]

    def step(a, b, sums):
        bs = [load(at(b, offset)) for offset in offsets]
        result = []
        for i in range(height):
            x = splat(load(at(a, rows[i]), scalar))
            result += [multiply_add(x, y, sums[i * width + v]) for v, y in enumerate(bs)]
        return at(a, a_step), at(b, b_step), result

    def loop(count, steps, a, b, sums):
        """`count` times so many steps of k; count may be 0."""
        before, body, after = builder.block, *(function.append_basic_block() for _ in range(2))
        builder.cbranch(builder.icmp_signed(">", count, _INT(0)), body, after)
        builder.position_at_end(body)
        left = builder.phi(_INT)
        first = [a, b, *sums]
        phis = [builder.phi(x.type) for x in first]
        a, b, sums = phis[0], phis[1], phis[2:]
        for _ in range(steps):
            a, b, sums = step(a, b, sums)
        fewer = builder.sub(left, _INT(1))
        left.add_incoming(count, before)
        left.add_incoming(fewer, body)
        builder.cbranch(builder.icmp_signed(">", fewer, _INT(0)), body, after)
        builder.position_at_end(after)
        result = []
        for phi, x, y in zip(phis, first, [a, b, *sums], strict=True):
            phi.add_incoming(x, before)
            phi.add_incoming(y, body)
            out = builder.phi(x.type)
            out.add_incoming(x, before)
            out.add_incoming(y, body)
            result.append(out)
        return result[0], result[1], result[2:]

    sums = [ir.Constant(vector, [0.0] * lanes)] * (height * width)
    a, b, sums = loop(builder.sdiv(k, _INT(_UNROLL)), _UNROLL, a, b, sums)
    a, b, sums = loop(builder.srem(k, _INT(_UNROLL)), 1, a, b, sums)

    places = [at(at(c, builder.mul(_INT(i), c_row)), o) for i in range(height) for o in offsets]
    with builder.if_else(add) as (then, otherwise):
        with then:
            # All are loaded before one is stored: the last vectors may overlap those before them.
            old = [load(place) for place in places]
            for place, x, y in zip(places, old, sums, strict=True):
                builder.store(builder.fadd(x, y), place, align=size // 8)
        with otherwise:
            for place, x in zip(places, sums, strict=True):
                builder.store(x, place, align=size // 8)
    builder.ret_void()
    return function


def _place(context, builder, kind, array, i, j):
    """The address of an element, and the strides."""
    array = context.make_array(kind)(context, builder, array)
    rows, columns = cgutils.unpack_tuple(builder, array.strides, 2)
    offset = builder.add(builder.mul(i, rows), builder.mul(j, columns))
    data = builder.bitcast(array.data, _POINTER)
    return builder.gep(data, [offset], source_etype=_BYTE), rows, columns


@intrinsic
def tile(typing, height, width, last, a, i, p, b, q, j, out, r, s, k, add):
    """A register tile: out[r:r+height, s:] = or += a[i:i+height, p:p+k] @ b[q:q+k, j:].

    It is `width` vectors wide, and the last of these starts at column `last` of the tile. Elements
    of a row of `b` and of `out` are neighbours in memory; `a` has any strides.
    """
    integer = types.intp
    signature = types.void(
        *[integer] * 3, a, integer, integer, b, integer, integer, out, integer, integer, integer,
        types.boolean,
    )  # fmt: skip

    def generate(context, builder, signature, arguments):
        height, width, last, a, i, p, b, q, j, out, r, s, k, add = arguments
        scalar = context.get_data_type(signature.args[3].dtype)
        size = context.get_abi_sizeof(scalar)
        lanes = VECTOR_BYTES // size
        a, a_row, a_step = _place(context, builder, signature.args[3], a, i, p)
        b, b_step, _ = _place(context, builder, signature.args[6], b, q, j)
        c, c_row, _ = _place(context, builder, signature.args[9], out, r, s)
        last = builder.mul(last, _INT(size))
        most = max(HOST.rows)
        which = builder.add(builder.mul(width, _INT(most + 1)), height)
        done = builder.append_basic_block()
        cases = builder.switch(which, done)
        for w in (1, 2, 3):
            for h in range(1, HOST.rows[w] + 1):
                cases.add_case(_INT(w * (most + 1) + h), builder.append_basic_block())
                builder.position_at_end(cases.cases[-1][1])
                function = tile_function(builder.module, scalar, lanes, h, w, HOST.fused)
                builder.call(function, [a, a_row, a_step, b, b_step, c, c_row, last, k, add])
                builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return signature, generate
