"""Notebook 06: importance of paths, against the paper's own procedure and against loops."""

from __future__ import annotations

import numpy as np
import pytest
import slow_model
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import Draw, cases, close, draws, few, sizes
from torch import Tensor

from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import copying, dead, positional, previous_token
from grader.circuits.compiled_parts import Copy, Remember
from grader.circuits.path_importance import (
    direct_logit_attribution,
    marginal_effect,
    term_importance,
    value_weighted_pattern,
    virtual_head_importance,
)
from grader.circuits.zero_layer import next_token_loss
from grader.transformer import Transformer

slower = settings(deadline=None, max_examples=10)


def logits_with(
    model: Transformer, tokens: Tensor, heads: set[tuple[int, int]], virtual: set[tuple[int, int]]
) -> slow_model.Array:
    """Direct path, the order-1 terms of ``heads``, virtual terms (head of layer 1, of layer 0)."""
    _, patterns, _ = slow_model.run(model, tokens)
    w = {name: weight.double().numpy() for name, weight in model.weights().items()}
    x = w["W_E"][tokens.numpy()]
    if model.pos_in_stream:
        x = x + w["W_pos"][: len(tokens)]
    total = x.copy()
    for layer, head in heads:
        total += patterns[layer, head] @ x @ w["W_V"][layer, head] @ w["W_O"][layer, head]
    for late, early in virtual:
        first = patterns[0, early] @ x @ w["W_V"][0, early] @ w["W_O"][0, early]
        total += patterns[1, late] @ first @ w["W_V"][1, late] @ w["W_O"][1, late]
    return total @ w["W_U"]


def all_pairs(n: int) -> set[tuple[int, int]]:
    return {(i, j) for i in range(n) for j in range(n)}


def all_heads(model: Transformer) -> set[tuple[int, int]]:
    return {(layer, head) for layer in range(2) for head in range(model.n_heads)}


@slower
@given(cases(st.just(2)))
def test_term_importance_adds_orders_of_paths(case: tuple[Transformer, Tensor]) -> None:
    model, tokens = case
    heads, pairs = all_heads(model), all_pairs(model.n_heads)
    expected = [
        slow_model.mean_loss(logits_with(model, tokens, h, v), tokens)
        for h, v in [(set(), set()), (heads, set()), (heads, pairs)]
    ]
    result = term_importance(tokens, model)
    close(result, torch.tensor(expected, dtype=torch.float64))
    close(result[2], next_token_loss(model(tokens), tokens))


@slower
@given(cases(st.just(2)))
def test_term_importance_is_the_papers_procedure(case: tuple[Transformer, Tensor]) -> None:
    """Run again and again, patterns forced, with the head outputs saved in the run before."""
    model, tokens = case
    _, patterns, _ = slow_model.run(model, tokens)
    saved = np.zeros((2, model.n_heads, len(tokens), model.d_model))
    losses = []
    for _ in range(3):
        computed = np.zeros_like(saved)

        def swap(
            layer: int,
            head: int,
            output: slow_model.Array,
            computed: slow_model.Array = computed,
            instead: slow_model.Array = saved,
        ) -> slow_model.Array:
            computed[layer, head] = output
            return instead[layer, head]

        logits, _, _ = slow_model.run(model, tokens, swap, patterns)
        losses.append(slow_model.mean_loss(logits, tokens))
        saved = computed
    close(term_importance(tokens, model), torch.tensor(losses, dtype=torch.float64))


def test_frozen_patterns_matter_at_order_one_only() -> None:
    """Switching V-composition off and running anew is another order 1, and no other order 2."""
    model = Transformer.random(
        n_layers=2, n_heads=2, d_model=8, d_head=4, d_vocab=9, n_ctx=12,
        generator=torch.Generator().manual_seed(4), dtype=torch.float64,
    )  # fmt: skip
    tokens = Draw(4).integers(9, 12)
    x = model.embed(tokens)
    alone = [
        model.with_weights(**{n: getattr(model, n)[[i]] for n in ("W_Q", "W_K", "W_V", "W_O")})
        for i in (0, 1)
    ]
    recomputed = sum(m(tokens) - x @ m.W_U for m in alone) + x @ model.W_U
    _, order_1, order_2 = term_importance(tokens, model)
    assert (next_token_loss(recomputed, tokens) - order_1).abs() > 1e-3
    close(order_2, next_token_loss(model(tokens), tokens))


