"""A batch handed to a dask cluster that somebody runs: one task a submission.

Whoever reaches a scheduler can run anything on its workers, and a scheduler unpickles what it is
sent. So only trusted processes may reach it: TLS with a certificate for each, or a network that is
yours alone. Learners' code never does: it runs in each worker's own sandbox, which has no network.

TLS is dask's own configuration, for instance in the environment of the scheduler, of the workers and
of ``grader grade``::

    DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
    DASK_DISTRIBUTED__COMM__TLS__CA_FILE=ca.pem
    DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT=me.pem   # and CLIENT__KEY, WORKER__…, SCHEDULER__…

What a worker process starts with is only this module's functions, found by name: the grader has to be
installed there in the same version. Seeds travel with each submission; the class's secret does not.
"""

from __future__ import annotations

import atexit
import threading
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import grader
from grader.classroom.grading.one import Job, Opener, Outcome, failed, run

if TYPE_CHECKING:
    import distributed


class ClusterUnusable(RuntimeError):
    """The cluster can't be reached or used; the message says why and what helps."""


class Cluster:
    """``with Cluster(address, isolation) as cluster:`` — an engine. Raises ClusterUnusable.

    A worker that dies loses nothing: its submissions are graded by others. A submission that brings
    worker after worker down is given up as the grader's fault, not the learner's.
    """

    def __init__(self, address: str, isolation: str, *, wait: float = 30.0) -> None:
        self._address, self._isolation, self._wait = address, isolation, wait
        self._run = uuid.uuid4().hex
        self._client: distributed.Client | None = None

    def __enter__(self) -> Cluster:
        try:
            import distributed
        except ModuleNotFoundError:
            raise ClusterUnusable(
                "--scheduler needs the extra `cluster`: "
                "python -m pip install 'transformer-circuits-course[cluster]'"
            ) from None
        secure = distributed.Security().get_connection_args("client")
        if self._address.startswith("tls:") and secure.get("ssl_context") is None:
            raise ClusterUnusable(
                f"{self._address} asks for TLS, and no certificate is set here: "
                "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY."
            )
        try:
            self._client = distributed.Client(
                self._address, timeout=self._wait, set_as_default=False
            )
            self._client.wait_for_workers(1, timeout=self._wait)
        except (OSError, ValueError, RuntimeError, TypeError) as error:
            self.__exit__()
            raise ClusterUnusable(
                f"No cluster with workers answers at {self._address} within {self._wait:.0f} s "
                f"({error or type(error).__name__}). Are its scheduler and workers running, and are the "
                "TLS settings (DASK_DISTRIBUTED__COMM__TLS__…) the same here and there?"
            ) from None
        return self

    def __exit__(self, *failure: object) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def work(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        import distributed

        client = self._client
        assert client is not None, "work is done inside `with`"
        jobs, waiting = iter(jobs), distributed.as_completed([], loop=client.loop)
        of: dict[distributed.Future[Outcome], Job] = {}
        try:
            while True:
                room = 2 * sum(client.nthreads().values()) + 2
                while len(of) < room and (job := next(jobs, None)) is not None:
                    key = f"grade-{self._run}-{job.number}"
                    future = client.submit(grade_there, job, self._isolation, key=key, pure=False)
                    of[future] = job
                    waiting.add(future)
                if not of:
                    return
                future = next(waiting)
                yield self._finished(future, of.pop(future))
        finally:
            client.cancel(list(of))

    def _finished(self, future: distributed.Future[Outcome], job: Job) -> tuple[Job, Outcome]:
        import distributed

        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            return job, failed(job, error, self._isolation)
        if error is not None:
            raise ClusterUnusable(f"A worker at {self._address} can't grade: {error}")
        outcome: Outcome = future.result()
        if outcome.version != grader.__version__:
            raise ClusterUnusable(
                f"A worker has version {outcome.version} of the course, and here it is "
                f"{grader.__version__}. Install the same on both."
            )
        return job, outcome


def grade_there(job: Job, isolation: str) -> Outcome:
    """On a worker: grade one submission in the sandbox that this process keeps."""
    return run(job, _sandbox(isolation), isolation)


_kept: dict[str, Any] = {}
_lock = threading.Lock()


def _sandbox(isolation: str) -> Opener:
    """One sandbox a worker process, started by the first submission; its threads share it."""
    with _lock:
        if isolation not in _kept:
            import distributed

            from grader.judge.sandbox import Isolation, Sandbox

            threads = distributed.get_worker().state.nthreads
            sandbox = Sandbox(Isolation(isolation), jobs=threads)
            _kept[isolation] = sandbox.__enter__()
            atexit.register(sandbox.__exit__, None, None, None)
        sandbox_there: Opener = _kept[isolation]
        return sandbox_there
