"""Notebook 05: how to recognise an induction head, and to watch it appear.

On text that repeats, an induction head looks from each token to the position *after* an earlier
copy of it and raises what it finds there: [a][b] … [a] → [b]. With random tokens repeated at a
period, that position lies ``period − 1`` back (or a period more, per further copy), which makes
prefix matching a stripe in the pattern. A duplicate-token head makes a stripe at ``period``, a head
that looks a fixed distance back makes one that stays where it is when the period changes, and an
anti-copying head looks where induction heads look and lowers what it finds. So it takes both
scores, prefix matching at several periods and copying.

The original definition, "attends to the token after", was at first worded backwards in the paper on
in-context learning and corrected later; read literally that wording scores a perfect head 0.

Paper: "Induction Heads"; In-context Learning and Induction Heads (2022), appendix.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor
from torch.nn import functional as F

from grader.circuits.attention_heads import attention_scores, causal_pattern, head_output
from grader.circuits.induction_by_hand import (
    induction_by_k_composition,
    induction_by_pointer_arithmetic,
    previous_token_head,
)
from grader.circuits.induction_training import train_induction
from grader.circuits.low_rank import LowRank, real_over_absolute
from grader.circuits.one_layer import copying_score
from grader.circuits.paths import frozen_pass
from grader.circuits.shapes import shaped
from grader.transformer import Transformer

__all__ = [
    "ablate_head",
    "copying_effect",
    "find_induction_heads",
    "in_context_learning_score",
    "induction_by_k_composition",
    "induction_by_pointer_arithmetic",
    "k_composed_qk",
    "loss_by_position",
    "matching_score",
    "phase_change_step",
    "prefix_matching_score",
    "previous_token_head",
    "previous_token_score",
    "repeated_tokens",
    "train_induction",
]

PREFIX_MATCHING = 0.45
"""Between the 0.2 that other heads reach and the 0.7 of an induction head."""

COPYING = 0.25
"""Between the 0 of heads that do not copy and the 0.5 of an induction head."""


@shaped(d_vocab="count: 1", period="count: 1", repeats="count: 1", seed="count: 0")
def repeated_tokens(d_vocab: int, period: int, repeats: int, seed: int) -> Tensor:
    """``period`` distinct random tokens, ``repeats`` times over: (period · repeats,) int64.

    Drawn without replacement from 0 … d_vocab − 1: a token that came twice in one period would have
    two continuations (for 50 draws out of 1,000 the chance of a repeat is 0.71). No start token.
    The global generators are untouched. Raises ValueError where period > d_vocab.
    """
    if period > d_vocab:
        raise ValueError(
            f"repeated_tokens: a period of {period} distinct tokens needs d_vocab ≥ {period}; "
            f"{d_vocab} came."
        )
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(d_vocab, generator=generator)[:period].repeat(repeats)


@shaped(logits="pos d_vocab", tokens="token: pos")
def loss_by_position(logits: Tensor, tokens: Tensor) -> Tensor:
    """Loss in nats of each prediction: logits (pos, d_vocab), tokens (pos,) → (pos − 1,).

    Entry i is the loss of predicting token i + 1.
    """
    return F.cross_entropy(logits[:-1], tokens[1:], reduction="none")


@shaped(losses="position", early="count: 0", late="count: 0")
def in_context_learning_score(losses: Tensor, early: int, late: int) -> Tensor:
    """``losses[late] − losses[early]``, a number: negative where later tokens are predicted better.

    losses (pos − 1,). The paper of 2022 defines it so (500 and 50) and then speaks of it with the
    sign turned.
    """
    if max(early, late) >= len(losses):
        raise ValueError(
            f"in_context_learning_score: early and late must lie in 0 … {len(losses) - 1}; "
            f"{early} and {late} came."
        )
    return losses[late] - losses[early]


@shaped(pattern="pos pos")
def previous_token_score(pattern: Tensor) -> Tensor:
    """Mean attention to the position before, over dst = 1 … pos − 1: pattern (dst, src) → a number.

    Raises ValueError with fewer than two positions.
    """
    if len(pattern) < 2:
        raise ValueError("previous_token_score: one position has none before it; 2 or more needed.")
    return pattern.diagonal(-1).mean()


@shaped(pattern="... pos pos", period="count: 3")
def prefix_matching_score(pattern: Tensor, period: int) -> Tensor:
    """Attention to the positions after earlier copies, on `repeated_tokens` of that period.

    pattern (dst, src), or with leading axes → a number each: the mean over the rows dst ≥ period of
    the attention summed over all earlier src with (dst − src) mod period = period − 1. Summed, since
    a head may share its attention among several copies; those rows only, since in the first period
    nothing has been seen before. period ≥ 3 (with 2 the previous token would count), and less than
    the number of positions. No start token.
    """
    pos = pattern.shape[-1]
    if period >= pos:
        raise ValueError(
            f"prefix_matching_score: period must be less than the {pos} positions; {period} came."
        )
    position = torch.arange(pos, device=pattern.device)
    back = position[:, None] - position  # dst − src
    after_a_copy = (back > 0) & (back % period == period - 1)
    return (pattern * after_a_copy)[..., period:, :].sum(dim=-1).mean(dim=-1)


@shaped(
    pattern="pos pos",
    x="pos d_model",
    W_V="d_model d_head",
    W_O="d_head d_model",
    W_U="d_model d_vocab",
    tokens="token: pos",
)
def copying_effect(
    pattern: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor, tokens: Tensor
) -> Tensor:
    """How often a head raises the token it attends to most: a share of destinations.

    One head, pattern (dst, src), x (pos, d_model), tokens (pos,). Its direct logits
    ``pattern x W_V W_O W_U``, each row less its mean (softmax does not see a constant), must be
    positive at the token that stands at the row's largest attention, the first of equal ones.
    """
    logits = head_output(x, pattern, W_V, W_O) @ W_U
    above_mean = logits - logits.mean(dim=-1, keepdim=True)
    attended = tokens[pattern.argmax(dim=-1)]
    own = above_mean.gather(-1, attended.unsqueeze(-1))
    return (own > 0).to(pattern.dtype).mean()


@shaped(model="model:")
def find_induction_heads(model: Transformer) -> list[tuple[int, int]]:
    """The (layer, head) that match prefixes and copy, sorted; possibly none.

    Prefix matching is the least over three periods, so that a head of fixed offset, which can meet
    one period's stripe by chance, does not pass. Raises ValueError for models that cannot hold two
    repeats of three tokens.
    """
    longest = min(model.d_vocab, model.n_ctx // 2)
    if longest < 3:
        raise ValueError(
            "find_induction_heads: repeats of three tokens need d_vocab ≥ 3 and n_ctx ≥ 6; "
            f"{model.d_vocab} and {model.n_ctx} came."
        )
    periods = range(longest, max(2, longest - 3), -1)
    matching = torch.stack([_mean_prefix_matching(model, period) for period in periods])
    copying = copying_score(model.W_E, model.W_V, model.W_O, model.W_U)
    found = (matching.amin(dim=0) >= PREFIX_MATCHING) & (copying >= COPYING)
    return [(layer, head) for layer, head in found.nonzero().tolist()]


def _mean_prefix_matching(model: Transformer, period: int, texts: int = 4) -> Tensor:
    """(layer, head), the mean over a few random texts that fill the context."""
    repeats = model.n_ctx // period + 1
    tokens = torch.stack(
        [repeated_tokens(model.d_vocab, period, repeats, seed) for seed in range(texts)]
    )
    _, cache = model.run_with_cache(tokens[:, : model.n_ctx])
    return prefix_matching_score(cache.pattern, period).mean(dim=1)


@shaped(
    W_E="d_vocab d_model",
    W_Q="d_model d_head",
    W_K="d_model d_head",
    W_OV_previous="d_model d_model",
)
def k_composed_qk(W_E: Tensor, W_Q: Tensor, W_K: Tensor, W_OV_previous: Tensor) -> Tensor:
    """What a query token makes of the token *before* a source: (d_vocab, d_vocab), not divided.

    ``W_E W_Q W_Kᵀ W_OV_previousᵀ W_Eᵀ``, W_Q and W_K of the later head, W_OV_previous
    (d_model, d_model) of the previous-token head: the key reads what that head wrote,
    ``W_E W_OV_previous``. Paper: "How Induction Heads Work".
    """
    return _k_composed(W_E, W_Q, W_K, W_OV_previous).dense()


@shaped(
    W_E="d_vocab d_model",
    W_Q="d_model d_head",
    W_K="d_model d_head",
    W_OV_previous="d_model d_model",
)
def matching_score(W_E: Tensor, W_Q: Tensor, W_K: Tensor, W_OV_previous: Tensor) -> Tensor:
    """Re Σλ / Σ|λ| of `k_composed_qk`, a number: near 1 where a head looks for its own token.

    The plain QK circuit of the same head would say nothing: it compares the token with the source
    itself, not with the one before. Computed from the factors.
    """
    return real_over_absolute(_k_composed(W_E, W_Q, W_K, W_OV_previous).eigenvalues())


def _k_composed(W_E: Tensor, W_Q: Tensor, W_K: Tensor, W_OV_previous: Tensor) -> LowRank:
    return LowRank(W_E @ W_Q, (W_E @ (W_OV_previous @ W_K)).mT)


@shaped(tokens="token: ... pos", model="model:")
def ablate_head(tokens: Tensor, model: Transformer, layer: int, head: int, how: str) -> Tensor:
    """Logits (batch, pos, d_vocab) without one head, for tokens (batch, pos).

    how: "zero" puts 0 for the head's output and runs the rest anew; "mean" puts the mean of its
    output over batch and positions of the clean run, and runs the rest anew; "frozen" puts 0 and
    keeps every pattern of the clean run, so that later heads still look where they looked. They
    differ most for a head that later queries and keys read.
    """
    if layer not in range(model.n_layers) or head not in range(model.n_heads):
        raise ValueError(
            f"ablate_head: the model has {model.n_layers} layers of {model.n_heads} heads; "
            f"layer {layer}, head {head} came."
        )
    if how == "frozen":
        keep = torch.ones_like(model.W_Q[..., 0, 0])
        keep[layer, head] = 0
        return frozen_pass(tokens, model, keep=keep)
    if how not in ("zero", "mean"):
        raise ValueError(f'ablate_head: how must be "zero", "mean" or "frozen"; {how!r} came.')
    _, cache = model.run_with_cache(tokens)
    written = cache.head_out[layer].select(-3, head)  # (..., pos, d_model)
    instead = written.flatten(0, -2).mean(dim=0) if how == "mean" else 0.0
    return _run_from(model, cache.stream[layer + 1] - written + instead, layer + 1)


def _run_from(model: Transformer, x: Tensor, layer: int) -> Tensor:
    """Logits of the stream x (..., pos, d_model) as it stands before that layer."""
    for later in range(layer, model.n_layers):
        seen = model.qk_input(x).unsqueeze(-3)  # (..., 1, pos, d_model), against every head
        scores = attention_scores(seen, seen, model.W_Q[later], model.W_K[later])
        values = x.unsqueeze(-3)
        pattern = causal_pattern(scores)
        x = x + head_output(values, pattern, model.W_V[later], model.W_O[later]).sum(dim=-3)
    return x @ model.W_U


def phase_change_step(losses: Tensor | Sequence[float]) -> int:
    """The step at which a loss curve falls, or −1 where it does not fall suddenly.

    losses: one a step, at least five. With m_i the mean of losses i − 4 … i (i ≥ 4), F = m_4 − m_last
    and t_p the first i at which the share p of F is done, m_i ≤ m_4 − p F: the answer is t_0.5 if
    F > 0 and t_0.75 − t_0.25 is at most 15 % of all steps. Curves that end in NaN or start at
    infinity give −1.
    """
    curve = torch.as_tensor(losses, dtype=torch.float64)
    if curve.ndim != 1 or len(curve) < 5:
        raise ValueError(
            "phase_change_step: losses must have shape (step,), 5 steps or more; "
            f"{tuple(curve.shape)} came."
        )
    smooth = curve.unfold(0, 5, 1).mean(dim=-1)
    fall = smooth[0] - smooth[-1]
    if not 0 < float(fall) < inf:
        return -1
    quarter, half, three_quarters = (
        4 + int((smooth <= smooth[0] - share * fall).nonzero()[0]) for share in (0.25, 0.5, 0.75)
    )
    return half if three_quarters - quarter <= 0.15 * len(curve) else -1
