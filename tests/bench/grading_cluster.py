"""A dask cluster of two workers against the local pool with two jobs, on the same machine and batch."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import distributed

from grader.classroom.grading import batch
from tests.bench import grading_batches as batches
from tests.bench.rows import Row, alternate

SUBMISSIONS, ROUNDS = 20, 2


def rows(place: Path) -> Iterator[Row]:
    handed_in = batches.hand_in(place / "spread", SUBMISSIONS)
    with two_workers() as address, batches.Warm(2) as warm:

        def there() -> float:
            with tempfile.TemporaryDirectory(dir=place) as out:
                return batches.batch_seconds(handed_in, Path(out), batch.How(scheduler=address))

        runs = alternate({"here": lambda: warm.grade(handed_in, 2), "there": there}, ROUNDS)
    yield Row(
        f"{SUBMISSIONS} submissions, local pool of 2 jobs, beside a dask cluster of 2 workers",
        runs["here"], "s", peer="dask", peer_runs=runs["there"],
        note="servers warm; each worker judges in a process of its own, the pool in threads of one",
    )  # fmt: skip


@contextlib.contextmanager
def two_workers() -> Iterator[str]:
    """The address of a scheduler with two worker processes of one thread each."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address
