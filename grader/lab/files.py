"""Writing a learner's files so that none is ever half written, and none is ever written over."""

from __future__ import annotations

import contextlib
import datetime
import os
import tempfile
from pathlib import Path


def write_whole(
    path: Path, content: str | bytes, *, mode: int = 0o666, lasting: bool = True
) -> None:
    """Put ``content`` at ``path`` (text as UTF-8): all of it or nothing, whatever dies meanwhile.

    mode: who may read and write a new file; the user's umask takes away from it
    lasting: wait until it is on the disk; False for what can be made again after a power cut
    Raises OSError; the file that was there is then as it was.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())  # else a power cut may leave an empty file in its place
        if path.exists():
            os.chmod(name, path.stat().st_mode)
        else:
            os.chmod(name, mode & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def aside(path: Path, why: str) -> Path:
    """A free name beside ``path`` that says what was kept, and when: ``x.damaged-2026….json``."""
    now = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    name = path.with_name(f"{path.stem}.{why}-{now}{path.suffix}")
    count = 1
    while name.exists():
        count += 1
        name = path.with_name(f"{path.stem}.{why}-{now}-{count}{path.suffix}")
    return name


def _umask() -> int:
    """What the system takes away from a new file's permissions; reading it means setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
