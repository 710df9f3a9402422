"""What a class's ``nbgrader_config.py`` puts into nbgrader: three steps of its own `autograde`.

======================  =====================  ==============================================
`MendNotebook`          before sanitizing      puts damaged marks in order (``mending.py``)
`JudgeNotebook`         instead of `Execute`   the judge's verdicts, from a sandbox
`SaveGrades`            `SaveAutoGrades`       leaves to a person what could not be judged
======================  =====================  ==============================================

Which notebook is ours is read from the teacher's gradebook, never from what was handed in. Others,
a teacher's own, go through nbgrader's own `Execute` and are scored as nbgrader scores.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import Execute, NbGraderPreprocessor, SaveAutoGrades
from nbgrader.utils import is_grade, is_solution
from traitlets import Enum

from grader import exercises, resources
from grader.classroom.nbgrader_course import judging, marks, mending
from grader.classroom.nbgrader_course.folder import ClassFolder
from grader.judge.verdict import Status
from grader.lab import merge, notebook_files
from grader.lab.merge import Notebook

_WAITING = "grader_unjudged"


class NotSafe(RuntimeError):
    """The class's nbgrader_config.py would give marks that nobody judged; the message says how."""


class _OfACourse(NbGraderPreprocessor):  # type: ignore[misc]
    """Knows the class's folder and what the gradebook says of the notebook at hand."""

    def is_ours(self, resources_: Any) -> bool:
        """Whether the teacher's notebook has an exercise of the course in it."""
        return any(is_exercise(name) for name in self._graded(resources_))

    def _graded(self, resources_: Any) -> list[str]:
        about = resources_["nbgrader"]
        with _gradebook(about["db_url"]) as gradebook, contextlib.suppress(MissingEntry):
            notebook = gradebook.find_notebook(about["notebook"], about["assignment"])
            return [cell.name for cell in notebook.grade_cells]
        return []

    @property
    def converter(self) -> Any:
        """nbgrader's `Autograde` that this is a step of."""
        return self.parent.parent

    def path(self, step: str, resources_: Any, *, notebook: bool = True) -> Path:
        about = resources_["nbgrader"]
        student = "." if step == self.converter.coursedir.release_directory else about["student"]
        folder = self.converter.coursedir.format_path(step, student, about["assignment"])
        return Path(folder) / f"{about['notebook']}.ipynb" if notebook else Path(folder)

    def released(self, resources_: Any) -> Notebook | None:
        """The notebook as learners got it, None where none fits what the gradebook knows."""
        graded = set(self._graded(resources_))
        places = [self.path(self.converter.coursedir.release_directory, resources_)]
        with contextlib.suppress(resources.CourseNotFound):
            places.append(resources.released(resources_["nbgrader"]["notebook"]))
        for place in places:
            with contextlib.suppress(OSError, ValueError):
                notebook = notebook_files.read(place)
                if graded == {
                    merge.grade_id(cell) for cell in notebook["cells"] if is_graded(cell)
                }:
                    return notebook
        return None


