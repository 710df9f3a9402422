"""Batches of ours: the command as a teacher runs it, and the same code with its server kept warm."""

from __future__ import annotations

import contextlib
import csv
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from unittest import mock

import psutil

from grader import exercises
from grader.classroom import submission
from grader.classroom.grading import batch
from grader.classroom.grading.one import Outcome
from grader.judge.judge import judge
from grader.judge.sandbox import Isolation, Sandbox
from tests.bench import grading_forms as forms

ROOT = Path(forms.__file__).parents[2]
MIB = 2**20
# What `grader grade` does before the first notebook: imports, and the server in its sandbox.
START = """
from grader.classroom.grading import batch, command
with batch.Sandbox(batch.Isolation.FULL, jobs=batch.processors()):
    from grader.classroom import checking
"""
# Linux counts among a process's peak what the one that started it has. So a small one starts it.
BETWEEN = """
import os, subprocess, sys, time
began = time.perf_counter()
running = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
_, status, used = os.wait4(running.pid, 0)
print(time.perf_counter() - began, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class GradedWrongly(RuntimeError):
    """We failed, or gave other points than were deserved: nothing to measure."""


@dataclass(frozen=True)
class Ran:
    """A process that ended: its wall time, and the most memory (RSS) that the judge's process had."""

    seconds: float
    peak_mib: float


def hand_in(
    folder: Path, count: int, notebook: str = forms.NOTEBOOK, *, answers: int | None = None
) -> Path:
    """So many notebooks, no two the same; in those of odd number the answers of ``WRONG``.

    answers: to how many of the exercises, the first ones; else to all
    """
    folder.mkdir(parents=True)
    for number in range(count):
        wrong = number % 2 == 1 and notebook == forms.NOTEBOOK
        file = folder / f"learner {number:05}.ipynb"
        file.write_bytes(forms.ours(number, wrong, notebook, answers))
    return folder


def command(handed_in: Path, out: Path) -> Ran:
    """``grader grade FOLDER`` with nothing but its defaults. Raises GradedWrongly."""
    return process([sys.executable, "-m", "grader", "grade", str(handed_in), "--out", str(out)])


def start() -> Ran:
    """What the command does before its first notebook, and the end of the server."""
    return process([sys.executable, "-c", START])


def process(arguments: list[str]) -> Ran:
    """Run it to its end. Raises GradedWrongly where it fails."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", BETWEEN, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise GradedWrongly(
            f"{arguments[1:4]} ended with {done.returncode}:\n{done.stderr[-3000:]}"
        )
    return Ran(*map(float, done.stdout.split()))


def points(out: Path) -> dict[str, float]:
    """By learner, from ``grades.csv``."""
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        return {line["learner"]: float(line["points"]) for line in csv.DictReader(file)}


class Silent:
    """A watcher that sees to it that all are graded."""

    def begins(self, to_grade: int, graded_before: int) -> None:
        if graded_before:
            raise GradedWrongly(f"{graded_before} of the batch were graded before.")

    def graded(self, outcome: Outcome) -> None:
        if not outcome.settled:
            raise GradedWrongly(f"{outcome.trouble} {outcome.verdicts}")


class Warm:
    """``with Warm(places) as warm:`` — a server that is up, for one batch after the other."""

    def __init__(self, places: int) -> None:
        self.sandbox = Sandbox(Isolation.FULL, jobs=places)

    def __enter__(self) -> Self:
        self.sandbox.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self.sandbox.__exit__(*failure)

    def grade(self, handed_in: Path, jobs: int) -> float:
        """Seconds of a whole batch: taken in, graded, stored, reported. At most ``places`` jobs."""
        opened = contextlib.nullcontext(self.sandbox)
        with (
            tempfile.TemporaryDirectory(dir=handed_in.parent) as out,
            mock.patch.object(batch, "Sandbox", return_value=opened),
        ):
            return batch_seconds(handed_in, Path(out), batch.How(jobs=jobs))


def batch_seconds(handed_in: Path, out: Path, how: batch.How) -> float:
    """Seconds of ``batch.grade``. Raises GradedWrongly."""
    started = time.perf_counter()
    done = batch.grade([handed_in], out, how, Silent())
    took = time.perf_counter() - started
    if done.left or done.newly != done.handed_in:
        raise GradedWrongly(f"{done.newly} of {done.handed_in} were graded.")
    return took


def child_memory(notebooks: int = 3) -> tuple[list[float], float]:
    """MiB that each notebook's process has to itself at most, looked at after its cells and after each
    exercise; and what the warm server has, of which the others share all that they don't change."""
    peaks, shared = [], 0.0
    with Warm(1) as warm:
        for number in range(notebooks):
            read = submission.parse(forms.ours(number), Path("homework.ipynb"))
            with warm.sandbox.pupil(read.cells) as pupil:
                server, child = _forked()
                peak = _own(child)
                for exercise in exercises.of_notebook(forms.NOTEBOOK):
                    if not judge(exercise, pupil).passed:
                        raise GradedWrongly(exercise.name)
                    peak = max(peak, _own(child))
            peaks.append(peak)
            shared = server.memory_info().rss / MIB
    return peaks, shared


def _forked() -> tuple[psutil.Process, psutil.Process]:
    """The warm server and the process that it forked for a notebook."""
    below = psutil.Process().children(recursive=True)
    forked = {one.pid: one for one in below if one.name().startswith("python")}
    (child,) = [one for one in forked.values() if one.ppid() in forked]
    return forked[child.ppid()], child


def _own(process: psutil.Process) -> float:
    return float(process.memory_full_info().uss) / MIB
