"""A batch on a dask cluster: the same results as here, over TLS, and though a worker dies."""

from __future__ import annotations

import csv
import datetime
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from books import NOTEBOOK, RIGHT, WRONG, book, laid_out
from test_reported import sandbox

import grader
from grader.classroom.grading import cluster
from grader.classroom.grading.cluster import Cluster, ClusterUnusable
from grader.classroom.grading.one import Job
from grader.classroom.grading.store import NAME

ROOT = Path(grader.__file__).parents[1]
JOB = Job(1, "hw.ipynb", NOTEBOOK, book(RIGHT), {}, {}, 0)
PATIENCE = 240.0

needs_dask = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("distributed") is None,
    reason="needs the extra `cluster`",
)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ClusterUnusable, match=r"circuits-course\[cluster\]"),
        Cluster("tcp://x", ""),
    ):
        pass


class Future:
    """What a finished task looks like from here."""

    def __init__(self, error: BaseException | None = None, version: str = "") -> None:
        self.error, self.version = error, version

    def exception(self) -> BaseException | None:
        return self.error

    def result(self) -> object:
        return type("", (), {"version": self.version})()


@needs_dask
def test_a_submission_that_brings_workers_down_is_the_graders_fault() -> None:
    import distributed

    job = Job(1, "x", NOTEBOOK, b"", {}, dict.fromkeys(_names(), 7), 0)
    worker = types.SimpleNamespace(address="tls://there")
    killed = distributed.KilledWorker("task", worker, 3)  # type: ignore[arg-type]
    _, outcome = Cluster("tcp://x", "full")._finished(Future(killed), job)  # type: ignore[arg-type]
    assert outcome.failed
    assert outcome.points is None


def _names() -> list[str]:
    from grader import exercises

    return [exercise.name for exercise in exercises.of_notebook(NOTEBOOK)]


@needs_dask
def test_a_worker_that_can_not_grade_stops_the_batch_with_a_sentence() -> None:
    there = Cluster("tcp://x", "full")
    with pytest.raises(ClusterUnusable, match="no bubblewrap"):
        there._finished(Future(RuntimeError("no bubblewrap")), JOB)  # type: ignore[arg-type]
    with pytest.raises(ClusterUnusable, match=r"version 2025\.1"):
        there._finished(Future(version="2025.1"), JOB)  # type: ignore[arg-type]


@needs_dask
def test_no_scheduler_or_no_certificate_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterUnusable, match="no certificate is set here"):
        Cluster("tls://127.0.0.1:1", "full").__enter__()
    with pytest.raises(ClusterUnusable, match="No cluster with workers answers"):
        Cluster("tcp://127.0.0.1:1", "full", wait=0.5).__enter__()


def test_what_a_worker_runs_is_found_by_its_name() -> None:
    """A function that travels by value would start a sandbox for every task."""
    assert cluster.grade_there.__module__ == "grader.classroom.grading.cluster"
    assert cluster.grade_there.__qualname__ == "grade_there"


# From here on, a scheduler and two workers as an administrator starts them.


def certificates(folder: Path) -> dict[str, str]:
    """A certificate authority and one certificate that it signed → dask's settings for them."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def made(
        name: str, issuer: str, signer: ec.EllipticCurvePrivateKey | None
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        told = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (name, issuer)]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(told[0])
            .issuer_name(told[1])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
            .sign(signer or key, hashes.SHA256())
        )  # fmt: skip
        keys[name] = key
        paths = folder / f"{name}.pem", folder / f"{name}-key.pem"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    keys: dict[str, ec.EllipticCurvePrivateKey] = {}
    authority, _ = made("authority", "authority", None)
    cert, key = made("class", "authority", keys["authority"])
    tls = "DASK_DISTRIBUTED__COMM__TLS"
    settings = {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        f"{tls}__CA_FILE": str(authority),
    }
    for role in ("CLIENT", "WORKER", "SCHEDULER"):
        settings |= {f"{tls}__{role}__CERT": str(cert), f"{tls}__{role}__KEY": str(key)}
    return settings


Starter = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start a Python module; all are ended with the test. Says what they wrote if it fails."""
    running: list[subprocess.Popen[bytes]] = []

    def starting(*arguments: object, **settings: str) -> subprocess.Popen[bytes]:
        with open(tmp_path / f"said-{len(running)}.txt", "wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, arguments)],
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | settings,
            )
        running.append(process)
        return process

    yield starting
    for process in running:
        process.kill()
        process.wait()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def results(out: Path) -> int:
    if not (out / NAME).exists():
        return 0
    connection = sqlite3.connect(out / NAME)
    try:
        return int(connection.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.OperationalError:  # no table yet
        return 0
    finally:
        connection.close()


def table(out: Path) -> list[dict[str, str]]:
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def seeds(out: Path) -> list[str]:
    connection = sqlite3.connect(out / NAME)
    rows = connection.execute("SELECT outcome FROM results").fetchall()
    connection.close()
    return sorted(
        str(verdict["seed"]) for (told,) in rows for verdict in json.loads(told)["verdicts"]
    )


@pytest.mark.long
@needs_dask
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux locks notebooks in")
def test_over_tls_the_same_results_though_a_worker_dies(tmp_path: Path, start: Starter) -> None:
    opened, isolation = sandbox()
    opened.close()
    trust = ["--trust"] if isolation == "none" else []
    files = {f"learner {n}.ipynb": book(f"n = {n}", WRONG if n % 3 else RIGHT) for n in range(12)}
    handed_in = laid_out(tmp_path / "in", files)
    secret = tmp_path / "secret"
    secret.write_text("s" * 40, encoding="utf-8")
    tls = certificates(tmp_path)
    at = tmp_path / "scheduler.json"
    start("distributed.cli.dask_scheduler", "--protocol", "tls", "--port", 0, "--no-dashboard",
          "--scheduler-file", at, **tls)  # fmt: skip
    until(at.exists, "the scheduler didn't start")
    workers = [
        start("distributed.cli.dask_worker", "--scheduler-file", at, "--no-nanny", "--nthreads", 1,
              "--no-dashboard", "--name", f"worker-{n}", **tls)
        for n in range(2)
    ]  # fmt: skip
    address = json.loads(at.read_text(encoding="utf-8"))["address"]
    assert address.startswith("tls://")
    common = [handed_in, "--isolation", isolation, *trust, "--secret", secret]

    refused = start("grader", "grade", *common, "--out", tmp_path / "no", "--scheduler", address)
    grading = start(
        "grader", "grade", *common, "--out", tmp_path / "there", "--scheduler", address, **tls
    )
    until(lambda: results(tmp_path / "there") >= 2, "nothing was graded on the cluster")
    workers[0].send_signal(signal.SIGKILL)
    assert grading.wait(PATIENCE) == 0
    assert refused.wait(PATIENCE) == 2, "graded without a certificate"
    here = start("grader", "grade", *common, "--out", tmp_path / "here")
    assert here.wait(PATIENCE) == 0
    assert table(tmp_path / "there") == table(tmp_path / "here")
    assert seeds(tmp_path / "there") == seeds(tmp_path / "here")
    assert len(seeds(tmp_path / "here")) == 12 * len(_names())
    assert results(tmp_path / "no") == 0
