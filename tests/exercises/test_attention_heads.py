"""Notebook 02's exercises: what each mask, scale and basis is taken for, and what still passes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.exercises.attention_heads import EXERCISES
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.spec import Exercise
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}
SEEDS = range(5)


def verdict(name: str, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(BY_NAME[name], InProcess({name: answer}), seed)


def future(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


@pytest.mark.parametrize("fill", [-torch.inf, -1e30, -1e9, -1e4])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_mask_that_no_score_reaches_passes(fill: float, seed: int) -> None:
    def answer(scores: Tensor) -> Tensor:
        return scores.masked_fill(future(scores), fill).softmax(dim=-1)

    assert verdict("causal_pattern", answer, seed).status is Status.PASS


@pytest.mark.parametrize("constant", [-1.0, -5.0, -10.0, -20.0, -50.0])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_weak_mask_is_named_whatever_its_number(constant: float, added: bool, seed: int) -> None:
    def answer(scores: Tensor) -> Tensor:
        hidden = future(scores)
        weak = scores + constant * hidden if added else scores.masked_fill(hidden, constant)
        return weak.softmax(dim=-1)

    if added and constant <= -20.0:  # e^−20 of a neighbour's attention is within any tolerance
        assert verdict("causal_pattern", answer, seed).mistake in ("", "weak_mask")
    else:
        assert verdict("causal_pattern", answer, seed).mistake == "weak_mask"


def test_other_leaks_are_not_taken_for_a_weak_mask() -> None:
    def uneven_leak(scores: Tensor) -> Tensor:
        pushed = -3.0 * torch.arange(1, scores.shape[-1] + 1) * future(scores)
        return (scores + pushed).softmax(dim=-1)

    assert verdict("causal_pattern", uneven_leak).mistake == "future_leaks"


@pytest.mark.parametrize("name", ["causal_pattern", "attention_layer"])
def test_a_row_of_nan_is_traced_to_the_masked_diagonal(name: str) -> None:
    mistake = next(m for m in BY_NAME[name].mistakes if m.name == "diagonal_masked")
    found = verdict(name, mistake.answer)
    assert found.status is Status.WRONG
    assert "row 0" in found.message


def test_the_first_row_may_only_see_itself() -> None:
    def uniform_first_row(scores: Tensor) -> Tensor:
        pattern = scores.masked_fill(future(scores), -torch.inf).softmax(dim=-1)
        return torch.cat(
            [torch.full_like(pattern[..., :1, :], 1 / scores.shape[-1]), pattern[..., 1:, :]],
            dim=-2,
        )

    assert verdict("causal_pattern", uniform_first_row).status is Status.WRONG


def test_one_right_form_of_the_sum_earns_its_half() -> None:
    def answer(z: Tensor, W_O: Tensor) -> tuple[Tensor, Tensor]:
        return z.reshape(z.shape[1], -1) @ W_O.reshape(-1, W_O.shape[-1]), (z @ W_O).sum(dim=0)

    found = verdict("concat_equals_sum", answer)
    assert (found.status, found.points) == (Status.PARTIAL, 1.0)
    assert found.message.startswith("Right: summed form.")


def inverse(matrix: Tensor) -> Tensor:
    return torch.linalg.inv(matrix)


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda m: m,
    "inverse": inverse,
    "transpose": lambda m: m.T,
    "inverse transposed": lambda m: inverse(m).T,
}


@pytest.mark.parametrize("of_r", FORMS)
@pytest.mark.parametrize("of_s", FORMS)
def test_every_form_of_the_two_bases_passes(of_r: str, of_s: str) -> None:
    def answer(W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, R: Tensor, S: Tensor) -> Any:
        r, s = FORMS[of_r](R), FORMS[of_s](S)
        return W_Q @ r, W_K @ inverse(r).T, W_V @ s, inverse(s) @ W_O

    assert verdict("change_of_basis", answer).status is Status.PASS


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_partner_is_named_in_every_form(form: str) -> None:
    def answer(W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, R: Tensor, S: Tensor) -> Any:
        r, s = FORMS[form](R), FORMS[form](S)
        return W_Q @ r, W_K @ inverse(r), W_V @ s, inverse(s) @ W_O

    found = verdict("change_of_basis", answer)
    assert (found.status, found.mistake) == (Status.PARTIAL, "ov_rule_for_keys")
    assert found.points == BY_NAME["change_of_basis"].points / 2


def test_the_same_head_by_some_other_matrix_is_not_the_change_asked_for() -> None:
    def scaled(W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, R: Tensor, S: Tensor) -> Any:
        return 2 * W_Q, W_K / 2, 2 * W_V, W_O / 2

    def only_half(W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, R: Tensor, S: Tensor) -> Any:
        return W_Q, W_K, W_V @ S, inverse(S) @ W_O

    assert verdict("change_of_basis", scaled).status is Status.WRONG
    assert verdict("change_of_basis", only_half).status is Status.PARTIAL


def test_a_near_miss_of_the_basis_is_wrong() -> None:
    def off_by_a_percent(
        W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, R: Tensor, S: Tensor
    ) -> Any:
        return W_Q @ R, 1.01 * W_K @ inverse(R).T, W_V @ S, inverse(S) @ W_O

    assert verdict("change_of_basis", off_by_a_percent).status is Status.PARTIAL


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_cases_have_an_axis_of_size_one_both_precisions_and_unequal_sizes(
    exercise: Exercise,
) -> None:
    for seed in SEEDS:
        cases = list(exercise.cases(Draw(seed)))
        tensors = [argument for case in cases for argument in case.args]
        assert any(1 in tensor.shape for tensor in tensors)
        assert {tensor.dtype for tensor in tensors} == {torch.float32, torch.float64}
        assert len({n for tensor in cases[0].args for n in tensor.shape}) >= 1 + (
            exercise.name != "causal_pattern"
        )
