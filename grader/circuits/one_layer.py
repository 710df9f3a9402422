"""Notebook 03: one layer of attention: bigrams, and skip-trigrams read off the weights.

With patterns frozen the logits of a one-layer model are a sum of 1 + head terms,

    x W_U + Σ_h A_h x W_OV_h W_U,     x = W_E[tokens] the embedding,

and the head terms can be read token by token. `full_qk_circuit` [destination, source] says how much
a destination likes a source, `full_ov_circuit` [source, output] what the source then does to the
logits. An entry of each makes a skip-trigram, source … destination → output. The second factor does
not know the destination: whatever a source does for one destination it does for all that attend to
it, and that is where the paper's skip-trigram bugs come from.

Both circuits are (d_vocab, d_vocab), of rank d_head. Nothing here that is asked at a vocabulary of
50,257 ever forms one: eigenvalues come from `low_rank`, rows a few at a time.

Paper: "One-Layer Attention-Only Transformers".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from grader.circuits.attention_heads import attention_scores, causal_pattern
from grader.circuits.low_rank import LowRank, real_over_absolute
from grader.circuits.paths import frozen_pass, path_terms
from grader.circuits.shapes import shaped
from grader.transformer import Transformer


@shaped(tokens="token: pos", model="model: 1", pattern="head pos pos")
def frozen_logits(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    """Logits with the attention given: tokens (pos,), pattern (head, dst, src) → (pos, d_vocab).

    The direct path is included. Paper: "The Path Expansion Trick".
    """
    return frozen_pass(tokens, model, pattern.unsqueeze(0))


@shaped(tokens="token: pos", model="model: 1")
def one_layer_paths(tokens: Tensor, model: Transformer) -> Tensor:
    """The direct path, then each head: (1 + head, pos, d_vocab), summing to the model's logits."""
    direct, heads = path_terms(tokens, model)
    return torch.cat([direct.values, heads.values]) @ model.W_U


