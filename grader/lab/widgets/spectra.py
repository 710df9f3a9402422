"""Eigenvalues of a head's circuits over the whole vocabulary, and of heads that learned nothing.

A circuit over the vocabulary, say ``W_E W_V W_O W_U``, shares its non-zero eigenvalues with
``W_V W_O C``, where ``C = W_U W_E`` is (d_model, d_model) and the same for every head: one product of
the vocabulary's size for a whole model. A random head has Gaussian factors in place of the head's
own, of the same sizes and norms, and is read through the same C: what differs is only what training
has put into the head.

Paper: "Summarizing OV/QK Matrices"; the K-composed circuit, "How Induction Heads Work".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from grader.circuits.composition import composition_scores
from grader.circuits.low_rank import LowRank, real_over_absolute
from grader.transformer import Transformer

Address = tuple[int, int]
RANDOM_HEADS = 60


@dataclass(frozen=True, eq=False)
class Spectrum:
    """One circuit's eigenvalues beside those of a random head.

    values, random: (k,) complex, the eigenvalues that can differ from zero, k ≤ d_head
    score: Re Σλ / Σ|λ|; random_scores (head,): the same of `RANDOM_HEADS` random heads
    """

    name: str
    values: Tensor
    score: float
    random: Tensor
    random_scores: Tensor

    @property
    def stands_out(self) -> bool:
        """Is the score above, or below, that of every random head?"""
        lowest, highest = float(self.random_scores.min()), float(self.random_scores.max())
        return not lowest <= self.score <= highest


class Spectra:
    """The spectra of one model's heads; what was asked for once is kept.

    Raises ValueError for a model without layers.
    """

    def __init__(self, model: Transformer) -> None:
        if not model.n_layers:
            raise ValueError("This model has no layers, and so no head to show eigenvalues of.")
        self.model = model.with_weights(
            **{name: weight.detach() for name, weight in model.weights().items()}
        )
        self._kept: dict[tuple[str, Address], Spectrum] = {}
        self._untrained: dict[str, Tensor] = {}

    def ov(self, layer: int, head: int) -> Spectrum:
        """The full OV circuit ``W_E W_OV W_U``: what each token does to each token's logit."""
        at = self._address(layer, head)
        return self._spectrum("OV", at, self.model.W_V[at], self.model.W_O[at], self._ov_core)

    def qk(self, layer: int, head: int, reads: Address | None = None) -> Spectrum:
        """The full QK circuit ``W_E W_QK W_Eᵀ``; with ``reads``, K-composed with that earlier head.

        ``W_E W_Q (W_E W_OV_earlier W_K)ᵀ``: what a token makes of a source to which the earlier head
        has moved a token. Raises ValueError where ``reads`` is not in an earlier layer.
        """
        at = self._address(layer, head)
        W_Q, W_K = self.model.W_Q[at], self.model.W_K[at]
        if reads is None:
            return self._spectrum("QK", at, W_Q, W_K.mT, self._qk_core)
        earlier = self._address(*reads)
        if earlier[0] >= layer:
            raise ValueError(
                f"Head {layer}.{head} can only read heads of earlier layers; "
                f"{reads[0]}.{reads[1]} came."
            )
        W_V, W_O = self.model.W_V[earlier], self.model.W_O[earlier]
        core = W_O.mT @ (W_V.mT @ self._qk_core)
        return self._spectrum(f"QK through {reads[0]}.{reads[1]}", at, W_Q, W_K.mT, core)

    def most_read(self, layer: int, head: int) -> Address | None:
        """The earlier head that this one's keys read most (K-composition); None in layer 0."""
        self._address(layer, head)
        if layer == 0:
            return None
        read = int(self._k_composition[layer, head, :layer].argmax())
        return divmod(read, self.model.n_heads)

    def earlier(self, layer: int) -> list[Address]:
        """All heads of the layers before ``layer``."""
        return [(i, j) for i in range(layer) for j in range(self.model.n_heads)]

    def _address(self, layer: int, head: int) -> Address:
        model = self.model
        if layer not in range(model.n_layers) or head not in range(model.n_heads):
            raise ValueError(
                f"There is no head {layer}.{head}: layers count 0 … {model.n_layers - 1} and heads "
                f"0 … {model.n_heads - 1} in this model."
            )
        return layer, head

    @cached_property
    def _ov_core(self) -> Tensor:
        return self.model.W_U @ self.model.W_E

    @cached_property
    def _qk_core(self) -> Tensor:
        return self.model.W_E.mT @ self.model.W_E

    @cached_property
    def _k_composition(self) -> Tensor:
        """(layer, head, earlier layer, earlier head)"""
        return composition_scores(self.model)[1]

    def _spectrum(
        self, name: str, at: Address, left: Tensor, right: Tensor, core: Tensor
    ) -> Spectrum:
        """left (d_model, d_head) and right (d_head, d_model): the head's own factors."""
        if (name, at) not in self._kept:
            values = LowRank(left, right @ core).eigenvalues()
            if name not in self._untrained:
                self._untrained[name] = _random_eigenvalues(left, right, core)
            random = self._untrained[name]
            norm = torch.linalg.matrix_norm
            self._kept[name, at] = Spectrum(
                name, values, float(real_over_absolute(values)),
                random[0] * norm(left) * norm(right), real_over_absolute(random),
            )  # fmt: skip
        return self._kept[name, at]


def _random_eigenvalues(left: Tensor, right: Tensor, core: Tensor) -> Tensor:
    """(head, k) with Gaussian factors of the sizes of left and right, each of norm 1."""
    generator = torch.Generator().manual_seed(0)

    def drawn(factor: Tensor) -> Tensor:
        shape = (RANDOM_HEADS, *factor.shape)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(factor)
        return noise / torch.linalg.matrix_norm(noise)[:, None, None]

    return LowRank(drawn(left), drawn(right) @ core).eigenvalues()
