"""The exercise of the hostile notebooks as a teacher would set it for nbgrader and for otter.

One stub, and two tests that compare with ``torch.testing.assert_close``: one that learners see, with
numbers written out (1 point), one that they don't, with the right answer computed (2 points).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from tests.arena import RIGHT
from tests.bench import peers

IMPORTS = "import torch"
STUB = "def causal_pattern(scores):\n    raise NotImplementedError"
SEEN = """\
scores = torch.tensor([[0.5, -1.0, 2.0], [0.0, 1.0, 0.3], [1.0, 0.0, -1.0]])
expected = torch.tensor([[1.0, 0.0, 0.0], [0.26894, 0.73106, 0.0], [0.66524, 0.24473, 0.09003]])
torch.testing.assert_close(causal_pattern(scores), expected, atol=1e-4, rtol=0)"""
HIDDEN = """\
scores = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(2021))
future = torch.ones(5, 5, dtype=torch.bool).triu(1)
expected = scores.masked_fill(future, -torch.inf).softmax(-1)
torch.testing.assert_close(causal_pattern(scores), expected)"""
POINTS = {"seen": 1, "hidden": 2}
OTTER_TEST = """\
import torch
from otter.test_files import test_case

OK_FORMAT = False
name = "causal_pattern"
points = None

@test_case(points={seen_points}, hidden=False)
def test_seen(causal_pattern):
{seen}

@test_case(points={hidden_points}, hidden=True)
def test_hidden(causal_pattern):
{hidden}
"""
# As it comes, but for one limit: a busy machine alone would break 4 s for a cell's last output.
NBGRADER = """\
c = get_config()
c.CourseDirectory.course_id = "circuits"
c.ExecutePreprocessor.iopub_timeout = 30
"""


def make(folder: Path) -> Path:
    """The teacher's folder, ready for submissions: both tools' files and the right answer."""
    (folder / "reference.py").write_text(RIGHT)
    _for_nbgrader(folder)
    _for_otter(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # it is read by nobody
    return folder


def _for_nbgrader(folder: Path) -> None:
    tests = (
        ("seen", SEEN),
        ("hidden", f"### BEGIN HIDDEN TESTS\n{HIDDEN}\n### END HIDDEN TESTS"),
    )
    answer = f"### BEGIN SOLUTION\n{RIGHT}\n### END SOLUTION"
    cells = [_plain(IMPORTS), _cell("answer", answer, solution=True, locked=False)]
    cells += [_cell(name, source, grade=True, points=POINTS[name]) for name, source in tests]
    source = folder / "source" / "patterns"
    source.mkdir(parents=True)
    (source / "patterns.ipynb").write_text(json.dumps(notebook(cells)))
    (folder / "nbgrader_config.py").write_text(NBGRADER)
    _run(folder, "nbgrader", "generate_assignment", "patterns")
    shutil.copy(folder / "release" / "patterns" / "patterns.ipynb", folder / "nbgrader.ipynb")


def _for_otter(folder: Path) -> None:
    (folder / "tests").mkdir()
    (folder / "tests" / "causal_pattern.py").write_text(
        OTTER_TEST.format(
            seen=textwrap.indent(SEEN, "    "), hidden=textwrap.indent(HIDDEN, "    "),
            seen_points=POINTS["seen"], hidden_points=POINTS["hidden"],
        )
    )  # fmt: skip
    cells = [
        _plain(IMPORTS),
        _plain(STUB),
        _plain('import otter\notter.Notebook().check("causal_pattern")'),
    ]
    (folder / "otter.ipynb").write_text(json.dumps(notebook(cells)))
    _run(folder, "otter", "generate", "-t", "tests", "--no-environment", "-o", "autograder.zip")


def _run(folder: Path, program: str, *arguments: str) -> None:
    """A command of the peers', with a home of its own."""
    path = os.pathsep.join([str(peers.program().parent), os.defpath])  # nbgrader starts alembic
    own = {"HOME": str(folder / "home"), "PATH": path, "LANG": "C.UTF-8"}
    subprocess.run(
        [str(peers.program()), "-m", program, *arguments],
        cwd=folder, env=own, check=True, capture_output=True,
    )  # fmt: skip


def notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _plain(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code", "execution_count": None, "id": os.urandom(4).hex(), "metadata": {},
        "outputs": [], "source": source,
    }  # fmt: skip


def _cell(name: str, source: str, **about: Any) -> dict[str, Any]:
    told = {"schema_version": 3, "grade_id": name, "grade": False, "solution": False}
    told |= {"locked": True, "task": False, **about}
    return {**_plain(source), "id": name, "metadata": {"nbgrader": told}}
