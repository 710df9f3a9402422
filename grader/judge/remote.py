"""A notebook in a process of its own, as a pupil: it is asked over pipes, and killed where it hangs.

The process is spawned, never forked, and works on every system. This keeps a learner's crash, loop or
hunger for memory out of the judge's process; it doesn't lock anything: a stranger's notebook needs
the sandbox.

Who is to blame is decided by when it happens. Until the process has said that it is ready, a failure
is the grader's (PupilNotStarted); from then on everything, silence and nonsense included, is an answer
of the notebook's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from grader.judge.remote_process import Gone, Process, PupilNotStarted
from grader.pupil.reply import Outcome, Reply
from grader.pupil.runs import CellRun
from grader.pupil.wire import WireError

__all__ = ["ProcessPupil", "PupilNotStarted"]

GRACE = 10.0  # seconds that a timer inside the process gets to work before the process is killed
WARMING_UP = 30.0  # watching memory makes torch import much, once
LEAST_FOR_A_CELL = 2.0
_LONGEST = {"error": 2_000, "traceback": 20_000, "printed": 3_000}
_GENERATORS = ("torch", "numpy", "random")


class ProcessPupil:
    """``with ProcessPupil(cells) as pupil:`` runs the cells, then ``pupil.call(…)`` asks its functions.

    cells: (number, source) of the code cells to run, in order
    wall: seconds for all the cells together; each that comes later still gets two
    memory_mib: a ceiling for the process beyond its start, where the system has one
    folder: where the notebook lies, for files that it reads

    ``runs`` says what became of each cell. A cell that ends the process or can't be stopped is left out,
    and the others run again in a new process; a question that does so costs only its own exercise.
    Raises PupilNotStarted.
    """

    guarded = True

    def __init__(
        self,
        cells: Sequence[tuple[int, str]],
        *,
        wall: float = 300.0,
        start_wall: float = 120.0,
        memory_mib: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.runs: list[CellRun] = []
        self._cells, self._wall_left, self._start_wall = list(cells), wall, start_wall
        self._memory, self._folder = memory_mib, folder
        self._lost_cells: dict[int, CellRun] = {}
        self._lost: dict[str, Reply] = {}
        self._asked = 0
        self._process: Process | None = None

    def __enter__(self) -> ProcessPupil:
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
        self._asked += 1
        question = {
            "do": "call", "id": self._asked, "name": name, "args": args, "wall": wall,
            "watch_memory": watch_memory,
        }  # fmt: skip
        deadline = wall + GRACE + (WARMING_UP if watch_memory else 0.0)
        started = time.monotonic()
        try:
            return _read_reply(process.ask(question, deadline), self._asked, len(args))
        except Gone as gone:
            lost = Reply(gone.outcome, error=str(gone), seconds=time.monotonic() - started)
        except WireError as error:
            lost = Reply(Outcome.CRASHED, error=f"What came back was no answer. {error}")
        self.close()
        self._lost[name] = lost
        return lost

    def _ready(self) -> Process:
        """The process with its cells run; begins again without a cell that brought it down."""
        while self._process is None:
            process = Process(self._start_wall, self._memory, self._folder)
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

    def _run_cells(self, process: Process) -> bool:
        """Run the cells → whether the process survived them."""
        self.runs = []
        for number, source in self._cells:
            if number in self._lost_cells:
                self.runs.append(self._lost_cells[number])
                continue
            wall = max(self._wall_left, LEAST_FOR_A_CELL)
            cell = {"do": "run", "number": number, "source": source, "wall": wall}
            started = time.monotonic()
            try:
                ran = _read_ran(process.ask(cell, wall + GRACE), number)
            except (Gone, WireError, ValueError) as error:
                self._lost_cells[number] = CellRun(number, error=f"{error} The cell was left out.")
                return False
            else:
                self.runs.append(ran)
                if ran.seconds >= wall:
                    self._lost_cells[number] = ran  # once is enough, should we begin again
            finally:
                self._wall_left -= time.monotonic() - started
        return True


def _read_reply(answer: Any, asked: int, arguments: int) -> Reply:
    """The reply in an answer, every field checked. Raises WireError."""
    _demand(isinstance(answer, dict) and answer.get("id") == asked, "it answers something else")
    fields = answer.get("reply")
    _demand(isinstance(fields, dict), "it holds no reply")
    _demand(set(fields) == set(Reply.__dataclass_fields__), "a reply's field is missing")
    _demand(fields["outcome"] in set(Outcome), "its outcome is unknown")
    mutated, touched = fields["mutated"], fields["touched_rng"]
    _demand(isinstance(mutated, tuple) and isinstance(touched, tuple), "a claim is malformed")
    _demand(all(type(i) is int and 0 <= i < arguments for i in mutated), "no such argument")
    _demand(all(name in _GENERATORS for name in touched), "no such generator")
    for name in ("largest_mib", "seconds"):
        value = fields[name]
        _demand(isinstance(value, int | float) and value >= 0, f"{name} is no number")
    return Reply(**{**fields, "outcome": Outcome(fields["outcome"]), **_texts(fields)})


def _read_ran(answer: Any, number: int) -> CellRun:
    """What became of a cell. Raises WireError."""
    _demand(isinstance(answer, dict), "it says nothing of the cell")
    fields = answer.get("ran")
    _demand(isinstance(fields, dict), "it says nothing of the cell")
    _demand(set(fields) == set(CellRun.__dataclass_fields__), "a field is missing")
    _demand(fields["number"] == number, "it is about another cell")
    _demand(isinstance(fields["seconds"], float), "seconds is no number")
    return CellRun(**{**fields, **_texts(fields)})


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """The learner's texts, cut to what a verdict can show."""
    for name in _LONGEST:
        _demand(isinstance(fields[name], str), f"{name} is no text")
    return {name: fields[name][:longest] for name, longest in _LONGEST.items()}


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WireError(f"The answer is malformed: {otherwise}.")
