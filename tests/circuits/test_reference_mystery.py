"""Mystery models: drawn from a seed, proved by behavior, with decoys that could be taken for circuits."""

from __future__ import annotations

import pytest
import torch

from grader.circuits import mystery as drawing
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
