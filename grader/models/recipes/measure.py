"""What is watched while a model trains: losses, attention patterns, and heads that have died.

A head that gives all its attention to position 0 gets no gradient any more: the softmax is saturated.
A two-layer model whose second layer died so is a one-layer model, so the log starts at step 0.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.models.text import KINDS, sample_tokens
from grader.transformer import Transformer

PERIOD = 64  # tokens of held-out code that are shown twice
RANDOM_PERIOD, RANDOM_REPEATS = 25, 4  # as in the paper on induction heads


def rows_of(tokens: Tensor, rows: int, length: int) -> Tensor:
    """``rows`` stretches of (length,), spread evenly over a text → (rows, length)."""
    starts = torch.linspace(0, len(tokens) - length, rows).long()
    return torch.stack([tokens[s : s + length] for s in starts.tolist()])


def repeated_code(rows: int, period: int = PERIOD) -> Tensor:
    """Held-out code shown twice, (rows, 2 * period)."""
    return rows_of(sample_tokens("code"), rows, period).repeat(1, 2)


def repeated_random(rows: int, d_vocab: int, seed: int = 0) -> Tensor:
    """25 random tokens shown four times, (rows, 100): pairs that no text holds."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randperm(d_vocab, generator=generator)[:RANDOM_PERIOD] for _ in range(rows)]
    return torch.stack(drawn).repeat(1, RANDOM_REPEATS)


def token_losses(model: Transformer, tokens: Tensor) -> Tensor:
    """(batch, pos) → (batch, pos - 1) losses in nats."""
    logits = model(tokens)[:, :-1]
    flat = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return flat.view(tokens.shape[0], -1)


def previous_token(pattern: Tensor) -> Tensor:
    """(..., dst, src) → mean attention to the token before, from position 1 on."""
    return pattern.diagonal(-1, -2, -1).mean(-1)


def first_position(pattern: Tensor) -> Tensor:
    """(..., dst, src) → mean attention to position 0, from position 8 on."""
    return pattern[..., 8:, 0].mean(-1)


def prefix_matching(pattern: Tensor, period: int) -> Tensor:
    """(..., dst, src) → mean attention to the tokens after earlier copies of the current one."""
    pos = pattern.shape[-1]
    gap = torch.arange(pos)[:, None] - torch.arange(pos)
    target = (gap > 0) & (gap % period == period - 1)
    return (pattern * target)[..., period:, :].sum(-1).mean(-1)


@torch.no_grad()
def watch(model: Transformer, rows: int = 8) -> dict[str, Any]:
    """The figures of one moment of training; every list is by layer and head."""
    length = model.n_ctx
    seen: dict[str, Any] = {
        kind: float(token_losses(model, rows_of(sample_tokens(kind), rows, length)).mean())
        for kind in KINDS
    }
    _, text = model.run_with_cache(rows_of(sample_tokens(), rows, length))
    seen["first_position"] = _by_head(first_position(text.pattern))
    seen["previous_token"] = _by_head(previous_token(text.pattern))
    if model.n_layers < 2:
        return seen
    code, noise = repeated_code(2 * rows), repeated_random(rows, model.d_vocab)
    losses = token_losses(model, code)
    seen["code_first"] = float(losses[:, : PERIOD - 1].mean())
    seen["code_second"] = float(losses[:, PERIOD:].mean())
    seen["prefix_matching_code"] = _by_head(
        prefix_matching(model.run_with_cache(code)[1].pattern, PERIOD)
    )
    logits, cache = model.run_with_cache(noise)
    hits = logits[:, RANDOM_PERIOD:-1].argmax(-1) == noise[:, RANDOM_PERIOD + 1 :]
    seen["random_accuracy"] = float(hits.float().mean())
    seen["random_loss"] = float(token_losses(model, noise)[:, RANDOM_PERIOD:].mean())
    seen["prefix_matching_random"] = _by_head(prefix_matching(cache.pattern, RANDOM_PERIOD))
    seen["previous_token_random"] = _by_head(previous_token(cache.pattern))
    return seen


def _by_head(values: Tensor) -> list[list[float]]:
    """(layer, batch, head) → one list a layer."""
    rounded: list[list[float]] = values.mean(1).double().mul(1e4).round().div(1e4).tolist()
    return rounded
