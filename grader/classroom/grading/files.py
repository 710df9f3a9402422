"""Every file below the paths that were given, also those in zips, under caps.

Nothing is unpacked to the disk and no link is followed. What is refused is reported in a sentence
and left out; the rest goes on.
"""

from __future__ import annotations

import contextlib
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from grader.classroom.grading import zips
from grader.classroom.grading.names import clean

LARGEST_FILE = 32 * 2**20
MOST_FILES = 200_000  # below one path that was given
DEEPEST_ZIP = 3  # a zip in a zip in a zip: an LMS's, a learner's, and one more by mistake

_NOBODYS_FOLDERS = {"__MACOSX", "__pycache__", "node_modules"}
_NOBODYS_FILES = {"Thumbs.db", "desktop.ini"}


@dataclass(frozen=True)
class File:
    """One file that was found.

    parts: its way below the path that was given; a zip in it is a folder ("alice.zip", "x.ipynb")
    above: the folders that the given path lies in; of a zip that was given, only its own name
    where: the whole way, for messages
    modified: orders two versions; 0.0 where it isn't known
    copy: how many members of the same zip with this very name came before it
    """

    parts: tuple[str, ...]
    above: tuple[str, ...]
    where: str
    modified: float
    read: Callable[[int], bytes]
    copy: int = 0

    @property
    def name(self) -> str:
        return self.parts[-1]

    def load(self, most: int = LARGEST_FILE) -> bytes:
        """The content. Raises Refused where it is larger than ``most`` bytes or can't be read."""
        try:
            data = self.read(most + 1)
        except OSError as error:
            raise zips.Refused(f"{self.where} can't be read ({_reason(error)}).") from None
        if len(data) > most:
            raise zips.Refused(
                f"{self.where} is larger than {most // 2**20} MiB. A notebook is small once its outputs "
                "are cleared."
            )
        return data


class Tree:
    """``with Tree(refuse) as tree:`` walks paths; the files can be read as long as it is open.

    refuse: is told, in a sentence, of everything that is left out
    but: a folder that is passed by in silence: the batch's own
    """

    def __init__(self, refuse: Callable[[str], None], but: Path | None = None) -> None:
        self._refuse = refuse
        self._but = but.absolute() if but else None
        self._open = contextlib.ExitStack()
        self._shelf = zips.Shelf()
        self._left = MOST_FILES

    def __enter__(self) -> Tree:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.close()

    def below(self, path: Path) -> Iterator[File]:
        """All files below ``path`` in the order of their names, or the one file that it is.

        Raises OSError where there is nothing, or nothing that can be opened.
        """
        self._left = MOST_FILES
        path = path.absolute()
        if path.is_dir():
            yield from self._folder(path, (), tuple(map(clean, path.parts)))
        elif path.suffix.lower() == ".zip":
            yield from self._outer_zip(path, (), (clean(path.stem),))
        else:
            path.open("rb").close()
            above = tuple(map(clean, path.parent.parts))
            yield _on_disk(path, (clean(path.name),), above, given=True)

    def _folder(
        self, folder: Path, parts: tuple[str, ...], above: tuple[str, ...]
    ) -> Iterator[File]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            if not parts:
                raise
            self._refuse(f"{clean(str(folder))} can't be read ({_reason(error)}).")
            return
        for entry in entries:
            path, inner, where = Path(entry.path), (*parts, clean(entry.name)), clean(entry.path)
            if _is_nobodys(inner) or path == self._but:
                continue
            if entry.is_symlink():
                self._refuse(f"{where} is a link, and links are not followed.")
            elif entry.is_dir(follow_symlinks=False):
                yield from self._folder(path, inner, above)
            elif not entry.is_file(follow_symlinks=False):
                self._refuse(f"{where} is no plain file.")
            elif not self._counted(where):
                return
            elif path.suffix.lower() == ".zip":
                yield from self._outer_zip(path, inner, above)
            else:
                yield _on_disk(path, inner, above)

    def _outer_zip(
        self, path: Path, parts: tuple[str, ...], above: tuple[str, ...]
    ) -> Iterator[File]:
        where = clean(str(path))
        try:
            archive = self._open.enter_context(zipfile.ZipFile(path))
        except zips.BAD as error:
            self._refuse(f"{where} is no zip that can be opened ({_reason(error)}).")
            return
        yield from self._members(zips.Zip(lambda: archive, where), parts, above, 1)

    def _members(
        self, archive: zips.Zip, parts: tuple[str, ...], above: tuple[str, ...], depth: int
    ) -> Iterator[File]:
        for member in archive.members(self._refuse):
            inner = (*parts, *member.parts)
            if _is_nobodys(member.parts):
                continue
            if not self._counted(member.where):
                return
            if not member.parts[-1].lower().endswith(".zip"):
                yield File(inner, above, member.where, member.modified, member.read, member.copy)
            elif depth >= DEEPEST_ZIP:
                self._refuse(f"{member.where} is a zip in a zip in a zip in a zip.")
            else:
                yield from self._members(self._shelf.zip_in(member), inner, above, depth + 1)

    def _counted(self, where: str) -> bool:
        self._left -= 1
        if self._left == -1:
            self._refuse(f"{where} and what follows is left out: more than {MOST_FILES} files.")
        return self._left >= 0


def _on_disk(
    path: Path, parts: tuple[str, ...], above: tuple[str, ...], *, given: bool = False
) -> File:
    """given: the teacher named this very file; then a link is meant."""

    def read(most: int) -> bytes:
        # No link, though one may have been put there since we looked; no pipe that never ends.
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        flags |= 0 if given else getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise zips.Refused(f"{clean(str(path))} is no plain file.")
            return file.read(most)

    try:
        modified = path.stat().st_mtime
    except OSError:
        modified = 0.0
    return File(parts, above, clean(str(path)), modified, read)


def _is_nobodys(parts: tuple[str, ...]) -> bool:
    """What systems and editors leave behind: nothing that anybody handed in."""
    hidden = any(part.startswith((".", "~$")) for part in parts)
    return hidden or parts[-1] in _NOBODYS_FILES or not _NOBODYS_FOLDERS.isdisjoint(parts)


def _reason(error: BaseException) -> str:
    return clean(str(getattr(error, "strerror", None) or error or type(error).__name__))
