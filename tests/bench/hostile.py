"""What the hostile notebooks get from us: points, anything outside, other people's submissions.

The same sandbox, witnesses and notebooks as in the tests (``tests/arena.py``). What the same notebooks
get elsewhere is measured by ``hostile_elsewhere``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.judge.sandbox import Isolation
from grader.judge.verdict import Status
from tests import submission_cases
from tests.arena import Arena, arena, lacks
from tests.bench.rows import Row
from tests.submission_cases import Submission


@dataclass(frozen=True)
class Attacked:
    """What one hostile notebook got. ``graded``: there was a verdict, and no fault of the grader's."""

    name: str
    points: float
    reached: tuple[str, ...]
    others: tuple[str, ...]
    graded: bool


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, arena(Isolation.FULL, Path(folder)) as place:
        attacks = attack(place, submission_cases.every("hostile"))
        honest = submission_cases.every("honest")
        passed = [case for case in honest if not _missed(place, case)]
    of = f"of {len(attacks)} notebooks"
    points = sum(one.points for one in attacks)
    yield Row("hostile: points for wrong answers", (points,), "points", at_most=0, note=of)
    reached = sum(bool(one.reached) for one in attacks)
    yield Row("hostile: reached anything outside", (reached,), "notebooks", at_most=0, note=of)
    others = sum(bool(one.others) for one in attacks)
    yield Row("hostile: touched other submissions", (others,), "notebooks", at_most=0, note=of)
    yield Row(
        "honest notebooks with full marks", (len(passed),), "notebooks", more_is_better=True,
        at_least=len(honest), note="Adam, plots, files, asyncio, threads, …",
    )  # fmt: skip


def attack(place: Arena, cases: Sequence[Submission]) -> list[Attacked]:
    """Grade the cases one after the other in one sandbox; says on stderr what ought not to be."""
    return [_attack(place, case) for case in cases if case.runs_at("full")]


def _attack(place: Arena, case: Submission) -> Attacked:
    verdict, said = place.grade(case)
    got = Attacked(
        case.name,
        verdict.points,
        tuple(place.reached(said)),
        tuple(place.others()),
        verdict.status is not Status.GRADER_ERROR,
    )
    if got.points or got.reached or got.others or not got.graded:
        print(f"{got}: {verdict}", file=sys.stderr)
    return got


def _missed(place: Arena, case: Submission) -> list[str]:
    missed = lacks(place.sandbox, case)
    for one in missed:
        print(f"{case.name}: {one}", file=sys.stderr)
    return missed
