"""Where a notebook may write: an empty, small file system that only it can see, gone with it.

Where the system grants no mounts (a container), it is a folder in a common one, emptied before each
notebook; then Landlock keeps notebooks out of each other's.
"""

from __future__ import annotations

import os

from grader.pupil import kernel
from grader.pupil.confinement import Confinement, Request


def mount_own(confinement: Confinement) -> None:
    """In this process's own user and mount namespace, cover the scratch folder with an empty one.

    Raises OSError where the system doesn't allow it.
    """
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    options = f"size={confinement.scratch_mib}m,nr_inodes={confinement.scratch_files},mode=0700"
    kernel.mount_tmpfs(confinement.scratch, options)


def can_mount(confinement: Confinement) -> bool:
    """Whether ``mount_own`` works here; tried in a process that ends with it."""
    process = os.fork()
    if process == 0:
        try:
            mount_own(confinement)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(process, 0)[1] == 0


def require_apart(confinement: Confinement, own_mounts: bool) -> None:
    """Raises RuntimeError where nothing would keep a notebook from another's files."""
    if not (own_mounts or confinement.landlock):
        raise RuntimeError(
            "Neither Landlock nor namespaces inside namespaces are allowed here, and one of the two has "
            "to keep notebooks apart."
        )


def folder(confinement: Confinement, request: Request, own_mounts: bool) -> str:
    """Where this notebook may write."""
    root = confinement.scratch
    return root if own_mounts else os.path.join(root, str(request.slot))


def empty(folder: str) -> None:
    """Delete all that is in the folder, whatever a hostile notebook built there.

    Folders are brought to the top before they are emptied, so no depth is too deep; nothing is
    followed that is a link.
    """
    moved = 0
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            with os.scandir(entry.path) as inner:
                for below in inner:
                    moved += 1
                    if below.is_dir(follow_symlinks=False):
                        os.chmod(below.path, 0o700)  # a folder is renamed by who may write to it
                    os.rename(below.path, os.path.join(folder, f".{moved}-of-{os.getpid()}"))
            os.rmdir(entry.path)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
