"""The last page's table: names that exist, figures that are measured, remarks that are true."""

from __future__ import annotations

import re

import pytest
import torch

from grader import exercises, resources
from grader.lab import path_losses, results
from grader.models import card, checkpoints, load


@pytest.mark.parametrize("result", results.RESULTS, ids=lambda r: r.claim)
def test_a_result_names_its_exercises_and_its_remark_is_true(result: results.Result) -> None:
    assert {exercises.registry()[name].notebook for name in result.exercises} == {result.notebook}
    assert result.true(), result.remark


def test_every_notebook_has_its_results_in_the_courses_order() -> None:
    notebooks = [result.notebook for result in results.RESULTS]
    assert notebooks == sorted(notebooks)
    assert list(dict.fromkeys(notebooks)) == list(exercises.NOTEBOOKS)


def test_the_figures_are_those_of_the_cards() -> None:
    text = repr(results.table())
    one, two = (card(name)["figures"] for name in ("one-layer", "two-layer"))
    assert f"{one['copying_heads']} of {one['heads']} heads" in text
    assert f"two-layer: {two['in_context_score']:.2f} nats" in text
    assert f"{two['compositions'][1][1][0]:+.3f} above chance" in text
    for effect in path_losses.EFFECTS[:3]:
        assert f"paper: {effect.paper:g} nats" in text


def test_each_row_links_to_its_notebook() -> None:
    page = results.table()._repr_html_()
    links = re.findall(r'href="\.\./([^"]+)"', page)
    assert len(links) == len(results.RESULTS) == page.count("<tr>") - 1
    for link in links:
        assert (resources.course_dir() / link).is_file()


def test_induction_heads_are_counted_by_both_scores() -> None:
    figures = {
        "prefix_matching_random": [[0.9], [0.9, 0.9, 0.1, 0.4]],
        "ov_positivity": [[0.9], [0.9, -0.9, 0.9, 0.5]],
    }
    assert results.induction_heads(figures) == 2


def test_one_eigenvalue_rules_the_score_of_the_heads_that_notebook_03_names() -> None:
    model = load("one-layer")
    small = (model.W_O[0] @ model.W_U) @ (model.W_E @ model.W_V[0])
    for head, values in enumerate(torch.linalg.eigvals(small.double())):
        largest = int(values.abs().argmax())
        rest = values[torch.arange(len(values)) != largest]
        score = float(rest.real.sum() / rest.abs().sum())
        assert (float(values[largest].real) < 0 and score >= 0.5) == (head <= 3)


def test_the_snapshots_change_as_notebook_05_tells_it() -> None:
    """Up to step 275 as if nothing were learned; by 400 more than 5 nats less on the second copy."""
    once = torch.stack([torch.randperm(2048, generator=torch.Generator().manual_seed(2))[:50]])
    tokens, loss = once.repeat(1, 2), {}
    for step, model in checkpoints("two-layer-curriculum"):
        if step in (0, 275, 300, 400):
            log_probs = model(tokens)[:, 50:-1].log_softmax(dim=-1)
            loss[step] = -float(log_probs.gather(-1, tokens[:, 51:, None]).mean())
    assert abs(loss[275] - loss[0]) <= 0.5
    assert loss[300] - loss[400] > 5


def test_the_models_are_as_notebook_06_compares_them_with_the_papers() -> None:
    text, curriculum = (results.term_effects(name) for name in results.TWO)
    assert 1 < curriculum[1] <= text[1] < 2  # single heads: "more than one nat", "less than 2"
    assert text[0] > 1.8  # "the direct path saves more than the paper's"
    assert text[5] >= 2 * text[3]  # "layer 1 much more than layer 0"
    assert text[4] >= 5 * 0.05  # "clearly more in ours"
    assert text[1] / 8 >= 20 * text[2] / 16  # one single head against one virtual one


def test_a_cut_costs_what_notebook_04_says_and_scores_do_not_foretell() -> None:
    """Below chance in every pair, and still the dearest cut."""
    figures = card("two-layer-curriculum")["figures"]
    rises = {k: figures["loss_without"][k] - figures["terms"]["loss"] for k in "QKV"}
    scores = torch.tensor(figures["compositions"])
    assert float(scores[2].max()) < 0
    assert rises["V"] == max(rises.values())
    plain = torch.tensor(card("two-layer")["figures"]["compositions"])
    assert int((plain > 0.005).sum()) == 1  # "one square stands out"
    assert float(plain[1].max()) == float(plain.max()) > 0.05
