"""Notebook 05: induction without training, written into the weights by hand.

Two algorithms, both of two layers. By *K-composition* the first layer tells each position what
stands before it, and the second looks for that. By *pointer arithmetic*, a Q-composition, the first
layer finds where the present token stood before, and the second looks one further. The second
needs positions that heads can move, so it needs them in the stream.

Paper: "How Induction Heads Work"; the exercises published beside it ("Induction Heads through
Pointer Arithmetic", "… through K-Composition").
"""

from __future__ import annotations

from math import cos, log, pi, sqrt

import torch
from torch import Tensor

from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import induction, pointer, pointer_induction, previous_token
from grader.circuits.compiled_parts import Head
from grader.circuits.shapes import shaped
from grader.transformer import Transformer

PREVIOUS_NATS = log(1000.0)
"""How far the previous position beats each of its neighbours: 99.8 % of the attention."""


@shaped(n_ctx="count: 2", d_model="count: 2", d_head="count: 2")
def previous_token_head(n_ctx: int, d_model: int, d_head: int) -> tuple[Tensor, Tensor, Tensor]:
    """A head that attends to the previous position by position alone, float64.

    → W_pos (n_ctx, d_model), W_Q and W_K (d_model, d_head); n_ctx may exceed both. Any n_ctx fits
    into two dimensions: position p stands at the angle θp on a circle, θ = 2π / n_ctx, and the
    query is turned back by θ. The score is then β cos(θ (dst − 1 − src)): β at the previous
    position and at most β cos θ elsewhere, since dst − 1 − src runs from −1 to n_ctx − 2, less than
    once around. The lead, β (1 − cos θ), is as large as β makes it. One-hot positions would give
    any lead too, and need n_ctx dimensions.
    Position 0 has no previous one and can only attend to itself.
    """
    theta = 2 * pi / n_ctx
    beta = PREVIOUS_NATS / (1 - cos(theta))
    angle = theta * torch.arange(n_ctx, dtype=torch.float64)
    W_pos = torch.zeros(n_ctx, d_model, dtype=torch.float64)
    W_pos[:, :2] = torch.stack([angle.cos(), angle.sin()], dim=-1)
    W_Q = torch.zeros(d_model, d_head, dtype=torch.float64)
    W_K = W_Q.clone()
    W_Q[:2, :2] = beta * sqrt(d_head) * _rotation(-theta)
    W_K[:2, :2] = torch.eye(2, dtype=torch.float64)
    return W_pos, W_Q, W_K


def _rotation(angle: float) -> Tensor:
    """(2, 2), turns a row vector by angle: (cos a, sin a) @ R = (cos(a + angle), sin(a + angle))."""
    turned = torch.tensor(angle, dtype=torch.float64)
    return torch.stack([turned.cos(), turned.sin(), -turned.sin(), turned.cos()]).reshape(2, 2)


@shaped(d_vocab="count: 3", n_ctx="count: 6")
def induction_by_k_composition(d_vocab: int, n_ctx: int) -> Transformer:
    """Two layers, one head each: a previous-token head, and a head that looks for its trace.

    d_vocab ≥ 3 and n_ctx ≥ 6, room for a period of three, twice. Layer 0 writes at every position
    which token stands before it. In layer 1 the query is the present token and the key that trace:
    they agree right after each earlier copy, and the token there is the answer. Position 0 has
    nothing before it and attends to itself, so its trace is false; a second term in layer 1's
    scores keeps every query away from it.
    """
    layers = [[previous_token()], [induction(previous=(0, 0))]]
    return _exact(layers, d_vocab, n_ctx, pos_in_stream=False)


@shaped(d_vocab="count: 3", n_ctx="count: 6")
def induction_by_pointer_arithmetic(d_vocab: int, n_ctx: int) -> Transformer:
    """The other way, by Q-composition, positions in the stream; sizes as above.

    Layer 0 finds the latest earlier copy of the present token and writes down where it stands. In
    layer 1 the query is that position turned one step forward, the key each position's own.
    """
    layers = [[pointer()], [pointer_induction(pointed=(0, 0))]]
    return _exact(layers, d_vocab, n_ctx, pos_in_stream=True)


def _exact(layers: list[list[Head]], d_vocab: int, n_ctx: int, pos_in_stream: bool) -> Transformer:
    return compile_model(
        layers, d_vocab=d_vocab, n_ctx=n_ctx, seed=0, noise=0.0, bigrams=0.0,
        pos_in_stream=pos_in_stream, dtype=torch.float64,
    ).model  # fmt: skip
