"""The course is found in a package as in a checkout; answers come from what was built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader import answers, resources

SOLUTION = '''def double(x):
    """x (pos,) → (pos,)."""
    ### BEGIN SOLUTION
    y = x + x

    return y
    ### END SOLUTION
'''
STUB = '''def double(x):
    """x (pos,) → (pos,)."""
    # YOUR CODE HERE
    raise NotImplementedError()
'''


def write_notebook(path: Path, source: str | list[str]) -> None:
    about = {"grade_id": "double", "solution": True, "grade": False}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "Text."},
        {"cell_type": "code", "metadata": {"nbgrader": about}, "source": source},
    ]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy checkout that ``resources`` takes for the one it lies in."""
    write_notebook(tmp_path / "solutions/00-toy/00-toy.ipynb", SOLUTION)
    write_notebook(tmp_path / "course/00-toy/00-toy.ipynb", STUB.splitlines(keepends=True))
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "grader")
    return tmp_path


def test_a_checkout_has_the_folders_beside_the_package(checkout: Path) -> None:
    assert resources.course_dir() == checkout / "course"
    assert resources.solutions_dir() == checkout / "solutions"
    assert resources.released("00-toy") == checkout / "course/00-toy/00-toy.ipynb"
    assert resources.solved("00-toy") == checkout / "solutions/00-toy/00-toy.ipynb"


def test_an_installed_package_has_them_inside_and_prefers_those(checkout: Path) -> None:
    shipped = checkout / "grader/_shipped/course"
    write_notebook(shipped / "01-other/01-other.ipynb", STUB)
    assert resources.course_dir() == shipped
    assert resources.notebooks() == ["01-other"]


def test_only_the_courses_own_notebooks_are_listed(checkout: Path) -> None:
    write_notebook(checkout / "course/mine/mine.ipynb", STUB)
    write_notebook(checkout / "course/02-notes/scratch.ipynb", STUB)
    write_notebook(checkout / "course/01-next/01-next.ipynb", STUB)
    assert resources.notebooks() == ["00-toy", "01-next"]


def test_a_missing_course_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "grader")
    with pytest.raises(resources.CourseNotFound, match="Install the package again"):
        resources.course_dir()


def test_a_missing_notebook_says_which_there_are(checkout: Path) -> None:
    with pytest.raises(resources.CourseNotFound, match=r"'09-none'.*there: 00-toy"):
        resources.released("09-none")


def test_the_solution_comes_without_its_frame_and_the_stub_as_handed_out(checkout: Path) -> None:
    assert answers.solution_source("double") == "y = x + x\n\nreturn y"
    assert answers.stub_source("double") == STUB


def test_an_unknown_exercise_and_a_broken_notebook_are_named(checkout: Path) -> None:
    with pytest.raises(answers.AnswerNotFound, match="triple"):
        answers.solution_source("triple")
    resources.released("00-toy").write_text("[", encoding="utf-8")
    with pytest.raises(ValueError, match=r"00-toy\.ipynb is not a readable notebook"):
        answers.stub_source("double")


def test_a_stub_in_place_of_the_solution_is_said(checkout: Path) -> None:
    path = resources.solved("00-toy")
    path.write_bytes(resources.released("00-toy").read_bytes())
    with pytest.raises(answers.AnswerNotFound, match="grader build"):
        answers.solution_source("double")
