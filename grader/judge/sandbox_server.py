"""The fork-server as the judge holds it: started once, inside bubblewrap where that is the level.

It takes seconds to warm up, as the judge takes to import torch. So nothing here imports torch: a
server is started first, and gets ready meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, NoReturn, cast

from grader.judge.layers import remedy
from grader.judge.remote_failures import TO_DIE, Interrupted, last_words
from grader.pupil.confinement import Confinement, Request

LONGEST_PACKET = 2**18


class ServerFailed(RuntimeError):
    """The server didn't come up; the message holds its last words."""


class Server:
    """A started fork-server. Raises ServerFailed.

    arguments: what to run, which gets the number of a descriptor as its last argument
    """

    def __init__(
        self, arguments: Sequence[str], environment: dict[str, str], confinement: Confinement
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
        with contextlib.suppress(OSError):  # whoever waits for it will hear why
            self._control.send(confinement.to_json())

    def wait_until_ready(self, wall: float = 180.0) -> None:
        """Raises ServerFailed; the server is closed then."""
        self._control.settimeout(wall)
        try:
            said = self._control.recv(LONGEST_PACKET)
        except OSError as error:
            self._fail(f" ({type(error).__name__})")
        if not said:
            self._fail(" (it ended)")
        self._control.settimeout(None)

    def _fail(self, why: str) -> NoReturn:
        self._end()
        said = self.last_words() or why
        self.close()
        raise ServerFailed(f"The sandbox did not start.{said}{remedy(said)}") from None

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    def fork(self, request: Request) -> tuple[socket.socket, socket.socket]:
        """A locked process → the conversation with it, and where the server will say how it ended.

        Raises Interrupted.
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
                raise Interrupted(f"The sandbox is gone ({error}).") from None
        return ours, report

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

    def last_words(self) -> str:
        """What the server or a fork of it complained of; nothing once it is closed."""
        with contextlib.suppress(ValueError):
            self._complaints.seek(0)
            return last_words(self._complaints.read(100_000))
        return ""


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
