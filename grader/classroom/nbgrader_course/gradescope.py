"""The zip that Gradescope asks for as an autograder: ``setup.sh``, ``run_autograder``, the course itself.

Gradescope unpacks it to ``/autograder/source``, runs ``setup.sh`` once, and for each submission, in a
container that is thrown away, ``run_autograder``: the work is in ``/autograder/submission``, the result
goes to ``/autograder/results/results.json``. User namespaces are denied there, so notebooks are kept
in by ``--isolation container``.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import grader
from grader import exercises, resources

_SKIPPED = {"__pycache__", ".ipynb_checkpoints", ".git", ".venv"}
_TREES = ("grader", "course", "solutions")
_FILES = ("pyproject.toml", "README.md", "LICENSE")

SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root and with a network, when it builds the autograder's image.
set -euo pipefail
source="${AUTOGRADER_ROOT:-/autograder}/source"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends libseccomp2
python=""
for name in python3.13 python3.12 python3.11; do
    if apt-get install -y -qq --no-install-recommends "$name" "$name-venv" || command -v "$name"; then
        python="$name"
        break
    fi
done
if [ -z "$python" ]; then
    echo "The course needs Python 3.11 or newer. Choose a newer base image (Ubuntu 22.04 or later)." >&2
    exit 1
fi
"$python" -m venv "$source/../venv"
# PyTorch's own index has a CPU build, a tenth of the other one's size
"$source/../venv/bin/pip" install --no-cache-dir \\
    --extra-index-url https://download.pytorch.org/whl/cpu @COURSE@
"""

RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission. Whatever happens, a result with a sentence in it is left.
set -uo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
python="${GRADER_PYTHON:-$root/venv/bin/python}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$root/results" "$work/submitted/learner"
cp -r "$root/submission" "$work/submitted/learner/@ASSIGNMENT@"
"$python" -m grader grade "$work/submitted" --assignment @ASSIGNMENT@ --out "$work/grades" \\
    --isolation "${GRADER_ISOLATION:-container}" --jobs 1 >"$work/said" 2>&1
status=$?
found="$(find "$work/grades/feedback" -name results.json 2>/dev/null | head -n 1)"
if [ -n "$found" ]; then
    cp "$found" "$root/results/results.json"
else
    # no score: Gradescope then shows that the autograder failed, which is nobody's zero
    cat "$work/said" >&2
    printf '%s\\n' '{"output": "The autograder could not grade this submission. It costs no points: tell your teacher, who finds the reason in the autograder'"'"'s output.", "output_format": "text", "visibility": "visible", "stdout_visibility": "hidden", "tests": []}' >"$root/results/results.json"
fi
exit 0
"""


class CannotExport(RuntimeError):
    """The zip can't be made; the message says what is missing."""


def export(assignment: str, to: Path, wheel: Path | None = None) -> Path:
    """Write the zip for one notebook of the course to ``to``.

    wheel: a built wheel of the course, for an installed course, which has no sources to send along
    Raises CannotExport, OSError.
    """
    if assignment not in exercises.NOTEBOOKS:
        raise CannotExport(
            f"No notebook is called {assignment}; there are {', '.join(exercises.NOTEBOOKS)}."
        )
    if to.exists():
        raise CannotExport(f"{to} is there already. Name another file with --out.")
    course = f'"$source/{wheel.name}"' if wheel else '"$source/course-source"'
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        _put(archive, "setup.sh", SETUP.replace("@COURSE@", course), executable=True)
        _put(archive, "run_autograder", RUN.replace("@ASSIGNMENT@", assignment), executable=True)
        for name, content in _wheel(wheel) if wheel else _sources():
            _put(archive, name, content)
    return to


def _put(
    archive: zipfile.ZipFile, name: str, content: str | bytes, *, executable: bool = False
) -> None:
    info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))  # the same zip each time
    packed = name.endswith((".safetensors", ".npz", ".whl", ".png"))  # nothing to gain there
    info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    archive.writestr(info, content)


def _wheel(wheel: Path) -> Iterator[tuple[str, bytes]]:
    if wheel.suffix != ".whl":
        raise CannotExport(f"{wheel.name} is no wheel (.whl).")
    yield wheel.name, wheel.read_bytes()


def _sources() -> Iterator[tuple[str, bytes]]:
    """The checkout that this runs from, as pip installs it."""
    root = Path(grader.__file__).resolve().parents[1]
    if not (root / "pyproject.toml").is_file() or resources.course_dir() != root / "course":
        raise CannotExport(
            "An installed course has no sources to send along. Run this in a checkout, or give a built "
            "wheel with --wheel."
        )
    for name in _FILES:
        yield f"course-source/{name}", (root / name).read_bytes()
    for tree in _TREES:
        for path in sorted((root / tree).rglob("*")):
            inside = path.relative_to(root)
            if path.is_file() and not _SKIPPED & set(inside.parts) and path.suffix != ".pyc":
                yield f"course-source/{inside.as_posix()}", path.read_bytes()
