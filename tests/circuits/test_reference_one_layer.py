"""Notebook 03's references: frozen patterns, skip-trigrams, copying, and where the story ends."""

from __future__ import annotations

from itertools import pairwise, product
from math import exp, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, Largest, cases, close, draws, few, same_multiset, sizes
from torch import Tensor

from grader.circuits.attention_heads import change_of_basis, random_basis
from grader.circuits.low_rank import LowRank
from grader.circuits.one_layer import (
    bug_partners,
    copying_rank,
    copying_score,
    eigenvalue_trap,
    factored_svd,
    frozen_logits,
    full_ov_circuit,
    full_qk_circuit,
    low_rank_eigenvalues,
    one_layer_paths,
    positional_pattern,
    random_copying_scores,
    skip_trigram_effect,
    source_interaction,
    top_skip_trigrams,
    used_skip_trigrams,
)
from grader.circuits.paths import clean_pattern
from grader.circuits.residual_stream import random_rotation, rotate_residual_stream
from grader.transformer import Transformer

Case = tuple[Transformer, Tensor]
one_layer = st.just(1)
vocabularies = st.integers(2, 7)


@few
@given(cases(one_layer), draws)
def test_frozen_logits_are_direct_path_and_heads(case: Case, draw: Draw) -> None:
    model, tokens = case
    pattern = draw.pattern(model.n_heads, len(tokens), len(tokens))
    x = model.embed(tokens)
    expected = x @ model.W_U
    for head in range(model.n_heads):
        expected = (
            expected + pattern[head] @ x @ model.W_V[0, head] @ model.W_O[0, head] @ model.W_U
        )
    close(frozen_logits(tokens, model, pattern), expected)
    close(frozen_logits(tokens, model, clean_pattern(tokens, model)[0]), model(tokens))


@few
@given(cases(one_layer))
def test_the_paths_are_the_direct_path_and_each_head(case: Case) -> None:
    model, tokens = case
    paths = one_layer_paths(tokens, model)
    close(paths.sum(dim=0), model(tokens))
    close(paths[0], model.embed(tokens) @ model.W_U)
    for head in range(model.n_heads):
        W_O = torch.zeros_like(model.W_O)
        W_O[0, head] = model.W_O[0, head]
        close(paths[1 + head], model.with_weights(W_O=W_O)(tokens) - paths[0])


@few
@given(draws, vocabularies, sizes, sizes)
def test_the_circuits_are_the_head_seen_from_tokens(
    draw: Draw, d_vocab: int, d_model: int, d_head: int
) -> None:
    W_E, W_U = draw.normal(d_vocab, d_model), draw.normal(d_model, d_vocab)
    W_Q, W_K, W_V = (draw.normal(d_model, d_head) for _ in range(3))
    W_O = draw.normal(d_head, d_model)
    qk, ov = full_qk_circuit(W_E, W_Q, W_K), full_ov_circuit(W_E, W_V, W_O, W_U)
    model = Transformer(
        W_E, W_U, torch.zeros(2, d_model, dtype=torch.float64),
        *(W[None, None] for W in (W_Q, W_K, W_V, W_O)),
    )  # fmt: skip
    source, destination = draw.integers(d_vocab, 2).tolist()
    tokens = torch.tensor([source, destination])
    _, cache = model.run_with_cache(tokens)
    close(qk[destination, source] / sqrt(d_head), cache.scores[0, 0, 1, 0])
    # With all attention on the source, a destination's logits change by the source's OV row.
    looking = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    change = frozen_logits(tokens, model, looking)[1] - W_E[destination] @ W_U
    close(change, ov[source])


