"""Grading a class: seconds, memory and throughput, beside nbgrader and otter on the same exercises.

All contestants grade the notebooks of ``grading_forms``, with right and wrong answers, and have to give
the same points before anything is timed. Ours is timed from outside, as ``grader grade FOLDER``, and
once more with the server kept warm (``batch.grade``: taken in, graded, stored, reported), since its
start is paid once a batch. The peers run as PyPI installs them. With that comes an optional grammar of
jsonschema's, which costs them some three seconds an import of nbformat; we do without it
(``grader.notebook_format``). nbgrader has a start as well: what it takes for each further notebook of a
batch is beside our warm figures. ``otter run`` takes one notebook, so a batch of its is a loop.
"""

from __future__ import annotations

import functools
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grader.classroom.grading.engines import processors
from tests.bench import grading_batches as batches
from tests.bench import grading_cluster, grading_kills
from tests.bench import grading_forms as forms
from tests.bench.grading_peers import Assigned, Course, Kernels, PeerFailed
from tests.bench.rows import Row, alternate, seconds

BATCH = 20
OF_NBGRADER = 3  # as many of the batch as the minutes allow
ROUNDS = 2
SIZES = (1, 10, 100, 1_000)
CHEAP = "00-residual-stream"  # of which one exercise is answered, so that a thousand take a minute


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-grading-") as folder:
        place = Path(folder)
        yield from beside_peers(place)
        yield from throughput(place)
        yield from against_n(place)
        yield from grading_cluster.rows(place)
        yield from grading_kills.rows(place)


def beside_peers(place: Path) -> Iterator[Row]:
    """Points first, with each one's memory; then seconds, in turns."""
    course, assigned = Course(place / "nbgrader"), Assigned(place / "otter")
    kernels = agree(course, assigned, place)
    yield from memory(*kernels)
    yield from speed(measure(course, assigned, place))


def agree(course: Course, assigned: Assigned, place: Path) -> tuple[float, float]:
    """One right and one wrong submission in all three → MiB of nbgrader's and of otter's kernel.

    Nothing is timed here, so the peers work at the same time. Raises PeerFailed.
    """
    deserved = {number: forms.points(wrong=number % 2 == 1) for number in range(2)}
    batches.command(batches.hand_in(place / "two", 2), place / "out-two")
    given = {"us": list(batches.points(place / "out-two").values())}
    for number in deserved:
        hand_in(course, assigned, number)
    with (
        Kernels("nbgrader") as nbgraders,
        Kernels("otter") as otters,
        ThreadPoolExecutor() as pool,
    ):
        at_work = [pool.submit(course.autograde, "*")]
        at_work += [pool.submit(assigned.grade, f"learner-{number}") for number in deserved]
        for one in at_work:
            one.result()
    graded = course.points()
    given["nbgrader"] = [graded[f"learner-{number}"] for number in deserved]
    given["otter"] = [assigned.points(f"learner-{number}") for number in deserved]
    for who, points in given.items():
        if points != list(deserved.values()):
            raise PeerFailed(f"{who} gave {points} points instead of {list(deserved.values())}")
    return nbgraders.peak, otters.peak


def hand_in(course: Course, assigned: Assigned, number: int) -> None:
    for peer in (course, assigned):
        peer.hand_in(f"learner-{number}", number, wrong=number % 2 == 1)


def memory(nbgraders: float, otters: float) -> Iterator[Row]:
    own, server = batches.child_memory()
    note = f"USS, at most; the pages that all share are the warm server's {server:.0f} MiB, once"
    for peer, peak, bar in (
        ("nbgrader's kernel", nbgraders, 64.0),
        ("otter's kernel", otters, None),
    ):
        yield Row(
            f"memory of one notebook's process, beside {peer}", tuple(own), "MiB", peer=peer,
            peer_runs=(peak,), at_most=bar, note=note,
        )  # fmt: skip


def measure(course: Course, assigned: Assigned, place: Path) -> dict[str, tuple[float, ...]]:
    """Seconds of each contestant, whole runs, in turns. All have run once before."""
    for number in range(2, OF_NBGRADER):
        hand_in(course, assigned, number)
    one, many = batches.hand_in(place / "one", 1), batches.hand_in(place / "many", BATCH)

    def ours(handed_in: Path) -> float:
        with tempfile.TemporaryDirectory(dir=place) as out:
            return batches.command(handed_in, Path(out)).seconds

    with batches.Warm(processors()) as warm:

        def warmed(handed_in: Path) -> float:
            """While the others work, the server idles, and nothing of it stays in the processor's caches."""
            warm.grade(handed_in, processors())
            return warm.grade(handed_in, processors())

        contestants: dict[str, Callable[[], float]] = {
            "nbgrader": lambda: seconds(lambda: course.autograde("learner-0")),
            "warm batch": lambda: warmed(many),
            "ours": lambda: ours(one),
            "otter": lambda: seconds(lambda: assigned.grade("learner-0")),
            "warm": lambda: warmed(one),
            "nbgrader batch": lambda: seconds(lambda: course.autograde("*")),
            "warm batch again": lambda: warmed(many),
            "ours batch": lambda: ours(many),
        }
        took = alternate(contestants, ROUNDS, warm=0)
    return {**took, "start": (batches.start().seconds,)}


