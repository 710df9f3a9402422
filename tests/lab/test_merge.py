"""A new edition takes over every answer and every cell of the learner's, however they were shuffled."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import toy_editions as toy

from grader.lab import merge

Notebook = dict[str, Any]
ANSWER = toy.solved("alpha")


def answered(source: str = ANSWER) -> Notebook:
    mine = toy.first()
    mine["cells"][3]["source"] = source
    return mine


def carried(mine: Notebook, released: Notebook | None = None, **more: Any) -> merge.Merged:
    released = released or toy.first("2", doc="Do it well.")
    before = copy.deepcopy((released, mine))
    merged = merge.merge(released, mine, **({"base": toy.first()} | more))
    assert (released, mine) == before, "a notebook that was handed in was changed"
    ids = [cell["id"] for cell in merged.notebook["cells"]]
    assert len(set(ids)) == len(ids)
    marked = [m for m in map(merge.grade_id, merged.notebook["cells"]) if m]
    assert marked == [m for m in map(merge.grade_id, released["cells"]) if m]
    return merged


def sources(merged: merge.Merged) -> list[str]:
    return [cell["source"] for cell in merged.notebook["cells"]]


def duplicated(mine: Notebook) -> None:
    """The answer, copied below itself and finished there."""
    again = {**copy.deepcopy(mine["cells"][3]), "id": "copy"}
    mine["cells"][3]["source"] = "def alpha(x):\n    first_try"
    mine["cells"].insert(4, again)


def experimented_below(mine: Notebook) -> None:
    """The answer, and behind its check a copy that was played with."""
    again = copy.deepcopy(mine["cells"][3]) | {"source": "def alpha(x):\n    play", "id": "copy"}
    mine["cells"].insert(5, again)


def lost_metadata(mine: Notebook) -> None:
    mine["cells"][3]["metadata"] = {}
    mine["cells"][3]["id"] = "other"


def lost_ids(mine: Notebook) -> None:
    """What an editor that knows no cell ids leaves."""
    for cell in mine["cells"]:
        del cell["id"]


def moved_to_the_end(mine: Notebook) -> None:
    mine["cells"].append(mine["cells"].pop(3))


def answered_in_a_new_cell(mine: Notebook) -> None:
    """The stub left alone, the answer written below it."""
    mine["cells"].insert(4, toy.code(mine["cells"][3]["source"], "new"))
    mine["cells"][3]["source"] = toy.stub("alpha")


def stub_copied_below(mine: Notebook) -> None:
    mine["cells"].insert(4, toy.code(toy.stub("alpha"), "c", toy.marks("alpha", answer=True)))


def check_deleted(mine: Notebook) -> None:
    del mine["cells"][4]


@pytest.mark.parametrize(
    "shuffle",
    [
        duplicated,
        experimented_below,
        lost_metadata,
        lost_ids,
        moved_to_the_end,
        answered_in_a_new_cell,
        stub_copied_below,
        check_deleted,
    ],
)
def test_the_answer_is_found(shuffle: Callable[[Notebook], None]) -> None:
    mine = answered()
    shuffle(mine)
    merged = carried(mine)
    assert toy.source_of(merged.notebook, "alpha") == ANSWER
    assert toy.source_of(merged.notebook, "beta") == toy.stub("beta", "Do it well.")
    assert merged.answers == ["alpha"]


def test_an_answer_that_lost_against_another_is_kept_as_a_cell_without_marks() -> None:
    mine = answered()
    experimented_below(mine)
    merged = carried(mine)
    assert merged.own_cells == 1
    assert "def alpha(x):\n    play" in sources(merged)


@pytest.mark.parametrize(
    "source",
    [
        "def my_alpha(x):\n    return x",
        "def alpha(x:\n    half typed",
        "%%time\ndef alpha(x):\n    return x",
        "alpha = lambda x: x",
        "",
    ],
)
def test_whatever_stands_in_the_answer_cell_is_the_answer(source: str) -> None:
    assert toy.source_of(carried(answered(source)).notebook, "alpha") == source


def test_notes_in_a_stub_are_an_answer_and_a_bare_stub_is_not() -> None:
    notes = toy.stub("alpha").replace("# YOUR", "# first the scores, then the mask\n    # YOUR")
    assert toy.source_of(carried(answered(notes)).notebook, "alpha") == notes
    assert carried(toy.first()).answers == []
    assert carried(toy.first(), base=None).answers == []


def test_an_untouched_notebook_becomes_the_released_one() -> None:
    released = toy.first("2", doc="Do it well.")
    assert carried(toy.first(), released).notebook == released


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_an_answer_whose_cell_became_text_is_not_lost(kind: str) -> None:
    mine = answered()
    mine["cells"][3] |= {"cell_type": kind}
    merged = carried(mine)
    assert ANSWER in sources(merged)
    assert merged.answers == []


def test_two_answers_in_one_cell_are_both_carried() -> None:
    both = f"{ANSWER}\n\n{toy.solved('beta')}"
    mine = answered(both)
    del mine["cells"][6]
    merged = carried(mine)
    assert toy.source_of(merged.notebook, "alpha") == both
    assert toy.source_of(merged.notebook, "beta") == both


def test_own_cells_stay_behind_the_cell_they_stood_behind() -> None:
    mine = answered()
    mine["cells"].insert(0, toy.prose("My notes", "own-0"))
    mine["cells"].insert(5, toy.code("alpha(3)", "own-1"))
    merged = carried(mine)
    written = sources(merged)
    assert written[0] == "My notes"
    assert written[written.index("alpha(3)") - 1] == ANSWER
    assert merged.own_cells == 2


def test_what_only_the_course_changed_is_the_courses_and_what_only_the_learner_changed_theirs() -> (
    None
):
    mine = answered()
    mine["cells"][1]["source"] = "import torch, math"
    merged = carried(mine)
    assert sources(merged)[:2] == ["# First, edition 2", "import torch, math"]
    assert merged.own_cells == 0


def test_what_both_changed_stands_twice_the_courses_first() -> None:
    mine = answered()
    mine["cells"][0]["source"] = "# My first"
    merged = carried(mine)
    assert sources(merged)[:2] == ["# First, edition 2", "# My first"]
    assert merged.own_cells == 1


def test_cells_that_the_course_dropped_go_and_an_answer_to_a_dropped_exercise_stays() -> None:
    released = toy.notebook(*toy.exercise("beta"), edition="2")
    merged = carried(answered(), released)
    assert sources(merged) == [ANSWER, *(cell["source"] for cell in released["cells"])]


def test_a_changed_check_is_the_courses() -> None:
    mine = answered()
    mine["cells"][4]["source"] = "2.0  # full points"
    merged = carried(mine)
    assert toy.source_of(merged.notebook, "check_alpha") == "check(alpha)"
    assert merged.own_cells == 0


def test_without_the_base_answers_and_own_cells_are_still_carried() -> None:
    mine = answered()
    mine["cells"].insert(5, toy.code("alpha(3)", "own-1"))
    merged = carried(mine, base=None)
    assert toy.source_of(merged.notebook, "alpha") == ANSWER
    assert "alpha(3)" in sources(merged)


def test_an_exercise_that_moved_here_brings_its_answer() -> None:
    merged = carried(toy.first(), elsewhere={"beta": toy.solved("beta"), "gamma": "unused"})
    assert toy.source_of(merged.notebook, "beta") == toy.solved("beta")
    assert merged.answers == ["beta"]


def test_carrying_over_twice_changes_nothing_more() -> None:
    mine = answered()
    experimented_below(mine)
    mine["cells"].insert(1, toy.prose("My notes", "own"))
    released = toy.first("2", doc="Do it well.")
    once = carried(mine, released)
    again = merge.merge(released, once.notebook, base=released)
    assert sources(again) == sources(once)
    late = merge.merge(
        released, once.notebook, base=toy.first()
    )  # died before the base was renewed
    assert sources(late) == sources(once)


def test_the_learners_kernel_stays() -> None:
    mine = answered()
    mine["metadata"]["kernelspec"]["name"] = "my-env"
    assert carried(mine).notebook["metadata"]["kernelspec"]["name"] == "my-env"


# --- questions that a person marks ----------------------------------------------------------------

WORDS = "It *copies*, because the eigenvalues are positive.\n"


def asking(text: str = "YOUR ANSWER HERE", edition: str = "1", ask: str = "") -> Notebook:
    book = toy.notebook(
        toy.prose("# First", "title"),
        *toy.exercise("alpha"),
        *toy.question("why", text),
        toy.prose("The end.", "end"),
        edition=edition,
    )
    if ask:
        book["cells"][4]["source"] = ask
    return book


def as_code(mine: Notebook) -> None:
    mine["cells"][5] |= {"cell_type": "code", "outputs": [], "execution_count": None}


def without_marks(mine: Notebook) -> None:
    mine["cells"][5]["metadata"] = {}


def without_id(mine: Notebook) -> None:
    del mine["cells"][5]["id"]


def moved_up(mine: Notebook) -> None:
    mine["cells"].insert(0, mine["cells"].pop(5))


def with_a_copy_of_the_empty_cell(mine: Notebook) -> None:
    mine["cells"].append({**copy.deepcopy(asking()["cells"][5]), "id": "copy"})


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize(
    "shuffle",
    [as_code, without_marks, without_id, moved_up, with_a_copy_of_the_empty_cell],
)
def test_the_text_of_an_answer_is_kept_and_the_question_is_the_new_one(
    shuffle: Callable[[Notebook], None], base: bool
) -> None:
    mine = asking(WORDS)
    shuffle(mine)
    released = asking(edition="2", ask="What does it really mean?")
    merged = merge.merge(released, mine, asking() if base else None)
    (cell,) = (c for c in merged.notebook["cells"] if merge.grade_id(c) == "why")
    assert (cell["cell_type"], cell["source"]) == ("markdown", WORDS)
    assert "outputs" not in cell
    assert merged.answers == ["why"]
    assert merged.own_cells == 0
    assert "What does it really mean?" in sources(merged)
    assert sources(merged).count("YOUR ANSWER HERE") == 0


def test_a_picture_in_the_answer_comes_along() -> None:
    mine = asking(WORDS)
    mine["cells"][5]["attachments"] = {"a.png": {"image/png": "AAAA"}}
    merged = merge.merge(asking(edition="2"), mine, asking())
    assert merged.notebook["cells"][5]["attachments"] == {"a.png": {"image/png": "AAAA"}}


@pytest.mark.parametrize("text", ["YOUR ANSWER HERE", "", " \n"])
def test_a_question_nobody_answered_is_as_released(text: str) -> None:
    for base in (asking(), None):
        merged = merge.merge(asking(edition="1"), asking(text), base)
        assert merged.notebook["cells"][5] == asking()["cells"][5]
        assert (merged.answers, merged.own_cells) == ([], 0)


def test_an_answer_that_lost_mark_and_id_is_kept_as_a_cell_of_the_learners() -> None:
    mine = asking(WORDS)
    without_marks(mine)
    without_id(mine)
    merged = merge.merge(asking(edition="2"), mine, asking())
    assert sources(merged)[4:7] == ["What does why mean?", WORDS, "YOUR ANSWER HERE"]
