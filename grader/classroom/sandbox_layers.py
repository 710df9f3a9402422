"""Which layers of a sandbox this system offers for running strangers' notebooks. Read only."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

# linux/landlock.h and the system call tables: one number on every architecture
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_CREATE_RULESET_VERSION = 1

Layer = tuple[Literal["ok", "note"], str, str]


def found() -> Iterator[Layer]:
    """→ (state, text, remedy) of each layer; one note where the system has none of them."""
    if not sys.platform.startswith("linux"):
        text = "strangers' notebooks can be judged under isolation on Linux only"
        yield "note", text, "Use a Linux machine or container for grading a class."
        return
    yield _bubblewrap()
    yield _namespaces()
    yield _landlock()
    yield _seccomp()


def _bubblewrap() -> Layer:
    path = shutil.which("bwrap")
    if path is None:
        return "note", "bubblewrap is not installed", "sudo apt-get install bubblewrap"
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, encoding="utf-8", timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "note", f"{path} can't be run: {error}", "sudo apt-get install bubblewrap"
    return "ok", f"{done.stdout.strip() or 'bubblewrap'}, {path}", ""


def _namespaces() -> Layer:
    """What the kernel's switches say; whether a container around us denies more shows on use."""
    closed = {
        "/proc/sys/user/max_user_namespaces": "0",
        "/proc/sys/kernel/unprivileged_userns_clone": "0",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
    }
    denied = [path for path, value in closed.items() if _line(path) == value]
    if denied:
        return "note", f"user namespaces are restricted ({', '.join(denied)})", ""
    return "ok", "the kernel's switches allow user namespaces", ""


def _landlock() -> Layer:
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0),
        ctypes.c_uint32(_LANDLOCK_CREATE_RULESET_VERSION),
    )  # fmt: skip
    if version < 1:
        return "note", "Landlock is not in this kernel, or switched off", ""
    return "ok", f"Landlock ABI {version}", ""


def _seccomp() -> Layer:
    actions = _line("/proc/sys/kernel/seccomp/actions_avail")
    library = ctypes.util.find_library("seccomp")
    if not actions:
        return "note", "the kernel offers no seccomp filters", ""
    if library is None:
        return "note", "the libseccomp library is not installed", "sudo apt-get install libseccomp2"
    return "ok", f"seccomp filters, {library}", ""


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
