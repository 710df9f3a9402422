"""Killed at any moment and run again: every submission has one result, and none is lost."""

from __future__ import annotations

import csv
import json
import os
import secrets
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from books import RIGHT, book, laid_out
from test_reported import sandbox

import grader
from grader.classroom.grading.store import NAME

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks what has torch in it")


def killed(tmp_path: Path, submissions: int, kills: int, longest: float, *more: str) -> None:
    """Kill a batch so many times, let it end, and look at every trace that it left."""
    files = {f"learner {n}.ipynb": book(f"number = {n}", RIGHT) for n in range(submissions)}
    handed_in, out = laid_out(tmp_path / "in", files), tmp_path / "out"
    seed = secrets.randbelow(2**31)
    arguments = [handed_in, out, kills, longest, seed]
    done = subprocess.run(
        [sys.executable, str(HERE / "killer.py"), *map(str, arguments), *more],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{Path(grader.__file__).parents[1]}:{HERE}"},
    )
    assert done.returncode == 0, (seed, done.stdout, done.stderr)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["status"] == 0, (seed, done.stderr)
    assert told["seen_before_kills"] > 0, seed
    assert not told["left_behind"], seed
    connection = sqlite3.connect(out / NAME)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], seed
    results = connection.execute(
        "SELECT submission, count(*), sum(valid) FROM results GROUP BY submission"
    ).fetchall()
    handed = connection.execute("SELECT count(*) FROM submissions").fetchone()
    connection.close()
    assert handed == (submissions,), seed
    assert len(results) == submissions, (seed, "lost")
    assert [one for one in results if one[1:] != (1, 1)] == [], (seed, "graded twice")
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["virtual_weights"] for line in lines] == ["PASS"] * submissions, seed
    assert len(list(out.glob("feedback/*/*/feedback.html"))) == submissions, seed
    assert list(out.glob(".*.tmp")) == [], seed


def test_a_batch_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    killed(tmp_path, 30, 5, 0.3)


@pytest.mark.long
def test_a_hundred_kills_over_two_hundred_submissions(tmp_path: Path) -> None:
    killed(tmp_path, 200, 100, 2.0)


@pytest.mark.long
def test_kills_with_the_sandbox_leave_no_process_behind(tmp_path: Path) -> None:
    opened, isolation = sandbox()
    opened.close()
    killed(tmp_path, 60, 20, 8.0, isolation)
