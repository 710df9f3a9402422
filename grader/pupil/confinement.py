"""What the judge tells the fork-server once: how each notebook's process is to be locked in."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Confinement:
    """One for all notebooks of a server; plain values, since it crosses as JSON.

    readable: files and folders that may be read; listable: folders whose names may be listed
    scratch: the folder for what notebooks write; each gets a part of its own
    own_mounts: whether to try a file system for each notebook, mounted for nobody else
    landlock: the level to use, 0 for none; seccomp: the filter for the kernel, in hexadecimal
    processes: how many threads the kernel may count for a notebook, 0 where it would count others'
    """

    readable: tuple[str, ...]
    listable: tuple[str, ...]
    scratch: str
    own_mounts: bool
    landlock: int
    seccomp: str
    scratch_mib: int = 64
    scratch_files: int = 4_000
    processes: int = 0

    def to_json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Confinement:
        fields: dict[str, Any] = json.loads(text)
        fields["readable"], fields["listable"] = map(
            tuple, (fields["readable"], fields["listable"])
        )
        return cls(**fields)


@dataclasses.dataclass(frozen=True)
class Request:
    """One notebook's process: its place in the scratch folder and its limits."""

    slot: int
    memory_mib: int
    cpu_seconds: int

    def to_json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Request:
        return cls(**json.loads(text))
