"""What other systems take: Canvas's and Moodle's tables, Gradescope's zip, late days, alike answers."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from books import NOTEBOOK, book
from click.testing import CliRunner
from nbgrader.utils import parse_utc
from traitlets.config import Configurable

import grader
from grader.classroom.grading.intake import HandedIn
from grader.classroom.grading.one import Outcome
from grader.classroom.grading.store import Store
from grader.classroom.nbgrader_course import gradescope, lms_tables, similar
from grader.classroom.nbgrader_course.late_days import LateDays
from grader.classroom.nbgrader_course.lms_tables import Points, TableUnusable
from grader.cli import cli
from grader.judge.verdict import Status, Verdict

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Homework 1 (77),Final Score
    Points Possible,,,,,20,
"Ünal, Ada",101,u1,ada@school.edu,A,,
"Roe, Jane",102,u2,jane,A,,
"Roe, Jane",103,u3,jane2,B,,
"Poe, Ben",104,u4,ben,B,,
"""
MOODLE = """\
Identifier,Full name,Email address,Status,Grade,Maximum grade,Feedback comments
Participant 555,Ada Ünal,ada@school.edu,Submitted,,100.00,
Participant 556,Jane Roe,jane@school.edu,Submitted,,100.00,
"""


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def table(folder: Path, text: str) -> Path:
    path = folder / "export.csv"
    path.write_text(text, encoding="utf-8-sig")
    return path


def test_canvas_takes_its_own_ids_back_scaled_to_what_it_says(tmp_path: Path) -> None:
    points = {
        "ada@school.edu": Points(5, 10),
        "roejane_103": Points(10, 10),
        "ben": Points(0, 10),
        "nobody_999": Points(1, 10),
    }
    filled = lms_tables.canvas(table(tmp_path, CANVAS), points, "Homework 1 (77)")
    found = {row["ID"]: row["Homework 1 (77)"] for row in rows(filled.text)}
    assert found == {"101": "10", "103": "20", "104": "0"}
    assert filled.unknown == ("nobody_999",)
    assert filled.missing == ("Roe, Jane",)
    assert list(rows(filled.text)[0]) == [*lms_tables.CANVAS_KEPT, "Homework 1 (77)"]


def test_a_new_column_has_the_points_as_they_are(tmp_path: Path) -> None:
    filled = lms_tables.canvas(table(tmp_path, CANVAS), {"ben": Points(2.5, 9)}, NOTEBOOK)
    assert [row[NOTEBOOK] for row in rows(filled.text)] == ["2.5"]


def test_moodle_takes_its_worksheet_back(tmp_path: Path) -> None:
    points = {"Ada Ünal_555": Points(4.5, 9), "jane@school.edu": Points(9, 9)}
    filled = lms_tables.moodle(table(tmp_path, MOODLE), points)
    assert [row["Grade"] for row in rows(filled.text)] == ["50", "100"]
    assert list(rows(filled.text)[0]) == MOODLE.partition("\n")[0].split(",")


def test_semicolons_are_read_as_well(tmp_path: Path) -> None:
    semicolons = MOODLE.replace(",", ";")
    filled = lms_tables.moodle(table(tmp_path, semicolons), {"jane@school.edu": Points(9, 9)})
    assert [row["Full name"] for row in rows(filled.text)] == ["Jane Roe"]


def test_two_of_one_login_are_not_guessed(tmp_path: Path) -> None:
    twice = CANVAS.replace("jane2", "jane")
    filled = lms_tables.canvas(table(tmp_path, twice), {"jane": Points(1, 1)}, "x")
    assert filled.unknown == ("jane",)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_another_table_is_refused_with_a_sentence(text: str, tmp_path: Path) -> None:
    with pytest.raises(TableUnusable, match="no column"):
        lms_tables.canvas(table(tmp_path, text), {}, "x")
    with pytest.raises(TableUnusable, match="no column"):
        lms_tables.moodle(table(tmp_path, text), {})


def kept(folder: Path, learners: dict[str, bytes]) -> Path:
    """A batch's folder in which these notebooks have a verdict each: half of one exercise."""
    folder.mkdir(exist_ok=True)
    verdict = Verdict("virtual_weights", Status.PARTIAL, 0.5, 1.0, "Half.", seed=1)
    with Store(folder) as store:
        handed_in = [
            HandedIn(name, NOTEBOOK, f"{name}/x.ipynb", store.keep(data))
            for name, data in learners.items()
        ]
        for number in store.register(handed_in):
            store.record(number, Outcome(NOTEBOOK, "", (verdict,)).as_json(), settled=True)
    return folder


