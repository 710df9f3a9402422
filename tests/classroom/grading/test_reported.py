"""Every public report of an autograder that broke over a submission, as a submission of ours.

``tests/submissions/reported/<case>/`` holds what is handed in; ``expected.json`` beside it says where
the report is and what a teacher would want. All go through one batch, which none may stop.
"""

from __future__ import annotations

import contextlib
import csv
import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from books import NOTEBOOK, Silent

from grader import exercises
from grader.classroom import checking
from grader.classroom.grading import batch
from grader.classroom.grading.batch import How
from grader.classroom.grading.one import Outcome
from grader.classroom.grading.store import Store
from grader.judge.sandbox import Isolation, Sandbox, SandboxUnavailable
from grader.judge.verdict import Status

CASES = Path(__file__).parents[2] / "submissions" / "reported"
NAMES = sorted(path.name for path in CASES.iterdir())
ENDLESS = {name for name in NAMES if name.startswith("endless-")}
SHOWN = ("virtual_weights", "component_logits")


def sandbox() -> tuple[Sandbox, str]:
    """The best lock that this system has; without one the cases are the same, only slower."""
    for isolation in (Isolation.FULL, Isolation.CONTAINER):
        with contextlib.suppress(SandboxUnavailable):
            return Sandbox(isolation, jobs=2).__enter__(), isolation
    return Sandbox(Isolation.NONE, jobs=2), Isolation.NONE


def handed_in(folder: Path, names: set[str]) -> Path:
    """nbgrader's folder; each case is a learner of that name."""
    for name in names:
        to = folder / "submitted" / name / NOTEBOOK
        shutil.copytree(CASES / name, to, ignore=lambda *_: ["expected.json"])
    return folder


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of reports after all cases were graded; those that never end get two seconds."""
    folder = tmp_path_factory.mktemp("reported")
    opened, isolation = sandbox()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "Sandbox", lambda *args, **more: contextlib.nullcontext(opened))
        patch.setattr(checking, "MEMORY_MIB", 1024)
        try:
            for name, cases, wall in (
                ("endless", ENDLESS, 2.0), ("others", set(NAMES) - ENDLESS, 120.0),
            ):  # fmt: skip
                paths = [handed_in(folder / name, cases)]
                how = How(isolation=isolation, jobs=2, wall=wall)
                done = batch.grade(paths, folder / "out", how, Silent())
                assert done.newly == len(cases)
        finally:
            opened.close()
    return folder / "out"


@pytest.fixture(scope="module")
def outcomes(graded: Path) -> dict[str, tuple[tuple[str, ...], Outcome]]:
    """By case, what was noted on the way in, and the outcome."""
    with Store(graded) as store:
        return {
            row.handed_in.learner: (row.handed_in.notes, Outcome.from_json(row.outcome or {}))
            for row in store.rows()
        }


def expected(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))
    return told


@pytest.mark.parametrize("name", NAMES)
def test_the_outcome_is_what_a_teacher_would_want(
    name: str, outcomes: dict[str, tuple[tuple[str, ...], Outcome]]
) -> None:
    wanted = expected(name)
    before, outcome = outcomes[name]
    if "trouble" in wanted:
        assert wanted["trouble"] in outcome.trouble
        assert outcome.points is None
        assert outcome.settled
        return
    assert outcome.trouble == ""
    got = {verdict.exercise: verdict for verdict in outcome.verdicts}
    assert list(got) == [exercise.name for exercise in exercises.of_notebook(NOTEBOOK)]
    assert {name: got[name].status for name in SHOWN} == wanted["verdicts"], got
    assert {v.status for n, v in got.items() if n not in SHOWN} == {Status.NOT_ATTEMPTED}
    assert outcome.max_points == sum(e.points for e in exercises.of_notebook(NOTEBOOK))
    notes = "\n".join([*before, *outcome.notes])
    assert [note for note in wanted.get("notes", ()) if note not in notes] == []
    stopped = {run.number for run in outcome.cell_errors}
    assert stopped >= set(wanted.get("cells", ()))
    if not wanted.get("cells") and set(wanted["verdicts"].values()) == {"PASS"}:
        assert stopped == set() or name == "cells-in-another-order"


def test_every_case_is_in_every_report(graded: Path) -> None:
    with open(graded / "grades.csv", encoding="utf-8", newline="") as file:
        lines = {line["learner"]: line for line in csv.DictReader(file)}
    assert set(lines) == set(NAMES)
    suites = ElementTree.parse(graded / "junit.xml").getroot()
    assert len(suites) == len(NAMES)
    for name in NAMES:
        trouble = "trouble" in expected(name)
        assert (lines[name]["needs_review"] == "yes") == trouble
        assert (lines[name]["points"] == "") == trouble
        folder = graded / "feedback" / name / NOTEBOOK
        told = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        assert ("score" in told) != trouble
        assert (folder / "feedback.html").read_text(encoding="utf-8").endswith("</html>\n")


def test_no_feedback_holds_a_reference(graded: Path) -> None:
    for path in graded.glob("feedback/*/*/*"):
        text = path.read_text(encoding="utf-8")
        assert "grader/circuits" not in text
        assert "grader/judge" not in text


def test_what_an_answer_printed_is_shown_as_its_own_words(
    outcomes: dict[str, tuple[tuple[str, ...], Outcome]],
) -> None:
    _, outcome = outcomes["prints-reasons"]
    (verdict,) = [v for v in outcome.verdicts if v.exercise == "virtual_weights"]
    assert "100 points" in verdict.printed
    assert verdict.message


def test_a_renamed_function_is_named(
    outcomes: dict[str, tuple[tuple[str, ...], Outcome]],
) -> None:
    _, outcome = outcomes["function-renamed"]
    (verdict,) = [v for v in outcome.verdicts if v.exercise == "virtual_weights"]
    assert "virtual_weigths" in verdict.message


def test_every_case_says_where_it_comes_from() -> None:
    for name in NAMES:
        told = expected(name)
        assert told["wanted"].endswith((".", "!")), name
        assert told["report"], name
        assert told["url"] == "" or told["url"].startswith("https://github.com/"), name
