"""What an edited induction circuit did on a text: where its two heads look, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grader.lab.heat_pictures import draw_pattern
from grader.lab.picture_style import ACCENT, FAINT, SERIES, STYLE, picture, token_labels
from grader.lab.widgets.workshop import Outcome


def workshop_picture(outcome: Outcome, labels: Sequence[str], names: tuple[str, str]) -> Figure:
    """Above, the patterns of the earlier and the later head; below, each prediction.

    labels: one a position; names: of the two heads
    """
    figure, grid = picture(8.4, 6.0, rows=2, columns=2, height_ratios=(3, 1))
    shown = token_labels(labels)
    with matplotlib.rc_context(STYLE):
        for place, pattern, name in zip(
            grid[0], (outcome.looked_back, outcome.looked), names, strict=True
        ):
            draw_pattern(place, pattern.numpy(), shown, small=True)
            place.set_title(name, fontsize=10)
            place.set(xlabel="source", ylabel="destination")
        for place in grid[1]:
            place.remove()
        _draw_predictions(figure.add_subplot(grid[1, 0].get_gridspec()[1, :]), outcome, shown)
    return figure


def _draw_predictions(place: Axes, outcome: Outcome, labels: Sequence[str]) -> None:
    chances = outcome.probability.numpy()
    known, right = outcome.known.numpy(), outcome.right.numpy()
    at = np.arange(len(chances))
    place.bar(at[known], chances[known], color=SERIES[0], width=0.7, label="looking back can tell")
    place.bar(
        at[~known], chances[~known], color="none", edgecolor=FAINT, hatch="////", width=0.7,
        label="new: nobody can tell",
    )  # fmt: skip
    for i in at[known]:
        mark, color = ("✔", SERIES[2]) if right[i] else ("✘", ACCENT)
        place.text(i, chances[i] + 0.04, mark, ha="center", fontsize=8, color=color)
    place.set_xticks(at, labels[:-1], fontsize=8)
    place.set(ylim=(0, 1.25), yticks=(0, 0.5, 1), ylabel="p(next token)", xlabel="after this token")
    place.tick_params(length=0)
    place.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=8, ncols=2)
