"""A whole class into the gradebook: all notebooks judged in parallel first, then nbgrader in one process.

`nbgrader autograde` starts a kernel for each notebook, one after the other. Here the batch grader
judges what has no verdict yet; nbgrader's own converter then finds every verdict in the store and only
writes the gradebook and ``autograded/``. What hasn't changed since is left alone, so that questions
which a person has marked are not flagged for review again.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from grader.classroom.grading import batch
from grader.classroom.grading.batch import Batch, How, Watcher
from grader.classroom.grading.store import Store
from grader.classroom.nbgrader_course import lean, marks
from grader.classroom.nbgrader_course.folder import CONFIG, ClassFolder
from grader.classroom.nbgrader_course.judging import places


class CannotAutograde(RuntimeError):
    """Nothing can be put into the gradebook; the message says why and what to do."""


@dataclass(frozen=True)
class Autograded:
    """What came of it: batch is None where no notebook of the assignment is one of the course's.

    newly: learners who were put into the gradebook now; unchanged: those who were there already
    failed: what nbgrader could not take, with its reason; waiting: cells left to a person, by learner
    """

    assignment: str
    batch: Batch | None
    newly: tuple[str, ...]
    unchanged: tuple[str, ...]
    failed: dict[str, str]
    waiting: dict[str, int]

    @property
    def all_well(self) -> bool:
        return not self.failed and (self.batch is None or self.batch.all_well)

    def as_json(self) -> dict[str, Any]:
        return {
            "assignment": self.assignment,
            "newly": list(self.newly),
            "unchanged": list(self.unchanged),
            "failed": self.failed,
            "waiting_for_a_person": self.waiting,
            "judged": None if self.batch is None else self.batch.as_json(),
        }

    def as_text(self) -> str:
        lines = [f"{self.assignment}: {len(self.newly)} put into the gradebook"]
        if self.unchanged:
            lines[0] += f", {len(self.unchanged)} were there and haven't changed"
        lines[0] += "."
        lines += [
            f"  {learner}: NOT in the gradebook. {why}" for learner, why in self.failed.items()
        ]
        marks = sum(self.waiting.values())
        if marks:
            lines.append(
                f"{marks} answers of {len(self.waiting)} learners wait for a person: "
                "Formgrader → Manual Grading."
            )
        return "\n".join(lines)


def autograde(
    folder: ClassFolder, assignment: str, how: How, watcher: Watcher, *, again: bool = False
) -> Autograded:
    """Judge what was collected of an assignment and put the points into the gradebook.

    again: put every learner into the gradebook anew; manual marks stay, and are flagged for review
    Raises CannotAutograde, and what ``batch.grade`` raises.
    """
    config = configuration(folder)
    with lean.quiet(), lean.lean():
        coursedir = CourseDirectory(config=config)
        known, url = _released(coursedir, assignment), coursedir.db_url
        there = _handed_in(folder, assignment)
        paths = [p for one in there for p in places(folder.submitted / one / assignment, known)]
        judged = None
        if _has_ours(url, assignment):
            judged = batch.grade(paths, folder.grades, how, watcher, assignment=assignment)
        verdicts = _fingerprints(folder) if judged else {}
        troubles = {who: told for who, _, told in judged.summary.looks} if judged else {}
        newly, unchanged, failed = [], [], {}
        for learner in there:
            if not again and _is_current(coursedir, learner, assignment, known, verdicts):
                unchanged.append(learner)
                continue
            why = _convert(config, coursedir, learner, assignment)
            if why:
                failed[learner] = troubles.get(learner, why)
            else:
                newly.append(learner)
        waiting = {who: n for who, n in _waiting(url, assignment).items() if who not in failed}
    return Autograded(assignment, judged, tuple(newly), tuple(unchanged), failed, waiting)


def configuration(folder: ClassFolder) -> Config:
    """The class's nbgrader configuration. Raises CannotAutograde where its file doesn't run."""
    try:
        return PyFileConfigLoader(CONFIG, str(folder.root)).load_config()
    except Exception as error:
        raise CannotAutograde(
            f"{folder.root / CONFIG} doesn't run: {type(error).__name__}: {error}."
        ) from None


def learners(folder: ClassFolder) -> list[str]:
    """Everybody in the class's gradebook. Raises CannotAutograde."""
    with lean.quiet():
        coursedir = CourseDirectory(config=configuration(folder))
        with _gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
            return sorted(str(student.id) for student in gradebook.students)


def _handed_in(folder: ClassFolder, assignment: str) -> list[str]:
    pattern = folder.submitted.glob(f"*/{glob.escape(assignment)}")
    there = sorted(path.parent.name for path in pattern if path.is_dir())
    if not there:
        raise CannotAutograde(
            f"Nobody's {assignment} lies in {folder.submitted}. Collect first: "
            f"`nbgrader collect {assignment}`, or put each learner's notebook into "
            f"submitted/LEARNER/{assignment}/."
        )
    return there