def speed(took: dict[str, tuple[float, ...]]) -> Iterator[Row]:
    """Seconds a submission. nbgrader's batch is as if of ``BATCH``: its start, then each further one."""
    otter = took["otter"]
    further = tuple(
        (batch - one) / (OF_NBGRADER - 1)
        for one, batch in zip(took["nbgrader"], took["nbgrader batch"], strict=True)
    )
    nbgrader = tuple(
        (one + (BATCH - 1) * each) / BATCH
        for one, each in zip(took["nbgrader"], further, strict=True)
    )
    ours = tuple(run / BATCH for run in took["ours batch"])
    warm = tuple(run / BATCH for run in took["warm batch"] + took["warm batch again"])
    exercises = f"{forms.NOTEBOOK}, {len(forms.tasks())} exercises"
    some = f"{exercises}; {OF_NBGRADER} of the batch run in nbgrader"
    few = f"{exercises}; otter runs one at a time, {len(otter)} were run"
    for peer, one, batch, bar, note in (
        ("nbgrader", took["nbgrader"], further, 50.0, some),
        ("otter", otter, otter, 100.0, few),
    ):
        whole = nbgrader if peer == "nbgrader" else otter
        yield _each("batch of 20, server warm", warm, peer, batch, note, bar)
        yield _each("batch of 20, whole command", ours, peer, whole, note)
        yield _each("one, server warm", took["warm"], peer, one, exercises)
        yield _each("one, whole command", took["ours"], peer, one, exercises)
    yield Row(
        "start of grader grade", took["start"], "s",
        note="imports, the warm server in its sandbox, and its end; once a batch",
    )  # fmt: skip


def _each(
    what: str,
    runs: tuple[float, ...],
    peer: str,
    peer_runs: tuple[float, ...],
    note: str,
    bar: float | None = None,
) -> Row:
    return Row(
        f"seconds a submission, {what}, beside {peer}", runs, "s", peer=peer, peer_runs=peer_runs,
        ratio_at_least=bar, note=note,
    )  # fmt: skip


def throughput(place: Path) -> Iterator[Row]:
    """Submissions a second at several jobs, the server warm."""
    jobs = (1, 2, 4)
    with batches.Warm(max(jobs)) as warm:

        def rate(number: int) -> float:
            return BATCH / warm.grade(place / "many", number)

        rate(max(jobs))
        runs = alternate({str(n): functools.partial(rate, n) for n in jobs}, ROUNDS, warm=0)
    for number in jobs:
        yield Row(
            f"throughput with --jobs {number}", runs[str(number)], "submissions/s",
            more_is_better=True, note=f"batches of {BATCH}, {processors()} processors",
        )  # fmt: skip


def against_n(place: Path) -> Iterator[Row]:
    """The whole command for more and more notebooks: linear, and no more memory."""
    handed_in = {n: batches.hand_in(place / f"n-{n}", n, CHEAP, answers=1) for n in SIZES}
    ran: dict[int, list[batches.Ran]] = {n: [] for n in SIZES}
    for turn in range(ROUNDS):
        for n in SIZES if turn == 0 else SIZES[:1]:  # which all others are compared with
            ran[n].append(batches.command(handed_in[n], place / f"out-{n}-{turn}"))
    took = {n: tuple(one.seconds for one in runs) for n, runs in ran.items()}
    for n in SIZES:
        note = f"{CHEAP}, one exercise answered"
        yield Row(f"{n:,} submission{'s' * (n > 1)}, whole command", took[n], "s", note=note)
    few, many = SIZES[-2:]
    further = {n: _further(took, n) for n in (few, many)}
    yield Row(
        f"a submission's time among {many:,}, over that among {few:,}",
        (further[many] / further[few],), "×",
        at_most=1.2, note="whole commands, less that for one submission",
    )  # fmt: skip
    peak = {n: max(one.peak_mib for one in runs) for n, runs in ran.items()}
    yield Row(
        f"memory with {many:,} submissions, over that with {few:,}",
        (peak[many] / peak[few],), "×",
        at_most=1.2, note=f"peak of the judge's process, {peak[many]:.0f} MiB",
    )  # fmt: skip
    hours = (statistics.median(took[1]) + 9_999 * further[many]) / 3600
    yield Row("10,000 submissions", (hours,), "hours", note="extrapolated, not run")


def _further(took: dict[int, tuple[float, ...]], n: int) -> float:
    """Seconds of each further submission of a batch of ``n``."""
    return (statistics.median(took[n]) - statistics.median(took[1])) / (n - 1)
