"""The capstone: own models and fresh ones, partial credit, answers in many forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grader.circuits.mystery import LEVELS, draw_mystery
from grader.exercises.mystery_models import NAME_CIRCUITS, own
from grader.exercises.mystery_models.known import known_truth, name_circuits
from grader.exercises.mystery_models.reading import Named, f1, read_claims
from grader.judge.draw import Draw
from grader.judge.judge import judge_here
from grader.judge.reading import Unreadable
from grader.judge.spec import Case
from grader.judge.verdict import Status
from grader.lab import mystery
from grader.transformer import Transformer

SEED = 2


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADER_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def models(seed: int = SEED) -> list[Transformer]:
    return [case.args[0] for case in NAME_CIRCUITS.cases(Draw(seed))]


def test_own_models_are_kept_and_asked_about_first(data: Path) -> None:
    assert own.own_seed() is None
    first, second = mystery.mine(), mystery.mine()
    assert json.loads((data / "mystery.json").read_text(encoding="utf-8"))["seed"] == own.own_seed()
    asked = models()
    assert [m.n_layers for m in asked] == [*LEVELS, *LEVELS]
    for mine, again, judged in zip(first, second, asked, strict=False):
        assert torch.equal(mine.W_E, again.W_E)
        assert torch.equal(mine.W_Q, judged.W_Q)
    assert not any(torch.equal(a.W_E, b.W_E) for a, b in zip(first, asked[3:], strict=True))


def test_judging_leaves_no_seed_behind(data: Path) -> None:
    models()
    assert not data.exists()


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"seed": "x"}', '{"seed": -1}', '{"seed": 1e3}']
)
def test_a_damaged_seed_file_is_no_seed(data: Path, content: str) -> None:
    data.mkdir()
    (data / "mystery.json").write_text(content, encoding="utf-8")
    assert own.own_seed() is None


def test_somebody_elses_seed_can_be_set() -> None:
    with own.seeded(77):
        asked = models()[0]
    assert torch.equal(asked.W_E, draw_mystery(77, 1).model.W_E)
    assert own.own_seed() is None


def test_notes_about_the_own_models_earn_half_of_the_points() -> None:
    with own.seeded(77):
        notes = {float(m.W_E.double().sum()): known_truth(m) for m in models()[:3]}
        verdict = judge_here(
            NAME_CIRCUITS, lambda model: notes.get(float(model.W_E.double().sum()), {}), SEED
        )
    assert verdict.status is Status.PARTIAL
    assert verdict.fraction == pytest.approx(0.5)


def test_silence_earns_nothing_and_one_part_earns_its_share() -> None:
    assert judge_here(NAME_CIRCUITS, lambda model: {}, SEED).points == 0
    silent = {"heads": {}, "skip_trigrams": [], "compositions": []}
    assert judge_here(NAME_CIRCUITS, lambda model: silent, SEED).points == 0
    verdict = judge_here(NAME_CIRCUITS, lambda model: {"heads": known_truth(model)["heads"]}, SEED)
    assert verdict.status is Status.PARTIAL
    # The heads, and the compositions of the two models that hold none.
    assert verdict.fraction == pytest.approx((1 + 0 + 2 / 6) / 3)
    assert verdict.message.startswith("Right: heads.")


def test_the_truth_of_a_drawn_model_is_remembered_in_both_precisions() -> None:
    model = models()[3]
    assert name_circuits(model) == name_circuits(model.to(torch.float64)) == known_truth(model)
    name_circuits(model)["heads"].clear()
    assert known_truth(model)["heads"]


def test_f1() -> None:
    a, b, c = (("heads", (0, i), "previous") for i in range(3))
    assert f1(frozenset({a, b}), frozenset({b, c})) == 0.5
    assert f1(frozenset(), frozenset({a})) == 0
    assert f1(frozenset(), frozenset()) == 1


def test_none_is_no_claim_and_a_claim_about_a_dead_head_costs() -> None:
    truth = {"heads": {(0, 0): "previous", (0, 1): "none"}, "skip_trigrams": [], "compositions": []}
    case = Case(())

    def grade(heads: dict[Any, str]) -> tuple[float, ...]:
        return Named().grade(read_claims({"heads": heads}), truth, 0.0, case)

    assert grade({(0, 0): "previous"}) == (1, 1, 1)
    assert grade({(0, 0): "previous", (0, 1): "positional"}) == pytest.approx((2 / 3,) * 3)


@pytest.mark.parametrize(
    ("answer", "name", "message"),
    [
        (None, "returns_none", "None"),
        ([], "wrong_type", "A dict with the keys"),
        ({"head": {}}, "wrong_type", "'head' is no part"),
        ({"heads": [((0, 0), "none")]}, "wrong_type", "must be a dict"),
        ({"heads": {(0, 0): "Anti-copying"}}, "unknown_label", 'mean "anti_copying"'),
        ({"heads": {(0, 0): "xyz"}}, "unknown_label", "The labels are"),
        ({"heads": {0: "none"}}, "wrong_type", r"\(layer, head\)"),
        ({"skip_trigrams": [(1, 2)]}, "wrong_type", "A skip-trigram"),
        ({"skip_trigrams": 3}, "wrong_type", "must be a list"),
        ({"compositions": [("W", (0, 0), (1, 0))]}, "wrong_type", 'kind "Q", "K" or "V"'),
        ({"compositions": [((0, 0), (1, 0))]}, "wrong_type", "A composition is"),
    ],
)
def test_what_cannot_be_read_is_said(answer: Any, name: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message) as raised:
        read_claims(answer)
    assert raised.value.name == name


def test_numbers_may_be_of_numpy_or_torch() -> None:
    plain = read_claims({"heads": {(1, 0): "previous"}, "skip_trigrams": [(1, 2, 3)]})
    strange = read_claims(
        {
            "heads": {(np.int64(1), torch.tensor(0)): "previous"},
            "skip_trigrams": np.array([[1, 2, 3]]),
        }
    )
    assert plain == strange


def test_of_two_mistakes_the_first_listed_is_named() -> None:
    def answer(model: Transformer) -> dict[str, Any]:
        truth = known_truth(model)
        swapped = [(d, s, o) for s, d, o in truth["skip_trigrams"]]
        reversed_ = [(k, by, of) for k, of, by in truth["compositions"]]
        return truth | {"skip_trigrams": swapped, "compositions": reversed_}

    verdict = judge_here(NAME_CIRCUITS, answer, SEED)
    assert verdict.mistake == "source_and_destination_exchanged"
    assert verdict.message.startswith("Right: heads.")


def test_practice_models_are_never_judged_and_come_with_the_truth() -> None:
    practice = mystery.practice(0, 1)
    assert practice.truth == known_truth(practice.model)
    assert mystery._PRACTICE > own.SEEDS
    with pytest.raises(ValueError, match="start from 0"):
        mystery.practice(-1, 1)


def test_where_the_seed_cannot_be_kept_the_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("GRADER_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(OSError, match="Set GRADER_DATA"):
        mystery.mine()
