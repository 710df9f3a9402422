"""One hostile notebook through nbgrader or otter, watched from beside it: runs inside ``hostile_sandbox``.

Runs in the peers' environment, so it imports nothing of ours but the witnesses, which lie beside it. Reads
what is asked as JSON and writes one line of JSON:

points: by the tool's own books, None without a grade; seen: what the witnesses saw, as sentences
hung: whether it had to be ended; seconds: of the tool; log: the end of what the tool said
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from witnesses import World

HOME = Path("/home/teacher")
COURSE = HOME / "course"
RESULT = HOME / "result.json"
MEMORY = 4 * 2**30
PROCESSES = 256  # threads are counted as well; a kernel has some twenty
# What the outer limits must not hide: who takes nearly all there is would have taken the machine's.
MUCH = 0.9


def main() -> None:
    asked = json.load(sys.stdin)
    become(asked["user"])
    print(json.dumps(attack(asked)), flush=True)


def become(user: int | None) -> None:
    """Nobody at all, with a home of its own and limits for itself and all that it starts."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    for kind, most in ((resource.RLIMIT_NPROC, PROCESSES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (most, most))
    HOME.mkdir()
    os.environ.update(
        HOME=str(HOME), USER="teacher", PATH=f"{sys.prefix}/bin:/usr/bin:/bin", LANG="C.UTF-8",
        OMP_NUM_THREADS="1", MPLBACKEND="Agg", PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore",
    )  # fmt: skip
    os.chdir(HOME)


def attack(asked: dict[str, Any]) -> dict[str, Any]:
    """Grade the notebook with the tool, and look around."""
    from witnesses import world  # beside this file in the sandbox

    shutil.copytree("/given", COURSE)
    records = HOME / "records"
    records.mkdir()
    with world(records, COURSE / "reference.py") as outside:
        submit(asked["tool"], [outside.as_cell(), *asked["cells"]])
        started = time.monotonic()
        hung, most = run(asked["tool"], asked["wall"], outside)
        seconds = time.monotonic() - started
        left = [] if hung else strangers(outside.victim.pid)
        points, said = books(asked["tool"])
        seen = [*outside.harm(said), *most]
    if left:
        seen.append(f"outlived the run: {left[:5]}")
    log = Path("log").read_text(errors="replace")[-1500:]
    return {"points": points, "seen": seen, "hung": hung, "seconds": seconds, "log": log}


def submit(tool: str, cells: list[str]) -> None:
    """The learner's notebook: the one that was handed out, the last cell with an answer in its place."""
    place = COURSE / {"nbgrader": "submitted/mallory/patterns", "otter": "submitted"}[tool]
    notebook = json.loads((COURSE / f"{tool}.ipynb").read_text())
    at = next(
        n for n, cell in enumerate(notebook["cells"]) if "NotImplementedError" in _source(cell)
    )
    answer = max(n for n, cell in enumerate(cells) if "causal_pattern" in cell)
    notebook["cells"][at]["source"] = cells[answer]
    notebook["cells"][at + 1 : at + 1] = map(code, cells[answer + 1 :])
    notebook["cells"][at:at] = map(code, cells[:answer])
    place.mkdir(parents=True)
    (place / "patterns.ipynb").write_text(json.dumps(notebook))


def code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code", "execution_count": None, "id": os.urandom(4).hex(), "metadata": {},
        "outputs": [], "source": source,
    }  # fmt: skip


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


COMMANDS = {
    "nbgrader": ["-m", "nbgrader", "autograde", "patterns", "--student", "mallory"],
    "otter": [__file__, "otter"],
}


def run(tool: str, wall: float, outside: World) -> tuple[bool, list[str]]:
    """Whether the tool had to be ended, and what it took of the machine or held till then."""
    most: list[str] = []
    processes, memory = 0, 0
    with open("log", "wb") as log:
        tool_itself = subprocess.Popen(
            [sys.executable, *COMMANDS[tool]], cwd=COURSE, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )  # fmt: skip
        end = time.monotonic() + wall
        while tool_itself.poll() is None and time.monotonic() < end:
            tasks, largest = usage()
            processes, memory = max(processes, tasks), max(memory, largest)
            time.sleep(0.1)
        hung = tool_itself.poll() is None
        if hung:
            most += outside.harm("")  # whoever is held is let go with the end
            tool_itself.kill()
            tool_itself.wait()
    if processes > MUCH * PROCESSES:
        most.append(f"took all the processes there were ({processes})")
    if memory > MUCH * MEMORY:
        most.append(f"took all the memory there was ({memory / 2**30:.1f} GiB)")
    return hung, most


def usage() -> tuple[int, int]:
    """Tasks of the whole sandbox, and the bytes that its largest process has asked for."""
    tasks, largest = 0, 0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            told = dict(
                line.split(":", 1)
                for line in (path / "status").read_text().splitlines()
                if ":" in line
            )
            tasks += int(told.get("Threads", 1))
            largest = max(largest, int(told.get("VmPeak", "0 kB").split()[0]) * 1024)
    return tasks, largest


def strangers(victim: int, grace: float = 2.0) -> list[str]:
    """Who is still there some time after the tool has ended, beside ourselves and what we started."""
    end = time.monotonic() + grace
    while True:
        left = [_command(n) for n in processes() - {1, os.getpid(), victim} if not _dead(n)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def processes() -> set[int]:
    return {int(path.name) for path in Path("/proc").glob("[0-9]*")}


def _dead(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _command(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " ")[:80]
    return "?"


def books(tool: str) -> tuple[float | None, str]:
    """The grade the teacher sees, None without one; and all that the notebook printed."""
    return {"nbgrader": nbgrader_books, "otter": otter_books}[tool]()


def nbgrader_books() -> tuple[float | None, str]:
    graded = COURSE / "autograded" / "mallory" / "patterns" / "patterns.ipynb"
    if not graded.exists():  # nbgrader removes what it couldn't grade
        return None, ""
    # One submission is in this book. nbgrader's own reader starts a process of seconds each time.
    asked = "select sum(coalesce(manual_score, auto_score)) from grade"
    with contextlib.closing(sqlite3.connect(COURSE / "gradebook.db")) as book:
        points = book.execute(asked).fetchone()[0]
    return (None if points is None else float(points)), printed(json.loads(graded.read_text()))


def otter() -> None:
    """What ``otter run`` does, in a process of its own, and keep what it returns."""
    from otter.run import main as grade

    results = grade(
        "submitted/patterns.ipynb", autograder="autograder.zip", output_dir=".", no_logo=True
    )
    told = {"points": float(results.total), "said": printed(results.notebook or {"cells": []})}
    RESULT.write_text(json.dumps(told))


def otter_books() -> tuple[float | None, str]:
    if not RESULT.exists():
        return None, ""
    told = json.loads(RESULT.read_text())
    return told["points"], told["said"]


def printed(notebook: Any) -> str:
    """Outputs only, without tracebacks: those would show the attack's own source."""
    return "\n".join(
        str(output.get("text") or output.get("data") or output.get("evalue") or "")
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["otter"]:
        otter()
    else:
        main()
