"""Grades in the table that an LMS takes back: Canvas's gradebook, Moodle's grading worksheet.

Both are filled into the LMS's own export, so that every id is the LMS's. Learners are matched by the
ids that the LMS put into the names of their files, else by login, mail address or id number, never by
a name that two may share. Whoever has no points yet is left out: no blank becomes a zero.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.grading.one import Outcome
from grader.classroom.grading.store import NAME, Store

CANVAS_KEPT = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
CANVAS_IDS = ("SIS Login ID", "SIS User ID", "ID")
MOODLE_IDS = ("Username", "Email address", "ID number", "Identifier")
_POSSIBLE = "Points Possible"


class TableUnusable(ValueError):
    """The LMS's table or our grades can't be used; the message says what was looked for."""


@dataclass(frozen=True)
class Points:
    """Of one learner, in one assignment."""

    points: float
    most: float


@dataclass(frozen=True)
class Filled:
    """text: the table; matched: how many learners are in it

    unknown: learners with points whom the LMS's table doesn't have; missing: those of the LMS's table
    who have no points
    """

    text: str
    matched: int
    unknown: tuple[str, ...]
    missing: tuple[str, ...]


def points_in(grades: Path, assignment: str) -> dict[str, Points]:
    """The points of everybody in a batch's folder. Raises TableUnusable, StoreError."""
    if not (grades / NAME).is_file():
        raise TableUnusable(f"{grades} holds no grades. Name the folder that `grader grade` wrote.")
    found: dict[str, Points] = {}
    there = set()
    with Store(grades) as store:
        for row in store.rows():
            there.add(row.handed_in.assignment)
            outcome = Outcome.from_json(row.outcome) if row.outcome else None
            if row.handed_in.assignment == assignment and outcome and outcome.points is not None:
                found[row.handed_in.learner] = Points(outcome.points, outcome.max_points)
    if assignment not in there:
        names = ", ".join(sorted(there)) or "none"
        raise TableUnusable(f"{grades} has no {assignment}; it has {names}.")
    return found


def fill(lms: str, table: Path, points: Mapping[str, Points], column: str) -> Filled:
    """The table of the LMS ("canvas" or "moodle") with the points in it. Raises TableUnusable."""
    return canvas(table, points, column) if lms == "canvas" else moodle(table, points)


def canvas(table: Path, points: Mapping[str, Points], column: str) -> Filled:
    """Fill Canvas's exported gradebook: its five columns of ids, and the one of the assignment.

    column: its heading in Canvas, "Homework 1 (4321)"; where Canvas says how much it is worth, the
    points are scaled to that
    """
    heads, rows = _read(table, ("Student", "ID"))
    most = next((_number(row.get(column)) for row in rows if _is_possible(row)), None)
    ours = _by_ids(points, rows, CANVAS_IDS)
    kept = [head for head in CANVAS_KEPT if head in heads]
    lines, missing = [], []
    for number, row in enumerate(rows):
        if _is_possible(row):
            continue
        if number in ours:
            lines.append([*(row[head] for head in kept), _scaled(points[ours[number]], most)])
        else:
            missing.append(row["Student"])
    return _filled([*kept, column], lines, points, ours, missing)


def moodle(table: Path, points: Mapping[str, Points]) -> Filled:
    """Fill Moodle's grading worksheet, or a table of users with a column ``Grade``.

    Where the worksheet has a maximum grade, the points are scaled to it.
    """
    heads, rows = _read(table, ())
    if not any(head in heads for head in MOODLE_IDS):
        raise TableUnusable(
            f"{table.name} has no column {' or '.join(MOODLE_IDS)}. Take the grading worksheet that "
            "Moodle offers in the assignment's menu of actions."
        )
    ours = _by_ids(points, rows, MOODLE_IDS)
    columns = heads if "Grade" in heads else [*heads, "Grade"]
    lines, missing = [], []
    for number, row in enumerate(rows):
        if number in ours:
            most = _number(row.get("Maximum grade") or row.get("Maximum Grade"))
            told = {**row, "Grade": _scaled(points[ours[number]], most)}
            lines.append([told[head] for head in columns])
        else:
            missing.append(next(row[head] for head in (*MOODLE_IDS, *heads) if row.get(head)))
    return _filled(columns, lines, points, ours, missing)


def _read(table: Path, needed: Sequence[str]) -> tuple[list[str], list[dict[str, str]]]:
    try:
        text = table.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it isn't UTF-8 text"
        raise TableUnusable(f"{table} can't be read: {why}.") from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.DictReader(io.StringIO(text), delimiter=delimiter, restval="")
    heads = list(reader.fieldnames or ())
    lacking = [head for head in needed if head not in heads]
    if lacking or not heads:
        raise TableUnusable(
            f"{table.name} is not the LMS's table: its first line has no column "
            f"{' and no column '.join(lacking) or 'at all'}."
        )
    return heads, [{head: row[head] for head in heads} for row in reader if any(row.values())]


def _by_ids(
    points: Mapping[str, Points], rows: Sequence[Mapping[str, str]], ids: Sequence[str]
) -> dict[int, str]:
    """Number of a row → the learner of ours who it is."""
    owners: dict[str, set[int]] = {}
    for number, row in enumerate(rows):
        for head in ids:
            if row.get(head, "").strip():
                owners.setdefault(row[head].strip().casefold(), set()).add(number)
    found: dict[int, str] = {}
    for learner in points:
        for name in _names(learner):
            numbers = owners.get(name.casefold(), set())
            if len(numbers) == 1 and (number := next(iter(numbers))) not in found:
                found[number] = learner
                break
    return found


def _names(learner: str) -> Iterator[str]:
    """What the LMS may call a learner of ours: the name itself, or the id at its end."""
    yield learner
    match = re.fullmatch(r".+_(\d+)", learner, re.DOTALL)
    if match:
        yield match[1]
        yield f"Participant {match[1]}"


def _is_possible(row: Mapping[str, str]) -> bool:
    return row.get("Student", "").strip() == _POSSIBLE


def _number(text: str | None) -> float | None:
    try:
        number = float((text or "").replace(",", "."))
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


def _scaled(one: Points, most: float | None) -> str:
    value = one.points if most is None or not one.most else one.points / one.most * most
    return f"{round(value, 2):g}"


def _filled(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    points: Mapping[str, Points],
    ours: Mapping[int, str],
    missing: Sequence[str],
) -> Filled:
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(heads)
    writer.writerows(lines)
    unknown = tuple(learner for learner in points if learner not in ours.values())
    return Filled(stream.getvalue(), len(lines), unknown, tuple(missing))
