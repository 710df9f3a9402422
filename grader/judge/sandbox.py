"""Strangers' notebooks, locked in: one warm fork-server, one forked and shut-in process a notebook.

============  ======================================================================================
full          a world of its own by bubblewrap (namespaces: files, processes, network, users), a
              private file system for each notebook, limits, seccomp, and Landlock at the kernel's level
container     Landlock, seccomp and limits, without namespaces, which containers often deny: for a
              container that is thrown away after one submission
none          a process like any other, as you: for one's own class at one's own risk
============  ======================================================================================

Less than was asked for is refused before any stranger's code runs. The process that judges never
forks; threads of it may hold one pupil each.

The judge's side imports torch, which takes seconds, as the server does to warm up; so it is imported
in functions, once the server is started, and both happen at the same time.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Self

from grader.judge import sandbox_world
from grader.judge.layers import Layers
from grader.judge.remote_failures import Interrupted, PupilNotStarted
from grader.judge.sandbox_server import Server, ServerFailed
from grader.pupil.confinement import Request

if TYPE_CHECKING:
    from grader.judge.remote import RemotePupil
    from grader.judge.remote_connection import Connection

MEMORY_MIB = 4096
LEAST_MEMORY_MIB = 512


class Isolation(enum.StrEnum):
    """How strangers' notebooks are kept in."""

    FULL = "full"
    CONTAINER = "container"
    NONE = "none"


class SandboxUnavailable(RuntimeError):
    """This system can't lock strangers' notebooks in; the message says what to do about it."""


class Sandbox:
    """``with Sandbox() as sandbox:`` then ``with sandbox.pupil(cells) as pupil:``, from any thread.

    jobs: how many pupils there may be at once; one more waits for a place
    Raises SandboxUnavailable.
    """

    def __init__(
        self,
        isolation: Isolation = Isolation.FULL,
        *,
        jobs: int = 1,
        _layers: Layers | None = None,
    ) -> None:
        self._isolation, self._jobs = Isolation(isolation), jobs
        self._places: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place in range(jobs):
            self._places.put(place)
        self._server: Server | None = None
        self._starting = threading.Lock()
        self._closed = False
        self._closing = contextlib.ExitStack()
        self._layers = _layers or Layers.found()
        if self._isolation is not Isolation.NONE:
            missing = self._layers.missing(container=self._isolation is Isolation.CONTAINER)
            if missing:
                raise SandboxUnavailable(_refusal(self._isolation, missing))

    def __enter__(self) -> Self:
        if self._isolation is not Isolation.NONE:
            try:
                self._open(MEMORY_MIB, 60).kill()  # the whole lock, tried once
            except PupilNotStarted as error:
                self.close()
                raise SandboxUnavailable(_refusal(self._isolation, [str(error)])) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and every pupil in it."""
        with self._starting:
            self._closed = True
            if self._server is not None:
                self._server.close()
                self._server = None
            self._closing.close()

    @contextlib.contextmanager
    def pupil(
        self,
        cells: Sequence[tuple[int, str]],
        *,
        wall: float = 300.0,
        memory_mib: int = MEMORY_MIB,
        files: Mapping[str, bytes] | None = None,
    ) -> Iterator[RemotePupil]:
        """A notebook with its cells run, as ``RemotePupil``.

        wall: seconds for all the cells; memory_mib: for the process beyond what is warm
        files: what the notebook may read beside it, by relative path
        Raises PupilNotStarted where we broke down, ValueError for a path that leads elsewhere.
        """
        from grader.judge.remote import ProcessPupil, RemotePupil
        from grader.judge.sandbox_child import with_files

        beside = {_inside(name): content for name, content in (files or {}).items()}
        if self._isolation is Isolation.NONE:
            with (
                _folder(beside) as folder,
                ProcessPupil(cells, wall=wall, memory_mib=memory_mib, folder=folder) as spawned,
            ):
                yield spawned
            return

        def connect() -> Connection:
            child = self._open(min(memory_mib, _share_of_memory(self._jobs)), _cpu_seconds(wall))
            return with_files(child, beside)

        with RemotePupil(cells, connect, wall=wall) as pupil:
            yield pupil

    def _open(self, memory_mib: int, cpu_seconds: int) -> Connection:
        """A locked process; where the server turns out to be dead, from a new one."""
        broken: Interrupted | None = None
        for _ in range(2):
            server = self._running()
            from grader.judge.sandbox_child import open_child  # never before the server

            place = self._places.get()
            request = Request(place, memory_mib, cpu_seconds)
            try:
                return open_child(server, request, _giving_back(self._places, place))
            except Interrupted as error:
                broken = error
                server.close()
        raise PupilNotStarted(f"The sandbox broke down twice. {broken}")

    def _running(self) -> Server:
        with self._starting:
            if self._closed:
                raise PupilNotStarted("The sandbox is closed.")
            if self._server is None or not self._server.alive:
                if self._server is not None:
                    self._server.close()
                try:
                    self._server = self._start(sandbox_world.SERVER)
                    importlib.import_module("grader.judge.sandbox_child")  # meanwhile
                    self._server.wait_until_ready()
                except ServerFailed as error:
                    raise PupilNotStarted(str(error)) from None
            return self._server

    def _start(self, module: str) -> Server:
        """``module`` getting ready where notebooks will run. Raises ServerFailed."""
        full = self._isolation is Isolation.FULL
        scratch = sandbox_world.SCRATCH if full else self._common_scratch()
        return sandbox_world.start(
            module, self._layers, full=full, jobs=self._jobs, scratch=scratch
        )

    def _common_scratch(self) -> str:
        scratch = tempfile.mkdtemp(prefix="grader-sandbox-")
        self._closing.callback(shutil.rmtree, scratch, ignore_errors=True)
        for place in range(self._jobs):
            os.mkdir(os.path.join(scratch, str(place)))
        return scratch


def trial(isolation: Isolation, _layers: Layers | None = None) -> str:
    """Lock one small process in as a notebook's would be → "", or why that didn't work."""
    try:
        sandbox = Sandbox(isolation, _layers=_layers)
        with contextlib.closing(sandbox):
            server = sandbox._start(sandbox_world.TRIAL)
            server.wait_until_ready()
            server.close()
    except SandboxUnavailable as error:
        return str(error)
    except ServerFailed as error:
        return _refusal(isolation, [str(error)])
    return ""


def _giving_back(places: queue.SimpleQueue[int], place: int) -> Callable[[], None]:
    return lambda: places.put(place)


@contextlib.contextmanager
def _folder(files: Mapping[str, bytes]) -> Iterator[str]:
    """A folder with these files, for a notebook that is spawned in it."""
    with tempfile.TemporaryDirectory(prefix="grader-", ignore_cleanup_errors=True) as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield folder


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{name!r} is no path of a file beside the notebook.")
    return str(path)


def _cpu_seconds(wall: float) -> int:
    """A last resort, far beyond what the deadlines leave: cells, then every exercise's budget."""
    return int(4 * wall) + 600


def _share_of_memory(jobs: int) -> int:
    """MiB: most of what the machine has, divided among those that run at once."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    return max(int(0.8 * total / jobs), LEAST_MEMORY_MIB)


def _refusal(isolation: Isolation, missing: list[str]) -> str:
    listed = "\n".join(f"  - {sentence}" for sentence in missing)
    return (
        f"This system can't lock notebooks in (isolation {isolation}). What is missing:\n{listed}"
    )
