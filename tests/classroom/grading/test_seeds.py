"""Seeds: the same each time for a teacher, and out of a learner's reach."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from grader.classroom.grading.seeds import SecretUnusable, Seeds, class_secret
from grader.exercises.mystery_models import own

SECRET = b"a secret of thirty-two characters"


def test_the_same_each_time_and_another_for_everything_that_differs() -> None:
    seeds = Seeds(SECRET, "2026.1")
    seed = seeds.exercise("ann", "virtual_weights", "digest")
    assert seed == Seeds(SECRET, "2026.1").exercise("ann", "virtual_weights", "digest")
    others = {
        seeds.exercise("bob", "virtual_weights", "digest"),
        seeds.exercise("ann", "residual_stream", "digest"),
        seeds.exercise("ann", "virtual_weights", "another"),
        Seeds(SECRET, "2026.2").exercise("ann", "virtual_weights", "digest"),
        Seeds(SECRET[1:], "2026.1").exercise("ann", "virtual_weights", "digest"),
        seeds.exercise("annv", "irtual_weights", "digest"),
    }
    assert len(others | {seed}) == 7
    assert all(0 <= one < 2**62 for one in others)


def test_own_models_stay_the_learners() -> None:
    seeds = Seeds(SECRET, "2026.1")
    drawn = [seeds.own_models(f"learner {n}") for n in range(200)]
    assert drawn == [seeds.own_models(f"learner {n}") for n in range(200)]
    assert len(set(drawn)) == 200
    assert all(0 <= seed < own.SEEDS for seed in drawn)


def test_the_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "class-secret"
    first = class_secret(path)
    assert class_secret(path) == first
    assert len(first.secret) == 64
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert class_secret(tmp_path / "other") != first


def test_the_secret_is_not_shown() -> None:
    assert "secret of" not in repr(Seeds(SECRET))
    assert "secret of" not in str(Seeds(SECRET))


def test_a_secret_that_is_no_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "class-secret"
    path.write_text("short\n", encoding="utf-8")
    with pytest.raises(SecretUnusable, match="shorter than"):
        class_secret(path)
    path.write_bytes(b"\xff\xfe" * 40)
    with pytest.raises(SecretUnusable, match="isn't text"):
        class_secret(path)
    with pytest.raises(SecretUnusable, match="can't be read"):
        class_secret(tmp_path / "nowhere", make=False)
