"""Notebook 04's references: composition scores, knock-outs, and every path of two layers."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, cases, close, draws, few, sizes
from torch import Tensor

from grader.circuits import composition
from grader.circuits.attention_heads import (
    change_of_basis,
    ov_circuit,
    qk_circuit,
    random_basis,
)
from grader.circuits.composition import (
    attention_score_paths,
    composition_scores,
    composition_table,
    count_paths,
    k_composition,
    knock_out_composition,
    low_rank_frobenius,
    q_composition,
    random_composition,
    two_layer_paths,
    v_composition,
    virtual_head,
)
from grader.circuits.paths import path_terms
from grader.circuits.residual_stream import random_rotation, rotate_residual_stream
from grader.transformer import Transformer

Case = tuple[Transformer, Tensor]
two_layers = st.just(2)
SCORES = (q_composition, k_composition, v_composition)


def norm(matrix: list[list[float]]) -> float:
    return sqrt(sum(x * x for row in matrix for x in row))


def times(A: list[list[float]], B: list[list[float]]) -> list[list[float]]:
    return [
        [sum(x * y for x, y in zip(row, col, strict=True)) for col in zip(*B, strict=True)]
        for row in A
    ]


@few
@given(draws, sizes)
def test_scores_by_loops(draw: Draw, d: int) -> None:
    W_1, W_2 = draw.normal(d, d), draw.normal(d, d)
    one, two, transposed = W_1.tolist(), W_2.tolist(), W_2.T.tolist()
    for score, read in zip(SCORES, (two, transposed, two), strict=True):
        expected = norm(times(one, read)) / norm(one) / norm(two)
        assert score(W_1, W_2).item() == pytest.approx(expected)


@few
@given(draws, sizes)
def test_scores_ignore_scale_and_the_basis_of_the_stream(draw: Draw, d: int) -> None:
    W_1, W_2, R = draw.normal(d, d), draw.normal(d, d), random_rotation(d, draw.generator)
    for score in SCORES:
        close(score(R.T @ W_1 @ R, -3 * (R.T @ W_2 @ R)), score(W_1, W_2))


def test_a_head_that_writes_nothing_composes_with_nothing() -> None:
    W = Draw(0).normal(3, 3)
    for score in SCORES:
        assert score(0 * W, W) == score(W, 0 * W) == 0
        assert score(torch.nan * W, W).isnan()


@few
@given(draws, st.integers(2, 6))
def test_the_order_of_the_product_matters(draw: Draw, d: int) -> None:
    W_1, W_2 = draw.normal(d, d), draw.normal(d, d)
    assert (v_composition(W_1, W_2) - v_composition(W_2, W_1)).abs() > 1e-9
    assert (q_composition(W_1, W_2) - k_composition(W_1, W_2)).abs() > 1e-9
    # The same norm in the paper's columns, where every matrix but W_QK is transposed.
    close(q_composition(W_1, W_2), (W_2.T @ W_1.T).norm() / W_1.norm() / W_2.norm())


@few
@given(draws, sizes, sizes, sizes)
def test_the_norm_from_factors(draw: Draw, n: int, k: int, m: int) -> None:
    A, B = draw.normal(n, k), draw.normal(k, m)
    assert low_rank_frobenius(A, B).item() == pytest.approx(norm(times(A.tolist(), B.tolist())))


@few
@given(cases(two_layers))
def test_the_table_is_the_scores_of_all_pairs_above_the_baseline(case: Case) -> None:
    model, _ = case
    table = composition_table(model)
    assert table.shape == (3, model.n_heads, model.n_heads)
    qk, ov = qk_circuit(model.W_Q, model.W_K), ov_circuit(model.W_V, model.W_O)
    baseline = 1 / sqrt(model.d_model)
    for later, earlier in product(range(model.n_heads), range(model.n_heads)):
        pair = (ov[0, earlier], qk[1, later])
        expected = [
            q_composition(*pair),
            k_composition(*pair),
            v_composition(ov[0, earlier], ov[1, later]),
        ]
        close(table[:, later, earlier], torch.stack(expected) - baseline)


@few
@given(cases(st.integers(0, 3)))
def test_scores_of_all_layers_hold_every_table(case: Case) -> None:
    model, _ = case
    scores = composition_scores(model)
    layers, heads = model.n_layers, model.n_heads
    assert scores.shape == (3, layers, heads, layers, heads)
    for later, earlier in product(range(layers), range(layers)):
        block = scores[:, later, :, earlier]
        if earlier >= later:
            assert torch.equal(block, torch.zeros_like(block))
            continue
        pair = {n: getattr(model, n)[[earlier, later]] for n in ("W_Q", "W_K", "W_V", "W_O")}
        close(block - 1 / sqrt(model.d_model), composition_table(model.with_weights(**pair)))


@few
@given(cases(two_layers), draws)
def test_the_table_does_not_depend_on_bases(case: Case, draw: Draw) -> None:
    model, _ = case
    table = composition_table(model)
    R = random_rotation(model.d_model, draw.generator)
    close(composition_table(rotate_residual_stream(model, R)), table)
    bases = [random_basis(model.d_head, draw.generator) for _ in range(2)]
    weights = change_of_basis(model.W_Q, model.W_K, model.W_V, model.W_O, *bases)
    names = ("W_Q", "W_K", "W_V", "W_O")
    close(composition_table(model.with_weights(**dict(zip(names, weights, strict=True)))), table)


def test_a_head_without_weights_scores_below_the_baseline_and_not_nan() -> None:
    model = Transformer.random(n_layers=2, n_heads=2, d_model=4, d_head=2, d_vocab=3, n_ctx=2)
    table = composition_table(model.with_weights(W_O=torch.zeros_like(model.W_O)))
    close(table, torch.full_like(table, -0.5))


@pytest.mark.parametrize(("d_model", "d_head"), [(24, 6), (5, 5), (7, 5), (4, 6), (6, 1)])
def test_random_composition_has_the_law_of_heads_drawn_in_full(d_model: int, d_head: int) -> None:
    samples, draw = 4000, Draw(100 * d_model + d_head)
    W_1, W_2 = (
        draw.normal(samples, d_model, d_head) @ draw.normal(samples, d_head, d_model)
        for _ in range(2)
    )
    direct = v_composition(W_1, W_2)
    mean, error = random_composition(d_model, d_head, samples, seed=1)
    direct_error = float(direct.std() / sqrt(samples))
    assert abs(mean - float(direct.mean())) < 5 * sqrt(error**2 + direct_error**2)
    assert error == pytest.approx(direct_error, rel=0.15)
    square = direct.square()
    assert abs(float(square.mean()) - 1 / d_model) < 5 * float(square.std()) / sqrt(samples)
    assert mean < 1 / sqrt(d_model)


@pytest.mark.parametrize(("d_model", "expected"), [(768, 0.0361), (256, 0.0625)])
def test_random_composition_at_real_sizes(d_model: int, expected: float) -> None:
    # facts: 0.0361 with spread 0.0004 at d_head 64, 0.0625 with spread 0.0015 at d_head 32.
    d_head, spread = {768: (64, 0.0004), 256: (32, 0.0015)}[d_model]
    mean, error = random_composition(d_model, d_head, 200, seed=0)
    assert mean == pytest.approx(expected, abs=1.5e-4)
    assert error * sqrt(200) == pytest.approx(spread, rel=0.3)


def test_the_standard_error_is_that_of_a_mean() -> None:
    scores = composition._random_scores(np.random.default_rng(3), 200, 9, 4).numpy()
    expected = (scores.mean(), scores.std(ddof=1) / sqrt(200))
    assert random_composition(9, 4, 200, 3) == pytest.approx(expected, rel=1e-9)


def test_random_composition_repeats_by_seed() -> None:
    assert random_composition(9, 4, 300, 7) == random_composition(9, 4, 300, 7)
    assert random_composition(9, 4, 300, 7) != random_composition(9, 4, 300, 8)


@few
@given(cases(two_layers), st.sampled_from(["Q", "K", "V"]))
def test_a_knock_out_by_loops(case: Case, kind: str) -> None:
    model, tokens = case
    pos, x0 = len(tokens), model.embed(tokens)
    x1 = model.run_with_cache(tokens)[1].stream[1]
    out = x1.clone()
    read = {name: x0 if name == kind else x1 for name in "QKV"}
    where = torch.zeros_like(x0) if model.pos_in_stream else model.W_pos[:pos]
    for head in range(model.n_heads):
        q = (read["Q"] + where) @ model.W_Q[1, head]
        k = (read["K"] + where) @ model.W_K[1, head]
        v = read["V"] @ model.W_V[1, head]
        for i in range(pos):
            weights = torch.stack([(q[i] @ k[j] / sqrt(model.d_head)).exp() for j in range(i + 1)])
            out[i] += weights / weights.sum() @ v[: i + 1] @ model.W_O[1, head]
    close(knock_out_composition(tokens, model, kind), out @ model.W_U)


@few
@given(cases(two_layers), st.sampled_from(["Q", "K", "V"]))
def test_without_layer_0_there_is_nothing_to_knock_out(case: Case, kind: str) -> None:
    model, tokens = case
    W_O = model.W_O.clone()
    W_O[0] = 0
    model = model.with_weights(W_O=W_O)
    close(knock_out_composition(tokens, model, kind), model(tokens))


def test_each_kind_of_composition_is_another_knock_out() -> None:
    draw = Draw(3)
    model = Transformer.random(
        n_layers=2, n_heads=2, d_model=6, d_head=3, d_vocab=7, n_ctx=6,
        generator=draw.generator, dtype=torch.float64,
    )  # fmt: skip
    tokens = draw.integers(7, 6)
    runs = [model(tokens), *(knock_out_composition(tokens, model, kind) for kind in "QKV")]
    for i, j in product(range(4), range(4)):
        assert (i == j) == bool((runs[i] - runs[j]).abs().max() < 1e-3)
    with pytest.raises(ValueError, match='kind must be "Q", "K" or "V"; \'q\' came'):
        knock_out_composition(tokens, model, "q")


@few
@given(cases(two_layers))
def test_two_layer_paths_sum_to_the_logits_and_are_what_they_say(case: Case) -> None:
    model, tokens = case
    direct, heads, virtual = two_layer_paths(tokens, model)
    close(direct + heads.sum(dim=(0, 1)) + virtual.sum(dim=(0, 1)), model(tokens))
    x, pattern = model.embed(tokens), model.run_with_cache(tokens)[1].pattern
    close(direct, x @ model.W_U)
    ov = ov_circuit(model.W_V, model.W_O)
    for layer, head in product(range(2), range(model.n_heads)):
        close(heads[layer, head], pattern[layer, head] @ x @ ov[layer, head] @ model.W_U)
    for later, earlier in product(range(model.n_heads), range(model.n_heads)):
        A, W = virtual_head(pattern[0, earlier], ov[0, earlier], pattern[1, later], ov[1, later])
        close(virtual[later, earlier], A @ x @ W @ model.W_U)


@few
@given(st.integers(0, 4), st.integers(1, 3))
def test_paths_are_counted_as_they_are_listed(n_layers: int, n_heads: int) -> None:
    model = Transformer.random(
        n_layers=n_layers, n_heads=n_heads, d_model=2, d_head=1, d_vocab=2, n_ctx=2
    )
    listed = [len(terms.paths) for terms in path_terms([0, 1], model)]
    assert count_paths(n_layers, n_heads) == listed
    assert sum(listed) == (1 + n_heads) ** n_layers


def test_the_papers_count_of_paths() -> None:
    assert count_paths(2, 12) == [1, 24, 144]
    assert count_paths(1, 12) == [1, 12]


@few
@given(cases(two_layers), st.data())
def test_score_paths_sum_to_the_scores(case: Case, data: st.DataObject) -> None:
    model, tokens = case
    head = data.draw(st.integers(0, model.n_heads - 1))
    _, cache = model.run_with_cache(tokens)
    paths = attention_score_paths(tokens, model, head)
    assert paths.shape == (4, len(tokens), len(tokens))
    close(paths.sum(dim=0), cache.scores[1, head])
    base, composed = model.qk_input(cache.stream[0]), cache.head_out[0].sum(dim=0)
    qk = qk_circuit(model.W_Q[1, head], model.W_K[1, head]) / sqrt(model.d_head)
    sides = [(base, base), (composed, base), (base, composed), (composed, composed)]
    for path, (dst, src) in zip(paths, sides, strict=True):
        close(path, dst @ qk @ src.T)


@few
@given(cases(two_layers), st.data())
def test_each_earlier_heads_share_of_a_score_is_a_virtual_circuit(
    case: Case, data: st.DataObject
) -> None:
    """Q only is Σ_h A_h x W_OV_h W_QK baseᵀ: one term a head, and so for K and both."""
    model, tokens = case
    head = data.draw(st.integers(0, model.n_heads - 1))
    _, cache = model.run_with_cache(tokens)
    x, base, pattern = cache.stream[0], model.qk_input(cache.stream[0]), cache.pattern[0]
    ov = ov_circuit(model.W_V[0], model.W_O[0])
    qk = qk_circuit(model.W_Q[1, head], model.W_K[1, head]) / sqrt(model.d_head)
    heads = range(model.n_heads)
    expected = [
        sum(pattern[h] @ x @ ov[h] @ qk @ base.T for h in heads),
        sum(base @ qk @ ov[h].T @ x.T @ pattern[h].T for h in heads),
        sum(
            pattern[q] @ x @ ov[q] @ qk @ ov[k].T @ x.T @ pattern[k].T
            for q, k in product(heads, heads)
        ),
    ]
    for path, terms in zip(attention_score_paths(tokens, model, head)[1:], expected, strict=True):
        assert isinstance(terms, Tensor)
        close(path, terms)


def test_a_head_that_is_not_there_is_refused() -> None:
    model = Transformer.random(n_layers=2, n_heads=2, d_model=4, d_head=2, d_vocab=3, n_ctx=2)
    with pytest.raises(ValueError, match=r"head must lie in 0 … 1, as head is 2 in model; 2 came"):
        attention_score_paths([0, 1], model, 2)
