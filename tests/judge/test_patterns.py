"""Every general pattern is seen where it is, and not in a right or an unrelated answer."""

import math

import pytest
import torch

from grader.judge.patterns import PATTERNS

SIZES = {"dst": 5, "src": 4, "d_head": 3}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seen(value: torch.Tensor, expected: torch.Tensor) -> list[str]:
    return [s.name for pattern in PATTERNS for s in pattern(value, expected, 1e-6, SIZES)]


E = draw(5, 4)
S = draw(6, 6, seed=1)
P = S.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
L = draw(5, 5, seed=2).log_softmax(-1)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("not_finite", E / 0.0, E),
        ("not_finite", torch.where(E > 0, E, math.nan), E),
        ("transposed", E.T, E),
        ("transposed", S.T, S),
        ("permuted_axes", draw(2, 3, 4).permute(2, 0, 1), draw(2, 3, 4)),
        ("negated", -E, E),
        ("constant_factor", E * 3**0.5, E),
        ("constant_offset", E + 1.5, E),
        ("row_constant", L + draw(5, 1), L),
        ("row_scale", E * draw(5, 1).abs(), E),
        ("exponentiated", L.exp(), L),
        ("logarithm", P.double().exp().log(), P.exp()),
        ("wrong_axis_normalised", S.softmax(0), S.softmax(-1)),
        ("wrong_axis_normalised", S.log_softmax(0), S.log_softmax(-1)),
        ("future_leaks", S.softmax(-1), P),
        ("rolled_by_one", E.roll(1, 0), E),
        ("rolled_by_one", E.roll(-1, 1), E),
    ],
)
def test_pattern_is_seen(name: str, value: torch.Tensor, expected: torch.Tensor) -> None:
    assert name in seen(value, expected)


def test_nothing_is_seen_in_unrelated_numbers() -> None:
    assert seen(draw(5, 4, seed=7), E) == []
    assert seen(draw(6, 6, seed=8), S) == []
    assert seen(torch.zeros(5, 4), E) == []
    assert seen(torch.zeros(3, 5, 4), E) == []


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (3**0.5, "√d_head times too large"),
        (3**-0.5, "√d_head times too small"),
        (1 / 5, "dst times too small"),
        (1 / math.log(2), "bits"),
        (7.25, "7.25"),
    ],
)
def test_the_factor_is_named(factor: float, words: str) -> None:
    messages = [s.message for pattern in PATTERNS for s in pattern(E * factor, E, 1e-6, SIZES)]
    assert any(words in message for message in messages)
