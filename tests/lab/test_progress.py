"""Progress is kept whole, whoever writes at the same time and whatever lies in the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from grader.judge.verdict import Status, Verdict
from grader.lab import files, progress


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADER_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def verdict(
    status: Status, points: float = 0.0, name: str = "qk_circuit", of: float = 4.0
) -> Verdict:
    return Verdict(name, status, points, of, "words", seed=1)


def test_only_the_best_result_counts_and_a_pass_stays() -> None:
    progress.record(verdict(Status.PARTIAL, 2.0))
    assert (progress.best("qk_circuit"), progress.passed("qk_circuit")) == (2.0, False)
    progress.record(verdict(Status.PASS, 4.0))
    progress.record(verdict(Status.WRONG))
    assert (progress.best("qk_circuit"), progress.passed("qk_circuit")) == (4.0, True)
    assert progress.snapshot()["qk_circuit"]["attempts"] == 3
    assert (progress.best("ov_circuit"), progress.passed("ov_circuit")) == (0.0, False)


@pytest.mark.parametrize("status", [Status.NOT_ATTEMPTED, Status.GRADER_ERROR])
def test_what_the_learner_did_not_do_is_no_attempt(status: Status) -> None:
    progress.record(verdict(status))
    assert progress.snapshot() == {}


def test_more_points_for_an_exercise_in_a_new_edition_are_compared_as_shares() -> None:
    progress.record(verdict(Status.PARTIAL, 3.0, of=4.0))
    progress.record(verdict(Status.PARTIAL, 4.0, of=8.0))
    assert progress.best("qk_circuit") == 3.0


def test_hints_only_go_up() -> None:
    progress.record_hint("qk_circuit", 2)
    progress.record_hint("qk_circuit", 1)
    assert progress.hints_seen("qk_circuit") == 2
    assert progress.hints_seen("ov_circuit") == 0
    progress.record(verdict(Status.PASS, 4.0))
    assert progress.hints_seen("qk_circuit") == 2


DAMAGED = {
    "cut off": b'{"format": 1, "exercises": {"qk_circ',
    "empty": b"",
    "not text": b"\xff\xfe\x00",
    "a list": b"[]",
    "a bomb": b"[" * 100_000,
    "another program's": b'{"theme": "dark"}',
    "exercises a list": b'{"format": 1, "exercises": []}',
    "an exercise a number": b'{"format": 1, "exercises": {"qk_circuit": 3}}',
    "points a string": b'{"format": 1, "exercises": {"qk_circuit": {"points": "4"}}}',
    "points NaN": b'{"format": 1, "exercises": {"qk_circuit": {"points": NaN}}}',
    "points infinite": b'{"format": 1, "exercises": {"qk_circuit": {"points": Infinity}}}',
    "points negative": b'{"format": 1, "exercises": {"qk_circuit": {"points": -1}}}',
    "a later format": b'{"format": 2, "exercises": {}}',
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_set_aside_and_never_lost(data: Path, content: bytes) -> None:
    data.mkdir()
    (data / "progress.json").write_bytes(content)
    assert progress.snapshot() == {}
    assert progress.best("qk_circuit") == 0.0
    progress.record(verdict(Status.PASS, 4.0))
    assert progress.passed("qk_circuit")
    [kept] = progress.set_aside()
    assert kept.read_bytes() == content


def test_two_damaged_files_in_one_second_are_both_kept(data: Path) -> None:
    data.mkdir()
    for content in (b"first", b"second"):
        (data / "progress.json").write_bytes(content)
        progress.record(verdict(Status.PASS, 4.0))
    assert {path.read_bytes() for path in progress.set_aside()} == {b"first", b"second"}


def test_a_folder_that_cannot_be_made_says_so_and_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GRADER_DATA", str(tmp_path / "file" / "below"))
    with pytest.raises(progress.ProgressNotSaved, match=r"can't be written.*GRADER_DATA"):
        progress.record(verdict(Status.PASS, 4.0))
    assert progress.snapshot() == {}


def test_a_file_that_cannot_be_opened_is_left_as_it_is(data: Path) -> None:
    (data / "progress.json").mkdir(parents=True)
    with pytest.raises(progress.ProgressNotSaved):
        progress.record(verdict(Status.PASS, 4.0))
    assert (data / "progress.json").is_dir()
    assert progress.set_aside() == []


def test_a_lock_that_is_never_given_back_is_not_waited_for_forever(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LOCK_SECONDS", 0.05)
    data.mkdir()
    with (
        filelock.FileLock(data / "progress.lock"),
        pytest.raises(progress.ProgressNotSaved, match="another program"),
    ):
        progress.record(verdict(Status.PASS, 4.0))


def test_notebooks_that_write_at_the_same_time_lose_nothing() -> None:
    """Without the lock the last writer wins and most of the 60 attempts are gone."""
    code = (
        "import sys\n"
        "from grader.judge.verdict import Status, Verdict\n"
        "from grader.lab import progress\n"
        "for i in range(20):\n"
        "    progress.record(Verdict('shared', Status.WRONG, 0.0, 4.0, '', seed=1))\n"
        "    progress.record(Verdict(f'{sys.argv[1]}-{i}', Status.PASS, 4.0, 4.0, '', seed=1))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(i)]) for i in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    kept = progress.snapshot()
    assert kept["shared"]["attempts"] == 60
    assert len(kept) == 61


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress.record(verdict(Status.PASS, 4.0))
    before = (data / "progress.json").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(progress.ProgressNotSaved, match="No space left"):
        progress.record(verdict(Status.WRONG, name="ov_circuit"))
    assert (data / "progress.json").read_bytes() == before
    assert {path.name for path in data.iterdir()} <= {"progress.json", "progress.lock"}


def test_the_file_is_plain_json_that_a_person_can_read(data: Path) -> None:
    progress.record(verdict(Status.PASS, 4.0))
    whole = json.loads((data / "progress.json").read_text(encoding="utf-8"))
    assert whole["exercises"]["qk_circuit"]["points"] == 4.0
