"""Vector code for Numba: a register tile's multiply-adds, written as LLVM instructions.

The widths follow from what the processor has: 512, 256 or 128 bits, 32 or 16 registers, with fused
multiply-add or without.
"""

from dataclasses import dataclass
from itertools import product

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

_POINTER, _INT, _BYTE = ir.PointerType(), ir.IntType(64), ir.IntType(8)
_UNROLL = 2  # steps of k in one iteration: of more, the tiles outgrow the instruction caches


@dataclass(frozen=True)
class Target:
    """What a processor offers to vector code."""

    bits: int
    registers: int
    fused: bool

    @property
    def rows(self):
        """The most rows of a register tile that is 2 or 3 vectors wide.

        The vectors of B and one element of A have to fit beside the sums; and there have to be
        enough sums, 8 or more, to hide the latency of two multiply-add units.
        """
        if self.registers == 32:
            return (0, 0, 8, 8) if self.bits == 512 else (0, 0, 8, 6)  # loads take more on NEON
        return (0, 0, 6, 4) if self.fused else (0, 0, 4, 3)  # products take registers, too


def target(features, arm=False):
    """The Target of a processor with such features, by LLVM's names of them."""
    if features.get("avx512f"):
        return Target(512, 32, True)
    if features.get("avx"):
        return Target(256, 16, bool(features.get("fma")))
    return Target(128, 32, True) if arm else Target(128, 16, bool(features.get("fma")))


HOST = target(llvm.get_host_cpu_features(), llvm.get_process_triple().startswith("aarch64"))
VECTOR_BYTES = HOST.bits // 8


