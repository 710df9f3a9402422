"""Rooms import one way only, and `import grader` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "grader"

# What each room may import beside itself. Whoever may import a room does not get its rooms as well.
TABLE = {
    "models": {"transformer"},
    "circuits": {"transformer"},
    "pupil": {"transformer", "models"},
    "judge": {"circuits", "pupil"},
    "exercises": {"judge", "circuits", "models"},
    "lab": {"exercises", "judge", "circuits", "models"},
    "classroom": {"lab", "exercises", "judge", "circuits", "pupil", "models"},
}
# Only these and `transformer` are there when a stranger's notebook runs.
IN_THE_SANDBOX = {"pupil", "models"}
ROOMS = set(TABLE)
ENTRANCES = {"__init__", "__main__", "cli"}
HELPERS = {path.stem for path in PACKAGE.glob("*.py")} - ENTRANCES


def owner(path: Path) -> str:
    """The room of a source file, or the name of a module that stands in no room."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imported(source: str, package: str) -> set[str]:
    """The dotted `grader…` modules a source imports, at its top, in functions, or by name.

    ``package`` is the dotted package of the source, which relative imports start from.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            parts = [base] if node.level else []
            parts += [node.module] if node.module else []
            found |= {".".join([*parts, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Call) and node.args:
            name = (
                node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            )
            argument = node.args[0]
            if name in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                found.add(str(argument.value))
    return {name for name in found if name.split(".")[0] == "grader"}


def reached(module: str) -> str | None:
    """The room or helper that a dotted `grader…` name is in; `__init__` for its lazy names.

    None for the bare package, which any import of a room brings along and which is empty.
    """
    parts = module.split(".")
    if len(parts) == 1:
        return None
    known = ROOMS | HELPERS | ENTRANCES
    return parts[1] if parts[1] in known else "__init__"


def allowed(who: str) -> set[str]:
    if who in ENTRANCES:
        return ROOMS | HELPERS | ENTRANCES
    if who in HELPERS:
        return HELPERS
    helpers = {"transformer"} if who in IN_THE_SANDBOX else HELPERS | {"__init__"}
    return TABLE[who] | {who} | helpers


def breaches(path: Path, source: str) -> list[str]:
    who = owner(path)
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return [
        f"{path.relative_to(ROOT)} imports {module}: {who} may import {sorted(allowed(who))}"
        for module in sorted(imported(source, package))
        if reached(module) not in {None, *allowed(who)}
    ]


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(PACKAGE)) for p in SOURCES])
def test_imports_follow_the_table_of_rooms(path: Path) -> None:
    assert not breaches(path, path.read_text(encoding="utf-8"))


def test_every_room_is_in_the_table() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms - ENTRANCES == ROOMS


def test_the_table_has_no_way_back() -> None:
    order = ["transformer", "models", "circuits", "pupil", "judge", "exercises", "lab", "classroom"]
    for room, may in TABLE.items():
        assert all(order.index(other) < order.index(room) for other in may)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("circuits/a.py", "from grader.judge.spec import Case"),
        ("circuits/a.py", "import grader.lab as lab"),
        ("circuits/a.py", "from grader import judge"),
        ("circuits/a.py", "from ..judge import spec"),
        ("circuits/a.py", "def f():\n    from grader.exercises import zero_layer"),
        ("circuits/a.py", "import importlib\nimportlib.import_module('grader.lab.checking')"),
        ("judge/a.py", "if True:\n    from grader.exercises import x"),
        ("exercises/zero/a.py", "from ...lab import checking"),
        ("exercises/zero/a.py", "from grader.pupil import calling"),
        ("pupil/a.py", "from grader.resources import course"),
        ("pupil/a.py", "from grader.circuits import low_rank"),
        ("models/a.py", "from grader.circuits.zero_layer import bigram_table"),
        ("models/recipes/a.py", "from grader import check"),
        ("resources.py", "from grader.lab import files"),
        ("transformer.py", "import grader.models"),
        ("lab/a.py", "from grader.classroom import build"),
        ("lab/a.py", "from grader.cli import main"),
    ],
)
def test_a_breach_is_seen(file: str, source: str) -> None:
    assert len(breaches(PACKAGE / file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("circuits/a.py", "from grader.transformer import Transformer\nimport grader.circuits.b"),
        ("circuits/a.py", "from . import b\nfrom .b import c\nfrom ..transformer import Cache"),
        ("circuits/a.py", "import numpy\nfrom torch import Tensor\nimport graders"),
        ("models/recipes/a.py", "from grader.models.shelf import load"),
        ("exercises/zero/a.py", "from grader import resources\nfrom .. import other"),
        ("lab/a.py", "from grader.exercises import every\nfrom grader import __version__"),
        ("cli.py", "def f():\n    from grader.classroom import build"),
    ],
)
def test_what_the_table_allows_is_let_through(file: str, source: str) -> None:
    assert not breaches(PACKAGE / file, source)


def heavy_after(imports: str) -> set[str]:
    program = f"import sys, {imports}; print(*{{'torch', 'numpy', 'IPython'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_importing_grader_does_not_import_torch() -> None:
    assert not heavy_after("grader")


def test_grading_imports_torch_only_once_the_sandbox_is_starting() -> None:
    assert "torch" not in heavy_after("grader.classroom.grading.command, grader.judge.sandbox")
