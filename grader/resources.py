"""Where the course lies on this machine: the notebooks learners open and the solutions behind them.

An installed package carries both folders inside itself; an editable install or a plain checkout has
them beside ``grader/``. Everyone asks here, so the two never get mixed.
"""

from __future__ import annotations

import re
from pathlib import Path

NOTEBOOK_NAME = re.compile(r"[0-9]{2}-[a-z0-9-]+")

_PACKAGE = Path(__file__).resolve().parent


class CourseNotFound(FileNotFoundError):
    """The course's own files are missing; the message says where they were looked for."""


def course_dir() -> Path:
    """The folder of released notebooks: ``course/NN-topic/NN-topic.ipynb``.

    Raises CourseNotFound.
    """
    return _folder("course")


def solutions_dir() -> Path:
    """The folder of the sources ``NN-topic.py`` and of the teachers' ``NN-topic/NN-topic.ipynb``.

    Raises CourseNotFound.
    """
    return _folder("solutions")


def notebooks() -> list[str]:
    """The names of the released notebooks ("01-zero-layer"), in the order of the course.

    Raises CourseNotFound.
    """
    folders = (
        path.parent for path in course_dir().glob("*/*.ipynb") if path.stem == path.parent.name
    )
    return sorted(folder.name for folder in folders if NOTEBOOK_NAME.fullmatch(folder.name))


def released(notebook: str) -> Path:
    """The file learners get of one notebook. Raises CourseNotFound if it isn't there."""
    return _notebook(course_dir(), notebook)


def solved(notebook: str) -> Path:
    """The instructor's file of one notebook. Raises CourseNotFound if it isn't there."""
    return _notebook(solutions_dir(), notebook)


def _notebook(folder: Path, notebook: str) -> Path:
    path = folder / notebook / f"{notebook}.ipynb"
    if not path.is_file():
        there = ", ".join(sorted(p.stem for p in folder.glob("*/*.ipynb"))) or "none"
        raise CourseNotFound(f"There is no notebook {notebook!r} in {folder} (there: {there}).")
    return path


def _folder(name: str) -> Path:
    shipped, beside = _PACKAGE / "_shipped" / name, _PACKAGE.parent / name
    for folder in (shipped, beside):
        if folder.is_dir():
            return folder
    raise CourseNotFound(
        f"The course's {name}/ folder is neither in the installed package ({shipped}) "
        f"nor beside it ({beside}). Install the package again, or run from a complete checkout."
    )
