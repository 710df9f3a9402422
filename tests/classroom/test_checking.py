"""A whole notebook graded in a fresh process, and every way a file can be odd or not a notebook."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from toy_course import HEAD_SUM, SCALED_SCORES

from grader import exercises, resources
from grader.classroom import submission
from grader.classroom.checking import NotebookUnreadable, check_notebook
from grader.judge.remote import ProcessPupil
from grader.judge.remote_failures import PupilNotStarted
from grader.judge.verdict import Status

SCORES = "def scaled_scores(q, k):\n    return q @ k.T / q.shape[-1] ** 0.5"
SUM = "def head_sum(outputs):\n    return outputs.sum(dim=0)"
STUB = 'def head_sum(outputs):\n    """Sum them."""\n    raise NotImplementedError'
DEMO = "import grader.circuits\nprint('a demonstration')"


def code(source: str, grade_id: str = ""):
    marks = {"grade_id": grade_id, "locked": not grade_id.isidentifier(), "solution": True}
    if grade_id.startswith(("demo_", "check_")):
        marks = {"grade_id": grade_id, "locked": True, "solution": False}
    return new_code_cell(source, metadata={"nbgrader": marks} if grade_id else {})


def notebook(*cells):
    if not cells:
        cells = (
            new_markdown_cell("# Toy"), code("import torch\nfrom grader import check"),
            code(SCORES, "scaled_scores"), code("check(scaled_scores)", "check_scaled_scores"),
            code(DEMO, "demo_01"), code(SUM, "head_sum"), code("check(head_sum)", "check_head_sum"),
        )  # fmt: skip
    book = new_notebook(cells=list(cells))
    book.metadata["transformer_circuits"] = {"edition": "2026.1", "notebook": "00-toy"}
    return book


@pytest.fixture(autouse=True)
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {"scaled_scores": SCALED_SCORES, "head_sum": HEAD_SUM}
    monkeypatch.setattr(exercises, "registry", lambda: declared)
    monkeypatch.setattr(
        exercises, "of_notebook", lambda name: [e for e in declared.values() if e.notebook == name]
    )
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "grader")
    released = tmp_path / "course/00-toy/00-toy.ipynb"
    released.parent.mkdir(parents=True)
    nbformat.write(notebook(code(STUB, "head_sum"), code(DEMO, "demo_01")), released)


@pytest.fixture
def saved(tmp_path: Path):
    def save(book) -> Path:
        path = tmp_path / "mine.ipynb"
        if isinstance(book, bytes):
            path.write_bytes(book)
        else:
            path.write_text(book if isinstance(book, str) else json.dumps(book), encoding="utf-8")
        return path

    return save


def test_a_solved_notebook_gets_full_points_whatever_lies_between(saved) -> None:
    """One run with all that a learner may have done around two right answers."""
    book = notebook(
        code("import torch\nfrom grader import check"),
        code("1 / 0"),
        code(DEMO, "demo_01"),
        code(SUM),  # moved up, its mark lost
        code("print('x' * 10**6)\n%matplotlib inline\nscaled = input()"),
        code("def scaled_scores(q, k):\n    return q  # a first attempt", "scaled_scores"),
        code(SCORES),
        code("check(scaled_scores)", "check_scaled_scores"),
        code("scaled_scores = scaled_scores(torch.ones(2, 3), torch.ones(4, 3))"),
        code(STUB, "head_sum"),  # the course's own stub, left below the answer
        code("check(head_sum)", "check_head_sum"),
    )
    result = check_notebook(saved(book), seed=7)
    assert [v.status for v in result.verdicts] == [Status.PASS, Status.PASS]
    assert [v.exercise for v in result.verdicts] == ["scaled_scores", "head_sum"]
    assert (result.points, result.max_points) == (3.0, 3.0)
    assert {v.seed for v in result.verdicts} == {7}
    assert [run.number for run in result.cell_errors] == [2, 5]
    assert any("2 cells define scaled_scores" in note for note in result.notes)
    assert json.loads(json.dumps(result.as_json()))["points"] == 3.0


def test_each_wrong_answer_gets_its_own_words(saved) -> None:
    book = notebook(
        code("def scaled_scores(q, k):\n    return q @ k.T"),
        code("def head_summ(outputs):\n    return outputs.sum(0)", "head_sum"),
    )
    first, second = check_notebook(saved(book)).verdicts
    assert (first.status, first.mistake) == (Status.WRONG, "no_scale")
    assert second.status is Status.NOT_ATTEMPTED
    assert "No function named head_sum was found" in second.message
    assert "head_summ" in second.message


def test_a_cell_that_fails_is_named_and_a_stub_is_not_attempted(saved) -> None:
    book = notebook(code("def scaled_scores(q, k):\n    return q @"), code(STUB, "head_sum"))
    first, second = check_notebook(saved(book)).verdicts
    assert first.status is Status.CRASHED
    assert "SyntaxError" in first.message
    assert "return q @" in first.traceback
    assert second.status is Status.NOT_ATTEMPTED
    assert second.points == 0


def test_a_process_that_does_not_start_is_never_a_zero_of_the_learners(saved, monkeypatch) -> None:
    def fail(self):
        raise PupilNotStarted("no Python")

    monkeypatch.setattr(ProcessPupil, "__enter__", fail)
    result = check_notebook(saved(notebook()))
    assert [v.status for v in result.verdicts] == [Status.GRADER_ERROR] * 2


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"hello", "isn't JSON"),
        (b'{"nbformat": 4, "cells": [', "saved completely"),
        (b"<<<<<<< HEAD\n{}\n=======\n", "git merge"),
        (b"\xff\xfe\x00", "isn't UTF-8"),
        ("é".encode("latin-1") * 20, "isn't UTF-8"),
        (b"[" * 100_000, "isn't JSON"),
        (b"[1, 2]", "not a Jupyter notebook"),
        (b'{"a": 1}', "not a Jupyter notebook"),
        (b'{"nbformat": 9, "cells": []}', "newer than this"),
        (b'{"nbformat": 4, "metadata": {}}', "no cells"),
        (b'{"nbformat": 4, "cells": [' + b"{}," * 2000 + b"{}]}", "has 2001 cells"),
        (b'{"nbformat": 3, "worksheets": 5}', "old notebook format"),
        (b'{"nbformat": 4, "cells": [], "metadata": {}}', "not a notebook of this course"),
        (json.dumps(new_notebook(cells=[code("def other(): pass")])), "not a notebook of this course"),
    ],
)  # fmt: skip
def test_what_is_no_notebook_of_ours_gets_a_sentence(saved, data, sentence) -> None:
    with pytest.raises(NotebookUnreadable, match=sentence):
        check_notebook(saved(data))


def test_no_file_and_a_folder(tmp_path) -> None:
    with pytest.raises(NotebookUnreadable, match="can't be read"):
        check_notebook(tmp_path / "nowhere.ipynb")
    with pytest.raises(NotebookUnreadable, match="is a folder"):
        check_notebook(tmp_path)


def sources(book, saved) -> list[str]:
    return [source for _, source in submission.read(saved(book)).cells]


def test_an_unchanged_demo_is_skipped_and_a_changed_one_runs(saved) -> None:
    assert DEMO not in sources(notebook(), saved)
    book = notebook()
    book.cells[4].source = DEMO + "\nmore = 1"
    assert DEMO + "\nmore = 1" in sources(book, saved)


def test_numbers_count_all_code_cells(saved) -> None:
    assert [n for n, _ in submission.read(saved(notebook())).cells] == [1, 2, 3, 5, 6]


def without_metadata(book) -> None:
    book["metadata"] = {}
    for cell in book["cells"]:
        cell["metadata"] = {}


def another_notebooks_mark(book) -> None:
    book["metadata"]["transformer_circuits"] = {"notebook": "09-elsewhere", "edition": "2031"}


def metadata_of_wrong_types(book) -> None:
    book["metadata"] = [1]
    for cell in book["cells"]:
        cell["metadata"] = "none"


@pytest.mark.parametrize(
    "edit", [without_metadata, another_notebooks_mark, metadata_of_wrong_types]
)
def test_without_its_mark_it_is_known_by_its_functions(saved, edit) -> None:
    book = copy.deepcopy(notebook())
    edit(book)
    found = submission.read(saved(book))
    assert found.notebook == "00-toy"
    assert any("by its functions it is 00-toy" in note for note in found.notes)
    assert SCORES in [source for _, source in found.cells]


def test_a_marked_notebook_without_answers_is_still_ours(saved) -> None:
    assert submission.read(saved(notebook(code("x = 1")))).notebook == "00-toy"


def test_an_older_format_and_lines_as_a_list(saved) -> None:
    old = {
        "nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""},
        "worksheets": [{"cells": [{
            "cell_type": "code", "collapsed": False, "input": SUM.splitlines(keepends=True),
            "language": "python", "metadata": {}, "outputs": [],
        }]}],
    }  # fmt: skip
    assert sources(old, saved) == [SUM]
    book = notebook(code(SUM))
    book.cells[0].source = SUM.splitlines(keepends=True)
    assert sources(book, saved) == [SUM]


def test_utf8_with_a_mark_and_utf16_are_read(saved) -> None:
    text = json.dumps(notebook(code(SUM + "  # é")), ensure_ascii=False)
    assert sources(text.encode("utf-8-sig"), saved) == [SUM + "  # é"]
    assert sources(text.encode("utf-16"), saved) == [SUM + "  # é"]


def test_damaged_cells_are_left_out_with_a_note(saved) -> None:
    book = json.loads(json.dumps(notebook(code(SUM))))
    book["cells"] += [None, {"cell_type": "code"}, {"cell_type": 3, "source": "x"}]
    found = submission.read(saved(book))
    assert [source for _, source in found.cells] == [SUM]
    assert "3 damaged cells were left out." in found.notes


def test_an_answer_that_became_text_is_told(saved) -> None:
    book = notebook(code(SCORES))
    book.cells.append(new_markdown_cell(SUM, metadata={"nbgrader": {"grade_id": "head_sum"}}))
    assert any("is a markdown cell now" in note for note in submission.read(saved(book)).notes)
