"""A class's folder: a normal nbgrader course with our notebooks as its assignments.

::

    nbgrader_config.py                   nbgrader's, with our plug-in switched on for this course alone
    class-secret                         what seeds and mystery models are drawn from; the teacher's only
    source/NN-topic/NN-topic.ipynb       the instructor's notebook: an assignment each
    source/NN-topic/class-settings.json  what learners may open; released with the notebook
    release/ submitted/ autograded/ …    nbgrader's, as always
    grades/                              every verdict (`grader grade` keeps the same)
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from grader import resources
from grader.classroom.nbgrader_course.config_file import config_file
from grader.lab import class_settings
from grader.lab.class_settings import ClassSettings
from grader.lab.files import write_whole

CONFIG = "nbgrader_config.py"
SECRET = "class-secret"
GRADES = "grades"
OWN_MODELS = "own-models"
GIT_IGNORE = f"""\
{SECRET}
gradebook.db*
{GRADES}/
{OWN_MODELS}/
submitted/
autograded/
feedback/
.ipynb_checkpoints/
"""


class FolderUnusable(RuntimeError):
    """The folder can't become or isn't a class's folder; the message says why, and what to do."""


@dataclass(frozen=True)
class ClassFolder:
    """The paths that our commands use in a class's folder."""

    root: Path

    @property
    def secret(self) -> Path:
        return self.root / SECRET

    @property
    def grades(self) -> Path:
        return self.root / GRADES

    @property
    def submitted(self) -> Path:
        return self.root / "submitted"

    @property
    def own_models(self) -> Path:
        return self.root / OWN_MODELS

    def notebooks(self) -> list[str]:
        """The course's notebooks that lie in this class's ``source/``."""
        return [name for name in resources.notebooks() if (self.root / "source" / name).is_dir()]


def opened(root: Path) -> ClassFolder:
    """The class in ``root``. Raises FolderUnusable where there is none."""
    root = root.expanduser().resolve()
    if not (root / CONFIG).is_file() or not (root / SECRET).is_file():
        raise FolderUnusable(
            f"{root} is not a class's folder: it lacks {CONFIG} or {SECRET}. "
            "Make one with `grader class init FOLDER`, or name the right one with --folder."
        )
    return ClassFolder(root)


def init(root: Path, course: str = "", settings: ClassSettings | None = None) -> ClassFolder:
    """Make a class's folder; nothing that exists is written over.

    course: nbgrader's name of the course (the folder's name, if "")
    Raises FolderUnusable (and then nothing was written), CourseNotFound, OSError.
    """
    root = root.expanduser().resolve()
    course = course or re.sub(r"[^\w-]+", "-", root.name).strip("-") or "circuits"
    if not re.fullmatch(r"[\w-]+", course):
        raise FolderUnusable(
            f"{course!r} can't be nbgrader's name of a course: use letters, digits, - and _."
        )
    settings = settings or ClassSettings()
    own_models = settings.own_models or (OWN_MODELS,)  # the teacher has the truth, so no one draws
    settings = replace(settings, course=course, own_models=own_models)
    files = _files(course, settings)
    there = [name for name in (*files, SECRET) if os.path.lexists(root / name)]
    if there:
        more = f" and {len(there) - 3} more" if len(there) > 3 else ""
        raise FolderUnusable(
            f"{root} already holds {', '.join(there[:3])}{more}. Nothing was written. "
            "Name a new folder, or one without these files."
        )
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(root / name, content, lasting=False)
    write_whole(root / SECRET, secrets.token_hex(32) + "\n", mode=0o600)
    return ClassFolder(root)


def change_settings(folder: ClassFolder, changed: Mapping[str, object]) -> ClassSettings:
    """Set what learners may open in the assignments that are generated from now on → all settings.

    changed: fields of ClassSettings. Raises SettingsDamaged, OSError.
    """
    first = folder.notebooks()[:1]
    before = class_settings.read(folder.root / "source" / (first or [""])[0] / class_settings.FILE)
    settings = ClassSettings(**{**vars(before), **changed})
    for name in folder.notebooks():
        path = folder.root / "source" / name / class_settings.FILE
        write_whole(path, class_settings.written(settings))
    return settings


def _files(course: str, settings: ClassSettings) -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {CONFIG: config_file(course), ".gitignore": GIT_IGNORE}
    for name in resources.notebooks():
        files[f"source/{name}/{name}.ipynb"] = resources.solved(name).read_bytes()
        files[f"source/{name}/{class_settings.FILE}"] = class_settings.written(settings)
    return files
