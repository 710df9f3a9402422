"""Mystery models: drawn from a seed, proved by behavior, with decoys that could be taken for circuits."""

from __future__ import annotations

import pytest
import torch

from grader.circuits import mystery as drawing
from grader.circuits import naming
from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import (
    anti_induction,
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
from grader.circuits.compiled_parts import Copy
from grader.circuits.mystery import HEADS_A_LAYER, LEVELS, draw_mystery
from grader.circuits.naming import LABELS, name_circuits
from grader.transformer import Transformer


@pytest.mark.parametrize("level", LEVELS)
def test_same_seed_same_model_and_the_truth_is_read_off_its_behavior(level: int) -> None:
    mystery = draw_mystery(3, level)
    again = draw_mystery.__wrapped__(3, level)
    for name, weight in mystery.model.weights().items():
        assert torch.equal(weight, again.model.weights()[name])
    assert mystery.model.n_layers == level
    assert len(mystery.truth["heads"]) == level * HEADS_A_LAYER
    assert set(mystery.truth["heads"].values()) <= set(LABELS)
    assert name_circuits(mystery.model) == mystery.truth


def test_the_global_generators_are_left_alone() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    draw_mystery.__wrapped__(4, 1)
    assert torch.equal(torch.get_rng_state(), state)


def test_declarations_promise_what_the_docstring_says() -> None:
    """From declarations alone: nothing is run, so many seeds are cheap."""
    for seed in range(6):
        one, two, three = (drawing._truth(drawing._compiled(seed, level, 0)) for level in LEVELS)
        assert "positional" in one["heads"].values()
        assert "anti_copying" in two["heads"].values()
        assert "none" in three["heads"].values()
        assert any(kind == "V" for kind, _, _ in three["compositions"])
        for truth in (two, three):
            assert "duplicate" in truth["heads"].values()
            kinds = {
                truth["heads"][reader] for kind, _, reader in truth["compositions"] if kind == "K"
            }
            assert kinds & {"anti_copying", "none"}, "a decoy that matches prefixes"
        for truth in (one, two, three):
            assert len(truth["skip_trigrams"]) == 5


def test_what_behaves_otherwise_than_declared_is_not_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = drawing._truth
    calls = []

    def lie_once(compiled: drawing.Compiled) -> dict[str, object]:
        calls.append(compiled)
        truth = honest(compiled)
        return truth | {"skip_trigrams": []} if len(calls) == 1 else truth

    monkeypatch.setattr(drawing, "_truth", lie_once)
    mystery = draw_mystery.__wrapped__(5, 1)
    assert mystery.model is calls[1].model

    monkeypatch.setattr(drawing, "_truth", lambda compiled: {})
    monkeypatch.setattr(drawing, "_ATTEMPTS", 2)
    with pytest.raises(RuntimeError, match="behaved as declared"):
        draw_mystery.__wrapped__(5, 1)


def test_decoys_are_told_from_what_they_resemble() -> None:
    layers = [
        [previous_token(), duplicate_token(Copy()), positional(3, Copy()), previous_token(Copy())],
        [induction((0, 0)), anti_induction((0, 0)), scrambled(3.0), dead()],
    ]
    compiled = compile_model(layers, d_vocab=15, n_ctx=26, seed=2)
    named = name_circuits(compiled.model)
    assert named["heads"] == compiled.heads
    assert named["skip_trigrams"] == []
    assert named["compositions"] == [("K", (0, 0), (1, 0)), ("K", (0, 0), (1, 1))]


def test_compositions_of_each_kind_are_seen_by_taking_an_input_away() -> None:
    layers = [
        [pointer(), previous_token()],
        [pointer_induction((0, 0)), duplicate_token(Copy(value=(0, 1)))],
    ]
    compiled = compile_model(layers, d_vocab=14, n_ctx=24, seed=3, pos_in_stream=True)
    assert name_circuits(compiled.model)["compositions"] == [
        ("Q", (0, 0), (1, 0)),
        ("V", (0, 1), (1, 1)),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_changes_are_those_of_one_input_less_of_one_head(seed: int) -> None:
    """One pair of heads after the other, with q, k and v computed again from what is left."""
    model = Transformer.random(
        n_layers=3, n_heads=2, d_model=7, d_head=3, d_vocab=6, n_ctx=5,
        generator=torch.Generator().manual_seed(seed), dtype=torch.float64,
        pos_in_stream=seed == 1,
    )  # fmt: skip
    cache = model.run_with_cache(torch.tensor([[0, 1, 2, 3, 4], [5, 4, 5, 4, 0]]))[1]
    stream, lengths = cache.stream[2], cache.head_out.norm(dim=-1)
    changes = naming._changes(model, cache, 2)
    for earlier, (before, writer) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        left = stream - cache.head_out[before, :, writer]
        for reader in range(2):
            whole, less = (
                (model.qk_input(x) @ model.W_Q[2, reader], model.qk_input(x) @ model.W_K[2, reader])
                for x in (stream, left)
            )
            pattern = pattern_of(*whole)
            for kind, other in (
                ("Q", pattern_of(less[0], whole[1])),
                ("K", pattern_of(whole[0], less[1])),
            ):
                moved = (pattern - other).abs().sum(dim=-1).mean() / 2
                torch.testing.assert_close(changes[kind][earlier, reader], moved)
            lost = pattern @ (stream - left) @ model.W_V[2, reader] @ model.W_O[2, reader]
            against = max(lengths[2, :, reader].mean(), lengths.mean() / 2)
            torch.testing.assert_close(
                changes["V"][earlier, reader], lost.norm(dim=-1).mean() / against
            )


def pattern_of(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1)


@pytest.mark.parametrize(("d_vocab", "n_ctx"), [(14, 24), (18, 24), (16, 32), (5, 12), (6, 7)])
def test_in_the_crowd_every_destination_follows_on_every_token(d_vocab: int, n_ctx: int) -> None:
    crowd, first = naming._crowd(d_vocab, n_ctx)
    seen = {
        (source, int(text[dst]))
        for text in crowd
        for dst in range(first, n_ctx)
        for source in text[:dst].tolist()
    }
    assert crowd.shape[1] == n_ctx
    assert len(seen) == d_vocab**2


def test_where_tokens_outnumber_positions_every_token_is_still_a_destination() -> None:
    crowd, first = naming._crowd(9, 4)
    assert set(crowd[:, first:].flatten().tolist()) == set(range(9))


def test_dead_heads_and_no_heads_answer_nothing() -> None:
    model = compile_model([[dead(), dead()]], d_vocab=14, n_ctx=24, seed=1).model
    silent = {"heads": {(0, 0): "none", (0, 1): "none"}, "skip_trigrams": [], "compositions": []}
    assert name_circuits(model) == silent
    heads = ("W_Q", "W_K", "W_V", "W_O")
    without = model.with_weights(**{name: getattr(model, name)[:0] for name in heads})
    assert name_circuits(without) == silent | {"heads": {}}


def test_the_bug_is_part_of_the_truth() -> None:
    compiled = compile_model(
        [[skip_trigrams([(1, 5, 9), (1, 6, 10)])]], d_vocab=14, n_ctx=24, seed=1
    )
    named = name_circuits(compiled.model)
    assert named["skip_trigrams"] == [(1, 5, 9), (1, 5, 10), (1, 6, 9), (1, 6, 10)]
    assert named["heads"] == {(0, 0): "skip_trigram"}


def test_other_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="1, 2 or 3; 4 came"):
        draw_mystery(0, 4)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_nearly_every_first_attempt_is_proved(level: int) -> None:
    compiled = [drawing._compiled(1000 + seed, level, 0) for seed in range(40)]
    proved = [name_circuits(one.model) == drawing._truth(one) for one in compiled]
    assert sum(proved) >= 38
