"""A learner's notebook carried over into a new edition of the course, exercise by exercise.

Three notebooks meet: the *released* one of the new edition, the learner's own (*mine*), and the
*base*, the release that the learner's was copied from. The result is the released notebook with the
learner's answers in it and the learner's own cells where they stood. Answers are found by the exercise
they belong to (nbgrader's mark on the cell) or else by the function that they define, since editors
lose marks, and learners copy, move and rename cells. The text that answers a question of the course,
which a person marks, is carried like an exercise's answer.

Notebooks are nbformat 4 dicts; none that is handed in is changed.
"""

from __future__ import annotations

import ast
import copy
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Cell = dict[str, Any]
Notebook = dict[str, Any]


@dataclass
class Merged:
    """The notebook for the learner, which answers it carries and how many cells of their own."""

    notebook: Notebook
    answers: list[str] = field(default_factory=list)
    own_cells: int = 0


def merge(
    released: Notebook,
    mine: Notebook,
    base: Notebook | None = None,
    elsewhere: Mapping[str, str] | None = None,
) -> Merged:
    """The released notebook with all that is the learner's in ``mine``.

    base: without it no one can tell an old paragraph of the course from an edited one; the released
        text then stands
    elsewhere: answers by exercise found in other notebooks, for exercises that moved
    """
    old = base["cells"] if base else []
    untouched = stubs(released["cells"]) | stubs(old)
    chosen = {
        grade_id(cell): answer_to(cell, mine["cells"], untouched)
        for cell in released["cells"]
        if is_answer(cell)
    }
    plan = _Plan(released["cells"], mine["cells"], old, chosen, untouched)

    merged = Merged(copy.deepcopy(released))
    cells: list[Cell] = [*plan.own_after(None)]
    for new in merged.notebook["cells"]:
        name = grade_id(new)
        answer = chosen.get(name)
        if is_answer(new):
            text = answer["source"] if answer else (elsewhere or {}).get(name)
            if text is not None:
                new["source"] = text
                merged.answers.append(name)
            if answer and "attachments" in answer and is_question(new):
                new["attachments"] = copy.deepcopy(answer["attachments"])
            cells.append(new)
        else:
            cells += plan.kept_or_new(new)
        cells += plan.own_after(new["id"])
    merged.own_cells = len(cells) - len(merged.notebook["cells"])
    merged.notebook["cells"] = cells
    if "kernelspec" in mine["metadata"]:
        merged.notebook["metadata"]["kernelspec"] = mine["metadata"]["kernelspec"]
    return merged


class _Plan:
    """Which of the learner's cells stands for which released one, and which is the learner's own."""

    def __init__(
        self,
        released: list[Cell],
        mine: list[Cell],
        old: list[Cell],
        chosen: Mapping[str, Cell | None],
        untouched: set[str],
    ) -> None:
        self.untouched = untouched
        self.marks = {grade_id(cell): cell["id"] for cell in released if grade_id(cell)}
        self.plain = {cell["id"] for cell in released if not grade_id(cell)}
        self.texts = {_key(cell): cell["id"] for cell in released if not is_answer(cell)}
        self.old = {cell["id"]: cell for cell in old if "id" in cell}
        self.old_texts = {_key(cell) for cell in old}
        answers = {id(cell): self.marks[name] for name, cell in chosen.items() if cell}
        self.mine: dict[str, Cell] = {}  # id of a released cell → the learner's form of it
        self.own: dict[str | None, list[Cell]] = {}  # … → the learner's own cells behind it
        after: str | None = None
        for cell in mine:
            at = answers.get(id(cell)) or self._stands_for(cell)
            if at is not None and at not in self.mine:
                self.mine[at] = cell
                after = at
            elif self._is_own(cell):
                self.own.setdefault(after, []).append(_own(cell))

    def _stands_for(self, cell: Cell) -> str | None:
        if is_answer(
            cell
        ):  # and not the chosen one: a stub, or an attempt that a later one replaced
            return self.marks.get(grade_id(cell)) if self._is_untouched(cell) else None
        if grade_id(cell):
            return self.marks.get(grade_id(cell))
        if cell.get("id") in self.plain:
            return str(cell["id"])
        return self.texts.get(_key(cell))

    def _is_own(self, cell: Cell) -> bool:
        """False for the course's own text, of this edition or the last, and for empty cells."""
        if is_locked(cell) or not text(cell).strip():
            return False
        if is_answer(cell) and self._is_untouched(cell):
            return False
        return _key(cell) not in self.old_texts and _key(cell) not in self.texts

    def _is_untouched(self, cell: Cell) -> bool:
        return is_stub(text(cell)) or text(cell) in self.untouched

    def kept_or_new(self, new: Cell) -> list[Cell]:
        """A cell that is no answer: the side that changed it wins; if both did, both stand."""
        mine, was = self.mine.get(new["id"]), self.old.get(new["id"])
        if mine is None or was is None or is_locked(new) or _key(mine) in (_key(new), _key(was)):
            return [new]
        if _key(new) == _key(was):
            return [{**new, "source": mine["source"]}]
        return [new, _own(mine)]

    def own_after(self, at: str | None) -> list[Cell]:
        return self.own.get(at, [])


