"""A notebook in a process of its own, as a pupil: asked over a connection, killed where it hangs.

``RemotePupil`` is every such pupil; ``ProcessPupil`` the one whose process is spawned beside the judge
and works on every system. That keeps a learner's crash, loop or hunger for memory out of the judge's
process, but locks nothing: a stranger's notebook needs ``grader.judge.sandbox``.

Who is to blame is decided by when it happens. Until the process has said that it is ready, a failure
is the grader's (PupilNotStarted); from then on everything, silence and nonsense included, is an answer
of the notebook's.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from types import TracebackType
from typing import Any, Self

from grader.judge.remote_connection import Connection
from grader.judge.remote_failures import Gone, Interrupted, PupilNotStarted
from grader.judge.remote_process import Process
from grader.pupil.reply import ENDING, LEAST, Ask, Outcome, Reply, Series
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
        self._interrupted = self._one_cell_at_a_time = False
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
        """Ask ``name`` once. Raises as ``replies`` does."""
        return self.replies(Series(name, [Ask(args, watch_memory)], wall))[0]

    def replies(self, series: Series) -> list[Reply]:
        """As ``Pupil.replies``; also ends with the reply that stands for a process that was lost.

        All are asked at once. Where the process ends meanwhile, those without a reply are asked again one
        at a time, so that it shows which of them it was. Raises PupilNotStarted, and ValueError where our
        own question can't be sent.
        """
        name, asks, wall = series
        if name in self._lost:
            return [self._lost[name]]
        replies: list[Reply] = []
        started, at_once = time.monotonic(), len(asks)
        while len(replies) < len(asks):
            left = asks[len(replies) :][:at_once]
            try:
                for _, reply in self._ask([Series(name, left, max(wall - _since(started), LEAST))]):
                    replies.append(reply)
                    if reply.outcome in ENDING:
                        return replies
                continue
            except Interrupted as error:
                if self._once_more():
                    continue
                words = f"{error} It happened twice while this code ran."
                lost = Reply(Outcome.CRASHED, error=words)
            except Gone as gone:
                if len(left) > 1 and gone.outcome is not Outcome.TIMEOUT:
                    at_once = 1
                    self.close()
                    continue
                lost = Reply(gone.outcome, error=str(gone), seconds=_since(started))
            except WireError as error:
                lost = Reply(Outcome.CRASHED, error=f"What came back was no answer. {error}")
            self.close()
            self._lost[name] = lost
            return [*replies, lost]
        return replies

    def ahead(self, many: Sequence[Series]) -> dict[str, list[Reply]]:
        """As ``Pupil.ahead``: whose replies all came before the process was lost, if it was."""
        came: dict[str, list[Reply]] = {}
        try:
            for name, reply in self._ask(many):
                came.setdefault(name, []).append(reply)
        except (Gone, WireError, PupilNotStarted, ValueError) as error:
            self.close()
            awaited = next(one for one in many if not _whole(one, came.get(one.name, ())))
            came.pop(awaited.name, None)
            # Silence needn't be waited for twice; all else ``replies`` will find out, asking anew.
            if isinstance(error, Gone) and error.outcome is Outcome.TIMEOUT:
                self._lost[awaited.name] = Reply(Outcome.TIMEOUT, error=str(error))
        return came

    def _ask(self, many: Sequence[Series]) -> Iterator[tuple[str, Reply]]:
        """Send all the questions, then read the replies; of each series up to one that is ``ENDING``."""
        process = self._ready()
        asked = [[_asked(ask) for ask in series.asks] for series in many]
        calls = [
            {"name": series.name, "wall": series.wall, "asks": asks}
            for series, asks in zip(many, asked, strict=True)
        ]
        question = {"do": "call", "calls": calls}
        hear: Callable[[float], Any] = functools.partial(process.ask, question)
        for series, asks in zip(many, asked, strict=True):
            deadline = time.monotonic() + series.wall + GRACE
            deadline += WARMING_UP if any(ask.watch_memory for ask in series.asks) else 0.0
            for ask, sent in zip(series.asks, asks, strict=True):
                answer = hear(deadline - time.monotonic())
                hear = process.hear
                reply = _read_reply(answer, sent["id"], len(ask.args))
                yield series.name, reply
                if reply.outcome in ENDING:
                    break

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
        while len(self.runs) < len(self._cells):
            number = self._cells[len(self.runs)][0]
            if number in self._lost_cells:
                self.runs.append(self._lost_cells[number])
            elif self._wall_left <= -self._wall:
                self.runs.append(CellRun(number, error=_TOO_LATE))
            elif not self._run_some(process, self._next_cells()):
                return False
        return True

    def _next_cells(self) -> list[tuple[int, str]]:
        """All up to one that was lost, at once; one alone where it has to show which ends the process."""
        left = self._cells[len(self.runs) :]
        together = itertools.takewhile(lambda cell: cell[0] not in self._lost_cells, left)
        one = self._one_cell_at_a_time or self._wall_left <= 0
        return left[:1] if one else list(together)

    def _run_some(self, process: Connection, cells: list[tuple[int, str]]) -> bool:
        wall = max(self._wall_left, LEAST_FOR_A_CELL)
        started = time.monotonic()
        try:
            question = {"do": "run", "cells": cells, "wall": wall}
            ran = _read_ran(process.ask(question, wall + GRACE), [number for number, _ in cells])
        except (Gone, WireError, ValueError, Interrupted) as error:
            if isinstance(error, Interrupted) and self._once_more():
                return False
            if len(cells) > 1:
                self._one_cell_at_a_time = True
                return False
            number = cells[0][0]
            self._lost_cells[number] = CellRun(number, error=f"{error} The cell was left out.")
            return False
        finally:
            self._wall_left -= _since(started)
        self.runs += ran
        if sum(run.seconds for run in ran) >= wall:
            self._lost_cells[ran[-1].number] = ran[-1]  # once is enough, should we begin again
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


def _whole(series: Series, replies: Sequence[Reply]) -> bool:
    return len(replies) == len(series.asks) or (bool(replies) and replies[-1].outcome in ENDING)


def _asked(ask: Ask) -> dict[str, Any]:
    """A question with an id that can't be guessed: nothing can be answered before it is asked."""
    return {"id": secrets.token_hex(8), "args": ask.args, "watch_memory": ask.watch_memory}


