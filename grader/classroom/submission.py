"""A learner's notebook as it comes, read for grading: which notebook it is and what is to run.

Cells are found by the exercise they belong to, never by their place. Editors lose metadata, learners
copy, move, rename and delete cells; whatever can be made sense of is, and the rest gets a sentence.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

import grader
from grader import exercises, resources
from grader.lab import merge, notebook_files
from grader.lab.merge import Cell
from grader.notebook_format import nbformat

LARGEST_FILE = 100 * 2**20
MOST_CELLS = 2_000  # twenty times as many as the longest notebook of the course has
_STAMP = "transformer_circuits"


class NotebookUnreadable(ValueError):
    """The file can't be graded as a notebook of the course; the message tells the learner why."""


@dataclass(frozen=True)
class Submission:
    """What is to run of a notebook, and what was noticed.

    cells: (number, source) of the code cells to run; number counts all code cells from 1
    definitions: for each function defined at the top of a cell, the numbers of those cells
    edition: the course's edition that the notebook carries, "" where that was lost
    """

    path: Path
    notebook: str
    edition: str
    cells: tuple[tuple[int, str], ...]
    definitions: dict[str, tuple[int, ...]]
    notes: tuple[str, ...]


def read(path: Path) -> Submission:
    """Read a notebook's file. Raises NotebookUnreadable."""
    return parse(_bytes(path), path)


def parse(data: bytes, path: Path, *, wanted: str = "") -> Submission:
    """Read a notebook's bytes; ``path`` only names it. Raises NotebookUnreadable.

    wanted: the notebook of the course that it should be, where it could be another as well
    """
    raw = _notebook(data, path)
    cells, notes = _cells(raw)
    code = [(n, c) for n, c in enumerate((c for c in cells if c["cell_type"] == "code"), start=1)]
    definitions: dict[str, tuple[int, ...]] = {}
    for number, cell in code:
        for name in merge.defined(cell["source"]):
            definitions[name] = (*definitions.get(name, ()), number)
    stamp = _stamp(raw)
    name, note = _recognise(path, stamp.get("notebook"), definitions, wanted)
    edition = str(stamp.get("edition", ""))
    older = _older(path, edition) if stamp.get("notebook") == name else []
    names = [exercise.name for exercise in exercises.of_notebook(name)]
    prose = {number for number, cell in code if merge.is_question(cell)}  # its type was changed
    left_out = prose | _unchanged_demos(name, code) | _stubs_beside_answers(names, code)
    return Submission(
        path=path,
        notebook=name,
        edition=edition,
        cells=tuple((n, c["source"]) for n, c in code if n not in left_out and c["source"].strip()),
        definitions=definitions,
        notes=(*note, *older, *notes, *_remarks(names, cells, code, left_out)),
    )


def _notebook(data: bytes, path: Path) -> dict[str, Any]:
    raw = _json(data, path)
    if not isinstance(raw, dict) or not isinstance(raw.get("nbformat"), int):
        raise NotebookUnreadable(f"{path.name} is JSON, but not a Jupyter notebook.")
    if raw["nbformat"] > 4:
        raise NotebookUnreadable(
            f"{path.name} is saved in notebook format {raw['nbformat']}, which is newer than this "
            "program knows (4). Save it in format 4, or update the course."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # missing cell ids and the like are no concern here
            if raw["nbformat"] < 4:
                raw = nbformat.convert(nbformat.reader.reads(json.dumps(raw)), 4)
    except Exception as error:  # nbformat trips over a damaged old notebook in many ways
        raise NotebookUnreadable(
            f"{path.name} is saved in an old notebook format that can't be converted ({error}). "
            "Open it in JupyterLab and save it again."
        ) from None
    if not isinstance(raw.get("cells"), list):
        raise NotebookUnreadable(f"{path.name} says that it is a notebook, but it has no cells.")
    if len(raw["cells"]) > MOST_CELLS:
        raise NotebookUnreadable(
            f"{path.name} has {len(raw['cells'])} cells; at most {MOST_CELLS} are graded. Delete what "
            "isn't needed."
        )
    return dict(raw)


def _bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise NotebookUnreadable(f"{path} is a folder; give the notebook's file (.ipynb).")
        if path.stat().st_size > LARGEST_FILE:
            raise NotebookUnreadable(
                f"{path.name} is larger than {LARGEST_FILE // 2**20} MiB. Clear its outputs "
                "(Edit → Clear Outputs of All Cells), save it and try again."
            )
        return path.read_bytes()
    except OSError as error:
        raise NotebookUnreadable(f"{path} can't be read: {error.strerror}.") from None


def _json(data: bytes, path: Path) -> Any:
    if not data.strip():
        raise NotebookUnreadable(f"{path.name} is empty.")
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        raise NotebookUnreadable(
            f"{path.name} isn't UTF-8 text, so it isn't a notebook as Jupyter saves it. "
            "Open the notebook in JupyterLab and save it again."
        ) from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        why = (
            "It holds the marks of an unfinished git merge (<<<<<<<): resolve it first."
            if "<<<<<<<" in text
            else "Was the right file handed in, and was it saved completely?"
        )
        raise NotebookUnreadable(
            f"{path.name} is not a notebook: it isn't JSON{where}. {why}"
        ) from None


def _cells(raw: dict[str, Any]) -> tuple[list[Cell], list[str]]:
    """The cells in one shape, and a note for what was none."""
    cells, broken = [], 0
    for cell in raw["cells"]:
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str) or not isinstance(cell.get("cell_type"), str):
            broken += 1
            continue
        metadata = cell.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        cells.append({"cell_type": cell["cell_type"], "metadata": metadata, "source": source})
    return cells, [f"{broken} damaged cells were left out."] if broken else []


