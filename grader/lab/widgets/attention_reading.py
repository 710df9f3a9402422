"""What a text makes of a model's heads: where each looks, and what it moves from there.

The pattern A says where a head looks. What it moves from source j to destination i is
``A_ij · v_j W_O``: a head can look at a token and carry next to nothing away, so beside the pattern
stands the same weighted by the size of the values, ``A_ij · ‖v_j‖``. Read by the unembedding, what is
moved becomes logits, and a head's direct effect is the sum over its sources.

Paper: "Attention Heads as Information Movement".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grader.circuits.path_importance import value_weighted_pattern
from grader.transformer import Cache, Transformer


@dataclass(frozen=True, eq=False)
class Attention:
    """One text read by one model.

    pattern, weighted: (layer, head, dst, src); weighted is A_ij · ‖v_j‖, rows not normalised
    """

    model: Transformer
    cache: Cache
    pattern: Tensor
    weighted: Tensor

    def moved(self, layer: int, head: int, dst: int) -> Tensor:
        """What the head moves from each source to ``dst``, as logits: (src ≤ dst, d_vocab).

        Each row less its mean over the vocabulary, which the softmax doesn't see. The rows sum to the
        head's direct effect on the logits at ``dst``.
        """
        weights = self.pattern[layer, head, dst, : dst + 1, None]
        written = weights * (self.cache.v[layer, head, : dst + 1] @ self.model.W_O[layer, head])
        logits = written @ self.model.W_U
        return logits - logits.mean(dim=-1, keepdim=True)


@torch.no_grad()
def read_attention(model: Transformer, tokens: Tensor) -> Attention:
    """Run the model on tokens (pos,) and keep where its heads look."""
    _, cache = model.run_with_cache(tokens)
    pairs = zip(cache.pattern.flatten(0, 1), cache.v.flatten(0, 1), strict=True)
    weighted = torch.stack([value_weighted_pattern(pattern, v) for pattern, v in pairs])
    return Attention(model, cache, cache.pattern, weighted.reshape(cache.pattern.shape))


def habits(pattern: Tensor) -> dict[str, float]:
    """How much of a head's attention goes to the token before, to itself, to the first: a mean each.

    pattern (dst, src); the first destination, which has no choice, is left out.
    """
    rest = pattern[1:]
    return {
        "the token before": float(rest.diagonal(0).mean()),
        "itself": float(rest.diagonal(1).mean()),
        "the first token": float(rest[:, 0].mean()),
    }


def strongest(weights: Tensor, n: int) -> list[tuple[int, float]]:
    """The n largest entries of (src,) as (index, weight), best first, of equal ones the first."""
    order = weights.argsort(descending=True, stable=True)[:n]
    return [(int(i), float(weights[i])) for i in order]
