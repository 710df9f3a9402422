"""The live curve: nothing outside a notebook, one picture replaced in place inside one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import IPython.display
import pytest
import torch

from grader.lab import live


class Display:
    """Stands for IPython's: keeps what was shown, and counts handles."""

    def __init__(self) -> None:
        self.handles = 0
        self.shown: list[Any] = []

    def __call__(self, figure: Any, display_id: bool) -> Display:
        assert display_id
        self.handles += 1
        self.update(figure)
        return self

    def update(self, figure: Any) -> None:
        self.shown.append(figure)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Display]:
    display = Display()
    monkeypatch.setattr(live, "in_notebook", lambda: True)
    monkeypatch.setattr(IPython.display, "display", display)
    return display


def run(watch: live.Curve, steps: int) -> None:
    for step in range(steps):
        watch(step + 1, steps, 1 / (step + 1))


def test_outside_a_notebook_it_only_notes(capfd: pytest.CaptureFixture[str]) -> None:
    watch = live.curve()
    run(watch, 5)
    assert watch.losses == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert capfd.readouterr() == ("", "")


def test_one_picture_is_replaced_in_place_and_the_last_one_is_whole(notebook: Display) -> None:
    run(live.curve(), 300)
    assert notebook.handles == 1
    drawn = notebook.shown[-1].axes[0].lines[0]
    assert drawn.get_xdata()[-1] == 300
    assert drawn.get_ydata()[-1] == 1 / 300


def test_it_does_not_draw_at_every_step(notebook: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1_000_000))
    monkeypatch.setattr(live.time, "monotonic", lambda: next(clock) / 100)  # 10 ms a look
    run(live.curve(), 300)
    assert 2 <= len(notebook.shown) <= 15


def test_drawing_takes_a_fifth_of_the_time_at_most(
    notebook: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def slow(figure: Any, display_id: bool = True) -> Display:
        nonlocal now
        now += 2.0
        return notebook

    monkeypatch.setattr(live.time, "monotonic", lambda: now)
    monkeypatch.setattr(IPython.display, "display", slow)
    monkeypatch.setattr(notebook, "update", slow)
    watch, drawn = live.curve(), 0.0
    for step in range(1000):
        before = now
        watch(step + 1, 2000, 1.0)
        drawn += now - before
        now += 0.1
    assert 2.0 < drawn <= 0.25 * now


def test_a_long_run_is_thinned_and_ends_with_its_last_loss() -> None:
    watch = live.curve(levels={"floor": 0.5})
    run(watch, 1001)
    figure = watch.figure(2000)
    line = figure.axes[0].lines[0]
    assert len(line.get_xdata()) <= 400
    assert line.get_xdata()[-1] == 1001
    assert figure.axes[0].get_xlim() == (0, 2000)


def test_a_tensor_that_requires_grad_is_a_loss_too() -> None:
    watch = live.curve()
    watch(1, 2, torch.tensor(1.5, requires_grad=True))
    assert watch.losses == [1.5]
