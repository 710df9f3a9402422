"""Names that others chose, made fit for a text, a file system and a sort."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

_LONGEST = 100  # bytes of UTF-8; file systems allow 255 for a whole name
# Windows takes these for devices, with any ending.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def clean(text: str) -> str:
    """``text`` with what UTF-8 can't carry (a file's name in another encoding) written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def folder_names(names: Iterable[str]) -> dict[str, str]:
    """A folder's name for each learner or assignment: safe on every system, and no two alike.

    A name that is safe stays as it is. Any other, and any that differs from another one only in case
    or accents' form, gets a few digits of its hash, so it is the same each time.
    """
    names = list(names)
    slugs = {name: _slug(name) for name in names}
    taken: dict[str, int] = {}
    for slug in slugs.values():
        taken[slug.casefold()] = taken.get(slug.casefold(), 0) + 1
    return {
        name: slug
        if slug == name and taken[slug.casefold()] == 1
        else f"{slug}-{hashlib.sha256(name.encode('utf-8')).hexdigest()[:10]}"
        for name, slug in slugs.items()
    }


def _slug(name: str) -> str:
    text = unicodedata.normalize("NFC", name)
    text = "".join(c if c.isalnum() or c in "-_.@+, ()" else "_" for c in text)
    text = text.encode("utf-8")[:_LONGEST].decode("utf-8", "ignore").strip(" .")
    return f"_{text}" if not text or _RESERVED.fullmatch(text) else text


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key by which "hw 2" comes before "hw 10", and "hw" before "hw (1)"."""
    pieces = re.findall(r"[0-9]{1,18}|[^0-9]+", text)
    return tuple((int(p), "") if p.isdecimal() else (-1, p.casefold()) for p in pieces)
