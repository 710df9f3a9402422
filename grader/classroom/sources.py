"""Reading a notebook's source, ``solutions/NN-topic.py``, and what is wrong with it.

A source is py:percent text. A code cell's line ``# %%`` may end in one word: ``answer`` (one exercise,
its solution between ``### BEGIN SOLUTION`` and ``### END SOLUTION``), ``check`` (ends in the bare
call that judges it) or ``demo`` (ours, locked, skipped in grading).

A question that a person marks is ``# %% question [markdown] name="why_it_copies" points=2``: the cell
that the learner's text goes into. All of it stands between the two markers, and is what a teacher
reads beside the answer: a good one, and criteria ``- **1 point**: …`` that add up to the points. The
question itself stands before it, in a plain cell, so that an update can reword it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jupytext

from grader.resources import NOTEBOOK_NAME

MARKERS = ("answer", "check", "demo")
QUESTION = "question"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"

# A solution's line this long tells something; a shorter one ("return x") can stand anywhere.
TELLING = 12

_CRITERION = re.compile(r"^- \*\*(\d+) points?\*\*", re.MULTILINE)


class SourceError(ValueError):
    """A source that can't be built; the message lists every flaw, one a line."""

    def __init__(self, flaws: Sequence[str]) -> None:
        super().__init__("\n".join(flaws))
        self.flaws = tuple(flaws)


@dataclass(frozen=True)
class Cell:
    """One cell. kind: "markdown", "code", "answer", "check", "demo" or "question".

    number counts from 1; name, points: of a question
    """

    number: int
    kind: str
    source: str
    name: str = ""
    points: int = 0

    @property
    def functions(self) -> list[ast.FunctionDef]:
        """The functions defined at the cell's top level; none where it isn't plain Python."""
        try:
            body = ast.parse(self.source).body
        except SyntaxError:
            return []
        return [node for node in body if isinstance(node, ast.FunctionDef)]


@dataclass(frozen=True)
class Source:
    """A notebook's source as its cells, in order."""

    notebook: str
    cells: tuple[Cell, ...]

    def flaw(self, cell: Cell, what: str) -> str:
        return f"{self.notebook}.py, cell {cell.number} ({cell.kind}): {what}"

    def of_kind(self, kind: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.kind == kind]


def source_files(root: Path) -> dict[str, Path]:
    """Every source of the course under ``root``, by notebook, in order.

    Raises SourceError where there is none or one has a name that a notebook can't have.
    """
    found = {path.stem: path for path in sorted((root / "solutions").glob("*.py"))}
    if not found:
        raise SourceError([f"There are no notebook sources in {root / 'solutions'}."])
    odd = [name for name in found if not NOTEBOOK_NAME.fullmatch(name)]
    if odd:
        raise SourceError(
            [f"{n}.py: a source is named NN-topic.py, like 01-zero-layer.py." for n in odd]
        )
    return found


def read(path: Path) -> Source:
    """The cells of a source file. Raises SourceError on a marker that isn't one."""
    notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    cells, flaws = [], []
    for number, raw in enumerate(notebook.cells, start=1):
        marker = raw.metadata.get("title", "")
        extra = set(raw.metadata) - {"title", "lines_to_next_cell"}
        if raw.cell_type == "code" and marker in ("", *MARKERS) and not extra:
            cells.append(Cell(number, marker or "code", raw.source))
        elif raw.cell_type == "markdown" and not marker and not extra:
            cells.append(Cell(number, "markdown", raw.source))
        elif raw.cell_type == "markdown" and marker == QUESTION and extra == {"name", "points"}:
            about = raw.metadata
            cells.append(Cell(number, QUESTION, raw.source, str(about["name"]), about["points"]))
        else:
            first = raw.source.partition("\n")[0]
            flaws.append(
                f"{path.name}, cell {number}, which begins {first!r}: a cell is `# %% [markdown]`, "
                f"`# %%`, `# %%` and one of {', '.join(MARKERS)}, or "
                '`# %% question [markdown] name="…" points=…`; '
                f"here it is {marker or 'a plain cell'!r} {sorted(extra) if extra else ''}".rstrip()
            )
    if flaws:
        raise SourceError(flaws)
    return Source(path.stem, tuple(cells))


def answer_name(cell: Cell, exercises: Sequence[str]) -> str:
    """The exercise that an answer cell answers, "" if it isn't exactly one."""
    known = [function.name for function in cell.functions if function.name in exercises]
    return known[0] if len(known) == 1 else ""


def checked_name(cell: Cell) -> str:
    """The exercise whose bare ``check(name)`` ends a check cell, "" if nothing of the kind does."""
    last = cell.source.rstrip().rpartition("\n")[2]
    bare = re.fullmatch(r"check\((\w+)\)", last)
    return bare[1] if bare else ""


