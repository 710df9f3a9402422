"""The losses that notebook 06 shows: the same as the exercises', on many texts at once."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from grader.circuits import path_importance as one_text
from grader.lab import path_losses
from grader.transformer import Transformer


@pytest.fixture
def model() -> Transformer:
    return Transformer.random(
        n_layers=2, n_heads=3, d_model=8, d_head=4, d_vocab=11, n_ctx=9,
        generator=torch.Generator().manual_seed(5), dtype=torch.float64,
    )  # fmt: skip


@pytest.fixture
def texts() -> Tensor:
    return torch.randint(0, 11, (2, 7), generator=torch.Generator().manual_seed(6))


def test_orders_are_those_of_the_exercise(model: Transformer, texts: Tensor) -> None:
    expected = torch.stack([one_text.term_importance(row, model) for row in texts]).mean(dim=0)
    assert path_losses.by_order(model, texts) == pytest.approx(expected.tolist(), abs=1e-9)


def test_looking_anew_shows_at_order_one_only(model: Transformer, texts: Tensor) -> None:
    frozen = path_losses.by_order(model, texts)
    anew = path_losses.by_order(model, texts, frozen=False)
    assert abs(frozen[1] - anew[1]) > 1e-3
    assert [frozen[0], frozen[2]] == pytest.approx([anew[0], anew[2]], abs=1e-9)


def test_heads_that_cost_nothing_keep_the_sum(model: Transformer, texts: Tensor) -> None:
    whole = sum(path_losses.groups(model, texts).values())
    for free in ([(0, 1)], [(0, 0), (1, 2)], [(layer, h) for layer in (0, 1) for h in range(3)]):
        parts = path_losses.groups(model, texts, free=free)
        torch.testing.assert_close(sum(parts.values()), whole)
    torch.testing.assert_close(parts["direct"], whole)  # with every head free, no path has length


def test_effects_are_those_of_the_exercises(model: Transformer, texts: Tensor) -> None:
    found = path_losses.effects(model, texts)
    orders = torch.stack([one_text.term_importance(row, model) for row in texts]).mean(dim=0)
    assert found[0] == pytest.approx(math.log(11) - float(orders[0]), abs=1e-9)
    assert found[1:3] == pytest.approx((orders[:-1] - orders[1:]).tolist(), abs=1e-9)
    for layer in (0, 1):
        each = [torch.stack(one_text.marginal_effect(row, model, layer)) for row in texts]
        expected = torch.stack(each).mean(dim=0).tolist()
        assert found[3 + 2 * layer : 5 + 2 * layer] == pytest.approx(expected, abs=1e-9)


def test_rises_are_those_of_the_exercise(model: Transformer, texts: Tensor) -> None:
    each = [one_text.virtual_head_importance(row, model) for row in texts]
    found = path_losses.without_virtual(model, texts)
    torch.testing.assert_close(found.double(), torch.stack(each).mean(dim=0), atol=1e-6, rtol=0)


def test_the_table_shows_the_paper_beside_ours(model: Transformer, texts: Tensor) -> None:
    table = path_losses.table({"<ours>": model}, texts)
    first = repr(table).splitlines()
    assert first[0].split() == ["terms", "added", "to", "paper", "<ours>"]
    assert "0.30 (144 terms, 0.002 each)" in first[3]
    assert "(9 terms" in first[3]
    assert "&lt;ours&gt;" in table._repr_html_()
    assert "video" in table._repr_html_()
