"""Hostile notebooks, one after the other in a warm sandbox: nothing reached, no points, nobody harmed."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator

import pytest
import submission_cases
import torch
from submission_cases import Submission
from witnesses import World, descendants, world

from grader import exercises
from grader.judge import remote
from grader.judge.judge import judge
from grader.judge.layers import Layers
from grader.judge.remote import ProcessPupil, RemotePupil
from grader.judge.sandbox import Isolation, Sandbox
from grader.judge.spec import Budget
from grader.judge.verdict import Status, Verdict
from grader.pupil.reply import Outcome

pytestmark = [
    pytest.mark.needs_sandbox,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="only Linux locks notebooks in"
    ),
]

HOSTILE = submission_cases.every("hostile")
HONEST = submission_cases.every("honest")
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

    def harm(self, said: str) -> list[str]:
        seen = self.outside.harm(said)
        if self.sandbox._server is None or self.sandbox._server._process.pid != self.server:
            seen.append("the server had to be started again")
        if len(descendants(self.server)) != self.processes:
            seen.append("a process outlived its notebook")
        reply = self.neighbour.call("secret", (), 5.0)
        if reply.outcome is not Outcome.ANSWERED or reply.value != self.outside.token:
            seen.append(f"the neighbour's answer changed: {reply}")
        return seen


def arena(isolation: Isolation, folder, layers: Layers | None = None) -> Iterator[Arena]:
    neighbours = [(1, "open('mine.txt', 'w').write(open('token.txt').read())"),
                  (2, "def secret():\n    return open('mine.txt').read()")]  # fmt: skip
    with (
        pytest.MonkeyPatch.context() as patch,
        world(folder) as outside,
        Sandbox(isolation, jobs=2, _layers=layers) as sandbox,
        sandbox.pupil(neighbours, files={"token.txt": outside.token.encode()}) as neighbour,
    ):
        patch.setattr(remote, "GRACE", 1.0)
        assert neighbour.call("secret", (), 5.0).value == outside.token
        server = sandbox._server._process.pid
        yield Arena(sandbox, outside, neighbour, server, len(descendants(server)))


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Iterator[Arena]:
    yield from arena(Isolation.FULL, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def container(tmp_path_factory) -> Iterator[Arena]:
    yield from arena(Isolation.CONTAINER, tmp_path_factory.mktemp("world"))


def hold(place: Arena, case: Submission) -> None:
    verdict, said = place.grade(case)
    harm = place.harm(said)
    with place.sandbox.pupil([(1, RIGHT)]) as pupil:
        following = judge(ASKED, pupil)
    assert harm == [], said
    assert verdict.points == 0, verdict
    assert verdict.status is not Status.GRADER_ERROR, verdict
    assert following.status is Status.PASS, following


def of(isolation: str, cases: list[Submission] = HOSTILE) -> Callable[..., object]:
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.name, marks=[pytest.mark.long] if case.long else [])
            for case in cases
            if case.runs_at(isolation)
        ],
    )


@of("full")
def test_full_isolation_holds(full: Arena, case: Submission) -> None:
    hold(full, case)


@pytest.mark.long
@of("container")
def test_isolation_in_a_container_holds(container: Arena, case: Submission) -> None:
    hold(container, case)


# Older kernels and stricter systems. What Python does with a frame is the same on all of them.
WEAKER = {
    "full, no Landlock": (Isolation.FULL, {"landlock": 0}),
    "full, the Landlock of Linux 5.19": (Isolation.FULL, {"landlock": 2}),
    "full, no mounts of its own": (Isolation.FULL, {"nested": False, "landlock": 4}),
    "container, the first Landlock": (Isolation.CONTAINER, {"landlock": 1}),
}
OF_PYTHON = ("frames", "answers", "patches", "forged faults", "shell", "seeds", "exits", "output")
OF_THE_SYSTEM = [case for case in HOSTILE if case.header["family"] not in OF_PYTHON]


@pytest.fixture(scope="module", params=WEAKER)
def weaker(request, tmp_path_factory) -> Iterator[Arena]:
    isolation, without = WEAKER[request.param]
    layers = dataclasses.replace(Layers.found(), **without)
    yield from arena(isolation, tmp_path_factory.mktemp("world"), layers)


@pytest.mark.long
@pytest.mark.parametrize("case", OF_THE_SYSTEM, ids=lambda case: case.name)
def test_what_a_missing_layer_did_is_done_by_another(weaker: Arena, case: Submission) -> None:
    if not case.runs_at(weaker.sandbox._isolation):
        pytest.skip("a folder has no size of its own")
    if case.header.get("needs") == "own mounts" and not weaker.sandbox._layers.nested:
        pytest.skip("bubblewrap's own file systems can't be limited in the number of files")
    hold(weaker, case)


@of("full", HONEST)
def test_honest_notebooks_notice_nothing(full: Arena, case: Submission) -> None:
    passes(full.sandbox, case)


@pytest.mark.long
@of("container", HONEST)
def test_honest_notebooks_notice_nothing_in_a_container(container: Arena, case: Submission) -> None:
    passes(container.sandbox, case)


def passes(sandbox: Sandbox, case: Submission) -> None:
    with sandbox.pupil(list(enumerate([*case.cells, RIGHT], start=1)), wall=60.0) as pupil:
        assert [run for run in pupil.runs if run.error] == []
        assert judge(ASKED, pupil).status is Status.PASS
        reply = pupil.call("works", (torch.ones(2, 3),), 20.0)
    assert reply.outcome is Outcome.ANSWERED, reply
    assert reply.value is True


@pytest.mark.long
@pytest.mark.parametrize(
    "case", [c for c in HOSTILE if "control" in c.header], ids=lambda case: case.name
)
def test_without_a_sandbox_the_witnesses_see_the_harm(tmp_path, case: Submission) -> None:
    """The test of the test. Only what a process of one's own can do and what is undone with it."""
    with world(tmp_path) as outside:
        beside = tmp_path / "beside"
        beside.mkdir()
        with ProcessPupil(case.numbered(outside.as_cell()), folder=beside) as pupil:
            verdict = judge(ASKED, pupil)
            said = f"{verdict} {pupil.runs}"
        assert outside.harm(said) != [], said
