"""A batch that is killed again and again: what is lost of it, and what is graded twice.

The killing itself is the tests' (``tests/classroom/grading/killer.py``): a SIGKILL at a random moment,
while the batch takes in, between two results or in the middle of writing one. To be quick, notebooks
run in a stand-in for the sandbox, which has no part in what is kept.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from grader.classroom.grading.store import NAME
from tests.bench import grading_batches as batches
from tests.bench.rows import Row

THERE = batches.ROOT / "tests" / "classroom" / "grading"
KILLS, SUBMISSIONS, LONGEST = 10, 40, 0.3  # the long tests have 100 over 200


def rows(place: Path) -> Iterator[Row]:
    seed = secrets.randbelow(2**31)
    handed_in = batches.hand_in(place / "killed", SUBMISSIONS, "00-residual-stream")
    lost, twice = killed(handed_in, place / "out-killed", seed)
    of = f"{KILLS} SIGKILLs over {SUBMISSIONS} submissions, seed {seed}"
    yield Row(
        "killed again and again: submissions lost", (lost,), "submissions", at_most=0, note=of
    )
    yield Row("killed again and again: graded twice", (twice,), "submissions", at_most=0, note=of)


def killed(handed_in: Path, out: Path, seed: int) -> tuple[int, int]:
    """Kill the batch so often, then let it end → (lost, graded twice). Raises GradedWrongly."""
    command = [sys.executable, str(THERE / "killer.py"), str(handed_in), str(out)]
    done = subprocess.run(
        [*command, str(KILLS), str(LONGEST), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{batches.ROOT}{os.pathsep}{THERE}"},
    )
    told = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    if told.get("status") != 0 or not told["seen_before_kills"] or told["left_behind"]:
        raise batches.GradedWrongly(f"Seed {seed}: {told} {done.stderr[-3000:]}")
    return lost_and_twice(out / NAME, SUBMISSIONS)


def lost_and_twice(store: Path, submissions: int) -> tuple[int, int]:
    """How many of the submissions have no result in a store, and how many have more than one."""
    connection = sqlite3.connect(store)
    try:
        counted = connection.execute("SELECT count(*) FROM results GROUP BY submission").fetchall()
    finally:
        connection.close()
    return submissions - len(counted), sum(count > 1 for (count,) in counted)
