"""A notebook in a process of its own, as a pupil: asked over a connection, killed where it hangs.

``RemotePupil`` is every such pupil; ``ProcessPupil`` the one whose process is spawned beside the judge
and works on every system. That keeps a learner's crash, loop or hunger for memory out of the judge's
process, but locks nothing: a stranger's notebook needs ``grader.judge.sandbox``.

Who is to blame is decided by when it happens. Until the process has said that it is ready, a failure
is the grader's (PupilNotStarted); from then on everything, silence and nonsense included, is an answer
of the notebook's.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import TracebackType
from typing import Any, Self

from grader.judge.remote_connection import Connection, Gone, Interrupted, PupilNotStarted
from grader.judge.remote_process import Process
from grader.pupil.reply import Outcome, Reply
from grader.pupil.runs import CellRun
from grader.pupil.wire import WireError

__all__ = ["ProcessPupil", "PupilNotStarted", "RemotePupil"]

GRACE = 10.0  # seconds that a timer inside the process gets to work before the process is killed
WARMING_UP = 30.0  # watching memory makes torch import much, once
LEAST_FOR_A_CELL = 2.0
_TOO_LATE = "The cell was not run: those before it took too long."
_LONGEST = {"error": 2_000, "traceback": 20_000, "printed": 3_000}
_GENERATORS = ("torch", "numpy", "random")


class RemotePupil:
    """``with RemotePupil(cells, connect) as pupil:`` runs the cells, then ``pupil.call(…)`` asks.

    cells: (number, source) of the code cells to run, in order
    connect: starts a process for the notebook and gives the connection to it, which is ready
    wall: seconds for all the cells together; each that comes later still gets two, until those have
        taken as long again: what is left then is not run

    ``runs`` says what became of each cell. A cell that ends the process or can't be stopped is left out,
    and the others run again in a new process; a question that does so costs only its own exercise.
    Raises PupilNotStarted.
    """

    guarded = True

    def __init__(
        self,
        cells: Sequence[tuple[int, str]],
        connect: Callable[[], Connection],
        *,
        wall: float = 300.0,
    ) -> None:
        self.runs: list[CellRun] = []
        self._cells, self._connect = list(cells), connect
        self._wall = self._wall_left = wall
        self._lost_cells: dict[int, CellRun] = {}
        self._lost: dict[str, Reply] = {}
        self._interrupted = False
        self._process: Connection | None = None

    def __enter__(self) -> Self:
        self._ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; a later call would start another."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def call(
        self, name: str, args: tuple[Any, ...], wall: float, watch_memory: bool = False
    ) -> Reply:
        """Ask ``name``. Raises PupilNotStarted, and ValueError where our own question can't be sent."""
        if name in self._lost:
            return self._lost[name]
        process = self._ready()
        asked = secrets.token_hex(8)  # nothing can be answered before it is asked
        question = {
            "do": "call", "id": asked, "name": name, "args": args, "wall": wall,
            "watch_memory": watch_memory,
        }  # fmt: skip
        deadline = wall + GRACE + (WARMING_UP if watch_memory else 0.0)
        started = time.monotonic()
        try:
            return _read_reply(process.ask(question, deadline), asked, len(args))
        except Gone as gone:
            lost = Reply(gone.outcome, error=str(gone), seconds=time.monotonic() - started)
        except WireError as error:
            lost = Reply(Outcome.CRASHED, error=f"What came back was no answer. {error}")
        except Interrupted as error:
            if self._once_more():
                return self.call(name, args, wall, watch_memory)
            lost = Reply(Outcome.CRASHED, error=f"{error} It happened twice while this code ran.")
        self.close()
        self._lost[name] = lost
        return lost

    def _once_more(self) -> bool:
        """Whether a breakdown that isn't the notebook's doing may be forgotten: the first one only.

        Else a notebook that brings down the sandbox each time would never get a verdict.
        """
        first, self._interrupted = not self._interrupted, True
        self.close()
        return first

    def _ready(self) -> Connection:
        """The process with its cells run; begins again without a cell that brought it down."""
        while self._process is None:
            process = self._connect()
            try:
                survived = self._run_cells(process)
            except BaseException:
                process.kill()
                raise
            if survived:
                self._process = process
            else:
                process.kill()
        return self._process

    def _run_cells(self, process: Connection) -> bool:
        """Run the cells → whether the process survived them."""
        self.runs = []
        for number, source in self._cells:
            if number in self._lost_cells:
                self.runs.append(self._lost_cells[number])
                continue
            if self._wall_left <= -self._wall:
                self.runs.append(CellRun(number, error=_TOO_LATE))
                continue
            wall = max(self._wall_left, LEAST_FOR_A_CELL)
            cell = {"do": "run", "number": number, "source": source, "wall": wall}
            started = time.monotonic()
            try:
                ran = _read_ran(process.ask(cell, wall + GRACE), number)
            except (Gone, WireError, ValueError, Interrupted) as error:
                if not (isinstance(error, Interrupted) and self._once_more()):
                    self._lost_cells[number] = CellRun(
                        number, error=f"{error} The cell was left out."
                    )
                return False
            else:
                self.runs.append(ran)
                if ran.seconds >= wall:
                    self._lost_cells[number] = ran  # once is enough, should we begin again
            finally:
                self._wall_left -= time.monotonic() - started
        return True