def _released(coursedir: Any, assignment: str) -> list[str]:
    with _gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        try:
            return [notebook.name for notebook in gradebook.find_assignment(assignment).notebooks]
        except MissingEntry:
            there = ", ".join(one.name for one in gradebook.assignments) or "none yet"
            raise CannotAutograde(
                f"The gradebook has no assignment {assignment} (it has: {there}). "
                f"Run `nbgrader generate_assignment {assignment}` first."
            ) from None


def _has_ours(url: str, assignment: str) -> bool:
    from grader.classroom.nbgrader_course.plugin import is_exercise

    with _gradebook(url) as gradebook:
        notebooks = gradebook.find_assignment(assignment).notebooks
        return any(is_exercise(cell.name) for book in notebooks for cell in book.grade_cells)


def _fingerprints(folder: ClassFolder) -> dict[tuple[str, str], str]:
    """Of the result that counts of every submission, by learner and notebook's file."""
    with Store(folder.grades) as store:
        return {
            (row.handed_in.learner, Path(row.handed_in.where).name): marks.fingerprint(row.outcome)
            for row in store.rows()
            if row.outcome is not None and row.settled
        }


def _is_current(
    coursedir: Any,
    learner: str,
    assignment: str,
    known: Sequence[str],
    verdicts: Mapping[tuple[str, str], str],
) -> bool:
    """Whether what is in the gradebook was made from what is handed in and judged by now.

    For notebooks of the course the verdict itself is compared, so no clock can be wrong. A teacher's
    own go by the time at which their files were put there.
    """
    handed_in = Path(coursedir.format_path("submitted", learner, assignment))
    autograded = Path(coursedir.format_path("autograded", learner, assignment))
    for name in (f"{one}.ipynb" for one in known):
        mine, made = handed_in / name, autograded / name
        if not mine.is_file():
            continue
        if not made.is_file():
            return False
        judged = marks.fingerprint_in(made)
        put_there = max(mine.stat().st_mtime, mine.stat().st_ctime)
        if judged and judged != verdicts.get((learner, name)):
            return False
        if not judged and made.stat().st_mtime < put_there:
            return False
    return True


class _ForOne(Autograde):  # type: ignore[misc]
    """nbgrader's own, for one learner by name: it takes names for patterns, and "[2]" is no folder then."""

    def init_notebooks(self) -> None:
        folder = self._format_source(self.coursedir.assignment_id, self.coursedir.student_id)
        found = sorted(glob.glob(os.path.join(glob.escape(folder), "*.ipynb")))
        if not found:
            raise NbGraderException("No notebook (.ipynb) was handed in.")
        self.assignments: dict[str, list[str]] = {folder: found}
        self.notebooks: list[str] = []


def _convert(config: Config, coursedir: Any, learner: str, assignment: str) -> str:
    """nbgrader's autograde for one learner → why it failed, "" if it didn't."""
    coursedir.student_id, coursedir.assignment_id = learner, assignment
    converter = _ForOne(coursedir=coursedir, config=config)
    converter.force = True
    outcome = capture_log(converter)
    if outcome["success"]:
        return ""
    return _reason(outcome.get("log", ""), outcome["error"])


def _reason(log: str, error: str) -> str:
    """The one line of nbgrader's log and traceback that tells a teacher something."""
    if "database is locked" in log + error:
        return "Another process holds the gradebook. Close it (or wait), and run the same command again."
    raised = re.findall(r"^ *([A-Za-z_][\w.]*(?:Error|Exception|Judged|Safe|Unavailable|Unusable|Entry)): (.*)$", log, re.M)  # fmt: skip
    own = [told for name, told in raised if not name.endswith("NbGraderException")]
    if own:
        return own[-1]
    return (error.strip().splitlines() or ["nbgrader says nothing more."])[-1]


def _waiting(url: str, assignment: str) -> dict[str, int]:
    """How many cells of each learner wait for a person."""
    with _gradebook(url) as gradebook:
        submissions: Iterable[Any] = gradebook.find_assignment(assignment).submissions
        counts = {
            one.student.id: sum(
                grade.needs_manual_grade for book in one.notebooks for grade in book.grades
            )
            for one in submissions
        }
    return {learner: count for learner, count in counts.items() if count}


@contextmanager
def _gradebook(url: str, course: str = "default_course") -> Iterator[Any]:
    try:
        gradebook = Gradebook(url, course)
    except sa.exc.OperationalError as error:
        raise CannotAutograde(
            f"The gradebook {url} can't be used: {error.orig}. If another process holds it, close it "
            "(or wait) and run the same command again."
        ) from None
    try:
        yield gradebook
    finally:
        gradebook.close()
