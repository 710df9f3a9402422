"""What the judge says: one verdict for one exercise."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Status(enum.StrEnum):
    """The outcomes. Only GRADER_ERROR is our fault, and it is never a learner's zero."""

    PASS = "PASS"
    PARTIAL = "PARTIAL"
    WRONG = "WRONG"
    NOT_ATTEMPTED = "NOT_ATTEMPTED"
    CRASHED = "CRASHED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    RECEIVED = "RECEIVED"
    GRADER_ERROR = "GRADER_ERROR"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One judged answer.

    message: what kind of mistake it was and where to look; never the expected values
    mistake: the name of the recognised mistake, "" if none
    where: the case it showed in, in words ("pos 5, d_model 7"), "" if all
    traceback: the learner's own frames of the learner's own exception
    printed: what the answer printed while it was judged, cut
    notes: remarks that cost nothing
    seed: what the cases were drawn from; the same seed gives the same verdict
    """

    exercise: str
    status: Status
    points: float
    max_points: float
    message: str
    seed: int
    mistake: str = ""
    where: str = ""
    traceback: str = ""
    printed: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status is Status.PASS

    @property
    def fraction(self) -> float:
        """Points as a share of the exercise's points, in [0, 1]."""
        return self.points / self.max_points if self.max_points else 0.0

    def as_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "status": self.status.value, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Verdict:
        """Rebuild a verdict that ``as_json`` wrote; raises KeyError/ValueError on anything else."""
        return cls(**{**data, "status": Status(data["status"]), "notes": tuple(data["notes"])})
