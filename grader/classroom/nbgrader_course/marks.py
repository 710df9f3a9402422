"""A verdict written into a notebook in the form that nbgrader reads rightly.

nbgrader looks at a check cell's outputs in order. Anything on stderr, or an error, is zero. The first
result is a number from 0 to the cell's points, or else is taken for full marks: NumPy's scalars, NaN,
False and negative numbers all are. A number above the cell's points ends the whole submission. No
result at all is full marks, too. So every check cell gets exactly one result: a plain float in range.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbformat.v4 import new_output

from grader.classroom.grading.one import Outcome
from grader.judge.verdict import Status, Verdict
from grader.lab import cards, merge
from grader.lab.terminal import plain
from grader.pupil.runs import CellRun

CHECK = "check_"
_STAMP, _JUDGED = "transformer_circuits", "judged"


def marked(cell: Mapping[str, Any], verdict: Verdict) -> list[Any]:
    """Outputs of a check cell: the verdict to read, and the points that the cell gives for it."""
    points = points_of(verdict, float(cell["metadata"]["nbgrader"]["points"]))
    shown = cards.verdict_card(verdict, verdict.notes)
    return [_display(*shown), new_output("execute_result", {"text/plain": repr(points)})]


def unmarked(why: str) -> list[Any]:
    """Outputs of a cell that a person has to look at.

    The zero is for nbgrader alone, which would give full marks otherwise; `SaveGrades` takes it back.
    """
    notice = cards.notice(
        "⚠ NOT GRADED YET",
        why,
        "This costs no points: a person looks at it, or it is judged again.",
    )
    return [_display(*notice), new_output("execute_result", {"text/plain": "0.0"})]


def points_of(verdict: Verdict, most: float) -> float:
    """The judge's share of the points that the teacher gives for the cell: a float in [0, most]."""
    share = float(verdict.fraction)
    if not (math.isfinite(share) and math.isfinite(most) and most >= 0):
        raise ValueError(f"{verdict.exercise}: a share of {share} of {most} points is no mark.")
    return min(max(share, 0.0), 1.0) * most


def unjudged(verdicts: Mapping[str, Verdict], outcome: Outcome, grade_id: str) -> str:
    """Why the judge has no points for a graded code cell, "" where it has."""
    name = grade_id.removeprefix(CHECK)
    if not grade_id.startswith(CHECK):
        return (
            "This test is not one of the course's, and none of its code runs outside the sandbox."
        )
    if outcome.trouble:
        return outcome.trouble
    if name not in verdicts:
        return f"The notebook that was handed in has no exercise {name}."
    if verdicts[name].status is Status.GRADER_ERROR:
        return verdicts[name].message
    return ""


def show_errors(cells: Sequence[Any], sources: Mapping[int, str], runs: Sequence[CellRun]) -> None:
    """Put what stopped a cell below that cell, where it is still the cell that was handed in.

    sources: of the code cells, by their number in the file that was handed in
    """
    for run in runs:
        for cell in cells:
            same = merge.text(cell).strip() == sources.get(run.number, "").strip()
            if cell["cell_type"] == "code" and same and not merge.is_locked(cell):
                shown = plain(run.traceback or run.error)
                cell["outputs"] = [new_output("stream", name="stdout", text=shown)]
                break


def fingerprint(outcome: Mapping[str, Any]) -> str:
    """Tells one outcome (as JSON) from every other, those of another run included."""
    return hashlib.sha256(json.dumps(outcome, sort_keys=True).encode("utf-8")).hexdigest()


def sign(notebook: Any, outcome: Outcome) -> None:
    """Note in an autograded notebook which outcome it shows."""
    before = notebook.metadata.get(_STAMP)
    stamp = dict(before) if isinstance(before, Mapping) else {}
    notebook.metadata[_STAMP] = stamp | {_JUDGED: fingerprint(outcome.as_json())}


def fingerprint_in(notebook: Path) -> str:
    """The outcome that an autograded notebook shows, "" where it shows none."""
    try:
        return str(json.loads(notebook.read_bytes())["metadata"][_STAMP][_JUDGED])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _display(html: str, text: str) -> Any:
    return new_output("display_data", {"text/html": html, "text/plain": text})
