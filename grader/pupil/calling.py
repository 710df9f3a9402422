"""Put one question to a learner's function and bring back a reply, whatever the function does.

The function gets copies of the arguments, runs under a timer with its output kept, and the process
is left as it was. One call at a time in a process: output, timer and generators are the process's.
What guards a call can cost more than the call, so many in a row share it (``Calls``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from grader.pupil.capture import Descriptor2, Printed, captured
from grader.pupil.copies import clone, same
from grader.pupil.frames import learners_traceback, one_line, raised_by_stub
from grader.pupil.guards import Generators, no_new_figures, torch_settings
from grader.pupil.memory import LargestAllocation
from grader.pupil.reply import Outcome, Reply, Series, one_by_one
from grader.pupil.timer import Timer, TimeUp


def call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    wall: float,
    watch_memory: bool = False,
) -> Reply:
    """`Calls.call`, once."""
    with Calls() as calls:
        return calls.call(function, args, wall, watch_memory)


class Calls:
    """``with Calls() as calls:`` and then ``calls.call(…)``, with none of our own prints in between."""

    def __enter__(self) -> Self:
        self._generators = Generators()
        self._stderr = Descriptor2().__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stderr.__exit__()

    def call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        wall: float,
        watch_memory: bool = False,
    ) -> Reply:
        """Call ``function`` with copies of ``args``, for at most ``wall`` seconds.

        Whatever the function raises becomes the reply's outcome; only KeyboardInterrupt goes on, since
        it is the person at the keyboard who raises it. ``watch_memory`` (slow) records the largest
        allocation.
        """
        lent = clone(args)
        printed = Printed()
        watch = LargestAllocation() if watch_memory else None
        self._generators.stir()
        try:
            with captured(printed, self._stderr), no_new_figures(), torch_settings():
                reply = _ask(function, lent, wall, watch)
        finally:
            touched = self._generators.restore()
        return dataclasses.replace(
            reply,
            printed=printed.text(),
            touched_rng=touched,
            mutated=tuple(
                i for i, (a, b) in enumerate(zip(args, lent, strict=True)) if not same(a, b)
            ),
            largest_mib=watch.mib if watch else 0.0,
        )


def _ask(
    function: Callable[..., Any],
    lent: tuple[Any, ...],
    wall: float,
    watch: LargestAllocation | None,
) -> Reply:
    timer = Timer(wall)
    started = time.perf_counter()
    try:
        with timer, watch or contextlib.nullcontext():
            value = next(_with_exceptions_of_its_own(function, lent))
        reply = Reply(Outcome.ANSWERED, value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reply = _failure(error, wall, function)
    if timer.expired:  # also where the function caught TimeUp and answered all the same
        reply = _failure(TimeUp(), wall, function)
    return dataclasses.replace(reply, seconds=time.perf_counter() - started)


def _with_exceptions_of_its_own(
    function: Callable[..., Any], lent: tuple[Any, ...]
) -> Iterator[Any]:
    """A generator keeps its own ``sys.exc_info``.

    Stopping a loop inside its ``except`` can leave Python believing that the exception is still being
    handled; here that ends with the generator.
    """
    yield function(*lent)


def _failure(error: BaseException, wall: float, function: Callable[..., Any]) -> Reply:
    if isinstance(error, TimeUp):
        return Reply(Outcome.TIMEOUT, error=f"No answer came within {wall:g} s.")
    if isinstance(error, NotImplementedError) and (stub := raised_by_stub(error)):
        mine = stub == getattr(function, "__name__", stub)
        words = "" if mine else f"Your answer calls {stub}, which still raises NotImplementedError."
        return Reply(Outcome.NOT_ATTEMPTED, error=words)
    outcome = Outcome.OUT_OF_MEMORY if _is_out_of_memory(error) else Outcome.CRASHED
    return Reply(outcome, error=one_line(error), traceback=learners_traceback(error))


_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    message = one_line(error).lower()
    return isinstance(error, RuntimeError) and any(words in message for words in _OUT_OF_MEMORY)


class InProcess:
    """The pupil whose functions live in this process: a learner's own notebook."""

    guarded = False

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = dict(functions)

    def call(
        self, name: str, args: tuple[Any, ...], wall: float, watch_memory: bool = False
    ) -> Reply:
        function = self._functions.get(name)
        if function is None:
            return Reply(Outcome.NOT_ATTEMPTED, error=f"No function named {name} was found.")
        return call(function, args, wall, watch_memory)

    def replies(self, series: Series) -> Iterator[Reply]:
        """Each is asked when its reply is wanted."""
        return one_by_one(
            lambda ask, left: self.call(series.name, ask.args, left, ask.watch_memory), series
        )

    def ahead(self, many: Sequence[Series]) -> dict[str, list[Reply]]:
        """None: here a function is asked without delay."""
        return {}
