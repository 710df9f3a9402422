"""Notebook 07's exercises: what a refused model must raise, and folds judged by what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.exercises.beyond import EXERCISES
from grader.judge.judge import judge
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}
lens = BY_NAME["from_transformer_lens"].reference


def verdict(name: str, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(BY_NAME[name], InProcess({name: answer}), seed)


def test_a_refusal_in_other_words_passes() -> None:
    def answer(state: dict[str, Any]) -> Any:
        try:
            return lens(state)
        except ValueError:
            raise ValueError("no") from None

    assert verdict("from_transformer_lens", answer).status is Status.PASS


def test_a_refusal_by_another_error_and_no_refusal_are_told_apart() -> None:
    def another(state: dict[str, Any]) -> Any:
        try:
            return lens(state)
        except ValueError as error:
            raise AssertionError(str(error)) from None

    def none(state: dict[str, Any]) -> Any:
        return lens({key: w for key, w in state.items() if ".b_" not in key})

    found = verdict("from_transformer_lens", another)
    assert found.status is Status.CRASHED
    assert "AssertionError" in found.message
    assert verdict("from_transformer_lens", none).mistake == "biases_ignored"


def test_a_fold_may_differ_by_what_a_normalized_input_cannot_see() -> None:
    def answer(weight: Tensor, bias: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        folded = weight[:, None] * W
        return folded + 3.0, bias @ W + b

    assert verdict("fold_layer_norm", answer).status is Status.PASS


def test_a_fold_that_is_off_in_one_row_fails() -> None:
    def answer(weight: Tensor, bias: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        folded = weight[:, None] * W
        folded[0] = folded[0] + 0.01
        return folded, bias @ W + b

    assert not verdict("fold_layer_norm", answer).passed
