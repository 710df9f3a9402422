"""Keep what a learner's call prints, and keep it from everywhere else.

nbgrader takes anything on stderr for a failure, so nothing may reach it: neither through Python
(``sys.stderr``, warnings) nor through file descriptor 2, which C libraries write to.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import IO, Any

SHOWN = 2_000


class Printed(io.TextIOBase):
    """A text stream that keeps the first ``limit`` characters and counts the rest."""

    def __init__(self, limit: int = SHOWN) -> None:
        self.limit = limit
        self.total = 0
        self._kept: list[str] = []

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        room = self.limit - self.total
        if room > 0:
            self._kept.append(text[:room])
        self.total += len(text)
        return len(text)

    def text(self) -> str:
        kept = "".join(self._kept)
        if self.total <= self.limit:
            return kept
        return f"{kept}\n… ({self.total:,} characters were printed; the first {self.limit:,} are shown)"


class Descriptor2:
    """``with Descriptor2() as stderr:`` keeps what is written to file descriptor 2, for ``captured``.

    To be opened once for many short calls: it costs more than some of them.
    """

    def __enter__(self) -> Descriptor2:
        self._original: int | None = None
        with contextlib.suppress(OSError):  # a process without stderr has nothing to protect
            self._file = _scratch()
            self._original = os.dup(2)
            os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._original is not None:
            os.dup2(self._original, 2)
            os.close(self._original)
            self._file.close()

    def move_to(self, printed: Printed) -> None:
        """Hand over what was written since the last time."""
        size = os.fstat(self._file.fileno()).st_size if self._original is not None else 0
        if not size:
            return
        self._file.seek(0)
        written = self._file.read(printed.limit)
        printed.write(written.decode("utf-8", "replace"))
        printed.total += max(size - len(written), 0)
        self._file.seek(0)
        self._file.truncate()


@contextlib.contextmanager
def captured(printed: Printed, stderr: Descriptor2) -> Iterator[None]:
    """Send stdout, stderr, file descriptor 2, Python's warnings and IPython's displays to ``printed``."""
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        _warnings_as_text(),
        _displays(printed),
    ):
        try:
            yield
        finally:
            stderr.move_to(printed)


def _scratch() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError:  # nowhere to write: the text is lost, but it doesn't leak
        return open(os.devnull, "w+b", buffering=0)


@contextlib.contextmanager
def _warnings_as_text() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *where: Any, **kwargs: Any) -> None:
        sys.stderr.write(f"{category.__name__}: {message}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def _displays(printed: Printed) -> Iterator[None]:
    """In a notebook: a figure or table that the answer displays isn't part of the check's output."""
    shell = _shell()
    if shell is None:
        yield
        return
    publisher, hook = shell.display_pub, sys.displayhook
    shell.display_pub = _unseen()
    sys.displayhook = lambda value: None
    try:
        yield
    finally:
        shell.display_pub, sys.displayhook = publisher, hook
        _unseen().outputs.clear()


@functools.cache
def _unseen() -> Any:
    """Where displays go; made once, as it takes IPython longer than a small answer."""
    from IPython.core.displaypub import CapturingDisplayPublisher

    return CapturingDisplayPublisher()


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
