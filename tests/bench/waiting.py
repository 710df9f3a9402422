"""What a learner waits for: the check of an answer, the import of the package, the help text."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.bench.rows import Row


def rows() -> Iterator[Row]:
    yield from check()
    yield from imports()


def check(rounds: int = 7) -> Iterator[Row]:
    """``judge`` on the right answer of every exercise, training apart; rounds alternate exercises."""
    from grader.exercises import registry
    from grader.judge.judge import judge
    from grader.pupil.calling import InProcess

    exercises = [exercise for exercise in registry().values() if not exercise.free_rng]
    times: dict[str, list[float]] = {exercise.name: [] for exercise in exercises}
    for turn in range(rounds + 1):
        for exercise in exercises:
            started = time.perf_counter()
            verdict = judge(exercise, InProcess({exercise.name: exercise.reference}))
            if turn:  # the first round warms up
                times[exercise.name].append((time.perf_counter() - started) * 1e3)
            assert verdict.passed, verdict
    medians = [statistics.median(runs) for runs in times.values()]
    yield Row("check(): median over the exercises", tuple(medians), "ms", at_most=50.0)
    worst = max(times, key=lambda name: statistics.median(times[name]))
    yield Row(f"check(): the slowest exercise, {worst}", tuple(times[worst]), "ms", at_most=500.0)


def imports(rounds: int = 7) -> Iterator[Row]:
    """A fresh interpreter each time; an empty one is measured beside it and taken off."""
    commands = {
        "empty": ["-c", "pass"],
        "import grader": ["-c", "import grader"],
        "grader --help": ["-m", "grader", "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
            if turn:
                times[name].append(time.perf_counter() - started)
    base = statistics.median(times["empty"])
    added = tuple(max(0.0, t - base) for t in times["import grader"])
    yield Row("import grader, beyond an empty interpreter", added, "s", at_most=0.15)
    yield Row("grader --help, whole process", tuple(times["grader --help"]), "s", at_most=0.4)
