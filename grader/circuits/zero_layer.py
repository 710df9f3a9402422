"""Notebook 01: with no layer, a transformer is a table of bigrams.

``logits[i] = W_E[tokens[i]] @ W_U`` depends on the current token only: row ``a`` of ``W_E @ W_U`` is
the model's whole opinion of what follows token a. In a deeper model the same product survives as
the direct path.

How good can a table be? On a text with counts c_ab the mean loss of a table q is, with
``p(b|a) = c_ab / c_a``,

    −Σ c_ab/N · ln q(b|a) = Σ c_ab/N · (−ln p(b|a)) + Σ c_a/N · KL(p(·|a) ‖ q(·|a)),

the bigram entropy of the text plus something never negative. Where d_model < d_vocab the logits
have rank at most d_model and the second term does not vanish: that is the price of a small model.

All losses in nats. Paper: "Zero-Layer Transformers".
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from grader.circuits.shapes import shaped


@shaped(tokens="token: ... pos", d_vocab="count: 1")
def bigram_counts(tokens: Tensor, d_vocab: int) -> Tensor:
    """How often each token follows each: tokens (pos,) or (batch, pos) → (current, next) int64.

    Rows of a batch are separate texts; no pair crosses a row.
    """
    pair = tokens[..., :-1] * d_vocab + tokens[..., 1:]
    return torch.bincount(pair.flatten(), minlength=d_vocab**2).reshape(d_vocab, d_vocab)


@shaped(counts="number: current next")
def bigram_log_probs(counts: Tensor, smoothing: float) -> Tensor:
    """ln p(next | current) after adding ``smoothing`` to every cell: (current, next) → same shape.

    Integer counts give float64. Raises ValueError unless smoothing > 0 and no count is negative.
    """
    if not smoothing > 0:
        raise ValueError(f"bigram_log_probs: smoothing must be above 0; {smoothing!r} came.")
    smoothed = _as_counts("bigram_log_probs", counts) + smoothing
    return smoothed.log() - smoothed.sum(dim=-1, keepdim=True).log()


@shaped(tokens="token: ... pos", W_E="d_vocab d_model", W_U="d_model d_vocab")
def zero_layer_logits(tokens: Tensor, W_E: Tensor, W_U: Tensor) -> Tensor:
    """Raw logits of a model without layers: tokens (..., pos) → (..., pos, d_vocab)."""
    return W_E[tokens] @ W_U


@shaped(W_E="d_vocab d_model", W_U="d_model d_vocab")
def bigram_table(W_E: Tensor, W_U: Tensor) -> Tensor:
    """The bigram table that the weights are: (current, next) log-probabilities, nothing run."""
    return (W_E @ W_U).log_softmax(dim=-1)


@shaped(logits="... pos d_vocab", tokens="token: ... pos")
def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross-entropy in nats, logits at i predicting token i + 1.

    logits (..., pos, d_vocab), tokens (..., pos), pos ≥ 2 → one number, the mean over all pos − 1
    predictions of all rows.
    """
    if logits.shape[:-1] != tokens.shape or tokens.shape[-1] < 2:
        raise ValueError(
            "next_token_loss: logits (..., pos, d_vocab) and tokens (..., pos) must agree and pos be "
            f"2 or more; {tuple(logits.shape)} and {tuple(tokens.shape)} came."
        )
    return F.cross_entropy(logits[..., :-1, :].flatten(0, -2), tokens[..., 1:].flatten())


@shaped(counts="number: current next")
def bigram_entropy(counts: Tensor) -> Tensor:
    """The least mean loss a bigram table can reach on a text with these counts, in nats.

    counts (current, next) → Σ c/N · (−ln c/c_current), 0 ln 0 = 0. Integer counts give float64.
    Raises ValueError where nothing was counted or a count is negative.
    """
    c = _as_counts("bigram_entropy", counts)
    if c.sum() == 0:
        raise ValueError("bigram_entropy: the counts are all 0; a text of two tokens has one pair.")
    wide = c.double()
    row = wide.sum(dim=-1, keepdim=True)
    return ((wide.xlogy(row) - wide.xlogy(wide)).sum() / wide.sum()).to(c.dtype)


