"""A curve that redraws itself while something trains.

::

    watch = live.curve(levels={"bigram entropy": 2.48})
    for step in range(steps):
        ...
        watch(step + 1, steps, loss)

One picture, replaced in place. Drawing takes about a tenth of a second, so it is done at most a few
times a second and never takes more than a fifth of the time. Outside a notebook nothing is drawn.

Where the model is a Transformer, a `phase` also watches for induction heads and keeps snapshots, to be
dragged through afterwards with ``phase_change(watch.snapshots)``::

    watch = live.phase()
    for step in range(steps):
        ...
        watch(step + 1, steps, loss)
        if step % 20 == 0:
            watch.keep(step, model)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from grader.lab.picture_style import SERIES, STYLE
from grader.lab.pictures import lines
from grader.lab.showing import in_notebook
from grader.lab.widgets.moments import Copies, matching, random_copies
from grader.transformer import Transformer

_PAUSE = 0.3  # seconds between two pictures, at least
_SHARE = 0.2  # of the time may go into drawing
_MOST_POINTS = 400  # more can't be told apart in a picture of this width


class Curve:
    """The losses so far, ``losses[i]`` after step ``steps[i]``, and the picture that shows them."""

    def __init__(self, title: str, y_label: str, levels: Mapping[str, float]) -> None:
        self.title, self.y_label, self.levels = title, y_label, dict(levels)
        self.steps: list[int] = []
        self.losses: list[float] = []
        self._handle: Any = None
        self._rest_until = 0.0

    def __call__(self, step: int, steps: int, loss: Any) -> None:
        """Note the loss (a number or a 0-d tensor) after ``step`` of ``steps``; draw if it is time."""
        self.steps.append(int(step))
        self.losses.append(float(loss.detach() if hasattr(loss, "detach") else loss))
        if in_notebook() and (step >= steps or time.monotonic() >= self._rest_until):
            self._show(steps)

    def figure(self, steps: int | None = None) -> Figure:
        """The curve as it is now; ``steps``: how many there will be, where the axis ends."""
        every = -(-len(self.losses) // _MOST_POINTS)
        shown = slice((len(self.losses) - 1) % every, None, every)  # the last point is among them
        figure = lines(
            {"loss": self.losses[shown]}, self.steps[shown], x_label="training step",
            y_label=self.y_label, title=self.title, levels=self.levels,
        )  # fmt: skip
        if steps:
            figure.axes[0].set_xlim(0, steps)
        return figure

    def _show(self, steps: int) -> None:
        from IPython.display import display

        began = time.monotonic()
        if self._handle is None:
            self._handle = display(self.figure(steps), display_id=True)
        else:
            self._handle.update(self.figure(steps))
        took = time.monotonic() - began
        self._rest_until = began + max(_PAUSE, took / _SHARE)


class Phase(Curve):
    """A curve, and below it the largest prefix matching of any head in the models that were kept.

    snapshots: (step, model), a copy of each model given to ``keep``
    """

    def __init__(self, title: str, y_label: str, levels: Mapping[str, float]) -> None:
        super().__init__(title, y_label, levels)
        self.snapshots: list[tuple[int, Transformer]] = []
        self.matching: list[float] = []
        self._text: Copies | None = None

    def keep(self, step: int, model: Transformer) -> None:
        """Keep a copy of the model as it is after ``step``. Raises ValueError for tiny models."""
        self._text = self._text or random_copies(model)
        self.snapshots.append((int(step), model.clone()))
        self.matching.append(float(matching(model, self._text).max()))

    def figure(self, steps: int | None = None) -> Figure:
        figure = super().figure(steps)
        if not self.snapshots:
            return figure
        figure.set_size_inches(7.0, 5.2)
        grid = figure.add_gridspec(2, 1, height_ratios=(3, 2))
        losses = figure.axes[0]
        losses.set_subplotspec(grid[0])
        steps_kept = [step for step, _ in self.snapshots]
        with matplotlib.rc_context(STYLE):
            place = figure.add_subplot(grid[1], sharex=losses)
            place.plot(steps_kept, self.matching, color=SERIES[1], marker="s", markersize=4)
            place.set(ylim=(-0.03, 1.03), xlabel="training step", ylabel="prefix matching")
            place.set_title("The head that matches prefixes best", fontsize=10)
            place.grid(True, axis="y")
        losses.set_xlabel("")
        return figure


def phase(
    *,
    title: str = "Loss while training",
    y_label: str = "loss (nats per token)",
    levels: Mapping[str, float] | None = None,
) -> Phase:
    """As `curve`, with ``keep(step, model)`` for snapshots of a Transformer."""
    return Phase(title, y_label, levels or {})


def curve(
    *,
    title: str = "Loss while training",
    y_label: str = "loss (nats per token)",
    levels: Mapping[str, float] | None = None,
) -> Curve:
    """A curve to call with (step, steps, loss); levels: name → height of a dashed line."""
    return Curve(title, y_label, levels or {})
