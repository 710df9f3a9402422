"""Fresh random questions from one seed.

A verdict can be replayed because everything in a case comes from here. Weights are Gaussian, so
they are asymmetric and don't commute; sizes are drawn without repeats, so that a transpose shows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from grader.transformer import Transformer

T = TypeVar("T")


def fresh_seed() -> int:
    """A seed from the system's own randomness, for a learner who practises alone."""
    return secrets.randbits(62)


class Draw:
    """A source of sizes, weights, tokens, patterns and models, determined by ``seed``.

    guarded: the pupil answers in a process of its own, so guarded cases may be drawn as well
    """

    def __init__(
        self, seed: int, dtype: torch.dtype = torch.float32, guarded: bool = False
    ) -> None:
        self.seed = seed
        self.dtype = dtype
        self.guarded = guarded
        self.generator = torch.Generator().manual_seed(seed)

    def sizes(self, count: int, low: int = 2, high: int = 9) -> list[int]:
        """``count`` different sizes from low … high, in random order."""
        if high - low + 1 < count:
            raise ValueError(f"{low} … {high} does not hold {count} different sizes.")
        return [
            low + int(i) for i in torch.randperm(high - low + 1, generator=self.generator)[:count]
        ]

    def integer(self, low: int, high: int) -> int:
        """One integer from low … high, both included."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def integers(self, shape: Sequence[int], low: int, high: int) -> Tensor:
        """int64 from low … high, both included."""
        return torch.randint(low, high + 1, tuple(shape), generator=self.generator)

    def number(self, low: float, high: float) -> float:
        return low + (high - low) * float(
            torch.rand((), generator=self.generator, dtype=torch.float64)
        )

    def choice(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        noise = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return (noise * scale).to(self.dtype)

    def tokens(self, *shape: int, d_vocab: int) -> Tensor:
        return self.integers(shape, 0, d_vocab - 1)

    def orthogonal(self, size: int) -> Tensor:
        """A random rotation or reflection: Haar, since the signs of R's diagonal are divided out."""
        q, r = torch.linalg.qr(
            torch.randn(size, size, generator=self.generator, dtype=torch.float64)
        )
        return (q * r.diagonal().sign()).to(self.dtype)

    def invertible(self, size: int) -> Tensor:
        """Well conditioned (singular values 0.6 … 1.7), far from orthogonal and from symmetric."""
        left, right = self.orthogonal(size).double(), self.orthogonal(size).double()
        stretch = torch.linspace(0.6, 1.7, size, dtype=torch.float64)
        return (left * stretch @ right).to(self.dtype)

    def pattern(self, *shape: int, spread: float = 1.5) -> Tensor:
        """A causal attention pattern of shape (..., dst, src): rows sum to 1."""
        scores = self.normal(*shape, scale=spread).double()
        future = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(dim=-1).to(self.dtype)

    def model(self, **sizes: Any) -> Transformer:
        """A random transformer; sizes that are not given differ from each other and from the others.

        Keywords: n_layers, n_heads, d_model, d_head, d_vocab, n_ctx, pos_in_stream.
        """
        taken = set(sizes.values())
        free = [
            int(i) for i in 3 + torch.randperm(9, generator=self.generator) if int(i) not in taken
        ]
        given = {"n_layers": 1, "n_heads": 2} | sizes
        for name in ("d_model", "d_head", "d_vocab", "n_ctx"):
            if name not in given:
                given[name] = free.pop()
        return Transformer.random(generator=self.generator, dtype=self.dtype, **given)
