"""Numba kernels of nothing but multiply-adds, or nothing but reads. For workers only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_UNROLL = 4
_READS = 16  # vectors a step: what the loop itself costs is hidden behind them


def _features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


def vector_bits() -> int:
    """The widest vectors of this processor (NEON's on aarch64)."""
    has = _features()
    return 512 if has.get("avx512f") else 256 if has.get("avx") else 128


def fma_kernel(dtype: str) -> tuple[Callable[[int, float], float], int]:
    """A loop of independent chains of multiply-adds, and the FLOP in one of its steps.

    Enough chains hide the latency of every FMA unit (4 cycles x 2 to 4 units), few enough stay in
    registers: 12 where there are 16 vector registers, else 24.
    """
    has, bits = _features(), vector_bits()
    scalar = {"fp32": ir.FloatType(), "fp64": ir.DoubleType()}[dtype]
    size = {"fp32": 32, "fp64": 64}[dtype]
    lanes, chains = bits // size, 12 if bits == 256 else 24
    vector = ir.VectorType(scalar, lanes)
    fused = bits == 128 or has.get("fma", False)

    @intrinsic
    def run_chains(typing: Any, steps: Any, seed: Any) -> Any:
        def generate(context: Any, b: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
            count, start = arguments

            def splat(value: ir.Value) -> ir.Value:
                one = b.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
                zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
                return b.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

            fma = b.module.globals.get(f"llvm.fma.v{lanes}f{size}") or ir.Function(
                b.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{size}"
            )
            x, y = splat(start), splat(b.fadd(start, scalar(0.25)))
            first = [splat(b.fadd(start, scalar(i))) for i in range(chains)]
            entry, loop, done = b.block, b.append_basic_block(), b.append_basic_block()
            b.branch(loop)
            b.position_at_end(loop)
            step = b.phi(count.type)
            phis = [b.phi(vector) for _ in first]
            now: list[ir.Value] = list(phis)
            for _ in range(_UNROLL):
                if fused:
                    now = [b.call(fma, (v, x, y)) for v in now]
                else:
                    now = [b.fadd(b.fmul(v, x), y) for v in now]
            following = b.add(step, count.type(1))
            for phi, before, after in zip(phis, first, now, strict=True):
                phi.add_incoming(before, entry)
                phi.add_incoming(after, loop)
            step.add_incoming(count.type(0), entry)
            step.add_incoming(following, loop)
            b.cbranch(b.icmp_signed("<", following, count), loop, done)
            b.position_at_end(done)
            total = now[0]
            for v in now[1:]:
                total = b.fadd(total, v)
            return b.extract_element(total, ir.IntType(32)(0))

        return seed(types.intp, seed), generate

    number = {"fp32": types.float32, "fp64": types.float64}[dtype]

    @njit(number(types.intp, number), nogil=True)
    def kernel(steps, seed):
        return run_chains(steps, seed)

    return kernel, 2 * lanes * chains * _UNROLL


def read_kernel() -> tuple[Callable[[Any, int], int], int]:
    """A loop of independent vector loads that goes round an array, and the bytes of one step.

    The array is int64, of a power of two of elements. Exclusive or takes one cycle: with eight
    chains of it the loads alone are the limit.
    """
    lanes, chains = vector_bits() // 64, 8
    vector = ir.VectorType(ir.IntType(64), lanes)

    @intrinsic
    def run_reads(typing: Any, array: Any, steps: Any) -> Any:
        def generate(context: Any, b: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
            struct = context.make_array(signature.args[0])(context, b, arguments[0])
            count, size = arguments[1], struct.nitems
            word = count.type
            entry, loop, done = b.block, b.append_basic_block(), b.append_basic_block()
            b.branch(loop)
            b.position_at_end(loop)
            step, at = b.phi(word), b.phi(word)
            phis = [b.phi(vector) for _ in range(chains)]
            now: list[ir.Value] = list(phis)
            for i in range(_READS):
                element = b.gep(struct.data, [b.add(at, word(i * lanes))])
                loaded = b.load(b.bitcast(element, vector.as_pointer()), align=8)
                now[i % chains] = b.xor(now[i % chains], loaded)
            following = b.add(step, word(1))
            onward = b.and_(b.add(at, word(_READS * lanes)), b.sub(size, word(1)))
            for phi, after in zip(phis, now, strict=True):
                phi.add_incoming(ir.Constant(vector, [0] * lanes), entry)
                phi.add_incoming(after, loop)
            for phi, after in ((step, following), (at, onward)):
                phi.add_incoming(word(0), entry)
                phi.add_incoming(after, loop)
            b.cbranch(b.icmp_signed("<", following, count), loop, done)
            b.position_at_end(done)
            total = now[0]
            for v in now[1:]:
                total = b.xor(total, v)
            first = b.extract_element(total, ir.IntType(32)(0))
            for lane in range(1, lanes):
                first = b.xor(first, b.extract_element(total, ir.IntType(32)(lane)))
            return first

        return types.int64(array, types.intp), generate

    @njit(types.int64(types.int64[::1], types.intp), nogil=True)
    def kernel(x, steps):
        return run_reads(x, steps)

    return kernel, vector_bits() // 8 * _READS
