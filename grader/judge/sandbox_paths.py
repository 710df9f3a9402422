"""What of this machine a stranger's notebook may see: Python, its packages, and little of ``grader``.

No circuits, exercises, judge, solutions or course, wherever the package is installed; no home, no
other submission. Paths only: bubblewrap mounts them, or Landlock allows them.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import grader

PACKAGE = Path(grader.__file__).resolve().parent
# ``import grader`` needs the first; the pupil's side and what notebooks import need the rest.
OF_GRADER = ("__init__.py", "transformer.py", "pupil", "models")
# How the models were made and measured: code that answers some exercises.
NOT_OF_MODELS = ("recipes", "report.py", "__pycache__")

_SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache",
    "/etc/alternatives", "/etc/localtime", "/usr/share/zoneinfo", "/usr/share/fonts", "/nix/store",
    "/sys/devices/system/cpu",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
OF_PROC = ("/proc/cpuinfo", "/proc/meminfo")


@dataclass(frozen=True)
class Visible:
    """libraries: Python, packages and what they need; hidden: what lies in those, not to be seen."""

    libraries: tuple[Path, ...]
    hidden: tuple[Path, ...]
    pieces: tuple[Path, ...]

    def siblings(self) -> tuple[list[Path], list[Path]]:
        """(readable, listable) where nothing can be mounted over what is hidden.

        Python finds a module by the names in its folder, so those may be listed.
        """
        readable, listable = [], []
        for library in self.libraries:
            allowed, expanded = without(library, self.hidden)
            readable += allowed
            listable += expanded
        folders = {piece.parent for piece in self.pieces} - {PACKAGE}
        return [*readable, *self.pieces], [*listable, *sorted(folders)]


def visible() -> Visible:
    """As this very Python finds its packages."""
    packages = _package_folders()
    roots = [*map(Path, _SYSTEM), *_interpreter(), *packages]
    libraries = _outermost(path for path in roots if path.exists())
    hidden = tuple(folder / "grader" for folder in packages if (folder / "grader").exists())
    return Visible(libraries, hidden, tuple(_pieces()))


def _interpreter() -> list[Path]:
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    own = [Path(prefix) / part for prefix in prefixes for part in ("lib", "lib64", "pyvenv.cfg")]
    return [*own, Path(sys.executable).resolve()]


def _package_folders() -> list[Path]:
    folders = [*site.getsitepackages(), *sys.path]
    folders = [f for f in folders if Path(f).name in ("site-packages", "dist-packages")]
    return sorted({Path(f) for f in folders if os.path.isdir(f)})


def added_folders() -> list[Path]:
    """Those folders of packages that Python finds for this user or in this environment only."""
    usual = {Path(folder) for folder in site.getsitepackages()}
    return [folder for folder in _package_folders() if folder not in usual]


def _pieces() -> Iterable[Path]:
    for name in OF_GRADER:
        piece = PACKAGE / name
        if name == "models":
            yield from (p for p in sorted(piece.iterdir()) if p.name not in NOT_OF_MODELS)
        else:
            yield piece


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Without those that lie in another; a link stays beside what it leads to."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda p: len(p.parts)):
        if not any(path.is_relative_to(one) for one in kept if not one.is_symlink()):
            kept.append(path)
    return tuple(kept)


def without(root: Path, hidden: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """(the parts of ``root`` beside all that is hidden, the folders that were taken apart)."""
    within = [path for path in hidden if path.is_relative_to(root)]
    if not within:
        return [root], []
    if root in within:
        return [], []
    allowed, expanded = [], [root]
    for child in sorted(root.iterdir()):
        below, apart = without(child, within)
        allowed += below
        expanded += apart
    return allowed, expanded
