"""Notebook files: read whatever editors made of them, told apart by what a learner would see."""

from __future__ import annotations

import contextlib
import difflib
import warnings
from pathlib import Path
from typing import Any

from grader import resources
from grader.lab import merge
from grader.lab.merge import Notebook
from grader.notebook_format import nbformat

_STAMP = "transformer_circuits"


def read(path: Path) -> Notebook:
    """The notebook in format 4, cell text in one piece. Raises OSError, and ValueError on others."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # learners' editors drop cell ids; merging needs none
            notebook = nbformat.reader.reads(path.read_bytes().decode("utf-8"))
            if notebook.get("nbformat") != 4:
                notebook = nbformat.convert(notebook, 4)
        for cell in notebook["cells"]:
            cell["source"] = merge.text(cell)
            if not isinstance(cell["metadata"], dict) or not isinstance(cell["cell_type"], str):
                raise TypeError("a cell is not one")
        if not isinstance(notebook["metadata"], dict):
            raise TypeError("no metadata")
    except OSError:
        raise
    except Exception as error:  # whatever lies in the file, and whichever way nbformat trips on it
        raise ValueError(f"{path.name} is not a readable notebook: {error}") from None
    return dict(notebook)


def written(notebook: Notebook) -> str:
    return str(nbformat.v4.writes_json(nbformat.from_dict(notebook))) + "\n"


def content(notebook: Notebook) -> list[Any]:
    """What makes one notebook differ from another in a learner's eyes: not outputs, not ids."""
    cells = [(c["cell_type"], c["source"].rstrip(), merge.grade_id(c)) for c in notebook["cells"]]
    return [stamp(notebook), *cells]


def stamp(notebook: Notebook) -> Any:
    """Which notebook of which edition it is, None where that was lost."""
    return notebook["metadata"].get(_STAMP)


def stub(exercise: str) -> tuple[str, merge.Cell]:
    """→ (notebook, answer cell as released) of an exercise or a question.

    Raises LookupError, CourseNotFound.
    """
    names = []
    for notebook in resources.notebooks():
        for cell in filter(merge.is_answer, read(resources.released(notebook))["cells"]):
            if merge.grade_id(cell) == exercise:
                return notebook, cell
            names.append(merge.grade_id(cell))
    near = difflib.get_close_matches(exercise, names, n=3, cutoff=0.5)
    guess = f" Did you mean {' or '.join(near)}?" if near else ""
    raise LookupError(f"There is no exercise {exercise!r} in the course.{guess}")


def answers_in(folder: Path) -> dict[str, str]:
    """The text of every answer in the folder's notebooks, by exercise: one may have moved."""
    released = {merge.grade_id(cell): cell for cell in _released_answers() if merge.grade_id(cell)}
    found: dict[str, str] = {}
    stubs = merge.stubs(_released_answers())
    for path in sorted(folder.glob("*/*.ipynb")):
        if path.stem != path.parent.name:
            continue
        try:
            cells = read(path)["cells"]
        except (OSError, ValueError):
            continue
        marked = {merge.grade_id(cell) for cell in cells if merge.is_answer(cell)}
        for name in released.keys() & marked:
            answer = merge.answer_to(released[name], cells, stubs)
            if answer is not None:
                found[name] = answer["source"]
    return found


def _released_answers() -> list[merge.Cell]:
    return [
        cell
        for name in resources.notebooks()
        for cell in read(resources.released(name))["cells"]
        if merge.is_answer(cell)
    ]


def holds_course(folder: Path) -> bool:
    """Whether a notebook of the course lies in the folder, as where the hidden folder was lost."""
    for path in folder.glob("*/*.ipynb"):
        if path.stem == path.parent.name and resources.NOTEBOOK_NAME.fullmatch(path.stem):
            with contextlib.suppress(OSError, ValueError):
                if stamp(read(path)) is not None:
                    return True
    return False
