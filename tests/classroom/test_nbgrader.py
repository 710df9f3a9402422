"""nbgrader reads our notebooks as we mean them: its validator, its scores, a clean kernel."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import determine_grade, is_grade
from nbgrader.validator import Validator
from traitlets.config import Config

import grader
from grader import answers, exercises, resources

REPOSITORY = Path(grader.__file__).resolve().parents[1]
NOTEBOOKS = list(exercises.NOTEBOOKS)
# Without and with questions for a person. All nine run in a kernel in tests/classroom/test_site.py, and all
# are judged, solved and as handed out, in tests/test_wheel.py.
TWO = [NOTEBOOKS[0], pytest.param(NOTEBOOKS[-1], marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that kernels start in and keep their things in, so none touch the user's home."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))  # as in a kernel where the course is installed
        patch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        for name in ("GRADER_DATA", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name.lower()))
        yield folder


def executed(notebook: Any, folder: Path) -> Any:
    """The notebook after every cell ran in a clean kernel; errors stay in their cells."""
    client = NotebookClient(
        notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def score(cell: Any) -> float:
    """What nbgrader gives a cell, as a share of its points."""
    points, most = determine_grade(cell, logging.getLogger("nbgrader"))
    return float(points / most)


def is_judged(cell: Any) -> bool:
    """Whether the grade is a program's: not that of a question that a person marks."""
    return bool(is_grade(cell)) and cell.cell_type == "code"


def check_cell(source: str, name: str, points: int) -> Any:
    about = {
        "grade": True, "solution": False, "locked": True, "task": False,
        "schema_version": 3, "points": points, "grade_id": name,
    }  # fmt: skip
    return new_code_cell(source, metadata={"nbgrader": about})


SETUP = """
import sys, warnings, torch
from grader import check

def qk_circuit(W_Q, W_K):
    return W_Q @ W_K.T
right = qk_circuit

def qk_circuit(W_Q, W_K):
    print("noise on stderr", file=sys.stderr)
    warnings.warn("noise")
    return W_K @ W_Q.T
wrong = qk_circuit

def qk_circuit(W_Q, W_K):
    raise NotImplementedError()
stub = qk_circuit

def qk_circuit(W_Q, W_K):
    print("noise on stderr", file=sys.stderr)
    warnings.warn("noise")
    return W_Q @ W_K.T
noisy = qk_circuit
"""

SCORED = {
    "check(right)": 1,
    "check(right);": 1,
    "points = check(right)": 1,
    "check(noisy)": 1,
    "%precision 3\ncheck(right)": 1,
    "check(wrong)": 0,
    "check(wrong);": 0,
    "points = check(wrong)": 0,
    "check(wrong)\npoints": 0,
    "check(wrong)\n'a string'": 0,
    "check(wrong)\nNone": 0,
    "%precision 3\ncheck(wrong)": 0,
    "%precision %d\ncheck(wrong)": 0,
    "check(stub)": 0,
    "check(stub);": 0,
    "check(lambda: 1)": 0,
    "check(print)": 0,
    "check(None)": 0,
    "check(undefined)": 0,
}


@pytest.fixture(scope="module")
def scores(desk: Path) -> dict[str, float]:
    """All the check cells of ``SCORED``, run one after the other in one kernel."""
    points = exercises.registry()["qk_circuit"].points
    cells = [check_cell(source, f"check-{i}", points) for i, source in enumerate(SCORED)]
    notebook = executed(new_notebook(cells=[new_code_cell(SETUP), *cells]), desk)
    assert not notebook.cells[0].outputs
    return {cell.source: score(cell) for cell in notebook.cells[1:]}


@pytest.mark.parametrize("source", SCORED)
def test_nbgrader_gives_the_points_of_the_verdict(source: str, scores: dict[str, float]) -> None:
    assert scores[source] == SCORED[source]


@pytest.mark.parametrize("notebook", TWO)
def test_a_solved_notebook_runs_clean_and_earns_every_point(notebook: str, desk: Path) -> None:
    cells = executed(nbformat.read(resources.solved(notebook), as_version=4), desk).cells
    outputs = [(cell.id, output) for cell in cells for output in cell.get("outputs", ())]
    assert [(i, o.evalue) for i, o in outputs if o.output_type == "error"] == []
    assert [(i, o.text) for i, o in outputs if o.get("name") == "stderr"] == []
    graded = {cell.id: score(cell) for cell in cells if is_judged(cell)}
    assert graded == {f"check_{e.name}": 1.0 for e in exercises.of_notebook(notebook)}


@pytest.mark.long
@pytest.mark.parametrize("notebook", TWO)
def test_a_released_notebook_runs_and_earns_nothing(notebook: str, desk: Path) -> None:
    cells = executed(nbformat.read(resources.released(notebook), as_version=4), desk).cells
    graded = {cell.id: score(cell) for cell in cells if is_judged(cell)}
    assert graded == {f"check_{e.name}": 0.0 for e in exercises.of_notebook(notebook)}


@pytest.mark.long
@pytest.mark.parametrize("notebook", TWO)
def test_nbgraders_validator_passes_the_solution_and_fails_the_release(
    notebook: str, desk: Path
) -> None:
    patient = Config({"ExecutePreprocessor": {"timeout": 300}})  # a busy machine is no failure
    assert Validator(config=patient).validate(str(resources.solved(notebook))) == {}
    failed = Validator(config=patient).validate(str(resources.released(notebook)))
    assert set(failed) == {"failed"}
    unanswered = answers.answer_cells(resources.released(notebook), questions=True)
    assert len(failed["failed"]) == len(exercises.of_notebook(notebook)) + len(unanswered)
