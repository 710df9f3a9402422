"""nbgrader's whole loop, by its own commands: two learners, a grader, a real exchange, a foreign course.

The learners' commands run under the system's one user, so only the name that nbgrader reads is theirs.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from class_desk import gradebook, marked
from nbformat.v4 import new_code_cell, new_notebook

import grader
from grader import resources
from grader.classroom.grading.one import Outcome
from grader.classroom.grading.store import Store
from grader.classroom.nbgrader_course import folder as folders
from grader.classroom.nbgrader_course import lean
from grader.judge.verdict import Status

pytestmark = [pytest.mark.long, pytest.mark.needs_sandbox]

ASSIGNMENT = "02-attention-heads"
HALF = "check_concat_equals_sum"
# The sum over heads is right, the concatenated form puts the heads in a wrong order.
HALF_RIGHT = """\
def concat_equals_sum(z, W_O):
    z_rows = z.reshape(z.shape[1], -1)
    return z_rows @ W_O.reshape(-1, W_O.shape[-1]), (z @ W_O).sum(dim=0)
"""
AS_LEARNER = """
import os, sys
from nbgrader.exchange.default import fetch_feedback, submit
submit.get_username = fetch_feedback.get_username = lambda: os.environ["LEARNER"]
from nbgrader.apps.nbgraderapp import main
sys.argv = ["nbgrader", *sys.argv[1:]]
main()
"""


@dataclass
class World:
    """A grader's class and a foreign course side by side, two learners' homes, and the exchange."""

    root: Path

    @property
    def course(self) -> folders.ClassFolder:
        return folders.ClassFolder(self.root / "course")

    @property
    def foreign(self) -> Path:
        return self.root / "foreign"

    def home(self, learner: str) -> Path:
        return self.root / "homes" / learner

    def run(self, *command: str, where: Path, learner: str = "") -> str:
        environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(grader.__file__).resolve().parents[1]),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "LEARNER": learner,
            "JUPYTER_CONFIG_DIR": str(self.root / "jupyter"),
            "JUPYTER_DATA_DIR": str(self.root / "share"),
            "IPYTHONDIR": str(self.root / "ipython"),
        }
        program = ["-c", AS_LEARNER] if learner else ["-m", "nbgrader"]
        done = subprocess.run(
            [sys.executable, *program, *command],
            cwd=where, env=environment, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"nbgrader {' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def fetch_and_submit(self, learner: str, answers: dict[str, str]) -> None:
        home = self.home(learner)
        home.mkdir(parents=True)
        (home / "nbgrader_config.py").write_text(
            f"c = get_config()\nc.CourseDirectory.course_id = 'course'\n"
            f"c.Exchange.root = {str(self.root / 'exchange')!r}\n"
            f"c.Exchange.cache = {str(home / 'cache')!r}\n",
            encoding="utf-8",
        )
        self.run("fetch_assignment", ASSIGNMENT, where=home, learner=learner)
        mine = home / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        notebook = nbformat.read(mine, as_version=4)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if cell.metadata.get("nbgrader", {}).get("solution") and name in answers:
                cell.source = answers[name]
        nbformat.write(notebook, mine)
        self.run("submit", ASSIGNMENT, where=home, learner=learner)


def solutions() -> dict[str, str]:
    notebook = nbformat.read(resources.solved(ASSIGNMENT), as_version=4)
    marks = [(cell.metadata.get("nbgrader", {}), cell.source) for cell in notebook.cells]
    return {one["grade_id"]: source for one, source in marks if one.get("solution")}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("world"))
    exchange = made.root / "exchange"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    course = folders.init(made.root / "course")
    config = course.root / folders.CONFIG
    config.write_text(
        config.read_text(encoding="utf-8") + f"\nc.Exchange.root = {str(exchange)!r}\n",
        encoding="utf-8",
    )
    weigh(course.root / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", HALF, 10)
    foreign_course(made.foreign)
    made.run("generate_assignment", "ps1", where=made.foreign)
    for step in ("generate_assignment", "release_assignment"):
        made.run(step, ASSIGNMENT, where=course.root)
    made.fetch_and_submit("alice", solutions())
    made.fetch_and_submit("bob", {"concat_equals_sum": HALF_RIGHT})
    made.run("collect", ASSIGNMENT, where=course.root)
    made.run("autograde", ASSIGNMENT, where=course.root)
    return made


def weigh(notebook: Path, grade_id: str, points: int) -> None:
    """A teacher's own weight for a cell."""
    told = nbformat.read(notebook, as_version=4)
    marked(told, grade_id).metadata["nbgrader"]["points"] = points
    nbformat.write(told, notebook)


