"""Notebook 05: a small transformer learns induction while you watch, in seconds.

The text is made so that nothing but looking back can help. A row holds distinct random tokens
r_1 … r_P over and over, so what follows a token is settled by its earlier copy and by nothing else,
and P changes from row to row: with one fixed period a single layer solves the task by position,
"copy what stands P − 1 back". What is then left to learn takes two layers that compose, and it
comes suddenly.

Paper: "Induction Heads"; In-context Learning and Induction Heads (2022), the phase change.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from grader.circuits.shapes import shaped
from grader.transformer import Transformer

D_VOCAB = 64
LENGTH = 49
PERIODS = (8, 24)
STEPS = 400
BATCH = 32
PEAK = 5e-3
WARM_UP = 50


def induction_rows(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Fresh rows of the task: tokens (rows, 49) int64 and predictable (rows, 48) bool.

    A row is 0, then r, r, …, r cut off at 49 tokens, r being P distinct ids of 1 … 63 and P uniform
    in 8 … 24. Entry i of predictable is true where token i + 1 follows a token that has been seen
    before: from position P + 1 on, as position P holds the last of r for the first time.
    """
    period = torch.randint(PERIODS[0], PERIODS[1] + 1, (rows, 1), generator=generator)
    ids = 1 + torch.rand(rows, D_VOCAB - 1, generator=generator).argsort(dim=-1)
    step = torch.arange(LENGTH - 1).expand(rows, -1)
    repeated = ids.gather(1, step % period)
    tokens = torch.cat([torch.zeros(rows, 1, dtype=torch.int64), repeated], dim=-1)
    return tokens, step > period


@shaped(seed="count: 0", n_layers="count: 1")
def train_induction(seed: int, n_layers: int) -> tuple[Transformer, list[float]]:
    """Train a model of n_layers on `induction_rows`: (model, losses), a few seconds.

    losses: one a step, the mean loss in nats on the predictable tokens of a batch never seen
    before. Two layers fall to nearly 0 within a few dozen steps, one stays near 3 nats. It trains
    on all tokens, as a language model does: then one layer's slow progress, which is to learn that
    seen tokens come again, cannot be mistaken for the sudden one. Same seed, same result; the
    global random state is untouched. float32.
    """
    generator = torch.Generator().manual_seed(seed)
    model = _untrained(n_layers, generator)
    learned = [w.requires_grad_() for name, w in model.weights().items() if name != "W_pos"]
    optimiser = torch.optim.AdamW(learned, lr=PEAK, betas=(0.9, 0.98), weight_decay=0.0)
    losses = []
    with torch.enable_grad():
        for step in range(STEPS):
            optimiser.param_groups[0]["lr"] = PEAK * min(1.0, (step + 1) / WARM_UP)
            tokens, predictable = induction_rows(BATCH, generator)
            loss = _losses(model, tokens)
            optimiser.zero_grad()
            torch.autograd.backward(loss.mean())
            optimiser.step()
            losses.append(loss[predictable].mean().item())
    return model.clone(), losses


def _losses(model: Transformer, tokens: Tensor) -> Tensor:
    """(rows, 49) → (rows, 48): the loss of predicting each token but the first."""
    logits = model(tokens)[:, :-1]
    return F.cross_entropy(logits.mT, tokens[:, 1:], reduction="none")


def induction_accuracy(model: Transformer, rows: int, generator: torch.Generator) -> float:
    """Share of the predictable tokens of fresh rows that the model's best guess gets right."""
    tokens, predictable = induction_rows(rows, generator)
    with torch.no_grad():
        right = model(tokens)[:, :-1].argmax(dim=-1) == tokens[:, 1:]
    return right[predictable].double().mean().item()


def _untrained(n_layers: int, generator: torch.Generator) -> Transformer:
    """Two heads of 32 a layer, positions fixed as sinusoids of amplitude 2 and shortest period 2.5.

    Positions stronger than one content (amplitude 2 against 0.5) make a previous-token head easy to
    find, and it is what the rest waits for.
    """
    d_model, n_heads, d_head = 64, 2, 32

    def draw(*shape: int, scale: float) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale

    reads = (n_layers, n_heads, d_model, d_head)
    rate = 2.5 * 300 ** (-torch.arange(d_model // 2) / (d_model // 2))
    angles = torch.arange(LENGTH).unsqueeze(-1) * rate
    return Transformer(
        W_E=draw(D_VOCAB, d_model, scale=0.5),
        W_U=draw(d_model, D_VOCAB, scale=1 / sqrt(d_model)),
        W_pos=2.0 * torch.cat([angles.sin(), angles.cos()], dim=-1),
        W_Q=draw(*reads, scale=1 / sqrt(d_model)),
        W_K=draw(*reads, scale=1 / sqrt(d_model)),
        W_V=draw(*reads, scale=1 / sqrt(d_model)),
        W_O=draw(n_layers, n_heads, d_head, d_model, scale=1 / sqrt(d_model)),
    )
