"""The same exercises as a notebook of ours, of nbgrader's and of otter's: answers and tests alone.

The demonstrations and the text are left out everywhere: they need packages that the peers' environment
lacks, and they have nothing to do with grading. Each tool tests in its own way. Ours draws some four
questions an exercise; the peers' tests are what a teacher writes there, ``assert_close`` against the
reference's answer to one fixed question, which lies in a file beside the notebook.
"""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

import grader
from grader import exercises, resources
from grader.judge.draw import Draw
from grader.lab import merge, notebook_files

NOTEBOOK = "02-attention-heads"  # ten exercises; none trains, none has a full-size memory case
WRONG = {"qk_circuit": "def qk_circuit(W_Q, W_K):\n    return W_K @ W_Q.T"}
EXAMPLES = "examples.pt"
SEED = 8
Cell = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One exercise. answer: the solution's cell, with the marks around what learners write."""

    name: str
    points: int
    answer: str


@functools.cache
def tasks(notebook: str = NOTEBOOK) -> tuple[Task, ...]:
    cells = notebook_files.read(resources.solved(notebook))["cells"]
    sources = {merge.grade_id(cell): str(cell["source"]) for cell in cells}
    return tuple(Task(e.name, e.points, sources[e.name]) for e in exercises.of_notebook(notebook))


def points(wrong: bool = False) -> float:
    """What a submission deserves."""
    return sum(task.points for task in tasks() if not (wrong and task.name in WRONG))


def examples() -> bytes:
    """``EXAMPLES``: of each exercise the first question of one seed, and the reference's answer."""
    kept = {}
    for exercise in exercises.of_notebook(NOTEBOOK):
        case = next(iter(exercise.cases(Draw(SEED))))
        kept[exercise.name] = {"args": case.args, "expected": exercise.reference(*case.args)}
    stream = io.BytesIO()
    torch.save(kept, stream)
    return stream.getvalue()


def answered(notebook: Cell, number: int, wrong: bool = False) -> bytes:
    """What a learner hands in: the notebook with all stubs replaced by answers, and a cell of their own."""
    answers = {
        task.name: re.sub(r"\n *### (BEGIN|END) SOLUTION", "", task.answer) for task in tasks()
    }
    answers |= WRONG if wrong else {}
    cells = [{**cell, "source": _filled(_text(cell), answers)} for cell in notebook["cells"]]
    cells.append(code(f"mine = {number}", f"mine-{number}"))
    return json.dumps({**notebook, "cells": cells}).encode()


def _filled(source: str, answers: dict[str, str]) -> str:
    defined = re.match(r"def (\w+)\(", source)
    return answers.get(defined[1], source) if defined else source


def ours(
    number: int, wrong: bool = False, notebook: str = NOTEBOOK, answers: int | None = None
) -> bytes:
    """Ours, of any notebook of the course; with its first ``answers`` alone, or all."""
    cells = [code("import torch\n\nfrom grader import check")]
    for task in tasks(notebook)[:answers]:
        cells += [code(task.answer, task.name), code(f"check({task.name})", f"check_{task.name}")]
    stamp = {"edition": grader.__version__, "notebook": notebook}
    return answered({**book(cells), "metadata": {"transformer_circuits": stamp}}, number, wrong)


def for_nbgrader() -> Cell:
    """A teacher's notebook: answers between marks, a test cell with points after each."""
    cells = [code("import torch")]
    for task in tasks():
        cells.append(code(task.answer, task.name, nbgrader=_nbgrader(task.name, solution=True)))
        about = _nbgrader(f"test_{task.name}", grade=True, locked=True, points=task.points)
        cells.append(code(_test(task), f"test_{task.name}", nbgrader=about))
    return book(cells)


def _nbgrader(name: str, **more: Any) -> Cell:
    told = {"grade": False, "solution": False, "locked": False, "task": False}
    return {**told, "schema_version": 3, "grade_id": name, **more}


def for_otter() -> Cell:
    """A teacher's notebook for ``otter assign``: questions between raw cells."""
    settings = (
        f"# ASSIGNMENT CONFIG\nexport_cell: false\ncheck_all_cell: false\nfiles: [{EXAMPLES}]"
    )
    cells = [raw(settings), code("import torch")]
    for task in tasks():
        cells += [
            raw(f"# BEGIN QUESTION\nname: {task.name}\npoints: {task.points}"),
            raw("# BEGIN SOLUTION"),
            code(task.answer.replace("### ", "# "), task.name),
            raw("# END SOLUTION"),
            raw("# BEGIN TESTS"),
            code(_test(task), f"test_{task.name}"),
            raw("# END TESTS"),
            raw("# END QUESTION"),
        ]
    return book(cells)


def _test(task: Task) -> str:
    return (
        f'case = torch.load("{EXAMPLES}")["{task.name}"]\n'
        f'torch.testing.assert_close({task.name}(*case["args"]), case["expected"])'
    )


def code(source: str, name: str = "", **metadata: Any) -> Cell:
    return {
        "cell_type": "code", "id": name or "setup", "metadata": metadata, "source": source,
        "outputs": [], "execution_count": None,
    }  # fmt: skip


def raw(source: str) -> Cell:
    return {"cell_type": "raw", "metadata": {}, "source": source}


def book(cells: Iterable[Cell]) -> Cell:
    """A notebook whose kernel is Python's, of which every cell has an id of its own."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    numbered = [{"id": f"cell-{n}", **cell} for n, cell in enumerate(cells)]
    return {
        "cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip


def _text(cell: Cell) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)
