"""What the course is measured against: packages from PyPI, in an environment of their own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import platformdirs
from filelock import FileLock

REQUIREMENTS = (
    "torch==2.13.0",
    "transformer-lens>=3.9,<4",
    "nbgrader>=0.9.6,<0.10",
    "otter-grader>=7,<8",
    "ipykernel",
    "numpy",
    "matplotlib",
)
NAMED = ("torch", "transformer-lens", "nbgrader", "otter-grader")


def environment() -> Path:
    """The peers' virtual environment; made on the first call (minutes, and some 2 GB), kept for the next."""
    told = hashlib.sha256("\n".join((sys.version, *REQUIREMENTS)).encode()).hexdigest()[:12]
    folder = platformdirs.user_cache_path("transformer-circuits-bench") / f"peers-{told}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "complete").exists():
            _install(folder)
    return folder


def _install(folder: Path) -> None:
    print(f"Installing {', '.join(NAMED)} into {folder} …", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", *REQUIREMENTS]
    subprocess.run(pip, check=True)
    (folder / "complete").touch()


def program(name: str = "python") -> Path:
    """A command of the peers' environment."""
    return environment() / "bin" / name


def versions() -> dict[str, str]:
    """The versions that were installed, by name of the package."""
    asked = f"import json; from importlib.metadata import version; print(json.dumps({{n: version(n) for n in {NAMED!r}}}))"
    done = subprocess.run([str(program()), "-c", asked], check=True, capture_output=True, text=True)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer
