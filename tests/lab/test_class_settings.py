"""What a teacher's settings close, stays closed in the notebook beside them, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercises.mystery_models import NAME_CIRCUITS
from grader.judge.verdict import Status, Verdict
from grader.lab import checking, class_settings, showing
from grader.lab.class_settings import ClassSettings


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(showing, "display", lambda html, text: said.append(text))
    return said


def beside(folder: Path, monkeypatch: pytest.MonkeyPatch, settings: ClassSettings) -> None:
    (folder / class_settings.FILE).write_text(class_settings.written(settings), encoding="utf-8")
    monkeypatch.chdir(folder)


def test_closed_hints_and_solutions_say_whose_wish_it_is(
    shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(tmp_path, monkeypatch, ClassSettings("c1", hints=False, solutions=False))
    checking.hint("qk_circuit")
    checking.solution("qk_circuit", anyway=True)
    checking.solution("when_to_trust_a_detector")
    assert [text.partition(chr(10))[0] for text in shown] == [
        "No hint",
        "No solution",
        "No solution",
    ]
    assert all("closed in the class c1" in text for text in shown)


def test_one_can_be_closed_without_the_other(
    shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(tmp_path, monkeypatch, ClassSettings("c1", solutions=False))
    checking.hint("qk_circuit")
    checking.solution("qk_circuit", anyway=True)
    assert shown[0].startswith("Hint 1 of")
    assert "closed" in shown[1]


def test_without_settings_all_opens(
    shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checking.solution("qk_circuit", anyway=True)
    assert shown[0].startswith("One way to do it")


def test_damaged_settings_open_nothing(
    shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / class_settings.FILE).write_text("{", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    checking.solution("qk_circuit", anyway=True)
    assert "Fetch the assignment again" in shown[0]


def judged(status: Status) -> Verdict:
    return Verdict(NAME_CIRCUITS.name, status, 2.0, 5.0, "Look at the heads.", seed=1)


@pytest.mark.parametrize("status", [Status.PASS, Status.PARTIAL, Status.WRONG])
def test_in_a_class_the_answer_about_own_models_is_received(
    status: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(tmp_path, monkeypatch, ClassSettings("c1", own_models=("own-models",)))
    received = checking._received(judged(status))
    assert (received.status, received.points) == (Status.RECEIVED, 2.0)
    assert received.message.endswith("Look at the heads.")


def test_what_could_not_be_asked_is_not_received(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(tmp_path, monkeypatch, ClassSettings("c1", own_models=("own-models",)))
    for status in (Status.CRASHED, Status.NOT_ATTEMPTED, Status.TIMEOUT, Status.GRADER_ERROR):
        assert checking._received(judged(status)).status is status


def test_alone_the_verdict_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checking._received(judged(Status.PASS)).status is Status.PASS
