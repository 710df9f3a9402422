"""Which heads read which, above chance, and the circuit that two heads in a row make.

A score is that of `composition_scores` less ``1/sqrt(d_model)``, what two heads with random factors
give. Of a pair that reads through Q, K or V the composed circuit over the vocabulary is (rows first)::

    Q   W_E W_OV_1 W_QK_2 W_Eᵀ       destinations through the earlier head, sources as they are
    K   W_E W_QK_2 W_OV_1ᵀ W_Eᵀ      sources through the earlier head: induction is one of these
    V   W_E W_OV_1 W_OV_2 W_U        the OV circuit of the virtual head

each of rank d_head at most, so singular values and eigenvalues come from its factors.

Paper: "Three Kinds of Composition", "Analyzing a Two-Layer Model", "Virtual Attention Heads".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grader.circuits.composition import KINDS, composition_scores, random_composition
from grader.circuits.low_rank import LowRank, real_over_absolute
from grader.transformer import Transformer

Head = tuple[int, int]
_SAMPLES = 400


@dataclass(frozen=True)
class Edge:
    """``late`` reads ``early``, both (layer, head), through ``kind``; score above the baseline."""

    kind: str
    early: Head
    late: Head
    score: float

    @property
    def name(self) -> str:
        """``K 0.1→1.2``."""
        (a, b), (c, d) = self.early, self.late
        return f"{self.kind} {a}.{b}→{c}.{d}"


@torch.no_grad()
def edges(model: Transformer) -> list[Edge]:
    """Every head and every earlier one, in all three kinds, the highest score first."""
    scores = composition_scores(model) - model.d_model**-0.5
    heads = [(layer, head) for layer in range(model.n_layers) for head in range(model.n_heads)]
    found = [
        Edge(kind, early, late, float(scores[(i, *late, *early)]))
        for i, kind in enumerate(KINDS)
        for late in heads
        for early in heads
        if early[0] < late[0]
    ]
    return sorted(found, key=lambda edge: -edge.score)


def chance(model: Transformer) -> float:
    """The standard deviation of the score of two heads that learned nothing, of this model's sizes."""
    _, error = random_composition(model.d_model, model.d_head, _SAMPLES, seed=0)
    return float(error * _SAMPLES**0.5)


@torch.no_grad()
def composed_circuit(model: Transformer, edge: Edge) -> LowRank:
    """The pair's circuit over the vocabulary, (d_vocab, d_vocab), in factors; not divided."""
    W_E, early, late = model.W_E, edge.early, edge.late
    values, writes = W_E @ model.W_V[early], model.W_O[early]
    if edge.kind == "Q":
        return LowRank(values, writes @ model.W_Q[late] @ (W_E @ model.W_K[late]).mT)
    if edge.kind == "K":
        return LowRank(W_E @ model.W_Q[late], (values @ (writes @ model.W_K[late])).mT)
    return LowRank(values, writes @ model.W_V[late] @ (model.W_O[late] @ model.W_U))


@dataclass(frozen=True, eq=False)
class PairSpectrum:
    """singular (r,), descending; eigenvalues (k,) complex; score: Re Σλ / Σ|λ|."""

    singular: Tensor
    eigenvalues: Tensor
    score: float

    def shares(self) -> tuple[list[float], list[complex]]:
        """Both over the largest of their kind, so that 1 is the largest size."""
        singular, values = self.singular, self.eigenvalues
        tall = float(singular.max()) or 1.0
        far = float(values.abs().max()) or 1.0
        return (singular / tall).tolist(), (values / far).tolist()


@torch.no_grad()
def pair_spectrum(model: Transformer, edge: Edge) -> PairSpectrum:
    """Singular values and eigenvalues of the pair's composed circuit; zeros beyond its rank left out."""
    circuit = composed_circuit(model, edge)
    values = circuit.eigenvalues()
    return PairSpectrum(circuit.singular_values(), values, float(real_over_absolute(values)))
