"""Where notebooks run: the program that is started, the world around it, the lock it will close."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from grader.judge import layers, sandbox_paths
from grader.judge.layers import Layers
from grader.judge.sandbox_paths import DEVICES, OF_PROC, PACKAGE, Visible
from grader.judge.sandbox_server import Server
from grader.pupil.confinement import MIB, Confinement

SERVER = "grader.pupil.forkserver"
TRIAL = "grader.pupil.trial"
SCRATCH = "/scratch"
HOME = "/pupil"  # where ``grader`` lies in bubblewrap's world
SCRATCH_MIB = 64
MOST_THREADS = 256


def start(module: str, offered: Layers, *, full: bool, jobs: int, scratch: str) -> Server:
    """``module`` started where notebooks will run, and getting ready. Raises ServerFailed.

    scratch: the folder for what notebooks write, as they see it
    """
    seen = sandbox_paths.visible()
    command = python_command(module)
    if full:
        assert offered.bubblewrap is not None
        command = [*bubblewrap_arguments(offered.bubblewrap, seen, jobs), *command]
        home, readable, listable = HOME, [*map(str, seen.libraries), HOME], []
    else:
        home = str(PACKAGE.parent)
        readable, listable = (list(map(str, paths)) for paths in seen.siblings())
    confinement = _confinement(offered, [*readable, *DEVICES, *OF_PROC], listable, scratch, full)
    return Server(command, python_environment(home, scratch), confinement)


def _confinement(
    offered: Layers, readable: list[str], listable: list[str], scratch: str, full: bool
) -> Confinement:
    from grader.pupil import syscalls

    return Confinement(
        readable=tuple(readable),
        listable=tuple(listable),
        scratch=scratch,
        own_mounts=full and offered.nested,
        landlock=offered.landlock,
        seccomp=syscalls.program().hex(),
        scratch_mib=SCRATCH_MIB,
        processes=MOST_THREADS if full and layers.counts_own_processes() else 0,
    )


def python_command(module: str) -> list[str]:
    return [sys.executable, "-P", "-s", "-m", module]


def python_environment(home: str, scratch: str) -> dict[str, str]:
    """All that the server finds in its environment: nothing of the judge's."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "IPYTHONDIR": scratch,
        "MPLCONFIGDIR": scratch,
        "MPLBACKEND": "Agg",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([home, *map(str, sandbox_paths.added_folders())]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def bubblewrap_arguments(program: Path, seen: Visible, jobs: int) -> list[str]:
    """The whole world of the sandbox, everything read-only but the scratch folder."""
    world = [
        # not as root: a process that is root here may not pass that on to a namespace of its own
        "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL",
        "--die-with-parent", "--new-session", "--proc", "/proc",
    ]  # fmt: skip
    for path in seen.libraries:
        if path.is_symlink():
            world += ["--symlink", os.readlink(path), str(path)]
        else:
            world += ["--ro-bind", str(path), str(path)]
    executable = Path(sys.executable)
    if executable.resolve() != executable:
        world += ["--symlink", str(executable.resolve()), str(executable)]
    for path in seen.hidden:
        world += ["--tmpfs", str(path), "--remount-ro", str(path)]
    for piece in seen.pieces:
        world += ["--ro-bind", str(piece), f"{HOME}/grader/{piece.relative_to(PACKAGE)}"]
    for device in DEVICES:
        world += ["--dev-bind", device, device]
    for place in (SCRATCH, *(f"{SCRATCH}/{slot}" for slot in range(jobs))):
        world += ["--size", str(SCRATCH_MIB * MIB), "--tmpfs", place]
    if not any(path.is_relative_to("/tmp") for path in seen.libraries):
        world += ["--symlink", SCRATCH, "/tmp"]
    return [str(program), *world, "--remount-ro", "/", "--"]
