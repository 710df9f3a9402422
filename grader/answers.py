"""The text of an exercise's answer cell, as it is handed out and as the solution has it; and what
a teacher reads beside the answer to a question that a person marks.

Read from the built notebooks, so it works in an installed package and never shows anything else
than what learners and teachers have in front of them.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader import resources

_REGION = re.compile(
    r"^[ \t]*### BEGIN SOLUTION[^\n]*\n(.*?)^[ \t]*### END SOLUTION", re.DOTALL | re.MULTILINE
)


class AnswerNotFound(LookupError):
    """No built notebook has an answer cell of that name."""


def solution_source(name: str) -> str:
    """The solution of exercise ``name``, dedented, without its signature and docstring.

    Raises AnswerNotFound.
    """
    regions = _REGION.findall(_cell(resources.solutions_dir(), name))
    if not regions:
        raise AnswerNotFound(
            f"The answer cell of {name!r} has no solution in it; run `grader build`."
        )
    return "\n".join(textwrap.dedent(region).strip("\n") for region in regions)


def stub_source(name: str) -> str:
    """The answer cell of exercise ``name`` as learners get it: signature, docstring, nothing done.

    Raises AnswerNotFound.
    """
    return _cell(resources.course_dir(), name)


def marking_guide(name: str) -> str:
    """What a good answer to question ``name`` holds, and its points, as Markdown.

    Raises AnswerNotFound.
    """
    (guide,) = _REGION.findall(_cell(resources.solutions_dir(), name, questions=True))
    return str(guide).strip("\n")


def answer_cells(notebook: Path, *, questions: bool = False) -> dict[str, str]:
    """The source of every answer cell of a built notebook, by exercise, in order; or, by their names,
    of every question that a person marks.

    Raises OSError, or ValueError where the file is not a notebook.
    """
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        return dict(_answers(cells, questions))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{notebook} is not a readable notebook ({error}).") from None


def _answers(cells: list[dict[str, Any]], questions: bool) -> Iterator[tuple[str, str]]:
    for cell in cells:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("solution") and bool(about.get("grade")) == questions:
            source = cell["source"]  # a string, or its lines
            yield about["grade_id"], source if isinstance(source, str) else "".join(source)


def _cell(folder: Path, name: str, questions: bool = False) -> str:
    for path in sorted(folder.glob("*/*.ipynb")):
        if path.stem != path.parent.name:
            continue
        if name in (cells := answer_cells(path, questions=questions)):
            return cells[name]
    raise AnswerNotFound(f"No notebook in {folder} has an answer cell for {name!r}.")
