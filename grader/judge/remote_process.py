"""One spawned pupil process: started, asked with a deadline, killed."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import grader
from grader.pupil.reply import Outcome
from grader.pupil.wire import CAP, Closed, WireError, pack, receive, write

QUESTIONS_CAP = 16 * CAP
SLOWEST_TRANSFER = 20 * 2**20  # bytes a second, for the deadline of a large question
_TO_DIE = 10.0


class PupilNotStarted(RuntimeError):
    """The process for the notebook could not be started: the grader's fault, nobody's zero."""


class Gone(Exception):
    """No answer came, and none will: the process ended or was killed for its silence."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class Process:
    """``python -m grader.pupil`` at the other end of two pipes. Raises PupilNotStarted."""

    def __init__(
        self, start_wall: float, memory_mib: int | None, folder: str | os.PathLike[str] | None
    ) -> None:
        self._scratch = tempfile.TemporaryDirectory(
            prefix="grader-pupil-", ignore_cleanup_errors=True
        )
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = _spawn(self._complaints, self._scratch.name, memory_mib, folder)
        except OSError as error:
            self._clean()
            raise PupilNotStarted(
                f"Python could not be started for the notebook: {error}"
            ) from None
        self._worker: threading.Thread | None = None
        try:
            ready = self._exchange(b"", start_wall)
        except (Gone, WireError) as error:
            self.kill()
            raise PupilNotStarted(f"The notebook's process did not start. {error}") from None
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

    def _exchange(self, body: bytes, wall: float) -> Any:
        """Write and read in a thread of its own: either may block on a process that hangs."""
        answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._converse, args=(body, answers), daemon=True)
        self._worker.start()
        try:
            answer, error = answers.get(timeout=wall)
        except queue.Empty:
            raise Gone(Outcome.TIMEOUT, f"No answer came within {wall:.0f} s.") from None
        if isinstance(error, Closed | OSError):
            raise self._ended() from None
        if error is not None:
            raise error
        return answer

    def _converse(
        self, body: bytes, answers: queue.SimpleQueue[tuple[Any, Exception | None]]
    ) -> None:
        try:
            if body:
                write(cast(BinaryIO, self._process.stdin), body)
            answers.put((receive(cast(BinaryIO, self._process.stdout)), None))
        except Exception as error:  # handed over, for the asking thread to raise
            answers.put((None, error))

    def _ended(self) -> Gone:
        try:
            status = self._process.wait(_TO_DIE)
        except subprocess.TimeoutExpired:
            return Gone(Outcome.CRASHED, "Your code closed the connection to the grader.")
        if os.name == "posix" and status == -signal.SIGKILL:
            return Gone(
                Outcome.OUT_OF_MEMORY,
                "The system killed the process, as it does when memory runs out.",
            )
        how = _signal_name(-status) if status < 0 else f"exit status {status}"
        said = self._last_complaint()
        return Gone(Outcome.CRASHED, f"The process ended while your code ran ({how}).{said}")

    def _last_complaint(self) -> str:
        """What Python said before it was ready; afterwards nothing is written there."""
        self._complaints.seek(0)
        lines = self._complaints.read(100_000).decode("utf-8", "replace").strip().splitlines()
        return f" Its last words: {lines[-1][:300]}" if lines else ""

    def kill(self) -> None:
        """End the process and all that it started; returns when it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        if self._worker is not None:
            self._worker.join(_TO_DIE)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                cast(IO[bytes], pipe).close()
        self._clean()

    def _clean(self) -> None:
        self._complaints.close()
        self._scratch.cleanup()


def _spawn(
    complaints: IO[bytes],
    scratch: str,
    memory_mib: int | None,
    folder: str | os.PathLike[str] | None,
) -> subprocess.Popen[bytes]:
    home = str(Path(grader.__file__).resolve().parents[1])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONIOENCODING": "utf-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "IPYTHONDIR": scratch,
    }
    limit = [] if memory_mib is None else [str(memory_mib)]
    return subprocess.Popen(
        # -P: a learner's random.py beside the notebook must not replace Python's own while we start
        [sys.executable, "-P", "-m", "grader.pupil", *limit],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        bufsize=0,
        cwd=folder,
        env=environment,
        start_new_session=True,  # so that Ctrl-C reaches the judge alone; Windows ignores it
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
