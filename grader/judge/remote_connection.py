"""A notebook's process as the judge sees it: asked with a deadline, killed, and blamed or not.

How the process came to be (spawned beside us, or forked and locked in a sandbox) is the business of
the classes that derive from this one.
"""

from __future__ import annotations

import abc
import queue
import threading
from typing import Any, BinaryIO

from grader.judge.remote_failures import TO_DIE, Gone, Interrupted, PupilNotStarted
from grader.pupil.reply import Outcome
from grader.pupil.wire import CAP, Closed, WireError, pack, receive, write

QUESTIONS_CAP = 16 * CAP
SLOWEST_TRANSFER = 20 * 2**20  # bytes a second, for the deadline of a large question


class Connection(abc.ABC):
    """A conversation with a process that serves a notebook."""

    def wait_until_ready(self, wall: float) -> None:
        """Wait for the process's first word. Raises PupilNotStarted; the process is gone then."""
        try:
            ready = self._exchange(b"", wall)
        except (Gone, WireError) as error:
            self.kill()
            raise PupilNotStarted(f"The notebook's process did not start. {error}") from None
        except Interrupted:
            self.kill()
            raise
        if ready != {"ready": True}:
            self.kill()
            raise PupilNotStarted("The notebook's process did not say that it is ready.")

    def ask(self, question: dict[str, Any], wall: float) -> Any:
        """The answer, not yet checked. Raises Gone or, for a frame that isn't one, WireError.

        A question that can't be sent is our own fault: ValueError.
        """
        try:
            body = pack(question, QUESTIONS_CAP)
        except WireError as error:
            raise ValueError(f"The question can't be sent. {error}") from None
        return self._exchange(body, wall + len(body) / SLOWEST_TRANSFER)

    def hear(self, wall: float) -> Any:
        """The next answer to a question that has several; raises as ``ask`` does."""
        return self._exchange(b"", wall)

    @abc.abstractmethod
    def kill(self) -> None:
        """End the process and all that it started; returns when it is gone."""

    @abc.abstractmethod
    def _ended(self) -> Gone | Interrupted:
        """Why the process closed its stream."""

    @abc.abstractmethod
    def _converse(self, body: bytes, wall: float) -> Any:
        """Send the body, unless it is empty, and receive what the process says.

        Raises TimeoutError after ``wall`` seconds, WireError, OSError.
        """

    def _exchange(self, body: bytes, wall: float) -> Any:
        """Whoever gets Gone has to kill the process, so no late answer meets the next question."""
        try:
            return self._converse(body, wall)
        except TimeoutError:
            raise Gone(Outcome.TIMEOUT, f"No answer came within {wall:.0f} s.") from None
        except (Closed, OSError):
            raise self._ended() from None


class Piped(Connection):
    """Over two pipes, which know no deadline on every system: written and read in a thread of its own."""

    def __init__(self, questions: BinaryIO, answers: BinaryIO) -> None:
        self._questions, self._answers = questions, answers
        self._worker: threading.Thread | None = None
        self._bodies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._heard: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def _converse(self, body: bytes, wall: float) -> Any:
        if self._worker is None:
            self._worker = threading.Thread(target=self._listen, daemon=True)
            self._worker.start()
        self._bodies.put(body)
        try:
            answer, error = self._heard.get(timeout=wall)
        except queue.Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return answer

    def _listen(self) -> None:
        while (body := self._bodies.get()) is not None:
            try:
                if body:
                    write(self._questions, body)
                self._heard.put((receive(self._answers), None))
            except Exception as error:  # handed over, for the asking thread to raise
                self._heard.put((None, error))

    def _join(self) -> None:
        """Once the process is gone: the thread that waited for it ends as well."""
        if self._worker is not None:
            self._bodies.put(None)
            self._worker.join(TO_DIE)
