"""``grader start``: prove that answers are judged here, lay out the folder, open JupyterLab on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from grader import resources
from grader.lab import proof, server, workbook
from grader.lab.workbook import Change


class NotWorking(Exception):
    """This installation can't judge answers; the message says what happened."""


def start(
    folder: Path | None, say: Callable[[str], None], *, port: int | None, browser: bool
) -> None:
    """Open the course in ``folder`` (the usual one if None) and stay until the learner ends it.

    Raises NotWorking, workbook.WorkbookError, resources.CourseNotFound, server.CannotOpen.
    """
    proved = proof.prove()
    if not proved.ok:
        raise NotWorking(f"{proved.message} `grader doctor` shows what is missing.")
    folder = (folder or workbook.usual_folder()).expanduser().resolve()
    changes = workbook.prepare(folder)
    say(f"The judge works. Your folder: {folder}")
    for line in told(changes, folder):
        say(line)
    fresh = any(change.what == "new" for change in changes)
    first = resources.notebooks()[0]
    page = f"{first}/{first}.ipynb" if fresh else ""
    server.serve(folder, say, port=port, browser=browser, page=page)


def told(changes: Iterable[Change], folder: Path) -> list[str]:
    """What happened to the learner's files, a sentence each; new ones are only counted."""
    changes = list(changes)
    new = [change for change in changes if change.what == "new" and not change.answers]
    lines = [f"{len(new)} new file{'s' * (len(new) != 1)} of the course."] if new else []
    return lines + [_sentence(change, folder) for change in changes if change not in new]


def _sentence(change: Change, folder: Path) -> str:
    name = _short(change.file, folder)
    kept = f" The old file is kept as {_short(change.kept, folder)}." if change.kept else ""
    if change.what == "damaged":
        return f"{name} could not be read as a notebook; it starts afresh.{kept}"
    if change.what == "reset":
        return f"The answer in {name} is back to its stub.{kept}"
    carried = f"{len(change.answers)} answer{'s' * (len(change.answers) != 1)}"
    own = f" and {change.own_cells} cells of your own" if change.own_cells else ""
    return f"{name} is in the course's new edition, with {carried}{own}.{kept}"


def _short(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
