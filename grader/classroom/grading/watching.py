"""A bar that tells a person how far the batch is, how fast, and how long it will take yet."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from grader.classroom.grading.one import Outcome


class _Rate(ProgressColumn):
    """Submissions a second, over the last of them."""

    def render(self, task: Task) -> Text:
        speed = task.speed or 0.0
        if not speed:
            return Text("–/s")
        return Text(f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each")


class Bar:
    """``with Bar() as bar:`` — a watcher for a terminal, on stderr; without a person it is silent."""

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._looks = 0
        self._progress = Progress(
            TextColumn("grading"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[looks]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("grading", total=None, looks="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begins(self, to_grade: int, graded_before: int) -> None:
        self._progress.update(self._task, total=to_grade)

    def graded(self, outcome: Outcome) -> None:
        self._looks += bool(outcome.trouble) or not outcome.settled
        looks = f"{self._looks} need a look" if self._looks else ""
        self._progress.update(self._task, advance=1, looks=looks)
