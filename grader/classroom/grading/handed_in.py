"""One submission, and which of several a learner's is: the latest version; a namesake stays apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from grader.classroom.grading.layouts import Rank


@dataclass(frozen=True)
class HandedIn:
    """One submission.

    assignment: the notebook of the course that it is; where that can't be told, what the folders or
        the teacher call it, or its file's name
    where: the file it came from
    notebook: the digest under which its bytes are kept, "" where there is none
    companions: digests of the small files beside it, by their way from the notebook
    trouble: why it can't be graded, "" if it can
    """

    learner: str
    assignment: str
    where: str
    notebook: str = ""
    companions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    late: bool = False
    trouble: str = ""

    @property
    def digest(self) -> str:
        """Equal for two submissions exactly where everything that is graded is equal."""
        whole = json.dumps([self.notebook, sorted(self.companions.items()), self.trouble])
        return hashlib.sha256(whole.encode("utf-8")).hexdigest()


@dataclass(frozen=True)
class Version:
    """One version of a learner's notebook; two of one owner are versions, of two owners are not."""

    handed_in: HandedIn
    owner: tuple[object, ...]
    rank: Rank


def settled(
    found: dict[tuple[str, str], list[Version]], remarks: list[str], told: list[str]
) -> list[HandedIn]:
    """One submission a learner and notebook: the latest version; a namesake gets a number.

    remarks, told: get a sentence on each namesake, and on each learner with several versions
    """
    taken: list[HandedIn] = []
    for (learner, assignment), versions in found.items():
        owners: dict[tuple[object, ...], list[Version]] = {}
        for version in versions:
            owners.setdefault(version.owner, []).append(version)
        latest = [_latest(group, told) for group in owners.values()]
        different = list({one.digest: one for one in reversed(latest)}.values())[::-1]
        for number, one in enumerate(different, start=1):
            name = learner if number == 1 else _free_name(learner, assignment, number, found)
            if name != learner:
                remarks.append(
                    f"Two hand-ins of {assignment} are called {learner}: {different[0].where} and "
                    f"{one.where}. Both are graded; the second is called {name} here."
                )
            taken.append(replace(one, learner=name))
    return taken


def _free_name(
    learner: str, assignment: str, number: int, taken: Mapping[tuple[str, str], object]
) -> str:
    """ "alice (2)", or the next number that nobody else is called by."""
    while (f"{learner} ({number})", assignment) in taken:
        number += 1
    return f"{learner} ({number})"


def _latest(versions: Sequence[Version], told: list[str]) -> HandedIn:
    *older, last = sorted(versions, key=lambda version: version.rank)
    different = {one.handed_in.digest for one in older} - {last.handed_in.digest}
    if not different:
        return last.handed_in
    one = last.handed_in
    note = (
        f"{len(different) + 1} versions of {one.assignment} were handed in; the latest counts: "
        f"{PurePosixPath(one.where).name}."
    )
    told.append(f"{one.learner}: {note}")
    return replace(one, notes=(*one.notes, note))
