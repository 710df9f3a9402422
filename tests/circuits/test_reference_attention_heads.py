"""Notebook 02's references: scores, patterns, and the two circuits of a head."""

from __future__ import annotations

from math import exp, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, cases, close, draws, few, sizes
from torch import Tensor

from grader.circuits.attention_heads import (
    attention_layer,
    attention_scores,
    causal_pattern,
    change_of_basis,
    concat_equals_sum,
    head_output,
    mixed_product,
    ov_circuit,
    qk_circuit,
    random_bases,
    random_basis,
    tensor_product,
)
from grader.transformer import Transformer


@few
@given(draws, sizes, sizes, sizes, sizes)
def test_scores_by_loops(draw: Draw, dst: int, src: int, d_model: int, d_head: int) -> None:
    x_dst, x_src = draw.normal(dst, d_model), draw.normal(src, d_model)
    W_Q, W_K = draw.normal(d_model, d_head), draw.normal(d_model, d_head)
    expected = torch.zeros(dst, src, dtype=torch.float64)
    for i in range(dst):
        for j in range(src):
            query = [sum(x_dst[i, d] * W_Q[d, e] for d in range(d_model)) for e in range(d_head)]
            key = [sum(x_src[j, d] * W_K[d, e] for d in range(d_model)) for e in range(d_head)]
            expected[i, j] = sum(q * k for q, k in zip(query, key, strict=True)) / sqrt(d_head)
    scores = attention_scores(x_dst, x_src, W_Q, W_K)
    close(scores, expected)
    close(scores, x_dst @ qk_circuit(W_Q, W_K) @ x_src.T / sqrt(d_head))


@few
@given(draws, st.lists(st.integers(1, 3), max_size=2), sizes)
def test_patterns_by_loops(draw: Draw, batch: list[int], pos: int) -> None:
    scores = 3 * draw.normal(*batch, pos, pos)
    pattern = causal_pattern(scores)
    for given_rows, rows in zip(
        scores.reshape(-1, pos, pos).tolist(), pattern.reshape(-1, pos, pos).tolist(), strict=True
    ):
        for i in range(pos):
            total = sum(exp(given_rows[i][j]) for j in range(i + 1))
            for j in range(pos):
                expected = exp(given_rows[i][j]) / total if j <= i else 0
                assert rows[i][j] == pytest.approx(expected)
    close(causal_pattern(scores + draw.normal(*batch, pos, 1)), pattern)


def test_patterns_survive_scores_of_any_size() -> None:
    pattern = causal_pattern(torch.tensor([[1e30, 0.0], [-1e30, 1e30]]))
    assert pattern.tolist() == [[1, 0], [0, 1]]


@few
@given(draws, sizes, sizes, sizes, sizes)
def test_a_head_moves_first_or_transforms_first(
    draw: Draw, dst: int, src: int, d_model: int, d_head: int
) -> None:
    x, pattern = draw.normal(src, d_model), draw.normal(dst, src)
    W_V, W_O = draw.normal(d_model, d_head), draw.normal(d_head, d_model)
    out = head_output(x, pattern, W_V, W_O)
    close(out, (pattern @ x) @ ov_circuit(W_V, W_O))
    close(out, pattern @ (x @ ov_circuit(W_V, W_O)))
    row = sum(
        (pattern[dst - 1, j] * x[j] @ W_V @ W_O for j in range(src)),
        start=torch.zeros(d_model, dtype=torch.float64),
    )
    close(out[dst - 1], row)


@few
@given(cases(st.integers(1, 2)))
def test_a_layer_is_the_transformers_own(case: tuple[Transformer, Tensor]) -> None:
    model, tokens = case
    model = model.with_weights(W_pos=torch.zeros_like(model.W_pos))
    _, cache = model.run_with_cache(tokens)
    weights = (model.W_Q[0], model.W_K[0], model.W_V[0], model.W_O[0])
    out = attention_layer(cache.stream[0], *weights)
    close(out, cache.head_out[0])
    for head in range(model.n_heads):
        pattern = causal_pattern(
            attention_scores(
                cache.stream[0], cache.stream[0], model.W_Q[0, head], model.W_K[0, head]
            )
        )
        close(
            out[head], head_output(cache.stream[0], pattern, model.W_V[0, head], model.W_O[0, head])
        )


@few
@given(draws, st.integers(1, 4), sizes, sizes, sizes)
def test_heads_concatenated_are_heads_summed(
    draw: Draw, heads: int, pos: int, d_head: int, d_model: int
) -> None:
    z, W_O = draw.normal(heads, pos, d_head), draw.normal(heads, d_head, d_model)
    joined, summed = concat_equals_sum(z, W_O)
    expected = torch.stack([
        sum((z[h, i] @ W_O[h] for h in range(heads)), start=torch.zeros(d_model).double())
        for i in range(pos)
    ])  # fmt: skip
    close(joined, expected)
    close(summed, expected)


@few
@given(draws, sizes, sizes, sizes, sizes)
def test_the_tensor_product_acts_on_the_flattened_input(
    draw: Draw, dst: int, src: int, d_in: int, d_out: int
) -> None:
    pattern, W, x = draw.normal(dst, src), draw.normal(d_in, d_out), draw.normal(src, d_in)
    M = tensor_product(pattern, W)
    close(M @ x.reshape(-1), (pattern @ x @ W).reshape(-1))
    array = pattern[:, None, :, None] * W.T[None, :, None, :]  # dst, out, src, in
    close(M.reshape(dst, d_out, src, d_in), array)


