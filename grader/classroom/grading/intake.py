"""What was handed in: one submission a learner and notebook, whatever way the files came.

Nothing is dropped in silence. A file that can't be graded is a submission with its trouble in a
sentence; a learner who handed in no notebook at all is one, too; of several versions the latest
counts, and says so; two hand-ins under one name are both kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from grader import exercises
from grader.classroom import submission
from grader.classroom.grading.files import File, Tree
from grader.classroom.grading.handed_in import HandedIn, Version, settled
from grader.classroom.grading.layouts import LMS, Place, passed_by, places
from grader.classroom.grading.names import natural
from grader.classroom.grading.zips import Refused

__all__ = ["HandedIn", "Intake", "NothingHandedIn", "take_in"]

MOST_COMPANIONS = 50
LARGEST_COMPANIONS = 4 * 2**20  # together
_LONGEST_NAME = 200  # bytes


class NothingHandedIn(ValueError):
    """No path that was given holds anything to grade; the message says what was looked for."""


@dataclass(frozen=True)
class Intake:
    """What was taken in.

    submissions: in the order of their learners
    remarks: what a person should look at: files left out, namesakes; versions: who handed in several
    """

    submissions: tuple[HandedIn, ...]
    remarks: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Read:
    """One notebook that was read, or one that can't be: then ``trouble`` says why."""

    place: Place
    assignment: str
    data: bytes = b""
    notes: tuple[str, ...] = ()
    trouble: str = ""


def take_in(
    paths: Iterable[str | os.PathLike[str]],
    keep: Callable[[bytes], str],
    assignment: str = "",
    *,
    but: Path | None = None,
) -> Intake:
    """Read all that was handed in below ``paths``.

    keep: puts bytes away and returns their digest; asked for every notebook and companion
    assignment: take only this one, the name of a notebook or of nbgrader's folder; "" for all
    but: a folder to pass by, where the batch keeps its own things

    Raises NothingHandedIn, and OSError where a path is not there.
    """
    given = [Path(path) for path in paths]
    remarks: list[str] = []
    found: dict[tuple[str, str], list[Version]] = {}
    seen: set[str] = set()
    with Tree(remarks.append, but) as tree:
        for number, path in enumerate(given):
            files = [file for file in tree.below(path) if file.where not in seen or file.copy]
            seen |= {file.where for file in files}
            remarks += _beside(passed_by(files))
            owners: dict[tuple[object, ...], list[Place]] = {}
            for place in places(files):
                owners.setdefault(place.owner, []).append(place)
            for group in owners.values():
                for version in _of_owner(group, number, keep, assignment, remarks):
                    key = (version.handed_in.learner, version.handed_in.assignment)
                    found.setdefault(key, []).append(version)
    versions: list[str] = []
    taken = settled(found, remarks, versions)
    if not taken:
        raise NothingHandedIn(_nothing(given, assignment, remarks))
    taken.sort(key=lambda one: (one.learner.casefold(), one.learner, one.assignment))
    return Intake(tuple(taken), tuple(dict.fromkeys(remarks)), tuple(versions))


def _of_owner(
    group: Sequence[Place],
    number: int,
    keep: Callable[[bytes], str],
    assignment: str,
    remarks: list[str],
) -> Iterator[Version]:
    """Every version of every notebook in one hand-in."""
    said, course = group[0].assignment, exercises.NOTEBOOKS
    called = said == assignment or not assignment
    if not called and (said in course or assignment not in course):
        return
    # A folder by a name of the teacher's own ("week 3") tells nothing of what must be in it.
    free = bool(said) and said not in course
    reads = _readings(group, "" if free else said or assignment)
    good = [one for one in reads if not one.trouble]
    bad = [one for one in reads if one.trouble]
    if free and not called:
        good, bad = [one for one in good if one.assignment == assignment], []
    elif assignment in {one.assignment for one in good}:
        good = [one for one in good if one.assignment == assignment]
    elif not reads:
        bad = _without_notebook(group, said or assignment, remarks)
    if good:
        answered = {one.assignment for one in good}
        lost = [one for one in bad if one.assignment in answered or one.assignment not in course]
        for one in lost:
            remarks.append(f"{_who(one.place)}: {one.trouble} Another notebook was graded.")
        bad = [one for one in bad if one not in lost]
    companions: dict[str, str] = {}
    for one in (*good, *bad):
        digest, notes = "", one.notes
        if not one.trouble:
            digest = keep(one.data)
            companions, left_out = _companions(one.place, group, keep)
            notes = (*notes, *left_out)
        owner = one.place.owner if one.place.owner[0] in LMS else (number, *one.place.owner)
        for learner in one.place.learners:
            handed_in = HandedIn(
                learner=learner,
                assignment=one.assignment,
                where=one.place.file.where,
                notebook=digest,
                companions=companions if digest else {},
                notes=notes,
                late=one.place.late,
                trouble=one.trouble,
            )
            yield Version(handed_in, owner, one.place.rank)


