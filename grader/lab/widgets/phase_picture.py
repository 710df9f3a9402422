"""A training run in figures, and one head's pattern at one of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from grader.lab.heat_pictures import draw_pattern
from grader.lab.picture_style import ACCENT, FAINT, SERIES, STYLE, picture, token_labels

_MOST_STEPS = 7  # that are named on an axis of this width


def phase_picture(
    lines: Mapping[str, Sequence[float]],
    others: Sequence[Sequence[float]],
    steps: Sequence[int],
    at: int,
    pattern: Tensor,
    labels: Sequence[str],
    title: str,
) -> Figure:
    """Three figures over the snapshots, and the pattern of a head at one of them.

    lines: name → heights (snapshot,), the last of them between 0 and 1; others: fainter lines beside
    the last; at: which snapshot; pattern (dst, src) with its title, labels one a position
    """
    figure, grid = picture(9.4, 5.4, rows=3, columns=2, width_ratios=(1, 1.15))
    with matplotlib.rc_context(STYLE):
        for line in others:
            grid[2, 0].plot(range(len(line)), line, color=FAINT, linewidth=0.8)
        for place, (name, heights) in zip(grid[:, 0], lines.items(), strict=True):
            _draw_line(place, heights, at, name)
            place.set_xticks([])
        grid[2, 0].set(ylim=(0, 1.05), xlabel="step (one a snapshot)")
        every = -(-len(steps) // _MOST_STEPS)
        grid[2, 0].set_xticks(range(0, len(steps), every), [f"{s:,}" for s in steps[::every]])
        for place in grid[:, 1]:
            place.remove()
        place = figure.add_subplot(grid[0, 0].get_gridspec()[:, 1])
        draw_pattern(place, pattern.numpy(), token_labels(labels), small=True)
        place.set_title(title, fontsize=10)
        place.set(xlabel="source", ylabel="destination")
    return figure


def _draw_line(place: Axes, heights: Sequence[float], at: int, name: str) -> None:
    place.plot(range(len(heights)), heights, color=SERIES[0], marker="o", markersize=3)
    place.axvline(at, color=ACCENT, linewidth=1.0)
    place.plot(
        at, heights[at], marker="s", markersize=8, markerfacecolor="none", markeredgecolor=ACCENT
    )
    place.set_title(f"{name}: {heights[at]:z.2f}", fontsize=10)
    place.grid(True, axis="y")
