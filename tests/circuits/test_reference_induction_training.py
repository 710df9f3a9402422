"""Notebook 05, live: two layers learn induction suddenly, one layer does not."""

from __future__ import annotations

import pytest
import torch

from grader.circuits import induction_training
from grader.circuits.composition import composition_table
from grader.circuits.induction_heads import phase_change_step, train_induction
from grader.circuits.induction_training import induction_accuracy, induction_rows


def test_rows_are_what_the_task_says() -> None:
    tokens, predictable = induction_rows(300, torch.Generator().manual_seed(0))
    assert tokens.shape == (300, 49)
    assert predictable.shape == (300, 48)
    periods = set()
    for row, flags in zip(tokens.tolist(), predictable.tolist(), strict=True):
        assert row[0] == 0
        period = next(p for p in range(1, 49) if row[1 + p] == row[1])
        periods.add(period)
        assert len(set(row[1 : 1 + period])) == period
        assert all(row[i] == row[i - period] for i in range(1 + period, 49))
        seen_before = [row[i] in row[1:i] for i in range(48)]
        assert flags == seen_before
    assert periods == set(range(8, 25))
    assert tokens[:, 1:].min() == 1
    assert tokens.max() == 63


def test_same_seed_same_run_and_the_global_generator_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(induction_training, "STEPS", 5)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    with torch.no_grad():  # as a caller may have it
        one, losses = train_induction(7, 2)
    same, same_losses = train_induction(7, 2)
    other, _ = train_induction(8, 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert losses == same_losses
    assert len(losses) == 5
    for name, weight in one.weights().items():
        assert torch.equal(weight, same.weights()[name])
        assert not weight.requires_grad
        assert torch.equal(weight, other.weights()[name]) == (name == "W_pos")


def test_layers_are_counted() -> None:
    with pytest.raises(ValueError, match="n_layers must be a whole number, at least 1; 0 came"):
        train_induction(0, 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 5])
def test_two_layers_learn_induction_in_a_phase_change(seed: int) -> None:
    model, losses = train_induction(seed, 2)
    assert induction_accuracy(model, 200, torch.Generator().manual_seed(1)) >= 0.97
    assert losses[-1] <= 0.1
    assert 60 <= phase_change_step(losses) <= 300
    # The heads that do it compose through keys, and nothing else stands out like that.
    kind, _, _ = (composition_table(model) == composition_table(model).max()).nonzero()[0]
    assert kind == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 5])
def test_one_layer_does_not(seed: int) -> None:
    model, losses = train_induction(seed, 1)
    assert induction_accuracy(model, 200, torch.Generator().manual_seed(1)) <= 0.3
    assert losses[-1] >= 2.5
    assert phase_change_step(losses) == -1
