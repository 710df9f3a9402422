"""How long until the course is open, and until a notebook's first cell has run."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat

from grader import resources
from tests.bench import kernels
from tests.bench.kernels import REPOSITORY, surroundings
from tests.bench.rows import Row, seconds
from tests.served import Lab, until_left

FIRST = "00-residual-stream"


def rows() -> Iterator[Row]:
    yield from start()
    yield from first_cell()


def start(rounds: int = 2) -> Iterator[Row]:
    """``grader start`` as on a learner's first day: nothing is there yet."""
    times = [until_the_page_answers() for _ in range(1 + rounds)][1:]
    yield Row(
        "grader start until the page answers", tuple(times), "s", note="in a folder that is new"
    )


def until_the_page_answers() -> float:
    with tempfile.TemporaryDirectory() as home:
        started = time.perf_counter()
        with course(Path(home)) as lab:
            status, _ = lab.get(f"lab{lab.page}")
            took = time.perf_counter() - started
            assert status == 200, f"the page answers {status}"
    return took


@contextlib.contextmanager
def course(home: Path) -> Iterator[Lab]:
    """``grader start --no-browser`` in a folder below ``home``, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "grader", "start", str(home / "course"), "--no-browser"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
        env=surroundings(home) | {"PYTHONUNBUFFERED": "1"}, cwd=REPOSITORY,
    )  # fmt: skip
    with until_left(process) as lab:
        yield lab


def first_cell(rounds: int = 3) -> Iterator[Row]:
    """The first code cell of the first notebook, which imports what the notebook needs."""
    notebook = nbformat.read(resources.solved(FIRST), as_version=4)
    source = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    times = [first_result(source) for _ in range(1 + rounds)][1:]
    whole, alone = zip(*times, strict=True)
    yield Row("first cell of a notebook, from the kernel's start to its result", whole, "s")
    yield Row("first cell of a notebook, the kernel being ready", alone, "s")


def first_result(source: str) -> tuple[float, float]:
    """→ seconds of a new kernel's start and the cell together, and of the cell alone."""
    with tempfile.TemporaryDirectory() as home:
        started = time.perf_counter()
        with kernels.kernel(Path(home)) as client:
            alone = seconds(lambda: kernels.run(client, source))
            return time.perf_counter() - started, alone
