"""The command: what it prints, its exit status, and one sentence where something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import toy_editions as toy
from click.testing import CliRunner, Result

import grader
from grader import cli, resources
from grader.lab import proof, server, starting, terminal
from grader.lab.proof import Proof


def commands_of(group: click.Group, *before: str) -> dict[tuple[str, ...], click.Command]:
    """Every command that does something, by the words that call it."""
    found: dict[tuple[str, ...], click.Command] = {}
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            found |= commands_of(command, *before, name)
        else:
            found[(*before, name)] = command
    return found


COMMANDS = commands_of(cli.cli)


@pytest.fixture(autouse=True)
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    toy.publish(tmp_path / "released", toy.first())
    monkeypatch.setattr(resources, "course_dir", lambda: tmp_path / "released")
    monkeypatch.setenv("GRADER_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "released"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.cli, arguments)


def fails(*arguments: str) -> str:
    """What stderr says; one sentence, no traceback, nothing on stdout."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


ROOT = Path(grader.__file__).parent.parent


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | environment,
    )


def in_a_new_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``grader …`` with a last word from Python on which heavy modules it imported."""
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('HEAVY', [m for m in ('torch', 'numpy', 'rich', 'nbformat')"
        " if m in sys.modules]))\n"
        "from grader.cli import main\n"
        "main()\n"
    )
    return python("-c", code, *arguments)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--help"], 0),
        ([], 2),
        (["--version"], 0),
        (["start", "--help"], 0),
        (["strat"], 2),
        (["start", "--port", "0"], 2),
        (["reset"], 2),
        (["check"], 2),
        (["check", "no-such-file.ipynb"], 2),
    ],
)
def test_help_and_wrong_usage_import_nothing_heavy(arguments: list[str], status: int) -> None:
    result = in_a_new_process(*arguments)
    assert result.returncode == status, result.stderr
    assert result.stdout.endswith("HEAVY []\n"), result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_tells_what_it_does_and_its_exit_statuses(command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Exit status:\n    0  " in result.output
    documented = COMMANDS[command]
    assert documented.help
    options = [p for p in documented.params if isinstance(p, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_python_dash_m_is_the_same_command() -> None:
    done = python("-m", "grader", "--version")
    assert done.stdout == f"grader, version {grader.__version__}\n"


def test_start_proves_lays_out_and_serves(
    tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[Path, dict[str, Any]]] = []
    monkeypatch.setattr(proof, "prove", lambda: Proof(True, "fine"))
    monkeypatch.setattr(server, "serve", lambda folder, say, **how: served.append((folder, how)))
    result = run("start", "mine", "--no-browser", "--port", "8899")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "here" / "mine"
    page = "00-first/00-first.ipynb"
    assert served == [(folder, {"port": 8899, "browser": False, "page": page})]
    assert (folder / page).read_bytes() == (course / page).read_bytes()
    assert "1 new file of the course." in result.output

    again = run("start", "mine")
    assert served[1] == (folder, {"port": None, "browser": True, "page": ""})
    assert "new file" not in again.output


def test_start_stops_before_anything_is_written_where_the_judge_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "prove", lambda: Proof(False, "Illegal instruction."))
    assert "Illegal instruction. `grader doctor`" in fails("start", "mine")
    assert not (tmp_path / "here" / "mine").exists()


def test_start_tells_what_it_kept(
    tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "prove", lambda: Proof(True, "fine"))
    monkeypatch.setattr(server, "serve", lambda *_, **__: None)
    run("start", "mine")
    mine = tmp_path / "here" / "mine" / "00-first" / "00-first.ipynb"
    mine.write_text(mine.read_text().replace("raise NotImplementedError()", "return x", 1))
    toy.publish(course, toy.first("2"))
    updated = run("start", "mine").output
    assert "new edition, with 1 answer." in updated
    assert "kept as 00-first/00-first.kept-" in updated.replace("\\", "/")
    mine.write_text("{")
    damaged = run("start", "mine").output
    assert "could not be read as a notebook; it starts afresh. The old file is kept" in damaged


def test_a_folder_that_is_taken_and_a_port_that_is_taken_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "prove", lambda: Proof(True, "fine"))
    (tmp_path / "here" / "thesis").mkdir()
    (tmp_path / "here" / "thesis" / "chapter.tex").touch()
    assert "already holds other things (chapter.tex)" in fails("start", "thesis")

    def taken(*_: Any, **__: Any) -> None:
        raise server.CannotOpen("Port 80 can't be used.")

    monkeypatch.setattr(server, "serve", taken)
    result = run("start", "mine", "--port", "80")
    assert (result.exit_code, result.stderr) == (2, "Error: Port 80 can't be used.\n")


def test_reset_keeps_the_notebook_and_guesses_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "prove", lambda: Proof(True, "fine"))
    monkeypatch.setattr(server, "serve", lambda *_, **__: None)
    run("start")
    result = run("reset", "alpha")
    assert result.exit_code == 0, result.output
    assert "back to its stub. The old file is kept as 00-first" in result.output
    assert "There is no exercise 'alhpa' in the course. Did you mean alpha?" in fails(
        "reset", "alhpa"
    )
    assert "`grader start` puts it there" in fails("reset", "alpha", "--folder", "nowhere")


def test_status_is_a_map_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    from grader import exercises

    one = SimpleNamespace(name="alpha", notebook="00-first", title="Do it", points=2, minutes=5)
    monkeypatch.setattr(exercises, "registry", lambda: {"alpha": one})
    assert "[ ] alpha" in run("status").output
    told = json.loads(run("status", "--json").output)
    assert told["max_points"] == 2
    assert told["next"] == "alpha"
    assert [row["exercise"] for row in told["exercises"]] == ["alpha"]


def test_doctor_names_what_is_missing_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "prove", lambda: Proof(False, "torch is for another processor."))
    result = run("doctor")
    assert result.exit_code == 1
    assert "MISSING  judge: torch is for another processor.\n         -> " in result.output
    told = json.loads(run("doctor", "--json").output)
    assert told["ok"] is False
    topics = {finding["topic"] for finding in told["findings"]}
    assert {"python", "platform", "course", "your folder", "progress", "sandbox"} <= topics
    monkeypatch.setattr(proof, "prove", lambda: Proof(True, "fine"))
    assert run("doctor").exit_code == 0


def test_a_fault_of_ours_is_a_sentence_and_the_traceback_is_there_for_who_asks() -> None:
    code = (
        "from grader.lab import progress_map\n"
        "def broken(*_): raise KeyError('lost')\n"
        "progress_map.overview = broken\n"
        "import sys; sys.argv[1:] = ['status']\n"
        "from grader.cli import main; main()\n"
    )
    done = python("-c", code)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: the grader itself failed (KeyError: 'lost').")
    assert "Traceback" not in done.stderr
    assert "Traceback" in python("-c", code, GRADER_DEBUG="1").stderr


def test_what_a_learner_wrote_cannot_steer_the_terminal() -> None:
    hostile = "red \x1b[31m bell \a line\rover \u202eesrever \u200b\x9b2J fine: é × 数 🙂\n\t"
    shown = terminal.plain(hostile)
    assert shown == (
        r"red \x1b[31m bell \x07 line\rover \u202eesrever \u200b\x9b2J fine: é × 数 🙂" + "\n\t"
    )


def test_the_sentences_about_files_count_rightly(tmp_path: Path) -> None:
    from grader.lab.workbook import Change

    kept = tmp_path / "a.kept.ipynb"
    told = starting.told(
        [
            Change(tmp_path / "b.ipynb", "new"),
            Change(tmp_path / "c.ipynb", "new"),
            Change(tmp_path / "a.ipynb", "updated", kept, ("x", "y"), own_cells=3),
        ],
        tmp_path,
    )
    assert told == [
        "2 new files of the course.",
        "a.ipynb is in the course's new edition, with 2 answers and 3 cells of your own. "
        "The old file is kept as a.kept.ipynb.",
    ]
