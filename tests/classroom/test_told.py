"""A notebook's verdicts in a terminal: every exercise, what to do about it, nothing twice."""

from __future__ import annotations

from pathlib import Path

from grader.classroom import told
from grader.classroom.checking import NotebookResult
from grader.judge.verdict import Status, Verdict


def verdict(name: str, status: Status, points: float, message: str, **more: object) -> Verdict:
    return Verdict(name, status, points, 2.0, message, seed=7, **more)  # type: ignore[arg-type]


def test_each_exercise_has_a_line_and_the_same_sentence_comes_once() -> None:
    result = NotebookResult(
        Path("mine.ipynb"),
        "00-first",
        "2026.1",
        (
            verdict("alpha", Status.PASS, 2.0, "Right on all cases."),
            verdict("be", Status.WRONG, 0.0, "The rows are the columns.", where="at pos 3"),
            verdict("gamma", Status.NOT_ATTEMPTED, 0.0, "Nothing here yet."),
            verdict("delta", Status.NOT_ATTEMPTED, 0.0, "Nothing here yet."),
        ),
        notes=("2 damaged cells were left out.",),
    )
    assert told.notebook_result(result).splitlines() == [
        "00-first   mine.ipynb",
        "  alpha      2/2  ✔ PASS",
        "  be         0/2  ✘ WRONG",
        "      The rows are the columns.",
        "      Seen at pos 3; the seed was 7.",
        "  gamma      0/2  ○ NOT ATTEMPTED",
        "      Nothing here yet.",
        "  delta      0/2  ○ NOT ATTEMPTED",
        "  Note: 2 damaged cells were left out.",
        "2 of 8 points.",
    ]