def test_the_command_fills_a_table_from_the_store(tmp_path: Path) -> None:
    grades = kept(tmp_path / "grades", {"ben": book("x = 1"), "stranger": book("x = 2")})
    arguments = [str(table(tmp_path, CANVAS)), NOTEBOOK, "--grades", str(grades)]
    done = CliRunner().invoke(
        cli, ["export", "canvas", *arguments, "--out", str(tmp_path / "out.csv")]
    )
    assert done.exit_code == 1
    assert "stranger has points and is not in export.csv." in done.output
    assert rows((tmp_path / "out.csv").read_text(encoding="utf-8"))[0][NOTEBOOK] == "0.5"


def test_an_assignment_without_grades_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(TableUnusable, match="holds no grades"):
        lms_tables.points_in(tmp_path, NOTEBOOK)
    grades = kept(tmp_path / "grades", {"ben": book("x = 1")})
    with pytest.raises(TableUnusable, match=f"has no 01-zero-layer; it has {NOTEBOOK}"):
        lms_tables.points_in(grades, "01-zero-layer")


LONG = """
def virtual_weights(W_out, W_in):
    total = 0
    for {i} in range(W_out.shape[-1]):
        piece = W_out[..., :, {i}, None] * W_in[..., {i}, None, :]
        total = total + piece
        if {i} > 10_000:
            raise ValueError("too large for a loop over the stream")
    return total{end}
"""


OTHER = """
def virtual_weights(W_out, W_in):
    if W_out.shape[-1] != W_in.shape[-2]:
        raise ValueError("the two don't share a stream")
    rows = [torch.stack([row @ column for column in W_in.mT]) for row in W_out]
    return torch.stack(rows).reshape(*W_out.shape[:-1], W_in.shape[-1])
"""


def test_alike_answers_are_a_place_to_look(tmp_path: Path) -> None:
    grades = kept(
        tmp_path / "grades",
        {
            "ana": book(LONG.format(i="i", end="")),
            "ben": book(LONG.format(i="position", end="  # my own")),
            "cas": book(OTHER),
            "dan": book("def virtual_weights(W_out, W_in):\n    return W_out @ W_in"),
            "eva": book("def virtual_weights(W_out, W_in):\n    return W_out @ W_in"),
        },
    )
    found = similar.find(grades, NOTEBOOK)
    assert [(pair.one, pair.other) for pair in found] == [("ana", "ben")]
    assert found[0].exercises == {"virtual_weights": 100.0}
    assert "a place to look and no finding" in similar.as_text(found)


def test_what_many_wrote_is_common(tmp_path: Path) -> None:
    learners = {f"l{n}": book(LONG.format(i="i", end="")) for n in range(6)}
    assert similar.find(kept(tmp_path / "grades", learners), NOTEBOOK) == []
    assert similar.as_text([]).startswith("No two answers")


class Step(Configurable):
    """In place of nbgrader's AssignLatePenalties: the open gradebook and the assignment at hand."""

    def __init__(self, used: Sequence[tuple[str, int]]) -> None:
        super().__init__()
        due = datetime(2026, 3, 1)
        before = [
            SimpleNamespace(name=name, duedate=due + timedelta(days=n), total_seconds_late=seconds)
            for n, (name, seconds) in enumerate([*used, ("hw2", 0)])
        ]
        self.gradebook = SimpleNamespace(student_submissions=lambda student: before)
        self.assignment_id = "hw2"


def late_days(used: Sequence[tuple[str, int]] = (), **settings: Any) -> LateDays:
    """The plug-in on assignment "hw2" of a learner whose other assignments were so many seconds late."""
    return LateDays(parent=Step(used), **settings)


DAY = 86400


@pytest.mark.parametrize(
    ("seconds", "days"), [(0, 0), (1, 1), (DAY, 1), (DAY + 1, 2), (2.5 * DAY, 3)]
)
def test_a_begun_day_is_a_day(seconds: float, days: int) -> None:
    assert late_days().days(seconds) == days


def test_minutes_of_grace_are_nobodys() -> None:
    assert late_days(grace_minutes=15).days(15 * 60) == 0
    assert late_days(grace_minutes=15).days(15 * 60 + 1) == 1