def _read_reply(answer: Any, asked: str, arguments: int) -> Reply:
    """The reply in an answer, every field checked. Raises WireError.

    Each type is checked before anything is compared: an array "equals" in its own way.
    """
    _demand(type(answer) is dict, "it holds no reply")
    fields = _named(answer.get("reply"), "reply", Reply)
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


def _read_ran(answer: Any, numbers: Sequence[int]) -> list[CellRun]:
    """What became of the cells: of the first at least, in order. Raises WireError."""
    _demand(type(answer) is dict and type(answer.get("ran")) is list, "it holds no ran")
    told: list[Any] = answer["ran"]
    _demand(0 < len(told) <= len(numbers), "it is about other cells")
    return [_read_run(one, number) for one, number in zip(told, numbers, strict=False)]


def _read_run(told: Any, number: int) -> CellRun:
    fields = _named(told, "ran", CellRun)
    _demand(
        type(fields["number"]) is int and fields["number"] == number, "it is about another cell"
    )
    _demand(
        type(fields["seconds"]) is float and 0 <= fields["seconds"] < inf, "seconds is no number"
    )
    return CellRun(**{**fields, **_texts(fields)})


def _named(fields: Any, kind: str, shape: type[Reply] | type[CellRun]) -> dict[str, Any]:
    """The fields of a claim and no other; what has a default may be missing."""
    _demand(type(fields) is dict, f"it holds no {kind}")
    _demand(all(type(name) is str for name in fields), "a field has no name")
    known = shape.__dataclass_fields__
    _demand(fields.keys() <= known.keys(), "a field is unknown")
    named = {name: fields.get(name, field.default) for name, field in known.items()}
    _demand(all(value is not dataclasses.MISSING for value in named.values()), "a field is missing")
    return named


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """The learner's texts, cut to what a verdict can show."""
    for name in _LONGEST:
        _demand(type(fields[name]) is str, f"{name} is no text")
    return {name: fields[name][:longest] for name, longest in _LONGEST.items()}


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WireError(f"The answer is malformed: {otherwise}.")


def _since(started: float) -> float:
    return time.monotonic() - started
