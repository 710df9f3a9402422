"""The bench of grading compares the same work: what each contestant is handed, and how it is counted."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.classroom import submission
from tests.bench import grading, grading_batches, grading_kills
from tests.bench import grading_forms as forms


def sources(notebook: bytes) -> list[str]:
    return [cell["source"] for cell in json.loads(notebook)["cells"]]


def run(notebook: bytes) -> None:
    space: dict[str, Any] = {}
    for source in sources(notebook):
        exec(source, space)


def released(teachers: dict[str, Any]) -> dict[str, Any]:
    """As a tool hands it out: stubs in place of the answers."""
    stubs = {task.answer for task in forms.tasks()}
    stubs |= {task.answer.replace("### ", "# ") for task in forms.tasks()}
    cells = [
        {**cell, "source": cell["source"].partition("\n")[0] + "\n    ..."}
        if cell["source"] in stubs
        else cell
        for cell in teachers["cells"]
    ]
    return {**teachers, "cells": cells}


@pytest.mark.parametrize("teachers", [forms.for_nbgrader(), forms.for_otter()])
def test_every_tool_is_handed_the_same_answers(teachers: dict[str, Any]) -> None:
    for wrong in (False, True):
        ours = [s for s in sources(forms.ours(3, wrong)) if s.startswith("def ")]
        theirs = sources(forms.answered(released(teachers), 3, wrong))
        assert [s for s in theirs if s.startswith("def ")] == ours
        assert len(ours) == len(forms.tasks())
        assert (forms.WRONG["qk_circuit"] in ours) is wrong
        assert not any("SOLUTION" in s for s in ours)


def test_the_peers_tests_pass_right_answers_and_fail_the_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / forms.EXAMPLES).write_bytes(forms.examples())
    run(forms.answered(forms.for_nbgrader(), 0))
    with pytest.raises(AssertionError):
        run(forms.answered(forms.for_nbgrader(), 0, wrong=True))
    assert forms.points() - forms.points(wrong=True) == 1


def test_examples_need_nothing_of_ours_to_be_read() -> None:
    kept = torch.load(io.BytesIO(forms.examples()), weights_only=True)
    assert list(kept) == [task.name for task in forms.tasks()]


def test_no_two_submissions_are_the_same_and_each_is_recognised() -> None:
    assert forms.ours(1) != forms.ours(2)
    read = submission.parse(forms.ours(1), Path("x.ipynb"))
    assert read.notebook == forms.NOTEBOOK
    assert read.notes == ()


def test_lost_and_twice_are_counted(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    connection = sqlite3.connect(store)
    connection.execute("CREATE TABLE results (submission INTEGER)")
    connection.executemany("INSERT INTO results VALUES (?)", [(1,), (2,), (2,), (4,)])
    connection.commit()
    connection.close()
    assert grading_kills.lost_and_twice(store, 5) == (2, 1)


def test_nbgraders_start_is_taken_off_the_batch_beside_our_warm_server() -> None:
    names = ("ours", "ours batch", "warm", "warm batch", "warm batch again", "otter", "start")
    took = dict.fromkeys(names, (1.0, 1.0)) | {"nbgrader": (7.0,), "nbgrader batch": (17.0,)}
    rows = {row.what: row for row in grading.speed(took)}
    warm = rows["seconds a submission, batch of 20, server warm, beside nbgrader"]
    assert warm.peer_runs == (5.0,)
    assert warm.runs == (0.05,) * 4
    whole = rows["seconds a submission, batch of 20, whole command, beside nbgrader"]
    assert whole.peer_runs == pytest.approx(((7 + 19 * 5) / 20,))


@pytest.mark.skipif(sys.platform != "linux", reason="the bench counts as Linux does")
def test_the_peak_of_a_process_is_not_that_of_the_bench() -> None:
    held = b"x" * (400 * grading_batches.MIB)
    assert 1 < grading_batches.process([sys.executable, "-S", "-c", "pass"]).peak_mib < 100
    more = f"held = b'x' * {len(held)}"
    assert grading_batches.process([sys.executable, "-S", "-c", more]).peak_mib > 400


def test_a_process_that_fails_is_not_measured() -> None:
    with pytest.raises(grading_batches.GradedWrongly, match="ended with 3"):
        grading_batches.process([sys.executable, "-S", "-c", "raise SystemExit(3)"])
