"""The pebble game: every rule is held, and blocked's schedule scores what is claimed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.cpu.blocked import TILE, WORDS
from sandbox.roofline import Gemm, pebble_bytes
from sandbox.traffic.game import (
    COMPUTE,
    DELETE_BLUE,
    DELETE_RED,
    INPUT,
    OUTPUT,
    Game,
    IllegalMove,
    blocked,
    score,
    tile,
)


def moves(*steps):
    return np.array([8 * vertex + kind for vertex, kind in steps])


def test_one_multiplication_from_first_to_last():
    game = Game(1, 1, 1, 4)
    a, b, p, c = game.a(0, 0), game.b(0, 0), game.product(0, 0, 0), game.sum(0, 0, 0)
    game.play(moves((a, INPUT), (b, INPUT), (p, COMPUTE), (a, DELETE_RED), (c, COMPUTE)))
    assert not game.won
    game.play(moves((c, OUTPUT), (c, DELETE_RED)))
    assert game.won
    assert game.score == 3
    game.play(moves((c, DELETE_BLUE)))
    assert not game.won


@pytest.mark.parametrize(
    ("steps", "words", "reason"),
    [
        ([("c", INPUT)], 9, "move 0: input of a vertex without a blue"),
        ([("a", INPUT), ("b", OUTPUT)], 9, "move 1: output of a vertex without a red"),
        ([("a", INPUT), ("p", COMPUTE)], 9, "move 1: compute"),
        ([("b", INPUT), ("p", COMPUTE)], 9, "move 1: compute"),
        ([("a", COMPUTE)], 9, "move 0: compute of an input"),
        ([("c", COMPUTE)], 9, "move 0: compute"),
        ([("a", DELETE_RED)], 9, "move 0: delete"),
        ([("a", DELETE_BLUE), ("a", INPUT)], 9, "move 1: input"),
        ([("p", DELETE_BLUE)], 9, "move 0: delete"),
        ([("a", INPUT), ("b", INPUT), ("p", COMPUTE)], 2, "move 2: more red pebbles"),
        ([("a", INPUT), ("b", INPUT), ("p", COMPUTE), ("c1", COMPUTE)], 9, "move 3: compute"),
        ([("a", 5)], 9, "move 0: no such"),
        ([(10**6, INPUT)], 9, "move 0: no such"),
        ([(-1, INPUT)], 9, "move 0: no such"),
    ],
)
def test_what_the_rules_forbid(steps, words, reason):
    game = Game(1, 1, 2, words)
    names = {"a": game.a(0, 0), "b": game.b(0, 0), "p": game.product(0, 0, 0)}
    names |= {"c": game.sum(0, 0, 0), "c1": game.sum(0, 0, 1)}
    with pytest.raises(IllegalMove, match=reason):
        game.play(moves(*((names.get(vertex, vertex), kind) for vertex, kind in steps)))


def test_a_pebble_on_a_pebble_takes_no_room():
    game = Game(1, 1, 1, 2)
    a, b = game.a(0, 0), game.b(0, 0)
    game.play(moves((a, INPUT), (b, INPUT), (a, INPUT)))
    assert game.score == 3


def test_a_game_that_is_given_up():
    with pytest.raises(IllegalMove, match="before every output"):
        score(4, 2, 2, 15, list(blocked(4, 2, 2, 15))[:-1])


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.integers(15, 200))
def test_blocked_is_legal_and_above_the_bound(m, n, k, words):
    moved = score(m, n, k, words, blocked(m, n, k, words))
    side = tile(words)
    assert moved == -(-n // side) * m * k + -(-m // side) * k * n + m * n
    assert 4 * moved >= pebble_bytes(Gemm(m, n, k), 4 * words)


def test_blocked_comes_within_10_percent_of_the_leading_term():
    n, words = 496, 1024
    moved = score(n, n, n, words, blocked(n, n, n, words))
    assert moved == 2 * n**3 // 31 + n * n
    assert moved <= 1.10 * 2 * n**3 / words**0.5


def test_the_variant_plays_that_schedule():
    assert TILE == tile(WORDS) == 31


def test_too_small_a_memory_is_named():
    with pytest.raises(ValueError, match="14 words is too small"):
        tile(14)
