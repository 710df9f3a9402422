"""The induction workshop: each knob does what it says, and the sentence says what happened."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from matplotlib import pyplot

from grader import models
from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import induction, previous_token
from grader.circuits.induction_by_hand import induction_by_k_composition
from grader.circuits.induction_heads import find_induction_heads, prefix_matching_score
from grader.lab import induction_workshop
from grader.lab.widgets import workshop
from grader.lab.widgets.workshop import (
    LETTERS,
    N_CTX,
    by_hand,
    found_in,
    random_text,
    run,
    successors,
)
from grader.lab.widgets.workshop_widget import InductionWorkshop
from grader.transformer import Transformer

TEXT = torch.tensor([3, 1, 4, 3, 1, 4, 3, 1])


def by_hand_shown() -> InductionWorkshop:
    shown = induction_workshop()
    assert isinstance(shown, InductionWorkshop)
    return shown


@pytest.mark.parametrize("strength", [-1.0, 0.5, 2.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_edits_are_what_a_circuit_declared_so_would_be(strength: float, temperature: float) -> None:
    """Strength is the declared one times a factor, and all scores are divided by the temperature."""
    declared = compile_model(
        [[previous_token()], [induction(previous=(0, 0), strength=8.0 * strength)]],
        d_vocab=len(LETTERS), n_ctx=N_CTX, seed=0, noise=0.0, bigrams=0.0,
    ).model  # fmt: skip
    edited = by_hand(1).edited(strength, temperature)
    expected = declared.with_weights(W_K=declared.W_K / temperature)
    torch.testing.assert_close(edited(TEXT), expected(TEXT), atol=1e-4, rtol=1e-4)


def test_an_edit_leaves_other_heads_and_the_model_itself_as_they_were() -> None:
    model = models.load("two-layer-curriculum")
    circuit = found_in(model)
    before = {name: weight.clone() for name, weight in model.weights().items()}
    edited = circuit.edited(0.0, 2.0)
    for name, weight in model.weights().items():
        assert torch.equal(weight, before[name])
    changed = (edited.W_Q != model.W_Q).flatten(2).any(dim=-1).nonzero().tolist()
    assert sorted(map(tuple, changed)) == sorted([circuit.previous, circuit.induction])
    silent = (edited.W_O == 0).flatten(2).all(dim=-1).nonzero().tolist()
    assert silent == [list(circuit.induction)]


def test_the_circuit_found_in_a_model_is_an_induction_head_and_its_previous_token_head() -> None:
    model = models.load("two-layer-curriculum")
    circuit = found_in(model)
    assert circuit.induction in find_induction_heads(model)
    about = models.card("two-layer-curriculum")["figures"]
    assert list(circuit.previous) == about["previous_token_head"]


def test_successors_are_those_of_the_latest_copy_that_go_on_alike() -> None:
    #  position: 0 1 2 3 4 5 6; the 1 at position 3 goes on with 5 and not with 2.
    assert successors([1, 2, 9, 1, 5, 1, 5]).tolist() == [-1, -1, -1, -1, -1, 4]
    assert successors([1, 1, 1]).tolist() == [-1, 1]


def test_outcomes_are_those_of_the_model_and_the_reference_scores() -> None:
    circuit = by_hand(1)
    text = random_text(len(LETTERS), N_CTX, seed=3)
    outcome = run(circuit, text, 0.7, 2.0)
    logits, cache = circuit.edited(0.7, 2.0).run_with_cache(text)
    chances = logits[:-1].softmax(dim=-1)[torch.arange(len(text) - 1), text[1:]]
    torch.testing.assert_close(outcome.probability, chances)
    assert torch.equal(outcome.looked, cache.pattern[1, 0])
    assert int(outcome.known.sum()) == len(text) - 1 - 7
    # The last row predicts nothing. The reference counts position 0 too, as if a copy went before.
    score = prefix_matching_score(outcome.looked[:-1, :-1], 7)
    assert outcome.matching() == pytest.approx(float(score), abs=1e-4)


def test_matching_counts_the_successors_of_all_earlier_copies_and_nothing_else() -> None:
    looked = torch.eye(8).roll(-2, dims=1)  # two back: after the latest copy in a text of period 3
    looked[6] = torch.tensor([0, 0.3, 0, 0, 0.5, 0, 0.2, 0])  # after both copies, and at itself
    outcome = dataclasses.replace(run(by_hand(1), TEXT, 1.0, 1.0), looked=looked)
    assert outcome.known.nonzero()[:, 0].tolist() == [3, 4, 5, 6]
    assert outcome.matching() == pytest.approx((3 + 0.8) / 4)


@pytest.mark.parametrize("offset", workshop.OFFSETS)
def test_looking_k_back_predicts_the_token_k_steps_on(offset: int) -> None:
    shown = by_hand_shown()
    shown.offset.value = offset
    outcome = shown.outcome()
    places = outcome.known.nonzero()[:, 0]
    places = places[places + offset < len(outcome.tokens)]
    assert torch.equal(outcome.guess[places], outcome.tokens[places + offset])
    if offset == 1:
        assert "it works" in shown.message
    else:
        assert "0 of 13 right" in shown.message
        said = "repeat the present token" if offset == 0 else f"the token {offset} steps on"
        assert said in shown.message


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({}, "13 of 13 right. The later head gives 100% of its attention to what came after"),
        ({"strength": 0.1}, "too weak"),
        ({"strength": 0.0}, "0 of 13 right. The later head gives 100% of its attention"),
        ({"strength": 0.0}, "writes nothing"),
        ({"strength": -1.0}, "lowers what it finds"),
        ({"temperature": 8.0}, "at temperature 8 the rest is spread"),
    ],
)
def test_the_sentence_says_why(knobs: dict[str, float], words: str) -> None:
    shown = by_hand_shown()
    for name, value in knobs.items():
        getattr(shown, name).value = value
    assert words in shown.message


def test_in_a_trained_model_other_heads_still_do_it() -> None:
    shown = induction_workshop(models.load("two-layer-curriculum"))
    assert shown.offset.disabled
    assert "it works" in shown.message
    shown.strength.value = 0.0
    assert "other heads are right without it" in shown.message


def test_the_page_shows_the_outcome_and_follows_its_controls() -> None:
    shown = by_hand_shown()
    shown.text.value = "banana band"

    def row(name: str) -> list[str]:
        found = re.search(rf"<th scope='row'>{name}</th>(.*?)</tr>", shown.predictions.value)
        assert found
        return re.findall(r"<td[^>]*>([^<]*)</td>", found[1])

    assert row("token") == list("bananaban")
    assert row("comes next") == list("ananaband")
    outcome = run(by_hand(1), workshop.letters("banana band"), 1.0, 1.0)
    assert row("guess") == [LETTERS[token] for token in outcome.guess]
    assert row("% for it") == [f"{100 * chance:.0f}" for chance in outcome.probability.tolist()]
    assert row(r"right\?") == ["·", "·", "·", "✔", "✔", "·", "✔", "·", "·"]
    weights = re.findall(r"looks at \w \(position \d+\): (\d\.\d{3})", shown.patterns.value)
    lower = torch.tril_indices(10, 10)
    patterns = torch.cat([outcome.looked_back[*lower], outcome.looked[*lower]])
    assert weights == [f"{weight:.3f}" for weight in patterns.tolist()]
    shown.strength.value = -1.0
    assert row(r"right\?")[3] == "✘"
    shown.reset.click()
    assert (shown.strength.value, shown.text.value) == (1.0, "banana band")
    assert row(r"right\?")[3] == "✔"
    before = shown.predictions.value
    shown.another.click()
    assert shown.text.value == ""
    assert shown.predictions.value != before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "One token can only look at itself"),
        ("ab" * 30, "has 60 tokens; the model reads at most 48"),
        ("ab12ab12", "knows the letters a … z; 1 2 came"),
        ("abcdef", "no token comes again"),
    ],
)
def test_a_text_that_cannot_be_used_is_said_and_the_last_stays(text: str, words: str) -> None:
    shown = by_hand_shown()
    before = shown.predictions.value
    shown.text.value = text
    assert words in shown.message
    assert shown.predictions.value == before
    assert shown._repr_mimebundle_()[0]["image/png"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (models.load("one-layer"), "at least 2 layers; this one has 1"),
        (3, "a int came"),
        (
            Transformer.random(n_layers=2, n_heads=1, d_model=4, d_head=2, d_vocab=9, n_ctx=12),
            "No head of this model matches prefixes and copies",
        ),
        (
            Transformer.random(n_layers=2, n_heads=1, d_model=4, d_head=2, d_vocab=2, n_ctx=12),
            "need d_vocab ≥ 3",
        ),
    ],
)
def test_a_model_without_an_induction_circuit_is_said(model: object, words: str) -> None:
    assert words in induction_workshop(model).message  # type: ignore[arg-type]


def test_a_circuit_of_ones_own_can_be_edited_by_ids(capfd: pytest.CaptureFixture[str]) -> None:
    shown = induction_workshop(induction_by_k_composition(9, 20))
    assert "it works" in shown.message
    shown.text.value = "1 2 3 1 2 3"
    assert "2 of 2 right" in shown.message
    shown.text.value = "1 2 3 1 2 9"
    assert "knows the tokens 0 … 8; 9 came" in shown.message
    data, _ = shown._repr_mimebundle_()
    assert data["image/png"]
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")