@few
@given(draws, vocabularies, st.integers(1, 7), st.integers(1, 7))
def test_the_top_skip_trigrams_with_ties_by_id(
    draw: Draw, d_vocab: int, n_sources: int, n_outputs: int
) -> None:
    qk, ov = (
        draw.integers(3, d_vocab, d_vocab).double(),
        draw.integers(3, d_vocab, d_vocab).double(),
    )
    destination = int(draw.integers(d_vocab, 1))
    sources, outputs = top_skip_trigrams(qk, ov, destination, n_sources, n_outputs)

    def best(row: Tensor, n: int) -> list[int]:
        return sorted(range(d_vocab), key=lambda i: (-float(row[i]), i))[:n]

    assert sources.dtype == outputs.dtype == torch.int64
    assert sources.tolist() == best(qk[destination], n_sources)
    assert outputs.tolist() == [best(ov[s], n_outputs) for s in sources.tolist()]


@few
@given(draws, vocabularies, st.integers(1, 9), st.lists(st.integers(0, 1), max_size=3))
def test_a_source_pays_every_destination_the_same_row(
    draw: Draw, d_vocab: int, d_head: int, ids: list[int]
) -> None:
    qk, ov = draw.normal(d_vocab, d_vocab), draw.normal(d_vocab, d_vocab)
    destinations, outputs = ids, [1, 0, 1]
    effect = skip_trigram_effect(qk, ov, 1, destinations, outputs, d_head) if ids else None
    for (i, d), (j, o) in product(enumerate(destinations), enumerate(outputs)):
        weight = exp(float(qk[d, 1]) / sqrt(d_head))
        assert effect is not None
        assert effect[i, j].item() == pytest.approx(weight / (weight + 1) * float(ov[1, o]))
    if effect is not None:
        assert torch.linalg.matrix_rank(effect) <= 1


def test_differences_of_outputs_are_log_odds_but_log_probabilities_are_not_rank_one() -> None:
    draw = Draw(2)
    qk, ov, base = draw.normal(6, 6), 3 * draw.normal(6, 6), draw.normal(6, 6)
    everything = list(range(6))
    effect = skip_trigram_effect(qk, ov, 2, everything, everything, 4)
    before, after = base.log_softmax(dim=-1), (base + effect).log_softmax(dim=-1)
    change = after - before
    close(change[:, 1] - change[:, 0], effect[:, 1] - effect[:, 0])
    assert torch.linalg.matrix_rank(change, rtol=1e-6) > 1


@pytest.mark.parametrize(
    ("pairs", "forced"),
    [
        ([("in", "mind"), ("at", "bay")], {("in", "bay"), ("at", "mind")}),
        ([(1, 2)], set()),
        ([(1, 2), (1, 3)], set()),
        ([(1, 2), (3, 2)], set()),
        ([(1, 2), (1, 3), (4, 2)], {(4, 3)}),
        ([(1, 2), (1, 2), (2, 1)], {(1, 1), (2, 2)}),
        ([], set()),
    ],
)
def test_bug_partners(pairs: list[tuple[object, object]], forced: set[object]) -> None:
    assert bug_partners(pairs) == forced
    assert not bug_partners([*pairs, *forced])


@few
@given(cases(one_layer))
def test_the_positional_pattern_is_the_pattern_of_no_content(case: Case) -> None:
    model, _ = case
    blank = model.with_weights(W_E=torch.zeros_like(model.W_E))
    pattern = clean_pattern(torch.zeros(model.n_ctx, dtype=torch.int64), blank)
    close(positional_pattern(model.W_pos, model.W_Q[0], model.W_K[0]), pattern[0])


@few
@given(draws, sizes, sizes, sizes)
def test_eigenvalues_and_svd_from_factors(draw: Draw, n: int, k: int, m: int) -> None:
    A, B = draw.normal(n, k), draw.normal(k, m)
    U, S, Vh = factored_svd(A, B)
    close(U * S @ Vh, A @ B)
    if k > n:
        with pytest.raises(ValueError, match="k ≤ n"):
            low_rank_eigenvalues(A, draw.normal(k, n))
        return
    B = draw.normal(k, n)
    same_multiset(low_rank_eigenvalues(A, B), torch.linalg.eigvals(B @ A), within=1e-7)


