"""Questions that a person marks: built into a cell of the learner's, kept on updates, never judged."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.utils import determine_grade
from toy_course import ToyCourse

from grader import answers, exercises, resources, solution
from grader.classroom import build as building
from grader.classroom import sources
from grader.classroom import submission as submitting
from grader.classroom.sources import SourceError

GUIDE = """# ### BEGIN SOLUTION
# Because a sum has no order.
#
# **Marking guide**
#
# - **1 point**: says that addition commutes.
# - **2 points**: says what happens to the stream.
# ### END SOLUTION
"""
QUESTION = f"""
# %% [markdown]
# Why does the order of heads not matter? Write two sentences.

# %% question [markdown] name="why_no_order" points=3
{GUIDE}"""


@pytest.fixture
def asking(toy: ToyCourse) -> ToyCourse:
    toy.source.write_text(toy.source.read_text(encoding="utf-8") + QUESTION, encoding="utf-8")
    return toy


def cell_of(path: Path, name: str = "why_no_order") -> Any:
    (cell,) = (c for c in nbformat.read(path, as_version=4).cells if c.id == name)
    return cell


def test_it_is_a_manual_cell_of_nbgraders_with_the_guide_for_the_teacher_only(
    asking: ToyCourse,
) -> None:
    report = building.build(asking.root)
    assert (report.exercises, report.points) == (2, 3)
    assert (report.questions, report.question_points) == (1, 3)
    assert building.check(asking.root) == []
    solved, released = (cell_of(f("00-toy")) for f in (resources.solved, resources.released))
    for cell in (solved, released):
        about = cell.metadata["nbgrader"]
        flags = {name: about[name] for name in ("grade", "solution", "locked", "task", "points")}
        assert flags == {
            "grade": True,
            "solution": True,
            "locked": False,
            "task": False,
            "points": 3,
        }
        assert cell.cell_type == "markdown"
    assert "addition commutes" in solved.source
    assert released.source == "YOUR ANSWER HERE"
    assert "commutes" not in resources.released("00-toy").read_text(encoding="utf-8")


def test_nbgrader_gives_nothing_for_no_answer_and_leaves_the_rest_to_a_person(
    asking: ToyCourse,
) -> None:
    building.build(asking.root)
    cell = cell_of(resources.released("00-toy"))
    assert determine_grade(cell, logging.getLogger("nbgrader")) == (0, 3.0)
    cell.source = "A sum has no order."
    assert determine_grade(cell, logging.getLogger("nbgrader")) == (None, 3.0)


def test_it_is_no_exercise(asking: ToyCourse) -> None:
    building.build(asking.root)
    assert list(answers.answer_cells(resources.solved("00-toy"))) == ["scaled_scores", "head_sum"]
    assert list(answers.answer_cells(resources.solved("00-toy"), questions=True)) == [
        "why_no_order"
    ]
    with pytest.raises(answers.AnswerNotFound):
        answers.stub_source("why_no_order")


def test_a_learner_alone_reads_the_guide(
    asking: ToyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    building.build(asking.root)
    assert answers.marking_guide("why_no_order").startswith("Because a sum has no order.")
    solution("why_no_order")
    assert "says that addition commutes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("points=3\n", 'points="3"\n', "its points must be a whole number"),
        (" points=3\n", "\n", '`# %% question [markdown] name="…" points=…`'),
        ("why_no_order", "head_sum", "and no exercise's; it is 'head_sum'"),
        ("why_no_order", "why not", "is like a function's"),
        ("**2 points**", "**1 point**", "add up to 3 points; there are [1, 1]"),
        ("- **1 point**: says that addition commutes.\n# ", "", "two to four criteria"),
        ("# ### END SOLUTION", "# The end.", "a question is one solution"),
        (
            "# ### BEGIN SOLUTION\n# Because",
            "# Yours.\n#\n# ### BEGIN SOLUTION\n# Because",
            "a question is one solution",
        ),
        (
            "Write two sentences.",
            "Two sentences.\n# Because a sum has no order.",
            "also stands in cell",
        ),
        ("name=", "lock=", "`# %% question [markdown]"),
    ],
)
def test_a_flawed_question_is_refused(asking: ToyCourse, old: str, new: str, said: str) -> None:
    asking.edit(old, new)
    with pytest.raises(SourceError) as refused:
        building.build(asking.root)
    assert said in str(refused.value)


def test_two_questions_of_one_name_are_refused(asking: ToyCourse) -> None:
    asking.source.write_text(asking.source.read_text(encoding="utf-8") + QUESTION, "utf-8")
    with pytest.raises(SourceError, match="2 questions are called why_no_order"):
        building.build(asking.root)


def test_a_question_that_became_code_is_not_run(tmp_path: Path) -> None:
    """One key in JupyterLab does it; what is written there would stop with an error."""
    notebook = nbformat.read(resources.released("03-one-layer"), as_version=4)
    (at,) = (i for i, c in enumerate(notebook.cells) if c.id == "what_a_copying_score_says")
    code = nbformat.v4.new_code_cell("It says much.", metadata=notebook.cells[at].metadata)
    notebook.cells[at] = code
    nbformat.write(notebook, tmp_path / "mine.ipynb")
    submitted = submitting.read(tmp_path / "mine.ipynb")
    assert "It says much." not in [source for _, source in submitted.cells]


@pytest.mark.parametrize("notebook", list(exercises.NOTEBOOKS)[3:])
def test_from_notebook_03_on_each_asks_a_question(notebook: str) -> None:
    source = sources.read(resources.solutions_dir() / f"{notebook}.py")
    assert source.of_kind(sources.QUESTION)
    prose = "".join(cell.source for cell in source.of_kind("markdown"))
    for cell in source.of_kind(sources.QUESTION):
        assert f"· {cell.points} points, marked by a person" in prose
        assert f'`solution("{cell.name}")`' in prose


def test_no_two_questions_of_the_course_share_a_name() -> None:
    names = [
        cell.name
        for notebook in exercises.NOTEBOOKS
        for cell in sources.read(resources.solutions_dir() / f"{notebook}.py").of_kind(
            sources.QUESTION
        )
    ]
    assert len(names) == len({*names, *exercises.registry()}) - len(exercises.registry())
