"""What is special about notebook 01's exercises; the rules for all exercises are tested elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.circuits import zero_layer
from grader.exercises.zero_layer import EXERCISES
from grader.exercises.zero_layer.training import SLACK
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.spec import Case, Exercise
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}
TRAINING = BY_NAME["train_zero_layer"]
SEEDS = range(4)


@cache
def cheap_cases(seed: int) -> tuple[Case, ...]:
    """The chain and the wide model without the shipped texts: the same rules in less time."""
    return tuple(itertools.islice(TRAINING.cases(Draw(seed)), 2))


CHEAP = replace(TRAINING, cases=lambda draw: iter(cheap_cases(draw.seed)))


def verdict(exercise: Exercise, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(exercise, InProcess({exercise.name: answer}), seed)


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "train_zero_layer"])
def test_cases_hold_a_square_an_axis_of_size_one_and_float64_or_another_int(name: str) -> None:
    for seed in SEEDS:
        tensors = [
            argument
            for case in BY_NAME[name].cases(Draw(seed))
            for argument in case.args
            if isinstance(argument, Tensor)
        ]
        assert any(1 in tensor.shape for tensor in tensors) or name == "bigram_entropy"
        assert len({tensor.dtype for tensor in tensors}) >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_the_entropy_of_the_transposed_counts_lies_far_away(seed: int) -> None:
    """A statistic that barely sees a transpose needs cases built to show it."""
    for case in list(BY_NAME["bigram_entropy"].cases(Draw(seed)))[:3]:
        (counts,) = case.args
        there, back = (float(zero_layer.bigram_entropy(c)) for c in (counts, counts.T))
        assert abs(there - back) >= 0.02 * there


@pytest.mark.parametrize("seed", [0, 1])
def test_the_floor_of_each_case_can_be_reached_and_is_not_far_below(seed: int) -> None:
    for case in cheap_cases(seed):
        tokens, d_vocab, d_model, _ = case.args
        counts = zero_layer.bigram_counts(tokens, d_vocab)
        W_E, W_U = zero_layer.train_zero_layer(tokens, d_vocab, d_model, 1, steps=200)
        reached = float(zero_layer.table_loss(counts, zero_layer.bigram_table(W_E, W_U)))
        assert case.context["floor"] - 0.01 <= reached <= case.context["floor"] + SLACK
        assert float(zero_layer.bigram_entropy(counts)) <= case.context["floor"] + 1e-4


def test_weights_just_above_the_floor_are_wrong_and_just_below_the_limit_right() -> None:
    """The trained logits scaled until the loss is where the test wants it."""

    def above(excess: float) -> Callable[..., Any]:
        def answer(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Any:
            counts = zero_layer.bigram_counts(tokens, d_vocab).double()
            W_E, W_U = zero_layer.train_zero_layer(tokens, d_vocab, d_model, seed, steps=200)
            aim = next(c.context["floor"] for c in cheap_cases(0) if c.args[0].equal(tokens))
            low, high = 0.0, 1.0
            for _ in range(40):
                scale = (low + high) / 2
                loss = float(zero_layer.table_loss(counts, (scale * W_E @ W_U).log_softmax(-1)))
                low, high = (scale, high) if loss > aim + excess else (low, scale)
            return scale * W_E, W_U

        return answer

    assert verdict(CHEAP, above(0.9 * SLACK)).status is Status.PASS
    found = verdict(CHEAP, above(1.2 * SLACK))
    assert (found.status, found.mistake) == (Status.WRONG, "stopped_too_early")


def test_training_that_differs_from_run_to_run_is_wrong() -> None:
    def unseeded(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Any:
        return zero_layer.train_zero_layer(tokens, d_vocab, d_model, next(calls), steps=200)

    calls = itertools.count()
    assert verdict(CHEAP, unseeded).status is Status.WRONG


def test_weights_of_another_width_are_wrong() -> None:
    def wider(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Any:
        return zero_layer.train_zero_layer(tokens, d_vocab, d_model + 1, seed, steps=20)

    found = verdict(CHEAP, wider)
    assert found.status is Status.WRONG
    assert found.message.startswith("Shape")


def test_weights_of_nan_do_not_pass() -> None:
    def diverged(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Any:
        return torch.full((d_vocab, d_model), torch.nan), torch.zeros(d_model, d_vocab)

    found = verdict(CHEAP, diverged)
    assert (found.status, found.mistake) == (Status.WRONG, "diverged")


def test_a_model_that_stores_another_pair_order_is_told_so() -> None:
    def backwards(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Any:
        return zero_layer.train_zero_layer(tokens.flip(0), d_vocab, d_model, seed, steps=100)

    assert verdict(CHEAP, backwards).mistake == "trained_backwards"