def _stamp(raw: dict[str, Any]) -> dict[str, Any]:
    metadata = raw.get("metadata")
    stamp = metadata.get(_STAMP) if isinstance(metadata, dict) else None
    return stamp if isinstance(stamp, dict) else {}


def _older(path: Path, edition: str) -> list[str]:
    """A note where the notebook is of an older edition. Raises NotebookUnreadable for a newer one."""
    try:
        theirs, ours = Version(edition), Version(grader.__version__)
    except InvalidVersion:
        return []
    if theirs > ours:
        raise NotebookUnreadable(
            f"{path.name} is of edition {edition} of the course, and this program is of {ours}: it "
            "doesn't know what is asked there. Update it (pip install --upgrade) and try again."
        )
    if theirs < ours:
        return [
            f"The notebook is of edition {edition}; its functions were judged as edition {ours} asks "
            "for them."
        ]
    return []


def _recognise(
    path: Path, stamped: Any, definitions: Iterable[str], wanted: str
) -> tuple[str, tuple[str, ...]]:
    """Which notebook of the course it is: by its stamp, else by the exercises it defines."""
    defined = set(definitions)
    votes: dict[str, int] = {}
    for exercise in exercises.registry().values():
        votes[exercise.notebook] = votes.get(exercise.notebook, 0) + (exercise.name in defined)
    likeliest = max(votes, key=lambda name: votes[name])
    if wanted in votes and stamped != wanted and 0 < votes[wanted] == votes[likeliest]:
        likeliest, stamped = wanted, None
    if isinstance(stamped, str) and stamped in votes and (votes[stamped] or not votes[likeliest]):
        return str(stamped), ()
    if votes[likeliest]:
        return likeliest, (
            f"The notebook's mark is lost or says otherwise; by its functions it is {likeliest}.",
        )
    raise NotebookUnreadable(
        f"{path.name} is not a notebook of this course: it carries no mark of one and defines none of "
        f"the course's functions. There are {', '.join(votes)}."
    )


def _unchanged_demos(name: str, code: Iterable[tuple[int, Cell]]) -> set[int]:
    """Cells of ours that show something and are as we shipped them: nothing in them to grade."""
    try:
        path = resources.released(name)
        demos = _demos(path, path.stat().st_mtime_ns)
    except (resources.CourseNotFound, OSError, ValueError):
        return set()
    return {number for number, cell in code if cell["source"].rstrip() in demos}


@functools.lru_cache(maxsize=32)
def _demos(path: Path, changed: int) -> frozenset[str]:
    """The sources of a released notebook's demo cells, read once for a whole batch."""
    cells = notebook_files.read(path)["cells"]
    return frozenset(c["source"].rstrip() for c in cells if merge.grade_id(c).startswith("demo_"))


def _stubs_beside_answers(names: Iterable[str], code: list[tuple[int, Cell]]) -> set[int]:
    """A stub that was left below the answer must not replace it."""
    stubs = {n: merge.defined(c["source"]) for n, c in code if merge.is_stub(c["source"])}
    answered = {
        name
        for name in names
        if any(name in merge.defined(c["source"]) for n, c in code if n not in stubs)
    }
    return {number for number, defined in stubs.items() if defined and defined <= answered}


def _remarks(
    names: Iterable[str], cells: Iterable[Cell], code: list[tuple[int, Cell]], left_out: set[int]
) -> Iterable[str]:
    for name in names:
        count = sum(name in merge.defined(c["source"]) for n, c in code if n not in left_out)
        if count > 1:
            yield f"{count} cells define {name}; the last one before its check counts."
    for cell in cells:
        if cell["cell_type"] != "code" and merge.grade_id(cell) in names:
            yield (
                f"The answer cell of {merge.grade_id(cell)} is a {cell['cell_type']} cell now, which "
                "doesn't run. Make it a code cell again (press Y)."
            )
