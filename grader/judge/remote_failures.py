"""How a notebook's process can fail, and whose fault that is. Nothing here imports torch."""

from __future__ import annotations

import os
import signal

from grader.pupil.reply import Outcome

TO_DIE = 10.0  # seconds that a process gets to be gone


class PupilNotStarted(RuntimeError):
    """The process for the notebook could not be started: the grader's fault, nobody's zero."""


class Interrupted(PupilNotStarted):
    """What stands between the judge and the process broke down while it ran: to be tried again."""


class Gone(Exception):
    """No answer came, and none will: the process ended or was killed for its silence."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


def how_it_ended(status: int, said: str = "") -> Gone:
    """What a process's end says about its notebook; status: as subprocess counts (-9 is SIGKILL)."""
    if os.name == "posix" and status == -signal.SIGKILL:
        return Gone(
            Outcome.OUT_OF_MEMORY, "The system killed the process, as it does when memory runs out."
        )
    if os.name == "posix" and status == -signal.SIGXCPU:
        return Gone(Outcome.TIMEOUT, "The process used up the processor time allowed.")
    how = _signal_name(-status) if status < 0 else f"exit status {status}"
    return Gone(Outcome.CRASHED, f"The process ended while your code ran ({how}).{said}")


def last_words(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return f" Its last words: {lines[-1][:300]}" if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
