"""The whole course: its solved notebooks run, and what it takes on a disk."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

import nbformat
import psutil
from nbclient import NotebookClient

from grader import exercises, resources
from tests.bench import course_install
from tests.bench.kernels import REPOSITORY, surroundings
from tests.bench.rows import Row, seconds

MIB = 2**20
EVERY = 0.25  # seconds between two looks at the memory
AT_A_TIME = 2  # notebooks: one a core of the machine that the bar is for


def rows() -> Iterator[Row]:
    yield from notebooks()
    yield from sizes()


def notebooks() -> Iterator[Row]:
    """Each solved notebook in a clean kernel, top to bottom, in a copy; two at a time."""
    names = longest_first()
    with tempfile.TemporaryDirectory() as home:
        copied = Path(shutil.copytree(resources.solutions_dir(), Path(home) / "solutions"))
        paths = [copied / name / f"{name}.ipynb" for name in names]
        # Processes, as each watches the memory of all that it starts; and anew, since torch has threads.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(AT_A_TIME, context) as pool:
            started = time.perf_counter()
            ran = list(pool.map(execute, paths, [Path(home)] * len(paths)))
            whole = time.perf_counter() - started
    heaviest, peak = max(zip(names, ran, strict=True), key=lambda one: one[1][1])
    yield Row(
        "all solution notebooks, executed", (whole,), "s",
        at_most=360.0, note=f"{AT_A_TIME} at a time",
    )  # fmt: skip
    yield Row(
        "their kernel's largest memory, with all it started", (peak[1],), "MiB",
        at_most=2048.0, note=heaviest,
    )  # fmt: skip
    for name, (spent, mib) in sorted(zip(names, ran, strict=True)):
        yield Row(f"notebook {name}", (spent,), "s", note=f"{mib:.0f} MiB")


def longest_first() -> list[str]:
    """The notebooks, those that train at the head: a core that is left alone with one waits long."""
    trains = {e.notebook: e.budget.wall for e in exercises.registry().values() if e.free_rng}
    return sorted(exercises.NOTEBOOKS, key=lambda name: -trains.get(name, 0.0))


def execute(path: Path, home: Path) -> tuple[float, float]:
    """→ seconds from the kernel's start to its end, and its peak memory in MiB.

    Raises nbclient's CellExecutionError, which shows the cell and what it raised.
    """
    client = NotebookClient(
        nbformat.read(path, as_version=4),
        timeout=300,
        resources={"metadata": {"path": str(path.parent)}},
    )
    with mock.patch.dict("os.environ", surroundings(home)), memory_of_children() as peak:
        # Jupyter's remarks about TCP go to stderr; what a cell prints there does not.
        took = seconds(lambda: client.execute(stderr=subprocess.DEVNULL))
    return took, peak[0]


@contextlib.contextmanager
def memory_of_children() -> Iterator[list[float]]:
    """The largest memory, in MiB, of all that this process starts in the block, together."""
    here, peak, over = psutil.Process(), [0.0], threading.Event()
    others = set(here.children(recursive=True))

    def look() -> None:
        while not over.wait(EVERY):
            started = set(here.children(recursive=True)) - others
            peak[0] = max(peak[0], sum(map(memory, started)) / MIB)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def memory(process: psutil.Process) -> float:
    """Bytes; where the system tells, pages shared by several processes count once among them."""
    try:
        told = process.memory_full_info()
    except psutil.Error:
        return 0.0  # it ended just now
    return float(getattr(told, "pss", told.rss))


def sizes() -> Iterator[Row]:
    """The wheel, and all that installing it puts on the disk but torch."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        subprocess.run([*command, str(REPOSITORY)], check=True, capture_output=True)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        yield Row(
            "the wheel",
            (wheel.stat().st_size / MIB,),
            "MiB",
            note=f"{unpacked / MIB:.0f} MiB unpacked",
        )
    needed = course_install.needed()
    installed = unpacked + sum(course_install.size(name) for name in needed)
    yield Row(
        "installed, with all that it needs but torch", (installed / MIB,), "MiB",
        note=f"{len(needed)} packages; without those that only torch needs",
    )  # fmt: skip
