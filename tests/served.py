"""Watching a ``grader start`` that runs in another process, as somebody at the terminal would."""

from __future__ import annotations

import contextlib
import queue
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

Lines = queue.Queue[str]


@dataclass(frozen=True)
class Lab:
    """What the learner was told: where JupyterLab is, which page opens, what opens it."""

    port: int
    page: str
    token: str

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """→ (status, body), never through a proxy."""
        token = self.token if token is None else token
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            headers={"Authorization": f"token {token}"} if token else {},
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, ""


def lines_of(process: subprocess.Popen[str]) -> Lines:
    """What the process prints, read beside the test, so that no wait lasts forever."""
    lines: Lines = queue.Queue()
    assert process.stdout is not None
    stdout = process.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    return lines


def announced(lines: Lines, seconds: float = 240.0) -> Lab:
    """Wait until the learner is told that the course is open."""
    said = ""
    while "Ctrl-C" not in said:
        try:
            said += lines.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"The course did not open. It said:\n{said}") from None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/lab(\S*)\?token=(\w+)", said)
    assert found, said
    return Lab(int(found[1]), found[2], found[3])


@contextlib.contextmanager
def until_left(process: subprocess.Popen[str]) -> Iterator[Lab]:
    """Where a ``grader start`` that was just started has its course; it is ended with the block."""
    try:
        yield announced(lines_of(process))
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
