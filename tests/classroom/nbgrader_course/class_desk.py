"""What the tests of a class share: handing notebooks in, autograding them, reading the gradebook."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import sqlalchemy as sa
from books import Bench, Silent
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory

from grader.classroom.grading.batch import How
from grader.classroom.nbgrader_course import autograding, lean
from grader.classroom.nbgrader_course.autograding import Autograded
from grader.classroom.nbgrader_course.folder import ClassFolder

ASSIGNMENT = "00-residual-stream"
CHECKED = "check_virtual_weights"
RIGHT = "def virtual_weights(W_out, W_in):\n    return W_out @ W_in"
WRONG = "def virtual_weights(W_out, W_in):\n    return W_out + 1"

Change = Callable[[Any], None]


class Quiet(Bench):
    """A stand-in for the sandbox in which, as in the sandbox, `check` and pictures do nothing."""

    @contextlib.contextmanager
    def pupil(self, cells: Sequence[tuple[int, str]], **limits: Any) -> Iterator[Any]:
        idle = re.compile(r"^(check|progress|pictures)\b", re.MULTILINE)
        run = [(number, source) for number, source in cells if not idle.search(source)]
        with super().pupil(run, **limits) as opened:
            yield opened


@dataclass
class Desk:
    folder: ClassFolder
    bench: Bench

    def hand_in(
        self,
        learner: str,
        answers: Mapping[str, str] | None = None,
        change: Change | None = None,
        assignment: str = ASSIGNMENT,
        others: Mapping[str, str] | None = None,
    ) -> Path:
        """The released notebook with these answers in it; ``change`` damages it further."""
        notebook = self.released(assignment)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if name in (answers or {}):
                cell.source = (answers or {})[name]
        if change is not None:
            change(notebook)
        place = self.folder.submitted / learner / assignment / f"{assignment}.ipynb"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(notebook), encoding="utf-8")
        for name, text in (others or {}).items():
            (place.parent / name).write_text(text, encoding="utf-8")
        return place

    def released(self, assignment: str = ASSIGNMENT) -> Any:
        path = self.folder.root / "release" / assignment / f"{assignment}.ipynb"
        return nbformat.read(path, as_version=4)

    def autograde(self, assignment: str = ASSIGNMENT, **how: Any) -> Autograded:
        again = how.pop("again", False)
        given = How(secret=self.folder.secret, jobs=1, **how)
        return autograding.autograde(self.folder, assignment, given, Silent(), again=again)

    def grades(self, learner: str, assignment: str = ASSIGNMENT) -> dict[str, tuple[Any, bool]]:
        """grade_id → (points as they count, whether it waits for a person)."""
        with lean.quiet(), gradebook(self.folder) as book:
            found = book.find_submission(assignment, learner).notebooks
            return {
                grade.name: (
                    grade.manual_score if grade.manual_score is not None else grade.auto_score,
                    grade.needs_manual_grade,
                )
                for notebook in found
                for grade in notebook.grades
            }

    def autograded(self, learner: str, assignment: str = ASSIGNMENT) -> Any:
        path = self.folder.root / "autograded" / learner / assignment / f"{assignment}.ipynb"
        return nbformat.read(path, as_version=4)

    def cell(self, learner: str, grade_id: str) -> Any:
        return marked(self.autograded(learner), grade_id)


def marked(notebook: Any, grade_id: str) -> Any:
    """The one cell of that name."""
    named = [
        cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    ]
    assert len(named) == 1
    return named[0]


def at(notebook: Any, grade_id: str) -> int:
    return int(notebook.cells.index(marked(notebook, grade_id)))


def copied(notebook: Any, grade_id: str) -> Any:
    """A copy as JupyterLab makes one: the same marks, another id."""
    cell = copy.deepcopy(marked(notebook, grade_id))
    cell.id = "pasted"
    return cell


def gradebook(folder: ClassFolder) -> Any:
    return Gradebook(f"sqlite:///{folder.root / 'gradebook.db'}", "c1")


def generate(folder: ClassFolder, assignment: str) -> None:
    """nbgrader's generate_assignment with the class's own configuration."""
    config = autograding.configuration(folder)
    with lean.quiet():
        coursedir = CourseDirectory(config=config)
        coursedir.assignment_id = assignment
        converter = GenerateAssignment(coursedir=coursedir, config=config)
        converter.force = True
        converter.start()


def connection(folder: ClassFolder) -> sa.engine.Engine:
    return sa.create_engine(f"sqlite:///{folder.root / 'gradebook.db'}")


def check_cells(notebook: Any) -> list[str]:
    """The names of all graded cells, in order."""
    marks = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    return [one["grade_id"] for one in marks if one.get("grade")]


DAMAGES: dict[str, Change] = {
    "check cell copied": lambda nb: nb.cells.append(copied(nb, CHECKED)),
    "check cell deleted": lambda nb: nb.cells.pop(at(nb, CHECKED)),
    "marks deleted": lambda nb: [cell.metadata.pop("nbgrader", None) for cell in nb.cells],
    "answer's marks deleted": lambda nb: marked(nb, "virtual_weights").metadata.pop("nbgrader"),
    "half of the marks deleted": lambda nb: marked(nb, CHECKED).metadata["nbgrader"].pop("points"),
    "no schema version": lambda nb: marked(nb, CHECKED).metadata["nbgrader"].pop("schema_version"),
    "not graded any more": lambda nb: marked(nb, CHECKED).metadata["nbgrader"].update(grade=False),
    "check cell made text": lambda nb: marked(nb, CHECKED).update(cell_type="markdown"),
    "more points": lambda nb: marked(nb, CHECKED).metadata["nbgrader"].update(points=1000),
    "another name": lambda nb: marked(nb, CHECKED).metadata["nbgrader"].update(grade_id="mine"),
    "marks are no mapping": lambda nb: marked(nb, CHECKED).metadata.update(nbgrader="broken"),
    "only the answer": lambda nb: nb.update(cells=[marked(nb, "virtual_weights")]),
    "answer copied": lambda nb: nb.cells.insert(
        at(nb, "virtual_weights"), copied(nb, "virtual_weights")
    ),
}
