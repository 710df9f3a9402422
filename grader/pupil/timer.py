"""Stop a learner's loop from outside, as a signal does: in the main thread, where the system has it.

Elsewhere (Windows, a worker thread) there is no such signal and the timer does nothing; there the
process as a whole is what can be stopped.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

OURS = __name__.rpartition(".")[0]


class TimeUp(BaseException):
    """Raised inside the learner's code; not an Exception, so ``except Exception`` lets it through."""


class Timer:
    """``with Timer(wall):`` raises TimeUp in the learner's code once ``wall`` seconds are over.

    A bare ``except:`` would swallow one TimeUp and loop on. So the signal comes again every 100 ms,
    and from the second on the next line that runs raises as well: that line is the one inside the
    ``except:``, where no handler of the same loop can catch it.
    """

    def __init__(self, wall: float) -> None:
        self.wall = max(wall, 1e-3)
        self.expired = False
        self._rings = 0
        self._works = hasattr(signal, "setitimer") and (
            threading.current_thread() is threading.main_thread()
        )

    def __enter__(self) -> Timer:
        if self._works:
            self._base = sys._getframe(1)
            self._tracing = sys.gettrace()
            self._started = time.monotonic()
            self._handler = signal.signal(signal.SIGALRM, self._ring)
            self._other = signal.setitimer(signal.ITIMER_REAL, self.wall, 0.1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._works:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if self.expired:
                sys.settrace(self._tracing)
            signal.signal(signal.SIGALRM, self._handler or signal.SIG_DFL)
            self._resume_other()

    def _resume_other(self) -> None:
        remaining, interval = self._other
        if remaining:
            passed = time.monotonic() - self._started
            signal.setitimer(signal.ITIMER_REAL, max(remaining - passed, 1e-3), interval)

    def _ring(self, signum: int, frame: FrameType | None) -> None:
        theirs = [f for f in self._above_base(frame) if not _is_ours(f)]
        if not theirs:
            return  # the learner's code has returned
        self.expired = True
        self._rings += 1
        printing = theirs[0] is not frame  # a frame of ours is on top: let it finish
        if printing or self._rings > 1:
            for one in theirs:
                one.f_trace = _raise_at_next_line
            sys.settrace(_raise_at_next_line)
        if not printing:
            raise TimeUp

    def _above_base(self, frame: FrameType | None) -> Iterator[FrameType]:
        while frame is not None and frame is not self._base:
            yield frame
            frame = frame.f_back


def _raise_at_next_line(frame: FrameType, event: str, arg: Any) -> Any:
    if _is_ours(frame):
        return None
    if event in ("exception", "return"):  # raising here would end the tracing before it was of use
        return _raise_at_next_line
    raise TimeUp


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(OURS)
