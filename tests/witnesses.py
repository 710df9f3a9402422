"""The world outside a sandbox, with everything in it that an attack would want, and watchers.

Each watcher is outside, so what it sees doesn't depend on what the attacked side says of itself. Only
calls that leave no trace are believed from the notebook: it prints REACHED where one was allowed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path


class World:
    """Secrets, files of others, services and a process, and what became of them.

    ``reference`` is the file with the right answer, ours if none is named.
    """

    def __init__(self, folder: Path, reference: Path | None = None) -> None:
        self.folder = folder
        self.reference = reference or _our_reference()
        self.token = f"token-{secrets.token_hex(8)}"
        self.outside = folder / "outside"
        self.outside.mkdir(mode=0o777)
        self.secret = folder / "class-secret.key"
        self.other = folder / "ada" / "02-attention-heads.ipynb"
        self.gradebook = folder / "gradebook.db"
        self.other.parent.mkdir()
        self.secret.write_text(self.token)
        self.other.write_text(f'{{"cells": ["{self.token}"]}}')
        with contextlib.closing(sqlite3.connect(self.gradebook)) as book:
            book.execute("create table points (learner, points)")
            book.execute("insert into points values (?, 3)", (self.token,))
            book.commit()
        self.victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10000)"])
        os.environ["GRADER_CLASS_SECRET"] = self.token
        self.calls: list[str] = []
        self._open: list[socket.socket] = []
        self._listen()
        self._before = self._files()

    def close(self) -> None:
        os.environ.pop("GRADER_CLASS_SECRET", None)
        self.victim.kill()
        self.victim.wait()
        for one in self._open:
            one.close()

    def as_cell(self) -> str:
        """What an attacker may know of the world: where everything is."""
        known = {
            "SECRET": str(self.secret), "OUTSIDE": str(self.outside), "OTHER": str(self.other),
            "GRADEBOOK": str(self.gradebook), "REFERENCE": str(self.reference),
            "PORT": self._tcp.getsockname()[1], "UDP_PORT": self._udp.getsockname()[1],
            "UNIX": str(self.folder / "service"), "ABSTRACT": self._abstract,
            "JUDGE": os.getpid(), "VICTIM": self.victim.pid,
        }  # fmt: skip
        return "\n".join(f"{name} = {value!r}" for name, value in known.items())

    def harm(self, said: str) -> list[str]:
        """What an attack reached, told by what is outside and by ``said``, all that came back."""
        seen = [f"called: {call}" for call in self.calls]
        self.calls.clear()
        if self.token in said:
            seen.append("a secret came back")
        if "REACHED" in said:
            seen.append("the notebook said REACHED")
        after = self._files()
        if after != self._before:
            changed = {p for p in self._before | after if self._before.get(p) != after.get(p)}
            seen.append(f"files changed: {sorted(changed)}")
            self._before = after
        if self.victim.poll() is not None:
            seen.append(f"a process was ended ({self.victim.returncode})")
        elif _stopped(self.victim.pid):
            seen.append("a process was stopped")
            self.victim.send_signal(signal.SIGCONT)
        return seen

    def _files(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in [self.folder, *self.folder.rglob("*")]:
            about = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (
                content, about.st_mode, about.st_uid, about.st_mtime_ns if path.is_file() else 0,
                os.listxattr(path, follow_symlinks=False),
            )  # fmt: skip
        return found

    def _listen(self) -> None:
        self._tcp = self._watched(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self._udp = self._watched(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self._abstract = f"\0grader-test-{secrets.token_hex(8)}"
        self._watched(socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "service"))
        self._watched(socket.AF_UNIX, socket.SOCK_DGRAM, str(self.folder / "service.datagrams"))
        self._watched(socket.AF_UNIX, socket.SOCK_STREAM, self._abstract)

    def _watched(self, family: int, kind: int, address: object) -> socket.socket:
        one = socket.socket(family, kind)
        one.bind(address)
        if kind == socket.SOCK_STREAM:
            one.listen()
        self._open.append(one)
        threading.Thread(target=self._hear, args=(one, kind, str(address)), daemon=True).start()
        return one

    def _hear(self, one: socket.socket, kind: int, name: str) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                if kind == socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.recv(100)
                self.calls.append(name)


def _our_reference() -> Path:
    from grader.circuits import attention_heads  # not there where a peer's world is watched

    return Path(attention_heads.__file__)


def _stopped(process: int) -> bool:
    """By a signal, or by whoever traces it."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"


@contextlib.contextmanager
def world(folder: Path, reference: Path | None = None) -> Iterator[World]:
    made = World(folder, reference)
    try:
        yield made
    finally:
        made.close()


def descendants(process: int) -> set[int]:
    """All processes below one, threads not counted."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                below.setdefault(parent, []).append(int(path.name))
    found, left = set(), [process]
    while left:
        for child in below.get(left.pop(), []):
            found.add(child)
            left.append(child)
    return found
