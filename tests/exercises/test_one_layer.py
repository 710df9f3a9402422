"""Notebook 03's exercises: memory, a full vocabulary, properties of what has many right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer import EXERCISES
from grader.exercises.one_layer.common import FULL_MIB, FULL_VOCABULARY
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}
SEEDS = range(4)


def verdict(name: str, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(BY_NAME[name], InProcess({name: answer}), seed)


# --- memory ---------------------------------------------------------------------------------------


def dense_score(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    values = torch.linalg.eigvals(W_E @ W_V @ W_O @ W_U)
    return values.real.sum() / values.abs().sum()


def rank_in_chunks(size: int) -> Callable[..., float]:
    def answer(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> float:
        A, B = W_E @ W_V, W_O @ W_U
        hits = 0
        for start in range(0, len(A), size):
            rows = A[start : start + size] @ B
            hits += int((rows.diagonal(start) >= rows.amax(dim=1)).sum())
        return hits / len(A)

    return answer


def test_right_numbers_from_the_whole_table_are_refused_for_its_memory() -> None:
    assert verdict("copying_score", dense_score).mistake == "too_much_memory"
    assert verdict("copying_rank", rank_in_chunks(2500)).mistake == "too_much_memory"


@pytest.mark.parametrize("size", [100, 500, 1024])
def test_any_sensible_chunk_passes(size: int) -> None:
    assert verdict("copying_rank", rank_in_chunks(size)).passed


def test_a_full_orthogonal_basis_counts_as_the_big_matrix() -> None:
    def full_qr(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k = A.shape[1]
        Q_a, R_a = torch.linalg.qr(A, mode="complete")
        Q_b, R_b = torch.linalg.qr(B.T)
        U, S, Vh = torch.linalg.svd(R_a[:k] @ R_b.T)
        return Q_a[:, :k] @ U, S, Vh @ Q_b.T

    assert verdict("factored_svd", full_qr).mistake == "too_much_memory"


@pytest.mark.parametrize("name", ["copying_score", "copying_rank"])
def test_the_full_vocabulary_is_asked_only_beside_a_process_of_its_own(name: str) -> None:
    exercise = BY_NAME[name]
    assert not any(case.guarded for case in exercise.cases(Draw(0)))
    (large,) = [case for case in exercise.cases(Draw(0, guarded=True)) if case.guarded]
    (again,) = [case for case in exercise.cases(Draw(1, guarded=True)) if case.guarded]
    assert len(large.args[0]) == FULL_VOCABULARY
    assert large.context["memory_mib"] == FULL_MIB
    assert all(one is other for one, other in zip(large.args, again.args, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("name", ["copying_score", "copying_rank"])
def test_the_full_vocabulary_passes_within_memory(name: str) -> None:
    asked: list[int] = []

    class Guarded(InProcess):
        guarded = True

        def call(
            self, name: str, args: tuple[Any, ...], wall: float, watch_memory: bool = False
        ) -> Any:
            asked.append(len(args[0]))
            return super().call(name, args, wall, watch_memory)

    found = judge(BY_NAME[name], Guarded({name: getattr(reference, name)}), seed=2)
    assert found.passed
    assert asked[-1] == FULL_VOCABULARY


# --- answers judged by what they do ---------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_near_miss_of_an_svd_is_wrong(seed: int) -> None:
    def stretched(A: Tensor, B: Tensor) -> Any:
        U, S, Vh = reference.factored_svd(A, B)
        return U, 1.001 * S, Vh

    def skewed(A: Tensor, B: Tensor) -> Any:
        U, S, Vh = reference.factored_svd(A, B)
        return 1.01 * U, S / 1.01, Vh

    assert verdict("factored_svd", stretched, seed).status is Status.WRONG
    assert verdict("factored_svd", skewed, seed).mistake == "not_orthonormal"


def corner(*entries: float) -> Callable[[int], Tensor]:
    def answer(n: int) -> Tensor:
        matrix = torch.eye(n, dtype=torch.float64)
        matrix[:2, :2] = torch.tensor(entries, dtype=torch.float64).reshape(2, 2)
        return matrix

    return answer


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (corner(4, -2, 3, -1), ""),
        (corner(5, -4, 3, -2), ""),
        (corner(3, -4, 1, -1), ""),  # a double eigenvalue, which rounding splits
        (corner(3, -4.001, 1, -1), "complex_eigenvalues"),
        (corner(3, 0.5, 0.5, -1), "symmetric"),
        (corner(3, 0, 7, -1), "triangular"),
        (corner(4, -1, 2, 1), "no_negative_diagonal"),
        (corner(2, 3, 1, -1), "negative_eigenvalue"),
        (corner(2, -2, 1, -1), "zero_eigenvalue"),
        (lambda n: torch.full((n, n), torch.nan), "not_finite"),
    ],
)
def test_a_trap_is_judged_by_its_eigenvalues_and_diagonal(
    answer: Callable[[int], Tensor], mistake: str
) -> None:
    found = verdict("eigenvalue_trap", answer)
    assert (found.passed, found.mistake) == (not mistake, mistake)


@pytest.mark.parametrize("seed", SEEDS)
def test_eigenvalues_pass_in_any_order_but_not_without_one(seed: int) -> None:
    def rolled(A: Tensor, B: Tensor) -> Tensor:
        return reference.low_rank_eigenvalues(A, B).roll(1)

    def conjugated(A: Tensor, B: Tensor) -> Tensor:
        return reference.low_rank_eigenvalues(A, B).conj()

    def one_twice(A: Tensor, B: Tensor) -> Tensor:
        values = reference.low_rank_eigenvalues(A, B).clone()
        values[0] = values[-1]
        return values

    assert verdict("low_rank_eigenvalues", rolled, seed).passed
    assert verdict("low_rank_eigenvalues", conjugated, seed).passed
    assert verdict("low_rank_eigenvalues", one_twice, seed).status is Status.WRONG


# --- what the cases must show ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_interaction_is_never_close_to_zero(seed: int) -> None:
    exercise = BY_NAME["source_interaction"]
    for case in exercise.cases(Draw(seed)):
        assert float(reference.source_interaction(*case.args).abs().max()) > 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_some_heads_copy_some_tokens(seed: int) -> None:
    shares = [
        float(reference.copying_rank(*case.args))
        for case in BY_NAME["copying_rank"].cases(Draw(seed))
    ]
    assert any(0 < share < 1 for share in shares)


def test_pairs_may_be_strings_or_ids_and_come_in_any_container() -> None:
    def as_lists(pairs: list[tuple[Any, Any]]) -> list[list[Any]]:
        return [list(pair) for pair in reference.bug_partners(pairs)]

    assert verdict("bug_partners", as_lists).passed
    keep = [("in", "mind"), ("at", "bay")]
    assert reference.bug_partners(keep) == {("in", "bay"), ("at", "mind")}


def test_points_and_minutes_are_those_of_an_afternoon() -> None:
    assert sum(exercise.points for exercise in EXERCISES) == 38
    assert 150 <= sum(exercise.minutes for exercise in EXERCISES) <= 240
