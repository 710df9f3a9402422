"""``grader grade`` as a teacher types it: what it refuses, says, and its exit statuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from books import CRASHING, NOTEBOOK, RIGHT, WRONG, Bench, Silent, book, laid_out, zipped
from click.testing import CliRunner, Result
from rich.console import Console

from grader import exercises
from grader.classroom.grading import batch, command, watching
from grader.classroom.grading.one import Outcome
from grader.cli import cli
from grader.judge.sandbox import SandboxUnavailable


@pytest.fixture(autouse=True)
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench()
    monkeypatch.setattr(batch, "Sandbox", lambda *args, **more: bench)
    true = exercises.of_notebook
    asked = [e for e in true(NOTEBOOK) if e.name == "virtual_weights"]
    monkeypatch.setattr(
        exercises, "of_notebook", lambda name: asked if name == NOTEBOOK else true(name)
    )
    monkeypatch.chdir(tmp_path)
    return bench


@pytest.fixture
def handed_in(tmp_path: Path) -> Path:
    """A zip as Moodle exports it."""
    path = tmp_path / "class.zip"
    path.write_bytes(
        zipped(
            {
                "Ann Lee_1_assignsubmission_file_/hw.ipynb": book(RIGHT),
                "Bob Roe_2_assignsubmission_file_/hw.ipynb": book(WRONG),
                "=Eve_3_assignsubmission_file_/hw.ipynb": book(CRASHING),
            }
        )
    )
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["grade", *map(str, arguments)])


def test_from_a_zip_to_grades_in_one_command(handed_in: Path, tmp_path: Path) -> None:
    result = run(handed_in)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "3 graded." in result.stdout
    assert "00-residual-stream: 3 submissions, median 0%" in result.stdout
    assert "virtual_weights                 2 of 3" in result.stdout
    for name in ("grades/grades.csv", "grades/junit.xml"):
        assert name in result.stdout
        assert (tmp_path / name).stat().st_size > 100
    again = run(handed_in)
    assert again.exit_code == 0
    assert "0 graded, 3 were before and haven't changed." in again.stdout


def test_json_is_for_programs(handed_in: Path) -> None:
    result = run(handed_in, "--json")
    told = json.loads(result.stdout)
    assert (told["handed_in"], told["newly_graded"], told["left"]) == (3, 3, 0)
    assert told["exercises"]["virtual_weights"]["failed"] == 2


def test_what_needs_a_look_is_said_and_is_status_one(handed_in: Path, tmp_path: Path) -> None:
    laid_out(tmp_path / "more", {"cut.ipynb": b"{", "\x1b[2Jodd/x.zip": b"no zip"})
    result = run(handed_in, tmp_path / "more")
    assert result.exit_code == 1
    assert "Need a look: 1" in result.stdout
    assert "What was handed in" in result.stdout
    assert "no zip that can be opened" in result.stdout
    assert "\x1b" not in result.output


def test_without_a_sandbox_only_with_trust_and_loudly(handed_in: Path, tmp_path: Path) -> None:
    result = run(handed_in, "--isolation", "none")
    assert result.exit_code == 2
    assert "--trust" in result.stderr
    assert "WSL2" in result.stderr
    assert not (tmp_path / "grades").exists()
    result = run(handed_in, "--isolation", "none", "--trust")
    assert result.exit_code == 0
    assert result.stderr.startswith("WARNING: no sandbox.")


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("tls://grader.example.org:8786", False), ("tcp://localhost:8786", False),
        ("tcp://127.0.0.1:8786", False), ("tcp://grader.example.org:8786", True), ("host:1", True),
    ],
)  # fmt: skip
def test_a_scheduler_that_anyone_may_reach_is_warned_of(address: str, warned: bool) -> None:
    assert bool(command.warnings(batch.How(scheduler=address))) == warned


def test_trust_alone_opens_no_lock(
    handed_in: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(batch, "Sandbox", lambda *args, **more: asked.append(args[0]) or bench)
    assert run(handed_in, "--trust").exit_code == 0
    assert asked == ["full"]


def test_a_system_that_cannot_lock_in_is_told_the_way_out(
    handed_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*args: object, **more: object) -> None:
        raise SandboxUnavailable("This system can't lock notebooks in.")

    monkeypatch.setattr(batch, "Sandbox", unavailable)
    result = run(handed_in)
    assert result.exit_code == 2
    assert "can't lock notebooks in" in result.stderr
    for way in ("WSL2", "container", "--isolation none --trust", "grader doctor"):
        assert way in result.stderr
    assert not (tmp_path / "grades" / "grades.csv").exists()


def test_nothing_to_grade_is_status_two(tmp_path: Path) -> None:
    laid_out(tmp_path / "in", {"x.txt": b""})
    result = run(tmp_path / "in")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: There is nothing to grade in")
    assert run().exit_code == 2
    assert run(tmp_path / "nowhere").exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["--jobs", "0"], ["--isolation", "some"], ["--wall", "0"], ["--replay", "ann"]]
)
def test_wrong_usage_is_status_two(handed_in: Path, arguments: list[str]) -> None:
    assert run(handed_in, *arguments).exit_code == 2


def test_replay_shows_both_verdicts(handed_in: Path) -> None:
    run(handed_in)
    result = run("--replay", "Bob Roe_2", "virtual_weights")
    assert result.exit_code == 0, result.output
    assert re.search(r"virtual_weights of Bob Roe_2, seed \d+", result.stdout)
    assert result.stdout.count("WRONG, 0 of 1 points") == 2
    assert "The same verdict." in result.stdout
    told = json.loads(run("--replay", "Bob Roe_2", "virtual_weights", "--json").stdout)
    assert told["same"]
    assert told["then"]["seed"] == told["now"]["seed"]
    unknown = run("--replay", "Bob Row_2", "virtual_weights")
    assert unknown.exit_code == 2
    assert "Did you mean Bob Roe_2?" in unknown.stderr


def test_only_one_assignment(handed_in: Path, tmp_path: Path) -> None:
    result = run(handed_in, "--assignment", "01-zero-layer", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert {one["assignment"] for one in told["needs_review"]} == {"01-zero-layer"}
    assert "00-residual-stream" in told["needs_review"][0]["why"]
    result = run(handed_in, "--assignment", "nonsense", "--out", tmp_path / "other")
    assert result.exit_code == 2
    assert "The course's notebooks are 00-residual-stream" in result.stderr


def test_resume_is_always_so(handed_in: Path) -> None:
    run(handed_in)
    result = run(handed_in, "--resume")
    assert "0 graded, 3 were before" in result.stdout
    assert "3 graded." in run(handed_in, "--regrade").stdout


def test_the_bar_shows_how_far_it_is_only_to_a_person() -> None:
    seen = Console(force_terminal=True, width=120, record=True, file=open("bar.txt", "w"))  # noqa: SIM115
    unseen = Console(force_terminal=False, width=120, record=True, file=open("no.txt", "w"))  # noqa: SIM115
    for console in (seen, unseen):
        with console.file, watching.Bar(console) as bar:
            bar.begins(4, 1)
            bar.graded(Outcome(NOTEBOOK, ""))
            bar.graded(Outcome(NOTEBOOK, "", trouble="unreadable"))
            bar._progress.refresh()
    assert "2/4" in seen.export_text()
    assert unseen.export_text().strip() == ""


def test_the_watcher_of_tests_is_one() -> None:
    watcher: batch.Watcher = Silent()
    watcher.begins(0, 0)
