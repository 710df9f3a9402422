"""One spawned pupil process: started, asked with a deadline, killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, BinaryIO, cast

import grader
from grader.judge.remote_connection import Piped
from grader.judge.remote_failures import (
    TO_DIE,
    Gone,
    PupilNotStarted,
    how_it_ended,
    last_words,
)
from grader.pupil.reply import Outcome


class Process(Piped):
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
        super().__init__(cast(BinaryIO, self._process.stdin), cast(BinaryIO, self._process.stdout))
        self.wait_until_ready(start_wall)

    def _ended(self) -> Gone:
        try:
            status = self._process.wait(TO_DIE)
        except subprocess.TimeoutExpired:
            return Gone(Outcome.CRASHED, "Your code closed the connection to the grader.")
        return how_it_ended(status, self._last_complaint())

    def _last_complaint(self) -> str:
        """What Python said before it was ready; afterwards nothing is written there."""
        self._complaints.seek(0)
        return last_words(self._complaints.read(100_000))

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        self._join()
        for pipe in (self._questions, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
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
