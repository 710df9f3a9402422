"""A whole batch: take in → grade what has no result yet → reports. The same command goes on after a stop.

``grade`` reads as the stages. Everything between them is in the store, so each can be killed and run
again; reports are made from the store alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import filelock

from grader import exercises
from grader.classroom.grading import reports
from grader.classroom.grading.cluster import Cluster
from grader.classroom.grading.engines import Engine, Here, processors
from grader.classroom.grading.intake import take_in
from grader.classroom.grading.one import CELLS_WALL, Job, Outcome, run
from grader.classroom.grading.seeds import Seeds, class_secret
from grader.classroom.grading.store import NAME, Row, Store
from grader.classroom.grading.summary import Summary
from grader.judge.sandbox import Isolation, Sandbox
from grader.judge.verdict import Status, Verdict

SECRET = "class-secret"
_MOST_FAILURES = 12  # one after the other: then it is not the notebooks


class CannotGrade(RuntimeError):
    """The batch can't be begun or can't go on; what was graded is kept. The message says why."""


@dataclasses.dataclass(frozen=True)
class How:
    """How to grade. jobs: 0 for one a processor; secret: a file, else one beside the store."""

    isolation: str = "full"
    jobs: int = 0
    scheduler: str = ""
    regrade: bool = False
    secret: Path | None = None
    wall: float = CELLS_WALL


class Watcher(Protocol):
    """Is told how far it is."""

    def begins(self, to_grade: int, graded_before: int) -> None: ...
    def graded(self, outcome: Outcome) -> None: ...


@dataclasses.dataclass(frozen=True)
class Batch:
    """What came of it.

    newly: how many were graded now
    remarks: what a person should look at: files left out, namesakes; versions: who handed in several
    left: how many are still to be graded, after an interruption
    """

    out: Path
    handed_in: int
    newly: int
    left: int
    remarks: tuple[str, ...]
    versions: tuple[str, ...]
    summary: Summary

    @property
    def all_well(self) -> bool:
        """Whether nobody has to look at anything."""
        return not self.left and not self.summary.looks and not self.remarks

    def as_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "handed_in": self.handed_in,
            "newly_graded": self.newly,
            "left": self.left,
            "remarks": list(self.remarks),
            "versions": list(self.versions),
            **self.summary.as_json(),
        }


def grade(
    paths: Sequence[Path],
    out: Path,
    how: How,
    watcher: Watcher,
    *,
    assignment: str = "",
) -> Batch:
    """Grade what lies below ``paths`` into the folder ``out``, and write its reports.

    What was graded before and hasn't changed is not graded again, unless ``how.regrade``.
    Raises CannotGrade, NothingHandedIn, StoreError, SecretUnusable, ReportsNotWritten,
    SandboxUnavailable, ClusterUnusable, OSError.
    """
    with _alone(out), Store(out) as store:
        taken = take_in(paths, store.keep, assignment, but=out)
        ids = store.register(taken.submissions, again=how.regrade)
        seeds = class_secret(how.secret or out / SECRET, make=how.secret is None)
        todo = store.to_grade(ids)
        watcher.begins(len(todo), len(ids) - len(todo))
        newly = _grade(store, todo, seeds, how, watcher)
        summary = reports.write(store, out)
    return Batch(out, len(ids), newly, len(todo) - newly, taken.remarks, taken.versions, summary)


def _grade(store: Store, todo: Sequence[int], seeds: Seeds, how: How, watcher: Watcher) -> int:
    """Grade them, each recorded as soon as it is done → how many. Ctrl-C ends it in good order."""
    gradable = []
    for number in todo:
        one = store.submission(number)
        if one.trouble:
            outcome = Outcome(one.assignment, "", trouble=one.trouble)
            store.record(number, outcome.as_json(), settled=True)
            watcher.graded(outcome)
        else:
            gradable.append(number)
    done, in_a_row = len(todo) - len(gradable), 0
    if not gradable:
        return done
    jobs = (job_for(store, number, seeds, how.wall) for number in gradable)
    with contextlib.suppress(KeyboardInterrupt), _engine(how) as engine:
        for job, outcome in engine.work(jobs):
            store.record(job.number, outcome.as_json(), settled=outcome.settled)
            watcher.graded(outcome)
            done += 1
            in_a_row = 0 if outcome.settled else in_a_row + 1
            if in_a_row == _MOST_FAILURES:
                raise CannotGrade(_gives_up(outcome))
    return done


def job_for(store: Store, number: int, seeds: Seeds, wall: float = CELLS_WALL) -> Job:
    """All that is needed to grade a submission that the store keeps."""
    one = store.submission(number)
    return Job(
        number=number,
        name=one.where.replace("\\", "/").rpartition("/")[2],
        assignment=one.assignment,
        notebook=store.load(one.notebook),
        companions={name: store.load(digest) for name, digest in one.companions.items()},
        seeds={
            exercise.name: seeds.exercise(one.learner, exercise.name, one.digest)
            for exercise in exercises.of_notebook(one.assignment)
        },
        own_seed=seeds.own_models(one.learner),
        wall=wall,
    )


@contextlib.contextmanager
def _engine(how: How) -> Iterator[Engine]:
    if how.scheduler:
        with Cluster(how.scheduler, how.isolation) as cluster:
            yield cluster
        return
    jobs = how.jobs or processors()
    with Sandbox(Isolation(how.isolation), jobs=jobs) as sandbox:
        yield Here(sandbox, how.isolation, jobs)


def _gives_up(outcome: Outcome) -> str:
    why = outcome.trouble or next(
        v.message for v in outcome.verdicts if v.status is Status.GRADER_ERROR
    )
    return (
        f"Stopped: the grader failed {_MOST_FAILURES} times in a row, so it is not the notebooks. "
        f"{why} What was graded before is kept; mend that and run the same command again."
    )


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """The folder, made if need be, with no other batch in it. Raises CannotGrade."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(out / ".lock", timeout=0)
        lock.acquire()
    except filelock.Timeout:
        raise CannotGrade(
            f"Another `grader grade` is at work in {out}. Wait for it, or grade into another folder."
        ) from None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotGrade(f"Can't write into the folder {out}: {why}.") from None
    try:
        yield
    finally:
        lock.release()


