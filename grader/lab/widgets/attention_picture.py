"""The attention viewer on paper: one head's pattern with its tokens, beside it all heads in small."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from grader.lab.picture_style import (
    ACCENT,
    ATTENTION,
    FUTURE,
    STYLE,
    labels_for,
    picture,
    ticks,
)


def attention_overview(
    patterns: Tensor, tokens: Sequence[str], head: tuple[int, int], *, destination: int
) -> Figure:
    """One head large, its row of ``destination`` framed, and the grid of all heads.

    patterns: (layer, head, dst, src); tokens: a label a position
    """
    numbers = patterns.numpy()
    layers, heads, count, _ = numbers.shape
    left = min(3.2 + 0.24 * count, 6.4)
    right = min(1.2 * _across(layers, heads), 5.0)
    figure, grid = picture(left + right + 0.6, left * 0.95, columns=2, width_ratios=(left, right))
    with matplotlib.rc_context(STYLE):
        large, small = grid[0]
        _draw_one(large, numbers[head], labels_for(tokens, count, "Tokens"), destination)
        large.set_title(f"head {head[0]}.{head[1]}: attention")
        _draw_all(small, numbers, head)
        small.set_title("all heads" if layers * heads > 1 else "")
    return figure


def _draw_one(place: Axes, pattern: np.ndarray, labels: list[str] | None, destination: int) -> None:
    count = len(pattern)
    place.imshow(_masked(pattern), vmin=0, vmax=1, cmap=_shades(), interpolation="nearest")
    few = labels if count <= 48 else None
    ticks(place, "x", few, count)
    ticks(place, "y", few, count)
    frame = matplotlib.patches.Rectangle(
        (-0.5, destination - 0.5), count, 1, fill=False, edgecolor=ACCENT, linewidth=1.8
    )
    place.add_patch(frame)
    place.set(xlabel="source (looks at)", ylabel="destination (looks from)")
    place.spines[:].set_visible(False)


def _draw_all(place: Axes, patterns: np.ndarray, chosen: tuple[int, int]) -> None:
    """All patterns in one panel: a panel for each would take seconds to lay out."""
    layers, heads, count, _ = patterns.shape
    band = max(1, round(0.25 * count))
    step, across = count + band, _across(layers, heads)
    for i, (layer, head) in enumerate(np.ndindex(layers, heads)):
        row, column = divmod(i, across)
        top, left = row * step + band, column * step
        place.imshow(
            _masked(patterns[layer, head]), vmin=0, vmax=1, cmap=_shades(),
            extent=(left, left + count, top + count, top), interpolation="nearest",
        )  # fmt: skip
        picked = (layer, head) == chosen
        name = f"▸{layer}.{head}" if picked else f"{layer}.{head}"
        weight = "bold" if picked else "normal"
        place.text(left, top - 0.1 * band, name, fontsize=8, va="bottom", weight=weight)
    down = -(-layers * heads // across)
    place.set(xlim=(0, across * step), ylim=(down * step + band, 0), anchor="NW")
    place.axis("off")


def _across(layers: int, heads: int) -> int:
    """Heads in a row: one row a layer, unless a single layer has many."""
    return heads if layers > 1 or heads <= 4 else 4


def _masked(pattern: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.array(pattern, mask=np.triu(np.ones(pattern.shape, bool), 1))


def _shades() -> matplotlib.colors.Colormap:
    return matplotlib.colormaps[ATTENTION].with_extremes(bad=FUTURE)