def _beside(files: Sequence[File]) -> list[str]:
    """The remark about notebooks that lie beside ``submitted/``, if there are any."""
    if not files:
        return []
    names = ", ".join(sorted(file.where for file in files)[:3])
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return [
        f"{names}{more}: left out. Beside a folder submitted/, as nbgrader has it, only what lies in that "
        "is graded; to grade these as well, name their folder or file, too."
    ]


def _readings(group: Sequence[Place], expected: str) -> list[_Read]:
    """The notebooks in a hand-in; where none is called so, those that are called something else."""
    named = [place for place in group if place.file.name.lower().endswith(".ipynb")]
    if named:
        return [_reading(place, expected) for place in named]
    disguised = []
    for place in group:
        name = place.file.name.lower()
        if ".ipynb" in name or PurePosixPath(name).suffix in ("", ".json", ".txt"):
            one = _reading(place, expected)
            if not one.trouble or ".ipynb" in name:
                note = f"The file is called {place.file.name}; it was read as a notebook."
                disguised.append(replace(one, notes=(*one.notes, note)))
    return disguised


def _reading(place: Place, expected: str) -> _Read:
    wanted = expected if expected in exercises.NOTEBOOKS else ""
    name = PurePosixPath(place.file.name)
    unknown = wanted or _named_in(place.file.name) or expected or name.stem
    try:
        data = place.file.load()
        read = submission.parse(data, Path(name.name), wanted=wanted)
    except (Refused, submission.NotebookUnreadable) as error:
        return _Read(place, unknown, trouble=f"{error}")
    if wanted and read.notebook != wanted:
        return _Read(
            place, wanted,
            trouble=f"{name.name} is {read.notebook}, and {wanted} was to be handed in.",
        )  # fmt: skip
    return _Read(place, read.notebook, data)


def _named_in(name: str) -> str:
    """The notebook of the course that a file's name speaks of, "" if none."""
    return next((notebook for notebook in exercises.NOTEBOOKS if notebook in name), "")


def _without_notebook(group: Sequence[Place], expected: str, remarks: list[str]) -> list[_Read]:
    """A learner who handed in something else; a folder of nobody we know is only remarked."""
    first = group[0]
    names = ", ".join(sorted(place.file.name for place in group)[:5])
    more = f" and {len(group) - 5} more" if len(group) > 5 else ""
    if first.owner[0] in LMS:
        trouble = f"No notebook (.ipynb) was handed in, only {names}{more}."
        return [_Read(first, expected or "no notebook", trouble=trouble)]
    if first.owner[0] == "folder":
        remarks.append(f"{_who(first)}: there is no notebook (.ipynb), only {names}{more}.")
    return []


def _companions(
    notebook: Place, group: Sequence[Place], keep: Callable[[bytes], str]
) -> tuple[dict[str, str], list[str]]:
    """The other files at or below the notebook's folder, small ones, and what was left out."""
    if not notebook.shares:
        return {}, []
    folder = notebook.inner[:-1]
    kept: dict[str, str] = {}
    left_out, left = [], LARGEST_COMPANIONS
    for place in sorted(group, key=lambda place: natural("/".join(place.inner))):
        inner = place.inner[len(folder) :]
        if place.inner[: len(folder)] != folder or place.file.name.lower().endswith(".ipynb"):
            continue
        if inner == ("timestamp.txt",):  # nbgrader's, not the learner's
            continue
        try:
            data = place.file.load(left)
        except Refused:
            data = None
        name = "/".join(inner)
        if data is None or len(kept) >= MOST_COMPANIONS or not _can_lie_beside(name, kept):
            left_out.append(place.file.name)
        else:
            left -= len(data)
            kept[name] = keep(data)
    note = (
        f"Left out beside the notebook: {', '.join(left_out[:5])} (at most {MOST_COMPANIONS} files "
        f"and {LARGEST_COMPANIONS // 2**20} MiB together are taken along)."
    )
    return kept, [note] if left_out else []


def _can_lie_beside(name: str, others: Iterable[str]) -> bool:
    """Whether a file of that name can be written where the others are; a zip allows more."""
    short = all(0 < len(part.encode("utf-8")) <= _LONGEST_NAME for part in name.split("/"))
    return short and not any(
        f"{one}/".startswith(f"{name}/") or f"{name}/".startswith(f"{one}/") for one in others
    )


def _who(place: Place) -> str:
    return " and ".join(place.learners)


def _nothing(paths: Sequence[Path], assignment: str, remarks: Sequence[str]) -> str:
    where = ", ".join(str(path) for path in paths[:3]) + (" …" if len(paths) > 3 else "")
    what = f"a notebook of {assignment}" if assignment else "a notebook (.ipynb)"
    told = f" {remarks[0]}" if remarks else ""
    if assignment and assignment not in exercises.NOTEBOOKS:
        told += f" The course's notebooks are {', '.join(exercises.NOTEBOOKS)}."
    return (
        f"There is nothing to grade in {where}: {what} was looked for, in nbgrader's submitted/, a "
        f"folder, or a zip as an LMS exports it.{told}"
    )