@slower
@given(cases(st.just(2)), st.integers(0, 1))
def test_marginal_effect_from_both_starting_points(
    case: tuple[Transformer, Tensor], layer: int
) -> None:
    model, tokens = case
    this = {a for a in all_heads(model) if a[0] == layer}
    other = all_heads(model) - this

    def loss(heads: set[tuple[int, int]]) -> float:
        return slow_model.mean_loss(logits_with(model, tokens, heads, set()), tokens)

    alone, beside = marginal_effect(tokens, model, layer)
    assert float(alone) == pytest.approx(loss(set()) - loss(this), abs=1e-9)
    assert float(beside) == pytest.approx(loss(other) - loss(this | other), abs=1e-9)


@slower
@given(cases(st.just(2)))
def test_virtual_head_importance_is_the_rise_without_that_term(
    case: tuple[Transformer, Tensor],
) -> None:
    model, tokens = case
    heads, pairs = all_heads(model), all_pairs(model.n_heads)
    full = slow_model.mean_loss(logits_with(model, tokens, heads, pairs), tokens)
    expected = torch.zeros(model.n_heads, model.n_heads, dtype=torch.float64)
    for late, early in pairs:
        rest = logits_with(model, tokens, heads, pairs - {(late, early)})
        expected[late, early] = slow_model.mean_loss(rest, tokens) - full
    close(virtual_head_importance(tokens, model), expected)


def test_the_one_virtual_head_that_predicts_is_found() -> None:
    """Head 1 of layer 1 says what head 2 of layer 0 remembers: three back, for text of period 4."""
    layers = [
        [dead(), copying(), previous_token()],
        [positional(3), positional(2, Copy(value=(0, 2))), previous_token(Remember())],
    ]
    model = compile_model(layers, d_vocab=15, n_ctx=32, seed=0).model
    tokens = torch.randperm(15, generator=torch.Generator().manual_seed(0))[:4].repeat(8)
    importance = virtual_head_importance(tokens, model)
    assert importance.argmax() == 1 * 3 + 2
    assert importance[1, 2] >= 1.0
    importance[1, 2] = 0
    assert importance.abs().max() <= 0.05


@few
@given(draws, sizes, st.integers(2, 7), sizes, st.integers(1, 8))
def test_direct_logit_attribution_entry_by_entry(
    draw: Draw, n: int, pos: int, d_model: int, d_vocab: int
) -> None:
    components, W_U = draw.normal(n, pos, d_model), draw.normal(d_model, d_vocab)
    tokens = draw.integers(d_vocab, pos)
    expected = torch.zeros(n, pos - 1, dtype=torch.float64)
    for c in range(n):
        for i in range(pos - 1):
            logits = components[c, i] @ W_U
            expected[c, i] = logits[tokens[i + 1]] - logits.mean()
    close(direct_logit_attribution(components, W_U, tokens), expected)


@few
@given(draws, sizes, sizes, sizes)
def test_value_weighting_scales_columns(draw: Draw, dst: int, src: int, d_head: int) -> None:
    pattern, v = draw.normal(dst, src).exp(), draw.normal(src, d_head)
    expected = torch.zeros(dst, src, dtype=torch.float64)
    for i in range(dst):
        for j in range(src):
            expected[i, j] = pattern[i, j] * sum(float(e) ** 2 for e in v[j]) ** 0.5
    close(value_weighted_pattern(pattern, v), expected)


def test_bad_input_is_named() -> None:
    model = Transformer.random(n_layers=2, n_heads=1, d_model=3, d_head=2, d_vocab=5, n_ctx=6)
    tokens = torch.tensor([1, 2, 3])
    with pytest.raises(ValueError, match="layer must be 0 or 1; 2 came"):
        marginal_effect(tokens, model, 2)
    with pytest.raises(ValueError, match="model must have 2 layers; it has 1"):
        term_importance(tokens, model.with_weights(
            **{n: getattr(model, n)[:1] for n in ("W_Q", "W_K", "W_V", "W_O")}
        ))  # fmt: skip
    with pytest.raises(ValueError, match=r"tokens must lie in 0 … 4, .*; 1 … 9 came"):
        virtual_head_importance(torch.tensor([1, 9]), model)