class ProcessPupil(RemotePupil):
    """A pupil in a spawned process, which is fenced in by nothing but a ceiling on its memory.

    memory_mib: that ceiling beyond the process's start, where the system has one
    folder: where the notebook lies, for files that it reads
    """

    def __init__(
        self,
        cells: Sequence[tuple[int, str]],
        *,
        wall: float = 300.0,
        start_wall: float = 120.0,
        memory_mib: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(cells, lambda: Process(start_wall, memory_mib, folder), wall=wall)


def _read_reply(answer: Any, asked: str, arguments: int) -> Reply:
    """The reply in an answer, every field checked. Raises WireError.

    Each type is checked before anything is compared: an array "equals" in its own way.
    """
    fields = _fields(answer, "reply", Reply)
    identity = answer.get("id")
    _demand(type(identity) is str and identity == asked, "it answers something else")
    _demand(
        type(fields["outcome"]) is str and fields["outcome"] in set(Outcome),
        "its outcome is unknown",
    )
    mutated, touched = fields["mutated"], fields["touched_rng"]
    _demand(type(mutated) is tuple and type(touched) is tuple, "a claim is malformed")
    _demand(all(type(i) is int and 0 <= i < arguments for i in mutated), "no such argument")
    _demand(all(type(g) is str and g in _GENERATORS for g in touched), "no such generator")
    for name in ("largest_mib", "seconds"):
        value = fields[name]
        _demand(type(value) in (int, float) and 0 <= value < inf, f"{name} is no number")
    return Reply(**{**fields, "outcome": Outcome(fields["outcome"]), **_texts(fields)})


def _read_ran(answer: Any, number: int) -> CellRun:
    """What became of a cell. Raises WireError."""
    fields = _fields(answer, "ran", CellRun)
    _demand(
        type(fields["number"]) is int and fields["number"] == number, "it is about another cell"
    )
    _demand(
        type(fields["seconds"]) is float and 0 <= fields["seconds"] < inf, "seconds is no number"
    )
    return CellRun(**{**fields, **_texts(fields)})


def _fields(answer: Any, kind: str, shape: type[Reply] | type[CellRun]) -> dict[str, Any]:
    _demand(type(answer) is dict and type(answer.get(kind)) is dict, f"it holds no {kind}")
    fields: dict[str, Any] = answer[kind]
    _demand(all(type(name) is str for name in fields), "a field has no name")
    _demand(set(fields) == set(shape.__dataclass_fields__), "a field is missing")
    return fields


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """The learner's texts, cut to what a verdict can show."""
    for name in _LONGEST:
        _demand(type(fields[name]) is str, f"{name} is no text")
    return {name: fields[name][:longest] for name, longest in _LONGEST.items()}


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WireError(f"The answer is malformed: {otherwise}.")
