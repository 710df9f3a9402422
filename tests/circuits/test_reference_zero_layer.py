"""Notebook 01's references: counting, tables, losses, and what a bigram model can reach."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, close, draws, few, sizes
from torch import Tensor

from grader.circuits.zero_layer import (
    bigram_counts,
    bigram_entropy,
    bigram_log_probs,
    bigram_table,
    next_token_loss,
    sample_bigram_text,
    svd_bigram_table,
    table_loss,
    train_zero_layer,
    zero_layer_logits,
)
from grader.transformer import Transformer

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=2)
vocabularies = st.integers(1, 6)


@few
@given(draws, shapes, vocabularies)
def test_pairs_are_counted_row_by_row(draw: Draw, shape: list[int], d_vocab: int) -> None:
    tokens = draw.integers(d_vocab, *shape)
    expected = torch.zeros(d_vocab, d_vocab, dtype=torch.int64)
    for row in tokens.reshape(-1, shape[-1]).tolist():
        for current, following in pairwise(row):
            expected[current, following] += 1
    assert torch.equal(bigram_counts(tokens, d_vocab), expected)


def test_a_token_alone_is_no_pair() -> None:
    assert bigram_counts(torch.tensor([2]), 3).sum() == 0
    assert bigram_counts(torch.zeros(0, dtype=torch.int64), 3).sum() == 0
    assert bigram_counts(torch.zeros(4, 1, dtype=torch.int64), 3).sum() == 0


@few
@given(draws, vocabularies, st.floats(1e-3, 10))
def test_smoothed_rows_are_distributions(draw: Draw, d_vocab: int, smoothing: float) -> None:
    counts = draw.integers(4, d_vocab, d_vocab)
    log_probs = bigram_log_probs(counts, smoothing)
    for a in range(d_vocab):
        for b in range(d_vocab):
            total = sum(int(counts[a, c]) + smoothing for c in range(d_vocab))
            assert exp(log_probs[a, b]) == pytest.approx((int(counts[a, b]) + smoothing) / total)
    close(log_probs.exp().sum(dim=-1), torch.ones(d_vocab, dtype=torch.float64))


def test_dtypes_of_counts() -> None:
    counts = torch.tensor([[1, 2], [3, 4]])
    assert bigram_log_probs(counts, 1).dtype == torch.float64
    assert bigram_log_probs(counts.float(), 1).dtype == torch.float32
    assert bigram_entropy(counts.int()).dtype == torch.float64
    assert bigram_entropy(counts.float()).dtype == torch.float32
    close(bigram_entropy(counts.float()), bigram_entropy(counts), within=1e-6)


@few
@given(draws, st.lists(st.integers(1, 3), max_size=2), st.integers(1, 5), sizes, sizes)
def test_the_table_is_the_model(
    draw: Draw, batch: list[int], pos: int, d_vocab: int, d_model: int
) -> None:
    W_E, W_U = draw.normal(d_vocab, d_model), draw.normal(d_model, d_vocab)
    tokens = draw.integers(d_vocab, *batch, pos)
    logits = zero_layer_logits(tokens, W_E, W_U)
    close(logits.log_softmax(dim=-1), bigram_table(W_E, W_U)[tokens])
    empty = torch.zeros(0, 1, d_model, 1, dtype=torch.float64)
    model = Transformer(
        W_E, W_U, torch.zeros(pos, d_model, dtype=torch.float64),
        empty, empty, empty, empty.mT,
    )  # fmt: skip
    close(logits, model(tokens))


@few
@given(draws, st.lists(st.integers(1, 3), max_size=2), st.integers(2, 5), sizes)
def test_the_loss_by_loops(draw: Draw, batch: list[int], pos: int, d_vocab: int) -> None:
    logits, tokens = draw.normal(*batch, pos, d_vocab), draw.integers(d_vocab, *batch, pos)
    losses = []
    for row, ids in zip(
        logits.reshape(-1, pos, d_vocab).tolist(), tokens.reshape(-1, pos).tolist(), strict=True
    ):
        for i in range(pos - 1):
            losses.append(log(sum(exp(x) for x in row[i])) - row[i][ids[i + 1]])
    assert next_token_loss(logits, tokens).item() == pytest.approx(sum(losses) / len(losses))
    shifted = logits + draw.normal(*batch, pos, 1)
    close(next_token_loss(shifted, tokens), next_token_loss(logits, tokens))
    uniform = next_token_loss(torch.zeros_like(logits), tokens)
    assert uniform.item() == pytest.approx(log(d_vocab))


@few
@given(draws, vocabularies)
def test_the_entropy_by_loops(draw: Draw, d_vocab: int) -> None:
    counts = draw.integers(3, d_vocab, d_vocab)
    counts[0, 0] += 1
    total, expected = int(counts.sum()), 0.0
    for row in counts.tolist():
        expected += sum(c / total * log(sum(row) / c) for c in row if c)
    assert bigram_entropy(counts).item() == pytest.approx(expected, abs=1e-12)


@few
@given(draws, st.integers(2, 6))
def test_no_table_beats_the_entropy_and_the_counted_one_reaches_it(
    draw: Draw, d_vocab: int
) -> None:
    counts = draw.integers(5, d_vocab, d_vocab)
    counts[0, 1] += 1
    entropy = bigram_entropy(counts)
    assert 0 <= entropy <= log(d_vocab) + 1e-12
    counted = (counts / counts.sum(dim=-1, keepdim=True)).double().log()
    close(table_loss(counts, counted), entropy, within=1e-6)
    close(table_loss(counts, bigram_log_probs(counts, 1e-9)), entropy, within=1e-6)
    for _ in range(5):
        assert table_loss(counts, draw.normal(d_vocab, d_vocab).log_softmax(dim=-1)) >= entropy


@few
@given(draws, st.integers(2, 30), st.integers(2, 6), sizes)
def test_the_loss_on_a_text_is_the_loss_on_its_counts(
    draw: Draw, pos: int, d_vocab: int, d_model: int
) -> None:
    tokens = draw.integers(d_vocab, 2, pos)
    W_E, W_U = draw.normal(d_vocab, d_model), draw.normal(d_model, d_vocab)
    on_text = next_token_loss(zero_layer_logits(tokens, W_E, W_U), tokens)
    close(on_text, table_loss(bigram_counts(tokens, d_vocab), bigram_table(W_E, W_U)))


def test_a_predictable_text_has_entropy_zero() -> None:
    assert bigram_entropy(bigram_counts(torch.arange(12) % 4, 4)) == 0


@few
@given(draws, st.integers(2, 6), st.integers(1, 6))
def test_the_truncated_svd_is_the_nearest_table_of_its_rank(
    draw: Draw, d_vocab: int, d_model: int
) -> None:
    log_probs = draw.normal(d_vocab, d_vocab).log_softmax(dim=-1)
    table = svd_bigram_table(log_probs, d_model)
    close(table.exp().sum(dim=-1), torch.ones(d_vocab, dtype=torch.float64))
    if d_model >= d_vocab:
        close(table, log_probs)
        return
    # Undo the renormalisation: what is left must have rank d_model and the least possible error.
    U, S, Vh = np.linalg.svd(log_probs.numpy())
    nearest = torch.from_numpy(U[:, :d_model] * S[:d_model] @ Vh[:d_model])
    per_row = nearest - table
    close(per_row, per_row[:, :1].expand_as(per_row), within=1e-8)


def text_of_rank(draw: Draw, d_vocab: int, rank: int, pos: int) -> tuple[Tensor, Tensor]:
    logits = draw.normal(d_vocab, rank) @ draw.normal(rank, d_vocab) * 1.5 / rank**0.5
    table = logits.log_softmax(dim=-1)
    return sample_bigram_text(table, 1, pos, draw.generator)[0], table


def test_training_reaches_what_the_rank_allows() -> None:
    draw = Draw(11)
    tokens, chain = text_of_rank(draw, d_vocab=20, rank=4, pos=3000)
    counts = bigram_counts(tokens, 20)
    small = bigram_table(*train_zero_layer(tokens, 20, 4, 0))
    large = bigram_table(*train_zero_layer(tokens, 20, 24, 0))
    entropy = bigram_entropy(counts)
    assert table_loss(counts, small) <= table_loss(counts, chain) + 0.05
    assert entropy <= table_loss(counts, large) <= entropy + 0.01
    tight = bigram_table(*train_zero_layer(tokens, 20, 1, 0))
    assert table_loss(counts, tight) > table_loss(counts, small) + 0.05
    svd = svd_bigram_table(bigram_log_probs(counts.float(), 1.0), 4)
    assert table_loss(counts, svd) > table_loss(counts, small) + 0.05


def test_training_repeats_by_seed_and_leaves_the_global_generator_alone() -> None:
    tokens = Draw(12).integers(6, 2, 30)
    state = torch.get_rng_state()
    one = train_zero_layer(tokens, 6, 3, seed=1, steps=20)
    two = train_zero_layer(tokens, 6, 3, seed=1, steps=20)
    other = train_zero_layer(tokens, 6, 3, seed=2, steps=20)
    assert torch.equal(torch.get_rng_state(), state)
    assert [w.shape for w in one] == [(6, 3), (3, 6)]
    assert not any(w.requires_grad for w in one)
    for a, b, c in zip(one, two, other, strict=True):
        assert torch.equal(a, b)
        assert not torch.allclose(a, c)
    with torch.no_grad():
        assert torch.equal(train_zero_layer(tokens, 6, 3, seed=1, steps=20)[0], one[0])


def test_sampled_text_follows_the_table() -> None:
    draw = Draw(13)
    table = torch.tensor([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    text = sample_bigram_text(table.log(), 50, 200, draw.generator)
    assert text.shape == (50, 200)
    counts = bigram_counts(text, 3)
    shares = counts / counts.sum(dim=-1, keepdim=True)
    assert (shares - table).abs().max() < 0.05
    assert torch.equal(counts == 0, table == 0)


def test_what_cannot_be_counted_or_learned_is_refused() -> None:
    counts = torch.tensor([[1, 2], [3, -4]])
    for smoothing in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="smoothing must be above 0"):
            bigram_log_probs(counts.abs(), smoothing)
    with pytest.raises(ValueError, match="counts must be 0 or more; -4 came"):
        bigram_log_probs(counts, 1)
    with pytest.raises(ValueError, match="counts must be 0 or more; -4 came"):
        bigram_entropy(counts)
    with pytest.raises(ValueError, match="the counts are all 0"):
        bigram_entropy(torch.zeros(2, 2))
    with pytest.raises(ValueError, match="no two tokens in a row"):
        train_zero_layer([1], 2, 2, 0)
    with pytest.raises(ValueError, match="must be finite; smooth the counts first"):
        svd_bigram_table(torch.tensor([[0.0, -torch.inf]]), 1)
    with pytest.raises(ValueError, match=r"pos be 2 or more; \(1, 3\) and \(1,\) came"):
        next_token_loss(torch.zeros(1, 3), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"must agree .*; \(2, 3\) and \(2, 2\) came"):
        next_token_loss(torch.zeros(2, 3), torch.zeros(2, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"tokens must lie in 0 … 1, .*; 0 … 2 came"):
        bigram_counts(torch.tensor([0, 2]), 2)