def tile_function(module, scalar, lanes, height, width, fused, keeping=False):
    """LLVM's function for a register tile of `height` rows by `width` vectors of C.

    void(a, a_row, b, b_step, c, c_row, last, k, add, panel): k steps, in each of which row i takes
    the element of A at a + i * a_row times the vectors of B at b; the last of these lies `last`
    bytes behind the first, in B as in C. Then C becomes the sums, or grows by them. Strides are in
    bytes. Where it is `keeping`, it leaves a copy of what it reads of B in the panel.
    """
    size = {ir.FloatType(): 32, ir.DoubleType(): 64}[scalar]
    name = f"tile_{height}x{width}_v{lanes}f{size}{'_keeping' if keeping else ''}"
    if name in module.globals:
        return module.globals[name]
    vector = ir.VectorType(scalar, lanes)
    flag = ir.IntType(1)
    arguments = [_POINTER, _INT, _POINTER, _INT, _POINTER, _INT, _INT, _INT, flag, _POINTER]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    a, a_row, b, b_step, c, c_row, last, k, add, panel = function.args
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
    # LLVM would chain the addresses of rows, each from the one before it, and wait for every link.
    opaque = ir.InlineAsm(ir.FunctionType(_INT, [_INT]), "", "=r,0")
    panel_step = 3 * lanes * size // 8
    rows = [_INT(0)]
    rows += [builder.call(opaque, [builder.mul(_INT(i), a_row)]) for i in range(1, height)]

    # C's lines are on their way while the sums grow; a short tile fetches those of the one below.
    ahead = builder.select(builder.icmp_signed("<", k, _INT(64)), _INT(height), _INT(0))
    for i in range(height):
        row = at(c, builder.mul(builder.add(ahead, _INT(i)), c_row))
        for offset in (_INT(0), builder.add(last, _INT(lanes * size // 8 - 1))):
            _prefetch(builder, at(row, offset), writing=1, hint=3)

    def step(a, b, panel, *sums):
        ys = [load(at(b, offset)) for offset in offsets]
        if keeping:
            for y, offset in zip(ys, offsets, strict=True):
                builder.store(y, at(panel, offset), align=size // 8)
        result = []
        for i in range(height):
            x = splat(load(at(a, rows[i]), scalar))
            result += [multiply_add(x, y, sums[i * width + v]) for v, y in enumerate(ys)]
        return [at(a, _INT(size // 8)), at(b, b_step), at(panel, _INT(panel_step)), *result]

    def loop(count, steps, first):
        """`count` iterations (0 too) of so many steps of k."""
        entry, body, done = builder.block, *(function.append_basic_block() for _ in range(2))
        builder.cbranch(builder.icmp_signed(">", count, _INT(0)), body, done)
        builder.position_at_end(body)
        left, *before = (builder.phi(x.type) for x in (count, *first))
        after = before
        for _ in range(steps):
            after = step(*after)
        fewer = builder.sub(left, _INT(1))
        for phi, x, y in zip([left, *before], [count, *first], [fewer, *after], strict=True):
            phi.add_incoming(x, entry)
            phi.add_incoming(y, body)
        builder.cbranch(builder.icmp_signed(">", fewer, _INT(0)), body, done)
        builder.position_at_end(done)
        result = [builder.phi(x.type) for x in first]
        for phi, x, y in zip(result, first, after, strict=True):
            phi.add_incoming(x, entry)
            phi.add_incoming(y, body)
        return result

    zero = ir.Constant(vector, [0.0] * lanes)
    state = loop(builder.sdiv(k, _INT(_UNROLL)), _UNROLL, [a, b, panel, *[zero] * (height * width)])
    sums = loop(builder.srem(k, _INT(_UNROLL)), 1, state)[3:]

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
    data = builder.inttoptr(builder.ptrtoint(array.data, _INT), _POINTER)
    return builder.gep(data, [offset], source_etype=_BYTE), rows, columns


@intrinsic
def tile(typing, height, width, last, a, i, p, b, q, j, out, r, s, k, add, panel, strip, keep):
    """A register tile: out[r:r+height, s:] = or += a[i:i+height, p:p+k] @ b[q:q+k, j:].

    It is `width` vectors wide, and the last of these starts at column `last` of the tile. Elements
    of a row are neighbours in memory, in each of the three. With `keep`, what is read of `b` is
    copied to panel[strip:strip+k]; tiles of half the rows or less do not do that.
    """
    integer = types.intp
    where = [x for array in (a, b, out) for x in (array, integer, integer)]
    ends = [integer, types.boolean, panel, integer, types.boolean]
    signature = types.void(integer, integer, integer, *where, *ends)

    def generate(context, builder, signature, arguments):
        height, width, last, a, i, p, b, q, j, out, r, s, k, add, panel, strip, keep = arguments
        scalar = context.get_data_type(signature.args[3].dtype)
        size = context.get_abi_sizeof(scalar)
        lanes = VECTOR_BYTES // size
        a, a_row, _ = _place(context, builder, signature.args[3], a, i, p)
        b, b_step, _ = _place(context, builder, signature.args[6], b, q, j)
        c, c_row, _ = _place(context, builder, signature.args[9], out, r, s)
        panel, _, _ = _place(context, builder, signature.args[14], panel, strip, _INT(0))
        last = builder.mul(last, _INT(size))
        most = max(HOST.rows) + 1
        which = builder.add(builder.mul(width, _INT(most)), height)
        which = builder.select(keep, builder.add(which, _INT(4 * most)), which)
        done = builder.append_basic_block()
        cases = builder.switch(which, done)
        for keeping, w in product((False, True), (2, 3)):
            for h in range(1 + keeping * HOST.rows[w] // 2, HOST.rows[w] + 1):
                block = builder.append_basic_block()
                cases.add_case(_INT((4 * keeping + w) * most + h), block)
                builder.position_at_end(block)
                function = tile_function(builder.module, scalar, lanes, h, w, HOST.fused, keeping)
                builder.call(function, [a, a_row, b, b_step, c, c_row, last, k, add, panel])
                builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _move(typing, target, source, i, j):
    """One vector: target[i, j:j+lanes] = source[i, j:j+lanes]."""

    def generate(context, builder, signature, arguments):
        target, source, i, j = arguments
        to, _, _ = _place(context, builder, signature.args[0], target, i, j)
        of, _, _ = _place(context, builder, signature.args[1], source, i, j)
        scalar = context.get_data_type(signature.args[0].dtype)
        size = context.get_abi_sizeof(scalar)
        vector = ir.VectorType(scalar, VECTOR_BYTES // size)
        builder.store(builder.load(of, typ=vector, align=size), to, align=size)
        return context.get_dummy_value()

    integer = types.intp
    return types.void(target, source, integer, integer), generate


def transposed(builder, rows):
    """The columns of a square of vectors: halves change places, then quarters, and so on."""
    rows, lanes = list(rows), len(rows)
    distance = lanes // 2
    while distance:
        upper = [x + (lanes - distance if x & distance else 0) for x in range(lanes)]
        lower = [x + (lanes if x & distance else distance) for x in range(lanes)]
        for x in range(lanes):
            if not x & distance:
                pair = rows[x], rows[x + distance]
                rows[x], rows[x + distance] = (
                    builder.shuffle_vector(
                        *pair, ir.Constant(ir.VectorType(ir.IntType(32), lanes), mask)
                    )
                    for mask in (upper, lower)
                )
        distance //= 2
    return rows


def transpose_function(module, scalar, lanes):
    """LLVM's function void(to, to_row, of, of_column): a square of vectors, strides in bytes."""
    size = {ir.FloatType(): 4, ir.DoubleType(): 8}[scalar]
    name = f"transpose_v{lanes}f{8 * size}"
    if name in module.globals:
        return module.globals[name]
    arguments = [_POINTER, _INT, _POINTER, _INT]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    to, to_row, of, of_column = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    vector = ir.VectorType(scalar, lanes)

    def at(pointer, stride, x):
        return builder.gep(pointer, [builder.mul(stride, _INT(x))], source_etype=_BYTE)

    columns = [builder.load(at(of, of_column, x), typ=vector, align=size) for x in range(lanes)]
    for x, row in enumerate(transposed(builder, columns)):
        builder.store(row, at(to, to_row, x), align=size)
    builder.ret_void()
    return function


@intrinsic
def _move_transposed(typing, target, source, i, j):
    """target[i:i+lanes, j:j+lanes] = source[i:i+lanes, j:j+lanes], whose columns are contiguous."""

    def generate(context, builder, signature, arguments):
        target, source, i, j = arguments
        to, to_row, _ = _place(context, builder, signature.args[0], target, i, j)
        of, _, of_column = _place(context, builder, signature.args[1], source, i, j)
        scalar = context.get_data_type(signature.args[0].dtype)
        size = context.get_abi_sizeof(scalar)
        lanes = VECTOR_BYTES // size
        move = transpose_function(builder.module, scalar, lanes)
        builder.call(move, [to, to_row, of, of_column])
        return context.get_dummy_value()

    integer = types.intp
    return types.void(target, source, integer, integer), generate


@njit
def copy(target, source):
    """target[...] = source, of one shape; rows of `target` are contiguous.

    By vectors where rows or columns of `source` are contiguous; the last vectors overlap others.
    """
    lanes = VECTOR_BYTES // source.itemsize
    rows, columns = source.shape
    if source.strides[1] == source.itemsize and columns >= lanes:
        for i in range(rows):
            for j in range(0, columns - lanes, lanes):
                _move(target, source, i, j)
            _move(target, source, i, columns - lanes)
    elif source.strides[0] == source.itemsize and min(rows, columns) >= lanes:
        for left in range(rows, 0, -lanes):
            i = min(rows - left, rows - lanes)
            for j in range(0, columns - lanes, lanes):
                _move_transposed(target, source, i, j)
            _move_transposed(target, source, i, columns - lanes)
    else:
        for i in range(rows):
            for j in range(columns):
                target[i, j] = source[i, j]


@njit
def rows_contiguous(x):
    """Are the elements of a row neighbours in memory?"""
    return x.strides[1] == x.itemsize


@intrinsic
def contiguous(typing, x):
    """x, one-dimensional, whose elements are neighbours in memory: typed so that LLVM knows it."""

    def generate(context, builder, signature, arguments):
        return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])

    return x.copy(layout="C")(x), generate


@intrinsic
def prefetch(typing, x, i, j):
    """Fetch the cache line of x[i, j], which may lie outside."""

    def generate(context, builder, signature, arguments):
        place, _, _ = _place(context, builder, signature.args[0], *arguments)
        _prefetch(builder, place)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp), generate


def _prefetch(builder, place, writing=0, hint=2):
    kind = ir.FunctionType(ir.VoidType(), [_POINTER, *[ir.IntType(32)] * 3])
    name = "llvm.prefetch.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [place, *(ir.IntType(32)(x) for x in (writing, hint, 1))])


@intrinsic
def fetch_add(typing, counter):
    """counter[0], which is one more afterwards: no two threads are given the same."""

    def generate(context, builder, signature, arguments):
        place = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", place, _INT(1), "monotonic")

    return types.int64(counter), generate


@njit
def aligned(rows, columns, like):
    """An array that starts with a cache line: no vector then straddles two of them."""
    line = 64 // like.itemsize
    flat = np.empty(rows * columns + line, like.dtype)
    skip = -flat.ctypes.data % 64 // like.itemsize
    return flat[skip : skip + rows * columns].reshape(rows, columns)[:, ::1]
