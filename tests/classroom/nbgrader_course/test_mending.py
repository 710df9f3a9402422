"""A damaged notebook gets its marks back, and keeps all that is the learner's."""

from __future__ import annotations

import copy
import json
from typing import Any

import nbformat
import pytest
from class_desk import ASSIGNMENT, CHECKED, DAMAGES, RIGHT, check_cells, marked
from nbformat.v4 import new_code_cell
from nbgrader.nbgraderformat import MetadataValidator

from grader import resources
from grader.classroom.nbgrader_course import mending
from grader.lab import notebook_files


@pytest.fixture
def released() -> Any:
    return notebook_files.read(resources.released(ASSIGNMENT))


def handed_in() -> Any:
    notebook = nbformat.read(resources.released(ASSIGNMENT), as_version=4)
    marked(notebook, "virtual_weights").source = RIGHT
    notebook.cells.insert(5, new_code_cell("my_own_notes = 1"))
    return notebook


def test_a_whole_notebook_needs_no_mending(released: Any) -> None:
    assert mending.damage(handed_in(), released) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_seen_and_mended(damage: str, released: Any) -> None:
    notebook = handed_in()
    DAMAGES[damage](notebook)
    before = copy.deepcopy(released)
    assert damage == "more points" or mending.damage(notebook, released)  # points nbgrader restores
    mended = mending.mended(notebook, released)
    assert mending.damage(mended, released) == []
    assert check_cells(mended) == check_cells(nbformat.from_dict(released))
    assert marked(mended, "virtual_weights").source == RIGHT
    assert marked(mended, CHECKED).source == marked(nbformat.from_dict(released), CHECKED).source
    assert damage == "only the answer" or "my_own_notes" in json.dumps(mended)
    MetadataValidator().validate_nb(mended)
    nbformat.validate(mended)
    assert released == before


def test_what_is_wrong_is_said_cell_by_cell(released: Any) -> None:
    notebook = handed_in()
    DAMAGES["check cell deleted"](notebook)
    DAMAGES["answer copied"](notebook)
    assert mending.damage(notebook, released) == [
        "virtual_weights is there 2 times",
        f"{CHECKED} is missing",
    ]