@pytest.mark.parametrize("n", [2, 3, 9])
def test_the_eigenvalue_trap(n: int) -> None:
    trap = eigenvalue_trap(n)
    values = torch.linalg.eigvals(trap)
    close(values.real.sort().values, torch.arange(1, n + 1, dtype=torch.float64))
    assert values.imag.abs().max() == 0
    assert trap.diagonal().min() < 0


def random_head(
    draw: Draw, d_vocab: int, d_model: int, d_head: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        draw.normal(d_vocab, d_model), draw.normal(d_model, d_head),
        draw.normal(d_head, d_model), draw.normal(d_model, d_vocab),
    )  # fmt: skip


@few
@given(draws, vocabularies, sizes, sizes)
def test_the_copying_score_is_that_of_the_dense_circuit(
    draw: Draw, d_vocab: int, d_model: int, d_head: int
) -> None:
    W_E, W_V, W_O, W_U = random_head(draw, d_vocab, d_model, d_head)
    values = torch.linalg.eigvals(W_E @ W_V @ W_O @ W_U)
    expected = (values.sum() / values.abs().sum()).real
    score = copying_score(W_E, W_V, W_O, W_U)
    close(score, expected, within=1e-5)
    close(copying_score(W_E, -W_V, W_O, W_U), -score)
    close(copying_score(W_E, W_V, 3 * W_O, W_U), score)
    # It cannot see whether the circuit is transposed: only row-wise measures can.
    close(copying_score(W_U.T, W_O.T, W_V.T, W_E.T), score)


@few
@given(cases(st.integers(1, 2)), draws)
def test_copying_scores_do_not_depend_on_bases(case: Case, draw: Draw) -> None:
    model, _ = case
    scores = copying_score(model.W_E, model.W_V, model.W_O, model.W_U)
    turned = rotate_residual_stream(model, random_rotation(model.d_model, draw.generator))
    close(copying_score(turned.W_E, turned.W_V, turned.W_O, turned.W_U), scores, within=1e-7)
    R, S = (random_basis(model.d_head, draw.generator) for _ in range(2))
    _, _, W_V, W_O = change_of_basis(model.W_Q, model.W_K, model.W_V, model.W_O, R, S)
    close(copying_score(model.W_E, W_V, W_O, model.W_U), scores, within=1e-7)


@few
@given(draws, vocabularies, sizes, sizes, st.integers(1, 4))
def test_all_heads_at_once_score_as_one_by_one(
    draw: Draw, d_vocab: int, d_model: int, d_head: int, heads: int
) -> None:
    W_E, _, _, W_U = random_head(draw, d_vocab, d_model, d_head)
    W_V, W_O = draw.normal(2, heads, d_model, d_head), draw.normal(2, heads, d_head, d_model)
    scores, ranks = copying_score(W_E, W_V, W_O, W_U), copying_rank(W_E, W_V, W_O, W_U)
    assert scores.shape == ranks.shape == (2, heads)
    for layer, head in product(range(2), range(heads)):
        weights = (W_E, W_V[layer, head], W_O[layer, head], W_U)
        # Fewer tokens than d_head: the two routes see different numbers of zero eigenvalues.
        close(scores[layer, head], copying_score(*weights), within=1e-5)
        close(ranks[layer, head], copying_rank(*weights))


@few
@given(draws, vocabularies, sizes, sizes)
def test_the_copying_rank_by_loops_ties_counting(
    draw: Draw, d_vocab: int, d_model: int, d_head: int
) -> None:
    W_E, W_V, W_O, W_U = (
        draw.integers(3, *shape).double() - 1
        for shape in ((d_vocab, d_model), (d_model, d_head), (d_head, d_model), (d_model, d_vocab))
    )
    circuit = (W_E @ W_V @ W_O @ W_U).tolist()
    wins = sum(row[i] >= max(row) for i, row in enumerate(circuit))
    assert copying_rank(W_E, W_V, W_O, W_U).item() == pytest.approx(wins / d_vocab)


