"""Lock this process in, for good: what a stranger's notebook runs behind.

In this order, since each step forbids what the one before needed: limits on resources, no tracers, no
capabilities and none to come, files (Landlock), system calls (seccomp). Then the lock is tried.
"""

from __future__ import annotations

import ctypes.util
import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import py_landlock
from py_landlock import AccessFs, PathBeneathAttr, RulesetAttr
from py_landlock.abi import get_supported_fs, get_supported_net, get_supported_scope

from grader.pupil import kernel, limits
from grader.pupil.confinement import MIB, Confinement, Request

LARGEST_FILE = 64 * MIB
OPEN_FILES = 128
NOT_TO_READ = "/etc/passwd"  # there on every Linux, and nothing that a notebook needs

_READ = AccessFs.READ_FILE | AccessFs.READ_DIR
_NEVER = AccessFs.EXECUTE | AccessFs.MAKE_CHAR | AccessFs.MAKE_BLOCK | AccessFs.MAKE_SOCK


class NotLocked(RuntimeError):
    """A layer that was to be in force isn't."""


def prepare() -> None:
    """Once, before the first fork: py_landlock looks for libc with programs the sandbox doesn't have."""
    look = ctypes.util.find_library
    ctypes.util.find_library = lambda name: "libc.so.6" if name == "c" else look(name)
    try:
        with suppress(py_landlock.LandlockError):  # the level that the judge found says the rest
            py_landlock.get_abi_version()
    finally:
        ctypes.util.find_library = look


def lock_down(confinement: Confinement, request: Request, folder: str) -> None:
    """``folder``: where the notebook may write. Raises OSError, LandlockError or NotLocked."""
    _limit(confinement, request)
    if not confinement.landlock:
        _hide_proc()
    kernel.die_with_parent(signal.SIGKILL)
    kernel.hide_from_tracers()
    kernel.no_new_privileges()
    kernel.drop_capabilities()
    if confinement.landlock:
        _restrict_files(confinement, folder)
    kernel.filter_calls(bytes.fromhex(confinement.seccomp))
    _prove()


def _hide_proc() -> None:
    """Where the judge is root, so are we in the eyes of /proc/sys: it lets its owner write, whatever the
    namespaces say. Landlock keeps it shut; without, an empty folder lies over it.
    """
    kernel.mount_tmpfs("/proc", "size=4k,nr_inodes=1,mode=0555", kernel.MS_RDONLY)


def _limit(confinement: Confinement, request: Request) -> None:
    if not limits.memory(request.memory_mib):
        raise NotLocked("The system sets no limit on memory.")
    ceilings = {
        resource.RLIMIT_CPU: request.cpu_seconds,
        resource.RLIMIT_FSIZE: min(LARGEST_FILE, confinement.scratch_mib * MIB),
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if confinement.processes:
        ceilings[resource.RLIMIT_NPROC] = confinement.processes
    for kind, most in ceilings.items():
        resource.setrlimit(kind, (most, most))


def _restrict_files(confinement: Confinement, folder: str) -> None:
    level = py_landlock.ABIVersion(confinement.landlock)
    known = get_supported_fs(level)
    handled = RulesetAttr()
    handled.handled_access_fs = known
    handled.handled_access_net = get_supported_net(level)
    handled.scoped = get_supported_scope(level)
    rules = py_landlock.create_ruleset(handled)
    try:
        for path in confinement.readable:
            _allow(rules, path, _READ)
        for path in confinement.listable:
            _allow(rules, path, AccessFs.READ_DIR)
        _allow(rules, os.devnull, AccessFs.READ_FILE | AccessFs.WRITE_FILE)
        _allow(rules, folder, known & ~_NEVER)
        py_landlock.restrict_self(rules, None)
    finally:
        os.close(rules)


def _allow(rules: py_landlock.RulesetFd, path: str, access: AccessFs) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:  # gone since the server started: then there is nothing to allow
        return
    try:
        rule = PathBeneathAttr()
        directory = os.path.isdir(path)
        rule.allowed_access = access if directory else access & ~AccessFs.READ_DIR
        rule.parent_fd = descriptor
        py_landlock.add_rule(rules, rule)
    finally:
        os.close(descriptor)


def _prove() -> None:
    """Try what must fail. A lock that isn't shut ends the process before any notebook came to it."""
    attempts: dict[str, Callable[[], object]] = {
        "read files of the system": lambda: os.close(os.open(NOT_TO_READ, os.O_RDONLY)),
        "start a process": _fork,
        "open a socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "raise its limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except (OSError, ValueError):  # the second is Python's word for a limit that stays
            continue
        raise NotLocked(f"The sandbox isn't shut: the process could {what}.")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
