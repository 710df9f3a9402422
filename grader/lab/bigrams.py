"""What a table of bigrams can know about a text: the demos of notebook 01 draw from it.

A learner writes the same functions; the demos can't wait for them. Training is watched live.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from grader.circuits import zero_layer
from grader.lab import live
from grader.models.recipes.zero_layer import fit_bigrams


@dataclass(frozen=True)
class Bigrams:
    """counts (current, next): how often each token of a text follows each other one, float64."""

    counts: Tensor

    @cached_property
    def probs(self) -> Tensor:
        """p(next | current) in this text, (current, next); a row of zeros where nothing followed."""
        return self.counts / self.counts.sum(dim=1, keepdim=True).clamp_min(1)

    @cached_property
    def frequency(self) -> Tensor:
        """(current,): the share of the pairs that begin with each token."""
        return self.counts.sum(dim=1) / self.counts.sum()

    @cached_property
    def entropy(self) -> float:
        """The least mean loss of any table on this text, in nats."""
        return float(zero_layer.bigram_entropy(self.counts))

    @cached_property
    def row_entropy(self) -> Tensor:
        """(current,): the entropy of what follows each token, in nats."""
        return torch.special.entr(self.probs).sum(dim=1)

    def loss(self, log_probs: Tensor) -> float:
        """The mean loss on this text of a table (current, next) of log-probabilities, in nats."""
        return float(zero_layer.table_loss(self.counts, log_probs.double()))

    def log_probs(self, smoothing: float) -> Tensor:
        """The smoothed table of this text, (current, next)."""
        return zero_layer.bigram_log_probs(self.counts, smoothing)

    def cut(self, d_model: int, smoothing: float) -> Tensor:
        """Its smoothed table, cut to rank d_model by the singular value decomposition."""
        return zero_layer.svd_bigram_table(self.log_probs(smoothing), d_model)

    def train(
        self, d_model: int, *, seed: int = 0, steps: int = 400, title: str = "", watch: bool = False
    ) -> tuple[Tensor, Tensor]:
        """A model of this width trained on this text → W_E, W_U; watch: draw the loss meanwhile."""
        levels = {"bigram entropy": self.entropy}
        watching = live.curve(title=title or "Loss while training", levels=levels)
        return fit_bigrams(
            self.counts, d_model, seed=seed, steps=steps, progress=watching if watch else None
        )

    def write(self, length: int, *, seed: int = 0) -> Tensor:
        """A text drawn from the table, token after token: (length,) ids."""
        generator = torch.Generator().manual_seed(seed)
        start = torch.multinomial(self.frequency, 1, generator=generator)
        written = [int(start)]
        while len(written) < length:
            row = self.probs[written[-1]]
            chances = row if float(row.sum()) > 0 else self.frequency
            written.append(int(torch.multinomial(chances, 1, generator=generator)))
        return torch.tensor(written)


def of(tokens: Tensor, d_vocab: int) -> Bigrams:
    """The bigrams of a text, tokens (pos,) or (batch, pos)."""
    return Bigrams(zero_layer.bigram_counts(tokens, d_vocab).double())