@dataclasses.dataclass(frozen=True)
class Replayed:
    """One verdict, as it was kept and as it comes out now from the same bytes and the same seed."""

    learner: str
    then: Verdict
    now: Verdict
    version: str

    @property
    def same(self) -> bool:
        return all(
            getattr(self.then, name) == getattr(self.now, name)
            for name in ("status", "points", "mistake", "seed")
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "learner": self.learner,
            "same": self.same,
            "then": self.then.as_json(),
            "now": self.now.as_json(),
            "graded_by": self.version,
        }


def replay(out: Path, learner: str, exercise: str, how: How) -> Replayed:
    """Judge one exercise of what a learner handed in again, with the seed it was judged with.

    Raises CannotGrade where the store doesn't hold it, and what ``grade`` raises.
    """
    if not (out / NAME).is_file():
        raise CannotGrade(f"{out} holds no grades. Name the folder of the batch with --out.")
    with Store(out) as store:
        row = _kept(store, learner, exercise)
        then = Outcome.from_json(row.outcome or {})
        verdict = next(v for v in then.verdicts if v.exercise == exercise)
        one = row.handed_in
        job = Job(
            number=row.id,
            name=one.where,
            assignment=one.assignment,
            notebook=store.load(one.notebook),
            companions={name: store.load(digest) for name, digest in one.companions.items()},
            seeds={v.exercise: v.seed for v in then.verdicts},
            own_seed=then.own_seed,
            wall=how.wall,
        )
    with Sandbox(Isolation(how.isolation)) as sandbox:
        now = run(job, sandbox, how.isolation, only=exercise)
    found = [v for v in now.verdicts if v.exercise == exercise]
    if not found:
        raise CannotGrade(f"{exercise} can't be judged again: {now.trouble}")
    return Replayed(learner, verdict, found[0], then.version)


def _kept(store: Store, learner: str, exercise: str) -> Row:
    known = False
    for row in store.rows():
        if row.handed_in.learner == learner:
            known = True
            if any(v["exercise"] == exercise for v in (row.outcome or {}).get("verdicts", ())):
                return row
    if known:
        raise CannotGrade(f"No verdict on {exercise} of {learner} is kept.")
    near = difflib.get_close_matches(learner, {name for name, _ in store.names()}, n=3, cutoff=0.5)
    guess = f" Did you mean {' or '.join(near)}?" if near else ""
    raise CannotGrade(f"Nothing of a learner {learner} is kept in {store.path}.{guess}")
