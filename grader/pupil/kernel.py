"""The few calls to Linux that Python has no words for, each raising OSError where it is denied."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8

_MADV_COLLAPSE = 25
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_LINUX_CAPABILITY_VERSION_3 = 0x20080522
_INSTRUCTION = 8  # bytes

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(ctypes.c_int(option), *padded), f"prctl {option}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount_tmpfs(folder: str, options: str, flags: int = 0) -> None:
    done = _libc.mount(
        b"tmpfs", folder.encode(), b"tmpfs",
        ctypes.c_ulong(flags | MS_NOSUID | MS_NODEV | MS_NOEXEC), options.encode(),
    )  # fmt: skip
    _check(done, f"mount tmpfs on {folder}")


def die_with_parent(number: int) -> None:
    """Get the signal when the parent ends; forgotten whenever the user changes."""
    _prctl(_PR_SET_PDEATHSIG, number)


def hide_from_tracers() -> None:
    _prctl(_PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """All of them, for good: with no new privileges none can come back."""

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    header = Header(_LINUX_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(nothing)), "capset")


def collapse(start: int, length: int) -> None:
    """Put a stretch of this process's memory into huge pages, now (Linux 6.1)."""
    done = _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_COLLAPSE)
    _check(done, "madvise")


def filter_calls(program: bytes) -> None:
    """Put a seccomp filter in force for this thread and all that it starts."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    memory = ctypes.create_string_buffer(program, len(program))
    passed = Program(len(program) // _INSTRUCTION, ctypes.addressof(memory))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(passed))
