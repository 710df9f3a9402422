"""What the exercises of notebook 04 share: small two-layer models, and pieces of wrong answers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grader.judge.draw import Draw
from grader.transformer import Transformer

NOTEBOOK = "04-composition"
THREE_KINDS = "Three Kinds of Composition"
LOW_RANK = "Working with Low-Rank Matrices"
LOGITS = "Path Expansion of Logits"
SCORES = "Path Expansion of Attention Scores QK Circuit"
ANALYZING = "Analyzing a Two-Layer Model"
VIRTUAL_HEADS = "Virtual Attention Heads"


def two_layer(draw: Draw, **sizes: int) -> Transformer:
    """A random model whose heads look sharply enough for a changed pattern to matter."""
    model = draw.model(n_layers=2, **sizes)
    return model.with_weights(W_Q=2 * model.W_Q)


def questions(draw: Draw) -> Iterator[tuple[Tensor, Transformer, str]]:
    """Tokens for a two-layer model: all sizes different, all equal, one head, one token."""

    def question(by: Draw, pos: int, **sizes: int) -> tuple[Tensor, Transformer]:
        model = two_layer(by, **sizes)
        return by.tokens(pos, d_vocab=model.d_vocab), model

    n_heads, pos, d_head, d_model, d_vocab, n_ctx = sorted(draw.sizes(6, 3, 10))
    sizes = {"n_heads": n_heads, "d_head": d_head, "d_model": d_model, "d_vocab": d_vocab}
    yield *question(draw, pos, **sizes, n_ctx=n_ctx), ""
    n = draw.integer(4, 5)
    equal = {"d_head": n, "d_model": n, "d_vocab": n, "n_ctx": n}
    yield *question(draw, n, n_heads=2, **equal), "with two heads and all other sizes equal"
    single = {**sizes, "n_heads": 1, "n_ctx": n_ctx}
    double = Draw(draw.seed, torch.float64)
    yield *question(double, pos, **single), "with a single head, in float64"
    yield *question(draw, 1, **sizes, n_ctx=n_ctx), "with a single token"


def causal(scores: Tensor) -> Tensor:
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1)


def placed(x: Tensor, model: Transformer) -> Tensor:
    """What queries and keys see of a stream: positions included."""
    return x + model.W_pos[: len(x)]


def embedded(tokens: Tensor, model: Transformer) -> Tensor:
    return model.W_E[tokens]


def head_scores(x_dst: Tensor, x_src: Tensor, model: Transformer, layer: int) -> Tensor:
    """(head, dst, src), divided, not masked, of what is given for queries and for keys."""
    q, k = x_dst @ model.W_Q[layer], x_src @ model.W_K[layer]
    return q @ k.mT / model.d_head**0.5


def head_terms(x: Tensor, pattern: Tensor, model: Transformer, layer: int) -> Tensor:
    """What each head adds, (head, ..., pos, d_model), of a stream (..., pos, d_model)."""
    return pattern @ x @ model.W_V[layer] @ model.W_O[layer]


def after_layer_0(tokens: Tensor, model: Transformer) -> tuple[Tensor, Tensor]:
    """The embedding, and the sum of what layer 0's heads add to it."""
    x = embedded(tokens, model)
    pattern = causal(head_scores(placed(x, model), placed(x, model), model, 0))
    return x, head_terms(x, pattern, model, 0).sum(dim=0)
