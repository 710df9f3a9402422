"""The text of a class's ``nbgrader_config.py``: plain nbgrader settings that a teacher can read and change."""

from __future__ import annotations

_PLUGIN = "grader.classroom.nbgrader_course"

_TEXT = '''\
"""nbgrader's configuration of this course. It holds in this folder alone: run nbgrader from here."""

from pathlib import Path

from {plugin}.pages import template_folders
from {plugin}.patience import wait_for_gradebook

c = get_config()  # noqa: F821
folder = Path(__file__).resolve().parent

c.CourseDirectory.course_id = "{course}"
c.CourseDirectory.root = str(folder)
# Text sources beside a notebook hold its solutions: nbgrader would release them as they are.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "*.py"]

# The exchange is yours to choose. On a server where learners and graders share a disk:
# c.Exchange.root = "/srv/nbgrader/exchange"

# Learners' notebooks of the course run locked in, and the judge's points go into the gradebook.
# Both lists are nbgrader's own, with three changes: damaged notebooks are mended first, `JudgeNotebook`
# stands for `Execute`, and `SaveGrades` leaves to you what could not be judged.
c.Autograde.sanitize_preprocessors = [
    "{plugin}.plugin.MendNotebook",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "{plugin}.plugin.JudgeNotebook",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "{plugin}.plugin.SaveGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# "full" needs Linux. "container": this machine is a container that is thrown away after grading.
c.JudgeNotebook.isolation = "full"

# Notebooks of your own run as nbgrader always runs them: by this time limit, in seconds a cell.
c.ExecutePreprocessor.timeout = 120

# Formgrader's pages and the feedback ask no other machine for MathJax.
c.HTMLExporter.extra_template_basedirs = template_folders()

# Another process may hold the gradebook (Formgrader, a slow network disk): wait so many seconds for it.
wait_for_gradebook(folder / "gradebook.db", seconds=60)

# Late days: so many a learner in the whole course are free, each later day costs a share of the points.
# c.AssignLatePenalties.plugin_class = "{plugin}.late_days.LateDays"
# c.LateDays.free_days = 5
# c.LateDays.share_a_day = 0.1
'''


def config_file(course: str) -> str:
    return _TEXT.format(plugin=_PLUGIN, course=course)