class MendNotebook(_OfACourse):
    """Puts a notebook of ours whose marked cells are damaged back in order; leaves all others alone."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        if self.is_ours(resources):
            released = self.released(resources)
            wrong = mending.damage(nb, released) if released else []
            if released and wrong:
                self.log.warning("Mended a damaged notebook: %s.", "; ".join(wrong))
                nb = mending.mended(nb, released)
        return nb, resources


class JudgeNotebook(_OfACourse):
    """Puts the judge's verdicts into the check cells. No code of the learner runs in this process."""

    isolation = Enum(
        ("full", "container", "none"),
        "full",
        help="What strangers' notebooks are locked in. container: this machine is one, and is "
        "thrown away; none: nothing locks them in, they run as you.",
    ).tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        if not self.is_ours(resources):
            return Execute(parent=self.parent).preprocess(nb, resources)
        self._insist_on_save_grades()
        course = ClassFolder(Path(self.converter.coursedir.root))
        notebook = self.path(self.converter.coursedir.submitted_directory, resources)
        handed_in, outcome = judging.judged(
            course, notebook, self._known(resources), str(self.isolation)
        )
        for note in (*handed_in.notes, *outcome.notes):
            self.log.warning("%s: %s", handed_in.learner, note)
        resources[_WAITING] = self._mark(nb, outcome)
        marks.show_errors(nb.cells, _sources(notebook), outcome.cell_errors)
        marks.sign(nb, outcome)
        self._insist_on_all_cells(nb, resources)
        return nb, resources

    def _mark(self, nb: Any, outcome: Any) -> dict[str, str]:
        """Write all outputs → for each cell that a person has to look at, why."""
        verdicts = {verdict.exercise: verdict for verdict in outcome.verdicts}
        waiting = {}
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            cell.outputs, cell.execution_count = [], None
            if not is_grade(cell) or is_solution(cell):
                continue
            name = cell.metadata.nbgrader["grade_id"]
            why = marks.unjudged(verdicts, outcome, name)
            if why:
                waiting[name] = why
                cell.outputs = marks.unmarked(why)
                self.log.error("%s is left to a person: %s", name, why)
            else:
                cell.outputs = marks.marked(cell, verdicts[name.removeprefix(marks.CHECK)])
        failed = [v.exercise for v in outcome.verdicts if v.status is Status.GRADER_ERROR]
        if failed:
            self.log.error("The grader failed at %s; the next autograde judges it again.", failed)
        return waiting

    def _known(self, resources_: Any) -> list[str]:
        about = resources_["nbgrader"]
        with _gradebook(about["db_url"]) as gradebook:
            return [book.name for book in gradebook.find_assignment(about["assignment"]).notebooks]

    def _insist_on_save_grades(self) -> None:
        steps = [
            step if isinstance(step, str) else f"{step.__module__}.{step.__name__}"
            for step in self.converter.autograde_preprocessors
        ]
        ours = f"{SaveGrades.__module__}.{SaveGrades.__name__}"
        if ours not in steps:
            raise NotSafe(
                f"nbgrader_config.py lists JudgeNotebook without {ours}: what could not be judged "
                "would be a zero. Put it in the place of SaveAutoGrades."
            )

    def _insist_on_all_cells(self, nb: Any, resources_: Any) -> None:
        there = {cell.metadata.nbgrader["grade_id"] for cell in nb.cells if is_grade(cell)}
        missing = sorted(set(self._graded(resources_)) - there)
        if missing:
            raise judging.NotJudged(
                f"The graded cells {', '.join(missing)} are missing, and no released notebook fits. "
                "Run `nbgrader generate_assignment` for this assignment and autograde again."
            )


class SaveGrades(SaveAutoGrades):  # type: ignore[misc]
    """nbgrader's own, except for what could not be judged: no points yet, and marked for a person."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        self._waiting = resources.get(_WAITING, {})
        return super().preprocess(nb, resources)

    def _add_score(self, cell: Any, resources: Any) -> None:
        super()._add_score(cell, resources)
        name = cell.metadata["nbgrader"]["grade_id"]
        if name in self._waiting:
            grade = self.gradebook.find_grade(
                name, self.notebook_id, self.assignment_id, self.student_id
            )
            grade.auto_score = None
            grade.needs_manual_grade = True
            self.gradebook.db.commit()


def is_exercise(grade_id: str) -> bool:
    """Whether a cell of that name checks an exercise of the course."""
    name = grade_id.removeprefix(marks.CHECK)
    return name != grade_id and exercises.find(name) is not None


def is_graded(cell: Any) -> bool:
    """Whether nbgrader keeps points for the cell."""
    return bool(cell["metadata"].get("nbgrader", {}).get("grade"))


def _sources(notebook: Path) -> dict[int, str]:
    """The code cells of the file that was handed in, by their number."""
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except Exception:  # then it was not graded either, and that is said elsewhere
        return {}
    code = (merge.text(cell) for cell in cells if cell["cell_type"] == "code")
    return dict(enumerate(code, start=1))


@contextlib.contextmanager
def _gradebook(url: str) -> Iterator[Any]:
    gradebook = Gradebook(url)
    try:
        yield gradebook
    finally:
        gradebook.close()
