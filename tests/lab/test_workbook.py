"""The working folder is the learner's: nothing of theirs is ever written over."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import toy_editions as toy

from grader import resources
from grader.lab import files, workbook
from grader.lab.workbook import WorkbookError

ANSWER = toy.solved("alpha")


@pytest.fixture(autouse=True)
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of two notebooks, and a data folder of the test's own."""
    course = tmp_path / "released"
    toy.publish(course, toy.first(), toy.notebook(*toy.exercise("gamma"), name="01-second"))
    monkeypatch.setattr(resources, "course_dir", lambda: course)
    monkeypatch.setenv("GRADER_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return course


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The learner's folder, just made."""
    workbook.prepare(tmp_path / "mine")
    return tmp_path / "mine"


def path_of(folder: Path, name: str = "00-first") -> Path:
    return folder / name / f"{name}.ipynb"


def edit(path: Path, grade_id: str, source: str) -> bytes:
    made = toy.load(path)
    for cell in made["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id:
            cell["source"] = source
    path.write_text(json.dumps(made), encoding="utf-8")
    return path.read_bytes()


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_first_start_copies_the_course_byte_for_byte(folder: Path, course: Path) -> None:
    for name in ("00-first", "01-second"):
        assert path_of(folder, name).read_bytes() == path_of(course, name).read_bytes()


def test_starting_again_touches_nothing(folder: Path) -> None:
    edit(path_of(folder), "alpha", ANSWER)
    before = everything(folder)
    assert workbook.prepare(folder) == []
    assert everything(folder) == before


def test_an_update_carries_the_answer_over_and_keeps_the_old_file(
    folder: Path, course: Path
) -> None:
    old = edit(path_of(folder), "alpha", ANSWER)
    toy.publish(course, toy.first("2", doc="Do it well."))
    [change] = workbook.prepare(folder)
    assert (change.what, change.answers) == ("updated", ("alpha",))
    updated = toy.load(path_of(folder))
    assert updated["metadata"]["transformer_circuits"]["edition"] == "2"
    assert toy.source_of(updated, "alpha") == ANSWER
    assert change.kept is not None
    assert change.kept.parent == path_of(folder).parent
    assert change.kept.read_bytes() == old
    assert workbook.prepare(folder) == []


def test_an_update_of_an_untouched_notebook_leaves_no_old_file(folder: Path, course: Path) -> None:
    toy.publish(course, toy.first("2"))
    [change] = workbook.prepare(folder)
    assert (change.what, change.kept) == ("updated", None)
    assert path_of(folder).read_bytes() == path_of(course).read_bytes()
    assert len(list(path_of(folder).parent.iterdir())) == 1


def test_answers_follow_an_exercise_into_another_notebook(folder: Path, course: Path) -> None:
    edit(path_of(folder), "beta", toy.solved("beta"))
    moved = toy.notebook(*toy.exercise("gamma"), *toy.exercise("beta"), name="01-second")
    toy.publish(course, toy.notebook(*toy.exercise("alpha"), edition="2"), moved)
    workbook.prepare(folder)
    assert toy.source_of(toy.load(path_of(folder, "01-second")), "beta") == toy.solved("beta")


DAMAGED = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b"3",
    b'{"cells": 3}',
    b'{"nbformat": 9}',
    b"<<<<<<< HEAD",
    b"[" * 100_000,
    json.dumps({**toy.first(), "cells": [3]}).encode(),
    json.dumps({**toy.first(), "cells": [{"cell_type": "code"}]}).encode(),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_notebook_is_set_aside_and_said(folder: Path, content: bytes) -> None:
    path_of(folder).write_bytes(content)
    [change] = workbook.prepare(folder)
    assert change.what == "damaged"
    assert change.kept is not None
    assert change.kept.read_bytes() == content
    assert toy.source_of(toy.load(path_of(folder)), "alpha") == toy.stub("alpha")


def test_a_notebook_of_the_old_format_is_carried_over(folder: Path, course: Path) -> None:
    cells = [
        {"cell_type": "code", "input": [ANSWER], "language": "python", "metadata": {}}
        | {"outputs": [], "collapsed": False, "prompt_number": 1}
    ]
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}
    path_of(folder).write_text(json.dumps(old), encoding="utf-8")
    toy.publish(course, toy.first("2"))
    workbook.prepare(folder)
    assert toy.source_of(toy.load(path_of(folder)), "alpha") == ANSWER


def test_a_deleted_notebook_comes_back(folder: Path, course: Path) -> None:
    path_of(folder).unlink()
    [change] = workbook.prepare(folder)
    assert change.what == "new"
    assert path_of(folder).read_bytes() == path_of(course).read_bytes()


def test_a_folder_copied_without_its_hidden_files_is_still_the_learners(folder: Path) -> None:
    edit(path_of(folder), "alpha", ANSWER)
    for path in (folder / ".transformer-circuits").iterdir():
        path.unlink()
    (folder / ".transformer-circuits").rmdir()
    before = path_of(folder).read_bytes()
    assert workbook.is_workbook(folder)
    assert workbook.prepare(folder) == []
    assert path_of(folder).read_bytes() == before


def test_files_of_the_learners_own_stay(folder: Path, course: Path) -> None:
    (folder / "00-first" / "notes.txt").write_text("mine")
    (folder / "scratch.ipynb").write_text("not even a notebook")
    toy.publish(course, toy.first("2"))
    workbook.prepare(folder)
    assert (folder / "00-first" / "notes.txt").read_text() == "mine"
    assert (folder / "scratch.ipynb").read_text() == "not even a notebook"


def test_a_file_beside_a_notebook_is_copied_and_an_edited_one_is_kept(
    folder: Path, course: Path
) -> None:
    (course / "00-first" / "text.txt").write_text("one")
    workbook.prepare(folder)
    copied = folder / "00-first" / "text.txt"
    copied.write_text("mine")
    (course / "00-first" / "text.txt").write_text("two")
    [change] = workbook.prepare(folder)
    assert copied.read_text() == "two"
    assert change.kept is not None
    assert change.kept.read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_linked_notebook_stays_a_link(folder: Path, course: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.ipynb"
    path_of(folder).rename(real)
    path_of(folder).symlink_to(real)
    edit(real, "alpha", ANSWER)
    toy.publish(course, toy.first("2"))
    workbook.prepare(folder)
    assert path_of(folder).is_symlink()
    assert toy.source_of(toy.load(real), "alpha") == ANSWER


def test_a_full_disk_leaves_the_learners_file_as_it_was(
    folder: Path, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = edit(path_of(folder), "alpha", ANSWER)
    toy.publish(course, toy.first("2"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(WorkbookError, match="No space left"):
        workbook.prepare(folder)
    assert path_of(folder).read_bytes() == old
    assert [path.name for path in path_of(folder).parent.iterdir()] == ["00-first.ipynb"]


def test_dying_at_any_write_of_an_update_loses_no_answer(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update is cut off before its first, second, … rename, and then run again."""
    replace = os.replace
    for survived in range(5):
        toy.publish(course, toy.first("1"))
        folder = tmp_path / f"cut-{survived}"
        workbook.prepare(folder)
        edit(path_of(folder), "alpha", ANSWER)
        toy.publish(course, toy.first("2", doc="Do it well."))
        left = iter(range(survived))

        def dies(source: str, target: Path, left: Any = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr(files.os, "replace", dies)
        try:
            workbook.prepare(folder)
        except KeyboardInterrupt:
            assert survived < 4
        monkeypatch.setattr(files.os, "replace", replace)
        workbook.prepare(folder)
        updated = toy.load(path_of(folder))
        assert toy.source_of(updated, "alpha") == ANSWER
        assert toy.source_of(updated, "beta") == toy.stub("beta", "Do it well.")


def test_reset_puts_one_answer_back_and_keeps_the_notebook(folder: Path) -> None:
    edit(path_of(folder), "beta", toy.solved("beta"))
    old = edit(path_of(folder), "alpha", ANSWER)
    change = workbook.reset("alpha", folder)
    assert toy.source_of(toy.load(path_of(folder)), "alpha") == toy.stub("alpha")
    assert toy.source_of(toy.load(path_of(folder)), "beta") == toy.solved("beta")
    assert change.kept is not None
    assert change.kept.read_bytes() == old


def test_reset_finds_an_answer_that_lost_its_mark_and_one_that_is_gone(folder: Path) -> None:
    mine = toy.load(path_of(folder))
    mine["cells"][3] |= {"source": ANSWER, "metadata": {}}
    path_of(folder).write_text(json.dumps(mine))
    workbook.reset("alpha", folder)
    assert toy.load(path_of(folder))["cells"][3]["source"] == toy.stub("alpha")

    del mine["cells"][3]
    path_of(folder).write_text(json.dumps(mine))
    workbook.reset("alpha", folder)
    cells = toy.load(path_of(folder))["cells"]
    assert [cell["source"] for cell in cells[3:5]] == [toy.stub("alpha"), "check(alpha)"]


def test_reset_says_what_it_cannot_do(folder: Path) -> None:
    with pytest.raises(LookupError, match="no exercise 'alphq'"):
        workbook.reset("alphq", folder)
    path_of(folder).write_text("{")
    with pytest.raises(WorkbookError, match="sets it aside"):
        workbook.reset("alpha", folder)
    assert path_of(folder).read_text() == "{"
    path_of(folder).unlink()
    with pytest.raises(WorkbookError, match="grader start"):
        workbook.reset("alpha", folder)


def test_dangerous_folders_are_refused(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    checkout = tmp_path / "checkout"
    (checkout / "grader").mkdir(parents=True)
    (checkout / "grader" / "resources.py").touch()
    (checkout / "course" / "00-first").mkdir(parents=True)
    (tmp_path / "file").touch()
    package = Path(resources.__file__).parent
    before = everything(tmp_path)
    refused = {
        tmp_path / "home": "too much",
        Path(tmp_path.anchor): "too much",
        checkout / "course": "course itself",
        checkout / "course" / "new": "course itself",
        checkout: "already holds other things",
        package / "new": "course itself",
        tmp_path / "file": "is a file",
        tmp_path / "file" / "below": "can't be",
    }
    for target, why in refused.items():
        with pytest.raises(WorkbookError, match=why):
            workbook.prepare(target)
    assert everything(tmp_path) == before
    assert not (package / "new").exists()


def test_a_folder_with_nothing_but_hidden_files_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    workbook.prepare(tmp_path / "repository")
    assert path_of(tmp_path / "repository").is_file()


def test_a_course_without_notebooks_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(resources, "course_dir", lambda: tmp_path / "empty")
    with pytest.raises(WorkbookError, match="grader build"):
        workbook.prepare(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_the_usual_folder_is_this_one_then_the_one_below_then_the_last_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workbook.usual_folder() == tmp_path / "transformer-circuits"
    workbook.prepare(tmp_path / "far" / "away")
    assert workbook.usual_folder() == tmp_path / "far" / "away"
    workbook.prepare(tmp_path / "transformer-circuits")
    workbook.prepare(tmp_path / "far" / "away")
    assert workbook.usual_folder() == tmp_path / "transformer-circuits"
    monkeypatch.chdir(tmp_path / "far" / "away")
    assert workbook.usual_folder() == tmp_path / "far" / "away"


def test_an_update_keeps_the_text_of_a_question_and_reset_takes_it_back(
    tmp_path: Path, course: Path
) -> None:
    asked = toy.notebook(*toy.exercise("alpha"), *toy.question("why"), name="00-first")
    toy.publish(course, asked)
    folder = tmp_path / "mine"
    workbook.prepare(folder)
    edit(path_of(folder), "why", "Because.")
    again = toy.notebook(
        *toy.exercise("alpha", "Do it well."), *toy.question("why"), name="00-first", edition="2"
    )
    toy.publish(course, again)
    (change,) = workbook.prepare(folder)
    assert change.answers == ("why",)
    assert toy.source_of(toy.load(path_of(folder)), "why") == "Because."
    workbook.reset("why", folder)
    made = toy.load(path_of(folder))
    assert toy.source_of(made, "why") == "YOUR ANSWER HERE"
    (cell,) = (c for c in made["cells"] if c["id"] == "why")
    assert set(cell) == {"cell_type", "id", "metadata", "source"}