def test_each_late_day_costs_its_share_and_no_more_than_all() -> None:
    assert late_days(share_a_day=0.1).late_submission_penalty("a", 8.0, 2 * DAY) == pytest.approx(
        1.6
    )
    assert late_days(share_a_day=0.5).late_submission_penalty("a", 8.0, 9 * DAY) == 8.0
    assert late_days().late_submission_penalty("a", 8.0, 0) is None


def test_free_days_are_used_up_in_the_order_of_the_due_dates() -> None:
    used = [("hw0", DAY), ("hw1", DAY + 1)]
    plugin = late_days(used, free_days=4, share_a_day=0.1)
    assert plugin.late_submission_penalty("a", 10.0, DAY) == 0.0
    assert plugin.late_submission_penalty("a", 10.0, 3 * DAY) == pytest.approx(2.0)


def test_a_deadline_is_one_moment_in_every_zone() -> None:
    due = parse_utc(
        "2026-03-29 03:30:00 Europe/Berlin"
    )  # half an hour after its clocks went forward
    assert due == datetime(2026, 3, 29, 1, 30)
    for handed_in in ("2026-03-29 01:30:00 UTC", "2026-03-28 18:30:00 America/Los_Angeles"):
        assert late_days().days((parse_utc(handed_in) - due).total_seconds()) == 0
    assert late_days().days((parse_utc("2026-03-29 01:30:01 UTC") - due).total_seconds()) == 1


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The autograder's zip, unpacked as Gradescope does: to source/."""
    root = tmp_path_factory.mktemp("autograder")
    made = gradescope.export(NOTEBOOK, root / "autograder.zip")
    with zipfile.ZipFile(made) as archive:
        for member in archive.infolist():
            path = archive.extract(member, root / "source")
            os.chmod(path, member.external_attr >> 16)
    (root / "submission").mkdir()
    return root


def run_autograder(root: Path, **environment: str) -> dict[str, Any]:
    subprocess.run(
        [root / "source/run_autograder"],
        cwd=root, check=True, capture_output=True, timeout=600,
        env=os.environ | {
            "AUTOGRADER_ROOT": str(root), "GRADER_PYTHON": sys.executable, "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(grader.__file__).resolve().parents[1]), **environment,
        },
    )  # fmt: skip
    told = json.loads((root / "results/results.json").read_text(encoding="utf-8"))
    assert isinstance(told, dict)
    return told


@pytest.mark.skipif(sys.platform == "win32", reason="Gradescope runs bash on Linux")
def test_gradescopes_zip_has_its_two_scripts_and_a_course_to_install(unpacked: Path) -> None:
    for script in ("setup.sh", "run_autograder"):
        path = unpacked / "source" / script
        assert os.access(path, os.X_OK)
        subprocess.run(["bash", "-n", path], check=True)
    course = unpacked / "source/course-source"
    assert (course / "pyproject.toml").is_file()
    assert (course / "grader/cli/__init__.py").is_file()
    assert (course / f"course/{NOTEBOOK}/{NOTEBOOK}.ipynb").is_file()
    assert not list(course.rglob("__pycache__"))


@pytest.mark.skipif(sys.platform == "win32", reason="Gradescope runs bash on Linux")
def test_a_grader_that_fails_is_nobodys_zero(unpacked: Path) -> None:
    told = run_autograder(unpacked, GRADER_PYTHON="/bin/false")
    assert "score" not in told
    assert "costs no points" in told["output"]


@pytest.mark.long
@pytest.mark.needs_sandbox
def test_a_submission_is_graded_as_gradescope_runs_it(unpacked: Path) -> None:
    answer = book("def virtual_weights(W_out, W_in):\n    return W_out @ W_in")
    (unpacked / "submission/my work.ipynb").write_bytes(answer)
    told = run_autograder(unpacked)
    assert told["score"] == 1.0
    tests = {test["name"]: test for test in told["tests"]}
    assert tests["virtual_weights"]["status"] == "passed"
    assert len(tests) == 5


def test_what_gradescope_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(gradescope.CannotExport, match="there are 00-residual-stream"):
        gradescope.export("hw1", tmp_path / "x.zip")
    (tmp_path / "x.zip").touch()
    with pytest.raises(gradescope.CannotExport, match="is there already"):
        gradescope.export(NOTEBOOK, tmp_path / "x.zip")
