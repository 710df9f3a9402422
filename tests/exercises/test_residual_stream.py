"""What is special about notebook 00's exercises; the rules for all exercises are tested elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.exercises.residual_stream import (
    EXERCISES,
    READ_WRITE_OVERLAP,
    RESIDUAL_STREAM,
    ROTATE_RESIDUAL_STREAM,
)
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.spec import Exercise
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess
from grader.transformer import WEIGHTS, Transformer

SEEDS = range(4)


def verdict(exercise: Exercise, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(exercise, InProcess({exercise.name: answer}), seed)


def turned(model: Transformer, R: Tensor, **left: Tensor) -> Transformer:
    whole = ROTATE_RESIDUAL_STREAM.reference(model, R)
    return whole.with_weights(**left) if left else whole


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_sizes_include_a_square_and_an_axis_of_size_one(exercise: Exercise) -> None:
    shapes = [
        [tuple(a.W_Q.shape if isinstance(a, Transformer) else a.shape) for a in case.args]
        for case in exercise.cases(Draw(3))
    ]
    assert any(1 in shape for case in shapes for shape in case)
    assert any(len({n for shape in case for n in shape[-2:]}) == 1 for case in shapes)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WEIGHTS)
def test_a_rotation_that_leaves_any_one_weight_is_wrong(name: str, seed: int) -> None:
    found = verdict(
        ROTATE_RESIDUAL_STREAM, lambda m, R: turned(m, R, **{name: getattr(m, name)}), seed
    )
    assert found.status is Status.WRONG
    assert found.mistake.endswith("forgotten")


def test_forgetting_a_weight_is_recognised_in_either_direction() -> None:
    found = verdict(ROTATE_RESIDUAL_STREAM, lambda m, R: turned(m, R.T.contiguous(), W_pos=m.W_pos))
    assert found.mistake == "positions_forgotten"


def test_equal_logits_are_not_enough() -> None:
    """The heads' own bases turned: the model is the same, and so is its stream."""

    def other_heads(model: Transformer, R: Tensor) -> Transformer:
        S = torch.linalg.qr(torch.ones(model.d_head, model.d_head).triu())[0].to(R.dtype)
        return model.with_weights(W_Q=model.W_Q @ S, W_K=model.W_K @ S)

    assert verdict(ROTATE_RESIDUAL_STREAM, other_heads).status is Status.WRONG


def test_a_right_stream_with_other_logits_is_not_enough() -> None:
    found = verdict(ROTATE_RESIDUAL_STREAM, lambda m, R: turned(m, R, W_U=-(R.mT @ m.W_U)))
    assert found.status is Status.WRONG


def test_turning_the_given_model_in_place_is_told() -> None:
    def in_place(model: Transformer, R: Tensor) -> Transformer:
        for name, weight in turned(model, R).weights().items():
            getattr(model, name).copy_(weight)
        return model

    found = verdict(ROTATE_RESIDUAL_STREAM, in_place)
    assert found.status is Status.WRONG
    assert found.mistake == "mutates_input"


def test_a_model_of_another_size_or_with_nan_is_wrong_and_no_fault_of_ours() -> None:
    small = Transformer.random(n_layers=1, n_heads=1, d_model=2, d_head=2, d_vocab=2, n_ctx=1)
    assert verdict(ROTATE_RESIDUAL_STREAM, lambda m, R: small).status is Status.WRONG
    lost = verdict(
        ROTATE_RESIDUAL_STREAM, lambda m, R: turned(m, R * torch.ones(()), W_U=m.W_U / 0)
    )
    assert lost.status is Status.WRONG


@pytest.mark.parametrize("seed", SEEDS)
def test_low_rank_readers_have_exactly_that_rank_in_both_precisions(seed: int) -> None:
    for case in READ_WRITE_OVERLAP.cases(Draw(seed)):
        if "rank" in case.label or "depend" in case.label:
            W_in = case.args[1]
            ranks = {int(torch.linalg.matrix_rank(W)) for W in (W_in, W_in.double())}
            assert len(ranks) == 1
            assert ranks.pop() < min(W_in.shape)


@pytest.mark.parametrize("cut", [1e-3, 1e-5, 1e-6])
def test_any_sensible_cut_of_the_singular_values_passes(cut: float) -> None:
    def overlap(W_out: Tensor, W_in: Tensor) -> Any:
        U, S, _ = torch.linalg.svd(W_in)
        seen = W_out @ U[:, : len(S)][:, cut < S / S[0]]
        return 0 if not W_out.any() else seen.square().sum() / W_out.square().sum()

    for seed in range(20):
        assert verdict(READ_WRITE_OVERLAP, overlap, seed).status is Status.PASS


def test_a_qr_without_a_rank_is_named() -> None:
    def overlap(W_out: Tensor, W_in: Tensor) -> Any:
        if not W_out.any():
            return 0.0
        Q, _ = torch.linalg.qr(W_in)
        return (W_out @ Q).square().sum() / W_out.square().sum()

    assert verdict(READ_WRITE_OVERLAP, overlap).mistake == "no_rank_cut"


def test_nan_for_a_writer_of_zeros_is_named() -> None:
    def overlap(W_out: Tensor, W_in: Tensor) -> Any:
        return (W_out @ W_in @ torch.linalg.pinv(W_in)).square().sum() / W_out.square().sum()

    assert verdict(READ_WRITE_OVERLAP, overlap).mistake == "zero_over_zero"


def test_no_layers_at_all_is_asked_for() -> None:
    def needs_a_layer(embedding: Tensor, layer_outputs: Tensor) -> Tensor:
        sums = torch.stack([layer_outputs[: i + 1].sum(0) for i in range(len(layer_outputs))])
        return torch.cat([embedding[None], embedding + sums])

    found = verdict(RESIDUAL_STREAM, needs_a_layer)
    assert found.status is Status.CRASHED
    assert "without layers" in found.where
