"""The learner's working folder: the course's notebooks, theirs to write in.

``prepare`` makes it and brings it up to date, ``reset`` puts one answer back to its stub. Neither
writes over anything of the learner's: what changes is first kept beside, under a dated name. The
hidden folder ``.transformer-circuits`` remembers each notebook as it was handed out, so that a later
edition can tell the course's words from the learner's.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import filelock

from grader import resources
from grader.lab import merge, notebook_files, progress
from grader.lab.files import aside, write_whole
from grader.lab.merge import Notebook

DEFAULT_NAME = "transformer-circuits"
_HIDDEN = ".transformer-circuits"


class WorkbookError(Exception):
    """The folder can't be used as asked; the message says why and what to do."""


@dataclass(frozen=True)
class Change:
    """What happened to one file: "new", "updated" or "damaged"; ``kept`` is the old one's new name."""

    file: Path
    what: str
    kept: Path | None = None
    answers: tuple[str, ...] = ()
    own_cells: int = 0


def prepare(folder: Path) -> list[Change]:
    """Make ``folder`` the learner's copy of the course, or bring the one in it up to date.

    Raises WorkbookError, and resources.CourseNotFound.
    """
    folder = folder.expanduser().resolve()
    _refuse_dangerous(folder)
    names = resources.notebooks()
    if not names:
        raise WorkbookError("The course has no notebooks yet; run `grader build` in its checkout.")
    try:
        (folder / _HIDDEN).mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / _HIDDEN / "lock", timeout=10):
            elsewhere = notebook_files.answers_in(folder)
            changes = [_bring_up_to_date(folder, name, elsewhere) for name in names]
            changes += [_place(folder, *files) for files in _other_files(names)]
    except filelock.Timeout:
        raise WorkbookError(f"Another program is changing {folder}; try again.") from None
    except OSError as error:
        raise WorkbookError(f"{folder} can't be written: {error.strerror or error}.") from None
    _remember(folder)
    return [change for change in changes if change is not None]


def reset(exercise: str, folder: Path) -> Change:
    """Put the answer to one exercise or question back to its stub; the old notebook is kept beside.

    Raises WorkbookError, LookupError (no such exercise), resources.CourseNotFound.
    """
    name, stub = notebook_files.stub(exercise)
    path = folder.expanduser().resolve() / name / f"{name}.ipynb"
    try:
        mine = notebook_files.read(path)
    except FileNotFoundError:
        raise WorkbookError(f"There is no {path}; `grader start` puts it there.") from None
    except (OSError, ValueError) as error:
        raise WorkbookError(
            f"{path} can't be read as a notebook ({error}); "
            "`grader start` sets it aside and gives you a new one."
        ) from None
    cells = mine["cells"]
    answer = merge.answer_to(stub, cells) or next(
        (cell for cell in cells if merge.grade_id(cell) == exercise), None
    )
    if answer is None:
        checks = (i for i, c in enumerate(cells) if merge.grade_id(c) == f"check_{exercise}")
        cells.insert(next(checks, len(cells)), stub)
    else:
        for key in ("outputs", "execution_count", "attachments"):
            answer.pop(key, None)
        answer |= {key: value for key, value in stub.items() if key not in ("id", "metadata")}
    try:
        kept = _keep(path, "kept")
        write_whole(path, notebook_files.written(mine))
    except OSError as error:
        raise WorkbookError(f"{path} can't be written: {error.strerror or error}.") from None
    return Change(path, "reset", kept)


