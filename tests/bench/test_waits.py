"""What the benches of waiting, training and the course compute beside their clocks."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires
from typing import Any

import ipywidgets as w
import psutil
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.bench import course, course_install, training, waiting, waiting_widgets
from tests.bench.training import Run


def test_torch_is_seen_among_what_is_imported() -> None:
    told = (
        "import time:       100 |        100 |   zipimport\n"
        "import time:       100 |        100 |     torch._C\n"
        "import time:       100 |        300 | torch\n"
        "import time:       100 |        300 | torchlike\n"
    )
    assert waiting.torch_modules(told) == 2


def run(fall_at: int, accuracy: float = 1.0, threads: int = 2) -> Run:
    """200 steps of 0.1 s, 4 nats before the fall and 0 after."""
    losses = [4.0 if step < fall_at else 0.0 for step in range(200)]
    return Run(losses, [0.1 * (step + 1) for step in range(200)], accuracy, threads)


def test_a_change_is_dated_in_seconds_and_needs_the_accuracy() -> None:
    assert run(100).until_change == pytest.approx(0.1 * (102 + 1))  # the mean of five falls by half
    assert run(100, accuracy=0.94).until_change is None
    assert run(200).until_change is None  # it never falls
    assert training.changes([run(100), run(200)]) == [run(100).until_change]
    assert run(100).speed == pytest.approx(32 * 49 / 0.1)


def test_rows_count_who_reaches_the_change_in_time() -> None:
    rows = list(training.live_rows([run(100)] * 8 + [run(200)] * 2, [run(200)] * 3))
    bars = {row.what: row.held for row in rows if row.bar}
    assert list(bars.values()) == [True, False, True]
    assert [row.runs for row in rows[1:3]] == [(8,), (0,)]


def test_contestants_that_train_something_else_are_refused() -> None:
    training.agree({"ours": run(100), "plain": run(100)})
    with pytest.raises(AssertionError, match="trains something else"):
        training.agree({"ours": run(100), "plain": run(101)})
    with pytest.raises(AssertionError, match="1 threads, 2 we"):
        training.agree({"ours": run(100), "plain": run(100, threads=1)})


class Widget(w.VBox):
    """Shows what its box and its choice say."""

    def __init__(self, answers: bool) -> None:
        self.box, self.choice = w.Checkbox(), w.Dropdown(options=["a", "b", "c"])
        self.shown, self.message = w.HTML(), ""
        super().__init__([self.box, self.choice, self.shown])
        if answers:
            self.box.observe(self.redraw, names="value")
            self.choice.observe(self.redraw, names="value")

    def redraw(self, _: Any) -> None:
        self.shown.value = f"{self.box.value} {self.choice.value}"


def test_every_control_is_moved_and_must_show() -> None:
    assert len(waiting_widgets.redraws(Widget(answers=True), (), rounds=3)) == 6
    with pytest.raises(AssertionError, match="6 moves, and only 0"):
        waiting_widgets.redraws(Widget(answers=False), (), rounds=3)


def test_an_installation_is_closed_under_what_it_needs() -> None:
    found = course_install.closure(["nbclient", "torch"], frozenset({"torch"}))
    assert {"nbclient", "nbformat", "jupyter-client", "attrs"} <= found
    assert "torch" not in found
    assert "sympy" not in found, "only torch needs it"
    assert "pytest" not in found, "an extra"
    for name in found:
        direct = [Requirement(text) for text in requires(name) or []]
        missing = {
            canonicalize_name(one.name)
            for one in direct
            if one.marker is None and canonicalize_name(one.name) not in found
        }
        assert not missing, name
    assert course_install.size("nbclient") > 10_000


def test_memory_is_that_of_what_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "EVERY", 0.02)
    hungry = "block = bytearray(64 * 2**20); print(flush=True); input()"
    with (
        course.memory_of_children() as peak,
        subprocess.Popen(
            [sys.executable, "-c", hungry], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        assert course.memory(psutil.Process(process.pid)) >= 64 * 2**20
        while peak[0] < 64:
            assert process.poll() is None
        process.communicate(b"\n")
    assert 64 <= peak[0] < 200
