"""One forward pass, three ways to run it: the plain call, with its cache, and in inference mode."""

from __future__ import annotations

from dataclasses import fields

import torch
from hypothesis import given
from reference_cases import Draw, cases, close, few
from torch import Tensor

from grader.transformer import _MUCH, Cache, Transformer


@few
@given(cases(batched=True))
def test_inference_mode_changes_neither_logits_nor_cache(case: tuple[Transformer, Tensor]) -> None:
    model, tokens = case
    logits, cache = model.run_with_cache(tokens)
    close(model(tokens), logits)
    with torch.inference_mode():
        close(model(tokens), logits)
        same, kept = model.run_with_cache(tokens)
        close(same, logits)
        for field in fields(Cache):
            close(getattr(kept, field.name), getattr(cache, field.name))


def test_neither_does_it_where_both_are_large() -> None:
    model = Transformer.random(n_layers=2, n_heads=4, d_model=8, d_head=4, d_vocab=2100, n_ctx=300)
    tokens = torch.randint(2100, (2, 300), generator=torch.Generator().manual_seed(0))
    logits, cache = model.run_with_cache(tokens)
    with torch.inference_mode():
        same, kept = model.run_with_cache(tokens)
        assert min(same.nbytes, kept.pattern.nbytes) > _MUCH
        close(same, logits)
        for field in fields(Cache):
            close(getattr(kept, field.name), getattr(cache, field.name))


@few
@given(cases(batched=True))
def test_each_text_is_computed_as_if_it_were_alone(case: tuple[Transformer, Tensor]) -> None:
    model, tokens = case
    texts = tokens.reshape(-1, tokens.shape[-1])
    _, cache = model.run_with_cache(tokens)
    alone = [model.run_with_cache(text)[1] for text in texts]
    for field in fields(Cache):
        together = getattr(cache, field.name)
        layers, *_ = together.shape
        expected = torch.stack([getattr(one, field.name) for one in alone], dim=1)
        close(together.reshape(layers, len(texts), *expected.shape[2:]), expected)


def test_no_text_and_no_token_are_allowed_too() -> None:
    model = Transformer.random(n_layers=2, n_heads=3, d_model=8, d_head=4, d_vocab=11, n_ctx=9)
    for shape in ((0, 5), (2, 0), (0,)):
        tokens = torch.zeros(shape, dtype=torch.int64)
        with torch.inference_mode():
            logits, cache = model.run_with_cache(tokens)
        assert logits.shape == model(tokens).shape == (*shape, 11)
        assert cache.head_out.shape == (2, *shape[:-1], 3, shape[-1], 8)


def test_outside_inference_mode_a_cache_is_open_to_autograd_and_vmap() -> None:
    draw = Draw(4)
    model = Transformer.random(
        n_layers=2, n_heads=2, d_model=6, d_head=3, d_vocab=7, n_ctx=5,
        generator=draw.generator, dtype=torch.float64,
    )  # fmt: skip
    tokens = draw.integers(7, 3, 5)

    def written(W_V: Tensor) -> Tensor:
        return model.with_weights(W_V=W_V).run_with_cache(tokens)[1].head_out.square().sum()

    W_V = model.W_V
    assert torch.autograd.gradcheck(written, (W_V.clone().requires_grad_(),))
    several = torch.stack([W_V, 2 * W_V])
    close(torch.func.vmap(written)(several), torch.stack([written(W_V), written(2 * W_V)]))
