"""A whole batch: graded once, gone on with, graded anew where it changed, and replayed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from books import CRASHING, NOTEBOOK, OTHER, RIGHT, WRONG, Bench, Silent, book, laid_out

from grader import exercises
from grader.classroom.grading import batch, engines
from grader.classroom.grading.batch import Batch, CannotGrade, How
from grader.classroom.grading.one import Job, Outcome
from grader.classroom.grading.store import Store
from grader.exercises.mystery_models import own
from grader.judge.remote import PupilNotStarted
from grader.judge.verdict import Status

ASKED = [e for e in exercises.of_notebook(NOTEBOOK) if e.name == "virtual_weights"]


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench in place of the sandbox, and one exercise in place of five."""
    bench = Bench()
    monkeypatch.setattr(batch, "Sandbox", lambda *args, **more: bench)
    true = exercises.of_notebook
    monkeypatch.setattr(
        exercises, "of_notebook", lambda name: ASKED if name == NOTEBOOK else true(name)[:1]
    )
    return bench


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sources = {"ann": RIGHT, "bob": WRONG, "eve": CRASHING}
    return laid_out(tmp_path / "in", {f"{who}.ipynb": book(s) for who, s in sources.items()})


def grade(folder: Path, **how: object) -> tuple[Batch, Silent]:
    watcher = Silent()
    done = batch.grade([folder], folder.parent / "out", How(**how), watcher)  # type: ignore[arg-type]
    return done, watcher


def table(folder: Path) -> dict[str, dict[str, str]]:
    with open(folder.parent / "out/grades.csv", encoding="utf-8", newline="") as file:
        return {line["learner"]: line for line in csv.DictReader(file)}


def test_a_batch_is_graded_and_reported(folder: Path, bench: Bench) -> None:
    done, watcher = grade(folder, jobs=2)
    lines = table(folder)
    assert {who: line["virtual_weights"] for who, line in lines.items()} == {
        "ann": "PASS", "bob": "WRONG", "eve": "CRASHED",
    }  # fmt: skip
    assert [lines[who]["points"] for who in ("ann", "bob", "eve")] == ["1", "0", "0"]
    assert (done.handed_in, done.newly, done.left, done.all_well) == (3, 3, 0, True)
    assert watcher.told == [(3, 0)]
    assert len(watcher.outcomes) == bench.opened == 3


def test_what_has_not_changed_is_not_graded_again(folder: Path, bench: Bench) -> None:
    grade(folder)
    (folder / "bob.ipynb").write_bytes(book(RIGHT))
    laid_out(folder, {"new.ipynb": book(RIGHT)})
    done, watcher = grade(folder)
    assert watcher.told == [(2, 2)]
    assert (done.newly, bench.opened) == (2, 5)
    assert {line["points"] for who, line in table(folder).items() if who != "eve"} == {"1"}
    with Store(folder.parent / "out") as store:
        assert store.count_results() == 5


def test_the_batchs_own_folder_is_nothing_that_was_handed_in(folder: Path) -> None:
    for expected in ((3, 0), (0, 3)):
        watcher = Silent()
        done = batch.grade([folder], folder / "grades", How(), watcher)
        assert watcher.told == [expected]
        assert done.remarks == ()


def test_grading_again_is_asked_for(folder: Path, bench: Bench) -> None:
    grade(folder)
    done, _ = grade(folder, regrade=True)
    assert (done.newly, bench.opened) == (3, 6)


