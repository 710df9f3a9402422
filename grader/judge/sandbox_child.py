"""A notebook's locked process, forked by the sandbox's server, as the judge talks to it."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, cast

import numpy as np

from grader.judge.remote_connection import Connection
from grader.judge.remote_failures import TO_DIE, Gone, Interrupted, PupilNotStarted, how_it_ended
from grader.judge.sandbox_server import LONGEST_PACKET, Server
from grader.pupil.confinement import Request
from grader.pupil.reply import Outcome
from grader.pupil.wire import WireError, receive, write

_PLACING = 30.0
TO_START = 60.0  # seconds for one notebook's process; milliseconds, where the machine isn't busy


def open_child(server: Server, request: Request, release: Callable[[], None]) -> Child:
    """A locked process for one notebook. Raises PupilNotStarted, Interrupted where we broke down.

    release: called once the process is gone
    """
    try:
        conversation, report = server.fork(request)
    except Interrupted:
        release()
        raise
    child = Child(conversation, report, release)
    try:
        child.wait_until_ready(TO_START)
    except Interrupted:
        raise
    except PupilNotStarted as error:
        raise PupilNotStarted(f"{error}{server.last_words()}") from None
    return child


def with_files(child: Connection, files: Mapping[str, bytes]) -> Connection:
    """Put the files beside the notebook before any of its code runs. Raises PupilNotStarted."""
    if not files:
        return child
    content = {name: np.frombuffer(data, dtype=np.uint8) for name, data in files.items()}
    try:
        child.ask({"do": "place", "files": content}, _PLACING)
    except Interrupted:
        child.kill()
        raise
    except (Gone, WireError, ValueError) as error:
        child.kill()
        raise PupilNotStarted(
            f"The files beside the notebook could not be placed. {error}"
        ) from None
    return child


_AHEAD = 2**16  # many small answers come together


class Timed:
    """A socket as both streams of a conversation: each read and write ends at ``deadline``.

    deadline: on the clock of ``time.monotonic``; then TimeoutError is raised
    """

    def __init__(self, conversation: socket.socket) -> None:
        self._socket = conversation
        self._came = b""
        self.deadline = 0.0

    def read(self, size: int) -> bytes:
        if not self._came:
            self._hurry()
            self._came = self._socket.recv(_AHEAD)
        part, self._came = self._came[:size], self._came[size:]
        return part

    def write(self, data: memoryview) -> int:
        self._hurry()
        return self._socket.send(data)

    def _hurry(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


class Child(Connection):
    """One notebook's locked process."""

    def __init__(
        self, conversation: socket.socket, report: socket.socket, release: Callable[[], None]
    ) -> None:
        self._conversation, self._report, self._release = conversation, report, release
        self._end: Gone | Interrupted | None = None
        self._killed = False
        self._timed = Timed(conversation)

    def _converse(self, body: bytes, wall: float) -> Any:
        self._timed.deadline = time.monotonic() + wall
        stream = cast(BinaryIO, self._timed)
        if body:
            write(stream, body)
        return receive(stream)

    def _ended(self) -> Gone | Interrupted:
        if self._end is None:
            self._end = self._hear()
        return self._end

    def _hear(self) -> Gone | Interrupted:
        """What the server says of the end; it says nothing while the process still runs."""
        self._report.settimeout(TO_DIE)
        try:
            said = self._report.recv(LONGEST_PACKET)
        except TimeoutError:
            return Gone(Outcome.CRASHED, "Your code closed the connection to the grader.")
        except OSError:
            said = b""
        if not said:
            return Interrupted("The sandbox broke down.")
        return how_it_ended(int(json.loads(said)["status"]))

    def kill(self) -> None:
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(OSError):
            self._report.shutdown(socket.SHUT_WR)  # which the server takes for the order to kill
        self._ended()
        for one in (self._conversation, self._report):
            with contextlib.suppress(OSError):
                one.close()
        self._release()
