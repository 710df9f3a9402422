"""The fork-server as the judge holds it: started once, inside bubblewrap where that is the level."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, BinaryIO, cast

from grader.judge.layers import remedy
from grader.judge.remote_connection import TO_DIE, Connection, Gone, Interrupted, PupilNotStarted
from grader.judge.remote_process import how_it_ended, last_words
from grader.pupil.confinement import Confinement, Request
from grader.pupil.reply import Outcome
from grader.pupil.wire import receive, write

LONGEST_PACKET = 2**18
TO_START = 60.0  # seconds for one notebook's process; milliseconds, where the machine isn't busy


class ServerFailed(RuntimeError):
    """The server didn't come up; the message holds its last words."""


class Server:
    """A running fork-server. Raises ServerFailed.

    arguments: what to run, which gets the number of a descriptor as its last argument
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: dict[str, str],
        confinement: Confinement,
        wall: float = 180.0,
    ) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        self._ended = threading.Event()
        started: list[subprocess.Popen[bytes] | OSError] = []
        up = threading.Event()

        def keep() -> None:
            """The thread that starts bubblewrap has to outlive it: its end would be bubblewrap's."""
            try:
                started.append(_spawn(arguments, environment, theirs, self._complaints))
            except OSError as error:
                started.append(error)
                up.set()
                return
            up.set()
            cast(subprocess.Popen[bytes], started[0]).wait()
            self._ended.set()

        threading.Thread(target=keep, daemon=True).start()
        up.wait()
        theirs.close()
        if isinstance(started[0], OSError):
            self._control.close()
            self._complaints.close()
            raise ServerFailed(f"{arguments[0]} could not be started: {started[0]}")
        self._process = started[0]
        self._greet(confinement, wall)

    def _greet(self, confinement: Confinement, wall: float) -> None:
        self._control.settimeout(wall)
        try:
            self._control.send(confinement.to_json())
            self.facts = json.loads(self._control.recv(LONGEST_PACKET))
        except (OSError, ValueError) as error:
            self._end()
            said = self._last_words() or f" ({type(error).__name__})"
            self.close()
            raise ServerFailed(f"The sandbox did not start.{said}{remedy(said)}") from None
        self._control.settimeout(None)

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    def open(self, request: Request, release: Callable[[], None]) -> Child:
        """A locked process for one notebook. Raises PupilNotStarted, Interrupted where we broke down.

        release: called once the process is gone
        """
        ours, conversation = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with conversation, theirs:
            try:
                socket.send_fds(
                    self._control, [request.to_json()], [conversation.fileno(), theirs.fileno()]
                )
            except OSError as error:
                ours.close()
                report.close()
                release()
                raise Interrupted(f"The sandbox is gone ({error}).") from None
        child = Child(ours, report, release)
        try:
            child.wait_until_ready(TO_START)
        except Interrupted:
            raise
        except PupilNotStarted as error:
            raise PupilNotStarted(f"{error}{self._last_words()}") from None
        return child

    def close(self) -> None:
        """End the server and every process in it."""
        self._end()
        self._control.close()
        self._complaints.close()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        if not self._ended.wait(TO_DIE):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._ended.wait(TO_DIE)

    def _last_words(self) -> str:
        """What the server or a fork of it complained of; nothing once it is closed."""
        with contextlib.suppress(ValueError):
            self._complaints.seek(0)
            return last_words(self._complaints.read(100_000))
        return ""


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


def _spawn(
    arguments: Sequence[str],
    environment: dict[str, str],
    control: socket.socket,
    complaints: IO[bytes],
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*arguments, str(control.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=complaints,
        env=environment,
        cwd="/",
        pass_fds=[control.fileno()],
        start_new_session=True,
    )
