"""Run a notebook's code cells as Jupyter would, with nobody at the keyboard and no screen.

The cells arrive as text. Each runs in one IPython shell, so magics, ``await`` and the last
expression's display work; an error in one doesn't stop the next; none can read from a keyboard or
run a shell command. Then the notebook's functions can be called by name.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import SList
from torch import Tensor
from traitlets import Type
from traitlets.config import Config

from grader.pupil import standin
from grader.pupil.calling import Calls
from grader.pupil.capture import Descriptor2, Printed, captured
from grader.pupil.frames import learners_traceback, one_line
from grader.pupil.reply import Ask, Outcome, Reply, Series, one_by_one
from grader.pupil.runs import CellRun
from grader.pupil.timer import Timer


class _Unseen(DisplayHook):
    """Keeps a cell's last value in ``_`` and ``Out``; formatting it for nobody takes longer than most cells."""

    def __call__(self, result: Any = None) -> None:
        self.check_for_underscore()
        if result is not None:
            self.update_user_ns(result)
            self.fill_exec_result(result)


class _Shell(InteractiveShell):
    """IPython's shell without a screen, a keyboard or a way out."""

    displayhook_class = Type(_Unseen)

    def transform_cell(self, raw_cell: str) -> str:
        """Several lines of plain Python stay as they are; to find that out takes IPython longer."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cell's own come when it is compiled
            try:
                ast.parse(raw_cell)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return str(super().transform_cell(raw_cell))
        lines = raw_cell.rstrip("\n") + "\n"
        return lines if lines.count("\n") > 1 else str(super().transform_cell(raw_cell))

    def enable_gui(self, gui: str | None = None) -> None:
        """Pictures are drawn by matplotlib's Agg backend, into memory: no window to open."""

    def enable_matplotlib(self, gui: str | None = None) -> tuple[str, str]:
        return "agg", "agg"

    def enable_pylab(self, *args: Any, **kwargs: Any) -> None:
        """``%pylab`` would import names over the learner's own."""

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        """The error is in the cell's result, and is shown with the learner's own frames only."""

    showsyntaxerror = showtraceback

    def _format_exception_for_storage(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """IPython formats each traceback for a history that nobody reads; the first takes half a second."""
        return {}

    def ask_exit(self) -> None:
        """``exit`` ends a session; here it ends nothing, and the next cell runs."""


class Notebook:
    """The notebook side of a pupil: ``run`` its cells, then ask for its functions' ``replies``.

    One in a process: it puts the stand-in for ``grader`` in place, and replaces ``input``.
    """

    def __init__(self) -> None:
        os.environ["MPLBACKEND"] = "Agg"
        builtins.input = _nobody_there
        self._noted = standin.install()
        quiet = Config()
        quiet.HistoryManager.enabled = False
        quiet.InteractiveShell.colors = "nocolor"
        self._shell = _Shell.instance(config=quiet)
        for name in ("system", "system_piped", "system_raw"):
            setattr(self._shell, name, _not_run)
        vars(self._shell)["getoutput"] = _no_lines
        for magic in ("pip", "conda", "mamba", "micromamba", "uv"):
            self._shell.register_magic_function(_not_run, "line", magic)  # type: ignore[arg-type]
        for magic in ("bash", "sh", "script", "perl", "ruby", "python", "python3", "pypy"):
            self._shell.register_magic_function(_not_run_cell, "cell", magic)  # type: ignore[arg-type]

    def run(self, cells: Sequence[tuple[int, str]], wall: float) -> Iterator[CellRun]:
        """Run (number, source) after (number, source) within ``wall`` seconds for all of them.

        Whatever a cell raises is remembered, not raised. The one that takes the last of the time ends it.
        """
        with Descriptor2() as stderr:
            for number, source in cells:
                ran = self._run(number, source, wall, stderr)
                yield ran
                wall -= ran.seconds
                if wall <= 0:
                    return

    def _run(self, number: int, source: str, wall: float, stderr: Descriptor2) -> CellRun:
        printed, timer, started = Printed(), Timer(wall), time.perf_counter()
        self._shell.execution_count = number
        error: BaseException | None = None
        try:
            with captured(printed, stderr), timer:
                result = self._shell.run_cell(source, store_history=True)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as escaped:  # a signal between IPython's own frames
            error = escaped
        words, frames = (one_line(error), learners_traceback(error)) if error else ("", "")
        if timer.expired:
            words, frames = f"The cell ran longer than {wall:.0f} s and was stopped.", ""
        seconds = time.perf_counter() - started
        return CellRun(number, words, frames, printed.text(), seconds)

    def replies(self, series: Series) -> Iterator[Reply]:
        """As ``Pupil.replies``, from the notebook's function of that name."""
        with Calls() as calls:

            def call(ask: Ask, left: float) -> Reply:
                function = self._find(series.name)
                if function is None:
                    return Reply(
                        Outcome.NOT_ATTEMPTED, error=f"No function named {series.name} was found."
                    )
                try:
                    return calls.call(function, ask.args, left, ask.watch_memory)
                except KeyboardInterrupt:  # nobody is at a keyboard: the learner's code raised it
                    return Reply(Outcome.CRASHED, error="KeyboardInterrupt")

            yield from one_by_one(call, series)

    def _find(self, name: str) -> Callable[..., Any] | None:
        """The function given to ``check`` under that name, else what the notebook calls so."""
        candidate = self._noted.get(name, self._shell.user_ns.get(name))
        return candidate if callable(candidate) and not isinstance(candidate, Tensor) else None


def _nobody_there(prompt: object = "") -> NoReturn:
    raise EOFError(
        "input() has nobody to answer it while the notebook is graded. Write the value in the cell."
    )


def _not_run(command: str, *args: Any, **kwargs: Any) -> None:
    """In place of a program."""
    print(f"(not run while the notebook is graded: {command.strip()[:80]})")


def _not_run_cell(line: str, cell: str) -> None:
    _not_run(f"{line} {cell}")


def _no_lines(command: str, *args: Any, **kwargs: Any) -> SList:
    """What ``files = !ls`` reads."""
    _not_run(command)
    return SList()


def prefer_local_modules() -> None:
    """Let the notebook import files beside it, as in Jupyter; after our own imports are done."""
    sys.path.insert(0, os.getcwd())
