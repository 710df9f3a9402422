"""A class of nbgrader's on the desk, with one assignment released, for all tests of a module."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "grading"))  # its stand-in for the sandbox

from class_desk import ASSIGNMENT, Desk, Quiet, generate

from grader.classroom.grading import batch
from grader.classroom.nbgrader_course import folder as folders
from grader.classroom.nbgrader_course import judging


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    root = tmp_path_factory.mktemp("desk") / "c1"
    with pytest.MonkeyPatch.context() as patch:
        # nbgrader makes a gradebook with the `alembic` that it finds there
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        bench = Quiet()
        patch.setattr(judging, "_sandbox", lambda isolation: bench)
        patch.setattr(batch, "Sandbox", lambda *isolation, jobs=1: bench)
        made = Desk(folders.init(root, "c1"), bench)
        generate(made.folder, ASSIGNMENT)
        yield made
