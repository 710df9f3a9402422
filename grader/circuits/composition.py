"""Notebook 04: heads that read heads.

A head of layer 1 reads the stream, and in it what layer 0 wrote. By which of its three inputs it
reads decides what happens: through Q or K it *looks* somewhere else, through V the two heads in a
row act as one *virtual head*.

How strongly a head reads another is measured by the Frobenius norm of the product of what one
writes and the other reads, over the norms of both. With row vectors, W_OV_1 first::

    Q: ‖W_OV_1 W_QK_2‖     K: ‖W_OV_1 W_QK_2ᵀ‖     V: ‖W_OV_1 W_OV_2‖

Random matrices do not score 0. Put an arbitrary rotation U of the stream between two heads: the mean
of ‖W_1 U W_2‖² over all U is ‖W_1‖² ‖W_2‖² / d_model. Gaussian factors look alike in any basis, so
their expected squared score is exactly 1/d_model; the table subtracts 1/sqrt(d_model).

Paper: "Three Kinds of Composition", "Path Expansion of Logits", "Path Expansion of Attention Scores
QK Circuit". The composition figure there was corrected in the comments: see `low_rank`.
"""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from torch import Tensor

from grader.circuits.attention_heads import (
    attention_scores,
    causal_pattern,
    head_output,
    mixed_product,
)
from grader.circuits.low_rank import LowRank, triangle
from grader.circuits.paths import path_terms
from grader.circuits.shapes import shaped
from grader.transformer import Transformer

KINDS = ("Q", "K", "V")


@shaped(W_OV_1="... d_model d_model", W_QK_2="... d_model d_model")
def q_composition(W_OV_1: Tensor, W_QK_2: Tensor) -> Tensor:
    """‖W_OV_1 W_QK_2‖ / (‖W_OV_1‖ ‖W_QK_2‖): how much the later head's queries read the earlier head.

    Dense (..., d_model, d_model), Frobenius norms, no baseline subtracted; zero matrices give 0.
    """
    return _ratio(W_OV_1, W_QK_2)


@shaped(W_OV_1="... d_model d_model", W_QK_2="... d_model d_model")
def k_composition(W_OV_1: Tensor, W_QK_2: Tensor) -> Tensor:
    """‖W_OV_1 W_QK_2ᵀ‖ / (‖W_OV_1‖ ‖W_QK_2‖): the same for keys, which are W_QK's columns."""
    return _ratio(W_OV_1, W_QK_2.mT)


@shaped(W_OV_1="... d_model d_model", W_OV_2="... d_model d_model")
def v_composition(W_OV_1: Tensor, W_OV_2: Tensor) -> Tensor:
    """‖W_OV_1 W_OV_2‖ / (‖W_OV_1‖ ‖W_OV_2‖): the same for values, the earlier head first."""
    return _ratio(W_OV_1, W_OV_2)


def _ratio(first: Tensor, second: Tensor) -> Tensor:
    norm = torch.linalg.matrix_norm
    scale: Tensor = norm(first) * norm(second)
    product: Tensor = norm(first @ second)
    return product / torch.where(scale == 0, 1.0, scale)


@shaped(A="... n k", B="... k m")
def low_rank_frobenius(A: Tensor, B: Tensor) -> Tensor:
    """‖A B‖_F, not squared, from A (n, k) and B (k, m), the product never formed."""
    return LowRank(A, B).frobenius_norm()


