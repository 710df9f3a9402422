"""The judge's verdicts on notebooks in nbgrader's folders: from the class's store, or judged now and kept.

`grader class autograde` judges a whole class in parallel first; then all is in the store. A plain
`nbgrader autograde`, or Formgrader's button, comes here with one notebook at a time.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Sequence
from pathlib import Path

import filelock

from grader.classroom.grading.batch import job_for
from grader.classroom.grading.intake import HandedIn, NothingHandedIn, take_in
from grader.classroom.grading.one import Outcome, run
from grader.classroom.grading.seeds import class_secret
from grader.classroom.grading.store import Store
from grader.classroom.nbgrader_course.folder import ClassFolder
from grader.judge.sandbox import Isolation, Sandbox

_BATCH = 3600.0  # seconds that another batch in the same store may take


class NotJudged(RuntimeError):
    """A notebook could not be judged for a reason that is nobody's mark; the message says it."""


def places(folder: Path, known: Sequence[str]) -> list[Path]:
    """What to take in of one hand-in, so that of each notebook the released file counts.

    folder: ``submitted/<learner>/<assignment>``; known: the names that were released

    A copy beside it ("…-Copy1.ipynb") would else count as a later version, and nbgrader shows
    the other one. The folder as a whole brings along what else lies there: a learner's own modules.
    """
    released = [folder / f"{name}.ipynb" for name in known if (folder / f"{name}.ipynb").is_file()]
    others = set(folder.rglob("*.ipynb")) - set(released)
    visible = [p for p in others if not any(part.startswith(".") for part in p.parts)]
    return released if visible else [folder]


def judged(
    course: ClassFolder, notebook: Path, known: Sequence[str], isolation: str
) -> tuple[HandedIn, Outcome]:
    """What was handed in as ``notebook``, and what the judge says to it.

    Raises NotJudged, StoreError, SecretUnusable, SandboxUnavailable.
    """
    course.grades.mkdir(mode=0o700, exist_ok=True)
    lock = filelock.FileLock(course.grades / ".lock", timeout=_BATCH)
    with lock, Store(course.grades) as store:
        one = _taken(store, notebook, known)
        number = store.register([one])[0]
        told = store.result(number)
        if told is not None:
            return one, Outcome.from_json(told)
        if one.trouble:
            outcome = Outcome(one.assignment, "", trouble=one.trouble)
        else:
            seeds = class_secret(course.secret, make=False)
            outcome = run(job_for(store, number, seeds), _sandbox(isolation), isolation)
        store.record(number, outcome.as_json(), settled=outcome.settled)
    return one, outcome


def _taken(store: Store, notebook: Path, known: Sequence[str]) -> HandedIn:
    try:
        taken = take_in(places(notebook.parent, known), store.keep)
    except (NothingHandedIn, OSError) as error:
        raise NotJudged(f"{notebook} can't be taken in. {error}") from None
    for one in taken.submissions:
        if Path(one.where).name == notebook.name:
            return one
    told = " ".join(taken.remarks)
    raise NotJudged(f"{notebook} is not among what was handed in with it. {told}")


@functools.cache
def _sandbox(isolation: str) -> Sandbox:
    """One for all notebooks that this process judges: it is warm after the first."""
    sandbox = Sandbox(Isolation(isolation)).__enter__()
    atexit.register(sandbox.close)
    return sandbox