def foreign_course(root: Path) -> None:
    """A course of somebody else's, with nbgrader's own way to grade."""

    def cell(source: str, name: str, **more: Any) -> Any:
        about = {
            "grade": False, "solution": False, "locked": False, "task": False,
            "schema_version": 3, "grade_id": name,
        }  # fmt: skip
        return new_code_cell(source, metadata={"nbgrader": about | more})

    notebook = new_notebook(
        cells=[
            cell("### BEGIN SOLUTION\nx = 2\n### END SOLUTION", "x", solution=True),
            cell("assert x == 2", "test_x", grade=True, locked=True, points=3),
        ]
    )
    (root / "source/ps1").mkdir(parents=True)
    nbformat.write(notebook, root / "source/ps1/p1.ipynb")
    config = "c = get_config()\nc.CourseDirectory.course_id = 'foreign'\n"
    (root / "nbgrader_config.py").write_text(config, encoding="utf-8")
    handed_in = root / "submitted/alice/ps1/p1.ipynb"
    handed_in.parent.mkdir(parents=True)
    notebook.cells[0].source = "x = 2"
    nbformat.write(notebook, handed_in)


def scores(course: folders.ClassFolder, learner: str) -> dict[str, Any]:
    with lean.quiet(), gradebook(course) as book:
        found = book.find_submission(ASSIGNMENT, learner).notebooks
        return {grade.name: grade.auto_score for one in found for grade in one.grades}


def outcome(course: folders.ClassFolder, learner: str) -> Outcome:
    with Store(course.grades) as store:
        return next(
            Outcome.from_json(row.outcome)
            for row in store.rows()
            if row.handed_in.learner == learner and row.outcome
        )


@pytest.mark.parametrize("learner", ["alice", "bob"])
def test_the_gradebook_has_the_judges_points(learner: str, world: World) -> None:
    judged = outcome(world.course, learner)
    assert judged.isolation == "full"
    weights = {f"check_{v.exercise}": v.max_points for v in judged.verdicts} | {HALF: 10.0}
    expected = {
        f"check_{v.exercise}": v.fraction * weights[f"check_{v.exercise}"] for v in judged.verdicts
    }
    assert scores(world.course, learner) == expected


def test_the_solved_notebook_earns_all_and_the_other_half_of_one(world: World) -> None:
    assert all(verdict.passed for verdict in outcome(world.course, "alice").verdicts)
    half = {v.exercise: v for v in outcome(world.course, "bob").verdicts}["concat_equals_sum"]
    assert (half.status, half.points) == (Status.PARTIAL, 1.0)
    assert scores(world.course, "bob")[HALF] == 5.0
    assert sum(scores(world.course, "bob").values()) == 5.0


def test_feedback_comes_back_with_the_judges_words(world: World) -> None:
    course = world.course.root
    world.run("generate_feedback", ASSIGNMENT, where=course)
    world.run("release_feedback", ASSIGNMENT, where=course)
    home = world.home("bob")
    world.run("fetch_feedback", ASSIGNMENT, where=home, learner="bob")
    pages = list((home / ASSIGNMENT / "feedback").rglob("*.html"))
    assert len(pages) == 1
    page = pages[0].read_text(encoding="utf-8")
    assert "PARTIAL" in page
    assert "Right: summed form." in page
    assert re.findall(r"""<(?:script|link|img)[^>]*["'](?:https?:)?//""", page) == []


def test_grades_are_exported(world: World) -> None:
    world.run("export", where=world.course.root)
    with open(world.course.root / "grades.csv", encoding="utf-8", newline="") as table:
        found = {row["student_id"]: float(row["score"]) for row in csv.DictReader(table)}
    assert found == {name: sum(scores(world.course, name).values()) for name in ("alice", "bob")}


def test_a_foreign_course_beside_it_is_nbgraders_own(world: World) -> None:
    said = world.run("autograde", "ps1", where=world.foreign)
    assert "JudgeNotebook" not in said
    made = nbformat.read(world.foreign / "autograded/alice/ps1/p1.ipynb", as_version=4)
    assert [cell.execution_count for cell in made.cells] == [1, 2]
    assert "transformer_circuits" not in made.metadata
    there = sorted(path.name for path in world.foreign.iterdir())
    assert there == [
        "autograded",
        "gradebook.db",
        "nbgrader_config.py",
        "release",
        "source",
        "submitted",
    ]


def test_the_secret_left_the_grader_in_no_file(world: World) -> None:
    secret = world.course.secret.read_bytes().strip()
    files = [path for path in world.root.rglob("*") if path.is_file()]
    assert [path for path in files if secret in path.read_bytes()] == [world.course.secret]
    released = json.loads(
        (world.home("bob") / ASSIGNMENT / "class-settings.json").read_text(encoding="utf-8")
    )
    assert released["course"] == "course"