@shaped(d_model="count: 1", d_head="count: 1", samples="count: 200", seed="count: 0")
def random_composition(d_model: int, d_head: int, samples: int, seed: int) -> tuple[float, float]:
    """V-composition of two heads with independent Gaussian factors: (mean, standard error).

    Only small matrices are drawn. A norm sees of a Gaussian (n, k) matrix only its triangle R, whose
    law is known (Bartlett): independent, Gaussian above the diagonal, chi with n − i degrees of
    freedom on it. With ``W_OV_1 = V₁ O₁`` and ``W_OV_2 = V₂ O₂``: V₁ and O₂ stand outside, so their
    triangles do. Turn the stream so that O₁ᵀ is a triangle in the first r directions; V₂, Gaussian,
    looks the same in any basis: r Gaussian rows that O₁ meets, and below them more that only its own
    norm sees, hence again a triangle. The cost does not depend on d_model.
    """
    generator = np.random.default_rng(seed)
    scores = []
    chunk = max(1, 2**20 // min(d_model, d_head) // d_head)
    for start in range(0, samples, chunk):
        n = min(chunk, samples - start)
        scores.append(_random_scores(generator, n, d_model, d_head))
    score = torch.cat(scores)
    return float(score.mean()), float(score.std() / samples**0.5)


def _random_scores(generator: np.random.Generator, n: int, d_model: int, d_head: int) -> Tensor:
    r = min(d_model, d_head)
    V_1 = _gaussian_triangles(generator, n, d_model, d_head)
    O_1 = _gaussian_triangles(generator, n, d_model, d_head).mT
    met = torch.from_numpy(generator.standard_normal((n, r, d_head)))
    unmet = _gaussian_triangles(generator, n, d_model - r, d_head)
    O_2 = _gaussian_triangles(generator, n, d_model, d_head).mT
    first, second = V_1 @ O_1, torch.cat([met, unmet], dim=1) @ O_2
    norm = torch.linalg.matrix_norm
    score: Tensor = norm(first @ second[:, :r]) / (norm(first) * norm(second))
    return score


def _gaussian_triangles(generator: np.random.Generator, samples: int, n: int, k: int) -> Tensor:
    """Drawn as the R of Gaussian (n, k) matrices: (samples, min(n, k), k)."""
    r = min(n, k)
    R = np.triu(generator.standard_normal((samples, r, k)), 1)
    on = np.arange(r)
    R[:, on, on] = np.sqrt(generator.chisquare(n - on, size=(samples, r)))
    return torch.from_numpy(R)


@shaped(model="model:")
def composition_scores(model: Transformer) -> Tensor:
    """Every head against every earlier one: (3, layer, head, layer, head), no baseline subtracted.

    Kinds in the order Q, K, V; then the head that reads, then the head read from; 0 where that one
    is not in an earlier layer. One product per kind and reading layer: with the outer factors as
    triangles, all pairs are blocks of ``X @ Y``, X (heads · d_head, d_model).
    """
    writes = triangle(model.W_V) @ model.W_O  # the norm of W_OV, (layer, head, ≤ d_head, d_model)
    reads = torch.stack(
        [
            model.W_Q @ triangle(model.W_K).mT,
            model.W_K @ triangle(model.W_Q).mT,
            model.W_V @ triangle(model.W_O.mT).mT,
        ]
    )  # (3, layer, head, d_model, ≤ d_head)
    norm = torch.linalg.matrix_norm
    scale = norm(reads)[..., None, None] * norm(writes)  # (3, layer, head, layer, head)
    table = torch.zeros_like(scale)
    for layer in range(1, model.n_layers):
        table[:, layer, :, :layer] = _block_norms(writes[:layer], reads[:, layer])
    return table / torch.where(scale == 0, 1.0, scale)


def _block_norms(writes: Tensor, reads: Tensor) -> Tensor:
    """Norms of all products: writes (layer, head, a, d_model), reads (kind, reader, d_model, b)
    → (kind, reader, layer, head)."""
    layer, head, a, d_model = writes.shape
    kind, reader, _, b = reads.shape
    product = writes.reshape(-1, d_model) @ reads.transpose(1, 2).reshape(kind, d_model, -1)
    blocks = product.reshape(kind, layer, head, a, reader, b)
    norms: Tensor = torch.linalg.vector_norm(blocks, dim=(3, 5))
    return norms.permute(0, 3, 1, 2)


@shaped(model="model: 2")
def composition_table(model: Transformer) -> Tensor:
    """Layer 1 reading layer 0, above the random baseline 1/sqrt(d_model).

    → (3, head of layer 1, head of layer 0), kinds in the order Q, K, V.
    Paper: "Analyzing a Two-Layer Model".
    """
    baseline: float = model.d_model**-0.5
    return composition_scores(model)[:, 1, :, 0] - baseline


@shaped(tokens="token: pos", model="model: 2")
def knock_out_composition(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    """Logits with one kind of composition cut: (pos, d_vocab).

    kind "Q", "K" or "V": that input of every layer-1 head reads the embedding only, with W_pos as
    always; the other two inputs, layer 0 and the stream itself are as they were.
    """
    if kind not in KINDS:
        raise ValueError(f'knock_out_composition: kind must be "Q", "K" or "V"; {kind!r} came.')
    _, cache = model.run_with_cache(tokens)
    embedding, stream = cache.stream[0], cache.stream[1]
    reads = {name: embedding if name == kind else stream for name in KINDS}
    scores = attention_scores(
        model.qk_input(reads["Q"]), model.qk_input(reads["K"]), model.W_Q[1], model.W_K[1]
    )
    written = head_output(reads["V"], causal_pattern(scores), model.W_V[1], model.W_O[1])
    return (stream + written.sum(dim=0)) @ model.W_U


@shaped(
    pattern_1="... mid src",
    W_OV_1="... d_model d_model",
    pattern_2="... dst mid",
    W_OV_2="... d_model d_model",
)
def virtual_head(
    pattern_1: Tensor, W_OV_1: Tensor, pattern_2: Tensor, W_OV_2: Tensor
) -> tuple[Tensor, Tensor]:
    """Two heads in a row, head 1 first, as one: (pattern, W_OV), as in `mixed_product`.

    Paper: "Virtual Attention Heads".
    """
    return mixed_product(pattern_1, W_OV_1, pattern_2, W_OV_2)


@shaped(n_layers="count: 0", n_heads="count: 1")
def count_paths(n_layers: int, n_heads: int) -> list[int]:
    """Paths through 0, 1, …, n_layers heads: choose the layers, then a head in each, C(L, k) Hᵏ."""
    return [comb(n_layers, k) * n_heads**k for k in range(n_layers + 1)]


@shaped(tokens="token: pos", model="model: 2")
def two_layer_paths(tokens: Tensor, model: Transformer) -> tuple[Tensor, Tensor, Tensor]:
    """All terms of the logits, with the patterns of the full run; together they sum to the logits.

    → direct (pos, d_vocab); heads (layer, head, pos, d_vocab), both layers reading the embedding
    only; virtual (head of layer 1, head of layer 0, pos, d_vocab).
    """
    direct, single, virtual = [terms.values @ model.W_U for terms in path_terms(tokens, model)]
    heads = model.n_heads
    # Paths are listed by the head of layer 0 first.
    by_pair = virtual.reshape(heads, heads, *virtual.shape[1:]).transpose(0, 1)
    return direct[0], single.reshape(2, heads, *single.shape[1:]), by_pair


@shaped(tokens="token: pos", model="model: 2", head="index: head")
def attention_score_paths(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    """A layer-1 head's scores by who reads layer 0: (4, dst, src), before the mask.

    Both sides of a score read ``base + composed``: the embedding with W_pos, and the sum of layer 0's
    heads. A score is linear in each side, so it is four terms: direct (base, base), Q only (composed
    on the destination's side), K only, both. Divided by sqrt(d_head); they sum to the scores.
    """
    _, cache = model.run_with_cache(tokens)
    sides = torch.stack([model.qk_input(cache.stream[0]), cache.head_out[0].sum(dim=0)])
    # Destination's side first, source's side second: (2, 2, dst, src).
    scores = attention_scores(sides[:, None], sides[None], model.W_Q[1, head], model.W_K[1, head])
    return torch.stack([scores[0, 0], scores[1, 0], scores[0, 1], scores[1, 1]])