def test_a_head_that_copies_everything_and_one_that_copies_nothing() -> None:
    eye = torch.eye(5, dtype=torch.float64)
    assert copying_score(eye, eye, eye, eye) == copying_rank(eye, eye, eye, eye) == 1
    assert copying_score(eye, eye, -eye, eye) == -1
    assert copying_rank(eye, eye, -eye, eye) == 0
    assert copying_rank(eye, eye, 0 * eye, eye) == 1  # all tied
    assert copying_rank(eye * torch.nan, eye, eye, eye) == 0


def test_the_copying_rank_counts_across_chunks_of_rows() -> None:
    directions = torch.randn(5000, 16, generator=torch.Generator().manual_seed(1))
    W_E = directions / directions.norm(dim=-1, keepdim=True)  # each is nearest to itself
    eye = torch.eye(16)
    assert len(list(LowRank(W_E, W_E.T).row_chunks())) > 1
    assert copying_rank(W_E, eye, eye, W_E.T) == 1


def test_positive_eigenvalues_do_not_prove_copying() -> None:
    eye = torch.eye(2, dtype=torch.float64)
    assert copying_score(eye, eigenvalue_trap(2), eye, eye) == pytest.approx(1)
    assert copying_rank(eye, eigenvalue_trap(2), eye, eye) == 0.5


