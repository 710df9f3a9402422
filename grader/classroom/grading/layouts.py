"""Whose a file is, by the way it lies in: nbgrader, Moodle, Canvas, Gradescope, or plain folders.

======================================================  =================================
``submitted/<learner>/<assignment>/x.ipynb``             nbgrader's course folder
``Jane Doe_12345_assignsubmission_file_/x.ipynb``        Moodle; 12345 is its participant
``doejane_LATE_12345_67890_x.ipynb``                     Canvas; 12345 is its user
``submission_12345/x.ipynb``, ``submission_metadata.yml``  Gradescope
``<learner>/x.ipynb``, ``<learner>/<assignment>/x.ipynb``  a folder a learner
``<assignment>/<learner>.ipynb``                         a folder a notebook of the course
``<learner>.ipynb``                                      a flat folder
======================================================  =================================

LMS ids stay part of a learner's name: two of a class may share the other part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from grader import exercises
from grader.classroom.grading.files import File
from grader.classroom.grading.names import natural

_MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)", re.DOTALL)
_CANVAS = re.compile(
    r"(?P<name>.+?)(?P<late>_LATE)?_(?P<user>\d+)_(?P<upload>\d+)_(?P<file>.+)", re.DOTALL
)
_COPY = re.compile(r"(?i)(\(\d+\)|copy ?\d*|\d{1,2})?")  # what systems add to a second download
_GRADESCOPE = re.compile(r"submission_\d+")
LMS = frozenset({"nbgrader", "moodle", "canvas", "gradescope"})
"""Owners whose names stand for one person, wherever they come from."""

NBGRADERS_OWN = frozenset({"source", "release", "autograded", "feedback", "downloaded"})
METADATA = "submission_metadata.yml"
_LARGEST_METADATA = 50 * 2**20

Rank = tuple[int, float, tuple[tuple[int, str], ...]]


@dataclass(frozen=True)
class Place:
    """Whose a file is.

    learners: mostly one; all of a group that handed in together
    owner: the same for all files of one hand-in, and different between two of them
    assignment: what the folders call it, "" where they don't say
    inner: the file's way below the learner's own folder
    rank: orders versions of one notebook
    shares: whether other files of this owner may be the notebook's companions
    """

    file: File
    learners: tuple[str, ...]
    owner: tuple[Any, ...]
    assignment: str = ""
    inner: tuple[str, ...] = ()
    rank: Rank = (0, 0.0, ())
    late: bool = False
    shares: bool = True


def places(files: Sequence[File]) -> list[Place]:
    """Where each file of one path that was given belongs.

    Of a whole nbgrader course only what was submitted counts, not its source or its release.
    """
    handed_in = [file for file in files if _nbgrader(file) is not None]
    if handed_in:
        return [_of_nbgrader(file) for file in handed_in]
    metadata = _metadata(files)
    cut = _wrapper(files)
    found = [_place(file, file.parts[cut:], metadata) for file in files if len(file.parts) > cut]
    return [place for place in found if place.inner != (METADATA,)]


def passed_by(files: Sequence[File]) -> list[File]:
    """Notebooks beside nbgrader's ``submitted/`` that are not nbgrader's own either."""
    if not any(map(_nbgrader, files)):
        return []
    return [
        file
        for file in files
        if file.name.lower().endswith(".ipynb")
        and _nbgrader(file) is None
        and not NBGRADERS_OWN.intersection(file.parts)
    ]


def _place(file: File, parts: tuple[str, ...], metadata: Mapping[str, Any]) -> Place:
    for at, part in enumerate(parts):
        moodle = _MOODLE.fullmatch(part)
        if moodle:
            return _of_moodle(file, moodle, parts[at + 1 :])
        if _GRADESCOPE.fullmatch(part) and at + 1 < len(parts):
            return _of_gradescope(file, parts[: at + 1], parts[at + 1 :], metadata)
        last = at + 1 == len(parts)
        canvas = _CANVAS.fullmatch(part) if last or part.lower().endswith(".zip") else None
        if canvas:
            return _of_canvas(file, canvas, parts[at + 1 :])
    return _of_folders(file, parts)


def _of_moodle(file: File, match: re.Match[str], below: tuple[str, ...]) -> Place:
    learner = f"{match['name']}_{match['id']}"
    inner = below if below else (match["file"] or match["name"],)
    return Place(file, (learner,), ("moodle", learner), inner=inner, rank=_rank(file, inner))


def _of_canvas(file: File, match: re.Match[str], below: tuple[str, ...]) -> Place:
    learner = f"{match['name']}_{match['user']}"
    inner = below or (match["file"],)
    rank = (int(match["upload"][:18]), file.modified, natural("/".join(inner)))
    late = match["late"] is not None
    return Place(file, (learner,), ("canvas", learner), inner=inner, rank=rank, late=late)


def _of_gradescope(
    file: File, folder: tuple[str, ...], below: tuple[str, ...], metadata: Mapping[str, Any]
) -> Place:
    learners = _submitters(metadata.get(folder[-1])) or (folder[-1],)
    return Place(file, learners, ("gradescope", folder), inner=below, rank=_rank(file, below))


def _nbgrader(file: File) -> tuple[str, ...] | None:
    """(learner, assignment, file, …) where it lies below a folder ``submitted``."""
    for parts in (file.parts, (*file.above, *file.parts)):
        for at in range(len(parts) - 1, -1, -1):
            if parts[at] == "submitted" and len(parts) - at > 3:
                return parts[at + 1 :]
    return None


def _of_nbgrader(file: File) -> Place:
    learner, assignment, *inner = _nbgrader(file) or ()
    return Place(
        file, (learner,), ("nbgrader", learner, assignment), assignment, tuple(inner),
        _rank(file, inner),
    )  # fmt: skip


def _of_folders(file: File, parts: tuple[str, ...]) -> Place:
    first, *rest = parts
    if not rest:
        return _flat(file, first)
    if first in exercises.NOTEBOOKS:  # a folder a notebook of the course
        if len(rest) == 1:
            return _flat(file, rest[0], first)
        owner: tuple[Any, ...] = ("folder", first, rest[0])
        inner = tuple(rest[1:])
        return Place(file, (_unzipped(rest[0]),), owner, first, inner, _rank(file, inner))
    assignment = rest[0] if len(rest) > 1 and rest[0] in exercises.NOTEBOOKS else ""
    inner = tuple(rest[1:]) if assignment else tuple(rest)
    owner = ("folder", first, assignment)
    return Place(file, (_unzipped(first),), owner, assignment, inner, _rank(file, inner))


def _flat(file: File, name: str, assignment: str = "") -> Place:
    """A file that only its name tells of: "alice.ipynb", "alice_01-zero-layer.ipynb"."""
    learner = name.rpartition(".")[0] or name
    for notebook in exercises.NOTEBOOKS:
        rest = re.sub(rf"(?i)[\s_-]*{re.escape(notebook)}[\s_-]*", "", learner)
        if rest != learner:
            assignment = assignment or notebook
            learner = "" if _COPY.fullmatch(rest) else rest
    rank = _rank(file, (name,))
    if learner:
        owner = ("flat", *file.parts, file.copy)
        return Place(file, (learner,), owner, assignment, (name,), rank, shares=False)
    # alice/01-zero-layer.ipynb, given by its name: only the folder tells
    folders = reversed((*file.above, *file.parts[:-1]))
    learner = next((part for part in folders if part not in exercises.NOTEBOOKS), name)
    owner = ("folder", learner, assignment)
    return Place(file, (learner,), owner, assignment, (name,), rank, shares=False)


def _unzipped(part: str) -> str:
    return part[:-4] if part.lower().endswith(".zip") else part


def _rank(file: File, inner: Iterable[str]) -> Rank:
    return (0, file.modified, natural("/".join(inner)))


def _wrapper(files: Sequence[File]) -> int:
    """How many folders lie around all of it that are nobody's: hw1/alice.ipynb, hw1/bob.ipynb, ….

    A single learner's folder looks alike; it holds one notebook, or the course's by their names.
    """
    ways = [file.parts for file in files if file.name.lower().endswith((".ipynb", ".zip"))]
    ways = ways or [file.parts for file in files]
    cut = 0
    while len(ways) > 1 and all(len(way) > cut + 1 for way in ways):
        first = ways[0][cut]
        if any(way[cut] != first for way in ways) or first in exercises.NOTEBOOKS:
            break
        if any(pattern.fullmatch(first) for pattern in (_MOODLE, _GRADESCOPE)):
            break
        below = {_stem(way[cut + 1]) for way in ways}
        if below <= set(exercises.NOTEBOOKS):
            break
        cut += 1
    return cut


def _stem(name: str) -> str:
    return name.rpartition(".")[0] if name.lower().endswith((".ipynb", ".zip")) else name


def _metadata(files: Iterable[File]) -> dict[str, Any]:
    """What Gradescope's export says of its submissions, {} where it is missing or unreadable."""
    for file in files:
        if file.name == METADATA and not any(map(_GRADESCOPE.fullmatch, file.parts)):
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            try:
                told = yaml.load(file.load(_LARGEST_METADATA), Loader=loader)
            except Exception:  # then the submissions keep their numbers as names
                return {}
            return told if isinstance(told, dict) else {}
    return {}


def _submitters(told: Any) -> tuple[str, ...]:
    """The mail addresses, else the names, of those who handed in; Gradescope's keys begin with ":"."""
    people = told.get(":submitters") if isinstance(told, dict) else None
    names = [
        str(person.get(":email") or person.get(":sid") or person.get(":name") or "").strip()
        for person in (people if isinstance(people, list) else [])
        if isinstance(person, dict)
    ]
    return tuple(dict.fromkeys(name for name in names if name))
