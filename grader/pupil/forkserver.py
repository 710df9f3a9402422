"""``python -m grader.pupil.forkserver DESCRIPTOR``: one warm process that forks one for each notebook.

It runs inside the sandbox and talks to the judge alone, over the socket that it was started with. The
judge's first packet is a Confinement, the answer says that all is warm. Each later packet is a Request
that brings two sockets along: the first becomes the notebook's (``serving``), over the second the
server says how the process ended. When the judge closes that one, the process is killed; when it closes
the server's own, everything ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from typing import NoReturn

import numpy as np
import torch

from grader.pupil import lockdown, scratch, shell, warming
from grader.pupil.confinement import Confinement, Request
from grader.pupil.serving import serve
from grader.pupil.shell import Notebook

LONGEST_PACKET = 2**18


class Server:
    """The loop; no learner's code ever runs in this process."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._confinement = Confinement.from_json(control.recv(LONGEST_PACKET))
        lockdown.prepare()
        self._own_mounts = self._confinement.own_mounts and scratch.can_mount(self._confinement)
        scratch.require_apart(self._confinement, self._own_mounts)
        self._notebook = warming.warm()
        self._watched = selectors.DefaultSelector()

    def run(self) -> None:
        self._control.send(json.dumps({"ready": True, "own_mounts": self._own_mounts}).encode())
        self._watched.register(self._control, selectors.EVENT_READ, self._take)
        while True:
            for key, _ in self._watched.select():
                if self._watched.get_map().get(key.fd) is key:  # not ended by an event before it
                    key.data()

    def _take(self) -> None:
        packet, descriptors, _, _ = socket.recv_fds(self._control, LONGEST_PACKET, 2)
        if not packet:  # the judge is gone, and every process goes with this one
            os._exit(0)
        conversation, report = (socket.socket(fileno=one) for one in descriptors)
        request = Request.from_json(packet)
        folder = scratch.folder(self._confinement, request, self._own_mounts)
        if not self._own_mounts:
            scratch.empty(folder)
        warming.alone()
        process = os.fork()
        if process == 0:
            self._become(conversation.detach(), request, folder)
        conversation.close()
        self._watch(process, report)

    def _watch(self, process: int, report: socket.socket) -> None:
        handle = os.pidfd_open(process)

        def ended() -> None:
            self._watched.unregister(handle)
            self._watched.unregister(report)
            os.close(handle)
            _, status, usage = os.wait4(process, 0)
            said = {
                "status": os.waitstatus_to_exitcode(status),
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
            }
            with contextlib.suppress(OSError), report:
                report.send(json.dumps(said).encode())

        def closed() -> None:
            os.kill(process, signal.SIGKILL)
            ended()

        self._watched.register(handle, selectors.EVENT_READ, ended)
        self._watched.register(report, selectors.EVENT_READ, closed)

    def _become(self, conversation: int, request: Request, folder: str) -> NoReturn:
        """In the fork: become the notebook's process. Never returns."""
        try:
            _keep_only(conversation)
            _go_first()
            if self._own_mounts:
                scratch.mount_own(self._confinement)
            _settle(folder)
            lockdown.lock_down(self._confinement, request, folder)
            _reseed()
            os.dup2(0, 2)  # until here, stderr tells the judge why a start failed
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(70)
        try:
            _answer(self._notebook)
        except BaseException:  # what a notebook did to the shell itself
            os._exit(1)
        os._exit(0)


_CONVERSATION = 3


def _keep_only(conversation: int) -> None:
    """Descriptors 0 and 1 lead nowhere, 3 is the conversation, and no other is left but stderr."""
    os.dup2(conversation, _CONVERSATION, inheritable=False)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > _CONVERSATION:
            with contextlib.suppress(OSError):  # the one that listed them is closed already
                os.close(descriptor)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _go_first() -> None:
    """Where memory runs out on the machine, the system ends notebooks before anything else."""
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(descriptor, b"1000")
    os.close(descriptor)


def _settle(folder: str) -> None:
    """An environment and a working folder that say nothing of this machine or of its people."""
    work = os.path.join(folder, "work")
    os.mkdir(work, 0o700)
    os.chdir(work)
    kept = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.clear()
    os.environ.update(
        kept, HOME=folder, TMPDIR=folder, MPLCONFIGDIR=folder, MPLBACKEND="Agg", LANG="C.UTF-8",
        TORCHINDUCTOR_CACHE_DIR=folder,
    )  # fmt: skip
    tempfile.tempdir = None


def _reseed() -> None:
    """All forks begin with the server's generators; nobody shall know another's numbers."""
    random.seed(os.urandom(32))
    np.random.seed(int.from_bytes(os.urandom(4), "little"))
    # torch.manual_seed asks after every kind of accelerator, which takes longer than all else here
    torch.default_generator.manual_seed(int.from_bytes(os.urandom(7), "little"))


def _answer(notebook: Notebook) -> None:
    shell.prefer_local_modules()
    with (
        open(_CONVERSATION, "rb", buffering=0) as questions,
        open(_CONVERSATION, "wb", buffering=0, closefd=False) as answers,
    ):
        serve(questions, answers, notebook)


def main() -> None:
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the judge, which then ends us
    control = socket.socket(fileno=int(sys.argv[1]))
    Server(control).run()


if __name__ == "__main__":
    main()