@pytest.mark.parametrize("heads", [(), (3, 4)])
def test_copying_never_holds_the_dense_circuit(heads: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    d_vocab, d_model, d_head = 5000, 16, 4
    W_E, W_U = (torch.randn(d_vocab, d_model, generator=generator) for _ in range(2))
    W_V = torch.randn(*heads, d_model, d_head, generator=generator)
    W_O = torch.randn(*heads, d_head, d_model, generator=generator)
    with Largest() as seen:
        copying_score(W_E, W_V, W_O, W_U.T)
    assert seen.numbers <= d_vocab * max(d_head, d_model)
    if not heads:
        with Largest() as seen:
            copying_rank(W_E, W_V, W_O, W_U.T)
        assert seen.numbers * 4 <= 64 * 2**20 < d_vocab**2 * 4


@few
@given(draws, st.integers(2, 9), vocabularies, st.integers(1, 30))
def test_used_skip_trigrams_by_loops(draw: Draw, pos: int, d_vocab: int, k: int) -> None:
    tokens, pattern = draw.integers(d_vocab, pos), draw.pattern(pos, pos)
    ov = draw.normal(d_vocab, d_vocab)
    sums: dict[tuple[int, int, int], float] = {}
    ids = tokens.tolist()
    for dst in range(pos - 1):
        for src in range(dst):
            key = (ids[src], ids[dst], ids[dst + 1])
            amount = float(pattern[dst, src] * ov[ids[src], ids[dst + 1]])
            sums[key] = sums.get(key, 0.0) + amount
    expected = sorted(sums.items(), key=lambda item: -item[1])[:k]
    found = used_skip_trigrams(tokens, pattern, ov, k)
    assert [entry[:3] for entry in found] == [key for key, _ in expected]
    assert [entry[3] for entry in found] == pytest.approx([total for _, total in expected])


def test_used_skip_trigrams_of_equal_use_come_by_id() -> None:
    tokens = torch.tensor([2, 0, 1, 1])
    pattern = torch.full((4, 4), 0.25)
    found = used_skip_trigrams(tokens, pattern, torch.ones(3, 3), 9)
    assert found == [(0, 1, 1, 0.25), (2, 0, 1, 0.25), (2, 1, 1, 0.25)]


def test_used_skip_trigrams_of_a_large_vocabulary_do_not_mix_up() -> None:
    d_vocab = 50_257
    tokens = torch.tensor([50_256, 0, 50_255, 50_256, 1])
    ov = torch.zeros(1, 1).expand(d_vocab, d_vocab)
    found = {entry[:3] for entry in used_skip_trigrams(tokens, torch.ones(5, 5), ov, 9)}
    ids = tokens.tolist()
    assert found == {
        (ids[src], now, after)
        for dst, (now, after) in enumerate(pairwise(ids))
        for src in range(dst)
    }


@few
@given(cases(one_layer), st.data())
def test_source_interaction_by_running_with_sources_masked(case: Case, data: st.DataObject) -> None:
    model, tokens = case
    if len(tokens) < 3:
        tokens = tokens.repeat(2)[:4]
    dst = data.draw(st.integers(2, len(tokens) - 1))
    a, b = data.draw(st.permutations(range(dst)))[:2]

    def logits_without(*masked: int) -> Tensor:
        scores = model.run_with_cache(tokens)[1].scores[0].clone()
        weights = scores.exp().tril()
        weights[:, :, list(masked)] = 0
        weights[:, list(masked), list(masked)] = 1  # other rows must not be empty
        pattern = weights / weights.sum(dim=-1, keepdim=True)
        return frozen_logits(tokens, model, pattern)[dst]

    expected = logits_without() - logits_without(a) - logits_without(b) + logits_without(a, b)
    close(source_interaction(tokens, model, dst, a, b), expected)
    close(source_interaction(tokens, model, dst, b, a), expected)


def test_one_layer_is_no_sum_of_skip_trigrams() -> None:
    draw = Draw(4)
    model = Transformer.random(
        n_layers=1, n_heads=2, d_model=6, d_head=3, d_vocab=7, n_ctx=6,
        generator=draw.generator, dtype=torch.float64,
    )  # fmt: skip
    tokens = draw.integers(7, 6)
    assert source_interaction(tokens, model, 5, 1, 3).abs().max() > 0.01


def test_source_interaction_names_positions_that_cannot_be() -> None:
    model = Transformer.random(n_layers=1, n_heads=1, d_model=3, d_head=2, d_vocab=4, n_ctx=6)
    with pytest.raises(ValueError, match="dst must lie in 0 … 3, as pos is 4 in tokens; 4 came"):
        source_interaction([0, 1, 2, 3], model, 4, 0, 1)
    for dst, a, b in ((2, 1, 1), (2, 2, 0), (2, 0, 3)):
        with pytest.raises(ValueError, match=rf"a = {a}, b = {b}, dst = {dst} came"):
            source_interaction([0, 1, 2, 3], model, dst, a, b)


def test_heads_that_learned_nothing_score_about_zero() -> None:
    scores = random_copying_scores(48, 16, 400, seed=0)
    assert scores.shape == (400,)
    assert scores.mean().abs() < 5 * scores.std() / 20
    assert scores.std() > random_copying_scores(96, 32, 100, seed=0).std()
    assert torch.equal(scores, random_copying_scores(48, 16, 400, seed=0))
    dense = LowRank(Draw(0).normal(48, 16), Draw(1).normal(16, 48)).dense()
    assert (
        copying_score(
            torch.eye(48).double(), dense, torch.eye(48).double(), torch.eye(48).double()
        ).abs()
        < 1
    )


def test_copying_scores_have_gradients() -> None:
    draw = Draw(5)
    W_E, W_V, W_O, W_U = random_head(draw, 6, 5, 2)
    assert torch.autograd.gradcheck(
        lambda V: copying_score(W_E, V, W_O, W_U), (W_V.requires_grad_(),)
    )


@pytest.mark.long
def test_the_whole_vocabulary_of_gpt2_in_bounded_memory() -> None:
    generator = torch.Generator().manual_seed(0)
    d_vocab, d_model, d_head = 50_257, 768, 64
    W_E = torch.randn(d_vocab, d_model, generator=generator)
    W_U = torch.randn(d_model, d_vocab, generator=generator)
    W_V, W_O = (torch.randn(d_model, d_head, generator=generator) for _ in range(2))
    with Largest() as seen:
        score = copying_score(W_E, W_V, W_O.T, W_U)
        rank = copying_rank(W_E, W_V, W_O.T, W_U)
    assert seen.numbers * 4 <= 64 * 2**20
    assert score.abs() < 0.2
    assert 0 <= rank < 0.001
