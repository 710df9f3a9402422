"""From declared heads to the seven weights: lay out, write, turn, blur.

Every feature first gets axes of its own, which makes a head two sparse matrices; then the bases
that have no meaning are turned at random, and noise is laid over all. See
`grader.circuits.compiled` for the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

import torch
from torch import Tensor

from grader.circuits.attention_heads import change_of_basis, random_bases
from grader.circuits.compiled_parts import Address, Block, Feature, Geometry, Head, sidelobe
from grader.circuits.residual_stream import random_rotation, rotate_residual_stream
from grader.transformer import Transformer


@dataclass(frozen=True)
class Sizes:
    """What the caller asked for; None takes what the heads need."""

    d_model: int | None
    d_head: int | None


def frequencies(n_waves: int, n_ctx: int, generator: torch.Generator) -> Tensor:
    """The (F,) frequencies, in (0, π), on which positions are written.

    Evenly spaced ones make κ exactly [δ = 0] as far as |δ| < 2F::

        Σ_f cos(π (f + ½) δ / F) = sin(π δ) / (2 sin(π δ / 2F)) = 0      for whole δ, 0 < |δ| < 2F

    and heads meet |δ| up to n_ctx. Where that takes more than ``n_waves``, the best of 64 draws.
    """
    if 2 * n_waves > n_ctx:
        count = n_ctx // 2 + 1
        return pi * (torch.arange(count, dtype=torch.float64) + 0.5) / count
    draws = pi * torch.rand(64, n_waves, generator=generator, dtype=torch.float64)
    return draws[sidelobe(draws, n_ctx).argmin()]


def lay_out(heads: dict[Address, Head], g: Geometry) -> dict[Feature, slice]:
    """The axes of each feature in the stream, as long as it isn't turned."""
    waves = 2 * len(g.frequencies)
    sizes: dict[Feature, int] = {
        "token": g.d_vocab, "logits": g.d_vocab, "ones": 1, "first": 1, "ramp": 1, "waves": waves,
    }  # fmt: skip
    for address, head in heads.items():
        if head.move.remembers is not None:
            sizes[address] = waves if head.move.remembers == "position" else g.d_vocab
    features, start = {}, 0
    for feature, size in sizes.items():
        features[feature] = slice(start, start + size)
        start += size
    return features


def write(
    heads: dict[Address, Head], g: Geometry, sizes: Sizes, bigrams: float, pos_in_stream: bool
) -> Transformer:
    """The model in float64 with each feature on axes of its own.

    heads by (layer, head), every layer equally long. Raises ValueError where the asked sizes are
    too small.
    """
    features = lay_out(heads, g)
    qk = {address: head.attend.blocks(g) for address, head in heads.items()}
    ov = {address: head.move.blocks(g, address) for address, head in heads.items()}
    rank = max(sum(map(_rank, blocks)) for table in (qk, ov) for blocks in table.values())
    d_model = _at_least(sizes.d_model, max(axes.stop for axes in features.values()), "d_model")
    d_head = _at_least(sizes.d_head, max(1, rank), "d_head")

    W_E = torch.zeros(g.d_vocab, d_model, dtype=torch.float64)
    W_E[:, features["token"]] = g.tokens(1.0)
    W_E[:, features["logits"]] = bigrams * g.normal(g.d_vocab, g.d_vocab)
    W_U = torch.zeros(d_model, g.d_vocab, dtype=torch.float64)
    W_U[features["logits"]] = g.tokens(1.0)

    positions = torch.arange(g.n_ctx, dtype=torch.float64)
    W_pos = torch.zeros(g.n_ctx, d_model, dtype=torch.float64)
    W_pos[:, features["ones"]] = 1.0
    W_pos[0, features["first"]] = 1.0
    W_pos[:, features["ramp"]] = positions[:, None] / g.n_ctx
    W_pos[:, features["waves"]] = g.waves(positions)

    # The model divides scores by sqrt(d_head), and the blocks are nats after that.
    W_Q, W_K = _factored(qk, features, d_model, d_head, scale=sqrt(d_head))
    W_V, W_OT = _factored(ov, features, d_model, d_head, scale=1.0)
    return Transformer(W_E, W_U, W_pos, W_Q, W_K, W_V, W_OT.mT, pos_in_stream=pos_in_stream)


def turn(model: Transformer, generator: torch.Generator) -> Transformer:
    """The same model in a random orthogonal basis of the stream and random bases in every head.

    Nothing that a model computes depends on either, so logits and patterns stay.
    """
    model = rotate_residual_stream(model, random_rotation(model.d_model, generator))

    def bases() -> Tensor:
        drawn = random_bases(model.n_layers * model.n_heads, model.d_head, generator)
        return drawn.unflatten(0, (model.n_layers, model.n_heads))

    W_Q, W_K, W_V, W_O = change_of_basis(
        model.W_Q, model.W_K, model.W_V, model.W_O, bases(), bases()
    )
    return model.with_weights(W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O)


def blur(model: Transformer, noise: float, generator: torch.Generator) -> Transformer:
    """Gaussian noise on every entry, ``noise`` times the root mean square of its weight."""

    def blurred(weight: Tensor) -> Tensor:
        draw = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        # Added into the draw, which lies in memory as torch expects: products with it are faster.
        return draw.mul_(noise * weight.square().mean().sqrt()).add_(weight)

    return model.with_weights(**{name: blurred(w) for name, w in model.weights().items()})


def _factored(
    table: dict[Address, list[Block]],
    features: dict[Feature, slice],
    d_model: int,
    d_head: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Left and right, both (layer, head, d_model, d_head): left @ right.T is scale · Σ blocks.

    Each block takes columns of its own, as many as its smaller side has.
    """
    n_layers, n_heads = (1 + max(address[axis] for address in table) for axis in (0, 1))
    left = torch.zeros(n_layers, n_heads, d_model, d_head, dtype=torch.float64)
    right = torch.zeros_like(left)
    for address, blocks in table.items():
        start = 0
        for block in blocks:
            columns = slice(start, start + _rank(block))
            start = columns.stop
            one, other = _halves(scale * block.matrix)
            left[*address, features[block.reads], columns] = one
            right[*address, features[block.writes], columns] = other
    return left, right


def _halves(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """``one @ other.T = matrix``, the identity on the smaller side.

    Both get the same spectral norm, so that noise relative to it hits both alike.
    """
    balance = max(float(torch.linalg.matrix_norm(matrix, 2)), 1e-12) ** 0.5
    identity = balance * torch.eye(min(matrix.shape), dtype=torch.float64)
    if matrix.shape[0] >= matrix.shape[1]:
        return matrix / balance, identity
    return identity, matrix.mT / balance


def _rank(block: Block) -> int:
    return min(block.matrix.shape)


def _at_least(given: int | None, needed: int, name: str) -> int:
    if given is not None and given < needed:
        raise ValueError(f"compile_model: these heads need {name} ≥ {needed}; {given} came.")
    return needed if given is None else given