@shaped(counts="number: current next", log_probs="current next")
def table_loss(counts: Tensor, log_probs: Tensor) -> Tensor:
    """The mean loss of a bigram table on a text with these counts, in nats (module docstring).

    counts (current, next), log_probs (current, next); a pair that never occurs costs nothing, even
    at ln 0.
    """
    c = counts.to(log_probs.dtype)
    return -torch.where(c > 0, c * log_probs, 0.0).sum() / c.sum()


@shaped(tokens="token: ... pos", d_vocab="count: 1", d_model="count: 1", seed="count: 0")
def train_zero_layer(
    tokens: Tensor, d_vocab: int, d_model: int, seed: int, *, steps: int = 600, peak: float = 0.1
) -> tuple[Tensor, Tensor]:
    """W_E (d_vocab, d_model) and W_U (d_model, d_vocab) that fit the bigrams of a text.

    tokens (pos,) or (batch, pos). Only the counts matter, so each step of Adam sees the whole text
    as one (d_vocab, d_vocab) matrix, with the exact gradient; the step size falls linearly to 0.
    Same seed, same result; global random state is untouched. float32.

    600 steps ended at most 0.024 nats above runs five times as long (five texts drawn from random
    chains, d_vocab 11 to 200, d_model 2 to 20, six seeds each).
    """
    generator = torch.Generator().manual_seed(seed)
    counts = bigram_counts(tokens, d_vocab)
    if counts.sum() == 0:
        raise ValueError("train_zero_layer: the text has no two tokens in a row to learn from.")
    share = counts.float() / counts.sum()
    W_E = torch.randn(d_vocab, d_model, generator=generator) * d_model**-0.5
    W_U = torch.randn(d_model, d_vocab, generator=generator) * d_model**-0.5
    weights = [W_E.requires_grad_(), W_U.requires_grad_()]
    optimiser = torch.optim.Adam(weights, lr=peak)
    with torch.enable_grad():
        for step in range(steps):
            optimiser.param_groups[0]["lr"] = peak * (1 - step / steps)
            optimiser.zero_grad()
            loss = -(share * (W_E @ W_U).log_softmax(dim=-1)).sum()
            loss.backward()
            optimiser.step()
    return W_E.detach(), W_U.detach()


@shaped(log_probs="current next", d_model="count: 1")
def svd_bigram_table(log_probs: Tensor, d_model: int) -> Tensor:
    """The nearest table of rank d_model by squared error of the logs, rows renormalised.

    log_probs (current, next), finite, used as given → (current, next) log-probabilities. Not the
    best table of that rank in nats: squared error counts a rare pair as much as a common one.
    """
    if not bool(log_probs.isfinite().all()):
        raise ValueError("svd_bigram_table: log_probs must be finite; smooth the counts first.")
    U, S, Vh = torch.linalg.svd(log_probs, full_matrices=False)
    nearest: Tensor = (U[:, :d_model] * S[:d_model]) @ Vh[:d_model]
    return nearest.log_softmax(dim=-1)


@shaped(log_probs="d_vocab d_vocab", rows="count: 1", pos="count: 1")
def sample_bigram_text(
    log_probs: Tensor, rows: int, pos: int, generator: torch.Generator | None = None
) -> Tensor:
    """Texts drawn from a bigram table: (rows, pos) int64, first tokens uniform, rows independent."""
    probabilities = log_probs.exp()
    text = torch.empty(rows, pos, dtype=torch.int64)
    text[:, 0] = torch.randint(len(log_probs), (rows,), generator=generator)
    for i in range(1, pos):
        text[:, i] = torch.multinomial(probabilities[text[:, i - 1]], 1, generator=generator)[:, 0]
    return text


def _as_counts(function: str, counts: Tensor) -> Tensor:
    if counts.numel() and counts.min() < 0:
        raise ValueError(f"{function}: counts must be 0 or more; {counts.min().item()} came.")
    return counts if counts.dtype.is_floating_point else counts.double()