def test_other_layouts_of_the_tensor_product_are_other_matrices() -> None:
    draw = Draw(0)
    pattern, W, x = draw.normal(3, 3), draw.normal(3, 3), draw.normal(3, 3)
    expected = (pattern @ x @ W).reshape(-1)
    for wrong in (torch.kron(pattern, W), torch.kron(W.T.contiguous(), pattern)):
        assert (wrong @ x.reshape(-1) - expected).abs().max() > 0.1
    # Flattened along columns instead, the factors change places.
    column_major = torch.kron(W.T.contiguous(), pattern) @ x.T.reshape(-1)
    close(column_major, (pattern @ x @ W).T.reshape(-1))


@few
@given(draws, sizes, sizes)
def test_the_mixed_product(draw: Draw, pos: int, d: int) -> None:
    A1, A2, W1, W2 = (
        draw.normal(pos, pos),
        draw.normal(pos, pos),
        draw.normal(d, d),
        draw.normal(d, d),
    )
    pattern, W = mixed_product(A1, W1, A2, W2)
    x = draw.normal(pos, d)
    close(pattern @ x @ W, A2 @ (A1 @ x @ W1) @ W2)
    close(tensor_product(pattern, W), tensor_product(A2, W2) @ tensor_product(A1, W1))
    # In the paper's column vectors W is transposed, and both factors compose in the same order.
    paper = torch.kron(A2, W2.T.contiguous()) @ torch.kron(A1, W1.T.contiguous())
    close(paper, torch.kron(A2 @ A1, (W2.T @ W1.T).contiguous()))
    close(tensor_product(pattern, W), paper)


@few
@given(draws, sizes, sizes)
def test_moving_and_transforming_commute(draw: Draw, pos: int, d: int) -> None:
    A, W = draw.pattern(pos, pos), draw.normal(d, d)
    move = tensor_product(A, torch.eye(d, dtype=torch.float64))
    transform = tensor_product(torch.eye(pos, dtype=torch.float64), W)
    close(move @ transform, transform @ move)
    close(move @ transform, tensor_product(A, W))


@few
@given(draws, sizes, sizes, sizes)
def test_queries_keys_and_values_are_a_choice_of_basis(
    draw: Draw, pos: int, d_model: int, d_head: int
) -> None:
    W_Q, W_K, W_V = (draw.normal(d_model, d_head) for _ in range(3))
    W_O = draw.normal(d_head, d_model)
    R, S = random_basis(d_head, draw.generator), random_basis(d_head, draw.generator)
    new_Q, new_K, new_V, new_O = change_of_basis(W_Q, W_K, W_V, W_O, R, S)
    close(new_Q, W_Q @ R)
    close(new_V, W_V @ S)
    close(qk_circuit(new_Q, new_K), qk_circuit(W_Q, W_K))
    close(ov_circuit(new_V, new_O), ov_circuit(W_V, W_O))
    x = draw.normal(pos, d_model)
    one = attention_layer(x, *(W[None] for W in (W_Q, W_K, W_V, W_O)))
    close(attention_layer(x, *(W[None] for W in (new_Q, new_K, new_V, new_O))), one)


def test_a_basis_change_that_is_no_rotation_needs_the_inverse() -> None:
    draw = Draw(1)
    W_Q, W_K = draw.normal(5, 3), draw.normal(5, 3)
    R = random_basis(3, draw.generator)
    assert (qk_circuit(W_Q @ R, W_K @ R) - qk_circuit(W_Q, W_K)).abs().max() > 0.1


@few
@given(draws, sizes)
def test_random_bases_are_safe_to_invert_and_not_orthogonal(draw: Draw, d: int) -> None:
    S = torch.linalg.svdvals(random_basis(d, draw.generator))
    assert 0.5 - 1e-9 <= S.min() <= S.max() <= 2 + 1e-9
    assert (S - 1).abs().max() > 1e-9


def test_bases_drawn_together_are_those_drawn_one_by_one() -> None:
    one_by_one, together = Draw(4).generator, Draw(4).generator
    bases = [random_basis(5, one_by_one) for _ in range(3)]
    close(random_bases(3, 5, together), torch.stack(bases))
    assert torch.equal(one_by_one.get_state(), together.get_state())


def test_a_singular_basis_is_refused_by_name() -> None:
    draw = Draw(2)
    weights = [draw.normal(4, 2), draw.normal(4, 2), draw.normal(4, 2), draw.normal(2, 4)]
    good, singular = torch.eye(2, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64)
    for name, pair in (("R", (singular, good)), ("S", (good, singular))):
        with pytest.raises(ValueError, match=f"{name} must be invertible"):
            change_of_basis(*weights, *pair)


def test_one_call_serves_all_heads() -> None:
    draw = Draw(3)
    x, W_Q, W_K = draw.normal(4, 5), draw.normal(2, 3, 5, 2), draw.normal(2, 3, 5, 2)
    scores = attention_scores(x, x, W_Q, W_K)
    assert scores.shape == (2, 3, 4, 4)
    close(scores[1, 2], attention_scores(x, x, W_Q[1, 2], W_K[1, 2]))
    close(qk_circuit(W_Q, W_K)[0, 1], qk_circuit(W_Q[0, 1], W_K[0, 1]))
