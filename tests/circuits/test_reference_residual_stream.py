"""Notebook 00's references: sums, virtual weights, rotations and overlaps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, cases, close, draws, few, sizes
from torch import Tensor

from grader.circuits.residual_stream import (
    component_logits,
    random_rotation,
    read_write_overlap,
    residual_stream,
    rotate_residual_stream,
    virtual_weights,
)
from grader.transformer import Transformer

Case = tuple[Transformer, Tensor]


@few
@given(cases())
def test_the_stream_is_the_embedding_and_all_that_was_written(case: Case) -> None:
    model, tokens = case
    _, cache = model.run_with_cache(tokens)
    outputs = cache.head_out.sum(dim=1)
    close(residual_stream(model.embed(tokens), outputs), cache.stream)
    x, expected = model.embed(tokens), [model.embed(tokens)]
    for output in outputs:
        x = x + output
        expected.append(x)
    close(residual_stream(model.embed(tokens), outputs), torch.stack(expected))


@few
@given(cases())
def test_components_sum_to_the_logits(case: Case) -> None:
    model, tokens = case
    _, cache = model.run_with_cache(tokens)
    components = torch.cat([model.embed(tokens)[None], cache.head_out.flatten(0, 1)])
    logits = component_logits(components, model.W_U)
    assert logits.shape == (1 + model.n_layers * model.n_heads, len(tokens), model.d_vocab)
    close(logits.sum(dim=0), model(tokens))


@few
@given(draws, sizes, sizes, sizes)
def test_virtual_weights_read_what_was_written(draw: Draw, a: int, d: int, b: int) -> None:
    W_out, W_in, y = draw.normal(a, d), draw.normal(d, b), draw.normal(4, a)
    close(y @ virtual_weights(W_out, W_in), (y @ W_out) @ W_in)


@few
@given(cases(batched=True), draws)
def test_a_rotated_model_gives_the_same_logits(case: Case, draw: Draw) -> None:
    model, tokens = case
    before = model.clone()
    R = random_rotation(model.d_model, draw.generator)
    turned = rotate_residual_stream(model, R)
    close(turned(tokens), model(tokens))
    close(turned.W_E, model.W_E @ R)
    close(turned.run_with_cache(tokens)[1].stream, model.run_with_cache(tokens)[1].stream @ R)
    for name, weight in before.weights().items():
        assert torch.equal(getattr(model, name), weight)
    back = rotate_residual_stream(turned, R.T)
    for name, weight in model.weights().items():
        close(getattr(back, name), weight)


@pytest.mark.parametrize("pos_in_stream", [False, True])
@pytest.mark.parametrize("forgotten", ["W_E", "W_U", "W_pos", "W_Q", "W_K", "W_V", "W_O"])
def test_a_rotation_that_forgets_one_weight_changes_the_logits(
    forgotten: str, pos_in_stream: bool
) -> None:
    draw = Draw(5)
    model = Transformer.random(
        n_layers=2, n_heads=2, d_model=6, d_head=3, d_vocab=7, n_ctx=6,
        generator=draw.generator, dtype=torch.float64, pos_in_stream=pos_in_stream,
    )  # fmt: skip
    tokens = draw.integers(7, 6)
    turned = rotate_residual_stream(model, random_rotation(6, draw.generator))
    half = turned.with_weights(**{forgotten: getattr(model, forgotten)})
    assert (half(tokens) - model(tokens)).abs().max() > 1e-2


def test_a_stretch_is_no_rotation() -> None:
    model = Transformer.random(n_layers=1, n_heads=1, d_model=3, d_head=2, d_vocab=4, n_ctx=4)
    with pytest.raises(ValueError, match="R must be orthogonal"):
        rotate_residual_stream(model, torch.diag(torch.tensor([1.0, 1.0, 1.001])))
    with pytest.raises(ValueError, match="R must be orthogonal"):
        rotate_residual_stream(model, torch.full((3, 3), torch.nan))


@few
@given(draws, sizes, sizes, sizes)
def test_overlap_is_the_projected_share(draw: Draw, a: int, d: int, b: int) -> None:
    W_out, W_in = draw.normal(a, d), draw.normal(d, b)
    P = W_in @ torch.linalg.pinv(W_in)
    share = read_write_overlap(W_out, W_in)
    close(share, (W_out @ P).square().sum() / W_out.square().sum())
    assert 0 <= share <= 1
    if b >= d:
        close(share, torch.ones_like(share))


@few
@given(draws, sizes, st.integers(2, 6), sizes)
def test_overlap_does_not_depend_on_bases_or_scale(draw: Draw, a: int, d: int, b: int) -> None:
    W_out, W_in = draw.normal(a, d), draw.normal(d, b)
    share = read_write_overlap(W_out, W_in)
    mix = torch.eye(b, dtype=torch.float64) + 0.3 * random_rotation(b, draw.generator)
    close(read_write_overlap(3 * W_out, W_in @ mix), share)
    close(read_write_overlap(random_rotation(a, draw.generator) @ W_out, W_in), share)
    R = random_rotation(d, draw.generator)
    close(read_write_overlap(W_out @ R, R.T @ W_in), share)


@few
@given(draws, sizes, st.integers(2, 6), st.data())
def test_a_space_and_its_complement_see_everything(
    draw: Draw, a: int, d: int, data: st.DataObject
) -> None:
    W_out, R = draw.normal(a, d), random_rotation(d, draw.generator)
    cut = data.draw(st.integers(1, d - 1))
    seen = read_write_overlap(W_out, R[:, :cut]) + read_write_overlap(W_out, R[:, cut:])
    close(seen, torch.ones_like(seen))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_overlap_uses_the_rank_that_is_there(dtype: torch.dtype) -> None:
    draw = Draw(6)
    reader = draw.normal(8, 1).to(dtype)
    repeated = reader @ draw.normal(1, 5).to(dtype)  # five columns, one direction
    W_out = draw.normal(4, 8).to(dtype)
    close(read_write_overlap(W_out, repeated), read_write_overlap(W_out, reader), within=1e-5)
    assert read_write_overlap(torch.zeros(4, 8, dtype=dtype), reader) == 0
    assert read_write_overlap(W_out, torch.zeros(8, 2, dtype=dtype)) == 0
    assert read_write_overlap(W_out * torch.nan, reader).isnan()


@few
@given(draws, sizes)
def test_random_rotations_are_orthogonal(draw: Draw, d: int) -> None:
    R = random_rotation(d, draw.generator)
    close(R @ R.T, torch.eye(d, dtype=torch.float64))


def test_random_rotations_favour_no_direction() -> None:
    draw = Draw(7)
    many = torch.stack([random_rotation(3, draw.generator) for _ in range(2000)])
    # A uniform rotation has entries of mean 0 and variance 1/d; the bound is five standard errors.
    assert many.mean(dim=0).abs().max() < 5 * (1 / 3 / 2000) ** 0.5
    assert (many.square().mean(dim=0) - 1 / 3).abs().max() < 5 * (1 / 2000) ** 0.5
