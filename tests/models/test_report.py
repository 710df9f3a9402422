"""The shipped models hold the bars, measured from their weights; the report prints them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from grader.models import bigram_counts, card, load, report, shelf
from grader.models.recipes import catalogue
from grader.models.recipes.measure import rows_of, token_losses
from grader.models.recipes.skip_trigrams import load_findings, probability
from grader.models.recipes.zero_layer import entropy_of, table_loss
from grader.models.text import sample_tokens

TWO = ["two-layer", "two-layer-curriculum"]


@cache
def measured(name: str) -> dict[str, Any]:
    return report.figures_of(name, load(name))


def test_zero_layer_is_near_the_bigram_floor_and_wider_is_nearer() -> None:
    assert 0 <= measured("zero-layer")["gap"] <= 0.05
    gaps = list(card("zero-layer")["gap_by_d_model"].values())
    assert gaps == sorted(gaps, reverse=True)


def test_one_layer_copies_and_looks_back() -> None:
    found = measured("one-layer")
    assert found["copying_heads"] >= 3
    assert sum(score > 0 for score in found["ov_positivity"]) >= found["heads"] / 2
    assert max(found["attention_to_last_5"]) >= 0.7
    assert max(found["first_position"]) < 0.9


def test_one_layer_beats_the_bigram_table() -> None:
    one, zero = card("one-layer")["loss"], card("zero-layer")["loss"]
    assert all(one[kind] < zero[kind] - 0.4 for kind in one)


def test_skip_trigrams_and_bugs_are_in_the_weights() -> None:
    found, model = load_findings(), load("one-layer")
    assert len(found["skip_trigrams"]) >= 20
    assert len(found["bugs"]) >= 5
    for bug in found["bugs"][:5]:
        seen = probability(model, sample_tokens(), tuple(bug["tokens"]))
        assert seen is not None
        assert abs(seen[1] - bug["with"]) <= 1e-3
        assert seen[1] >= 2 * seen[0]
        assert 100 * bug["count"] <= min(bug["part_counts"])


@pytest.mark.parametrize("name", TWO)
def test_two_layers_compose_into_an_induction_head(name: str) -> None:
    found = measured(name)
    layer, head = found["induction_head"]
    previous = found["previous_token_head"][1]
    assert found["largest_composition"][:3] == ["K", head, previous]
    assert found["ov_positivity"][layer][head] >= 0.9
    assert found["composed_qk_positivity"] >= 0.9
    assert found["largest_first_position"] < 0.9
    assert found["in_context_score"] < -0.15
    assert found["loss_without"]["K"] > found["terms"]["loss"] + 0.1


@pytest.mark.parametrize("name", TWO)
def test_no_head_ever_rested_on_the_first_token(name: str) -> None:
    for entry in card(name)["log"]:
        assert all(share < 0.9 for layer in entry["first_position"] for share in layer)


def test_the_natural_model_copies_held_out_code() -> None:
    found = measured("two-layer")
    assert found["second_copy_gain"] >= 1.2
    assert max(found["prefix_matching_code"][1]) >= 0.35
    assert max(found["prefix_matching_random"][1]) >= 0.5
    assert max(found["previous_token"][0]) >= 0.6


def test_the_natural_models_seeds_were_tried_at_equal_budgets() -> None:
    tried = card("two-layer")["others_tried"].values()
    assert [run["steps"] for run in tried] == [6500] * 3


def test_the_curriculum_model_copies_what_no_text_holds() -> None:
    found = measured("two-layer-curriculum")
    assert max(found["prefix_matching_random"][1]) >= 0.8
    assert found["random_accuracy"] >= 0.9
    assert max(found["previous_token_random"][0]) >= 0.8


def test_single_heads_of_the_second_layer_matter_most_in_the_natural_model() -> None:
    terms = measured("two-layer")["terms"]
    assert terms["virtual_heads"] < 0.3 < terms["single_heads"]
    assert terms["layer_1_after_direct"] > 2 * terms["layer_0_after_direct"]
    assert terms["layer_1_after_layer_0"] > 2 * terms["layer_0_after_layer_1"]


def test_the_change_is_visible_in_the_checkpoints() -> None:
    runs = card(shelf.CHECKPOINTS)["runs"]
    sharp = runs["two-layer-curriculum"]["change"]
    assert sharp[0]["random_accuracy"] < 0.05
    assert max(seen["random_accuracy"] for seen in sharp) >= 0.9
    slow = runs["two-layer"]["change"]
    assert slow[0]["second_copy_gain"] < 0.3
    assert slow[-1]["second_copy_gain"] >= 1.0


@pytest.mark.parametrize("name", ["one-layer", *TWO])
def test_losses_on_the_card_are_those_of_the_weights(name: str) -> None:
    model = load(name)
    rows = rows_of(sample_tokens("code"), report.ROWS, model.n_ctx)
    loss = float(token_losses(model, rows).mean())
    assert abs(loss - card(name)["loss"]["code"]) <= 1e-3


@pytest.mark.long
def test_the_report_prints_the_papers_figures_beside_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report.main() == 0
    printed = capsys.readouterr().out
    for expected in ("10 of 12", "paper: 5.2", "bugs", "two-layer-curriculum", "gap"):
        assert expected in printed


@pytest.mark.long
def test_zero_layer_can_be_made_again(tmp_path: Path) -> None:
    model = catalogue.train("zero-layer", out=tmp_path)
    counts = bigram_counts()
    loss = table_loss(model.W_E, model.W_U, counts)
    shipped = load("zero-layer")
    assert abs(loss - table_loss(shipped.W_E, shipped.W_U, counts)) <= 0.005
    assert loss - entropy_of(counts) <= 0.05
    assert (tmp_path / "zero-layer.safetensors").is_file()
