"""The teacher's guide names commands, options, files and notebooks that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from nbgrader.apps.nbgraderapp import NbGraderApp

import grader
from grader import exercises
from grader.cli import cli

ROOT = Path(grader.__file__).resolve().parents[1]
GUIDE = (ROOT / "solutions/README.md").read_text(encoding="utf-8")
LINES = re.findall(r"^(?:grader|nbgrader) .+$", GUIDE, re.M) + [
    line.replace("\n", " ") for line in re.findall(r"`((?:grader|nbgrader) [^`]+)`", GUIDE)
]


@pytest.mark.parametrize("line", dict.fromkeys(LINES))
def test_each_command_of_the_guide_is_one(line: str) -> None:
    program, *words = shlex.split(line)
    if program == "nbgrader":
        assert words[0] in NbGraderApp.subcommands
        return
    command: click.Command = cli
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if isinstance(command, click.Group):
        assert not words, f"{line}: there is no such command"
        return
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_guide_is_read_at_all() -> None:
    assert len(LINES) > 15


def test_points_and_minutes_of_the_schedule_are_the_courses() -> None:
    rows = re.findall(r"^\| \d \| \d \| (\S+) \| (\d+) \| (\d+) \| (\S+) \|$", GUIDE, re.M)
    told = {name: (int(minutes), int(points)) for name, minutes, points, _ in rows}
    assert told == {
        name: (
            sum(e.minutes for e in exercises.of_notebook(name)),
            sum(e.points for e in exercises.of_notebook(name)),
        )
        for name in exercises.NOTEBOOKS
    }
    asked = {name: 0 if points == "–" else int(points) for name, _, _, points in rows}
    for name in exercises.NOTEBOOKS:
        source = (ROOT / f"solutions/{name}.py").read_text(encoding="utf-8")
        questions = re.findall(r"^# %% question .*points=(\d+)", source, re.M)
        assert asked[name] == sum(map(int, questions))


@pytest.mark.parametrize("path", [".github/hub/Dockerfile", ".github/classroom/grade.yml"])
def test_files_to_copy_are_there_and_named(path: str) -> None:
    assert (ROOT / path).is_file()
    assert f"`{path}`" in GUIDE