def find_answer(cells: Iterable[Cell], name: str, untouched: Iterable[str] = ()) -> Cell | None:
    """The learner's answer cell of exercise ``name``: what running from top to bottom would judge.

    That is the last cell before the exercise's check cell that carries its mark or defines its
    function, stubs aside; None where nothing but stubs is there.
    """
    untouched = set(untouched)
    best: Cell | None = None
    for cell in cells:
        if grade_id(cell) == f"check_{name}" and best is not None:
            break
        if cell["cell_type"] != "code" or is_locked(cell):
            continue
        belongs = name == grade_id(cell) or name in defined(text(cell))
        if belongs and text(cell) not in untouched and not is_stub(text(cell)):
            best = cell
    return best


def find_text(cells: Iterable[Cell], name: str, untouched: Iterable[str] = ()) -> Cell | None:
    """The learner's cell that answers question ``name``: the last that carries its mark or its id.

    Of any type, since one key turns text into code; None where nothing was written.
    """
    nothing = {"", *(stub.strip() for stub in untouched)}
    written = [
        cell
        for cell in cells
        if name in (grade_id(cell), cell.get("id")) and text(cell).strip() not in nothing
    ]
    return written[-1] if written else None


def answer_to(released: Cell, cells: Iterable[Cell], untouched: Iterable[str] = ()) -> Cell | None:
    """The learner's answer, among these cells, to a released answer cell or question."""
    find = find_text if is_question(released) else find_answer
    return find(cells, grade_id(released), untouched)


def stubs(cells: Iterable[Cell]) -> set[str]:
    """The text of every answer cell, given a released notebook's cells."""
    return {text(cell) for cell in cells if is_answer(cell)}


def text(cell: Cell) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def grade_id(cell: Cell) -> str:
    """nbgrader's name of the cell, "" without one."""
    return str(_marks(cell).get("grade_id", ""))


def is_answer(cell: Cell) -> bool:
    """Whether the cell is for the learner: an exercise's function, or the text of a question."""
    return bool(_marks(cell).get("solution"))


def is_question(cell: Cell) -> bool:
    """Whether a person reads and marks what the learner writes into the cell."""
    return is_answer(cell) and bool(_marks(cell).get("grade"))


def is_locked(cell: Cell) -> bool:
    """Whether it is a check or a demo of the course, which no learner edits."""
    return bool(_marks(cell).get("locked"))


def is_stub(source: str) -> bool:
    """Whether it is one function that does nothing but raise NotImplementedError.

    A learner's notes in it make it an answer: they are worth keeping.
    """
    if len(source) > _LONGEST_STUB or "NotImplementedError" not in source:
        return False
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        return False
    work = [step for step in body[0].body if not isinstance(step, ast.Expr)]
    lines = [line.strip() for line in source.splitlines()]
    notes = {line[1:].strip() for line in lines if line.startswith("#")} - {"YOUR CODE HERE"}
    return len(work) == 1 and isinstance(work[0], ast.Raise) and not notes


_LONGEST_STUB = (
    20_000  # strangers' cells come here, too: what is longer is parsed by their own process
)


def defined(source: str) -> set[str]:
    """The functions that a code cell defines at its top; also of a cell that does not parse yet."""
    return {name for names in _DEFINITION.findall(source) for name in names if name}


_DEFINITION = re.compile(r"^(?:async +)?def +(\w+)|^(\w+) *= *lambda\b", re.MULTILINE)


def _marks(cell: Cell) -> dict[str, Any]:
    marks = cell.get("metadata", {}).get("nbgrader", {})
    return marks if isinstance(marks, dict) else {}


def _key(cell: Cell) -> str:
    """What two cells share when they are the same; space at the end is an editor's business."""
    return f"{cell['cell_type']}\n{text(cell).rstrip()}"


def _own(cell: Cell) -> Cell:
    """The cell as a plain one: two cells with one mark, or one id, would break nbgrader."""
    own = copy.deepcopy(cell)
    for key in ("nbgrader", "deletable", "editable"):
        own["metadata"].pop(key, None)
    return {**own, "id": uuid.uuid4().hex[:8]}
