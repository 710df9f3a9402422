"""Notebook 07: each fold and expansion, judged by what comes out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import slow_model
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, cases, close, draws, few, sizes
from torch import Tensor, nn

from grader.circuits.attention_heads import causal_pattern
from grader.circuits.beyond import (
    erasure_score,
    fold_layer_norm,
    fold_value_bias,
    from_transformer_lens,
    mlp_path_expansion,
    smeared_keys,
)
from grader.circuits.induction_heads import prefix_matching_score, repeated_tokens
from grader.transformer import Transformer


@few
@given(cases(st.just(1)), draws, sizes)
def test_mlp_inputs_by_path(case: tuple[Transformer, Tensor], draw: Draw, d_mlp: int) -> None:
    model, tokens = case
    W_in = draw.normal(model.d_model, d_mlp)
    _, _, outputs = slow_model.run(model, tokens)
    terms = [model.embed(tokens), *slow_model.as_tensor(outputs)[0]]
    expected = torch.stack([term @ W_in for term in terms])
    result = mlp_path_expansion(tokens, model, W_in)
    close(result, expected)
    _, cache = model.run_with_cache(tokens)
    close(result.sum(dim=0), cache.stream[1] @ W_in)


@few
@given(draws, st.integers(2, 6), sizes, sizes)
def test_folded_layer_norm_gives_the_same_outputs(
    draw: Draw, d_model: int, d_out: int, pos: int
) -> None:
    norm, linear = nn.LayerNorm(d_model).double(), nn.Linear(d_model, d_out).double()
    with torch.no_grad():
        norm.weight.copy_(draw.normal(d_model))
        norm.bias.copy_(draw.normal(d_model))
        x = draw.normal(pos, d_model)
        bare = nn.functional.layer_norm(x, (d_model,))
        W, b = fold_layer_norm(norm.weight, norm.bias, linear.weight.mT, linear.bias)
        close(bare @ W + b, linear(norm(x)))
    assert W.shape == (d_model, d_out)


@few
@given(draws, sizes, sizes, sizes, sizes)
def test_folded_value_bias_gives_the_same_outputs(
    draw: Draw, n_heads: int, pos: int, d_head: int, d_model: int
) -> None:
    x, pattern = draw.normal(pos, d_model), draw.pattern(n_heads, pos, pos)
    W_V, W_O = draw.normal(n_heads, d_model, d_head), draw.normal(n_heads, d_head, d_model)
    b_V, b_O = draw.normal(n_heads, d_head), draw.normal(d_model)
    before = b_O + sum(pattern[h] @ (x @ W_V[h] + b_V[h]) @ W_O[h] for h in range(n_heads))
    folded = fold_value_bias(b_V, W_O, b_O)
    assert folded.shape == (d_model,)
    close(sum(pattern[h] @ x @ W_V[h] @ W_O[h] for h in range(n_heads)) + folded, before)


class TestErasure:
    @few
    @given(draws, sizes, sizes)
    def test_is_minus_the_eigenvalue_score_of_w_ov(
        self, draw: Draw, d_model: int, d_head: int
    ) -> None:
        W_V, W_O = draw.normal(d_model, d_head), draw.normal(d_head, d_model)
        values = np.linalg.eigvals((W_V @ W_O).numpy())
        expected = -values.sum().real / np.abs(values).sum()
        assert float(erasure_score(W_V, W_O)) == pytest.approx(expected, abs=1e-6)

    def test_one_for_a_head_that_subtracts_what_it_reads(self) -> None:
        reads = Draw(1).normal(9, 4)
        writes = -torch.linalg.pinv(reads)
        x = Draw(2).normal(3, 4) @ reads.mT  # a stream inside what the head reads
        close(x + x @ reads @ writes, torch.zeros_like(x))
        assert float(erasure_score(reads, writes)) == pytest.approx(1)
        assert float(erasure_score(reads, -writes)) == pytest.approx(-1)


class TestSmearedKeys:
    @few
    @given(draws, st.lists(st.integers(1, 3), max_size=2), sizes, sizes, st.floats(-5, 5))
    def test_mixes_each_key_with_the_unsmeared_one_before(
        self, draw: Draw, batch: list[int], pos: int, d_head: int, alpha: float
    ) -> None:
        k = draw.normal(*batch, pos, d_head)
        share = 1 / (1 + math.exp(-alpha))
        expected = k.clone()
        for j in range(1, pos):
            expected[..., j, :] = share * k[..., j, :] + (1 - share) * k[..., j - 1, :]
        close(smeared_keys(k, alpha), expected)
        close(smeared_keys(k, torch.tensor(alpha, dtype=torch.float64)), expected)

    @pytest.mark.parametrize("period", [3, 7, 12])
    def test_one_layer_matches_prefixes_with_them_and_not_without(self, period: int) -> None:
        """Query and key compare tokens; with α very negative the key is the token before."""
        tokens = repeated_tokens(15, period, 4, seed=period)
        codes = Draw(5).normal(15, 15)
        codes = torch.linalg.qr(codes).Q[tokens]

        def matching(keys: Tensor) -> float:
            pattern = causal_pattern(20 * codes @ keys.mT)
            return float(prefix_matching_score(pattern, period))

        # The first key stays its own token, a false match once a period: not quite 1.
        assert matching(smeared_keys(codes, -6.0)) >= 0.75
        assert matching(smeared_keys(codes, 6.0)) <= 0.01
        assert matching(codes) <= 0.01


class TestFromTransformerLens:
    @staticmethod
    def state(model: Transformer) -> dict[str, Any]:
        """As TransformerLens writes one, keys in alphabetical order, so layer 10 before layer 2."""
        state: dict[str, Any] = {
            "embed.W_E": model.W_E, "pos_embed.W_pos": model.W_pos, "unembed.W_U": model.W_U,
            "unembed.b_U": torch.zeros(model.d_vocab),
        }  # fmt: skip
        for n in range(model.n_layers):
            for name in ("W_Q", "W_K", "W_V", "W_O"):
                state[f"blocks.{n}.attn.{name}"] = getattr(model, name)[n]
            for name in ("b_Q", "b_K", "b_V"):
                state[f"blocks.{n}.attn.{name}"] = torch.zeros(model.n_heads, model.d_head)
            state[f"blocks.{n}.attn.b_O"] = torch.zeros(model.d_model)
            state[f"blocks.{n}.attn.mask"] = torch.ones(4, 4, dtype=torch.bool).tril()
            state[f"blocks.{n}.attn.IGNORE"] = torch.tensor(-torch.inf)
        return dict(sorted(state.items()))

    @staticmethod
    def model(n_layers: int) -> Transformer:
        return Transformer.random(
            n_layers=n_layers, n_heads=2, d_model=6, d_head=3, d_vocab=7, n_ctx=9,
            generator=torch.Generator().manual_seed(n_layers), dtype=torch.float64,
        )  # fmt: skip

    @pytest.mark.parametrize("n_layers", [1, 2, 12])
    def test_same_logits(self, n_layers: int) -> None:
        model = self.model(n_layers)
        read = from_transformer_lens(self.state(model))
        tokens = Draw(0).integers(7, 9)
        close(read(tokens), model(tokens))
        close(read(tokens), slow_model.as_tensor(slow_model.run(model, tokens)[0]))

    def test_numpy_arrays_will_do(self) -> None:
        model = self.model(2)
        state = {key: value.numpy() for key, value in self.state(model).items()}
        close(from_transformer_lens(state).W_O, model.W_O)

    def test_what_would_change_the_logits_is_refused(self) -> None:
        good = self.state(self.model(2))
        bias = {**good, "blocks.1.attn.b_V": torch.tensor([[0.0, 0, 1e-3], [0, 0, 0]])}
        with pytest.raises(ValueError, match=r"blocks\.1\.attn\.b_V is not zero"):
            from_transformer_lens(bias)
        with pytest.raises(ValueError, match=r"unembed\.b_U is not zero"):
            from_transformer_lens({**good, "unembed.b_U": torch.ones(7)})
        with pytest.raises(ValueError, match=r"blocks\.0\.ln1\.w has no place"):
            from_transformer_lens({**good, "blocks.0.ln1.w": torch.ones(6)})
        with pytest.raises(ValueError, match=r"blocks\.0\.mlp\.W_in has no place"):
            from_transformer_lens({**good, "blocks.0.mlp.W_in": torch.ones(6, 24)})

    def test_what_is_missing_is_listed(self) -> None:
        state = self.state(self.model(3))
        for key in [k for k in state if k.startswith("blocks.1.")] + ["embed.W_E"]:
            del state[key]
        with pytest.raises(ValueError, match=r"embed\.W_E, blocks\.1\.attn\.W_Q, .* did not come"):
            from_transformer_lens(state)
        with pytest.raises(ValueError, match="a state dict is needed; a list came"):
            from_transformer_lens([])  # type: ignore[arg-type]


@few
@given(cases(st.just(1)))
def test_smearing_with_full_weight_on_the_present_changes_nothing(
    case: tuple[Transformer, Tensor],
) -> None:
    model, tokens = case
    k = model.run_with_cache(tokens)[1].k[0]
    close(smeared_keys(k, 40.0), k)


def test_alpha_is_one_number() -> None:
    with pytest.raises(ValueError, match=r"alpha must be one number; shape \(2,\) came"):
        smeared_keys(torch.ones(3, 2), torch.zeros(2))
