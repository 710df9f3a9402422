"""Where a head looks by position alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import NOTEBOOK, causal
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant


def _position_cases(draw: Draw) -> Iterator[Case]:
    def case(by: Draw, n_ctx: int, d_model: int, d_head: int, label: str = "") -> Case:
        heads = (by.normal(d_model, d_head, scale=d_model**-0.5) for _ in range(2))
        return Case((by.normal(n_ctx, d_model, scale=1.5), *heads), label)

    d_head, d_model, n_ctx = sorted(draw.sizes(3, 3, 9))
    yield case(draw, n_ctx, d_model, d_head)
    n = draw.integer(4, 6)
    yield case(draw, n, n, n, "where all sizes are equal")
    double = Draw(draw.seed, torch.float64)
    yield case(double, d_model, n_ctx, 2, "with more dimensions than positions, in float64")
    yield case(draw, 1, d_model, d_head, "with a single position")


def _scores(W_pos: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    divided: Tensor = (W_pos @ W_Q) @ (W_pos @ W_K).T / W_Q.shape[1] ** 0.5
    return divided


def _future(scores: Tensor, offset: int = 1) -> Tensor:
    return torch.ones(scores.shape, dtype=torch.bool).triu(offset)


POSITIONAL_PATTERN = Exercise(
    reference=reference.positional_pattern,
    notebook=NOTEBOOK,
    title="Where a head looks by position alone",
    paper="Primarily Positional Attention Heads",
    points=2,
    minutes=8,
    difficulty=1,
    cases=_position_cases,
    compare=Comparator(),
    hints=(
        "Suppose all tokens had the embedding 0. What would queries and keys then read?",
        "One row of W_pos a position: the scores are (n_ctx, n_ctx). From there on it is the pattern "
        "of any head.",
        "Scores of W_pos with itself, divided; the future hidden; softmax along the sources.",
    ),
    mistakes=(
        Mistake(
            "scores_only",
            _scores,
            "These are scores. A pattern is causal and its rows sum to 1.",
            facts=(34,),
        ),
        Mistake(
            "masked_scores",
            lambda W_pos, W_Q, W_K: _scores(W_pos, W_Q, W_K).masked_fill(
                _future(W_pos @ W_pos.T), -torch.inf
            ),
            "The future is hidden, but these are still scores. What makes rows sum to 1?",
            facts=(34,),
        ),
        Mistake(
            "not_scaled",
            lambda W_pos, W_Q, W_K: causal(_scores(W_pos, W_Q, W_K) * W_Q.shape[1] ** 0.5),
            "The pattern is too sharp: the scores weren't divided by √d_head.",
            facts=(17,),
        ),
        Mistake(
            "scaled_by_d_model",
            lambda W_pos, W_Q, W_K: causal(
                _scores(W_pos, W_Q, W_K) * (W_Q.shape[1] / W_Q.shape[0]) ** 0.5
            ),
            "The scores are divided by √d_model. Queries and keys have d_head entries.",
            facts=(18,),
        ),
        Mistake(
            "scaled_by_d_head",
            lambda W_pos, W_Q, W_K: causal(_scores(W_pos, W_Q, W_K) / W_Q.shape[1] ** 0.5),
            "The scores are divided by d_head instead of its square root, which makes the pattern "
            "too flat.",
            facts=(19,),
        ),
        Mistake(
            "scaled_after_softmax",
            lambda W_pos, W_Q, W_K: (
                causal(_scores(W_pos, W_Q, W_K) * W_Q.shape[1] ** 0.5) / W_Q.shape[1] ** 0.5
            ),
            "The division came after the softmax. Look at what the rows sum to.",
            facts=(20,),
        ),
        Mistake(
            "queries_and_keys_exchanged",
            lambda W_pos, W_Q, W_K: causal(_scores(W_pos, W_K, W_Q)),
            "Queries and keys are exchanged: the score of (destination, source) is that of (source, "
            "destination). The mask then hides another half.",
            facts=(16,),
        ),
        Mistake(
            "no_mask",
            lambda W_pos, W_Q, W_K: _scores(W_pos, W_Q, W_K).softmax(dim=-1),
            "Nothing is masked: positions look at later ones.",
            facts=(27,),
        ),
        Mistake(
            "softmax_over_queries",
            lambda W_pos, W_Q, W_K: (
                _scores(W_pos, W_Q, W_K)
                .masked_fill(_future(W_pos @ W_pos.T), -torch.inf)
                .softmax(dim=0)
            ),
            "The softmax runs down the columns. A published re-implementation of the paper does the "
            "same: each *destination* shares out an attention of 1.",
            facts=(21,),
        ),
        Mistake(
            "masked_with_zero",
            lambda W_pos, W_Q, W_K: (
                _scores(W_pos, W_Q, W_K).masked_fill(_future(W_pos @ W_pos.T), 0.0).softmax(dim=-1)
            ),
            "The future got the score 0, and exp(0) is 1. Which score does a softmax turn into "
            "nothing?",
            facts=(22,),
        ),
        Mistake(
            "mask_after_softmax",
            lambda W_pos, W_Q, W_K: _scores(W_pos, W_Q, W_K).softmax(dim=-1).tril(),
            "The mask came after the softmax, so the future took a share that is now missing. Look "
            "at what the rows sum to.",
            facts=(23,),
        ),
        Mistake(
            "mask_one_late",
            lambda W_pos, W_Q, W_K: (
                _scores(W_pos, W_Q, W_K)
                .masked_fill(_future(W_pos @ W_pos.T, 2), -torch.inf)
                .softmax(dim=-1)
            ),
            "Each position still sees the one right after it.",
            facts=(25,),
        ),
        Mistake(
            "diagonal_masked",
            lambda W_pos, W_Q, W_K: (
                _scores(W_pos, W_Q, W_K)
                .masked_fill(_future(W_pos @ W_pos.T, 0), -torch.inf)
                .softmax(dim=-1)
            ),
            "The diagonal is masked too: a position may look at itself, and the first one has "
            "nothing else.",
            facts=(24,),
        ),
        Mistake(
            "without_W_pos",
            lambda W_pos, W_Q, W_K: causal(W_Q @ W_K.T / W_Q.shape[1] ** 0.5),
            "The positions themselves are missing: this is a table of d_model × d_model, between "
            "directions of the stream.",
            facts=(29, 33),
        ),
    ),
    variants=(
        Variant(
            "through_W_QK",
            lambda W_pos, W_Q, W_K: causal(W_pos @ (W_Q @ W_K.T) @ W_pos.T / W_Q.shape[1] ** 0.5),
            facts=("E",),
        ),
        Variant(
            "renormalized_after_the_mask",
            lambda W_pos, W_Q, W_K: torch.nn.functional.normalize(
                _scores(W_pos, W_Q, W_K).exp().tril(), p=1.0, dim=-1
            ),
            facts=("E",),
        ),
        Variant(
            "large_negative",
            lambda W_pos, W_Q, W_K: (
                _scores(W_pos, W_Q, W_K).masked_fill(_future(W_pos @ W_pos.T), -1e9).softmax(dim=-1)
            ),
            facts=("M",),
        ),
        Variant(
            "numpy",
            lambda W_pos, W_Q, W_K: causal(_scores(W_pos, W_Q, W_K)).numpy(),
            facts=("N",),
        ),
    ),
)