def solution_text(cell: Cell) -> str:
    """What stands between the markers of an answer cell, dedented."""
    inside = cell.source.partition(BEGIN)[2].partition("\n")[2]
    kept = inside.partition(END)[0].rpartition("\n")[0]
    return textwrap.dedent(kept)


def flaws(source: Source, exercises: Sequence[str]) -> list[str]:
    """All that keeps a source from being built, in its author's words.

    exercises: the names declared for this notebook
    """
    found = [
        source.flaw(cell, what) for cell in source.cells for what in _flaws_of(cell, exercises)
    ]
    return found + list(_pairing(source, exercises))


def _flaws_of(cell: Cell, exercises: Sequence[str]) -> Iterator[str]:
    if cell.kind == "answer":
        yield from _answer_flaws(cell, exercises)
    elif cell.kind == QUESTION:
        yield from _question_flaws(cell, exercises)
    elif BEGIN in cell.source or END in cell.source:
        yield f"`{BEGIN}` and `{END}` belong into answer cells and questions only."
    if cell.kind == "check" and not checked_name(cell):
        yield (
            "the last line must be the bare call `check(name)`: no semicolon, no assignment, nothing "
            "after it. nbgrader reads the points from its value."
        )


def _question_flaws(cell: Cell, exercises: Sequence[str]) -> Iterator[str]:
    lines = cell.source.split("\n")
    if lines[0] != BEGIN or lines[-1] != END or cell.source.count(" SOLUTION") != 2:
        yield f"a question is one solution, from `{BEGIN}` in its first line to `{END}` in its last."
    if not cell.name.isidentifier() or cell.name in exercises or cell.name.startswith("check_"):
        yield f"a question's name is like a function's, and no exercise's; it is {cell.name!r}."
    if type(cell.points) is not int or cell.points < 1:
        yield f"its points must be a whole number of at least 1, not {cell.points!r}."
    worth = [int(points) for points in _CRITERION.findall(cell.source)]
    if not 2 <= len(worth) <= 4 or sum(worth) != cell.points:
        yield (
            "its guide needs two to four criteria, each a line `- **1 point**: …`, that add up to "
            f"{cell.points} points; there are {worth or 'none'}."
        )


def _answer_flaws(cell: Cell, exercises: Sequence[str]) -> Iterator[str]:
    marks = [s.strip() for s in cell.source.split("\n") if re.search("(BEGIN|END) SOLUTION", s)]
    if marks != [BEGIN, END]:
        came = " then ".join(f"`{mark}`" for mark in marks) or "neither"
        yield f"it needs one line `{BEGIN}` and after it one line `{END}`; there is {came}."
    try:
        ast.parse(cell.source)
    except SyntaxError as error:
        yield f"it is not valid Python ({error.msg}, line {error.lineno} of the cell)."
        return
    defined = [function.name for function in cell.functions]
    known = [name for name in defined if name in exercises]
    if len(known) != 1:
        yield (
            f"it must define exactly one exercise of this notebook; it defines "
            f"{', '.join(defined) or 'no function'}. Declared: {', '.join(exercises) or 'none'}."
        )
    elif marks == [BEGIN, END] and not _inside_body(cell, known[0]):
        yield f"the solution's markers must stand inside the body of {known[0]}."


def _inside_body(cell: Cell, name: str) -> bool:
    """Whether the markers enclose statements of that function and of nothing else."""
    lines = [line.strip() for line in cell.source.split("\n")]
    begin, end = lines.index(BEGIN) + 1, lines.index(END) + 1
    enclosing = [
        f for f in ast.parse(cell.source).body if f.lineno < end and begin < (f.end_lineno or 0)
    ]
    function = next(f for f in cell.functions if f.name == name)
    within = [node for node in function.body if begin < node.lineno < end]
    return len(enclosing) == 1 and function.lineno < begin and bool(within)


def _pairing(source: Source, exercises: Sequence[str]) -> Iterator[str]:
    """Every exercise is answered once and then checked once; no two questions share a name."""
    for question, often in Counter(cell.name for cell in source.of_kind(QUESTION)).items():
        if often > 1:
            yield f"{source.notebook}.py: {often} questions are called {question}."
    answered = {answer_name(c, exercises): c.number for c in source.of_kind("answer")}
    checks = source.of_kind("check")
    checked = {checked_name(c): c.number for c in checks}
    times = {
        "answer": Counter(answer_name(c, exercises) for c in source.of_kind("answer")),
        "check": Counter(checked_name(c) for c in checks),
    }
    for kind, count in times.items():
        for name in exercises:
            if count[name] != 1:
                has = "no" if not count[name] else str(count[name])
                yield f"{source.notebook}.py: {name} has {has} {kind} cells; it needs one."
    for name in checked:
        if name and name not in exercises:
            yield f"{source.notebook}.py, cell {checked[name]}: no exercise here is called {name}."
        elif name in answered and checked[name] < answered[name]:
            yield f"{source.notebook}.py: the check of {name} stands before its answer."
