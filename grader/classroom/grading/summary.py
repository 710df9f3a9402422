"""What a teacher wants to know of a batch at one glance: how it went, what was hard, who to look at."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

from grader import exercises
from grader.classroom.grading.handed_in import HandedIn
from grader.classroom.grading.one import Outcome
from grader.judge.verdict import Status

_TENTHS = 10
_BAR = 40  # characters
_SHOWN = 5
_LOOKS_SHOWN = 20
_FEW = 5  # of so few there is no distribution


@dataclasses.dataclass
class Summary:
    """Counts over all submissions that count; ``add`` takes them one at a time.

    tenths: by assignment, how many reached 0–10 %, …, 90–100 % of the points
    failed: by exercise, how many tried and didn't pass; judged: how many answers there were
    mistakes: by (exercise, mistake)
    looks: (learner, assignment, why) of those whom a person has to look at
    """

    submissions: int = 0
    graded: int = 0
    points: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    tenths: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    failed: Counter[str] = dataclasses.field(default_factory=Counter)
    judged: Counter[str] = dataclasses.field(default_factory=Counter)
    untried: Counter[str] = dataclasses.field(default_factory=Counter)
    mistakes: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    looks: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)

    def add(self, handed_in: HandedIn, outcome: Outcome | None) -> None:
        self.submissions += 1
        learner, assignment = handed_in.learner, handed_in.assignment
        if outcome is None:
            self.looks.append((learner, assignment, "Not graded yet."))
            return
        if outcome.trouble:
            self.looks.append((learner, assignment, outcome.trouble))
            return
        for verdict in outcome.verdicts:
            self._count(verdict.exercise, verdict.status, verdict.mistake)
        if not outcome.settled:
            why = ", ".join(v.exercise for v in outcome.verdicts if v.status is Status.GRADER_ERROR)
            self.looks.append((learner, assignment, f"The grader itself failed: {why}."))
        elif outcome.points is not None and outcome.max_points:
            self.graded += 1
            share = outcome.points / outcome.max_points
            tenths = self.tenths.setdefault(assignment, [0] * _TENTHS)
            tenths[min(int(share * _TENTHS), _TENTHS - 1)] += 1
            self.points.setdefault(assignment, []).append(share)

    def _count(self, exercise: str, status: Status, mistake: str) -> None:
        if status is Status.GRADER_ERROR:
            return
        self.judged[exercise] += 1
        if status is Status.NOT_ATTEMPTED:
            self.untried[exercise] += 1
        elif status not in (Status.PASS, Status.RECEIVED):
            self.failed[exercise] += 1
            if mistake:
                self.mistakes[exercise, mistake] += 1

    def as_json(self) -> dict[str, Any]:
        return {
            "submissions": self.submissions,
            "graded": self.graded,
            "distribution": {
                name: {
                    "tenths": self.tenths[name],
                    "median_percent": 100 * statistics.median(shares),
                }
                for name, shares in self.points.items()
            },
            "exercises": {
                name: {
                    "judged": count,
                    "failed": self.failed[name],
                    "not_attempted": self.untried[name],
                }
                for name, count in self.judged.items()
            },
            "mistakes": [
                {"exercise": exercise, "mistake": mistake, "count": count}
                for (exercise, mistake), count in self.mistakes.most_common()
            ],
            "needs_review": [
                {"learner": learner, "assignment": assignment, "why": why}
                for learner, assignment, why in self.looks
            ],
        }

    def as_text(self) -> str:
        parts = [
            *(self._distribution(name) for name in sorted(self.points)),
            self._hardest(),
            self._most_made(),
            self._who(),
        ]
        return "\n\n".join(part for part in parts if part)

    def _distribution(self, name: str) -> str:
        shares, tenths = self.points[name], self.tenths[name]
        median, most = statistics.median(shares), max(tenths)
        lines = [f"{name}: {_counted(len(shares), 'submission')}, median {median:.0%}"]
        if len(shares) < _FEW:
            return lines[0]
        for n in reversed(range(_TENTHS)):
            bar = "█" * round(_BAR * tenths[n] / most) or "▏" * bool(tenths[n])
            lines.append(f"  {10 * n:>3}–{10 * n + 10:<3} %  {tenths[n]:>4}  {bar}".rstrip())
        return "\n".join(lines)

    def _hardest(self) -> str:
        lines = []
        for name, count in self.failed.most_common(_SHOWN):
            untried = f", {self.untried[name]} did not try" if self.untried[name] else ""
            lines.append(f"  {name:<28} {count:>4} of {self.judged[name]}{untried}")
        return "\n".join(["Exercises most failed", *lines]) if lines else ""

    def _most_made(self) -> str:
        lines = list(self._mistakes())
        return "\n".join(["Mistakes most made", *lines]) if lines else ""

    def _mistakes(self) -> Iterator[str]:
        for (name, mistake), count in self.mistakes.most_common(_SHOWN):
            yield f"  {count:>4} × {name}: {mistake.replace('_', ' ')}"
            exercise = exercises.find(name)
            for listed in exercise.mistakes if exercise else ():
                if listed.name == mistake:
                    yield f"         {listed.message}"

    def _who(self) -> str:
        if not self.looks:
            return ""
        lines = [f"  {who}, {what}: {why}" for who, what, why in self.looks[:_LOOKS_SHOWN]]
        left = len(self.looks) - _LOOKS_SHOWN
        if left > 0:
            lines.append(f"  … and {left} more: needs_review in grades.csv")
        return "\n".join([f"Need a look: {len(self.looks)}", *lines])


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
