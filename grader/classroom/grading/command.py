"""What ``grader grade`` says to a teacher."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.classroom.grading import batch
from grader.classroom.grading.batch import Batch, CannotGrade, How, Replayed
from grader.classroom.grading.cluster import ClusterUnusable
from grader.classroom.grading.intake import NothingHandedIn
from grader.classroom.grading.reports import ReportsNotWritten
from grader.classroom.grading.seeds import SecretUnusable
from grader.classroom.grading.store import StoreError
from grader.classroom.grading.watching import Bar
from grader.judge.sandbox import SandboxUnavailable
from grader.judge.verdict import Verdict

KNOWN = (
    CannotGrade, ClusterUnusable, NothingHandedIn, OSError, ReportsNotWritten, SandboxUnavailable,
    SecretUnusable, StoreError,
)  # fmt: skip
"""What can stand in the way, each with a message for a teacher."""

NEEDS_TRUST = (
    "--isolation none runs every notebook as you: its code can read, change and send away all that you "
    "can, these grades included. For strangers' work use Linux, WSL2 or a Linux container. For code "
    "that you trust as your own, and at your own risk, add --trust."
)
AT_YOUR_RISK = (
    "WARNING: no sandbox. Every notebook runs as you, and can read, change and send away your files "
    "and forge its own points. You said --trust."
)
WAYS_OUT = (
    "Ways out: mend what is missing (`grader doctor` shows it); on macOS and Windows, grade in a Linux "
    "container or in WSL2; in a container that is thrown away after one submission, --isolation "
    "container; for code that you trust as your own, and at your own risk, --isolation none --trust."
)
NO_TLS = (
    "WARNING: {address} has no TLS. Whoever reaches that scheduler can run anything on its workers and "
    "read every notebook and grade. Use tls:// but where the network is yours alone."
)
_REMARKS_SHOWN = 20


def warnings(how: How) -> list[str]:
    """What a teacher must not overlook before anything runs."""
    said = [AT_YOUR_RISK] if how.isolation == "none" else []
    here = ("localhost", "127.", "[::1]")
    address = how.scheduler.partition("://")[2] or how.scheduler
    if how.scheduler and not how.scheduler.startswith("tls:") and not address.startswith(here):
        said.append(NO_TLS.format(address=how.scheduler))
    return said


def grade(paths: Sequence[Path], out: Path, how: How, assignment: str) -> Batch:
    """Grade the batch behind a progress bar. Raises what is in ``KNOWN``."""
    with _ways_out(), Bar() as bar:
        return batch.grade(paths, out, how, bar, assignment=assignment)


def replay(out: Path, learner: str, exercise: str, how: How) -> Replayed:
    """Judge one kept answer again. Raises what is in ``KNOWN``."""
    with _ways_out():
        return batch.replay(out, learner, exercise, how)


@contextlib.contextmanager
def _ways_out() -> Iterator[None]:
    try:
        yield
    except SandboxUnavailable as error:
        raise CannotGrade(f"{error}\n{WAYS_OUT}") from None


def told(done: Batch) -> str:
    """The end of a batch: what was done, how it went, who needs a look, where the files are."""
    before = done.handed_in - done.newly - done.left
    first = f"{done.newly} graded"
    first += f", {before} were before and haven't changed" if before else ""
    first += f", {done.left} are left: run the same command again to go on" if done.left else ""
    parts = [f"{first}.", done.summary.as_text()]
    remarks = (*done.remarks, *done.versions)
    if remarks:
        shown = [f"  {remark}" for remark in remarks[:_REMARKS_SHOWN]]
        more = len(remarks) - _REMARKS_SHOWN
        shown += [f"  … and {more} more: --json shows all"] if more > 0 else []
        parts.append("\n".join(["What was handed in", *shown]))
    parts.append(
        f"Grades: {done.out / 'grades.csv'}\nFeedback: {done.out / 'feedback'}\n"
        f"Tests: {done.out / 'junit.xml'}"
    )
    return "\n\n".join(part for part in parts if part)


def replayed(again: Replayed) -> str:
    """Both verdicts, one under the other."""
    lines = [f"{again.then.exercise} of {again.learner}, seed {again.then.seed}"]
    lines += [*_lines("then", again.then), *_lines("now", again.now)]
    lines.append("The same verdict." if again.same else "NOT the same verdict.")
    return "\n".join(lines)


def _lines(when: str, verdict: Verdict) -> list[str]:
    points = f"{verdict.points:g} of {verdict.max_points:g} points"
    named = f", {verdict.mistake.replace('_', ' ')}" if verdict.mistake else ""
    return [
        f"  {when:<4}  {verdict.status.value}, {points}{named}",
        *(f"        {line}" for line in verdict.message.splitlines()),
    ]
