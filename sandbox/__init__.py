"""A sandbox for optimising matrix multiplication: write a kernel, get an honest verdict.

Importing this package imports neither numba nor torch nor triton: only the workers do.
"""

from sandbox.problem import Problem
from sandbox.registry import variant
from sandbox.result import Result
from sandbox.runner import judge

__all__ = ["Problem", "Result", "judge", "variant"]
