"""A notebook's verdicts as plain text, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from grader.classroom.checking import NotebookResult
from grader.judge.verdict import Verdict
from grader.lab import cards

WIDTH = 100


def notebook_result(result: NotebookResult) -> str:
    """One line an exercise, what there is to say about it below, the points at the end."""
    width = max((len(verdict.exercise) for verdict in result.verdicts), default=0)
    lines = [f"{result.notebook}   {result.path}"]
    said: set[str] = set()
    for verdict in result.verdicts:
        heading = cards.HEADINGS[verdict.status][0]
        points = f"{verdict.points:g}/{verdict.max_points:g}"
        lines.append(f"  {verdict.exercise:<{width}}  {points:>7}  {heading}")
        new = [text for text in _about(verdict) if text not in said]  # ten stubs, one sentence
        said.update(new)
        lines += [textwrap.indent(text, "      ") for text in new]
    for run in result.cell_errors:
        lines.append(f"  Code cell {run.number} stopped with an error: {run.error}")
    lines += _wrapped(result.notes, "  Note: ")
    return "\n".join([*lines, f"{result.points:g} of {result.max_points:g} points."])


def _about(verdict: Verdict) -> Iterator[str]:
    if verdict.passed:
        yield from _wrapped(verdict.notes, "Note: ")
        return
    yield from _wrapped(verdict.message.splitlines())
    if verdict.where:
        yield f"Seen {verdict.where}; the seed was {verdict.seed}."
    if verdict.traceback:
        yield verdict.traceback.rstrip()
    if verdict.printed:
        yield f"It printed:\n{verdict.printed.rstrip()}"
    yield from _wrapped(verdict.notes, "Note: ")


def _wrapped(texts: tuple[str, ...] | list[str], label: str = "") -> list[str]:
    return [textwrap.fill(label + text, WIDTH - 6, subsequent_indent="  ") for text in texts]
