"""What a batch leaves for people and programs, all made from the store, each file whole or not at all.

| file | for |
|---|---|
| ``grades.csv`` | a teacher's table: a line a submission |
| ``feedback/<learner>/<assignment>/feedback.html`` | the learner |
| ``feedback/<learner>/<assignment>/results.json`` | Gradescope, in its format |
| ``junit.xml`` | whatever shows tests |

Learners' text is hostile in each: escaped in HTML and XML, no formula in a table, no character that a
terminal obeys. None holds the reference's answers.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

from grader import exercises
from grader.classroom.grading import feedback
from grader.classroom.grading.names import folder_names
from grader.classroom.grading.one import Outcome
from grader.classroom.grading.store import Row, Store
from grader.classroom.grading.summary import Summary
from grader.judge.verdict import Status, Verdict
from grader.lab.files import write_whole
from grader.lab.terminal import plain

FIXED = ("learner", "assignment", "points", "max", "percent", "needs_review", "remark")
# A table that begins so is computed by Excel, LibreOffice and Google Sheets; full-width forms too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "|", "%")


class ReportsNotWritten(RuntimeError):
    """A report could not be written; the store has everything, and the reports can be made again."""


def write(store: Store, out: Path) -> Summary:
    """Write all reports anew → the summary of what is in them. Raises ReportsNotWritten."""
    names = store.names()
    summary = Summary()
    for left_over in out.rglob(".*.tmp"):  # of a process that was killed while it wrote
        left_over.unlink(missing_ok=True)
    learners = folder_names({learner for learner, _ in names})
    assignments = folder_names({assignment for _, assignment in names})
    asked = [e for e in exercises.registry().values() if any(e.notebook == a for _, a in names)]
    try:
        with _replacing(out / "grades.csv") as table, _replacing(out / "junit.xml") as suites:
            columns = [*FIXED, *(exercise.name for exercise in asked)]
            lines = csv.DictWriter(table, columns, restval="", extrasaction="ignore")
            lines.writeheader()
            suites.write('<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="grader">\n')
            for row in store.rows():
                outcome = None if row.outcome is None else Outcome.from_json(row.outcome)
                summary.add(row.handed_in, outcome)
                lines.writerow({key: in_table(text) for key, text in _line(row, outcome).items()})
                suites.write(_suite(row, outcome) + "\n")
                if outcome is not None:
                    one = row.handed_in
                    folder = learners[one.learner] + os.sep + assignments[one.assignment]
                    _for_learner(out / "feedback" / folder, row, outcome)
            suites.write("</testsuites>\n")
    except OSError as error:
        raise ReportsNotWritten(
            f"The reports in {out} can't be written ({error.strerror or error}). All grades are in the "
            "store; mend that and run the same command again, and only the reports are made."
        ) from None
    return summary


def _for_learner(folder: Path, row: Row, outcome: Outcome) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page = feedback.page(row.handed_in, outcome, row.graded_at)
    write_whole(folder / "feedback.html", page, lasting=False)
    results = json.dumps(gradescope(row, outcome), indent=1, ensure_ascii=True)
    write_whole(folder / "results.json", results + "\n", lasting=False)


def _line(row: Row, outcome: Outcome | None) -> dict[str, str]:
    one, line = row.handed_in, {}
    line["learner"], line["assignment"] = one.learner, one.assignment
    line["remark"] = remark(row, outcome)
    if needs_review(outcome):
        line["needs_review"] = "yes"
    if outcome is None or not outcome.verdicts:
        return line
    line["max"] = f"{outcome.max_points:g}"
    if outcome.points is not None:
        line["points"] = f"{outcome.points:g}"
        line["percent"] = f"{100 * outcome.points / outcome.max_points:.1f}"
    return line | {verdict.exercise: verdict.status.value for verdict in outcome.verdicts}


def needs_review(outcome: Outcome | None) -> bool:
    """Whether a person has to look: not graded, unreadable, or the grader failed."""
    return outcome is None or bool(outcome.trouble) or not outcome.settled


def remark(row: Row, outcome: Outcome | None) -> str:
    """Why a person has to look, and what else is to be known about the hand-in."""
    said = ["late"] if row.handed_in.late else []
    if outcome is None:
        said.append("not graded yet")
    elif outcome.trouble:
        said.append(outcome.trouble)
    elif not outcome.settled:
        said.append("the grader itself failed; run the same command again")
    return "; ".join(said)


def in_table(text: str) -> str:
    """A cell of a table: one line, nothing that a spreadsheet computes, nothing a terminal obeys."""
    shown = plain(text.replace("\n", " ").replace("\t", " "))
    return f"'{shown}" if text.lstrip(" ").startswith(_FORMULA) else shown


def gradescope(row: Row, outcome: Outcome) -> dict[str, Any]:
    """One submission as Gradescope's results.json; a test that couldn't be judged has no score."""
    tests = [_gradescope_test(verdict, n) for n, verdict in enumerate(outcome.verdicts, start=1)]
    said = [*row.handed_in.notes, *outcome.notes]
    if outcome.trouble:
        said.insert(0, outcome.trouble)
    told: dict[str, Any] = {
        "output": plain("\n".join(said)),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [] if outcome.failed else tests,
        "extra_data": {
            "assignment": plain(row.handed_in.assignment),
            "edition": plain(outcome.edition),
            "graded_at": row.graded_at,
            "grader": outcome.version,
            "needs_review": needs_review(outcome),
        },
    }
    if outcome.points is not None:
        told["score"] = outcome.points
    return told


def _gradescope_test(verdict: Verdict, number: int) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": verdict.exercise,
        "number": str(number),
        "output": feedback.as_text(verdict),
        "output_format": "text",
        "visibility": "visible",
        "tags": [verdict.status.value, *filter(None, [verdict.mistake])],
    }
    if verdict.status is not Status.GRADER_ERROR:
        test |= {
            "score": verdict.points,
            "max_score": verdict.max_points,
            "status": "passed" if verdict.passed else "failed",
        }
    return test


def _suite(row: Row, outcome: Outcome | None) -> str:
    one = row.handed_in
    verdicts = () if outcome is None or outcome.failed else outcome.verdicts
    name = plain(f"{one.learner} · {one.assignment}")
    suite = ElementTree.Element("testsuite", name=name)
    if not verdicts:
        case = ElementTree.SubElement(suite, "testcase", name="graded", classname=name, time="0")
        ElementTree.SubElement(case, "error", message=plain(remark(row, outcome)))
    for verdict in verdicts:
        seconds = f"{verdict.seconds:.3f}"
        case = ElementTree.SubElement(
            suite, "testcase", name=verdict.exercise, classname=name, time=seconds
        )
        kind = _JUNIT.get(verdict.status, "failure")
        if kind:
            told = feedback.as_text(verdict)
            first = f"{verdict.status.value}: {told.partition(chr(10))[0]}"
            ElementTree.SubElement(case, kind, message=first, type=verdict.status.value).text = told
    kinds = [child.tag for case in suite for child in case]
    suite.attrib |= {"tests": str(len(suite))} | {
        f"{kind}s" if kind != "skipped" else kind: str(kinds.count(kind))
        for kind in ("failure", "error", "skipped")
    }
    return ElementTree.tostring(suite, encoding="unicode")


_JUNIT = {
    Status.PASS: "",
    Status.RECEIVED: "",
    Status.NOT_ATTEMPTED: "skipped",
    Status.GRADER_ERROR: "error",
}


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """A file to write that takes its place only once it is whole."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
