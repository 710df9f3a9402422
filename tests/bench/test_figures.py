"""Rows know their bars, contestants take turns, and the READMEs show the kept figures and no others."""

from __future__ import annotations

import json

import pytest

from tests.bench import tables
from tests.bench.quality import NAIVE, of_exercise
from tests.bench.rows import Row, alternate
from tests.bench.tables import Measured

FASTER = Row("grading", (0.1, 0.2, 0.3), "s", "nbgrader", (10.0, 8.0), ratio_at_least=50)
MORE = Row("training", (300.0,), "tokens/s", "a loop", (200.0,), more_is_better=True)
NONE_FORGED = Row("points forged", (0.0,), "points", "otter", (12.0,), at_most=0)


@pytest.mark.parametrize(
    ("row", "ratio", "held"),
    [
        (FASTER, 45.0, False),
        (Row("a", (0.1,), "s", "b", (9.0,), ratio_at_least=50), 90.0, True),
        (MORE, 1.5, None),
        (NONE_FORGED, None, True),
        (Row("a", (3.0,), "points", at_most=0), None, False),
        (Row("a", (8.0,), "seeds", at_least=9), None, False),
        (Row("a", (9.0,), "seeds", at_least=9), None, True),
        (Row("a", (2.0,), "s", "b", (9.0,), at_most=1, ratio_at_least=2), 4.5, False),
    ],
)
def test_a_row_says_how_many_times_better_and_whether_its_bar_is_held(row, ratio, held):
    assert row.ratio == (None if ratio is None else pytest.approx(ratio))
    assert row.held is held


def test_a_row_needs_runs_and_a_ratio_needs_a_peer():
    for made in (
        lambda: Row("a", (), "s"),
        lambda: Row("a", (1.0,), "s", "peer"),
        lambda: Row("a", (1.0,), "s", ratio_at_least=2),
    ):
        with pytest.raises(ValueError, match="'a'"):
            made()


def test_contestants_take_turns_and_the_first_turn_is_left_out():
    turns = []

    def contestant(name):
        def run():
            turns.append(name)
            return float(len(turns))

        return run

    figures = alternate({name: contestant(name) for name in "ab"}, rounds=2)
    assert turns == ["a", "b"] * 3
    assert figures == {"a": (3.0, 5.0), "b": (4.0, 6.0)}


def test_figures_come_back_as_they_were_written(tmp_path):
    figures = {"grading": Measured("2026-01-02", 3.5, {"cores": 2}, (FASTER, MORE, NONE_FORGED))}
    tables.write(figures, tmp_path / "figures.json")
    assert tables.read(tmp_path / "figures.json") == figures
    json.loads((tmp_path / "figures.json").read_text())


def test_a_table_shows_medians_ranges_bars_and_what_it_belongs_to():
    figures = {"grading": Measured("2026-01-02", 3.5, {"cores": 2}, (FASTER, MORE))}
    text = tables.markdown(figures, ["grading", "never measured"], only_bars=True)
    assert "| grading | 0.2 s (0.1–0.3) | 9 s (8–10) nbgrader | 45× | ≥ 50×: **missed** |" in text
    assert "training" not in text
    assert "2026-01-02, cores 2" in text
    assert "training" in tables.markdown(figures, ["grading"], only_bars=False)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (1000.0, "1,000"), (1234.56, "1,235"), (12.345, "12.3"), (0.0123, "0.0123"), (0.00002, "0.00002")],
)  # fmt: skip
def test_numbers_are_written_without_exponents(value, said):
    assert tables.number(value) == said


def test_the_documents_show_the_kept_figures_and_no_others(tmp_path):
    for document in tables.DOCUMENTS:
        (tmp_path / document).parent.mkdir(exist_ok=True)
        (tmp_path / document).write_bytes((tables.REPOSITORY / document).read_bytes())
    tables.render(tables.read(), tmp_path)
    for document in tables.DOCUMENTS:
        assert (tmp_path / document).read_text() == (tables.REPOSITORY / document).read_text()


def test_the_usual_test_lets_a_mistake_pass_that_the_judge_names():
    judged = of_exercise("phase_change_step")
    mistakes = [one for one in judged if one.kind == "mistake"]
    assert all(one.right and one.named for one in mistakes)
    assert not all(one.naive for one in mistakes), NAIVE
    assert all(one.right for one in judged)
