"""Paths sum to the forward pass, at any depth, and each one is the product it claims to be."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, cases, close, draws, few, sizes
from torch import Tensor

from grader.circuits import paths
from grader.circuits.composition import count_paths
from grader.circuits.paths import (
    Path,
    clean_pattern,
    frozen_pass,
    head_writes,
    logits_by_order,
    path_terms,
    stream_by_order,
)
from grader.transformer import Transformer

Case = tuple[Transformer, Tensor]


@few
@given(cases(batched=True))
def test_all_paths_sum_to_the_forward_pass(case: Case) -> None:
    model, tokens = case
    terms = path_terms(tokens, model)
    close(sum(t.values.sum(dim=0) for t in terms) @ model.W_U, model(tokens))
    assert [len(t.paths) for t in terms] == count_paths(model.n_layers, model.n_heads)
    assert [len(t.values) for t in terms] == count_paths(model.n_layers, model.n_heads)


@few
@given(cases(batched=True), draws)
def test_all_paths_sum_to_the_frozen_pass_under_any_pattern(case: Case, draw: Draw) -> None:
    model, tokens = case
    foreign = draw.pattern(*clean_pattern(tokens, model).shape)
    terms = path_terms(tokens, model, foreign)
    close(sum(t.values.sum(dim=0) for t in terms) @ model.W_U, frozen_pass(tokens, model, foreign))


@few
@given(cases())
def test_each_path_is_its_own_product(case: Case) -> None:
    model, tokens = case
    pattern = clean_pattern(tokens, model)

    def by_hand(path: Path) -> Tensor:
        x = model.embed(tokens)
        for layer, head in path:
            x = pattern[layer, head] @ x @ (model.W_V[layer, head] @ model.W_O[layer, head])
        return x

    for order, terms in enumerate(path_terms(tokens, model)):
        assert len(set(terms.paths)) == len(terms.paths)
        for path, value in zip(terms.paths, terms.values, strict=True):
            assert len(path) == order
            assert list(path) == sorted(path)
            assert len({layer for layer, _ in path}) == order
            close(value, by_hand(path))


@few
@given(cases(batched=True))
def test_sums_by_order_need_no_list_of_paths(case: Case) -> None:
    model, tokens = case
    listed = torch.stack([t.values.sum(dim=0) for t in path_terms(tokens, model)])
    close(stream_by_order(tokens, model), listed)
    close(logits_by_order(tokens, model), listed @ model.W_U)


@few
@given(cases())
def test_orders_are_what_saving_and_reusing_head_outputs_gives(case: Case) -> None:
    """The paper's procedure: force the patterns, add the head outputs saved in the run before."""
    model, tokens = case
    pattern = clean_pattern(tokens, model)
    saved = torch.zeros(model.n_layers, *model.embed(tokens).shape, dtype=torch.float64)
    for order in range(model.n_layers + 1):
        x, outputs = model.embed(tokens), []
        for layer in range(model.n_layers):
            written = head_writes(x, pattern[layer], model.W_V[layer], model.W_O[layer])
            outputs.append(written.sum(dim=0))
            x = x + saved[layer]
        close(x @ model.W_U, logits_by_order(tokens, model)[: order + 1].sum(dim=0))
        saved = torch.stack(outputs) if outputs else saved


@few
@given(cases(batched=True))
def test_the_frozen_pass_with_clean_patterns_is_the_forward_pass(case: Case) -> None:
    model, tokens = case
    close(frozen_pass(tokens, model), model(tokens))
    close(frozen_pass(tokens, model, model.run_with_cache(tokens)[1].pattern), model(tokens))


@few
@given(cases(st.integers(1, 3)), draws)
def test_frozen_the_logits_are_linear_in_the_embedding(case: Case, draw: Draw) -> None:
    model, tokens = case
    model = model.with_weights(W_pos=torch.zeros_like(model.W_pos))
    pattern, other = clean_pattern(tokens, model), draw.normal(*model.W_E.shape)
    alone = frozen_pass(tokens, model.with_weights(W_E=other), pattern)
    both = frozen_pass(tokens, model.with_weights(W_E=model.W_E + 2 * other), pattern)
    close(both, frozen_pass(tokens, model, pattern) + 2 * alone)


def test_unfrozen_the_logits_are_not_linear_in_the_embedding() -> None:
    draw = Draw(0)
    model = Transformer.random(
        n_layers=1, n_heads=2, d_model=5, d_head=3, d_vocab=7, n_ctx=6,
        generator=draw.generator, dtype=torch.float64,
    )  # fmt: skip
    tokens, other = draw.integers(7, 6), draw.normal(7, 5)
    both = model.with_weights(W_E=model.W_E + other)(tokens)
    assert (both - model(tokens) - model.with_weights(W_E=other)(tokens)).abs().max() > 0.1


