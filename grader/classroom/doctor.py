"""What is installed, where things lie, what is missing and how to get it: ``grader doctor``.

It reads and tries, and changes nothing. "missing" is what a learner can't do without; what only some
teachers or developers want is a "note".
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

import grader
from grader import resources
from grader.classroom import sandbox_layers
from grader.lab import progress, proof, workbook

DISTRIBUTION = "transformer-circuits-course"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. remedy: what to do about it, "" where nothing is to be done."""

    topic: str
    state: Literal["ok", "note", "missing"]
    text: str
    remedy: str = ""


def examine() -> Iterator[Finding]:
    """All findings, one after the other (judging the sample answer takes a second or two)."""
    yield _python()
    yield _platform()
    yield from _packages()
    yield _course()
    yield _folder()
    yield _progress()
    yield _judge()
    yield from (Finding("sandbox", *layer) for layer in sandbox_layers.found())
    yield _browser()


def _python() -> Finding:
    version = platform.python_version()
    where = "a virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    text = f"{version}, {sys.executable} ({where}), grader {grader.__version__}"
    return Finding("python", "ok", text)


def _platform() -> Finding:
    text = f"{platform.platform()}, {platform.machine()}, {os.cpu_count()} CPU cores"
    if sys.platform == "darwin" and platform.machine() == "x86_64":
        return Finding(
            "platform", "missing", text,
            "PyTorch makes no packages for Macs with an Intel processor any more; use another machine.",
        )  # fmt: skip
    return Finding("platform", "ok", text)


def _packages() -> Iterator[Finding]:
    try:
        required = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        text = f"{DISTRIBUTION} runs from {Path(grader.__file__).parent} and is not installed"
        yield Finding("packages", "note", text, "Install it with: python -m pip install -e .")
        return
    for line in required:
        requirement = Requirement(line)
        extra = requirement.marker is not None and "extra" in str(requirement.marker)
        if extra or (requirement.marker is not None and not requirement.marker.evaluate()):
            continue
        yield _package(requirement)


def _package(requirement: Requirement) -> Finding:
    wanted = f"{requirement.name}{requirement.specifier}"
    remedy = f'Install it with: {sys.executable} -m pip install "{wanted}"'
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(requirement.name, "missing", "is not installed", remedy)
    if not requirement.specifier.contains(version, prereleases=True):
        return Finding(
            requirement.name, "missing", f"{version} is installed, {wanted} is wanted", remedy
        )
    return Finding(requirement.name, "ok", version)


def _course() -> Finding:
    try:
        names = resources.notebooks()
        text = f"{resources.course_dir()}: {len(names)} notebooks; {resources.solutions_dir()}"
    except resources.CourseNotFound as error:
        return Finding("course", "missing", str(error), "Install the package again.")
    if not names:
        return Finding("course", "missing", text, "Make the notebooks with: grader build")
    return Finding("course", "ok", text)


def _folder() -> Finding:
    folder = workbook.usual_folder()
    if workbook.is_workbook(folder):
        return Finding("your folder", "ok", str(folder))
    return Finding("your folder", "note", f"{folder} (not made yet)", "grader start makes it.")


def _progress() -> Finding:
    path = progress.progress_file()
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        remedy = f"Make {nearest} writable, or name another folder in the variable GRADER_DATA."
        return Finding("progress", "missing", f"{path} can't be written", remedy)
    aside = len(progress.set_aside())
    text = str(path) if path.exists() else f"{path} (nothing yet)"
    return Finding("progress", "ok", text + (f"; {aside} damaged ones kept beside" * bool(aside)))


def _judge() -> Finding:
    result = proof.prove()
    remedy = "" if result.ok else "Install the packages above again in a new virtual environment."
    return Finding("judge", "ok" if result.ok else "missing", result.message, remedy)


def _browser() -> Finding:
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        return Finding(
            "test browser", "note", "no Chromium or Chrome on the PATH (only browser tests need one)",
            "On Debian or Ubuntu: sudo apt-get install chromium",
        )  # fmt: skip
    return Finding("test browser", "ok", found)
