"""Notebook 05: finding, ablating and hand-writing induction heads."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import pytest
import slow_model
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import cases, close
from torch import Tensor

from grader.circuits.attention_heads import attention_scores, causal_pattern
from grader.circuits.compiled import Compiled, compile_model
from grader.circuits.compiled_heads import (
    anti_copying,
    anti_induction,
    copying,
    dead,
    duplicate_token,
    induction,
    pointer,
    pointer_induction,
    positional,
    previous_token,
    scrambled,
)
from grader.circuits.compiled_parts import Address, Block, Copy, Geometry, Head, Jumble, Move
from grader.circuits.composition import knock_out_composition
from grader.circuits.induction_heads import (
    ablate_head,
    find_induction_heads,
    induction_by_k_composition,
    induction_by_pointer_arithmetic,
    matching_score,
    prefix_matching_score,
    previous_token_head,
    previous_token_score,
    repeated_tokens,
)
from grader.circuits.one_layer import copying_score, positional_pattern
from grader.transformer import Transformer


@dataclass(frozen=True)
class NoisyCopy(Move):
    """Copies, and mixes in a random map: a copying score well below 1."""

    def blocks(self, g: Geometry, memory: Address) -> list[Block]:
        parts = [*Copy(strength=8.0).blocks(g, memory), *Jumble(strength=5.0).blocks(g, memory)]
        return [Block("token", "logits", torch.stack([p.matrix for p in parts]).sum(dim=0))]


def decoys(seed: int) -> Compiled:
    """Of each kind that is like an induction head in one respect, with softly looking real ones."""
    noisy = Head("induction", induction((0, 0), sharpness=1.5).attend, NoisyCopy())
    layers = [
        [previous_token(sharpness=2.0), duplicate_token(Copy()), positional(5, Copy()), copying()],
        [induction((0, 0), sharpness=1.5), anti_induction((0, 0)), noisy, positional(2, Copy())],
        [scrambled(), anti_copying(), induction((0, 0)), positional(11, Copy())],
    ]
    return compile_model(layers, d_vocab=18, n_ctx=44, seed=seed)


def scores(compiled: Compiled, period: int) -> tuple[Tensor, Tensor]:
    model = compiled.model
    tokens = repeated_tokens(model.d_vocab, period, ceil(model.n_ctx / period), 77)
    _, cache = model.run_with_cache(tokens[: model.n_ctx])
    matching = prefix_matching_score(cache.pattern, period)
    return matching, copying_score(model.W_E, model.W_V, model.W_O, model.W_U)


@pytest.mark.parametrize("seed", range(5))
def test_finds_exactly_the_induction_heads_among_decoys(seed: int) -> None:
    compiled = decoys(seed)
    expected = sorted(a for a, label in compiled.heads.items() if label == "induction")
    assert expected == [(1, 0), (1, 2), (2, 2)]
    assert find_induction_heads(compiled.model) == expected

    # The decoys are what they should be: each passes one of the two scores, none passes both.
    matching, copied = scores(compiled, period=10)
    for address, label in compiled.heads.items():
        if label == "induction":
            assert matching[address] >= 0.7
            assert copied[address] >= 0.5
        else:
            assert matching[address] <= 0.2 or copied[address] <= 0, address
    assert matching[1, 1] >= 0.95
    assert copied[0, 1] >= 0.95


def test_a_fixed_offset_can_match_one_period_but_is_not_found() -> None:
    """Offset 17 is period − 1 for period 18, one of the periods that are tried."""
    compiled = compile_model([[positional(17, Copy()), dead()]], d_vocab=18, n_ctx=44, seed=0)
    matching, copied = scores(compiled, period=18)
    assert matching[0, 0] >= 0.95
    assert copied[0, 0] >= 0.95
    assert find_induction_heads(compiled.model) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finds_the_pointing_kind_too(dtype: torch.dtype) -> None:
    layers = [[pointer(), positional(3, Copy())], [scrambled(), pointer_induction((0, 0))]]
    compiled = compile_model(layers, d_vocab=9, n_ctx=26, seed=2, pos_in_stream=True, dtype=dtype)
    assert find_induction_heads(compiled.model) == [(1, 1)]


def test_no_head_no_layer_and_no_room() -> None:
    none = Transformer.random(
        n_layers=2, n_heads=3, d_model=10, d_head=4, d_vocab=12, n_ctx=20,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert find_induction_heads(none) == []
    empty = none.with_weights(**{n: getattr(none, n)[:0] for n in ("W_Q", "W_K", "W_V", "W_O")})
    assert find_induction_heads(empty) == []
    short = none.with_weights(W_pos=none.W_pos[:5])
    with pytest.raises(ValueError, match="d_vocab ≥ 3 and n_ctx ≥ 6; 12 and 5 came"):
        find_induction_heads(short)


def test_the_circuits_of_a_compiled_induction_head() -> None:
    compiled = compile_model(
        [[previous_token(), duplicate_token()], [induction((0, 0)), dead()]],
        d_vocab=14, n_ctx=30, seed=3,
    )  # fmt: skip
    model = compiled.model
    W_OV = model.W_V[0] @ model.W_O[0]
    reads = model.W_E, model.W_Q[1, 0], model.W_K[1, 0]
    assert matching_score(*reads, W_OV[0]) >= 0.95
    assert matching_score(*reads, W_OV[1]) <= 0.5  # the other head's trace is not read
    _, cache = model.run_with_cache(repeated_tokens(14, 10, 3, 5))
    assert previous_token_score(cache.pattern[0, 0]) >= 0.95
    assert previous_token_score(cache.pattern[1, 0]) <= 0.1


class TestAblation:
    @settings(deadline=None, max_examples=8)
    @given(cases(st.integers(1, 3)), st.data())
    def test_against_the_slow_model(
        self, case: tuple[Transformer, Tensor], data: st.DataObject
    ) -> None:
        model, tokens = case
        layer = data.draw(st.integers(0, model.n_layers - 1))
        head = data.draw(st.integers(0, model.n_heads - 1))
        batch = torch.stack([tokens, tokens.flip(0)])
        runs = [slow_model.run(model, row) for row in batch]
        mean = np.mean([outputs[layer, head] for _, _, outputs in runs], axis=(0, 1))
        for how in ("zero", "mean", "frozen"):
            value = mean if how == "mean" else np.zeros(model.d_model)

            def change(
                at: int, which: int, output: slow_model.Array, value: slow_model.Array = value
            ) -> slow_model.Array:
                return (
                    np.broadcast_to(value, output.shape) if (at, which) == (layer, head) else output
                )

            expected = [
                slow_model.run(model, row, change, patterns if how == "frozen" else None)[0]
                for row, (_, patterns, _) in zip(batch, runs, strict=True)
            ]
            close(
                ablate_head(batch, model, layer, head, how),
                slow_model.as_tensor(np.stack(expected)),
            )

    def test_without_the_previous_token_head_induction_breaks_unless_patterns_are_frozen(
        self,
    ) -> None:
        model = compile_model(
            [[previous_token(), dead()], [induction((0, 0)), dead()]],
            d_vocab=16, n_ctx=40, seed=1,
        ).model  # fmt: skip
        tokens = repeated_tokens(16, 12, 3, 0)[None]
        right = {
            how: float((self.guess(tokens, model, how) == tokens[0, 13:]).double().mean())
            for how in ("zero", "mean", "frozen")
        }
        assert right["frozen"] >= 0.99
        assert right["zero"] <= 0.3
        assert right["mean"] <= 0.3

    @staticmethod
    def guess(tokens: Tensor, model: Transformer, how: str) -> Tensor:
        return ablate_head(tokens, model, 0, 0, how)[0, 12:-1].argmax(dim=-1)

    def test_the_model_is_left_alone(self) -> None:
        model = decoys(0).model
        before = {name: weight.clone() for name, weight in model.weights().items()}
        tokens = repeated_tokens(18, 6, 2, 0)[None]
        for how in ("zero", "mean", "frozen"):
            ablate_head(tokens, model, 1, 2, how)
        assert all(torch.equal(before[n], w) for n, w in model.weights().items())

    @pytest.mark.parametrize(
        ("layer", "head", "how", "message"),
        [
            (3, 0, "zero", "3 layers of 4 heads; layer 3, head 0 came"),
            (0, -1, "zero", "layer 0, head -1 came"),
            (0, 0, "noise", 'must be "zero", "mean" or "frozen"; \'noise\' came'),
        ],
    )
    def test_what_is_not_there(self, layer: int, head: int, how: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ablate_head(torch.zeros(1, 3, dtype=torch.int64), decoys(0).model, layer, head, how)


class TestByHand:
    @pytest.mark.parametrize("n_ctx", [2, 3, 4, 7, 31, 128, 300])
    @pytest.mark.parametrize(("d_model", "d_head"), [(2, 2), (3, 9), (12, 5)])
    def test_previous_token_head(self, n_ctx: int, d_model: int, d_head: int) -> None:
        W_pos, W_Q, W_K = previous_token_head(n_ctx, d_model, d_head)
        assert W_pos.shape == (n_ctx, d_model)
        assert W_Q.shape == W_K.shape == (d_model, d_head)
        pattern = positional_pattern(W_pos, W_Q, W_K)
        assert pattern.diagonal(-1).min() >= 0.99
        in_single = causal_pattern(
            attention_scores(W_pos.float(), W_pos.float(), W_Q.float(), W_K.float())
        )
        assert in_single.diagonal(-1).min() >= 0.98

    @pytest.mark.parametrize(
        ("d_vocab", "n_ctx"), [(3, 6), (3, 40), (5, 11), (16, 33), (40, 80), (60, 24)]
    )
    @pytest.mark.parametrize(
        ("build", "carrier"),
        [(induction_by_k_composition, "K"), (induction_by_pointer_arithmetic, "Q")],
    )
    def test_induction_and_what_it_hangs_on(
        self, d_vocab: int, n_ctx: int, build: object, carrier: str
    ) -> None:
        model = build(d_vocab, n_ctx)  # type: ignore[operator]
        assert (model.d_vocab, model.n_ctx, model.n_layers) == (d_vocab, n_ctx, 2)
        assert model.pos_in_stream == (carrier == "Q")
        longest = min(d_vocab, n_ctx // 2)
        for period in sorted({3, (3 + longest) // 2, longest}):
            for seed in range(3):
                repeats = ceil(n_ctx / period)
                tokens = repeated_tokens(d_vocab, period, repeats, seed)[:n_ctx]
                assert accuracy(model(tokens), tokens, period) >= 0.99
                for kind in "QKV":
                    logits = knock_out_composition(tokens, model, kind)
                    right = accuracy(logits, tokens, period)
                    assert right < 0.5 if kind == carrier else right >= 0.99, (kind, period)

    @pytest.mark.parametrize("build", [induction_by_k_composition, induction_by_pointer_arithmetic])
    def test_too_small_to_repeat(self, build: object) -> None:
        with pytest.raises(ValueError, match="d_vocab must be a whole number, at least 3; 2 came"):
            build(2, 10)  # type: ignore[operator]
        with pytest.raises(ValueError, match="n_ctx must be a whole number, at least 6; 5 came"):
            build(4, 5)  # type: ignore[operator]


def accuracy(logits: Tensor, tokens: Tensor, period: int) -> float:
    guess = logits[period:-1].argmax(dim=-1)
    return float((guess == tokens[period + 1 :]).double().mean())
