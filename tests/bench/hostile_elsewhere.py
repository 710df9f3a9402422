"""The hostile notebooks through plain ``nbgrader autograde`` and ``otter run``: by name only, half an hour.

What is compared
- The same notebooks and the same witnesses as ours. Each gets a course of its own with the exercise that
  a teacher would write for that tool (``hostile_course``), a plain learner's notebook with the attack's
  cells before the answer, and a world to harm: secrets, another learner's work, services, a process.
- forged: the tool's own books show points for a wrong answer, or for one that was stolen.
- reached: a witness outside the kernel saw something, or a call was allowed that leaves no trace, or the
  notebook took nearly all the processes or memory there were.
- no grade: the tool gave none, or had to be ended, so that a person must look and a batch may stand still.
  A refusal with no points is the right outcome for some of them, so this is no harm by itself. For us
  it is a fault of the grader's; a learner's notebook that breaks down has a verdict that says so.

What isn't
- Notebooks marked ``elsewhere: no`` attack our own wire format, modules or files. They mean nothing to
  another tool, and are neither run there nor counted.
- The set was written against us. What only another tool offers (its gradebook's tables, its tests'
  folder, its cells' metadata) is not attacked, so the counts are what *these* notebooks do, no more.
- Neither tool claims to lock notebooks in by itself; nbgrader's documentation leaves that to the
  teacher, and ``otter grade``, which needs Docker, is not what is run here.
- All runs as a user who may do nothing much, inside a sandbox of ours (``hostile_sandbox``). What that
  refuses (writing into the tool's own environment, devices, mounts, a network) counts for the tool.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.judge.sandbox import Isolation
from tests import submission_cases
from tests.arena import RIGHT, arena
from tests.bench import hostile, hostile_course
from tests.bench.hostile_sandbox import Running, running, try_out
from tests.bench.rows import Row
from tests.submission_cases import ANSWERED_WRONG, Submission

TOOLS = ("nbgrader", "otter")
FULL_MARKS = float(sum(hostile_course.POINTS.values()))
# Seconds a notebook may take, and more where plain ones are slow too: nbgrader ends a cell after 30 s, so
# it gets what five such cells need; otter never ends one.
WALL = {"nbgrader": 180.0, "otter": 60.0}
SLOWER_THAN_PLAIN = 3.0
PLAIN_WALL = 300.0
AT_ONCE = 2


@dataclass(frozen=True)
class Outcome:
    """What one notebook got from one tool.

    points: None where the tool gave no grade, or nobody could look any more
    """

    points: float | None
    seen: tuple[str, ...]
    hung: bool = False
    watched: bool = True
    seconds: float = 0.0
    log: str = ""

    @property
    def forged(self) -> bool:
        return bool(self.points)

    @property
    def reached(self) -> bool:
        return bool(self.seen)

    @property
    def ungraded(self) -> bool:
        return self.hung or (self.watched and self.points is None)

    @classmethod
    def told(cls, report: Mapping[str, Any]) -> Outcome:
        """From what the program inside reports; no report is the notebook's doing, and harm."""
        if not report:
            return cls(None, ("brought down the program that watched it",), watched=False)
        return cls(**{**report, "seen": tuple(report["seen"])})

    def __str__(self) -> str:
        grade = "no grade" if self.points is None else f"{self.points:g} points"
        return "; ".join([grade, *(["hung"] if self.hung else []), *self.seen])


def rows() -> Iterator[Row]:
    cases = [case for case in submission_cases.every("hostile") if applies(case)]
    theirs = attack(cases)
    with tempfile.TemporaryDirectory() as folder, arena(Isolation.FULL, Path(folder)) as place:
        ours = hostile.attack(place, cases)
    yield from counted(ours, theirs)


def counted(
    ours: Sequence[hostile.Attacked], theirs: Mapping[str, Mapping[str, Outcome]]
) -> Iterator[Row]:
    """How many notebooks got what, from us and from each tool."""
    questions = (
        ("points for a wrong or stolen answer", [bool(one.points) for one in ours], "forged"),
        ("reached something outside", [bool(one.reached) for one in ours], "reached"),
        ("no grade", [not one.graded for one in ours], "ungraded"),
    )
    for what, by_us, name in questions:
        for tool, outcomes in theirs.items():
            by_it = [getattr(outcome, name) for outcome in outcomes.values()]
            yield Row(
                f"hostile: {what}", (sum(by_us),), "notebooks", tool, (sum(by_it),),
                at_most=0, note=f"of {len(ours)} notebooks",
            )  # fmt: skip


def applies(case: Submission) -> bool:
    return not case.header.get("elsewhere", "yes").startswith("no")


def attack(cases: Sequence[Submission]) -> dict[str, dict[str, Outcome]]:
    """What each notebook got from each tool, said on stderr as it comes.

    Raises RuntimeError where the outer sandbox doesn't hold, or a tool doesn't grade plain notebooks.
    """
    found: dict[str, dict[str, Outcome]] = {tool: {} for tool in TOOLS}
    with tempfile.TemporaryDirectory() as folder, running() as sandboxes:
        course = hostile_course.make(Path(folder))
        try_out(sandboxes, course)
        wall = {
            tool: max(WALL[tool], SLOWER_THAN_PLAIN * _control(sandboxes, course, tool))
            for tool in TOOLS
        }
        with ThreadPoolExecutor(AT_ONCE) as pool:
            left = {
                pool.submit(_grade, sandboxes, course, tool, _cells(case), wall[tool]): (
                    tool,
                    case.name,
                )
                for case in cases
                for tool in TOOLS
            }
            try:
                for done, future in enumerate(as_completed(left), start=1):
                    tool, name = left[future]
                    found[tool][name] = future.result()
                    print(f"{done}/{len(left)} {tool} {name}: {future.result()}", file=sys.stderr)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                sandboxes.end()
                raise
    return found


def _cells(case: Submission) -> list[str]:
    """Without the first, which is the world; that is another one inside."""
    return [source for _, source in case.numbered("")][1:]


def _grade(sandboxes: Running, course: Path, tool: str, cells: list[str], wall: float) -> Outcome:
    return Outcome.told(sandboxes.run(course, {"tool": tool, "cells": cells}, wall))


def _control(sandboxes: Running, course: Path, tool: str) -> float:
    """The test of the test: right is full marks, wrong is none, and neither of them harms anybody.

    Returns how many seconds the slower one took.
    """
    slower = 0.0
    for source, points in ((RIGHT, FULL_MARKS), (ANSWERED_WRONG, 0.0)):
        outcome = _grade(sandboxes, course, tool, [source], PLAIN_WALL)
        if outcome.points != points or outcome.seen or outcome.hung:
            raise RuntimeError(
                f"{tool} should give a plain notebook {points:g} points, but: {outcome}\n{outcome.log}"
            )
        slower = max(slower, outcome.seconds)
    return slower
