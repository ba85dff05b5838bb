"""A sandbox for optimising matrix multiplication: write a kernel, get an honest verdict.

Importing this package imports nothing else; a public name imports its module when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.problem import Problem
    from sandbox.registry import variant
    from sandbox.result import Result
    from sandbox.runner import judge

__all__ = ["Problem", "Result", "judge", "variant"]
_HOME = {"Problem": "problem", "Result": "result", "judge": "runner", "variant": "registry"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'sandbox' has no attribute {name!r}")
    return getattr(import_module(f"sandbox.{_HOME[name]}"), name)
