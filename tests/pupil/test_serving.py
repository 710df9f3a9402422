"""When answers are sent: the judge tells a silent function from the one that works by what came."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, cast

from grader.pupil import serving
from grader.pupil.reply import Outcome, Reply, Series
from grader.pupil.shell import Notebook
from grader.pupil.wire import Closed, pack, receive


class Answers:
    """In place of a notebook: replies that took so many seconds; notes what was sent before each."""

    def __init__(self, sent: io.BytesIO, *seconds: float) -> None:
        self._sent, self._seconds = sent, seconds
        self.before: list[int] = []

    def replies(self, series: Series) -> Iterator[Reply]:
        for seconds, _ in zip(self._seconds, series.asks, strict=True):
            self.before.append(frames(self._sent))
            yield Reply(Outcome.ANSWERED, 1.0, seconds=seconds)


def frames(sent: io.BytesIO) -> int:
    """How many were sent, after the one that says that all is ready."""
    stream, count = io.BytesIO(sent.getvalue()), -1
    while True:
        try:
            receive(stream)
        except Closed:
            return count
        count += 1


def asked(*names: str) -> io.BytesIO:
    asks = [{"id": str(number), "args": (), "watch_memory": False} for number in range(3)]
    calls = [{"name": name, "wall": 9.0, "asks": asks} for name in names]
    body = pack({"do": "call", "calls": calls})
    return io.BytesIO(len(body).to_bytes(8, "big") + body)


def test_quick_answers_go_with_their_call_and_slow_ones_at_once() -> None:
    sent = io.BytesIO()
    sent.close = lambda: None  # type: ignore[method-assign]
    notebook: Any = Answers(sent, 0.001, 2 * serving.LONG, 0.001)
    serving.serve(asked("a", "b"), sent, cast(Notebook, notebook))
    assert notebook.before == [0, 0, 2, 3, 3, 5]
    assert frames(sent) == 6
