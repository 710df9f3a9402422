"""Zips from strangers, read member by member into memory.

What a zip's directory says of sizes is not believed: bytes are counted as they come out. A member
whose name leads outside, that is a link, is locked or is packed in an unusual way is refused in a
sentence, and the others are read.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grader.classroom.grading.names import clean

LARGEST_NESTED = 64 * 2**20
_DOS = 0  # zips made by old Windows programs, which also part folders by "\"
_LOCKED = 0x1
_NAME_IS_UTF8 = 0x800

BAD = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)
"""What opening or reading a damaged zip raises."""


class Refused(Exception):
    """This one file is left out; the message says which and why."""


@dataclass(frozen=True)
class Member:
    """A file in a zip. ``read(most)`` gives at most so many bytes of it, and raises Refused."""

    parts: tuple[str, ...]
    where: str
    modified: float
    copy: int
    read: Callable[[int], bytes]


@dataclass(frozen=True)
class Zip:
    """A zip; ``opened`` gives it open, each time it is asked. ``where`` names it in messages."""

    opened: Callable[[], zipfile.ZipFile]
    where: str

    def members(self, refuse: Callable[[str], None]) -> Iterator[Member]:
        """The files in it, in its own order; what is refused is told to ``refuse``."""
        try:
            infos = self.opened().infolist()
        except (Refused, *BAD) as error:
            told = str(error) or type(error).__name__
            refuse(
                told
                if isinstance(error, Refused)
                else f"{self.where} is no zip that can be opened ({clean(told)})."
            )
            return
        backslashes = not any("/" in info.orig_filename for info in infos)
        seen: Counter[str] = Counter()
        for number, info in enumerate(infos):
            name = _name(info)
            where = f"{self.where}: {name}"
            try:
                parts = _parts(info, name, backslashes, where)
            except Refused as refused:
                refuse(str(refused))
                continue
            if parts:
                yield Member(parts, where, _modified(info), seen[name], self._reader(number, where))
                seen[name] += 1

    def _reader(self, number: int, where: str) -> Callable[[int], bytes]:
        def read(most: int) -> bytes:
            try:
                archive = self.opened()
                with archive.open(archive.infolist()[number]) as stream:
                    return stream.read(most)
            except (RuntimeError, *BAD) as error:  # RuntimeError: locked after all
                raise Refused(f"{where} is damaged ({clean(str(error))}).") from None

        return read


class Shelf:
    """Zips in zips, of which only the one opened last is kept in memory."""

    def __init__(self) -> None:
        self._member: Member | None = None
        self._archive: zipfile.ZipFile | None = None

    def zip_in(self, member: Member) -> Zip:
        """The zip that a member is."""
        return Zip(lambda: self._opened(member), member.where)

    def _opened(self, member: Member) -> zipfile.ZipFile:
        if self._archive is None or self._member is not member:
            data = member.read(LARGEST_NESTED + 1)
            if len(data) > LARGEST_NESTED:
                mib = LARGEST_NESTED // 2**20
                raise Refused(f"{member.where} is a zip of more than {mib} MiB in a zip.")
            self._member, self._archive = member, zipfile.ZipFile(io.BytesIO(data))
        return self._archive


def _parts(info: zipfile.ZipInfo, name: str, backslashes: bool, where: str) -> tuple[str, ...]:
    """The member's way, () for a folder. Raises Refused."""
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        raise Refused(f"{where} is a link, and links are not followed.")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise Refused(f"{where} is no plain file.")
    if backslashes and info.create_system == _DOS:
        name = name.replace("\\", "/")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    leaves = ".." in name.replace("\\", "/").split("/")
    if leaves or name.startswith(("/", "\\")) or name[1:3] in (":/", ":\\") or "\0" in name:
        raise Refused(f"{where} has a name that leads out of the zip.")
    if name.endswith("/") or not parts:
        return ()
    if info.flag_bits & _LOCKED:
        raise Refused(f"{where} is locked with a password.")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Refused(f"{where} is packed in a way that is not read here. Make a usual zip of it.")
    return parts


def _name(info: zipfile.ZipInfo) -> str:
    """The member's name; UTF-8 also where the zip fails to say so, as many programs' zips do."""
    name = info.orig_filename
    if not info.flag_bits & _NAME_IS_UTF8:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return clean(name)


def _modified(info: zipfile.ZipInfo) -> float:
    try:
        return datetime.datetime(*info.date_time, tzinfo=datetime.UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0
