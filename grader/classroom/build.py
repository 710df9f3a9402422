"""Building the course: sources → instructor's notebooks → learners' notebooks.

``build`` reads every source, names all flaws at once, and writes only when all of it was built: a
failed build leaves every file as it was. ``check`` builds the same in memory and compares.
Both are pure functions of the sources, the declared points and the edition: the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import grader
from grader import exercises
from grader.classroom import sources
from grader.classroom.release import release
from grader.classroom.sources import Cell, Source, SourceError
from grader.lab.files import write_whole

STAMP = "transformer_circuits"


@dataclass(frozen=True)
class BuildReport:
    """What a build did. Paths are relative to the course's root, with forward slashes.

    points: of the exercises; question_points: of the questions, which a person marks
    """

    notebooks: tuple[str, ...]
    exercises: int
    points: int
    questions: int
    question_points: int
    written: tuple[str, ...]
    unchanged: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def build(root: Path | None = None, notebooks: Sequence[str] | None = None) -> BuildReport:
    """Build the notebooks named (all, if None) under ``root`` (the checkout this runs from).

    Files that aren't built from a source are left alone.
    Raises SourceError (every flaw of every source), ReleaseError (nbgrader refused), OSError.
    """
    root = _checkout() if root is None else Path(root)
    built = _built(root, notebooks)
    written = _write(root, built.files)
    return BuildReport(
        notebooks=tuple(built.points),
        exercises=sum(len(points) for points in built.points.values()),
        points=sum(sum(points.values()) for points in built.points.values()),
        questions=len(built.questions),
        question_points=sum(cell.points for cell in built.questions),
        written=tuple(written),
        unchanged=tuple(path for path in built.files if path not in written),
    )


def check(root: Path | None = None) -> list[str]:
    """What a build would change, one sentence a file; empty where all is as its sources give it.

    Raises as ``build`` does.
    """
    root = _checkout() if root is None else Path(root)
    files = _built(root, None).files
    differing = [
        f"{path} {what}"
        for path, text in files.items()
        if (what := _difference(_text(root / path), text))
    ]
    return differing + [
        f"{path} has no source in solutions/ any more" for path in _stray(root, files)
    ]


@dataclass(frozen=True)
class _Built:
    """files: text by path; points: of each exercise, by notebook; questions: those marked by people."""

    files: dict[str, str]
    points: dict[str, dict[str, int]]
    questions: list[Cell]


def _built(root: Path, notebooks: Sequence[str] | None) -> _Built:
    files = sources.source_files(root)
    unknown = [name for name in notebooks or () if name not in files]
    if unknown:
        raise SourceError(
            [f"There is no source {name}.py; there are {', '.join(files)}." for name in unknown]
        )
    wanted = {name: path for name, path in files.items() if notebooks is None or name in notebooks}
    points = {name: {e.name: e.points for e in exercises.of_notebook(name)} for name in wanted}
    read = _read_all(wanted, points)
    instructors = {name: _instructor(read[name], points[name]) for name in wanted}
    released = release(instructors)
    leaks = [flaw for name in wanted for flaw in _leaks(read[name], released[name])]
    if leaks:
        raise SourceError(leaks)
    return _Built(
        {f"solutions/{name}/{name}.ipynb": text for name, text in instructors.items()}
        | {f"course/{name}/{name}.ipynb": text for name, text in released.items()},
        points,
        [cell for name in wanted for cell in read[name].of_kind(sources.QUESTION)],
    )


def _read_all(
    files: Mapping[str, Path], points: Mapping[str, Mapping[str, int]]
) -> dict[str, Source]:
    read, found = {}, []
    for name, path in files.items():
        try:
            read[name] = sources.read(path)
            found += sources.flaws(read[name], list(points[name]))
        except SourceError as error:
            found += error.flaws
    if found:
        raise SourceError(found)
    return read


def _instructor(source: Source, points: Mapping[str, int]) -> str:
    """The instructor's notebook: solutions in place, nbgrader's metadata complete, no outputs."""
    demos = {cell.number: i for i, cell in enumerate(source.of_kind("demo"))}
    cells = [_cell(cell, points, demos.get(cell.number, 0)) for cell in source.cells]
    notebook = new_notebook(cells=cells)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        STAMP: {"edition": grader.__version__, "notebook": source.notebook},
    }
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def _cell(cell: Cell, points: Mapping[str, int], demo: int) -> Any:
    plain = f"cell-{cell.number:03d}"
    if cell.kind == "markdown":
        return new_markdown_cell(cell.source, id=plain)
    if cell.kind == "code":
        return new_code_cell(cell.source, id=plain)
    about: dict[str, Any]
    if cell.kind == "answer":
        about = {"grade_id": sources.answer_name(cell, list(points)), "solution": True}
    elif cell.kind == "check":
        name = sources.checked_name(cell)
        about = {"grade_id": f"check_{name}", "grade": True, "locked": True, "points": points[name]}
    elif cell.kind == sources.QUESTION:
        about = {"grade_id": cell.name, "grade": True, "solution": True, "points": cell.points}
    else:
        about = {"grade_id": f"demo_{demo:02d}", "locked": True}
    complete = {
        "schema_version": 3,
        "grade": False,
        "solution": False,
        "locked": False,
        "task": False,
    }
    metadata = {"nbgrader": complete | about}
    new_cell = new_markdown_cell if cell.kind == sources.QUESTION else new_code_cell
    return new_cell(cell.source, id=about["grade_id"], metadata=metadata)


def _leaks(source: Source, released: str) -> Iterator[str]:
    """Lines of a solution that learners would read elsewhere in the same notebook."""
    cells = nbformat.reads(released, as_version=4).cells
    shown = {line.strip(): cell.id for cell in cells for line in cell.source.split("\n")}
    for answer in (*source.of_kind("answer"), *source.of_kind(sources.QUESTION)):
        for line in {line.strip() for line in sources.solution_text(answer).split("\n")}:
            if len(line) >= sources.TELLING and line in shown:
                yield source.flaw(
                    answer,
                    f"`{line}` is part of the solution and also stands in cell {shown[line]!r}.",
                )


def _difference(there: str | None, wanted: str) -> str:
    """In words, how a built file differs from the one there; "" if it doesn't."""
    if there is None:
        return "is missing"
    if there == wanted:
        return ""
    try:
        old = nbformat.reads(there, as_version=4).cells
    except (ValueError, AttributeError, nbformat.ValidationError):
        return "is not a readable notebook"
    new = nbformat.reads(wanted, as_version=4).cells
    for mine, theirs in zip(new, old, strict=False):
        if mine != theirs:
            return f"differs from what its source gives, first in cell {mine.id!r}"
    return "differs from what its source gives"


def _stray(root: Path, files: Mapping[str, str]) -> Iterator[str]:
    """Notebooks that an earlier build made and no source makes any more."""
    for path in sorted([*root.glob("course/*/*.ipynb"), *root.glob("solutions/*/*.ipynb")]):
        name = path.relative_to(root).as_posix()
        if name not in files and f'"{STAMP}"' in (_text(path) or ""):
            yield name


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _write(root: Path, files: Mapping[str, str]) -> list[str]:
    """Write the files that changed, each whole or not at all → their paths."""
    changed = {path: text for path, text in files.items() if _text(root / path) != text}
    for path, text in changed.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(root / path, text)
    return list(changed)


def _checkout() -> Path:
    root = Path(grader.__file__).resolve().parents[1]
    if not (root / "pyproject.toml").is_file():
        raise SourceError(
            [
                "The notebooks of an installed package can't be rebuilt. "
                "Work in a checkout of the course, where solutions/*.py and course/ lie side by side."
            ]
        )
    return root
