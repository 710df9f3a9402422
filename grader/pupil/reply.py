"""What comes back when a question was put to a learner's code."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Protocol


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


class Pupil(Protocol):
    """Whoever answers: a function in this process, or a notebook in another one.

    guarded: the answers run in a process of their own, which may be killed without loss
    """

    guarded: bool

    def call(
        self, name: str, args: tuple[Any, ...], wall: float, *, watch_memory: bool = False
    ) -> Reply:
        """Put one question to the function ``name``, within ``wall`` seconds.

        Whatever the learner's code does comes back as a Reply; args are not changed.
        watch_memory: also fill in ``Reply.largest_mib`` (costs time)
        """
        ...
