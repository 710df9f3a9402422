"""The figures on the model cards, read from weights and held-out text.

Written from the definitions, apart from the course's reference circuits, which must not be needed to
load a model; a test holds the two to each other. Eigenvalues come by the low-rank route: for A (n, k)
and B (k, n) the non-zero eigenvalues of A B are those of the small B A.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from grader.models.recipes.measure import token_losses
from grader.transformer import Transformer


def positivity(A: Tensor, B: Tensor) -> float:
    """Re Σλ / Σ|λ| of A @ B, for A (n, k) and B (k, n)."""
    values = torch.linalg.eigvals(B.double() @ A.double())
    return float(values.real.sum() / values.abs().sum())


def ov_positivity(model: Transformer, layer: int, head: int) -> float:
    """Of the full OV circuit W_E W_V W_O W_U: near 1 where the head copies."""
    W_V, W_O = model.W_V[layer, head], model.W_O[layer, head]
    return positivity(model.W_E @ W_V, W_O @ model.W_U)


def qk_positivity(model: Transformer, layer: int, head: int) -> float:
    """Of the full QK circuit, without composition: near 1 where a head looks for its own token."""
    W_Q, W_K = model.W_Q[layer, head], model.W_K[layer, head]
    return positivity(model.W_E @ W_Q, (model.W_E @ W_K).T)


def composed_qk_positivity(model: Transformer, earlier: int, later: int) -> float:
    """Of W_E W_Q W_K^T W_OV^T W_E^T: near 1 where the later head matches what the earlier one moved."""
    OV = model.W_V[0, earlier] @ model.W_O[0, earlier]
    keys = model.W_E @ OV @ model.W_K[1, later]
    return positivity(model.W_E @ model.W_Q[1, later], keys.T)


def compositions(model: Transformer) -> Tensor:
    """(3, head of layer 1, head of layer 0), kinds Q, K, V, minus the 1/sqrt(d_model) of chance."""
    OV = model.W_V.double() @ model.W_O.double()
    QK = model.W_Q[1].double() @ model.W_K[1].double().mT
    read = torch.stack(
        [QK, QK.mT, OV[1]]
    )  # what the earlier OV is multiplied by: rows are its side
    products = OV[0] @ read[:, :, None]
    sizes = OV[0].norm(dim=(-2, -1)) * read.norm(dim=(-2, -1))[..., None]
    return products.norm(dim=(-2, -1)) / sizes - model.d_model**-0.5


def without_composition(model: Transformer, tokens: Tensor, kind: str) -> float:
    """Mean loss when the Q, K or V input of every layer-1 head reads the embedding only."""
    x, after, _ = model.run_with_cache(tokens)[1].stream
    inputs = {name: x if name == kind else after for name in "QKV"}
    q = model.qk_input(inputs["Q"]).unsqueeze(-3) @ model.W_Q[1]
    k = model.qk_input(inputs["K"]).unsqueeze(-3) @ model.W_K[1]
    scores = q @ k.mT / math.sqrt(model.d_head)
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    pattern = scores.masked_fill(future, -torch.inf).softmax(-1)
    heads = pattern @ (inputs["V"].unsqueeze(-3) @ model.W_V[1]) @ model.W_O[1]
    return _loss(after + heads.sum(-3), model, tokens)


def term_losses(model: Transformer, tokens: Tensor) -> dict[str, float]:
    """Losses with some paths only, patterns frozen as in the full run; tokens (batch, pos).

    Orders: the direct path; single heads added; pairs of heads added, which is the whole model.
    """
    _, cache = model.run_with_cache(tokens)
    x = cache.stream[0]

    def layer(inputs: Tensor, index: int) -> Tensor:
        values = inputs.unsqueeze(-3) @ model.W_V[index]
        return (cache.pattern[index] @ values @ model.W_O[index]).sum(-3)

    first, second = layer(x, 0), layer(x, 1)
    virtual = layer(first, 1)
    streams = {
        "direct": x,
        "direct_and_layer_0": x + first,
        "direct_and_layer_1": x + second,
        "single_heads": x + first + second,
        "all": x + first + second + virtual,
    }
    return {name: _loss(stream, model, tokens) for name, stream in streams.items()}


def term_table(model: Transformer, tokens: Tensor) -> dict[str, float]:
    """What each kind of path takes off the loss, in nats. Paper: "Term Importance Analysis"."""
    loss = term_losses(model, tokens)
    return {
        "direct_path": math.log(model.d_vocab) - loss["direct"],
        "single_heads": loss["direct"] - loss["single_heads"],
        "virtual_heads": loss["single_heads"] - loss["all"],
        "layer_0_after_direct": loss["direct"] - loss["direct_and_layer_0"],
        "layer_0_after_layer_1": loss["direct_and_layer_1"] - loss["single_heads"],
        "layer_1_after_direct": loss["direct"] - loss["direct_and_layer_1"],
        "layer_1_after_layer_0": loss["direct_and_layer_0"] - loss["single_heads"],
        "loss": loss["all"],
    }


def in_context_score(model: Transformer, tokens: Tensor) -> float:
    """Mean loss of the last 20 predictions minus that of predictions 10 … 29: negative is good."""
    losses = token_losses(model, tokens).mean(0)
    return float(losses[-20:].mean() - losses[10:30].mean())


def attention_reach(pattern: Tensor, reach: int = 4) -> Tensor:
    """(..., dst, src) → mean attention to the token itself and the ``reach`` before it."""
    near = torch.ones_like(pattern[0, 0], dtype=torch.bool).tril().triu(-reach)
    return (pattern * near)[..., reach:, :].sum(-1).mean(-1)


def _loss(stream: Tensor, model: Transformer, tokens: Tensor) -> float:
    logits = (stream @ model.W_U)[:, :-1]
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
