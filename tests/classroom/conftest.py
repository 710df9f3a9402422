"""The toy course as a checkout of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_course import HEAD_SUM, SCALED_SCORES, TOY, ToyCourse

from grader import exercises, resources
from grader.judge.spec import Exercise


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyCourse:
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/00-toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "grader")

    def declare(*declared: Exercise) -> None:
        registry = {exercise.name: exercise for exercise in declared}
        monkeypatch.setattr(exercises, "NOTEBOOKS", {"00-toy": "toy"})
        monkeypatch.setattr(exercises, "registry", lambda: registry)
        monkeypatch.setattr(exercises, "of_notebook", lambda name: list(registry.values()))

    declare(SCALED_SCORES, HEAD_SUM)
    return ToyCourse(tmp_path, declare)
