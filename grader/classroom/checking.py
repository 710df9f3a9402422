"""Grade one notebook: run it in a fresh process and judge every exercise of it.

The same judge and the same words as in the notebook itself, but from a clean start, top to bottom:
what only worked because of a cell that is gone fails here.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from grader import exercises
from grader.classroom.submission import NotebookUnreadable, Submission, read
from grader.judge.draw import fresh_seed
from grader.judge.judge import judge_all
from grader.judge.remote import ProcessPupil, PupilNotStarted
from grader.judge.saying import grader_error
from grader.judge.spec import Exercise
from grader.judge.verdict import Status, Verdict
from grader.pupil.reply import Pupil
from grader.pupil.runs import CellRun

__all__ = [
    "NotebookPupil",
    "NotebookResult",
    "NotebookUnreadable",
    "check_notebook",
    "judge_notebook",
    "memory_for",
]

MEMORY_MIB = 4096


@dataclasses.dataclass(frozen=True)
class NotebookResult:
    """What became of one notebook.

    notebook: which one of the course it is ("01-zero-layer"); edition: "" where its mark was lost
    verdicts: one for every exercise of that notebook, in the course's order
    cell_errors: the cells that stopped with an error, in order
    notes: what was noticed about the file, in the learner's words
    """

    path: Path
    notebook: str
    edition: str
    verdicts: tuple[Verdict, ...]
    cell_errors: tuple[CellRun, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def max_points(self) -> float:
        return sum(verdict.max_points for verdict in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "notebook": self.notebook,
            "edition": self.edition,
            "points": self.points,
            "max_points": self.max_points,
            "verdicts": [verdict.as_json() for verdict in self.verdicts],
            "cell_errors": [dataclasses.asdict(run) for run in self.cell_errors],
            "notes": list(self.notes),
        }


class NotebookPupil(Pupil, Protocol):
    """A pupil that has run a notebook's cells; ``runs`` says what became of each."""

    @property
    def runs(self) -> list[CellRun]: ...


def check_notebook(path: str | os.PathLike[str], *, seed: int | None = None) -> NotebookResult:
    """Run the notebook in a process of its own and judge all its exercises.

    seed: what every exercise's cases are drawn from; fresh for each if None.
    Raises NotebookUnreadable; whatever happens after that is a verdict.
    """
    submission = read(Path(path))
    asked = exercises.of_notebook(submission.notebook)
    pupil = ProcessPupil(
        submission.cells,
        folder=submission.path.resolve().parent,
        memory_mib=memory_for(asked),
    )
    return judge_notebook(
        submission, pupil, asked, lambda exercise: fresh_seed() if seed is None else seed
    )


def memory_for(asked: Sequence[Exercise]) -> int:
    """MiB that a notebook's process may take: what its most demanding exercise allows, or more."""
    return max([MEMORY_MIB, *(exercise.budget.memory_mib for exercise in asked)])


def judge_notebook(
    submission: Submission,
    pupil: AbstractContextManager[NotebookPupil],
    asked: Sequence[Exercise],
    seed_of: Callable[[Exercise], int],
) -> NotebookResult:
    """Judge what was ``asked`` of a notebook that ``pupil`` runs, wherever that is.

    A pupil that can't be started is the grader's fault: PupilNotStarted becomes GRADER_ERROR.
    """
    seeds = {exercise.name: seed_of(exercise) for exercise in asked}
    runs: list[CellRun] = []
    try:
        with pupil as opened:
            judged = judge_all([(exercise, seeds[exercise.name]) for exercise in asked], opened)
            runs = list(opened.runs)
    except PupilNotStarted as error:
        judged = [grader_error(exercise, error, seeds[exercise.name], 0.0) for exercise in asked]
    by_number = {run.number: run for run in runs}
    return NotebookResult(
        path=submission.path,
        notebook=submission.notebook,
        edition=submission.edition,
        verdicts=tuple(
            _explained(verdict, exercise, submission, by_number)
            for verdict, exercise in zip(judged, asked, strict=True)
        ),
        cell_errors=tuple(run for run in runs if run.error),
        notes=submission.notes,
    )


def _explained(
    verdict: Verdict, exercise: Exercise, submission: Submission, runs: Mapping[int, CellRun]
) -> Verdict:
    """Where no function was there to ask, say why: its cell failed, or it has another name."""
    if verdict.status is not Status.NOT_ATTEMPTED or "was found" not in verdict.message:
        return verdict
    for number in reversed(submission.definitions.get(exercise.name, ())):
        run = runs.get(number)
        if run is not None and run.error:
            return dataclasses.replace(
                verdict,
                status=Status.CRASHED,
                message=f"The cell that defines {exercise.name} did not run through. {run.error}",
                traceback=run.traceback,
            )
    near = difflib.get_close_matches(exercise.name, submission.definitions, n=1, cutoff=0.75)
    if near and near[0] not in {e.name for e in exercises.of_notebook(submission.notebook)}:
        hint = f" Did you rename it? The notebook defines {near[0]}."
        return dataclasses.replace(verdict, message=verdict.message + hint)
    return verdict
