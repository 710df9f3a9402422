"""What the exercises of notebook 03 share: wrong turns on the way through a one-layer model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case
from grader.transformer import Transformer

NOTEBOOK = "03-one-layer"
SKIP_TRIGRAMS = "Interpretation as Skip-Trigrams"
SUMMARIZING = "Summarizing OV/QK Matrices"
LOW_RANK = "Working with Low-Rank Matrices"


class WithFloor(Comparator):
    """Arrays or numbers, with an error that is always allowed.

    For what is a small difference of large numbers, a score near 0 or a cancelled logit: the
    expected value's own size says nothing about the rounding on the way to it.
    """

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        return super().same(value, other, max(atol, self.floor), case)


def one_layer(draw: Draw, **sizes: int) -> Transformer:
    """A random one-layer model whose heads look sharply enough to make a pattern matter."""
    model = draw.model(n_layers=1, **sizes)
    return model.with_weights(W_Q=2 * model.W_Q)


def embedded(tokens: Tensor, model: Transformer) -> Tensor:
    return model.W_E[tokens]


def causal(scores: Tensor) -> Tensor:
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1)


def scores(tokens: Tensor, model: Transformer) -> Tensor:
    """(head, dst, src), divided, not masked."""
    x = embedded(tokens, model) + model.W_pos[: len(tokens)]
    divided: Tensor = x @ model.W_Q[0] @ (x @ model.W_K[0]).mT / model.d_head**0.5
    return divided


def head_logits(x: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    """Each head's term by itself: (head, pos, d_vocab)."""
    return pattern @ x @ model.W_V[0] @ model.W_O[0] @ model.W_U


def largest(values: Tensor, n: int) -> Tensor:
    """Indices of the n largest along the last axis, best first."""
    return values.argsort(dim=-1, descending=True, stable=True)[..., :n]


# --- one head over a vocabulary, for the two tests of copying -------------------------------------

Head = tuple[Tensor, Tensor, Tensor, Tensor]
"""W_E, W_V, W_O, W_U."""

FULL_VOCABULARY = 50_257
FULL_MIB = 1024


def dense_ov(*head: Tensor) -> Tensor:
    W_E, W_V, W_O, W_U = head
    return W_E @ W_V @ W_O @ W_U
