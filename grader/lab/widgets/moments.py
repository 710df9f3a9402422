"""A training run as its snapshots, and what each of them can do: loss, use of context, heads.

The same texts are put to every snapshot, so the figures can be compared along the run: random tokens
that repeat, for which looking back is all that helps, and, for models with the course's tokenizer,
held-out code shown twice. What is measured once is kept.

Paper: In-context Learning and Induction Heads (2022), the phase change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from grader import models
from grader.circuits.induction_heads import (
    in_context_learning_score,
    prefix_matching_score,
    repeated_tokens,
)
from grader.transformer import Transformer

Snapshots = list[tuple[int, Transformer]]
"""A run: (step, the model after it)."""

RANDOM, CODE = "random tokens that repeat", "code, shown twice"
PERIOD, REPEATS = 25, 4  # as in the paper of 2022
_RANDOM_ROWS, _CODE_ROWS = 4, 12
_STRETCHES = 15  # that positions are averaged over: one position alone is too noisy


@dataclass(frozen=True, eq=False)
class Copies:
    """Texts that repeat: tokens (row, pos) int64, each row the same ``period`` tokens again."""

    tokens: Tensor
    period: int


@dataclass(frozen=True, eq=False)
class Losses:
    """One snapshot on one text, nats per token.

    copied: the mean over what came before in the text, so that looking back can help
    stretches: (stretch,) means over stretches of the whole text, one after another
    in_context: the last stretch's loss less the second's; negative where context helps
    """

    copied: float
    stretches: Tensor
    in_context: float


class Run:
    """Snapshots by step, measured when asked.

    Raises ValueError where what comes is no run: nothing, no models, of several sizes, without
    layers, or too small for two repeats of three tokens.
    """

    def __init__(self, snapshots: Iterable[object]) -> None:
        self.snapshots = _in_order(snapshots)
        self.texts = {RANDOM: random_copies(self.last)}
        if isinstance(self.last.tokenizer, models.Tokenizer):
            self.texts[CODE] = code_copies(self.last.n_ctx // 4)
        self._losses: dict[str, list[Losses]] = {}

    @property
    def last(self) -> Transformer:
        return self.snapshots[-1][1]

    @property
    def steps(self) -> list[int]:
        return [step for step, _ in self.snapshots]

    def losses(self, text: str) -> list[Losses]:
        """Of every snapshot on one of ``texts``."""
        if text not in self._losses:
            self._losses[text] = [measure(model, self.texts[text]) for _, model in self.snapshots]
        return self._losses[text]

    @cached_property
    def matching(self) -> Tensor:
        """(snapshot, layer, head): prefix matching on random tokens that repeat."""
        return torch.stack([matching(model, self.texts[RANDOM]) for _, model in self.snapshots])


@torch.no_grad()
def measure(model: Transformer, text: Copies) -> Losses:
    """The model's losses on a text, averaged over its rows."""
    logits = model(text.tokens)[:, :-1]
    losses = F.cross_entropy(logits.mT, text.tokens[:, 1:], reduction="none").mean(dim=0)
    size = -(-len(losses) // _STRETCHES)
    count = len(losses) // size
    stretches = losses[: count * size].reshape(count, size).mean(dim=-1)
    score = in_context_learning_score(stretches, 1, count - 1)
    return Losses(float(losses[text.period :].mean()), stretches, float(score))


@torch.no_grad()
def matching(model: Transformer, text: Copies) -> Tensor:
    """(layer, head): prefix matching, averaged over the rows of the text."""
    pattern = model.run_with_cache(text.tokens)[1].pattern  # (layer, row, head, dst, src)
    return prefix_matching_score(pattern, text.period).mean(dim=1)


def random_copies(model: Transformer) -> Copies:
    """Random tokens that repeat, as long as the model reads, four rows.

    Raises ValueError for a model that can't hold two repeats of three tokens.
    """
    if model.d_vocab < 3 or model.n_ctx < 6:
        raise ValueError(
            "Random tokens that repeat need d_vocab ≥ 3 and n_ctx ≥ 6; this model has "
            f"{model.d_vocab} and {model.n_ctx}."
        )
    period = min(PERIOD, model.d_vocab, model.n_ctx // 2)
    repeats = min(REPEATS, model.n_ctx // period)
    rows = [repeated_tokens(model.d_vocab, period, repeats, seed) for seed in range(_RANDOM_ROWS)]
    return Copies(torch.stack(rows), period)


def code_copies(length: int) -> Copies:
    """Held-out code of that many tokens, shown twice, a dozen rows."""
    tokens = models.sample_tokens("code")
    starts = torch.linspace(0, len(tokens) - length, _CODE_ROWS).long().tolist()
    rows = torch.stack([tokens[start : start + length] for start in starts])
    return Copies(rows.repeat(1, 2), length)


_WANTED = "A run is a list of (step, Transformer), as models.checkpoints() gives it"


def _in_order(snapshots: Iterable[object]) -> Snapshots:
    if not isinstance(snapshots, Iterable):
        raise ValueError(f"{_WANTED}; a {type(snapshots).__name__} came.")
    run = [_snapshot(given) for given in snapshots]
    if not run:
        raise ValueError(f"{_WANTED}; none came.")
    shapes = {tuple(tuple(w.shape) for w in model.weights().values()) for _, model in run}
    if len(shapes) > 1:
        raise ValueError("Snapshots of one run have one size; models of different sizes came.")
    if not run[0][1].n_layers:
        raise ValueError("These models have no layers, so no head can match prefixes.")
    return sorted(run, key=lambda snapshot: snapshot[0])


def _snapshot(given: object) -> tuple[int, Transformer]:
    match given:
        case (int(step), Transformer() as model):
            return step, model
    raise ValueError(f"{_WANTED}; in it a {type(given).__name__} came.")
