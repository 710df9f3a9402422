"""Whatever an answer holds, it is judged: no exercise's own arithmetic becomes the grader's fault."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from grader import exercises
from grader.judge.judge import judge_here
from grader.judge.spec import Exercise
from grader.judge.verdict import Status
from grader.transformer import Transformer

TRAINED = 30.0  # seconds: an exercise with more is judged by training
ASKED = [e for e in exercises.registry().values() if e.budget.wall <= TRAINED]


def spoiled(value: Any, number: float) -> Any:
    """The answer with its first number replaced, and in a model the first of each weight."""
    if isinstance(value, Transformer):
        return value.with_weights(**{k: spoiled(w, number) for k, w in value.weights().items()})
    if isinstance(value, tuple | list):
        return type(value)(spoiled(item, number) for item in value)
    if isinstance(value, Tensor) and value.numel() and value.dtype != torch.bool:
        value = value.clone() if value.is_complex() else value.double()
        value.view(-1)[0] = number
        return value
    return number if isinstance(value, float) else value


@pytest.mark.parametrize("exercise", ASKED, ids=lambda e: e.name)
def test_numbers_that_are_none_are_wrong_and_not_our_fault(exercise: Exercise) -> None:
    for number in (math.nan, -1e300):

        def answer(*args: Any, number: float = number) -> Any:
            return spoiled(exercise.reference(*args), number)

        answer.__name__ = exercise.name
        verdict = judge_here(exercise, answer)
        assert verdict.status is not Status.GRADER_ERROR, (verdict.message, verdict.seed)
        assert not verdict.passed or verdict.points == exercise.points


THINGS = [10**30, [10**30], torch.zeros(0), "\ud800", None, [[[]], [1]], {1: 2}, object()]


@pytest.mark.parametrize("exercise", ASKED, ids=lambda e: e.name)
def test_things_that_are_no_numbers_are_wrong_and_not_our_fault(exercise: Exercise) -> None:
    first = ASKED.index(exercise) % len(THINGS)  # two an exercise, so that each meets many
    for thing in (THINGS[first], THINGS[first - 3]):

        def answer(*args: Any, thing: Any = thing) -> Any:
            return thing

        answer.__name__ = exercise.name
        verdict = judge_here(exercise, answer)
        assert verdict.status in (Status.WRONG, Status.PARTIAL), (verdict.message, verdict.seed)
