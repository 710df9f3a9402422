"""Grade one submission in a sandbox; the same here and on a cluster's worker.

All that is needed travels in a `Job`, all that came of it in an `Outcome`; both hold plain data. What
judges is imported in functions: it needs torch, which those who only read outcomes can do without.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import grader
from grader import exercises
from grader.classroom import submission
from grader.judge.verdict import Status, Verdict
from grader.pupil.runs import CellRun

if TYPE_CHECKING:
    from grader.classroom.checking import NotebookPupil, NotebookResult

CELLS_WALL = 300.0


class Opener(Protocol):
    """What `grader.judge.sandbox.Sandbox` offers: a place for each notebook to run in."""

    def pupil(
        self,
        cells: Sequence[tuple[int, str]],
        *,
        wall: float,
        memory_mib: int,
        files: Mapping[str, bytes] | None = None,
    ) -> AbstractContextManager[NotebookPupil]: ...


@dataclasses.dataclass(frozen=True)
class Job:
    """One submission to grade.

    number: the submission's id in the store
    name: the file's name; assignment: the notebook of the course that it is
    notebook, companions: what was handed in
    seeds: by exercise; own_seed: of the learner's own mystery models
    wall: seconds for all the notebook's cells together
    """

    number: int
    name: str
    assignment: str
    notebook: bytes
    companions: Mapping[str, bytes]
    seeds: Mapping[str, int]
    own_seed: int
    wall: float = CELLS_WALL


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one submission.

    trouble: why it could not be graded at all, "" where it could
    failed: the trouble is the grader's own, and the submission is graded again another time
    isolation: what the notebook ran in
    """

    notebook: str
    edition: str
    verdicts: tuple[Verdict, ...] = ()
    cell_errors: tuple[CellRun, ...] = ()
    notes: tuple[str, ...] = ()
    trouble: str = ""
    failed: bool = False
    own_seed: int = 0
    isolation: str = ""
    version: str = grader.__version__
    seconds: float = 0.0

    @property
    def settled(self) -> bool:
        """False where the grader failed somewhere: nobody's zero."""
        return not self.failed and all(v.status is not Status.GRADER_ERROR for v in self.verdicts)

    @property
    def max_points(self) -> float:
        return sum(verdict.max_points for verdict in self.verdicts)

    @property
    def points(self) -> float | None:
        """None where they aren't known: nothing could be judged, or the grader failed."""
        if self.trouble or not self.settled:
            return None
        return sum(verdict.points for verdict in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            "verdicts": [verdict.as_json() for verdict in self.verdicts],
            "cell_errors": [dataclasses.asdict(run) for run in self.cell_errors],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Outcome:
        return cls(
            **{
                **told,
                "verdicts": tuple(Verdict.from_json(verdict) for verdict in told["verdicts"]),
                "cell_errors": tuple(CellRun(**run) for run in told["cell_errors"]),
                "notes": tuple(told["notes"]),
            }
        )


def grade_one(
    read: submission.Submission,
    sandbox: Opener,
    seed_of: Callable[[str], int],
    *,
    own_seed: int,
    files: Mapping[str, bytes] | None = None,
    wall: float = CELLS_WALL,
    only: str = "",
) -> NotebookResult:
    """Run a notebook in the sandbox and judge its exercises, or the ``only`` one.

    seed_of: by an exercise's name; own_seed: of the learner's own mystery models
    """
    from grader.classroom.checking import judge_notebook, memory_for
    from grader.exercises.mystery_models import own

    asked = [e for e in exercises.of_notebook(read.notebook) if only in ("", e.name)]
    pupil = sandbox.pupil(read.cells, wall=wall, memory_mib=memory_for(asked), files=files or {})
    with own.seeded(own_seed):
        return judge_notebook(read, pupil, asked, lambda exercise: seed_of(exercise.name))


def run(job: Job, sandbox: Opener, isolation: str, *, only: str = "") -> Outcome:
    """Grade a job. Never raises: what fails here is the grader's fault, and says so."""
    started = time.perf_counter()
    try:
        read = submission.parse(job.notebook, Path(job.name), wanted=job.assignment)
        result = grade_one(
            read,
            sandbox,
            job.seeds.__getitem__,
            own_seed=job.own_seed,
            files=job.companions,
            wall=job.wall,
            only=only,
        )
    except submission.NotebookUnreadable as error:
        return Outcome(job.assignment, "", trouble=str(error))
    except Exception as error:
        return failed(job, error, isolation)
    return Outcome(
        notebook=result.notebook,
        edition=result.edition,
        verdicts=result.verdicts,
        cell_errors=result.cell_errors,
        notes=result.notes,
        own_seed=job.own_seed,
        isolation=isolation,
        seconds=time.perf_counter() - started,
    )


def failed(job: Job, error: BaseException, isolation: str) -> Outcome:
    """The grader's own fault, for every exercise of the notebook."""
    from grader.judge.saying import grader_error

    fault = error if isinstance(error, Exception) else RuntimeError(repr(error))
    return Outcome(
        notebook=job.assignment,
        edition="",
        verdicts=tuple(
            grader_error(exercise, fault, job.seeds[exercise.name], 0.0)
            for exercise in exercises.of_notebook(job.assignment)
        ),
        trouble=f"The grader itself failed: {type(fault).__name__}: {fault}",
        failed=True,
        own_seed=job.own_seed,
        isolation=isolation,
    )
