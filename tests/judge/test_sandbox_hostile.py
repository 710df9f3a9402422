"""Hostile notebooks, one after the other in a warm sandbox: nothing reached, no points, nobody harmed."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator

import pytest

from grader.judge.judge import judge
from grader.judge.layers import Layers
from grader.judge.remote import ProcessPupil
from grader.judge.sandbox import Isolation
from grader.judge.verdict import Status
from tests import submission_cases
from tests.arena import ASKED, Arena, arena, lacks
from tests.submission_cases import Submission
from tests.witnesses import world

pytestmark = [
    pytest.mark.needs_sandbox,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="only Linux locks notebooks in"
    ),
]

HOSTILE = submission_cases.every("hostile")
HONEST = submission_cases.every("honest")


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Iterator[Arena]:
    with arena(Isolation.FULL, tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="module")
def container(tmp_path_factory) -> Iterator[Arena]:
    with arena(Isolation.CONTAINER, tmp_path_factory.mktemp("world")) as made:
        yield made


def hold(place: Arena, case: Submission) -> None:
    verdict, said = place.grade(case)
    assert place.reached(said) == [], said
    assert place.others() == [], said
    assert verdict.points == 0, verdict
    assert verdict.status is not Status.GRADER_ERROR, verdict


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
    with arena(isolation, tmp_path_factory.mktemp("world"), layers) as made:
        yield made


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
    assert lacks(full.sandbox, case) == []


@pytest.mark.long
@of("container", HONEST)
def test_honest_notebooks_notice_nothing_in_a_container(container: Arena, case: Submission) -> None:
    assert lacks(container.sandbox, case) == []


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
