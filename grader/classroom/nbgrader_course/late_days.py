"""Late days, as a plug-in of nbgrader's own ``AssignLatePenalties``.

In ``nbgrader_config.py``::

    c.AssignLatePenalties.plugin_class = "grader.classroom.nbgrader_course.late_days.LateDays"
    c.LateDays.free_days = 5          # in the whole course; used up in the order of the due dates
    c.LateDays.share_a_day = 0.1      # of the points, for each later day that is not free
    c.LateDays.grace_minutes = 15     # that nobody counts

The gradebook keeps all times in UTC, so neither a learner's time zone nor daylight saving moves a
deadline. An extension given in Formgrader counts as the due date.
"""

from __future__ import annotations

import math
from typing import Any

from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float, Integer

_DAY = 24 * 60 * 60


class LateDays(LateSubmissionPlugin):  # type: ignore[misc]
    """So many days are free for each learner, each day beyond costs a share of the notebook's points."""

    free_days = Integer(0, min=0, help="Late days that cost a learner nothing, in the course.").tag(
        config=True
    )
    share_a_day = Float(
        0.1, min=0.0, max=1.0, help="Share of the points that each other late day costs."
    ).tag(config=True)
    grace_minutes = Integer(0, min=0, help="Minutes after the due date that nobody counts.").tag(
        config=True
    )

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        """Points to take off, None where nothing is late."""
        days = self.days(total_seconds_late)
        if not days:
            return None
        paid = days - min(days, self._free_here(student_id))
        return min(score, score * self.share_a_day * paid)

    def days(self, seconds_late: float) -> int:
        """Whole days that somebody is late, begun ones included."""
        counted = seconds_late - 60 * self.grace_minutes
        return math.ceil(counted / _DAY) if counted > 0 else 0

    def _free_here(self, student_id: str) -> int:
        """The free days that earlier assignments leave to the one that is being graded."""
        step: Any = self.parent  # nbgrader's AssignLatePenalties, with the gradebook open
        left = self.free_days
        submissions = step.gradebook.student_submissions(student_id)
        for one in sorted(submissions, key=lambda s: (s.duedate is None, s.duedate, s.name)):
            if one.name == step.assignment_id:
                return left
            left -= min(left, self.days(one.total_seconds_late))
        return left
