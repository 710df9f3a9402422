"""nbgrader and otter at work on the same exercises, each as its manual says, from the command line."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.bench import grading_forms as forms
from tests.bench import peers

MIB = 2**20


class PeerFailed(RuntimeError):
    """A peer's command failed, or graded something else than was handed in."""


class Course:
    """A course of nbgrader's in a folder: one assignment, released, with an empty gradebook."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = folder / "source" / "ps1"
        source.mkdir(parents=True)
        (source / "homework.ipynb").write_text(json.dumps(forms.for_nbgrader()), encoding="utf-8")
        (source / forms.EXAMPLES).write_bytes(forms.examples())
        (folder / "nbgrader_config.py").write_text("c = get_config()\n", encoding="utf-8")
        self._run("generate_assignment", "ps1")
        released = folder / "release" / "ps1" / "homework.ipynb"
        self._released = json.loads(released.read_text(encoding="utf-8"))

    def hand_in(self, learner: str, number: int, wrong: bool = False) -> None:
        folder = self.folder / "submitted" / learner / "ps1"
        folder.mkdir(parents=True)
        (folder / "homework.ipynb").write_bytes(forms.answered(self._released, number, wrong))
        (folder / forms.EXAMPLES).write_bytes(forms.examples())

    def autograde(self, learners: str) -> None:
        """Grade the learners whose names fit the pattern, those too that were graded before."""
        self._run("autograde", "ps1", f"--student={learners}", "--force")

    def points(self) -> dict[str, float]:
        """By learner, from nbgrader's own table."""
        self._run("export", "--to=grades.csv")
        with open(self.folder / "grades.csv", encoding="utf-8", newline="") as file:
            return {line["student_id"]: float(line["raw_score"]) for line in csv.DictReader(file)}

    def _run(self, *arguments: str) -> None:
        run([peers.program("nbgrader"), *arguments], self.folder)


class Assigned:
    """An assignment of otter's in a folder, made by ``otter assign``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "homework.ipynb").write_text(json.dumps(forms.for_otter()), encoding="utf-8")
        (folder / forms.EXAMPLES).write_bytes(forms.examples())
        self._run("assign", "--no-run-tests", "--no-pdfs", "homework.ipynb", "dist")
        (self._tests,) = (folder / "dist" / "autograder").glob("*.zip")
        released = folder / "dist" / "student" / "homework.ipynb"
        self._released = json.loads(released.read_text(encoding="utf-8"))

    def hand_in(self, learner: str, number: int, wrong: bool = False) -> None:
        (self.folder / learner).mkdir()
        file = self.folder / learner / "homework.ipynb"
        file.write_bytes(forms.answered(self._released, number, wrong))

    def grade(self, learner: str) -> None:
        folder = self.folder / learner
        self._run("run", "-a", str(self._tests), "-o", str(folder), str(folder / "homework.ipynb"))

    def points(self, learner: str) -> float:
        results = json.loads((self.folder / learner / "results.json").read_text(encoding="utf-8"))
        return sum(float(test.get("score", 0.0)) for test in results["tests"])

    def _run(self, *arguments: str) -> None:
        run([peers.program("otter"), *arguments], self.folder)


def run(command: Sequence[str | Path], folder: Path) -> None:
    """Run a peer's command; all that it keeps for its user it keeps in the folder.

    Raises PeerFailed with the command's last words.
    """
    kept = {"IPYTHONDIR": "ipython"}
    kept |= {
        f"JUPYTER_{name}_DIR": f"jupyter-{name.lower()}" for name in ("CONFIG", "DATA", "RUNTIME")
    }
    environment = os.environ | {name: str(folder / there) for name, there in kept.items()}
    programs = f"{peers.program().parent}{os.pathsep}{environment.get('PATH', '')}"
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment | {"PATH": programs},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerFailed(f"{Path(command[0]).name} {command[1]} failed:\n{done.stderr[-3000:]}")


class Kernels:
    """``with Kernels(PROGRAM) as kernels:`` and then ``kernels.peak``: MiB that a kernel which the program
    started below this process had to itself at most. Looks ten times a second."""

    def __init__(self, program: str) -> None:
        self.peak = 0.0
        self._program = str(peers.program(program))
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Kernels:
        self._looking.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._looking.join()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            for command in psutil.Process().children():
                with contextlib.suppress(psutil.Error):  # one has just ended
                    if self._program in command.cmdline():
                        self._look_below(command)

    def _look_below(self, command: psutil.Process) -> None:
        for process in command.children(recursive=True):
            if any("ipykernel" in part for part in process.cmdline()):
                self.peak = max(self.peak, process.memory_full_info().uss / MIB)
