"""What a class hands in on a bad day, and what a teacher would want to come of it."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from class_desk import ASSIGNMENT, CHECKED, RIGHT, WRONG, Desk, generate, gradebook, marked

from grader import exercises, resources
from grader.classroom.nbgrader_course import autograding, lean, patience
from grader.classroom.nbgrader_course.folder import CONFIG

pytestmark = pytest.mark.long

MOST = float(exercises.registry()["virtual_weights"].points)
STRANGE = [
    "bob smith",
    "ada@school.edu",
    "Ünal",
    "123 [abc]",
    "a'b;c",
    "alice",
    "Alice",
    *([] if sys.platform == "win32" else ["back\\slash", "what?*"]),
]


def in_old_marks(notebook: Any) -> None:
    """As another edition would have it: other names, another stamp."""
    notebook.metadata["transformer_circuits"]["edition"] = "2025.1"
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        if marks:
            marks["grade_id"] = f"old_{marks['grade_id']}"


def turned_to_another_notebook(notebook: Any) -> None:
    other = nbformat.read(resources.released("01-zero-layer"), as_version=4)
    notebook.clear()
    notebook.update(other)


@pytest.fixture(scope="module")
def done(desk: Desk) -> Desk:
    """All of it handed in, and autograded at once."""
    for learner in STRANGE:
        desk.hand_in(learner, {"virtual_weights": RIGHT})
    desk.hand_in("older", {"virtual_weights": RIGHT}, in_old_marks)
    desk.hand_in("mistaken", {}, turned_to_another_notebook)
    kept = desk.hand_in("copier", {"virtual_weights": RIGHT})
    copy = kept.with_name(f"{ASSIGNMENT}-Copy1.ipynb")
    copy.write_text(kept.read_text(encoding="utf-8").replace("@", "+"), encoding="utf-8")
    os.utime(copy, (2e9, 2e9))  # later than the one that was released
    desk.hand_in("cut", {"virtual_weights": RIGHT}).write_text('{"cells": [', encoding="utf-8")
    desk.hand_in("empty").write_text("", encoding="utf-8")
    desk.hand_in("latin").write_bytes(b'{"cells": [], "metadata": {"name": "\xe9"}}')
    desk.result = desk.autograde()  # type: ignore[attr-defined]
    return desk


@pytest.mark.parametrize("learner", STRANGE)
def test_any_id_that_a_folder_can_have_is_a_learner(learner: str, done: Desk) -> None:
    assert done.grades(learner)[CHECKED] == (MOST, False)


def test_an_older_edition_is_graded_by_its_functions(done: Desk) -> None:
    assert done.grades("older")[CHECKED] == (MOST, False)


def test_a_wrong_notebook_waits_for_a_person_with_the_reason(done: Desk) -> None:
    assert set(done.grades("mistaken").values()) == {(None, True)}
    shown = done.cell("mistaken", CHECKED).outputs[0].data["text/html"]
    assert "is 01-zero-layer, and 00-residual-stream was to be handed in" in shown


def test_of_two_copies_the_released_file_counts(done: Desk) -> None:
    assert done.grades("copier")[CHECKED] == (MOST, False)


UNREADABLE = {"cut": "isn't JSON", "empty": "is empty", "latin": "isn't UTF-8"}


@pytest.mark.parametrize("learner", UNREADABLE)
def test_an_unreadable_file_is_named_and_stops_nobody(learner: str, done: Desk) -> None:
    result = done.result  # type: ignore[attr-defined]
    assert UNREADABLE[learner] in result.failed[learner]
    assert learner not in result.waiting
    assert not result.all_well
    assert len(result.failed) == 3
    assert not (done.folder.root / "autograded" / learner / ASSIGNMENT).exists()


def test_manual_marks_survive_a_resubmission(desk: Desk) -> None:
    desk.hand_in("ana", {"virtual_weights": WRONG})
    desk.autograde()
    with lean.quiet(), gradebook(desk.folder) as book:
        grade = book.find_grade(CHECKED, ASSIGNMENT, ASSIGNMENT, "ana")
        grade.manual_score = 0.5
        book.db.commit()
    again = desk.hand_in("ana", {"virtual_weights": RIGHT})
    os.utime(again, (1e9, 1e9))  # a clock that is years behind
    assert "ana" in desk.autograde().newly
    assert desk.grades("ana")[CHECKED] == (0.5, True)  # to be looked at again, the mark still there
    with lean.quiet(), gradebook(desk.folder) as book:
        assert book.find_grade(CHECKED, ASSIGNMENT, ASSIGNMENT, "ana").auto_score == MOST


@contextmanager
def held(file: Path, seconds: float) -> Iterator[None]:
    """Another connection holds the database, as a process on a slow disk would."""
    connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(seconds, connection.close)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_gradebook_that_is_held_for_a_while_is_waited_for(desk: Desk) -> None:
    desk.hand_in("patient", {"virtual_weights": RIGHT})
    with held(desk.folder.root / "gradebook.db", 6.0):  # longer than nbgrader waits by itself
        assert "patient" in desk.autograde().newly
    assert desk.grades("patient")[CHECKED] == (MOST, False)


def test_one_that_stays_held_is_a_sentence_and_nothing_is_lost(desk: Desk) -> None:
    desk.hand_in("impatient", {"virtual_weights": RIGHT})
    config = desk.folder.root / CONFIG
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("seconds=60", "seconds=0.1"), encoding="utf-8")
    with (
        held(desk.folder.root / "gradebook.db", 1.5),
        pytest.raises(autograding.CannotAutograde, match="another process holds it"),
    ):
        desk.autograde()
    config.write_text(text, encoding="utf-8")
    assert "impatient" in desk.autograde().newly


def test_another_database_is_none_of_our_business(tmp_path: Path) -> None:
    patience.wait_for_gradebook(tmp_path / "ours.db", 60)
    for name, expected in (("ours.db", 60_000), ("theirs.db", 5_000)):
        connection = sqlite3.connect(tmp_path / name)
        patience._be_patient(connection, None)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (expected,)
        connection.close()


def test_nothing_to_autograde_is_a_sentence(desk: Desk) -> None:
    with pytest.raises(autograding.CannotAutograde, match="nbgrader generate_assignment 01-zero"):
        desk.autograde("01-zero-layer")
    generate(desk.folder, "01-zero-layer")
    with pytest.raises(autograding.CannotAutograde, match="nbgrader collect 01-zero"):
        desk.autograde("01-zero-layer")


def test_a_configuration_that_does_not_run_is_a_sentence(tmp_path: Path) -> None:
    from grader.classroom.nbgrader_course.folder import ClassFolder

    (tmp_path / CONFIG).write_text("c = get_config(\n", encoding="utf-8")
    with pytest.raises(autograding.CannotAutograde, match="doesn't run: SyntaxError"):
        autograding.configuration(ClassFolder(tmp_path))


def test_points_follow_the_teachers_weight(desk: Desk) -> None:
    path = desk.folder.root / "source" / "01-zero-layer" / "01-zero-layer.ipynb"
    notebook = nbformat.read(path, as_version=4)
    name = exercises.of_notebook("01-zero-layer")[0].name
    marked(notebook, f"check_{name}").metadata["nbgrader"]["points"] = 7.5
    nbformat.write(notebook, path)
    generate(desk.folder, "01-zero-layer")
    solved = nbformat.read(resources.solved("01-zero-layer"), as_version=4)
    handed_in = desk.hand_in(
        "weighty", {name: marked(solved, name).source}, assignment="01-zero-layer"
    )
    assert json.loads(handed_in.read_text(encoding="utf-8"))["cells"]
    desk.autograde("01-zero-layer")
    assert desk.grades("weighty", "01-zero-layer")[f"check_{name}"] == (7.5, False)


def test_late_days_are_taken_off_in_the_gradebook(desk: Desk) -> None:
    config = desk.folder.root / CONFIG
    text = config.read_text(encoding="utf-8")
    switched_on = re.sub(r"^# (c\..*LateDays.*)$", r"\1", text, flags=re.MULTILINE)
    config.write_text(switched_on.replace("free_days = 5", "free_days = 1"), encoding="utf-8")
    with lean.quiet(), gradebook(desk.folder) as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate="2026-03-01 12:00:00 UTC")
    for learner, day in (("punctual", 1), ("late", 3)):
        stamp = f"2026-03-0{day} 13:00:00 Europe/Berlin"  # noon in UTC
        desk.hand_in(learner, {"virtual_weights": RIGHT}, others={"timestamp.txt": stamp})
    desk.autograde()
    config.write_text(text, encoding="utf-8")
    with lean.quiet(), gradebook(desk.folder) as book:
        found = {
            learner: book.find_submission(ASSIGNMENT, learner) for learner in ("punctual", "late")
        }
        off = {learner: one.late_submission_penalty for learner, one in found.items()}
        book.update_or_create_assignment(ASSIGNMENT, duedate=None)
    assert off == {"punctual": 0.0, "late": pytest.approx(0.1 * MOST)}
