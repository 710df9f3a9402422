"""What lands in nbgrader's gradebook is the judge's, whatever was handed in; nothing else is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from class_desk import ASSIGNMENT, CHECKED, DAMAGES, RIGHT, WRONG, Desk, check_cells, marked
from nbformat.v4 import new_code_cell, new_output

from grader import exercises
from grader.classroom import checking
from grader.judge.saying import grader_error

MOST = float(exercises.registry()["virtual_weights"].points)


DAMAGED = ("check cell copied", "marks deleted", "no schema version", "only the answer")


def says(sources: Sequence[str]) -> Any:
    """Check cells in the order of the notebook, edited to say these things."""

    def change(notebook: Any) -> None:
        checks = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade")]
        for cell, source in zip(checks, sources, strict=False):
            cell.source, cell.metadata["editable"] = source, True

    return change


# What would be full marks, or the end of the submission or of the batch, had nbgrader run the cell.
TRAPS = {
    "nan": "float('nan')",
    "false": "False",
    "negative": "-1.0",
    "above": "99.0",
    "infinite": "float('inf')",
    "string": "'all right'",
    "nothing": "None",
    "numpy": "import numpy; numpy.float64(0.5)",
    "stderr": "import sys; print('x', file=sys.stderr)",
    "error": "raise ValueError",
    "loop": "while False: pass",
    "input": "input()",
}
HELD = [list(TRAPS)[start : start + 5] for start in range(0, len(TRAPS), 5)]
NOISY = (
    "import sys, warnings\n"
    "def virtual_weights(W_out, W_in):\n"
    "    print(1, file=sys.stderr); warnings.warn('two'); return W_out @ W_in"
)
SCRIPT = "def virtual_weights(W_out, W_in):\n    raise KeyError('<script>alert(1)</script>')"


def painted(notebook: Any) -> None:
    outputs = [new_output("execute_result", {"text/plain": "1.0"}, execution_count=1)]
    marked(notebook, CHECKED).outputs = outputs


def stumbling(notebook: Any) -> None:
    notebook.cells.append(new_code_cell("unknown_name + 1"))


@pytest.fixture(scope="module")
def graded(desk: Desk) -> Desk:
    """All of the notebooks of this module, handed in and autograded at once."""
    for number, names in enumerate(HELD):
        traps = says([TRAPS[name] for name in names])
        desk.hand_in(f"trap {number}", {"virtual_weights": WRONG}, traps)
    desk.hand_in("right", {"virtual_weights": RIGHT}, says([TRAPS["error"]] * 5))
    desk.hand_in("noisy", {"virtual_weights": NOISY})
    desk.hand_in("painter", {"virtual_weights": WRONG}, painted)
    desk.hand_in("scripter", {"virtual_weights": SCRIPT})
    desk.hand_in("stumbler", {"virtual_weights": RIGHT}, stumbling)
    for name in DAMAGED:
        desk.hand_in(name, {"virtual_weights": RIGHT}, DAMAGES[name])
    done = desk.autograde()
    assert done.failed == {}
    return desk


@pytest.mark.parametrize("name", TRAPS)
def test_a_check_cell_that_was_edited_earns_what_the_answer_is_worth(
    name: str, graded: Desk
) -> None:
    number = list(TRAPS).index(name)
    checks = list(graded.grades(f"trap {number // 5}").values())
    assert checks[number % 5] == (0.0, False)


@pytest.mark.parametrize("learner", ["right", "noisy", "stumbler"])
def test_a_right_answer_earns_its_points_whatever_is_beside_it(learner: str, graded: Desk) -> None:
    assert graded.grades(learner)[CHECKED] == (MOST, False)


def test_outputs_that_were_handed_in_count_for_nothing(graded: Desk) -> None:
    assert graded.grades("painter")[CHECKED] == (0.0, False)


def test_the_feedback_is_the_judges_and_learners_text_is_escaped(graded: Desk) -> None:
    shown = graded.cell("scripter", CHECKED).outputs
    assert [output.output_type for output in shown] == ["display_data", "execute_result"]
    assert "CRASHED" in shown[0].data["text/html"]
    assert "<script>" not in shown[0].data["text/html"]
    assert shown[1].data["text/plain"] == "0.0"


def test_what_stopped_a_cell_is_shown_below_it(graded: Desk) -> None:
    assert "NameError" in graded.autograded("stumbler").cells[-1].outputs[0].text


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_notebook_is_mended_and_graded_whole(damage: str, graded: Desk) -> None:
    assert graded.grades(damage)[CHECKED] == (MOST, False)
    assert check_cells(graded.autograded(damage)) == check_cells(graded.released())


def test_a_failing_grader_costs_nothing_and_is_asked_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.hand_in("unlucky", {"virtual_weights": RIGHT})
    true = checking.judge_notebook

    def failing(read: Any, pupil: Any, asked: Any, seed_of: Any) -> Any:
        import dataclasses

        result = true(read, pupil, asked, seed_of)
        broken = tuple(
            grader_error(exercise, RuntimeError("disk full"), 1, 0.0)
            if exercise.name == "virtual_weights"
            else verdict
            for exercise, verdict in zip(asked, result.verdicts, strict=True)
        )
        return dataclasses.replace(result, verdicts=broken)

    with monkeypatch.context() as patch:
        patch.setattr(checking, "judge_notebook", failing)
        done = desk.autograde()
    assert not done.all_well
    assert desk.grades("unlucky")[CHECKED] == (None, True)
    assert "NOT GRADED YET" in desk.cell("unlucky", CHECKED).outputs[0].data["text/html"]
    done = desk.autograde()
    assert done.newly == ("unlucky",)
    assert desk.grades("unlucky")[CHECKED] == (MOST, False)


def test_an_unchanged_class_is_left_alone(desk: Desk) -> None:
    desk.hand_in("steady", {"virtual_weights": RIGHT})
    assert "steady" in desk.autograde().newly
    opened = desk.bench.opened
    done = desk.autograde()
    assert done.newly == ()
    assert "steady" in done.unchanged
    assert desk.bench.opened == opened


def test_the_questions_for_people_wait(desk: Desk) -> None:
    """Notebook 00 has none; every other graded cell has the judge's points."""
    desk.hand_in("plain", {"virtual_weights": RIGHT})
    desk.autograde()
    assert not any(waits for _, waits in desk.grades("plain").values())
    assert sum(value for value, _ in desk.grades("plain").values()) == MOST
    assert len(desk.grades("plain")) == len(exercises.of_notebook(ASSIGNMENT))
