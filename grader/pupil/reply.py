"""What comes back when a question was put to a learner's code."""

from __future__ import annotations

import dataclasses
import enum
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Outcome(enum.StrEnum):
    ANSWERED = "answered"
    NOT_ATTEMPTED = "not attempted"  # the stub's NotImplementedError, or no such function
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out of memory"


@dataclasses.dataclass(frozen=True)
class Reply:
    """One reply. Beyond ``value`` it holds what the pupil's side claims, which is not evidence.

    error: "TypeError: …", the learner's exception in one line
    traceback: the learner's frames only
    printed: what the call printed, cut
    mutated: indices of the arguments that were changed in place
    touched_rng: the global generators that were used or reseeded ("torch", "numpy", "random")
    largest_mib: the largest single allocation seen, where it was watched, else 0
    """

    outcome: Outcome
    value: Any = None
    error: str = ""
    traceback: str = ""
    printed: str = ""
    mutated: tuple[int, ...] = ()
    touched_rng: tuple[str, ...] = ()
    largest_mib: float = 0.0
    seconds: float = 0.0


class Ask(NamedTuple):
    """One question. watch_memory: also fill in ``Reply.largest_mib`` (costs time)."""

    args: tuple[Any, ...]
    watch_memory: bool = False


class Series(NamedTuple):
    """The questions to the function ``name``, one after the other, and the seconds for all of them."""

    name: str
    asks: Sequence[Ask]
    wall: float


LEAST = 0.05  # seconds that a question gets, however little is left for all
ENDING = (Outcome.NOT_ATTEMPTED, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY)


class Pupil(Protocol):
    """Whoever answers: a function in this process, or a notebook in another one.

    guarded: the answers run in a process of their own, which may be killed without loss
    """

    guarded: bool

    def replies(self, series: Series) -> Iterable[Reply]:
        """In order, up to the first whose outcome is ``ENDING``: after that nothing is asked.

        Whatever the learner's code does comes back as a Reply; its arguments are not changed.
        """
        ...

    def ahead(self, many: Sequence[Series]) -> Mapping[str, Sequence[Reply]]:
        """The replies to series for several functions, by name, where asking all at once saves time.

        What is missing, be it all, is to be asked for with ``replies``.
        """
        ...


def one_by_one(call: Callable[[Ask, float], Reply], series: Series) -> Iterator[Reply]:
    """What ``Pupil.replies`` does, by means of ``call``: (a question, seconds for it) → its reply."""
    started = time.perf_counter()
    for ask in series.asks:
        reply = call(ask, max(series.wall - (time.perf_counter() - started), LEAST))
        yield reply
        if reply.outcome in ENDING:
            return
