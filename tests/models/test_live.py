"""Training in front of a learner."""

from __future__ import annotations

import pytest
import torch

from grader.models import floors
from grader.models.recipes.live import (
    induction_accuracy,
    induction_rows,
    predictable,
    train_induction,
    train_zero_layer,
)
from grader.models.recipes.zero_layer import count_bigrams, table_loss


def test_rows_start_with_0_and_repeat() -> None:
    tokens, periods = induction_rows(50, torch.Generator().manual_seed(3))
    assert tokens.shape == (50, 49)
    assert (tokens[:, 0] == 0).all()
    assert (tokens[:, 1:] > 0).all()
    assert periods.min() >= 8
    assert periods.max() <= 24
    for row, period in zip(tokens, periods.tolist(), strict=True):
        assert torch.equal(row[1 + period :], row[1:-period])
        assert len(set(row[1 : 1 + period].tolist())) == period


def test_predictable_is_where_the_token_before_was_seen_with_its_successor() -> None:
    tokens, periods = induction_rows(20, torch.Generator().manual_seed(4))
    for row, chosen in zip(tokens.tolist(), predictable(periods).tolist(), strict=True):
        for i, mine in enumerate(chosen):
            assert mine == (row[i] in row[:i])


def test_two_layers_change_suddenly_and_one_layer_does_not() -> None:
    model, losses = train_induction(seed=0, n_layers=2, steps=200)
    assert induction_accuracy(model) >= 0.95
    assert losses[50] > 3
    one, flat = train_induction(seed=0, n_layers=1, steps=150)
    assert induction_accuracy(one) < 0.5
    assert min(flat) > 2


@pytest.mark.long
def test_the_change_comes_for_nine_seeds_of_ten() -> None:
    reached = [
        induction_accuracy(train_induction(seed=seed, n_layers=2)[0]) >= 0.95 for seed in range(10)
    ]
    assert sum(reached) >= 9
    single = [
        induction_accuracy(train_induction(seed=seed, n_layers=1)[0]) < 0.5 for seed in range(3)
    ]
    assert all(single)


def test_same_seed_same_table_and_every_step_is_reported() -> None:
    tokens = floors()[0]["tokens"][:5000]
    seen: list[tuple[int, int, float]] = []
    first = train_zero_layer(
        tokens, 96, 4, seed=7, steps=30, progress=lambda *step: seen.append(step)
    )
    again = train_zero_layer(tokens, 96, 4, seed=7, steps=30)
    other = train_zero_layer(tokens, 96, 4, seed=8, steps=30)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert [step for step, _, _ in seen] == list(range(1, 31))
    assert seen[-1][2] < seen[0][2]


@pytest.mark.parametrize("case", floors(), ids=lambda case: case["name"])
def test_live_training_reaches_the_floor(case: dict) -> None:
    counts = count_bigrams(case["tokens"], case["d_vocab"])
    W_E, W_U = train_zero_layer(case["tokens"], case["d_vocab"], case["d_model"], seed=11)
    assert W_E.shape == (case["d_vocab"], case["d_model"])
    loss = table_loss(W_E, W_U, counts)
    assert loss <= case["floor"] + 0.05
    assert loss >= case["bigram_entropy"] - 1e-6


def test_floors_are_agreed_on_by_their_runs_and_above_the_entropy() -> None:
    for case in floors():
        assert case["floor"] == min(case["runs"])
        assert max(case["runs"]) - case["floor"] <= 0.02
        assert case["floor"] >= case["bigram_entropy"]
        assert case["d_vocab"] <= 512
        assert int(case["tokens"].max()) < case["d_vocab"]
