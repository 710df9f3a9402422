"""Who does the work: threads that wait on a sandbox here, or the workers of a cluster."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Iterable, Iterator
from typing import Protocol

from grader.classroom.grading.one import Job, Opener, Outcome, failed, run


class Engine(Protocol):
    """Grades jobs in any order; takes few more of them than it works on, so that memory stays flat."""

    def work(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]: ...


class Here:
    """A pool of threads, each waiting on one notebook in the sandbox."""

    def __init__(self, sandbox: Opener, isolation: str, jobs: int) -> None:
        self._sandbox, self._isolation, self._jobs = sandbox, isolation, jobs

    def work(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        pool = concurrent.futures.ThreadPoolExecutor(self._jobs, thread_name_prefix="grading")
        waiting: dict[concurrent.futures.Future[Outcome], Job] = {}
        jobs = iter(jobs)
        try:
            while True:
                while len(waiting) < self._jobs and (job := next(jobs, None)) is not None:
                    waiting[pool.submit(run, job, self._sandbox, self._isolation)] = job
                if not waiting:
                    return
                done, _ = concurrent.futures.wait(
                    waiting, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in done:
                    job, error = waiting.pop(future), future.exception()
                    outcome = failed(job, error, self._isolation) if error else future.result()
                    yield job, outcome
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
