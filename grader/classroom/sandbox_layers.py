"""Which layers of a sandbox this system offers for running strangers' notebooks: each is tried."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Literal

from grader.judge import layers
from grader.judge.layers import Layers
from grader.judge.sandbox import Isolation, trial

Layer = tuple[Literal["ok", "note"], str, str]


def found() -> Iterator[Layer]:
    """→ (state, text, remedy) of each layer; one note where the system has none of them."""
    here = Layers.found()
    if not here.linux:
        yield "note", "strangers' notebooks can't be locked in on this system", layers.OTHER_SYSTEM
        return
    yield _bubblewrap(here)
    yield _namespaces()
    yield _landlock(here)
    yield _seccomp(here)
    full = trial(Isolation.FULL)
    yield _isolation(Isolation.FULL, full)
    if full:
        yield _isolation(Isolation.CONTAINER, trial(Isolation.CONTAINER))


def _isolation(isolation: Isolation, why: str) -> Layer:
    """The whole lock, closed around a small process that then tries to get out."""
    if not why:
        return (
            "ok",
            f"grade --isolation {isolation} works: a process was locked in, and tried it",
            "",
        )
    what, _, remedy = why.partition("\n")
    return "note", f"grade --isolation {isolation} refuses. {what}", remedy.strip()


def _bubblewrap(here: Layers) -> Layer:
    if here.bubblewrap is None:
        return "note", "bubblewrap is not installed", layers.GET_BUBBLEWRAP
    try:
        done = subprocess.run(
            [here.bubblewrap, "--version"],
            capture_output=True, encoding="utf-8", timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return "note", f"{here.bubblewrap} can't be run: {error}", layers.GET_BUBBLEWRAP
    return "ok", f"{done.stdout.strip() or 'bubblewrap'}, {here.bubblewrap}", ""


def _namespaces() -> Layer:
    """What the kernel's switches say; whether a container around us denies more shows on trial."""
    if denied := layers.namespaces_denied():
        return "note", f"user namespaces are restricted ({', '.join(denied)})", ""
    return "ok", "the kernel's switches allow user namespaces", ""


def _landlock(here: Layers) -> Layer:
    if not here.landlock:
        return "note", "Landlock is not in this kernel, or switched off", ""
    return "ok", f"Landlock ABI {here.landlock}", ""


def _seccomp(here: Layers) -> Layer:
    if not here.seccomp:
        return "note", "seccomp filters can't be made here", layers.GET_LIBSECCOMP
    return "ok", "seccomp filters", ""
