"""The red-blue pebble game of Hong and Kung (STOC 1981), played on C = A B.

Vertices are the inputs A[i, l] and B[l, j], the products P[i, j, l] = A[i, l] B[l, j], and the
partial sums C[i, j, l] = C[i, j, l - 1] + P[i, j, l] (C[i, j, 0] has P[i, j, 0] as its only
predecessor). At first there is a blue pebble on every input. The rules, with at most S red pebbles
at any time:

    input    a red pebble may be placed on a vertex that has a blue one
    output   a blue pebble may be placed on a vertex that has a red one
    compute  a red pebble may be placed on a vertex whose predecessors all have red ones
    delete   a pebble, red or blue, may be removed from any vertex

The game ends with blue pebbles on all outputs C[i, j, k - 1]. Inputs and outputs cost one each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isqrt
from typing import Any

import numpy as np
from numba import njit

INPUT, OUTPUT, COMPUTE, DELETE_RED, DELETE_BLUE = range(5)
_RED, _BLUE = 1, 2
_MISTAKES = {
    1: "input of a vertex without a blue pebble",
    2: "output of a vertex without a red pebble",
    3: "compute of an input, or of a vertex with a predecessor without a red pebble",
    4: "delete of a pebble that is not there",
    5: "more red pebbles than the fast memory has words",
    6: "no such vertex or move",
}


class IllegalMove(ValueError):
    """A move that the rules forbid: its number from 0, and what is wrong."""


class Game:
    """One game for C (m x n) = A (m x k) B (k x n) with S = `words` red pebbles.

    Vertices are numbered by `a`, `b`, `product` and `sum`; a move is 8 times a vertex, plus one of
    INPUT, OUTPUT, COMPUTE, DELETE_RED, DELETE_BLUE. All take arrays, too.
    """

    def __init__(self, m: int, n: int, k: int, words: int) -> None:
        self.m, self.n, self.k, self.words = m, n, k, words
        self._inputs = (m + n) * k
        self._pebbles = np.zeros(self._inputs + 2 * m * n * k, np.uint8)
        self._pebbles[: self._inputs] = _BLUE
        self._counts = np.zeros(4, np.int64)  # red pebbles now, moves, inputs, outputs

    def a(self, i: Any, l: Any) -> Any:  # noqa: E741
        """The vertex of A[i, l]."""
        return i * self.k + l

    def b(self, l: Any, j: Any) -> Any:  # noqa: E741
        """The vertex of B[l, j]."""
        return self.m * self.k + l * self.n + j

    def product(self, i: Any, j: Any, l: Any) -> Any:  # noqa: E741
        """The vertex of P[i, j, l]."""
        return self._inputs + (i * self.n + j) * self.k + l

    def sum(self, i: Any, j: Any, l: Any) -> Any:  # noqa: E741
        """The vertex of C[i, j, l]."""
        return self.product(i, j, l) + self.m * self.n * self.k

    def play(self, moves: np.ndarray) -> None:
        """Make some moves; raises IllegalMove at the first that the rules forbid."""
        shape = (self.m, self.n, self.k)
        mistake = _play(np.asarray(moves, np.int64), shape, self.words, self._pebbles, self._counts)
        if mistake:
            raise IllegalMove(f"move {self._counts[1]}: {_MISTAKES[mistake]}")

    @property
    def score(self) -> int:
        """Words moved so far: inputs and outputs."""
        return int(self._counts[2:].sum())

    @property
    def won(self) -> bool:
        """Has every output a blue pebble?"""
        sums = self._pebbles[self._inputs + self.m * self.n * self.k :]
        return bool((sums[self.k - 1 :: self.k] & _BLUE).all())


def score(m: int, n: int, k: int, words: int, moves: Iterable[np.ndarray]) -> int:
    """Words that a schedule moves; raises IllegalMove, also where it ends before the game does."""
    game = Game(m, n, k, words)
    for some in moves:
        game.play(some)
    if not game.won:
        raise IllegalMove("the moves end before every output has a blue pebble")
    return game.score


def tile(words: int) -> int:
    """The side of the square of sums that stays in fast memory: the largest b, b^2 + 2b <= S.

    b^2 sums, a column of b elements of A, and one of B, a product and a new sum: b + 3 <= 2b from
    b = 3 on. Raises ValueError below the 15 words that takes.
    """
    if words < 15:
        raise ValueError(f"a fast memory of {words} words is too small for blocks: 15 or more")
    return isqrt(words + 1) - 1


def blocked(m: int, n: int, k: int, words: int) -> Iterator[np.ndarray]:
    """The schedule of the variant `blocked`: one block of C after the other, all of k for each.

    For each l a column of A's block comes in, then the elements of B's row one by one. Moves
    2 mnk / b + mn words where b = `tile(words)` divides m and n.
    """
    side = tile(words)
    for i in range(0, m, side):
        for j in range(0, n, side):
            yield _block((m, n, k), i, min(i + side, m), j, min(j + side, n))


@njit(cache=True)
def _block(shape, i0, i1, j0, j1):
    """All moves for the block of rows i0 to i1 and columns j0 to j1 of C."""
    m, n, k = shape
    height, width = i1 - i0, j1 - j0
    count = k * (2 * height + 2 * width + 4 * height * width) + height * width
    moves, at = np.empty(count, np.int64), 0
    for l in range(k):  # noqa: E741
        for i in range(i0, i1):
            moves[at] = (i * k + l) * 8 + INPUT
            at += 1
        for j in range(j0, j1):
            b = (m * k + l * n + j) * 8
            moves[at] = b + INPUT
            at += 1
            for i in range(i0, i1):
                product = ((m + n) * k + (i * n + j) * k + l) * 8
                total = product + m * n * k * 8
                moves[at], moves[at + 1] = product + COMPUTE, total + COMPUTE
                moves[at + 2], at = product + DELETE_RED, at + 3
                if l > 0:
                    moves[at], at = total - 8 + DELETE_RED, at + 1
            moves[at] = b + DELETE_RED
            at += 1
        for i in range(i0, i1):
            moves[at] = (i * k + l) * 8 + DELETE_RED
            at += 1
    for i in range(i0, i1):
        for j in range(j0, j1):
            done = ((m + n) * k + m * n * k + (i * n + j) * k + k - 1) * 8
            moves[at], moves[at + 1] = done + OUTPUT, done + DELETE_RED
            at += 2
    return moves[:at]


@njit(cache=True)
def _play(moves, shape, words, pebbles, counts):
    """Returns 0, or which rule a move breaks; the counts stop before it."""
    m, n, k = shape
    inputs, products = (m + n) * k, m * n * k
    for move in moves:
        vertex, kind = move >> 3, move & 7
        if vertex < 0 or vertex >= pebbles.size:
            return 6
        has = pebbles[vertex]
        if kind == INPUT:
            if not has & _BLUE:
                return 1
            counts[2] += 1
        elif kind == OUTPUT:
            if not has & _RED:
                return 2
            pebbles[vertex] |= _BLUE
            counts[3] += 1
        elif kind == COMPUTE:
            at = vertex - inputs
            if at < 0:
                return 3
            if at < products:
                i, j, inner = at // (n * k), at // k % n, at % k
                ready = pebbles[i * k + inner] & pebbles[m * k + inner * n + j]
            else:
                ready = pebbles[vertex - products]
                if (at - products) % k:
                    ready &= pebbles[vertex - 1]
            if not ready & _RED:
                return 3
        elif kind in (DELETE_RED, DELETE_BLUE):
            pebble = _RED if kind == DELETE_RED else _BLUE
            if not has & pebble:
                return 4
            pebbles[vertex] &= ~pebble
            counts[0] -= kind == DELETE_RED
        else:
            return 6
        if kind in (INPUT, COMPUTE) and not has & _RED:
            if counts[0] == words:
                return 5
            counts[0] += 1
            pebbles[vertex] |= _RED
        counts[1] += 1
    return 0
