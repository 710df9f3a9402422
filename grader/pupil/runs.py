"""What became of one cell of a notebook that was run."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class CellRun:
    """number counts the notebook's code cells from 1; error is "" where the cell ran through.

    traceback: the learner's frames only; printed: what the cell printed, cut
    """

    number: int
    error: str = ""
    traceback: str = ""
    printed: str = ""
    seconds: float = 0.0
