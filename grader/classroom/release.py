"""Instructor's notebooks → learners' notebooks, by nbgrader's own ``generate_assignment``.

It runs in a temporary folder with its configuration handed over: nothing of the user's nbgrader
set-up is read, and no configuration, database or exchange of ours is left anywhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from nbgrader.apps.api import NbGraderAPI
from traitlets.config import Config


class ReleaseError(RuntimeError):
    """nbgrader refused an instructor's notebook; the message holds what it said."""


def release(instructors: Mapping[str, str]) -> dict[str, str]:
    """Text of instructor's notebooks by name → text of the released ones.

    Raises ReleaseError.
    """
    with tempfile.TemporaryDirectory(prefix="grader-build-") as folder:
        root = Path(folder).resolve()
        api = NbGraderAPI(config=_configuration(root))
        return {name: _release_one(api, root, name, text) for name, text in instructors.items()}


def _configuration(root: Path) -> Config:
    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.course_id = "transformer-circuits"
    config.CourseDirectory.source_directory = "solutions"
    config.CourseDirectory.release_directory = "course"
    # A gradebook belongs to a class, and nbgrader needs `alembic` on the PATH to make one.
    config.GenerateAssignment.no_database = True
    config.SaveCells.enabled = False
    # The API looks for an exchange as it starts; without one here it would look in the user's home.
    for name in ("root", "cache"):
        place = root / "exchange" / name
        place.mkdir(parents=True)
        config.Exchange[name] = str(place)
    config.NbGraderAPI.log_level = "ERROR"
    return config


def _release_one(api: NbGraderAPI, root: Path, name: str, text: str) -> str:
    source = root / "solutions" / name / f"{name}.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text(text, encoding="utf-8")
    outcome = api.generate_assignment(name)
    if not outcome["success"]:
        said = outcome.get("log") or outcome["error"]
        raise ReleaseError(f"nbgrader could not release {name}:\n{said}")
    return (root / "course" / name / f"{name}.ipynb").read_text(encoding="utf-8")
