"""Compiled models do what their declarations say: proved by behaviour on random text."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

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
    skip_trigrams,
)
from grader.circuits.compiled_parts import (
    SHARPNESS,
    STRENGTH,
    Copy,
    Geometry,
    Head,
    Match,
    Remember,
)
from grader.circuits.compiled_weights import frequencies, turn
from grader.circuits.composition import composition_scores
from grader.circuits.one_layer import full_ov_circuit, full_qk_circuit
from grader.transformer import Cache, Transformer

# Source 3 serves two destinations with two outputs, which forces all four combinations.
TRIPLES = [(3, 7, 11), (3, 8, 12), (5, 7, 2)]
FORCED = [(3, 7, 11), (3, 7, 12), (3, 8, 11), (3, 8, 12), (5, 7, 2)]
SIZES = [(24, 40), (13, 33), (30, 64)]
LEAST = 0.98  # of the attention, noise included; without noise 1 − e^−6


def zoo(d_vocab: int, n_ctx: int, seed: int, **options: object) -> Compiled:
    layers = [
        [previous_token(), duplicate_token(Copy()), positional(5), skip_trigrams(TRIPLES)],
        [induction((0, 0)), anti_induction((0, 0)), copying(), anti_copying(), scrambled(), dead()],
    ]
    return compile_model(layers, d_vocab=d_vocab, n_ctx=n_ctx, seed=seed, **options)


def text(d_vocab: int, n_ctx: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randint(d_vocab, (n_ctx,), generator=generator)


@pytest.fixture(
    scope="module", params=[(*size, seed) for size in SIZES for seed in range(2)], ids=str
)
def ran(request: pytest.FixtureRequest) -> tuple[Compiled, Tensor, Cache]:
    d_vocab, n_ctx, seed = request.param
    compiled = zoo(d_vocab, n_ctx, seed)
    tokens = text(d_vocab, n_ctx, seed)
    tokens[[1, 4, 9, 12]] = torch.tensor([3, 5, 7, 8])  # so that every planted pair occurs
    return compiled, tokens, compiled.model.run_with_cache(tokens)[1]


def attention_on(cache: Cache, address: tuple[int, int], targets: Tensor) -> Tensor:
    """Attention on the targets (dst, src), for each destination that has one."""
    layer, head = address
    pattern = cache.pattern[layer, head]
    return (pattern * targets).sum(dim=-1)[targets.any(dim=-1)]


def distance(n: int) -> Tensor:
    return torch.arange(n)[:, None] - torch.arange(n)


def test_previous_token_head_looks_one_back(ran: tuple[Compiled, Tensor, Cache]) -> None:
    _, tokens, cache = ran
    assert attention_on(cache, (0, 0), distance(len(tokens)) == 1).min() >= LEAST


def test_positional_head_looks_its_offset_back(ran: tuple[Compiled, Tensor, Cache]) -> None:
    _, tokens, cache = ran
    assert attention_on(cache, (0, 2), distance(len(tokens)) == 5).min() >= LEAST


def test_duplicate_token_head_looks_at_earlier_copies(ran: tuple[Compiled, Tensor, Cache]) -> None:
    _, tokens, cache = ran
    copies = (tokens[:, None] == tokens) & (distance(len(tokens)) > 0)
    assert attention_on(cache, (0, 1), copies).min() >= LEAST


@pytest.mark.parametrize("address", [(1, 0), (1, 1)])
def test_induction_heads_look_after_earlier_copies(
    ran: tuple[Compiled, Tensor, Cache], address: tuple[int, int]
) -> None:
    _, tokens, cache = ran
    after = after_copies(tokens)
    assert after.any()
    assert attention_on(cache, address, after).min() >= LEAST


def after_copies(tokens: Tensor, back: int = 1) -> Tensor:
    """(dst, src): the token ``back`` before src is that of dst."""
    before = tokens.roll(back)
    return ((tokens[:, None] == before) & (distance(len(tokens)) >= 0)).index_fill(
        1, torch.arange(back), False
    )


def test_skip_trigram_head_answers_its_pairs_only(ran: tuple[Compiled, Tensor, Cache]) -> None:
    compiled, tokens, cache = ran
    pairs = {(s, d) for s, d, _ in TRIPLES}
    wanted = torch.tensor([[(s, d) in pairs for s in tokens.tolist()] for d in tokens.tolist()])
    wanted &= distance(len(tokens)) >= 0
    assert attention_on(cache, (0, 3), wanted).min() >= LEAST

    logits = cache.head_out[0, 3] @ compiled.model.W_U
    ordinary_seen = torch.cumsum(~torch.isin(tokens, torch.tensor([3, 5])), dim=0) > 0
    silent = ~wanted.any(dim=-1) & ordinary_seen
    assert logits[silent].abs().max() <= 0.05 * STRENGTH


def test_skip_trigram_head_writes_every_output_of_its_source() -> None:
    """Text made to order: ordinary tokens, then a source, then a destination."""
    compiled = zoo(24, 40, seed=0)
    for source, destination in [(3, 7), (3, 8), (5, 7), (5, 8)]:
        tokens = torch.tensor([20, 21, source, 22, 23, destination])
        _, cache = compiled.model.run_with_cache(tokens)
        logits = (cache.head_out[0, 3] @ compiled.model.W_U)[-1]
        outputs = [o for s, d, o in FORCED if (s, d) == (source, destination)]
        expected = torch.zeros(24).index_fill(0, torch.tensor(outputs, dtype=torch.int64), STRENGTH)
        torch.testing.assert_close(logits, expected, atol=0.1 * STRENGTH, rtol=0)


def test_copying_and_anti_copying_are_the_diagonal_of_the_full_ov_circuit(
    ran: tuple[Compiled, Tensor, Cache],
) -> None:
    model = ran[0].model
    own = torch.arange(model.d_vocab)
    for head, sign in [(0, 1), (1, -1), (2, 1), (3, -1)]:
        circuit = full_ov_circuit(model.W_E, model.W_V[1, head], model.W_O[1, head], model.W_U)
        assert ((sign * circuit).argmax(dim=-1) == own).all(), ran[0].heads[1, head]
    circuit = full_ov_circuit(model.W_E, model.W_V[1, 4], model.W_O[1, 4], model.W_U)
    assert (circuit.argmax(dim=-1) == own).float().mean() <= 0.3  # scrambled


def test_dead_heads_look_everywhere_and_move_nothing(ran: tuple[Compiled, Tensor, Cache]) -> None:
    _, tokens, cache = ran
    live = cache.head_out[1, :4].norm(dim=-1).mean()
    for address in [(1, 5), (0, 4), (0, 5)]:  # the last two fill up the layer
        layer, head = address
        assert cache.head_out[layer, head].norm(dim=-1).max() <= 0.02 * live
        even = 1 / torch.arange(1, len(tokens) + 1)
        assert ((cache.pattern[layer, head].amax(dim=-1) - even).abs() <= 0.1 * even).all()


@pytest.mark.parametrize(("d_vocab", "n_ctx"), SIZES)
@pytest.mark.parametrize("seed", range(2))
def test_induction_models_continue_repeated_text(d_vocab: int, n_ctx: int, seed: int) -> None:
    by_key = [[previous_token(), dead()], [scrambled(strength=2.0), induction((0, 0))]]
    by_query = [[positional(2), pointer()], [pointer_induction((0, 1)), dead()]]
    for layers, in_stream in [(by_key, False), (by_query, True)]:
        model = compile_model(
            layers, d_vocab=d_vocab, n_ctx=n_ctx, seed=seed, pos_in_stream=in_stream
        ).model
        for period in (3, 8, min(d_vocab, n_ctx // 2)):
            generator = torch.Generator().manual_seed(seed)
            once = torch.randperm(d_vocab, generator=generator)[:period]
            tokens = once.repeat(n_ctx // period + 1)[:n_ctx]
            guess = model(tokens)[period:-1].argmax(dim=-1)
            assert (guess == tokens[period + 1 :]).double().mean() >= 0.99, (in_stream, period)


@pytest.mark.parametrize("seed", range(3))
def test_only_planted_compositions_stand_out(seed: int) -> None:
    layers = [
        [previous_token(), duplicate_token(), positional(3)],
        [induction((0, 0)), previous_token(Remember(value=(0, 0))), scrambled()],
        [induction((1, 1)), Head("none", Match(query=(0, 1)), Copy()), copying()],
    ]
    compiled = compile_model(layers, d_vocab=17, n_ctx=36, seed=seed)
    assert compiled.compositions == [
        ("K", (0, 0), (1, 0)),
        ("K", (1, 1), (2, 0)),
        ("Q", (0, 1), (2, 1)),
        ("V", (0, 0), (1, 1)),
    ]
    above = composition_scores(compiled.model) - compiled.model.d_model**-0.5
    planted = torch.zeros_like(above, dtype=torch.bool)
    for kind, (layer_1, head_1), (layer_2, head_2) in compiled.compositions:
        planted["QKV".index(kind), layer_2, head_2, layer_1, head_1] = True
    assert above[planted].min() >= 0.05
    assert above[~planted].max() <= 0.02


def test_a_pointer_composes_through_queries() -> None:
    layers = [[dead(), pointer()], [pointer_induction((0, 1)), dead()]]
    compiled = compile_model(layers, d_vocab=11, n_ctx=20, seed=4, pos_in_stream=True)
    assert compiled.compositions == [("Q", (0, 1), (1, 0))]
    above = composition_scores(compiled.model)[:, 1, :, 0] - compiled.model.d_model**-0.5
    assert above.argmax() == 1  # kind Q, reader 0, writer 1 in (3, 2, 2)
    assert above.flatten().topk(2).values.diff() <= -0.05


@pytest.mark.parametrize("seed", range(3))
def test_a_pointer_settles_on_the_latest_copy(seed: int) -> None:
    layers = [[pointer(), dead()], [pointer_induction((0, 0)), scrambled()]]
    model = compile_model(layers, d_vocab=11, n_ctx=42, seed=seed, pos_in_stream=True).model
    tokens = torch.arange(5).repeat(9)[:42]
    _, cache = model.run_with_cache(tokens)
    far = distance(42)
    assert attention_on(cache, (0, 0), far == 5).min() >= LEAST
    assert attention_on(cache, (1, 0), far == 4)[1:].min() >= LEAST  # position 4 has no copy yet


def test_virtual_head_of_two_previous_token_heads_reaches_two_back() -> None:
    layers = [[previous_token()], [previous_token(Remember(value=(0, 0)))], [induction((1, 0))]]
    compiled = compile_model(layers, d_vocab=15, n_ctx=50, seed=6)
    tokens = text(15, 50, seed=6)
    tokens[1:][tokens[1:] == tokens[0]] = (tokens[0] + 1) % 15  # position 0 has nothing before it
    _, cache = compiled.model.run_with_cache(tokens)
    assert attention_on(cache, (2, 0), after_copies(tokens, back=2)).min() >= LEAST


@pytest.mark.parametrize("sharpness", [1.0, 2.0, 4.0])
def test_sharpness_is_the_promise_about_attention(sharpness: float) -> None:
    layers = [[previous_token(sharpness=sharpness)], [induction((0, 0), sharpness=sharpness)]]
    model = compile_model(layers, d_vocab=20, n_ctx=40, seed=1, noise=0.0).model
    _, cache = model.run_with_cache(text(20, 40, seed=1))
    least = attention_on(cache, (0, 0), distance(40) == 1).min()
    assert 1 / (1 + exp(-sharpness)) <= least <= 0.9999
    assert previous_token().attend == previous_token(sharpness=SHARPNESS).attend


@settings(max_examples=30, deadline=None)
@given(
    n_ctx=st.integers(2, 40),
    n_waves=st.integers(3, 12),
    seed=st.integers(0, 2**31),
    d_vocab=st.integers(2, 9),
)
def test_margins_hold_for_any_geometry(n_ctx: int, n_waves: int, seed: int, d_vocab: int) -> None:
    """Without noise every right source beats every wrong one by the declared nats."""
    margin = log(n_ctx) + SHARPNESS
    layers = [[previous_token(), duplicate_token()]]
    options = {"noise": 0.0, "n_waves": n_waves, "dtype": torch.float64}
    model = compile_model(layers, d_vocab=d_vocab, n_ctx=n_ctx, seed=seed, **options).model
    tokens = text(d_vocab, n_ctx, seed % 2**20)
    _, cache = model.run_with_cache(tokens)
    far = distance(n_ctx)
    right = {
        (0, 0): far == 1,
        (0, 1): (tokens[:, None] == tokens) & (far > 0),
    }
    for (layer, head), targets in right.items():
        scores = cache.scores[layer, head]
        for dst in range(n_ctx):
            if targets[dst].any():
                wrong = scores[dst, (far[dst] >= 0) & ~targets[dst]]
                assert scores[dst, targets[dst]].min() - wrong.max() >= margin * (1 - 1e-6)


@settings(max_examples=40, deadline=None)
@given(
    p=st.integers(0, 60),
    k=st.integers(-60, 60),
    n_waves=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_a_shift_is_a_rotation_of_the_waves(p: int, k: int, n_waves: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    g = Geometry(5, 60, frequencies(n_waves, 60, generator), generator)
    at = g.waves(torch.tensor([float(p), float(p + k)], dtype=torch.float64))
    torch.testing.assert_close(at[0] @ g.shift(k), at[1])
    torch.testing.assert_close(g.shift(k) @ g.shift(k).mT, torch.eye(2 * n_waves).double())
    assert g.sidelobe < 1


@pytest.mark.parametrize("n_ctx", [2, 5, 12, 33])
def test_enough_waves_keep_positions_exactly_apart(n_ctx: int) -> None:
    generator = torch.Generator()
    g = Geometry(5, n_ctx, frequencies(n_ctx, n_ctx, generator), generator)
    at = g.waves(torch.arange(n_ctx, dtype=torch.float64))
    torch.testing.assert_close(at @ at.mT, torch.eye(n_ctx).double())
    assert g.sidelobe <= 1e-12


def test_turning_hides_the_axes_and_changes_nothing_else() -> None:
    generator = torch.Generator().manual_seed(3)
    before = compile_model([[positional(2)], [copying()]], d_vocab=9, n_ctx=12, seed=3, noise=0.0)
    model = before.model.to(torch.float64)
    turned = turn(model, generator)
    tokens = text(9, 12, seed=3)
    torch.testing.assert_close(turned(tokens), model(tokens))
    for name, weight in turned.weights().items():
        assert not torch.allclose(weight, getattr(model, name), atol=0.05), name


def test_nothing_can_be_read_off_an_axis() -> None:
    """Rows of a Gaussian matrix have kurtosis 3; one-hot rows have d_model."""
    model = zoo(24, 40, seed=2, noise=0.0).model
    for name in ("W_E", "W_pos", "W_O"):
        rows = getattr(model, name).flatten(0, -2)
        rows = rows[rows.norm(dim=-1) > 1e-3]
        kurtosis = rows.shape[-1] * rows.pow(4).sum(-1) / rows.square().sum(-1).square()
        assert kurtosis.mean() <= 3.5, name
        assert kurtosis.max() <= 12, name
    for name in ("W_Q", "W_K", "W_V"):
        columns = getattr(model, name)[0, 0].mT  # the coordinates inside a head mean nothing either
        assert (columns.norm(dim=-1) > 1e-3).all(), name


def test_same_seed_same_model_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, same, other = zoo(13, 20, 7), zoo(13, 20, 7), zoo(13, 20, 8)
    assert torch.equal(torch.get_rng_state(), state)
    for name, weight in one.model.weights().items():
        assert torch.equal(weight, same.model.weights()[name])
        assert not torch.equal(weight, other.model.weights()[name])
        assert weight.dtype == torch.float32
    assert zoo(13, 20, 7, dtype=torch.float64).model.W_E.dtype == torch.float64


def test_the_truth_that_comes_with_a_model() -> None:
    compiled = zoo(13, 20, seed=0)
    first = ["previous", "duplicate", "positional", "skip_trigram", "none", "none"]
    second = ["induction", "anti_copying", "copying", "anti_copying", "none", "none"]
    labels = [*first, *second]
    assert compiled.heads == {(i // 6, i % 6): label for i, label in enumerate(labels)}
    assert compiled.skip_trigrams == FORCED
    assert compiled.compositions == [("K", (0, 0), (1, 0)), ("K", (0, 0), (1, 1))]


def test_planted_skip_trigrams_are_the_large_entries_of_the_circuits() -> None:
    model = zoo(24, 40, seed=1).model
    qk = full_qk_circuit(model.W_E, model.W_Q[0, 3], model.W_K[0, 3])
    ov = full_ov_circuit(model.W_E, model.W_V[0, 3], model.W_O[0, 3], model.W_U)
    large = [
        (s, d, o)
        for d, s in (qk > 0.5 * qk.max()).nonzero().tolist()
        for o in (ov[s] > 0.5 * ov.max()).nonzero().flatten().tolist()
    ]
    assert sorted(large) == FORCED


def test_sizes_can_be_chosen() -> None:
    compiled = compile_model(
        [[previous_token()]], d_vocab=7, n_ctx=11, seed=0, d_model=90, d_head=31, n_waves=3
    )
    assert (compiled.model.d_model, compiled.model.d_head) == (90, 31)
    assert isinstance(compiled.model, Transformer)


BASE = {"d_vocab": 10, "n_ctx": 12, "seed": 0}
WITHOUT_MEMORY = [[copying()], [induction((0, 0))]]


@pytest.mark.parametrize(
    ("layers", "options", "message"),
    [
        ([], {}, "at least one head"),
        ([[], []], {}, "at least one head"),
        ([[induction((0, 0))]], {}, r"\(0, 0\) \(induction\) reads \(0, 0\), which is no head of"),
        ([[previous_token()], [induction((0, 3))]], {}, r"reads \(0, 3\), which is no head of an"),
        (WITHOUT_MEMORY, {}, r"reads a token from \(0, 0\), which remembers nothing"),
        ([[previous_token()], [pointer_induction((0, 0))]], {}, "reads a position from .* token"),
        ([[pointer()], [induction((0, 0))]], {"pos_in_stream": True}, "a token from .* position"),
        ([[pointer()]], {}, "takes pos_in_stream=True"),
        ([[positional(12)]], {}, "looks 12 back, and n_ctx is 12"),
        ([[skip_trigrams([(1, 2, 10)])]], {}, "names token 10; ids are 0 … 9"),
        ([[skip_trigrams([(1, -1, 2)])]], {}, "names token -1"),
        ([[previous_token()]], {"d_model": 20}, "need d_model ≥ 4[0-9]; 20 came"),
        ([[previous_token()]], {"d_head": 4}, "need d_head ≥ 14; 4 came"),
    ],
)
def test_what_cannot_be_built_is_named(
    layers: list[list[Head]], options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        compile_model(layers, **{**BASE, **options})


def test_positional_means_two_back_or_more() -> None:
    with pytest.raises(ValueError, match="at least 2; 1 came"):
        positional(1)
