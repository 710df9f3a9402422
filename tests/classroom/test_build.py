"""Sources become notebooks: the same bytes each time, all of nbgrader's metadata, no solution leaks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from toy_course import HEAD_SUM, SCALED_SCORES, ToyCourse

import grader
from grader import answers, resources
from grader.classroom import build as building
from grader.classroom.sources import SourceError

REPOSITORY = Path(grader.__file__).resolve().parents[1]


def cells(path: Path) -> list[Any]:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return list(notebook.cells)


@pytest.fixture
def built(toy: ToyCourse) -> ToyCourse:
    building.build(toy.root)
    return toy


def test_a_build_reports_what_it_made_and_a_second_one_changes_nothing(toy: ToyCourse) -> None:
    first = building.build(toy.root)
    assert (first.notebooks, first.exercises, first.points) == (("00-toy",), 2, 3)
    assert first.written == ("solutions/00-toy/00-toy.ipynb", "course/00-toy/00-toy.ipynb")
    assert building.check(toy.root) == []
    bytes_before = {path: (toy.root / path).read_bytes() for path in first.written}
    second = building.build(toy.root)
    assert second.written == ()
    assert second.unchanged == first.written
    assert bytes_before == {path: (toy.root / path).read_bytes() for path in first.written}
    assert second.as_json()["points"] == 3


def test_cells_carry_nbgraders_metadata_and_fixed_ids(built: ToyCourse) -> None:
    for path in (resources.solved("00-toy"), resources.released("00-toy")):
        about = {c.id: c.metadata.get("nbgrader") for c in cells(path)}
        assert list(about) == [
            "cell-001", "cell-002", "cell-003", "scaled_scores", "check_scaled_scores",
            "demo_00", "cell-007", "head_sum", "check_head_sum",
        ]  # fmt: skip
        kinds = {
            name: (m["solution"], m["grade"], m["locked"], m.get("points"), m["schema_version"])
            for name, m in about.items()
            if m
        }
        assert kinds == {
            "scaled_scores": (True, False, False, None, 3),
            "check_scaled_scores": (False, True, True, 2, 3),
            "demo_00": (False, False, True, None, 3),
            "head_sum": (True, False, False, None, 3),
            "check_head_sum": (False, True, True, 1, 3),
        }
        assert all(m["grade_id"] == name for name, m in about.items() if m)


def test_a_notebook_is_stamped_and_holds_no_outputs(built: ToyCourse) -> None:
    for path in (resources.solved("00-toy"), resources.released("00-toy")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert notebook["metadata"]["transformer_circuits"] == {
            "edition": grader.__version__,
            "notebook": "00-toy",
        }
        assert notebook["metadata"]["kernelspec"]["name"] == "python3"
        for cell in notebook["cells"]:
            assert cell.get("outputs", []) == []
            assert cell.get("execution_count") is None


def test_learners_get_stubs_and_teachers_solutions(built: ToyCourse) -> None:
    assert answers.solution_source("head_sum") == "return outputs.sum(dim=0)"
    stub = answers.stub_source("head_sum")
    assert "raise NotImplementedError()" in stub
    assert "(head, pos, d_model)" in stub
    scope: dict[str, Any] = {}
    exec(stub, scope)
    with pytest.raises(NotImplementedError):
        scope["head_sum"](None)
    released = resources.released("00-toy").read_text(encoding="utf-8")
    assert "SOLUTION" not in released
    assert "outputs.sum" not in released
    assert not list((built.root / "course").rglob("*.py"))


def test_nothing_is_left_in_the_users_home_or_the_course(
    toy: ToyCourse, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "USERPROFILE", "JUPYTER_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("PATH", os.defpath)  # nor is a program of nbgrader's looked for
    building.build(toy.root)
    assert list(home.iterdir()) == []
    files = {p.relative_to(toy.root).as_posix() for p in toy.root.rglob("*") if p.is_file()}
    assert files == {
        "solutions/00-toy.py", "solutions/00-toy/00-toy.ipynb", "course/00-toy/00-toy.ipynb",
    }  # fmt: skip


def test_foreign_files_stay_and_a_failed_build_changes_nothing(built: ToyCourse) -> None:
    mine = built.root / "course/00-toy/my-notes.ipynb"
    mine.write_text("not even a notebook")
    before = resources.released("00-toy").read_bytes()
    built.edit("### END SOLUTION", "# the end")
    with pytest.raises(SourceError):
        building.build(built.root)
    assert resources.released("00-toy").read_bytes() == before
    built.edit("# the end", "### END SOLUTION")
    built.edit("Two heads add.", "Heads add.")
    assert len(building.build(built.root).written) == 2
    assert mine.read_text() == "not even a notebook"


def test_check_says_which_file_differs_and_where(built: ToyCourse) -> None:
    path = resources.released("00-toy")
    path.write_text(path.read_text(encoding="utf-8").replace("Two heads", "Three heads"))
    (difference,) = building.check(built.root)
    assert difference.startswith("course/00-toy/00-toy.ipynb differs")
    assert "'cell-007'" in difference
    path.write_text("{")
    assert building.check(built.root) == ["course/00-toy/00-toy.ipynb is not a readable notebook"]
    path.unlink()
    assert building.check(built.root) == ["course/00-toy/00-toy.ipynb is missing"]


def test_check_finds_notebooks_whose_source_is_gone(built: ToyCourse) -> None:
    old = built.root / "course/01-old/01-old.ipynb"
    old.parent.mkdir()
    old.write_bytes(resources.released("00-toy").read_bytes())
    (built.root / "course/00-toy/own.ipynb").write_text("{}")
    assert building.check(built.root) == [
        "course/01-old/01-old.ipynb has no source in solutions/ any more"
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "# %% demo",
            "# %% demonstration",
            "here it is 'demonstration'",
        ),
        ("# %% demo", '# %% demo tags=["x"]', "here it is 'demo' ['tags']"),
        ("    ### END SOLUTION\n", "", "there is `### BEGIN SOLUTION`."),
        ("    ### BEGIN SOLUTION\n", "", "there is `### END SOLUTION`."),
        ("    ### BEGIN SOLUTION\n", "    ### BEGIN SOLUTIONS\n", "it needs one line"),
        (
            "def head_sum(outputs):",
            "def heads_sum(outputs):",
            "it defines heads_sum. Declared: scaled",
        ),
        ("def head_sum(outputs):", "def scaled_scores(q, k):", "scaled_scores has 2 answer cells"),
        ("def head_sum(outputs):", "def head_sum(outputs)", "not valid Python"),
        ("check(head_sum)", "check(head_sum);", "must be the bare call"),
        ("check(head_sum)", "points = check(head_sum)", "must be the bare call"),
        ("check(head_sum)", "check(head_sum)\nprint()", "must be the bare call"),
        ("check(head_sum)", "check(head_sums)", "no exercise here is called head_sums"),
        ("# %% check\ncheck(head_sum)\n", "", "head_sum has no check cells; it needs one"),
        ("check(head_sum)", "check(scaled_scores)", "scaled_scores has 2 check cells"),
        (
            "# %% answer\ndef head_sum",
            "# %%\ndef head_sum",
            "belong into answer cells and questions only",
        ),
        ('print("a demonstration")', "scores = q @ k.T", "is part of the solution and also stands"),
        (
            "    return outputs.sum(dim=0)\n    ### END SOLUTION",
            "    return outputs.sum(dim=0)\n\n\ndef other():\n    return 1\n    ### END SOLUTION",
            "must stand inside the body of head_sum",
        ),
    ],
)
def test_a_flawed_source_is_refused_in_its_authors_words(
    toy: ToyCourse, old: str, new: str, said: str
) -> None:
    toy.edit(old, new)
    with pytest.raises(SourceError) as refused:
        building.build(toy.root)
    assert said in str(refused.value)
    assert all(flaw.startswith("00-toy.py") for flaw in refused.value.flaws)


def test_every_flaw_is_named_at_once(toy: ToyCourse) -> None:
    toy.edit("check(head_sum)", "check(head_sum);")
    toy.edit("    ### END SOLUTION\n", "")
    with pytest.raises(SourceError) as refused:
        building.build(toy.root)
    assert "bare call" in str(refused.value)
    assert "BEGIN SOLUTION" in str(refused.value)


def test_an_exercise_nobody_declared_is_refused(toy: ToyCourse) -> None:
    toy.declare(SCALED_SCORES)
    with pytest.raises(SourceError, match=r"it defines head_sum\. Declared: scaled_scores"):
        building.build(toy.root)
    toy.declare(SCALED_SCORES, HEAD_SUM)
    toy.edit("# %% answer\ndef head_sum", "# %% demo\ndef head_sum")
    with pytest.raises(SourceError, match="head_sum has no answer cells"):
        building.build(toy.root)


def test_wrong_folders_and_names_are_said(toy: ToyCourse, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"There is no source 09-none\.py; there are 00-toy"):
        building.build(toy.root, ["09-none"])
    with pytest.raises(SourceError, match="no notebook sources"):
        building.build(tmp_path / "empty")
    toy.source.rename(toy.source.with_name("toy.py"))
    with pytest.raises(SourceError, match="like 01-zero-layer"):
        building.build(toy.root)


def test_the_repositorys_notebooks_are_what_their_sources_give() -> None:
    assert building.check(REPOSITORY) == []


def test_no_line_of_a_solution_stands_in_the_notebook_handed_out() -> None:
    """Counted again here, from the files alone and without the builder's own search."""
    for notebook in resources.notebooks():
        released = json.loads(resources.released(notebook).read_text(encoding="utf-8"))
        shown = {line.strip() for cell in released["cells"] for line in cell["source"]}
        assert not any("BEGIN SOLUTION" in line or "END SOLUTION" in line for line in shown)
        assert not list(resources.released(notebook).parent.glob("*.py"))
        for name in answers.answer_cells(resources.solved(notebook)):
            lines = {line.strip() for line in answers.solution_source(name).split("\n")}
            assert not {line for line in lines & shown if len(line) >= 12}
