"""The whole course at a glance: what is passed, what is begun, what comes next."""

from __future__ import annotations

import html
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


def as_text(course: Overview) -> str:
    """The map in plain characters that every terminal has: [x] passed, [~] begun, [ ] to do."""
    lines = [_headline(course)]
    width = max((len(row.exercise) for row in course.rows), default=0)
    for notebook, part in course.notebooks():
        lines += ["", f"{notebook}   {_points(part.points, part.max_points)} points"]
        for row in part.rows:
            mark = "x" if row.passed else "~" if row.attempts else " "
            reached = _points(row.points, row.max_points)
            lines.append(f"  [{mark}] {row.exercise:<{width}}  {reached:>8}  {row.title}")
    return "\n".join([*lines, "", _next_step(course), *_kept_aside()])


def as_html(course: Overview) -> str:
    """The map as one piece of HTML without scripts; its colours are the theme's own."""
    parts = [f"<p><strong>{html.escape(_headline(course))}</strong></p>"]
    for notebook, part in course.notebooks():
        share = part.points / part.max_points if part.max_points else 0.0
        is_next = course.next is not None and course.next.notebook == notebook
        parts.append(
            f"<details{' open' if is_next else ''}><summary>{html.escape(notebook)} "
            f'<progress value="{share:.3f}" max="1" style="vertical-align:middle"></progress> '
            f"{_points(part.points, part.max_points)} points</summary>"
            '<table style="margin:.3em 0 .6em 1.2em;border-collapse:collapse">'
            f"{''.join(_row_html(row) for row in part.rows)}</table></details>"
        )
    notes = [_next_step(course), *_kept_aside()]
    parts += [f"<p>{html.escape(note)}</p>" for note in notes]
    return f'<div class="grader-progress" style="max-width:46em">{"".join(parts)}</div>'


def as_json(course: Overview) -> dict[str, Any]:
    """The same for a program."""
    return {
        "points": course.points,
        "max_points": course.max_points,
        "passed": course.passed,
        "next": course.next.exercise if course.next else None,
        "exercises": [vars(row) for row in course.rows],
    }


def _row_html(row: Row) -> str:
    mark = "✔" if row.passed else "◐" if row.attempts else "○"
    hints = f"{row.hints} hint{'s' * (row.hints != 1)}" if row.hints else ""
    cells = (mark, f"<code>{html.escape(row.exercise)}</code>", html.escape(row.title))
    numbers = (_points(row.points, row.max_points), hints)
    cell = '<td style="padding:.1em .7em .1em 0;text-align:left;background:none">'
    return f"<tr>{''.join(f'{cell}{content}</td>' for content in (*cells, *numbers))}</tr>"


def _headline(course: Overview) -> str:
    return (
        f"Your progress: {_points(course.points, course.max_points)} points, "
        f"{course.passed} of {len(course.rows)} exercises passed."
    )


def _next_step(course: Overview) -> str:
    step = course.next
    if step is None:
        return "Every exercise is passed. Well done!"
    return f"Next: {step.exercise} in {step.notebook} ({step.title}; about {step.minutes} minutes)."


def _kept_aside() -> list[str]:
    return [
        f"An unreadable progress file was kept as {path}; its points are not counted here."
        for path in progress.set_aside()
    ]


def _points(reached: float, of: float) -> str:
    return f"{reached:.4g} of {of:.4g}"
