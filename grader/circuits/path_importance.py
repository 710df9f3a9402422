"""Notebook 06: which paths through the model carry its predictions, in nats.

Freeze the patterns of a clean run, and the logits are a sum over paths (`paths`): the direct path,
order 1 through one head, order 2 through a head of each layer. The loss is not a sum, so what a term
is worth depends on what is there already; every number below says what it starts from.

Frozen means the clean run's patterns in every step. At the highest order that makes no difference,
as all paths together are the model; it shows at order 1, where a model without the virtual terms
would look elsewhere.

Paper: "Term Importance Analysis".
"""

from __future__ import annotations

import torch
from torch import Tensor

from grader.circuits.composition import two_layer_paths
from grader.circuits.paths import logits_by_order
from grader.circuits.shapes import shaped
from grader.circuits.zero_layer import next_token_loss
from grader.transformer import Transformer


@shaped(tokens="token: pos", model="model: 2")
def term_importance(tokens: Tensor, model: Transformer) -> Tensor:
    """Mean loss with the direct path only, with order ≤ 1, with order ≤ 2 (the model): (3,) nats.

    tokens (pos,), at least two. Differences are what each order adds to those before it.
    """
    partial = logits_by_order(tokens, model).cumsum(dim=0)  # (order, pos, d_vocab)
    return torch.stack([next_token_loss(logits, tokens) for logits in partial])


@shaped(tokens="token: pos", model="model: 2")
def marginal_effect(tokens: Tensor, model: Transformer, layer: int) -> tuple[Tensor, Tensor]:
    """What one layer's order-1 terms are worth, in nats, from two starting points.

    → (loss of the direct path − loss of direct path and this layer, loss of direct path and the
    other layer − loss of all three). The heads of layer 1 read the embedding here, not layer 0.
    """
    if layer not in (0, 1):
        raise ValueError(f"marginal_effect: layer must be 0 or 1; {layer} came.")
    direct, heads, _ = two_layer_paths(tokens, model)
    this, other = heads[layer].sum(dim=0), heads[1 - layer].sum(dim=0)

    def loss(logits: Tensor) -> Tensor:
        return next_token_loss(logits, tokens)

    alone = loss(direct) - loss(direct + this)
    beside = loss(direct + other) - loss(direct + other + this)
    return alone, beside


@shaped(tokens="token: pos", model="model: 2")
def virtual_head_importance(tokens: Tensor, model: Transformer) -> Tensor:
    """How much the full loss rises when one virtual head is taken away, patterns frozen, in nats.

    → (head of layer 1, head of layer 0). Negative where the model does better without.
    """
    direct, heads, virtual = two_layer_paths(tokens, model)
    full = direct + heads.sum(dim=(0, 1)) + virtual.sum(dim=(0, 1))
    without = [next_token_loss(full - term, tokens) for term in virtual.flatten(0, 1)]
    rise = torch.stack(without) - next_token_loss(full, tokens)
    return rise.reshape(model.n_heads, model.n_heads)


@shaped(components="component pos d_model", W_U="d_model d_vocab", tokens="token: pos")
def direct_logit_attribution(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    """What each part of the stream adds to the true next token: (component, pos − 1).

    components (component, pos, d_model): its logit for token i + 1 at position i, less its mean
    logit over the vocabulary, which the softmax does not see. Both are linear in W_U, so only one
    column for each position is multiplied out.
    """
    wanted = (W_U - W_U.mean(dim=-1, keepdim=True))[:, tokens[1:]]  # (d_model, pos − 1)
    return torch.einsum("cpd,dp->cp", components[:, :-1], wanted)


@shaped(pattern="dst src", v="src d_head")
def value_weighted_pattern(pattern: Tensor, v: Tensor) -> Tensor:
    """Attention times the size of what is moved: A_ij · ‖v_j‖₂, (dst, src), rows not normalised.

    A head that has nothing to say rests where values are small, often at the first token; the plain
    pattern shows that rest as if it mattered.
    """
    size: Tensor = torch.linalg.vector_norm(v, dim=-1)
    return pattern * size
