"""``python killer.py IN OUT KILLS LONGEST SEED [ISOLATION]``: a batch, killed again and again.

Each attempt is a process that grades and is killed (SIGKILL) at a random moment: while it takes in,
between two results, in the middle of writing one. The last attempt may end. This process imports
all there is once, and forks the attempts, so that a hundred of them are quick; it has one thread.
What an attempt leaves behind becomes a child of this process, which says whether there was any.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from pathlib import Path

from books import NOTEBOOK, Bench, Silent

from grader import exercises
from grader.classroom.grading import batch
from grader.classroom.grading.one import Outcome


class Loud(Silent):
    """Says each graded submission into a pipe."""

    def __init__(self, pipe: int) -> None:
        super().__init__()
        self.pipe = pipe

    def graded(self, outcome: Outcome) -> None:
        os.write(self.pipe, b".")


def attempt(handed_in: Path, out: Path, isolation: str) -> tuple[int, int]:
    """Start one → (its process id, the pipe that it tells its progress through)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        how = batch.How(jobs=2, isolation=isolation or "full")
        batch.grade([handed_in], out, how, Loud(writing))
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def kill(pid: int, pipe: int, longest: float) -> int:
    """Let some results come, then kill within ``longest`` seconds → how many came."""
    wanted, came = random.randrange(5), 0
    deadline = time.monotonic() + 60
    while came < wanted and time.monotonic() < deadline:
        ready, _, _ = select.select([pipe], [], [], 1.0)
        if ready and not os.read(pipe, 1):
            break  # it ended by itself
        came += bool(ready)
    time.sleep(random.uniform(0, longest if wanted == 0 else longest / 10))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(pipe)
    return came


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    PR_SET_CHILD_SUBREAPER = 36
    assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def left_behind(patience: float = 30.0) -> bool:
    """Whether a descendant is still there after so many seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not ended:
            time.sleep(0.05)
    return True


def main() -> None:
    handed_in, out, kills, longest, seed = sys.argv[1:6]
    random.seed(int(seed))
    isolation = sys.argv[6] if len(sys.argv) > 6 else ""
    if not isolation:
        batch.Sandbox = Bench  # type: ignore[assignment, misc]
    true = exercises.of_notebook
    asked = [e for e in true(NOTEBOOK) if e.name == "virtual_weights"]
    exercises.of_notebook = lambda name: asked if name == NOTEBOOK else true(name)
    exercises.registry()
    adopt_orphans()
    assert len(os.listdir("/proc/self/task")) == 1, "fork from one thread only"
    before_its_end = sum(
        kill(*attempt(Path(handed_in), Path(out), isolation), float(longest))
        for _ in range(int(kills))
    )
    pid, pipe = attempt(Path(handed_in), Path(out), isolation)
    while os.read(pipe, 4096):
        pass
    _, status = os.waitpid(pid, 0)
    told = {"status": status, "seen_before_kills": before_its_end, "left_behind": left_behind()}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
