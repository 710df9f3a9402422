"""Move the warm server's memory into huge pages, so that a fork has little to copy and to take down.

A fork copies a table entry for every page of 4 KiB, and the end of the process takes each down again: for
the server's quarter of a gigabyte that is most of what an almost empty notebook costs. A page of 2 MiB has
one entry. Where a notebook writes into one, the kernel takes only that one apart and copies 4 KiB of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from grader.pupil import kernel

SIZE = 2 * 2**20
_PRIVATE_AND_WRITABLE = re.compile(
    r"^(?P<start>\w+)-(?P<end>\w+) rw-p \w+ 00:00 0 *(?P<name>\S*)$", re.MULTILINE
)


def collapse() -> int:
    """How many huge pages there are now. Fewer, or none, where the kernel is older than 6.1 or refuses."""
    done = 0
    for start in list(_pages()):
        with suppress(OSError):
            kernel.collapse(start, SIZE)
            done += 1
    return done


def _pages() -> Iterator[int]:
    """Where in this process's own memory a huge page would fit."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = file.read()
    for area in _PRIVATE_AND_WRITABLE.finditer(mapped):
        if area["name"] in ("", "[heap]"):
            start, end = int(area["start"], 16), int(area["end"], 16)
            yield from range(-(-start // SIZE) * SIZE, end - SIZE + 1, SIZE)