@shaped(W_E="d_vocab d_model", W_Q="... d_model d_head", W_K="... d_model d_head")
def full_qk_circuit(W_E: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    """W_E W_QK W_Eᵀ of one head: (d_vocab, d_vocab), [destination, source], not divided."""
    return (W_E @ W_Q) @ (W_E @ W_K).mT


@shaped(
    W_E="d_vocab d_model",
    W_V="... d_model d_head",
    W_O="... d_head d_model",
    W_U="d_model d_vocab",
)
def full_ov_circuit(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """W_E W_OV W_U of one head: (d_vocab, d_vocab), [source, output]."""
    return _full_ov(W_E, W_V, W_O, W_U).dense()


@shaped(
    full_qk="d_vocab d_vocab",
    full_ov="d_vocab d_vocab",
    destination="token:",
    n_sources="count: 1",
    n_outputs="count: 1",
)
def top_skip_trigrams(
    full_qk: Tensor, full_ov: Tensor, destination: int, n_sources: int, n_outputs: int
) -> tuple[Tensor, Tensor]:
    """The sources a destination likes best, and what each of them then promotes.

    → source ids (n_sources,) by ``full_qk[destination]``, output ids (n_sources, n_outputs) by
    ``full_ov[source]``; int64, raw entries, best first, of equal ones the lower id first.
    """
    sources = _best(full_qk[destination], n_sources)
    return sources, _best(full_ov[sources], n_outputs)


@shaped(
    full_qk="d_vocab d_vocab",
    full_ov="d_vocab d_vocab",
    source="token:",
    destinations="token: destination",
    outputs="token: output",
    d_head="count: 1",
)
def skip_trigram_effect(
    full_qk: Tensor,
    full_ov: Tensor,
    source: int,
    destinations: Sequence[int],
    outputs: Sequence[int],
    d_head: int,
) -> Tensor:
    """Change of logits that a source makes, against a rival of score 0 that writes nothing.

    A destination divides its attention between the two: it pays the source
    ``e^s / (e^s + e^0) = sigmoid(s)`` with ``s = full_qk[destination, source] / sqrt(d_head)``.
    → (len(destinations), len(outputs)): sigmoid(s) · full_ov[source, output], an outer product and
    so of rank one: two skip-trigrams of a source force all that mix them.
    Paper: "Interpretation as Skip-Trigrams" (bugs).
    """
    attention = torch.sigmoid(full_qk[destinations, source] / d_head**0.5)
    return torch.outer(attention, full_ov[source, outputs])


def bug_partners(pairs: Sequence[tuple[Hashable, Hashable]]) -> set[tuple[Hashable, Hashable]]:
    """The (destination, output) pairs that come along when one source serves all these pairs.

    Every destination that attends to the source gets every output the source writes: all of
    destinations × outputs, less what was asked for.
    """
    destinations = {destination for destination, _ in pairs}
    outputs = {output for _, output in pairs}
    return {(d, o) for d in destinations for o in outputs} - {(d, o) for d, o in pairs}


@shaped(W_pos="n_ctx d_model", W_Q="... d_model d_head", W_K="... d_model d_head")
def positional_pattern(W_pos: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    """Where a head looks by position alone, content zero: (n_ctx, n_ctx), causal, rows sum to 1."""
    return causal_pattern(attention_scores(W_pos, W_pos, W_Q, W_K))


@shaped(A="n k", B="k n")
def low_rank_eigenvalues(A: Tensor, B: Tensor) -> Tensor:
    """The eigenvalues of ``B @ A``, which are the non-zero ones of ``A @ B``: (k,) complex.

    A (n, k), B (k, n), k ≤ n; any order. `low_rank` has the proof.
    """
    if A.shape[1] > A.shape[0]:
        raise ValueError(
            f"low_rank_eigenvalues: A must be (n, k) with k ≤ n; {tuple(A.shape)} came."
        )
    return LowRank(A, B).eigenvalues()


@shaped(A="n k", B="k m")
def factored_svd(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The SVD of ``A @ B`` from its factors: U (n, k), S (k,) descending, Vh (k, m).

    With k above n or m there are only min(n, m) singular values, and as many columns.
    """
    return LowRank(A, B).svd()


@shaped(n="count: 2")
def eigenvalue_trap(n: int) -> Tensor:
    """An (n, n) matrix with positive real eigenvalues 1 … n and a diagonal entry of −1, float64.

    ``[[4, −2], [3, −1]]`` has trace 3 and determinant 2, so eigenvalues 1 and 2. As an OV circuit it
    would lower the second token's own logit while its score says that it copies.
    Paper: "Summarizing OV/QK Matrices".
    """
    trap = torch.diag(torch.arange(1, n + 1, dtype=torch.float64))
    trap[:2, :2] = torch.tensor([[4.0, -2.0], [3.0, -1.0]], dtype=torch.float64)
    return trap


@shaped(
    W_E="d_vocab d_model",
    W_V="... d_model d_head",
    W_O="... d_head d_model",
    W_U="d_model d_vocab",
)
def copying_score(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """Re Σλ / Σ|λ| of the full OV circuit, between −1 and 1: (...), a number for one head.

    The eigenvalues of ``W_E W_V · W_O W_U`` are those of ``W_O (W_U W_E) W_V``, a (d_head, d_head)
    matrix. For many heads ``W_U W_E``, (d_model, d_model), is made once; for one head it is cheaper
    to multiply from the outside. Neither form holds more than 2 · d_vocab · d_head numbers.
    """
    n_heads = W_V[..., 0, 0].numel()
    if 2 * n_heads * W_V.shape[-1] > W_V.shape[-2]:
        core = LowRank(W_V, W_O @ (W_U @ W_E))
    else:
        core = _full_ov(W_E, W_V, W_O, W_U)
    return real_over_absolute(core.eigenvalues())


@shaped(
    W_E="d_vocab d_model",
    W_V="... d_model d_head",
    W_O="... d_head d_model",
    W_U="d_model d_vocab",
)
def copying_rank(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    """Share of tokens whose own logit a head raises most: (...) in [0, 1], ties counting.

    A row of the full OV circuit counts where its largest entry is on the diagonal. Rows come a few
    at a time, 8 MiB of them, so the memory does not grow with d_vocab².
    """
    circuit = _full_ov(W_E, W_V, W_O, W_U)
    copied = torch.zeros(circuit.shape[:-2], dtype=W_E.dtype, device=W_E.device)
    for chunk, rows in circuit.row_chunks(8 * 2**20):
        own = rows.diagonal(chunk.start, dim1=-2, dim2=-1)
        copied += (own >= rows.amax(dim=-1)).sum(dim=-1)
    return copied / circuit.shape[-1]


@shaped(tokens="token: pos", pattern="pos pos", full_ov="d_vocab d_vocab", k="count: 1")
def used_skip_trigrams(
    tokens: Tensor, pattern: Tensor, full_ov: Tensor, k: int
) -> list[tuple[int, int, int, float]]:
    """What one head is used for on a text: its k largest (source, destination, next, sum).

    tokens (pos,), pattern (dst, src). Each pair src < dst with a token after dst adds
    ``pattern[dst, src] · full_ov[tokens[src], tokens[dst + 1]]``, the head's share in the logit of
    the true next token, to the entry of its three tokens. Best first, of equal ones the lower ids.
    """
    d_vocab = full_ov.shape[0]
    dst, src = torch.tril_indices(len(tokens) - 1, len(tokens) - 1, offset=-1)
    source, destination, following = tokens[src], tokens[dst], tokens[dst + 1]
    amount = pattern[dst, src] * full_ov[source, following]
    key = (source * d_vocab + destination) * d_vocab + following
    keys, entry = torch.unique(key, return_inverse=True)
    sums = torch.zeros(len(keys), dtype=amount.dtype).index_add(0, entry, amount)
    best = _best(sums, min(k, len(keys)))
    rows = torch.stack([keys // d_vocab**2, keys // d_vocab % d_vocab, keys % d_vocab], dim=1)
    return [
        (s, d, n, total)
        for (s, d, n), total in zip(rows[best].tolist(), sums[best].tolist(), strict=True)
    ]


@shaped(tokens="token: pos", model="model: 1", dst="index: pos", a="index: pos", b="index: pos")
def source_interaction(tokens: Tensor, model: Transformer, dst: int, a: int, b: int) -> Tensor:
    """How far two sources are from adding up, at one destination: (d_vocab,) logits.

    Logits at dst with no source masked − a masked − b masked + both masked, each time with the
    softmax taken anew. a, b < dst, a ≠ b. A sum of skip-trigrams would give 0; the softmax makes
    sources compete, so a model of one layer is such a sum only while its patterns are frozen.
    """
    if max(a, b) >= dst or a == b:
        raise ValueError(
            "source_interaction: a and b must differ and lie before dst; "
            f"a = {a}, b = {b}, dst = {dst} came."
        )
    _, cache = model.run_with_cache(tokens)
    scores = cache.scores[0, :, dst, : dst + 1]  # (head, src)
    masked = torch.zeros(4, 1, dst + 1, dtype=torch.bool, device=scores.device)
    masked[[1, 3], :, a] = True
    masked[[2, 3], :, b] = True
    pattern = scores.masked_fill(masked, -torch.inf).softmax(dim=-1)  # (mask, head, src)
    # The direct path is the same in all four and drops out; the rest is linear in the pattern.
    mixed = pattern[0] - pattern[1] - pattern[2] + pattern[3]
    z = mixed.unsqueeze(-2) @ cache.v[0, :, : dst + 1]  # (head, 1, d_head)
    return (z @ model.W_O[0]).sum(dim=(0, 1)) @ model.W_U


@shaped(d_model="count: 1", d_head="count: 1", samples="count: 1", seed="count: 0")
def random_copying_scores(d_model: int, d_head: int, samples: int, seed: int) -> Tensor:
    """`copying_score` of heads that learned nothing, (samples,): what a real head must stand out from.

    Gaussian W_V and W_O, read without vocabulary. The mean is 0; the spread falls with d_head.
    """
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(samples, d_model, d_head, generator=generator, dtype=torch.float64)
    B = torch.randn(samples, d_head, d_model, generator=generator, dtype=torch.float64)
    return real_over_absolute(LowRank(A, B).eigenvalues())


def _full_ov(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> LowRank:
    return LowRank(W_E @ W_V, W_O @ W_U)


def _best(values: Tensor, n: int) -> Tensor:
    """Indices of the n largest along the last axis, best first; topk would not order ties."""
    return values.argsort(dim=-1, descending=True, stable=True)[..., :n]
