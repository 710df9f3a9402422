"""Zero layers: the best table of next-token log-probabilities whose logits have rank d_model.

The loss of a model without attention depends on the text through its bigram counts alone, so a step
on the whole text costs one (d_vocab, d_vocab) product however long the text is, and the gradient is
exact. Paper: "Zero-Layer Transformers".
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from grader.models.recipes.optimiser import denormals_flushed

Progress = Callable[[int, int, float], None]


def count_bigrams(tokens: Tensor, d_vocab: int) -> Tensor:
    """(pos,) or (batch, pos) → (current, next) float64 counts; no pair crosses a row."""
    pairs = tokens[..., :-1].long() * d_vocab + tokens[..., 1:].long()
    counted = torch.bincount(pairs.flatten(), minlength=d_vocab**2)
    return counted.view(d_vocab, d_vocab).double()


def entropy_of(counts: Tensor) -> float:
    """The loss of the unsmoothed bigram table on its own text: no zero-layer model can be below."""
    joint = counts.double() / counts.sum()
    given = joint / joint.sum(1, keepdim=True).clamp_min(1e-300)
    return float(-torch.special.xlogy(joint, given).sum())


def table_loss(W_E: Tensor, W_U: Tensor, counts: Tensor) -> float:
    """The mean loss in nats of a zero-layer model on the text that ``counts`` came from."""
    logp = (W_E.double() @ W_U.double()).log_softmax(dim=-1)
    return float(-(counts.double() / counts.sum() * logp).sum())


@denormals_flushed()
def fit_bigrams(
    counts: Tensor,
    d_model: int,
    *,
    seed: int = 0,
    steps: int = 400,
    lr: float = 0.1,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> tuple[Tensor, Tensor]:
    """Adam on the whole count table, the rate falling to 0 → W_E (d_vocab, d_model), W_U.

    ``progress(step, steps, loss)`` is called after every step. Same seed, same weights. With a file
    ``checkpoint`` the state is kept there every 50 steps, and a killed run goes on from it.
    """
    target = (counts / counts.sum()).float()
    row = target.sum(1, keepdim=True)
    generator = torch.Generator().manual_seed(seed)
    W_E = 0.3 * torch.randn(len(counts), d_model, generator=generator)
    W_U = 0.3 * torch.randn(d_model, len(counts), generator=generator)
    adam = torch.optim.Adam([W_E, W_U], lr=lr, betas=(0.9, 0.99), eps=1e-12, fused=True)
    for step in range(_restored(checkpoint, W_E, W_U, adam), steps):
        for group in adam.param_groups:
            group["lr"] = lr * (1 - step / steps)
        logp = (W_E @ W_U).log_softmax(dim=-1)
        loss = -float(target.flatten() @ logp.flatten())
        # d loss / d logits of a row is (its share of the text) * (prediction - truth).
        gradient = logp.exp_().mul_(row).sub_(target)
        W_E.grad, W_U.grad = gradient @ W_U.T, W_E.T @ gradient
        adam.step()
        if progress:
            progress(step + 1, steps, loss)
        if checkpoint and (step + 1) % 50 == 0:
            part = checkpoint.with_suffix(".part")
            torch.save({"step": step + 1, "W": (W_E, W_U), "adam": adam.state_dict()}, part)
            os.replace(part, checkpoint)
    return W_E, W_U


def _restored(checkpoint: Path | None, W_E: Tensor, W_U: Tensor, adam: torch.optim.Adam) -> int:
    """Put a stored state back in place, if there is one → the step it had reached."""
    if checkpoint is None or not checkpoint.is_file():
        return 0
    state = torch.load(checkpoint, weights_only=True)
    for weight, kept in zip((W_E, W_U), state["W"], strict=True):
        weight.copy_(kept)
    adam.load_state_dict(state["adam"])
    return int(state["step"])
