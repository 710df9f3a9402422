"""The many ways to get from scores to a pattern that isn't one.

Used twice: by ``causal_pattern``, which asks for exactly this step, and by ``attention_layer``,
where it is one step of several.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from grader.judge.spec import Case

Step = Callable[[Tensor], Tensor]


def future(scores: Tensor, offset: int = 1) -> Tensor:
    """True where the source comes ``offset`` or more after the destination."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(offset)


def causal(scores: Tensor, fill: float = -torch.inf, offset: int = 1, dim: int = -1) -> Tensor:
    return scores.masked_fill(future(scores, offset), fill).softmax(dim=dim)


def mask_after_softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1).tril()


def transposed_mask(scores: Tensor) -> Tensor:
    return scores.masked_fill(future(scores).mT, -torch.inf).softmax(dim=-1)


def inverted_mask(scores: Tensor) -> Tensor:
    return scores.masked_fill(~future(scores), -torch.inf).softmax(dim=-1)


def weak_mask(scores: Tensor, push: float = -10.0) -> Tensor:
    return (scores + push * future(scores)).softmax(dim=-1)


# Facts number, name, the wrong step, what to tell. In the order in which they are looked for.
WRONG_STEPS: tuple[tuple[int, str, Step, str], ...] = (
    (
        27,
        "no_mask",
        lambda scores: scores.softmax(dim=-1),
        "Nothing is masked: destinations also look at sources that come after them. The last row is "
        "the only one that may look everywhere.",
    ),
    (
        21,
        "softmax_over_queries",
        lambda scores: causal(scores, dim=-2),
        "The softmax runs down the columns. Each *destination* shares out an attention of 1 among "
        "its sources, so along which axis must the sum be 1?",
    ),
    (
        22,
        "masked_with_zero",
        lambda scores: causal(scores, fill=0.0),
        "The future got the *score* 0, and a score of 0 still earns attention, because exp(0) is 1. "
        "Which score does the softmax turn into nothing?",
    ),
    (
        23,
        "mask_after_softmax",
        mask_after_softmax,
        "The mask came after the softmax: the future took its share first and that share is now "
        "missing. Look at what the rows sum to.",
    ),
    (
        24,
        "diagonal_masked",
        lambda scores: causal(scores, offset=0),
        "The diagonal is masked too. A token may look at itself; look at row 0, which then has "
        "nothing left to look at.",
    ),
    (
        24,
        "diagonal_masked_finite",
        lambda scores: causal(scores, fill=-1e9, offset=0),
        "The diagonal is masked too: a token may look at itself. In row 0 everything is masked "
        "alike, and the softmax spreads over the future.",
    ),
    (
        25,
        "mask_one_late",
        lambda scores: causal(scores, offset=2),
        "The mask starts one place too late: each destination still sees the token right after it, "
        "which is the very token it has to predict.",
    ),
    (
        26,
        "mask_transposed",
        transposed_mask,
        "The mask hides the past and leaves the future. Rows are destinations: row 0 must be left "
        "with a single source, and the last row with all of them.",
    ),
    (
        26,
        "mask_inverted",
        inverted_mask,
        "The mask hides exactly what should stay. In `masked_fill`, True marks what is *removed*.",
    ),
)

WEAK_MASK = (
    "A little attention leaks into the future: the number used for masking isn't low enough. It "
    "competes with real scores, and where those are low, it wins. Which value can no score reach?"
)


def leaks_by_a_constant(value: Tensor, case: Case) -> bool:
    """Is ``value`` the softmax of scores whose future was filled with, or moved by, one number?

    The log of a softmax gives the scores back up to a row's constant, so the number used can be
    solved for at every masked place: one and the same everywhere means a mask that is too weak.
    """
    scores = case.args[0].double()
    hidden = future(scores).expand_as(value)
    seen = value.masked_fill(hidden, 0.0)
    top = seen.argmax(dim=-1, keepdim=True)
    row_constant = scores.gather(-1, top) - seen.gather(-1, top).log()
    usable = hidden & (value > 1e-30) & (seen.gather(-1, top) > 1e-30)
    if not bool(usable.any()):
        return False
    filled = (value.clamp_min(1e-30).log() + row_constant)[usable]
    moved = filled - scores[usable]
    return any(float(c.max() - c.min()) <= 1e-3 * float(c.abs().max()) for c in (filled, moved))
