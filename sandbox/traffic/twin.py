"""A traced twin of every function that Numba compiled: it does the same and records its accesses.

What is traced is the optimised LLVM module, as the code generator left it: the loads and stores of
the machine code but for spills, which count as fast memory (see `near`).
"""

from __future__ import annotations

import ctypes
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import _dynfunc
from numba.core import config
from numba.core.registry import CPUDispatcher

from sandbox.traffic.hooks import hooks
from sandbox.traffic.instrument import Untraceable, instrument
from sandbox.traffic.near import near_bytes

_CAPACITY = 1 << 16  # records between two calls of the consumer: they stay in L2
Consumer = Callable[[np.ndarray], None]


class Tracer:
    """Runs what calls compiled functions with their twins in their place.

    Twins are kept for later runs. One run at a time.
    """

    def __init__(self) -> None:
        self._buffer = np.empty(_CAPACITY, np.uint64)
        self._cursor = np.zeros(1, np.int64)
        self._failure: BaseException | None = None
        self._consuming = False
        self._flush = ctypes.CFUNCTYPE(None)(self._empty)
        self._twins: dict[Any, tuple[Callable[..., Any], int]] = {}
        self._called: set[Any] = set()
        self._kept: list[Any] = []

    def _empty(self) -> None:
        self._consuming = True
        try:
            if self._failure is None:
                self._consume(self._buffer[: self._cursor[0]])
        except BaseException as error:  # it cannot pass through compiled code
            self._failure = error
        self._cursor[0] = 0
        self._consuming = False

    def run(self, call: Callable[[], None], consume: Consumer) -> int:
        """Make the call on one thread; returns the bytes nearer than any cache that it used.

        `consume` gets the records of its accesses (see `instrument`), in order, some ten thousand
        at a time; it must not keep the array. Raises Untraceable where they cannot be recorded, and
        what `call` and the consumer raise.
        """
        self._consume, self._failure, self._called = consume, None, set()
        self._cursor[0] = 0
        threads = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            with self._twins_called():
                call()
            self._empty()
        finally:
            numba.set_num_threads(threads)
        if self._failure is not None:
            raise self._failure
        if not self._called:
            raise Untraceable("it calls no function that Numba compiled")
        return max(self._twins[key][1] for key in self._called)

    @contextmanager
    def _twins_called(self) -> Iterator[None]:
        original, mine = CPUDispatcher.__call__, threading.get_ident()

        def call(dispatcher: Any, *args: Any, **named: Any) -> Any:
            if threading.get_ident() != mine:
                self._failure = Untraceable("it calls compiled code from threads of its own")
                return original(dispatcher, *args, **named)
            if self._consuming:  # the consumer, too, is compiled
                return original(dispatcher, *args, **named)
            if named or len(args) < len(dispatcher._compiler.pysig.parameters):
                bound = inspect.signature(dispatcher.py_func).bind(*args, **named)
                bound.apply_defaults()
                args = bound.args
            key = dispatcher, tuple(dispatcher.typeof_pyval(x) for x in args)
            if key not in self._twins:
                self._twins[key] = self._twin(*key)
            self._called.add(key)
            return self._twins[key][0](*args)

        CPUDispatcher.__call__ = call
        try:
            yield
        finally:
            del CPUDispatcher.__call__

    def _twin(self, dispatcher: Any, types: tuple[Any, ...]) -> tuple[Callable[..., Any], int]:
        """The same function compiled again, from its own optimised module; what it holds itself."""
        result = _compiled(dispatcher, types)
        library, text = result.library, result.library.get_llvm_str()
        cursor, buffer = self._cursor.ctypes.data, self._buffer.ctypes.data
        flush = ctypes.cast(self._flush, ctypes.c_void_p).value or 0
        module = llvm.parse_assembly(instrument(text) + hooks(cursor, buffer, flush, _CAPACITY))
        module.verify()
        options = {"opt": config.OPT}
        library.codegen._customize_tm_options(options)
        target = llvm.Target.from_triple(module.triple).create_target_machine(**options)
        engine = llvm.create_mcjit_compiler(module, target)
        engine.finalize_object()
        for variable in module.global_variables:
            if variable.name.startswith("_ZN08NumbaEnv"):  # what Numba keeps for each function
                address = library.codegen._engine.get_global_value_address(variable.name)
                mine = engine.get_global_value_address(variable.name)
                ctypes.memmove(mine, address, ctypes.sizeof(ctypes.c_void_p))
        self._kept += [engine, target, result]
        function: Callable[..., Any] = _dynfunc.make_function(
            result.fndesc.lookup_module(),
            result.fndesc.qualname.split(".")[-1],
            "",
            engine.get_function_address(result.fndesc.llvm_cpython_wrapper_name),
            result.environment,
            (engine,),
        )
        return function, near_bytes(text, library.get_asm_str())


def _compiled(dispatcher: Any, types: tuple[Any, ...]) -> Any:
    """The compiled function that a call with these types reaches; Numba's cache keeps no text of
    it, so what came from there is compiled again."""
    if not dispatcher._can_compile and types not in dispatcher.overloads:
        convert = dispatcher.typingctx.can_convert
        types = next(
            known
            for known in dispatcher.overloads
            if all(convert(x, y) is not None for x, y in zip(types, known, strict=True))
        )
    elif types not in dispatcher.overloads:
        dispatcher.compile(types)
    if dispatcher.stats.cache_hits.get(types):
        pipeline = dispatcher._compiler.pipeline_class
        options = dispatcher.targetoptions
        dispatcher = type(dispatcher)(dispatcher.py_func, dispatcher.locals, options, pipeline)
        dispatcher.compile(types)
    return dispatcher.overloads[types]
