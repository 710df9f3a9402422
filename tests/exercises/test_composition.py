"""Notebook 04's exercises: norms that are not cyclic, answers that are random, parts that earn points."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition import EXERCISES, baseline
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess
from grader.transformer import Transformer

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}
SEEDS = range(3)


def verdict(name: str, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(BY_NAME[name], InProcess({name: answer}), seed)


# --- norms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_papers_erratum_is_told_as_such(seed: int) -> None:
    found = verdict("low_rank_frobenius", lambda A, B: (B @ A).norm(), seed)
    assert found.mistake == "cyclic"
    assert "erratum" in found.message


def test_the_whole_product_is_right_and_too_large() -> None:
    found = verdict("low_rank_frobenius", lambda A, B: (A @ B).norm())
    assert (found.status, found.mistake) == (Status.WRONG, "too_much_memory")
    assert "thin factors" in found.message


def test_a_product_made_in_numpy_is_seen_too() -> None:
    found = verdict("low_rank_frobenius", lambda A, B: ((A.numpy() @ B.numpy()) ** 2).sum() ** 0.5)
    assert found.mistake == "too_much_memory"


@pytest.mark.parametrize("name", ["q_composition", "k_composition", "v_composition"])
def test_the_three_kinds_are_never_taken_for_each_other(name: str) -> None:
    others = {
        "q_composition": reference.k_composition,
        "k_composition": reference.q_composition,
        "v_composition": reference.k_composition,
    }
    found = verdict(name, lambda a, b: others[name](a, b))
    assert (found.status, found.points) == (Status.WRONG, 0.0)
    assert found.mistake in ("keys_for_queries", "queries_for_keys", "write_sides_compared")


# --- an answer that is random -----------------------------------------------------------------------


def sampled(scores: Callable[[Tensor], Tensor] = lambda s: s) -> Callable[..., Any]:
    def answer(d_model: int, d_head: int, samples: int, seed: int) -> tuple[float, float]:
        by = torch.Generator().manual_seed(seed)
        drawn = scores(baseline._right(samples, d_model, d_head, by))
        return float(drawn.mean()), float(drawn.std()) / sqrt(samples)

    return answer


def test_any_right_sampler_passes() -> None:
    assert [verdict("random_composition", sampled(), seed).status for seed in range(8)] == [
        Status.PASS
    ] * 8


def test_a_mean_that_is_off_by_a_tenth_fails_and_keeps_the_points_of_its_error() -> None:
    found = verdict("random_composition", sampled(lambda scores: 0.03 + scores))
    assert (found.status, found.points) == (Status.PARTIAL, 1.5)
    assert found.message.startswith("Right: standard error.")


def test_the_error_of_a_single_score_is_not_that_of_a_mean() -> None:
    def answer(*args: int) -> tuple[float, float]:
        mean, error = sampled()(*args)
        return mean, error * sqrt(args[2])

    found = verdict("random_composition", answer)
    assert (found.status, found.mistake) == (Status.PARTIAL, "deviation_for_error")


def test_a_seed_that_is_not_used_is_told() -> None:
    unseeded = torch.Generator()
    unseeded.seed()

    def answer(d_model: int, d_head: int, samples: int, seed: int) -> tuple[float, float]:
        drawn = baseline._right(samples, d_model, d_head, unseeded)
        return float(drawn.mean()), float(drawn.std()) / sqrt(samples)

    assert verdict("random_composition", answer).mistake == "not_deterministic"


def test_half_the_samples_show_in_the_error() -> None:
    answer = sampled()
    found = verdict("random_composition", lambda m, h, n, seed: answer(m, h, n // 2, seed))
    assert found.status is Status.PARTIAL


def test_a_shape_that_is_drawn_has_been_measured() -> None:
    for seed in range(12):
        cases = BY_NAME["random_composition"].cases(Draw(seed))
        assert all(case.args[:2] in baseline.MEASURED for case in cases)


@pytest.mark.long
@pytest.mark.parametrize("shape", baseline.MEASURED)
def test_the_shipped_measurements_can_be_made_again(shape: tuple[int, int]) -> None:
    mean, error = reference.random_composition(*shape, baseline.DRAWS, seed=1)
    known, deviation = baseline.MEASURED[shape]
    assert abs(mean - known) <= 5 * error * sqrt(2)
    assert error * sqrt(baseline.DRAWS) == pytest.approx(deviation, rel=0.03)


# --- parts ------------------------------------------------------------------------------------------


def test_one_right_kind_of_the_table_earns_its_third() -> None:
    def only_values(model: Transformer) -> Tensor:
        table = reference.composition_table(model)
        return torch.stack([table[1], table[0], table[2]])

    found = verdict("composition_table", only_values)
    assert (found.status, found.mistake) == (Status.PARTIAL, "q_and_k_exchanged")
    assert found.points == pytest.approx(4 / 3)


def test_hidden_virtual_heads_keep_the_points_of_the_direct_path() -> None:
    mistakes = {mistake.name: mistake for mistake in BY_NAME["two_layer_paths"].mistakes}
    hidden = verdict("two_layer_paths", mistakes["virtual_left_empty"].answer)
    twice = verdict("two_layer_paths", mistakes["stream_read_by_layer_1"].answer)
    assert hidden.status is twice.status is Status.PARTIAL
    assert (hidden.points, twice.points) == pytest.approx((5 / 3, 10 / 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_exchanged_sides_of_a_score_keep_half(seed: int) -> None:
    def exchanged(tokens: Tensor, model: Transformer, head: int) -> Tensor:
        return reference.attention_score_paths(tokens, model, head)[[0, 2, 1, 3]]

    found = verdict("attention_score_paths", exchanged, seed)
    assert (found.status, found.points, found.mistake) == (
        Status.PARTIAL,
        2.0,
        "q_and_k_exchanged",
    )


# --- the rest ---------------------------------------------------------------------------------------


def test_counts_are_exact() -> None:
    def nearly(n_layers: int, n_heads: int) -> list[int]:
        counts = reference.count_paths(n_layers, n_heads)
        return [*counts[:-1], counts[-1] + (n_layers > 8)]

    assert verdict("count_paths", nearly).status is Status.WRONG
    assert verdict("count_paths", lambda n, h: reference.count_paths(n, h)).status is Status.PASS


@pytest.mark.parametrize("seed", range(6))
def test_every_kind_is_knocked_out_on_a_text_where_it_shows(seed: int) -> None:
    shown = set()
    for case in BY_NAME["knock_out_composition"].cases(Draw(seed)):
        tokens, model, kind = case.args
        gap = reference.knock_out_composition(tokens, model, kind) - model(tokens)
        if float(gap.abs().max()) > 1e-2:
            shown.add(kind)
    assert shown == {"Q", "K", "V"}