@few
@given(cases(st.integers(1, 3), batched=True), draws)
def test_a_head_switched_off_is_on_no_path(case: Case, draw: Draw) -> None:
    model, tokens = case
    keep = draw.integers(2, model.n_layers, model.n_heads).double()
    off = {(layer, head) for layer, head in keep.eq(0).nonzero().tolist()}
    left = torch.stack([
        sum(
            (v for p, v in zip(t.paths, t.values, strict=True) if not off & set(p)),
            start=torch.zeros_like(t.values[0]),
        )
        for t in path_terms(tokens, model)
    ])  # fmt: skip
    close(stream_by_order(tokens, model, keep=keep), left)
    close(frozen_pass(tokens, model, keep=keep), left.sum(dim=0) @ model.W_U)
    close(logits_by_order(tokens, model, None, keep), left @ model.W_U)


@few
@given(cases(st.integers(1, 3), batched=True), st.integers(0, 4))
def test_a_limit_on_the_order_leaves_the_lower_orders_alone(case: Case, top: int) -> None:
    model, tokens = case
    limited, full = path_terms(tokens, model, max_order=top), path_terms(tokens, model)
    assert len(limited) == min(top, model.n_layers) + 1
    for few_terms, all_terms in zip(limited, full, strict=False):
        assert few_terms.paths == all_terms.paths
        close(few_terms.values, all_terms.values)


@few
@given(draws, sizes, sizes, sizes, st.integers(1, 3), st.integers(1, 3))
def test_what_heads_write_by_loops(
    draw: Draw, pos: int, d_model: int, d_head: int, heads: int, batch: int
) -> None:
    x, pattern = draw.normal(batch, pos, d_model), draw.pattern(batch, heads, pos, pos)
    W_V, W_O = draw.normal(heads, d_model, d_head), draw.normal(heads, d_head, d_model)
    expected = torch.zeros(batch, heads, pos, d_model, dtype=torch.float64)
    for b, h, i in product(range(batch), range(heads), range(pos)):
        for j in range(pos):
            expected[b, h, i] += pattern[b, h, i, j] * (x[b, j] @ W_V[h] @ W_O[h])
    close(head_writes(x, pattern, W_V, W_O), expected)


def test_the_direct_path_alone_remains_of_a_model_without_layers() -> None:
    model = Transformer.random(n_layers=0, n_heads=2, d_model=5, d_head=3, d_vocab=7, n_ctx=4)
    tokens = torch.tensor([1, 2])
    (direct,) = path_terms(tokens, model)
    assert direct.paths == [()]
    close(direct.values[0] @ model.W_U, model(tokens), within=1e-6)
    assert direct.values.dtype == torch.float32


def test_paths_come_in_the_documented_order() -> None:
    model = Transformer.random(n_layers=3, n_heads=2, d_model=5, d_head=3, d_vocab=7, n_ctx=4)
    _, one, two, _ = path_terms(torch.tensor([1, 2]), model)
    assert one.paths == [((layer, head),) for layer in range(3) for head in range(2)]
    assert two.paths[:3] == [((0, 0), (1, 0)), ((0, 0), (1, 1)), ((0, 1), (1, 0))]
    assert two.paths[4:7] == [((0, 0), (2, 0)), ((0, 0), (2, 1)), ((0, 1), (2, 0))]


def test_the_order_sums_have_gradients() -> None:
    draw = Draw(3)
    model = Transformer.random(
        n_layers=2, n_heads=2, d_model=3, d_head=2, d_vocab=4, n_ctx=3,
        generator=draw.generator, dtype=torch.float64,
    )  # fmt: skip
    tokens = torch.tensor([1, 3, 0])

    def orders(W_O: Tensor) -> Tensor:
        return logits_by_order(tokens, model.with_weights(W_O=W_O))

    assert torch.autograd.gradcheck(orders, (model.W_O.clone().requires_grad_(),))


def test_a_pattern_of_the_wrong_run_is_refused() -> None:
    model = Transformer.random(n_layers=2, n_heads=2, d_model=5, d_head=3, d_vocab=7, n_ctx=4)
    tokens = torch.tensor([1, 2])
    pattern = clean_pattern(tokens, model)
    for function in (frozen_pass, stream_by_order, logits_by_order, path_terms):
        with pytest.raises(ValueError, match=r"= \(2, 2, 2, 2\) for these tokens .* \(2, 2, 2\)"):
            function(tokens, model, pattern[0])


def test_a_list_of_paths_too_long_to_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer.random(n_layers=3, n_heads=2, d_model=5, d_head=3, d_vocab=7, n_ctx=4)
    tokens = torch.tensor([1, 2])
    monkeypatch.setattr(paths, "MAX_NUMBERS", 27 * 2 * 5 - 1)
    with pytest.raises(ValueError, match=r"27 paths would take 270 numbers; 269 is the most"):
        path_terms(tokens, model)
    assert len(path_terms(tokens, model, max_order=2)) == 3
