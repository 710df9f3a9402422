"""Where an attack's cells go in a peer's notebook, what of its outputs counts, what a report amounts to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import submission_cases
from tests.bench import hostile_course, hostile_peer
from tests.bench.hostile import Attacked
from tests.bench.hostile_elsewhere import Outcome, applies, counted
from tests.submission_cases import ANSWERED_WRONG, Submission


def test_the_attack_comes_before_the_answer_and_the_rest_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile_peer, "COURSE", tmp_path)
    handed_out = [hostile_peer.code(s) for s in ("import torch", hostile_course.STUB, "test")]
    (tmp_path / "otter.ipynb").write_text(json.dumps(hostile_course.notebook(handed_out)))
    hostile_peer.submit("otter", ["world", "attack", ANSWERED_WRONG, "after"])
    told = json.loads((tmp_path / "submitted" / "patterns.ipynb").read_text())
    sources = [cell["source"] for cell in told["cells"]]
    assert sources == ["import torch", "world", "attack", ANSWERED_WRONG, "after", "test"]


def test_a_traceback_that_shows_the_attack_is_not_something_it_said() -> None:
    error = {"output_type": "error", "evalue": "denied", "traceback": ["print('REACHED')"]}
    stream = {"output_type": "stream", "text": "token"}
    said = hostile_peer.printed({"cells": [{"outputs": [error, stream]}, {"source": "REACHED"}]})
    assert said == "denied\ntoken"


@pytest.mark.parametrize(
    ("report", "forged", "reached", "ungraded"),
    [
        ({"points": 3.0, "seen": [], "hung": False}, True, False, False),
        ({"points": 0.0, "seen": ["called"], "hung": False}, False, True, False),
        ({"points": None, "seen": [], "hung": False}, False, False, True),
        ({"points": 1.0, "seen": [], "hung": True}, True, False, True),
        ({}, False, True, False),
    ],
)
def test_a_report_says_what_was_forged_and_reached_and_whether_there_is_a_grade(
    report: dict[str, object], forged: bool, reached: bool, ungraded: bool
) -> None:
    outcome = Outcome.told(report)
    assert (outcome.forged, outcome.reached, outcome.ungraded) == (forged, reached, ungraded)


def test_each_tool_is_counted_beside_us() -> None:
    ours = [Attacked("a", 0.0, (), (), True), Attacked("b", 0.0, (), (), True)]
    theirs = {"otter": {"a": Outcome(3.0, ("called",)), "b": Outcome(None, (), hung=True)}}
    counts = [(row.median, row.peer_median) for row in counted(ours, theirs)]
    assert counts == [(0, 1), (0, 1), (0, 1)]


def test_what_attacks_our_own_modules_is_not_run_elsewhere() -> None:
    cases = submission_cases.every("hostile")
    assert {case.name for case in cases if not applies(case)} >= {"frames-half", "patched-wire"}
    assert not [case.name for case in cases if applies(case) and _ours(case)]


def _ours(case: Submission) -> bool:
    return any(
        line.lstrip().startswith(("import grader", "from grader"))
        for cell in case.cells
        for line in cell.splitlines()
    )
