"""The map shows every exercise with what was reached, and what comes next."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from grader import exercises
from grader.lab import progress, progress_map


@pytest.fixture(autouse=True)
def three_exercises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADER_DATA", str(tmp_path))
    declared = [("a_one", "00-a", 4), ("a_two", "00-a", 2), ("b_one", "01-b", 6)]
    registry = {
        name: SimpleNamespace(
            name=name, notebook=notebook, title=f"<{name}>", points=points, minutes=5
        )
        for name, notebook, points in declared
    }
    monkeypatch.setattr(exercises, "registry", lambda: registry)


RECORDS = {
    "a_one": {"points": 2.0, "max_points": 2.0, "attempts": 1, "passed": "2026-01-01"},
    "a_two": {"points": 1.0, "max_points": 2.0, "attempts": 3, "hints": 1},
    "gone_in_this_edition": {"points": 9.0, "max_points": 9.0},
}


def test_old_points_count_as_the_same_share_of_todays() -> None:
    course = progress_map.overview(RECORDS)
    assert [row.points for row in course.rows] == [4.0, 1.0, 0.0]
    assert (course.points, course.max_points, course.passed) == (5.0, 12.0, 1)


def test_the_text_marks_what_is_passed_begun_and_to_do_and_names_the_next() -> None:
    text = progress_map.as_text(progress_map.overview(RECORDS))
    assert "5 of 12 points, 1 of 3 exercises passed" in text
    marks = [line.strip()[:9] for line in text.splitlines() if line.startswith("  [")]
    assert marks == ["[x] a_one", "[~] a_two", "[ ] b_one"]
    assert "Next: a_two in 00-a" in text
    assert text.isascii()


def test_nothing_is_next_when_all_is_passed() -> None:
    done = dict.fromkeys(("a_one", "a_two", "b_one"), RECORDS["a_one"])
    course = progress_map.overview(done)
    assert course.next is None
    assert "Every exercise is passed" in progress_map.as_text(course)
    assert progress_map.as_json(course)["next"] is None


def test_the_html_escapes_and_opens_the_notebook_where_the_learner_is() -> None:
    page = progress_map.as_html(progress_map.overview(RECORDS))
    assert "&lt;a_one&gt;" in page
    assert "<a_one>" not in page
    assert page.index("<details open>") < page.index("<details>")
    assert "1 hint<" in page


def test_a_progress_file_set_aside_is_said() -> None:
    progress.progress_file().write_text("half a fi")
    progress.record_hint("a_one", 1)
    assert "unreadable progress file was kept as" in progress.as_text()
    assert "unreadable progress file was kept as" in progress.as_html()
