"""The whole course as a map: what is passed, what is begun, what comes next; in plain characters.

`progress_page` draws the same map as HTML.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grader import exercises
from grader.lab import progress


@dataclass(frozen=True)
class Row:
    """One exercise with what the learner has reached in it; ``points`` of ``max_points``."""

    exercise: str
    notebook: str
    title: str
    points: float
    max_points: float
    passed: bool
    attempts: int
    hints: int
    minutes: int

    @property
    def state(self) -> str:
        """ "passed", "begun" or "to do"."""
        return "passed" if self.passed else "begun" if self.attempts else "to do"


@dataclass(frozen=True)
class Overview:
    """All exercises in the order of the course."""

    rows: tuple[Row, ...]

    @property
    def points(self) -> float:
        return sum(row.points for row in self.rows)

    @property
    def max_points(self) -> float:
        return sum(row.max_points for row in self.rows)

    @property
    def passed(self) -> int:
        return sum(row.passed for row in self.rows)

    @property
    def next(self) -> Row | None:
        """The first exercise not passed yet; None when all are."""
        return next((row for row in self.rows if not row.passed), None)

    def notebooks(self) -> list[tuple[str, Overview]]:
        """The same, notebook by notebook."""
        groups = itertools.groupby(self.rows, key=lambda row: row.notebook)
        return [(notebook, Overview(tuple(rows))) for notebook, rows in groups]


def overview(records: Mapping[str, Mapping[str, Any]]) -> Overview:
    """The course's exercises with the kept ``records`` of them.

    Points kept under an older edition count as the same share of today's points.
    """
    rows = []
    for exercise in exercises.registry().values():
        kept = records.get(exercise.name, {})
        reached = kept.get("points", 0.0) / kept["max_points"] if kept.get("max_points") else 0.0
        rows.append(
            Row(
                exercise=exercise.name,
                notebook=exercise.notebook,
                title=exercise.title,
                points=exercise.points * min(1.0, reached),
                max_points=float(exercise.points),
                passed="passed" in kept,
                attempts=int(kept.get("attempts", 0)),
                hints=int(kept.get("hints", 0)),
                minutes=exercise.minutes,
            )
        )
    return Overview(tuple(rows))


_MARKS = {"passed": "x", "begun": "~", "to do": " "}


def as_text(course: Overview, *, everything: bool = False) -> str:
    """The map in plain characters that every terminal has, a row a notebook, a box an exercise.

    Below it the exercises of the notebook where the learner is; ``everything``: of all notebooks.
    """
    here = course.next.notebook if course.next else None
    parts = course.notebooks()
    width = max((len(notebook) for notebook, _ in parts), default=0)
    boxes = max((len(part.rows) for _, part in parts), default=0)
    lines = [headline(course), ""]
    for notebook, part in parts:
        line = "".join(f"[{_MARKS[row.state]}]" for row in part.rows)
        reached = f"{points(part.points, part.max_points):>10}"
        lines.append(
            f"{'>' if notebook == here else ' '} {notebook:<{width}} {line:<{3 * boxes}} {reached}"
        )
    lines += ["", "[x] passed   [~] begun   [ ] to do   > you are here"]
    for notebook, part in parts:
        if everything or notebook == here:
            lines += ["", f"{notebook}   {points(part.points, part.max_points)} points"]
            lines += _listed(part)
    return "\n".join([*lines, "", next_step(course), *kept_aside()])


def _listed(part: Overview) -> list[str]:
    width = max(len(row.exercise) for row in part.rows)
    return [
        f"  [{_MARKS[row.state]}] {row.exercise:<{width}}  "
        f"{points(row.points, row.max_points):>8}  {row.title}"
        for row in part.rows
    ]


def as_json(course: Overview) -> dict[str, Any]:
    """The same for a program."""
    return {
        "points": course.points,
        "max_points": course.max_points,
        "passed": course.passed,
        "next": course.next.exercise if course.next else None,
        "exercises": [vars(row) | {"state": row.state} for row in course.rows],
    }


def headline(course: Overview) -> str:
    """Where the learner stands, in one sentence."""
    return (
        f"Your progress: {points(course.points, course.max_points)} points, "
        f"{course.passed} of {len(course.rows)} exercises passed."
    )


def next_step(course: Overview) -> str:
    """What comes next, in one sentence."""
    step = course.next
    if step is None:
        return "Every exercise is passed. Well done!"
    return f"Next: {step.exercise} in {step.notebook} ({step.title}; about {step.minutes} minutes)."


def kept_aside() -> list[str]:
    """A sentence for each progress file that could not be read."""
    return [
        f"An unreadable progress file was kept as {path}; its points are not counted here."
        for path in progress.set_aside()
    ]


def points(reached: float, of: float) -> str:
    return f"{reached:.4g} of {of:.4g}"
