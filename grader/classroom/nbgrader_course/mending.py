"""A damaged notebook put in order before nbgrader looks at it.

Learners copy and delete graded cells, editors drop marks and change types. nbgrader stops the whole
batch at a copied cell and waits forever for a deleted one. Here the notebook that was released takes
the learner's answers in, each found by its exercise; what else is the learner's stays where it stood.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import nbformat

from grader.lab import merge
from grader.lab.merge import Cell, Notebook

_TELLING = ("grade", "solution", "locked", "task", "schema_version")


def damage(handed_in: Notebook, released: Notebook) -> list[str]:
    """What is wrong with the marked cells, one sentence a cell; empty for nearly all notebooks."""
    found = []
    there = _by_id(handed_in["cells"])
    for cell in _marked(released["cells"]):
        name = merge.grade_id(cell)
        mine = there.get(name, [])
        if len(mine) != 1:
            found.append(f"{name} is there {len(mine)} times" if mine else f"{name} is missing")
        elif not _same_kind(cell, mine[0]):
            found.append(f"the marks or the type of {name} were changed")
    known = {merge.grade_id(cell) for cell in _marked(released["cells"])}
    return found + [f"{name} is not of this notebook" for name in there if name not in known]


def mended(handed_in: Notebook, released: Notebook) -> Any:
    """The released notebook with the learner's work in it, as nbformat's node."""
    merged = merge.merge(released, _whole(handed_in), base=released).notebook
    merged["metadata"] = {**handed_in["metadata"], **released["metadata"]}
    return nbformat.from_dict(merged)


def _whole(notebook: Notebook) -> Notebook:
    cells = [
        {**cell, "source": merge.text(cell), "metadata": cell.get("metadata", {})}
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def _marked(cells: Iterable[Cell]) -> list[Cell]:
    return [
        cell
        for cell in cells
        if merge.is_answer(cell) or merge.is_locked(cell) or merge.is_question(cell)
    ]


def _by_id(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    there: dict[str, list[Cell]] = {}
    for cell in cells:
        marks = cell.get("metadata", {}).get("nbgrader")
        if marks:  # {} and what is no mapping are as good as none
            there.setdefault(merge.grade_id(cell), []).append(cell)
    return there


def _same_kind(one: Cell, other: Cell) -> bool:
    marks, others = one["metadata"]["nbgrader"], other["metadata"]["nbgrader"]
    same = all(marks.get(name) == others.get(name) for name in _TELLING)
    points = ("points" in marks) == ("points" in others)
    return one["cell_type"] == other["cell_type"] and same and points
