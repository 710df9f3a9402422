"""What a learner waits for: a check, an import, a page that opens, a first cell, a widget's new picture."""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from grader import exercises
from grader.classroom import solving, sources
from grader.exercises.mystery_models import own
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.remote import ProcessPupil
from grader.judge.spec import Exercise
from grader.lab.checking import check as check_of_the_lab
from tests.bench import waiting_pages, waiting_widgets
from tests.bench.kernels import REPOSITORY
from tests.bench.rows import Row, seconds

OWN_SEED = 8  # of a learner who has opened their mystery models, as notebook 08 does before it asks


def rows() -> Iterator[Row]:
    yield from imports()
    yield from waiting_pages.rows()
    yield from checks()
    yield from waiting_widgets.rows()


def checks(rounds: int = 5) -> Iterator[Row]:
    """The solutions of all exercises, checked as in a notebook; rounds alternate exercises."""
    every, answers = list(exercises.registry().values()), solutions()
    training = [exercise for exercise in every if exercise.free_rng]
    quick = [exercise for exercise in every if not exercise.free_rng]
    with data_folder(), own.seeded(OWN_SEED):
        warm = [timed_check(exercise, answers) for exercise in quick]
        turns = [[timed_check(exercise, answers) for exercise in quick] for _ in range(rounds)]
        trained = [timed_check(exercise, answers) for exercise in training]
    medians = [statistics.median(runs) for runs in zip(*turns, strict=True)]
    worst = max(range(len(quick)), key=medians.__getitem__)
    yield Row(
        "check(): median over the exercises", tuple(medians), "ms", at_most=50.0,
        note=f"{len(quick)} exercises, without the {len(training)} that train",
    )  # fmt: skip
    slowest = tuple(turn[worst] for turn in turns)
    name = quick[worst].name
    yield Row(f"check(): the slowest exercise, `{name}`", slowest, "ms", at_most=500.0)
    first = max(range(len(quick)), key=warm.__getitem__)
    yield Row(
        f"check(): the slowest first check in a process, `{quick[first].name}`",
        (warm[first],),
        "ms",
    )
    for exercise, took in zip(training, trained, strict=True):
        yield Row(f"check(): `{exercise.name}`, which trains", (took / 1e3,), "s")
    for exercise in every:
        if is_guarded(exercise):
            yield Row(
                f"`{exercise.name}` with its full-size memory case", (full_size(exercise),), "s",
                note="by `grader check` and `grader grade` only",
            )  # fmt: skip


def solutions() -> dict[str, Callable[..., Any]]:
    """The function of every answer cell, as the solved notebooks have it."""
    files = sources.source_files(REPOSITORY)
    return {
        name: function
        for file in files.values()
        for name, function in solving.solutions(sources.read(file)).items()
    }


def timed_check(exercise: Exercise, answers: dict[str, Callable[..., Any]]) -> float:
    """Milliseconds of one check, which must give all points."""
    said = io.StringIO()
    points: list[float] = []
    with contextlib.redirect_stdout(said):
        took = seconds(lambda: points.append(check_of_the_lab(answers[exercise.name])))
    assert points == [exercise.points], said.getvalue()
    return took * 1e3


def is_guarded(exercise: Exercise) -> bool:
    """Has it a case too large for a learner's kernel?"""
    return any(case.guarded for case in exercise.cases(Draw(0, guarded=True)))


def full_size(exercise: Exercise) -> float:
    """Seconds to judge the solution with all cases, in a process of its own that is ready."""
    file = sources.source_files(REPOSITORY)[exercise.notebook]
    source = sources.read(file)
    imports, *_ = source.of_kind("code")
    cells = [(cell.number, cell.source) for cell in (imports, *source.of_kind("answer"))]
    with ProcessPupil(cells) as pupil:
        verdict = judge(exercise, pupil)
    assert verdict.passed, verdict
    return verdict.seconds


@contextlib.contextmanager
def data_folder() -> Iterator[None]:
    """A folder for the learner's progress that goes away again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, GRADER_DATA=folder),
    ):
        yield


def imports(rounds: int = 7) -> Iterator[Row]:
    """A fresh interpreter each time; an empty one is measured beside it and taken off."""
    commands = {
        "empty": ["-c", "pass"],
        "import grader": ["-c", "import grader"],
        "grader --help": ["-m", "grader", "--help"],
    }
    turns = [
        {name: seconds(lambda: python(command)) for name, command in commands.items()}  # noqa: B023
        for _ in range(rounds + 1)
    ][1:]  # the first turn warms up
    base = statistics.median(turn["empty"] for turn in turns)
    added = tuple(max(0.0, turn["import grader"] - base) for turn in turns)
    yield Row("import grader, beyond an empty interpreter", added, "s", at_most=0.15)
    whole = tuple(turn["grader --help"] for turn in turns)
    yield Row("grader --help, whole process", whole, "s", at_most=0.4)
    imported = sum(
        torch_modules(python(["-X", "importtime", *command])) for command in commands.values()
    )
    yield Row("modules of torch that the two import", (imported,), "modules", at_most=0)


def python(arguments: Sequence[str]) -> str:
    """Run an interpreter to its end → what stood on stderr."""
    done = subprocess.run(
        [sys.executable, *arguments], check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    return done.stderr


def torch_modules(importtime: str) -> int:
    """How many modules of torch are among the lines that ``-X importtime`` writes."""
    names = [line.rpartition("|")[2].strip() for line in importtime.splitlines()]
    return sum(name.partition(".")[0] == "torch" for name in names)