def usual_folder() -> Path:
    """The folder to use where none is named: this one, the one below, the last used, else a new one."""
    here = Path.cwd()
    below = here / DEFAULT_NAME
    if is_workbook(here):
        return here
    if is_workbook(below):
        return below
    try:
        last = Path(json.loads(_memory().read_text(encoding="utf-8"))["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return below
    return last if is_workbook(last) else below


def is_workbook(folder: Path) -> bool:
    """Whether the folder holds a learner's copy of the course (and not the course itself)."""
    return not _is_checkout(folder) and (
        (folder / _HIDDEN).is_dir() or notebook_files.holds_course(folder)
    )


def _refuse_dangerous(folder: Path) -> None:
    instead = "name a new or empty folder, for example: grader start my-course"
    if folder.exists() and not folder.is_dir():
        raise WorkbookError(f"{folder} is a file; {instead}.")
    if folder in (Path.home().resolve(), Path(folder.anchor)):
        raise WorkbookError(f"{folder} is too much to be one course's folder; {instead}.")
    if _is_checkout(folder):
        raise WorkbookError(f"{folder} is where the course itself lies; {instead}.")
    if not folder.exists() or is_workbook(folder):
        return
    try:
        others = sorted(path.name for path in folder.iterdir() if path.name[0] != ".")
    except OSError as error:
        raise WorkbookError(f"{folder} can't be read: {error.strerror or error}.") from None
    if others:
        raise WorkbookError(
            f"{folder} already holds other things ({', '.join(others[:3])}); {instead}."
        )


def _is_checkout(folder: Path) -> bool:
    """Whether ``folder`` lies in the package, or in the ``course/`` or ``solutions/`` of a checkout."""
    around = (folder, *folder.parents)
    return Path(resources.__file__).resolve().parent in around or any(
        path.name in ("course", "solutions") and (path.parent / "grader/resources.py").is_file()
        for path in around
    )


def _bring_up_to_date(folder: Path, name: str, elsewhere: dict[str, str]) -> Change | None:
    release, handed_out = resources.released(name), folder / _HIDDEN / f"{name}.ipynb"
    path = folder / name / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.resolve()  # a link stays a link: what it points to is replaced
    new = release.read_bytes()
    old = handed_out.read_bytes() if handed_out.is_file() else None
    if not path.exists():
        change: Change | None = _write_new(path, release, elsewhere)
    elif path.read_bytes() == old != new:
        change = replace(_write_new(path, release, elsewhere), what="updated")
    else:
        change = _carry_over(path, release, handed_out, old == new, elsewhere)
    if old != new:
        write_whole(handed_out, new)
    return change


def _write_new(path: Path, release: Path, elsewhere: dict[str, str]) -> Change:
    """The notebook as released, with the answers that other notebooks of the folder have for it."""
    released = notebook_files.read(release)
    merged = merge.merge(released, released, released, elsewhere)
    write_whole(
        path, notebook_files.written(merged.notebook) if merged.answers else release.read_bytes()
    )
    return Change(path, "new", answers=tuple(merged.answers))


def _carry_over(
    path: Path, release: Path, handed_out: Path, up_to_date: bool, elsewhere: dict[str, str]
) -> Change | None:
    """The learner's work in the release's form; a file that is no notebook is set aside."""
    try:
        mine = notebook_files.read(path)
    except ValueError:
        kept = _keep(path, "damaged")
        return replace(_write_new(path, release, {}), what="damaged", kept=kept)
    if up_to_date:
        return None
    released = notebook_files.read(release)
    merged = merge.merge(released, mine, _base(handed_out, mine, released), elsewhere)
    if notebook_files.content(merged.notebook) == notebook_files.content(mine):
        return None
    kept = _keep(path, "kept")
    write_whole(path, notebook_files.written(merged.notebook))
    return Change(path, "updated", kept, tuple(merged.answers), merged.own_cells)


def _base(handed_out: Path, mine: Notebook, released: Notebook) -> Notebook | None:
    """What the learner's notebook was copied from, as far as can be told."""
    try:
        return notebook_files.read(handed_out)
    except (OSError, ValueError):
        same = notebook_files.stamp(mine) == notebook_files.stamp(released)
        return released if same else None


def _other_files(names: list[str]) -> list[tuple[Path, Path]]:
    """Pictures and data beside the notebooks: (where they are, their path in the folder)."""
    course = resources.course_dir()
    files = (path for name in names for path in sorted((course / name).rglob("*")))
    return [
        (path, path.relative_to(course))
        for path in files
        if path.is_file() and path.suffix != ".ipynb" and path.name[0] != "."
    ]


def _place(folder: Path, source: Path, inside: Path) -> Change | None:
    path, content = folder / inside, source.read_bytes()
    if path.exists() and path.read_bytes() == content:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = _keep(path, "kept") if path.exists() else None
    write_whole(path, content)
    return Change(path, "updated" if kept else "new", kept)


def _keep(path: Path, why: str) -> Path:
    """A copy of the file beside it, under a dated name."""
    kept = aside(path, why)
    write_whole(kept, path.read_bytes())
    return kept


def _memory() -> Path:
    return progress.data_dir() / "folder.json"


def _remember(folder: Path) -> None:
    """So that ``grader start`` finds the folder again; where that can't be kept, it must be named."""
    with contextlib.suppress(OSError):
        _memory().parent.mkdir(parents=True, exist_ok=True)
        write_whole(_memory(), json.dumps({"folder": str(folder)}) + "\n")