def test_a_batch_that_is_interrupted_goes_on(
    folder: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = engines.Here.work

    def work(self: engines.Here, jobs: Iterator[Job]) -> Iterator[tuple[Job, Outcome]]:
        for number, pair in enumerate(true(self, jobs)):
            if number == 1:
                raise KeyboardInterrupt
            yield pair

    monkeypatch.setattr(engines.Here, "work", work)
    done, _ = grade(folder, jobs=1)
    assert (done.newly, done.left, done.all_well) == (1, 2, False)
    assert table(folder)["eve"]["remark"] == "not graded yet"
    monkeypatch.undo()
    monkeypatch.setattr(batch, "Sandbox", lambda *args, **more: bench)
    done, watcher = grade(folder)
    assert watcher.told == [(2, 1)]
    assert done.left == 0
    with Store(folder.parent / "out") as store:
        assert store.count_results() == 3


def test_the_graders_own_fault_is_tried_again_and_never_a_zero(
    folder: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise PupilNotStarted("no room for a process")

    monkeypatch.setattr(bench, "pupil", broken)
    done, _ = grade(folder)
    assert not done.all_well
    assert {line["points"] for line in table(folder).values()} == {""}
    assert {line["virtual_weights"] for line in table(folder).values()} == {"GRADER_ERROR"}
    monkeypatch.undo()
    monkeypatch.setattr(batch, "Sandbox", lambda *args, **more: bench)
    done, watcher = grade(folder)
    assert watcher.told == [(3, 0)]
    assert table(folder)["ann"]["points"] != ""


def test_an_exception_of_ours_stops_no_batch(
    folder: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = bench.pupil

    def sometimes(cells: object, **more: object) -> object:
        if "KeyError" in str(cells):
            raise ZeroDivisionError("ours")
        return true(cells, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(bench, "pupil", sometimes)
    done, _ = grade(folder)
    assert done.newly == 3
    assert (table(folder)["ann"]["points"], table(folder)["eve"]["points"]) == ("1", "")
    assert "ZeroDivisionError: ours" in table(folder)["eve"]["remark"]


def test_a_grader_that_only_fails_gives_up_with_a_sentence(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise PupilNotStarted("no room for a process")

    monkeypatch.setattr(bench, "pupil", broken)
    many = {f"{n}.ipynb": book(RIGHT, f"{n}") for n in range(30)}
    folder = laid_out(tmp_path / "in", many)
    with pytest.raises(CannotGrade, match=r"12 times in a row.*no room for a process"):
        grade(folder)


def test_unreadable_hand_ins_are_settled_and_shown(folder: Path, bench: Bench) -> None:
    laid_out(folder, {"cut.ipynb": b'{"nbformat": 4, "cells": [', "empty.ipynb": b""})
    done, _ = grade(folder)
    assert (done.newly, bench.opened) == (5, 3)
    assert not done.all_well
    assert "isn't JSON" in table(folder)["cut"]["remark"]
    assert "is empty" in table(folder)["empty"]["remark"]
    assert table(folder)["cut"]["points"] == ""
    assert [who for who, _, _ in done.summary.looks] == ["cut", "empty"]
    assert grade(folder)[1].told == [(0, 5)]


def test_files_beside_the_notebook_travel_with_it(tmp_path: Path) -> None:
    source = "if FILES.get('data/x.txt') == b'hello':\n    def virtual_weights(a, b): return a @ b"
    folder = laid_out(
        tmp_path / "in", {"ann/hw.ipynb": book(source), "ann/data/x.txt": b"hello", "bob/hw.ipynb": book(source)},
    )  # fmt: skip
    grade(folder)
    assert table(folder)["ann"]["virtual_weights"] == "PASS"
    assert table(folder)["bob"]["virtual_weights"] == "NOT_ATTEMPTED"


def test_each_learner_has_own_seeds_and_own_models(folder: Path) -> None:
    seen: list[int | None] = []
    true = ASKED[0].cases
    object.__setattr__(ASKED[0], "cases", lambda draw: seen.append(own.own_seed()) or true(draw))
    try:
        _, watcher = grade(folder)
    finally:
        object.__setattr__(ASKED[0], "cases", true)
    seeds = [outcome.verdicts[0].seed for outcome in watcher.outcomes]
    assert len(set(seeds)) == 3
    assert sorted(map(str, seen)) == sorted(str(outcome.own_seed) for outcome in watcher.outcomes)
    assert len(set(seen)) == 3


def test_a_verdict_is_replayed_with_its_own_seed(folder: Path, bench: Bench) -> None:
    _, watcher = grade(folder)
    again = batch.replay(folder.parent / "out", "bob", "virtual_weights", How())
    assert again.same
    assert again.then.seed == again.now.seed
    assert again.then.status is Status.WRONG
    assert again.now.seed in {outcome.verdicts[0].seed for outcome in watcher.outcomes}
    with Store(folder.parent / "out") as store:
        assert store.count_results() == 3


def test_a_replay_that_differs_says_so(folder: Path, bench: Bench, monkeypatch) -> None:
    grade(folder)
    monkeypatch.setattr(bench, "pupil", lambda cells, **more: Bench().pupil([(1, RIGHT)], **more))
    again = batch.replay(folder.parent / "out", "bob", "virtual_weights", How())
    assert not again.same
    assert (again.then.status, again.now.status) == (Status.WRONG, Status.PASS)


def test_a_replay_of_what_is_not_kept_is_refused(folder: Path) -> None:
    out = folder.parent / "out"
    with pytest.raises(CannotGrade, match="holds no grades"):
        batch.replay(out, "bob", "virtual_weights", How())
    grade(folder)
    with pytest.raises(CannotGrade, match="Did you mean bob"):
        batch.replay(out, "bobb", "virtual_weights", How())
    with pytest.raises(CannotGrade, match="No verdict on causal_pattern of bob"):
        batch.replay(out, "bob", "causal_pattern", How())


def test_two_batches_do_not_work_in_one_folder(folder: Path) -> None:
    class Nosy(Silent):
        def graded(self, outcome: Outcome) -> None:
            with pytest.raises(CannotGrade, match="at work in"):
                grade(folder)
            super().graded(outcome)

    nosy = Nosy()
    batch.grade([folder], folder.parent / "out", How(), nosy)
    assert len(nosy.outcomes) == 3


def test_a_folder_that_cannot_be_made_is_refused(folder: Path) -> None:
    (folder.parent / "out").write_text("a file", encoding="utf-8")
    with pytest.raises(CannotGrade, match="Can't write into the folder"):
        grade(folder)


def test_a_given_secret_gives_the_same_seeds_elsewhere(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x" * 40, encoding="utf-8")
    seeds = []
    for name in ("one", "two"):
        watcher = Silent()
        batch.grade([folder], tmp_path / name, How(secret=secret), watcher)
        seeds.append(sorted(outcome.verdicts[0].seed for outcome in watcher.outcomes))
        assert not (tmp_path / name / batch.SECRET).exists()
    assert seeds[0] == seeds[1]


def test_the_summary_is_a_teachers(folder: Path) -> None:
    laid_out(folder, {f"more {n}.ipynb": book(RIGHT, f"{n}") for n in range(7)})
    laid_out(folder, {"lost.ipynb": b"", "other.ipynb": OTHER})
    done, _ = grade(folder)
    text = done.summary.as_text()
    assert "00-residual-stream: 10 submissions, median 100%" in text
    assert "01-zero-layer: 1 submission, median 0%" in text
    assert "virtual_weights" in text.partition("Exercises most failed")[2].splitlines()[1]
    assert "Need a look: 1" in text
    assert "lost, lost: lost.ipynb is empty." in text
    told = done.as_json()
    assert told["distribution"][NOTEBOOK]["tenths"] == [2, 0, 0, 0, 0, 0, 0, 0, 0, 8]
    assert told["exercises"]["virtual_weights"] == {"judged": 10, "failed": 2, "not_attempted": 0}
    assert told["needs_review"][0]["learner"] == "lost"
