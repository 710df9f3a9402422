"""Stop a learner's loop from outside, as a signal does: in the main thread, where the system has it.

Elsewhere (Windows, a worker thread) there is no such signal and the timer does nothing; there the
process as a whole is what can be stopped.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

OURS = __name__.rpartition(".")[0]


class TimeUp(BaseException):
    """Raised inside the learner's code; not an Exception, so ``except Exception`` lets it through."""


class Timer:
    """``with Timer(wall):`` raises TimeUp in the learner's code once ``wall`` seconds are over.

    A bare ``except:`` would swallow one TimeUp and loop on. So the signal comes again every 20 ms,
    and from the first one on the next line that runs raises as well: that line is the one inside the
    ``except:``, where no handler of the same loop can catch it.
    """

    def __init__(self, wall: float) -> None:
        self.wall = max(wall, 1e-3)
        self.expired = False
        self._works = hasattr(signal, "setitimer") and (
            threading.current_thread() is threading.main_thread()
        )

    def __enter__(self) -> Timer:
        if self._works:
            self._tracing = sys.gettrace()
            self._started = time.monotonic()
            self._handler = signal.signal(signal.SIGALRM, self._ring)
            self._other = signal.setitimer(signal.ITIMER_REAL, self.wall, 0.02)
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
        if frame is None or _is_ours(frame):
            return  # the learner's code has returned, or is inside a print: the next ring decides
        self.expired = True
        above: FrameType | None = frame
        while above is not None and not _is_ours(above):
            above.f_trace = _raise_at_next_line
            above = above.f_back
        sys.settrace(_raise_at_next_line)
        raise TimeUp


def _raise_at_next_line(frame: FrameType, event: str, arg: Any) -> Any:
    if _is_ours(frame):
        return None
    if event in ("exception", "return"):  # raising here would end the tracing before it was of use
        return _raise_at_next_line
    raise TimeUp


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(OURS)
