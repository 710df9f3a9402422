"""From scores to a causal pattern."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import attention_heads as reference
from grader.exercises.attention_heads.wrong_patterns import (
    WEAK_MASK,
    WRONG_STEPS,
    causal,
    future,
    leaks_by_a_constant,
    weak_mask,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "02-attention-heads"
PAPER = "Attention Heads as Information Movement"


def _pattern_cases(draw: Draw) -> Iterator[Case]:
    pos, head, batch = draw.sizes(3, 3, 7)
    yield Case((draw.normal(pos, pos, scale=1.5),))
    yield Case((draw.normal(batch, head, pos, pos, scale=1.5),), "with batch and head axes")
    n = draw.integer(3, 5)
    double = Draw(draw.seed, torch.float64)
    yield Case((double.normal(n, n, n, scale=1.5),), "with as many heads as positions, in float64")
    yield Case((draw.normal(head, 1, 1),), "with a single position")
    high_and_low = torch.tensor([100.0, -60.0]).reshape(2, 1, 1)
    wide = draw.normal(2, pos, pos, scale=4.0) + high_and_low
    yield Case((wide,), "where scores are near +100 or near −60")
    yield Case((torch.zeros(1, pos, pos),), "where every score is 0")


def _normalized_without_softmax(scores: Tensor) -> Tensor:
    kept = scores.tril()
    return kept / kept.sum(dim=-1, keepdim=True)


def _exponentials_as_they_are(scores: Tensor) -> Tensor:
    weights = scores.exp().tril()
    return weights / weights.sum(dim=-1, keepdim=True)


def _one_maximum_for_all(scores: Tensor) -> Tensor:
    weights = (scores - scores.max()).exp().tril()
    return weights / weights.sum(dim=-1, keepdim=True)


def _zeros_taken_for_masked(scores: Tensor) -> Tensor:
    kept = scores.tril()
    return kept.masked_fill(kept == 0, -torch.inf).softmax(dim=-1)


def _softmax_over_everything(scores: Tensor) -> Tensor:
    masked = scores.masked_fill(future(scores), -torch.inf)
    return masked.flatten(-2).softmax(dim=-1).reshape(scores.shape)


def _mask_of_first_axis(scores: Tensor) -> Tensor:
    n = scores.shape[0]
    mask = torch.ones(n, n, dtype=torch.bool).triu(1)
    return scores.masked_fill(mask, -torch.inf).softmax(dim=-1)


def _softmax_then_renormalize(scores: Tensor) -> Tensor:
    kept = scores.softmax(dim=-1).tril()
    return kept / kept.sum(dim=-1, keepdim=True)


def _row_by_row(scores: Tensor) -> Tensor:
    result = torch.zeros_like(scores)
    for i in range(scores.shape[-1]):
        result[..., i, : i + 1] = scores[..., i, : i + 1].softmax(dim=-1)
    return result


def _in_numpy(scores: Tensor) -> np.ndarray:
    masked = np.where(np.tri(scores.shape[-1], dtype=bool), scores.numpy(), -np.inf)
    weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


CAUSAL_PATTERN = Exercise(
    reference=reference.causal_pattern,
    notebook=NOTEBOOK,
    title="From scores to a causal pattern",
    paper=PAPER,
    points=3,
    minutes=12,
    difficulty=2,
    cases=_pattern_cases,
    compare=Comparator(),
    hints=(
        "Two steps: take the future out of the race, then share out an attention of 1 in each row. "
        "Which of the two must come first?",
        "`torch.ones(pos, pos).triu(1)` marks what lies strictly above the diagonal. Read `pos` off "
        "the last axis, so that any number of axes in front is fine.",
        "Give the future a score that the exponential turns into exactly 0, then take the softmax "
        "along the last axis. Work on a new tensor, not in place.",
    ),
    mistakes=(
        *(
            Mistake(name, step, message, facts=(number,))
            for number, name, step, message in WRONG_STEPS
        ),
        Mistake(
            "axis_built_in",
            lambda scores: causal(scores, dim=1),
            "The softmax runs along axis 1, which is the last one only while there are no batch or "
            "head axes in front. Negative axis numbers count from the end.",
            facts=(21, 119),
        ),
        Mistake(
            "mask_of_first_axis",
            _mask_of_first_axis,
            "The mask is as large as the *first* axis, which may be a batch or head axis. The two "
            "position axes are the last two.",
            facts=(119,),
        ),
        Mistake(
            "scaled_again",
            lambda scores: causal(scores / scores.shape[-1] ** 0.5),
            "The scores are divided once more. They come in already divided, and the number of "
            "positions has no part in the scale.",
            facts=(17,),
        ),
        Mistake(
            "softmax_forgotten",
            lambda scores: scores.masked_fill(future(scores), -torch.inf),
            "These are still scores, with the future at −∞. The step that makes rows sum to 1 is "
            "missing.",
        ),
        Mistake(
            "log_of_the_pattern",
            lambda scores: scores.masked_fill(future(scores), -torch.inf).log_softmax(dim=-1),
            "These are logarithms of the attention. A pattern holds the shares themselves.",
        ),
        Mistake(
            "normalized_without_softmax",
            _normalized_without_softmax,
            "Each row is divided by its sum, but without the exponential before it: scores can be "
            "negative, attention can't.",
        ),
        Mistake(
            "softmax_over_everything",
            _softmax_over_everything,
            "One attention of 1 is shared out over the whole matrix. Each row has a 1 of its own.",
        ),
        Mistake(
            "overflow",
            _exponentials_as_they_are,
            "Right for small scores, but in float32 the exponential of 100 is already infinite. A "
            "softmax doesn't change when a constant is taken off a whole row: which one helps here?",
        ),
        Mistake(
            "one_maximum_for_all",
            _one_maximum_for_all,
            "One maximum is taken off all rows alike. A row that lies far below it underflows to "
            "0/0: each row needs its own.",
        ),
        Mistake(
            "zeros_taken_for_masked",
            _zeros_taken_for_masked,
            "A zero is taken for 'masked', but a real score can be 0 too. Decide by position, not "
            "by value.",
        ),
        Mistake("weak_mask", weak_mask, WEAK_MASK, facts=(28,), signature=leaks_by_a_constant),
    ),
    variants=(
        Variant("filled_with_minus_1e9", lambda scores: causal(scores, fill=-1e9), facts=("M",)),
        Variant("filled_with_minus_1e4", lambda scores: causal(scores, fill=-1e4), facts=("M",)),
        Variant("large_negative_added", lambda scores: weak_mask(scores, -1e6), facts=("M",)),
        Variant(
            "where",
            lambda scores: torch.where(future(scores), -torch.inf, scores).softmax(dim=-1),
            facts=("E", "M"),
        ),
        Variant("renormalized_after_the_mask", _softmax_then_renormalize, facts=("E",)),
        Variant("row_by_row", _row_by_row, facts=("E",)),
        Variant("numpy", _in_numpy, facts=("N",)),
        Variant("in_float64", lambda scores: causal(scores.double()), facts=("D",)),
    ),
)
