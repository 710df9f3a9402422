"""The training form of ``grader.transformer``: the same function, fused where torch can fuse it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.transformer import Transformer


def sinusoids(n_ctx: int, d_model: int, amplitude: float, fastest: float = 2.5) -> Tensor:
    """(n_ctx, d_model) fixed positions: sine and cosine at d_model/2 rates from ``fastest`` down.

    Rates fall by a factor of 300 in all; the fastest, 2.5 rad a token, tells neighbours apart, which
    a previous-token head needs. Shifting by one position is a rotation of the plane of each rate.
    """
    rates = fastest * 300.0 ** (-torch.arange(d_model // 2) / (d_model // 2))
    angles = torch.arange(n_ctx)[:, None] * rates
    return amplitude * torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Network(nn.Module):
    """Trainable weights; W_pos is fixed. Shapes as in ``Transformer``."""

    W_pos: Tensor

    def __init__(
        self,
        *,
        n_layers: int,
        n_heads: int,
        d_model: int,
        d_head: int,
        d_vocab: int,
        W_pos: Tensor,
        seed: int,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=generator) * scale)

        self.W_E = draw(d_vocab, d_model, scale=0.5)
        self.W_U = draw(d_model, d_vocab, scale=d_model**-0.5)
        # Small queries and keys start with even patterns, from which no head can saturate at once.
        self.W_Q = draw(n_layers, n_heads, d_model, d_head, scale=0.5 * d_model**-0.5)
        self.W_K = draw(n_layers, n_heads, d_model, d_head, scale=0.5 * d_model**-0.5)
        self.W_V = draw(n_layers, n_heads, d_model, d_head, scale=d_model**-0.5)
        self.W_O = draw(n_layers, n_heads, d_head, d_model, scale=(n_heads * d_head) ** -0.5)
        self.register_buffer("W_pos", W_pos)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, pos) → (batch, pos, d_vocab)."""
        return self.stream(tokens) @ self.W_U

    def stream(self, tokens: Tensor) -> Tensor:
        """(batch, pos) → the residual stream after the last layer, (batch, pos, d_model)."""
        x = F.embedding(tokens, self.W_E)
        # Unbound once: indexing layer by layer would give each layer's gradient the size of all.
        layers = (weight.unbind() for weight in (self.W_Q, self.W_K, self.W_V, self.W_O))
        for W_Q, W_K, W_V, W_O in zip(*layers, strict=True):
            placed = x + self.W_pos[: tokens.shape[1]]
            q, k, v = (
                self._heads(source, weight)
                for source, weight in ((placed, W_Q), (placed, W_K), (x, W_V))
            )
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + z.transpose(1, 2).flatten(2) @ W_O.flatten(0, 1)
        return x

    @staticmethod
    def _heads(x: Tensor, weight: Tensor) -> Tensor:
        """(batch, pos, d_model) by (head, d_model, d_head) → (batch, head, pos, d_head)."""
        n_heads, d_model, d_head = weight.shape
        flat = x @ weight.transpose(0, 1).reshape(d_model, n_heads * d_head)
        return flat.unflatten(-1, (n_heads, d_head)).transpose(1, 2)

    def loss(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """Mean loss in nats of predicting those tokens (batch, pos) that ``counts``, after the first."""
        before, targets = self.stream(tokens)[:, :-1], tokens[:, 1:]
        chosen = counts[:, 1:]
        return F.cross_entropy(before[chosen] @ self.W_U, targets[chosen])

    def to_transformer(self) -> Transformer:
        names = ("W_E", "W_U", "W_pos", "W_Q", "W_K", "W_V", "W_O")
        return Transformer(**{name: getattr(self, name).detach().clone() for name in names})
