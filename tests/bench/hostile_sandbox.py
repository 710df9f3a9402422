"""A whole grading tool in a sandbox, thrown away after one notebook.

A tool that runs learners' code unguarded runs it with all that its user may do. So the user here is
nobody: no network but a loopback of its own, a small disk in memory, a read-only system and peers'
environment, its own processes, and limits on processes, memory and time. ``try_out`` attacks the sandbox
before anything hostile runs in it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grader.judge.layers import bubblewrap
from tests.bench import peers

HERE = Path(__file__).parent
ATTACK, TRY_OUT = HERE / "hostile_peer.py", HERE / "hostile_try_out.py"
WITNESSES = HERE.parent / "witnesses.py"
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32",
    "/etc/ld.so.cache", "/etc/hosts", "/etc/nsswitch.conf",
)  # fmt: skip
# An optional part of jsonschema for international addresses, which no notebook has in its metadata: each
# import of nbformat builds a parser with it for seconds, which is most of what a run costs.
UNUSED = "lib/python*/site-packages/rfc3987_syntax"
DISK_MIB = 1024
# Beyond the tool's own limit, for its start and its end.
GRACE = 30.0
# Numbers that belong to nobody; each sandbox has one of its own, since the kernel counts processes by user.
USERS = itertools.count(54_000)


class Running:
    """The sandboxes that run, so that all of them end with the bench."""

    def __init__(self) -> None:
        self._started: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def end(self) -> None:
        self._ended = True
        for process in tuple(self._started):
            process.kill()

    def run(
        self, course: Path, asked: Mapping[str, Any], wall: float, script: Path = ATTACK
    ) -> dict[str, Any]:
        """What the script inside reports on ``asked``; {} where it was brought down or stood still.

        course: a folder that is seen as /given, read-only
        """
        user = next(USERS) if os.geteuid() == 0 else None
        told = json.dumps({**asked, "wall": wall, "user": user}).encode()
        process = subprocess.Popen(
            command(course, script, user), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={}, start_new_session=True,
        )  # fmt: skip
        self._started.add(process)
        try:
            if self._ended:
                process.kill()
            said, errors = process.communicate(told, timeout=wall + GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            said, errors = process.communicate()
        finally:
            self._started.discard(process)
        return _report(said, errors)


@contextlib.contextmanager
def running() -> Iterator[Running]:
    made = Running()
    try:
        yield made
    finally:
        made.end()


def _report(said: bytes, errors: bytes) -> dict[str, Any]:
    for line in reversed(said.splitlines()):
        with contextlib.suppress(ValueError):
            report = json.loads(line)
            if isinstance(report, dict):
                return report
    if errors:
        print(errors.decode(errors="replace")[-2000:], file=sys.stderr)
    return {}


def command(course: Path, script: Path, user: int | None) -> list[str]:
    """bubblewrap and what it runs. As root it must change to ``user`` inside, without namespaces of users."""
    program = bubblewrap()
    if program is None:
        raise RuntimeError("The peers' tools are attacked in bubblewrap only; install bubblewrap.")
    lone = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    if user is None:
        lone += ["--unshare-user"]
    else:
        lone += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    world = ["--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    size = str(DISK_MIB * 2**20)
    for place in ("/dev/shm", "/tmp", "/home"):
        world += ["--perms", "1777", "--size", size, "--tmpfs", place]
    environment = peers.environment()
    for path in (*SYSTEM, sys.base_prefix, str(environment)):
        if Path(path).exists():
            for above in reversed(Path(path).parents[:-1]):
                world += ["--perms", "0755", "--dir", str(above)]  # else only root may pass
            world += ["--ro-bind", str(Path(path).resolve()), path]
    for path in environment.glob(UNUSED):
        world += ["--tmpfs", str(path), "--remount-ro", str(path)]
    world += ["--ro-bind", str(course), "/given"]
    for path in (ATTACK, TRY_OUT, WITNESSES):
        world += ["--ro-bind", str(path), f"/{path.name}"]
    world += ["--chdir", "/home", "--remount-ro", "/"]
    python = str(environment / "bin" / "python")
    return [str(program), *lone, *world, "--", python, f"/{script.name}"]


def try_out(here: Running, course: Path) -> None:
    """Raise RuntimeError where the sandbox lets out what it must hold."""
    report = here.run(course, {}, 60.0, TRY_OUT)
    let_out = report.get("let out", ["the program inside said nothing"])
    if let_out:
        raise RuntimeError(f"This system can't hold the peers' tools: {'; '.join(let_out)}.")
