"""Which packages an installation of the course has, and what they take on the disk."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.bench.kernels import REPOSITORY

APART = frozenset({"torch"})  # what it brings is left out with it


def needed() -> set[str]:
    """The canonical names of all that the course needs here, extras aside.

    Raises importlib.metadata.PackageNotFoundError where one isn't installed.
    """
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return closure(project["dependencies"], APART)


def closure(requirements: Iterable[str], apart: frozenset[str]) -> set[str]:
    """Every distribution that the requirements lead to, not through those ``apart``."""
    reached: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, wanted_by = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in apart or not applies(requirement, wanted_by):
            continue
        for extra in {"", *requirement.extras}:
            if (name, extra) not in reached:
                reached.add((name, extra))
                further = distribution(name).requires or []
                waiting += [(Requirement(text), extra) for text in further]
    return {name for name, _ in reached}


def applies(requirement: Requirement, extra: str) -> bool:
    """Whether it counts here, for who wants that extra ("" for none)."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def size(name: str) -> int:
    """Bytes of all files that a distribution put on the disk."""
    places = (Path(str(path.locate())) for path in distribution(name).files or [])
    return sum(place.stat().st_size for place in places if place.is_file())
