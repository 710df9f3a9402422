"""Hostile notebooks in a warm sandbox, one after the other, with a neighbour in it and a world outside."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch

from grader import exercises
from grader.judge import remote
from grader.judge.judge import judge
from grader.judge.layers import Layers
from grader.judge.remote import RemotePupil
from grader.judge.sandbox import Isolation, Sandbox
from grader.judge.spec import Budget
from grader.judge.verdict import Status, Verdict
from grader.pupil.reply import Outcome
from tests.submission_cases import Submission
from tests.witnesses import World, descendants, world

ASKED = exercises.find("causal_pattern")
IMPATIENT = dataclasses.replace(ASKED, budget=Budget(wall=1.0)) if ASKED else None
RIGHT = (
    "import torch\n"
    "def causal_pattern(scores):\n"
    "    future = torch.ones_like(scores, dtype=torch.bool).triu(1)\n"
    "    return scores.masked_fill(future, -torch.inf).softmax(-1)"
)
CELLS_WALL = 3.0


@dataclasses.dataclass
class Arena:
    """A sandbox with a neighbour in it, who has answered and wrote a file, and the world outside."""

    sandbox: Sandbox
    outside: World
    neighbour: RemotePupil
    server: int
    processes: int

    def grade(self, case: Submission) -> tuple[Verdict, str]:
        """The verdict, and everything that came back from the notebook."""
        cells = case.numbered(self.outside.as_cell())
        with self.sandbox.pupil(cells, wall=CELLS_WALL, memory_mib=512) as pupil:
            verdict = judge(IMPATIENT, pupil)
            return verdict, f"{verdict} {pupil.runs}"

    def reached(self, said: str) -> list[str]:
        """What became of the world outside the notebook's own process."""
        seen = self.outside.harm(said)
        if len(descendants(self.server)) != self.processes:
            seen.append("a process outlived its notebook")
        return seen

    def others(self) -> list[str]:
        """What became of other submissions: the server they share, one that is open, the next one."""
        seen = []
        if self.sandbox._server is None or self.sandbox._server._process.pid != self.server:
            seen.append("the server had to be started again")
        reply = self.neighbour.call("secret", (), 5.0)
        if reply.outcome is not Outcome.ANSWERED or reply.value != self.outside.token:
            seen.append(f"the neighbour's answer changed: {reply}")
        with self.sandbox.pupil([(1, RIGHT)]) as pupil:
            following = judge(ASKED, pupil)
        if following.status is not Status.PASS:
            seen.append(f"the next submission did not pass: {following}")
        return seen


@contextlib.contextmanager
def arena(isolation: Isolation, folder: Path, layers: Layers | None = None) -> Iterator[Arena]:
    neighbours = [(1, "open('mine.txt', 'w').write(open('token.txt').read())"),
                  (2, "def secret():\n    return open('mine.txt').read()")]  # fmt: skip
    with (
        mock.patch.object(remote, "GRACE", 1.0),
        world(folder) as outside,
        Sandbox(isolation, jobs=2, _layers=layers) as sandbox,
        sandbox.pupil(neighbours, files={"token.txt": outside.token.encode()}) as neighbour,
    ):
        assert neighbour.call("secret", (), 5.0).value == outside.token
        server = sandbox._server._process.pid
        yield Arena(sandbox, outside, neighbour, server, len(descendants(server)))


def lacks(sandbox: Sandbox, case: Submission) -> list[str]:
    """What an honest notebook missed in the sandbox, none where it noticed nothing."""
    with sandbox.pupil(list(enumerate([*case.cells, RIGHT], start=1)), wall=60.0) as pupil:
        missed = [f"a cell failed: {run}" for run in pupil.runs if run.error]
        verdict = judge(ASKED, pupil)
        if verdict.status is not Status.PASS:
            missed.append(f"the right answer did not pass: {verdict}")
        reply = pupil.call("works", (torch.ones(2, 3),), 20.0)
    if reply.outcome is not Outcome.ANSWERED or reply.value is not True:
        missed.append(f"what it tried did not work: {reply}")
    return missed
