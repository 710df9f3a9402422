"""The map shows every exercise with what was reached, and what comes next."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader import exercises
from grader.lab import progress, progress_map, progress_page


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


def test_the_text_is_a_row_a_notebook_a_box_an_exercise_and_an_arrow_where_you_are() -> None:
    text = progress_map.as_text(progress_map.overview(RECORDS))
    assert "5 of 12 points, 1 of 3 exercises passed" in text
    rows = [line for line in text.splitlines() if re.match(r"[> ] \d\d-", line)]
    assert [row.split("[", 1)[0].strip() for row in rows] == ["> 00-a", "01-b"]
    assert ["".join(re.findall(r"\[(.)\]", row)) for row in rows] == ["x~", " "]
    assert [row.split("]")[-1].strip() for row in rows] == ["5 of 6", "0 of 6"]
    assert "Next: a_two in 00-a" in text
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


def test_the_text_lists_the_exercises_where_you_are_and_all_of_them_when_asked() -> None:
    course = progress_map.overview(RECORDS)

    def listed(text: str) -> list[str]:
        return [line.strip()[:9] for line in text.splitlines() if line.startswith("  [")]

    assert listed(progress_map.as_text(course)) == ["[x] a_one", "[~] a_two"]
    everything = progress_map.as_text(course, everything=True)
    assert listed(everything) == ["[x] a_one", "[~] a_two", "[ ] b_one"]


def test_nothing_is_next_when_all_is_passed() -> None:
    done = dict.fromkeys(("a_one", "a_two", "b_one"), RECORDS["a_one"])
    course = progress_map.overview(done)
    assert course.next is None
    text = progress_map.as_text(course)
    assert "Every exercise is passed" in text
    assert not [line for line in text.splitlines() if line.startswith(">")]
    assert progress_map.as_json(course)["next"] is None
    page = progress_page.as_html(course)
    assert "Every exercise is passed" in page
    assert "aria-current" not in page
    assert "<details open>" not in page


def test_the_json_names_each_state() -> None:
    told = progress_map.as_json(progress_map.overview(RECORDS))
    assert [row["state"] for row in told["exercises"]] == ["passed", "begun", "to do"]


def test_the_page_has_a_linked_square_for_each_exercise_that_says_its_state() -> None:
    page = progress_page.as_html(progress_map.overview(RECORDS))
    squares = re.findall(
        r"<a href='([^']*)' title='([^']*)' aria-label='([^']*)'[^>]*>(.)</a>", page
    )
    assert [sign for *_, sign in squares] == ["✔", "◐", "○"]
    assert [where for where, *_ in squares] == [
        "../00-a/00-a.ipynb#cell-id=a_one",
        "../00-a/00-a.ipynb#cell-id=a_two",
        "../01-b/01-b.ipynb#cell-id=b_one",
    ]
    assert [said for _, said, _, _ in squares] == [
        "&lt;a_one&gt;: passed, 4 of 4 points",
        "&lt;a_two&gt;: begun, 1 of 2 points; next",
        "&lt;b_one&gt;: to do, 0 of 6 points",
    ]
    assert [title for _, title, *_ in squares] == [said for _, _, said, _ in squares]


def test_the_page_says_where_you_are_and_opens_that_notebooks_table() -> None:
    page = progress_page.as_html(progress_map.overview(RECORDS))
    assert page.count("aria-current='step'") == 1
    assert page.index("▶") < page.index("00-a</a>")
    assert page.index("<details open>") < page.index("<details>")
    assert "1 hint<" in page


def test_the_page_escapes_and_needs_neither_scripts_nor_style_sheets() -> None:
    page = progress_page.as_html(progress_map.overview(RECORDS))
    assert "&lt;a_one&gt;" in page
    assert "<a_one>" not in page
    assert "<script" not in page
    assert "<style" not in page


def test_a_progress_file_set_aside_is_said() -> None:
    progress.progress_file().write_text("half a fi")
    progress.record_hint("a_one", 1)
    assert "unreadable progress file was kept as" in progress.as_text()
    assert "unreadable progress file was kept as" in progress.as_html()
