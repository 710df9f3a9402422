"""Attention heads, drawn: the way through one head, who looks at whom, matrices side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from grader.lab.picture_style import (
    ACCENT,
    FAINT,
    FUTURE,
    INK,
    PAPER,
    SERIES,
    SIGNED,
    STYLE,
    array,
    ink_on,
    labels_for,
    picture,
    ticks,
)

_WHERE, _WHAT = SERIES[0], SERIES[1]
_WIDTH, _HEIGHT = 1.75, 0.62
_FAINTEST = 0.03  # attention below this is not drawn: a line for every pair would hide the rest


def head_diagram(title: str = "") -> Figure:
    """One head's two sides: blue, where to look (QK); orange, what to copy (OV)."""
    figure, grid = picture(10.0, 3.5, title)
    place = grid[0, 0]
    boxes = {
        "x_q": (0.0, 2.9, "$x$ at the\ndestination", INK),
        "x_k": (0.0, 1.8, "$x$ at the\nsources", INK),
        "x_v": (0.0, 0.3, "$x$ at the\nsources", INK),
        "q": (2.6, 2.9, "query\n$q = x\\,W_Q$", _WHERE),
        "k": (2.6, 1.8, "keys\n$k = x\\,W_K$", _WHERE),
        "s": (5.2, 2.35, "scores\n$q \\cdot k\\,/\\sqrt{d_{head}}$", _WHERE),
        "A": (7.8, 2.35, "pattern $A$\nmask, softmax", _WHERE),
        "v": (2.6, 0.3, "values\n$v = x\\,W_V$", _WHAT),
        "z": (7.8, 0.3, "mix values\n$z = A\\,v$", _WHAT),
        "o": (10.4, 0.3, "write\n$z\\,W_O$", _WHAT),
        "end": (12.9, 0.3, "added to the\ndestination", INK),
    }
    arrows = [
        ("x_q", "q"), ("x_k", "k"), ("q", "s"), ("k", "s"), ("s", "A"),
        ("x_v", "v"), ("v", "z"), ("A", "z"), ("z", "o"), ("o", "end"),
    ]  # fmt: skip
    with matplotlib.rc_context(STYLE):
        place.set(xlim=(-1.1, 14.0), ylim=(-0.3, 3.6), title=title)
        place.axis("off")
        for start, end in arrows:
            _draw_arrow(place, boxes[start], boxes[end])
        for x, y, text, color in boxes.values():
            _draw_box(place, x, y, text, color)
        place.text(10.4, 2.35, "QK: where to look", color=_WHERE, fontsize=11, va="center")
        place.text(4.1, 0.8, "OV: what to copy", color=_WHAT, fontsize=11, va="center")
    return figure


def _draw_box(place: Axes, x: float, y: float, text: str, color: str) -> None:
    frame = FancyBboxPatch(
        (x - _WIDTH / 2, y - _HEIGHT / 2), _WIDTH, _HEIGHT,
        boxstyle="round,pad=0.04,rounding_size=0.12", facecolor=PAPER, edgecolor=color,
        linewidth=1.8, zorder=3,
    )  # fmt: skip
    place.add_patch(frame)
    place.text(x, y, text, ha="center", va="center", fontsize=8.5, zorder=4)


def _draw_arrow(
    place: Axes, start: tuple[float, float, str, str], end: tuple[float, float, str, str]
) -> None:
    down = start[0] == end[0]
    tail = (start[0], start[1] - _HEIGHT / 2) if down else (start[0] + _WIDTH / 2, start[1])
    tip = (end[0], end[1] + _HEIGHT / 2 + 0.06) if down else (end[0] - _WIDTH / 2 - 0.06, end[1])
    place.annotate(
        "", tip, tail, arrowprops={"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.5}, zorder=1
    )


def attention_flow(
    pattern: Any, tokens: Iterable[Any], *, destination: int | None = None, title: str = ""
) -> Figure:
    """Information on its way: sources below, destinations above, thicker lines for more attention.

    pattern: (dst, src), entries in [0, 1]; tokens: one a position
    destination: a position whose lines are highlighted, their weights written at the sources
    Raises ValueError where that position doesn't exist.
    """
    weights = array(pattern, 2, "An attention flow draws one head's (dst, src)")
    count = len(weights)
    if weights.shape != (count, count):
        raise ValueError(f"A pattern has as many destinations as sources; {weights.shape} came.")
    if destination is not None and not 0 <= destination < count:
        raise ValueError(f"There is no destination {destination}; they count 0 … {count - 1}.")
    labels = labels_for(tokens, count, "Tokens") or []
    step = min(0.72, 9.0 / count)  # inches from token to token
    left = -1.15 / step  # leaves room for the words "source" and "destination"
    figure, grid = picture(1.5 + step * count, 2.9, title)
    place = grid[0, 0]
    with matplotlib.rc_context(STYLE):
        place.set(xlim=(left, count - 0.4), ylim=(-0.5, 1.35), title=title)
        place.axis("off")
        for dst, src in zip(*np.nonzero(weights > _FAINTEST), strict=True):
            chosen = destination is None or dst == destination
            color = ACCENT if dst == destination else SERIES[0]
            strength = float(weights[dst, src])
            place.plot(
                [src, dst], [0.0, 1.0], color=color, linewidth=0.5 + 5.0 * strength,
                alpha=(0.25 + 0.65 * strength) if chosen else 0.12, solid_capstyle="round",
            )  # fmt: skip
            if dst == destination:
                place.text(src, -0.4, f"{strength:.2f}", ha="center", fontsize=8, color=ACCENT)
        for side, height, name in ((0.0, -0.18, "source"), (1.0, 1.18, "destination")):
            place.text(left, height, name, va="center", fontsize=9, color=INK, style="italic")
            for i, label in enumerate(labels):
                bold = "bold" if side and i == destination else "normal"
                place.text(i, height, label, ha="center", va="center", fontsize=9, weight=bold)
                place.plot(i, side, marker="o", markersize=4, color=INK, zorder=5)
    return figure


def matrices(
    panels: Mapping[str, Any],
    *,
    axes: tuple[str, str] | Mapping[str, tuple[str, str]] = ("row", "column"),
    labels: Iterable[Any] | None = None,
    blocks: Mapping[str, int] | None = None,
    digits: int = 1,
) -> Figure:
    """Matrices side by side, each on its own scale: white is 0, red above, blue below, grey is −∞.

    panels: title → (row, column); axes: what rows and columns are, for all panels or by title
    labels: one a row and column, where all panels are square of that size
    blocks: title → n, to draw a line after every n rows and columns
    """
    if not panels:
        raise ValueError("A picture of matrices draws at least one; an empty mapping came.")
    arrays = {
        name: array(values, 2, f"Panel {name!r} is a matrix") for name, values in panels.items()
    }
    wide = [max(numbers.shape[1], 3) for numbers in arrays.values()]
    width = min(0.9 * len(wide) + 0.42 * sum(wide), 11.0)
    cell = width / (0.9 * len(wide) + 0.42 * sum(wide))
    height = 1.3 + 0.36 * max(0.75, cell) * max(len(numbers) for numbers in arrays.values())
    figure, grid = picture(width, min(height, 6.5), columns=len(arrays), width_ratios=wide)
    figure.set_layout_engine("constrained", wspace=0.08)
    with matplotlib.rc_context(STYLE):
        for place, (name, numbers) in zip(grid[0], arrays.items(), strict=True):
            rows, columns = axes[name] if isinstance(axes, Mapping) else axes
            _draw_matrix(place, numbers, digits if numbers.size <= 100 else None)
            for side, count in (("y", len(numbers)), ("x", numbers.shape[1])):
                ticks(place, side, labels_for(labels, count, "Labels"), count)
            if blocks and name in blocks:
                _draw_block_lines(place, numbers, blocks[name])
            place.set(ylabel=rows, xlabel=columns)
            place.set_title(name, fontsize=10)
    return figure


def _draw_block_lines(place: Axes, numbers: np.ndarray, size: int) -> None:
    for edge in range(size, len(numbers), size):
        place.axhline(edge - 0.5, color=INK, linewidth=0.9)
    for edge in range(size, numbers.shape[1], size):
        place.axvline(edge - 0.5, color=INK, linewidth=0.9)


def _draw_matrix(place: Axes, numbers: np.ndarray, digits: int | None) -> None:
    shown = np.ma.masked_invalid(numbers)
    size = float(np.abs(shown).max()) if shown.count() else 1.0
    cmap = matplotlib.colormaps[SIGNED].with_extremes(bad=FUTURE)
    image = place.imshow(shown, vmin=-(size or 1.0), vmax=size or 1.0, cmap=cmap, aspect="auto")
    place.spines[:].set_visible(False)
    if digits is None:
        return
    for (i, j), number in np.ndenumerate(numbers):
        rounded = round(float(number), digits) + 0.0  # adding 0.0 turns −0.0 into 0.0
        text = f"{rounded:.{digits}f}" if np.isfinite(number) else "−∞"
        ink = ink_on(image.cmap(image.norm(number))) if np.isfinite(number) else INK
        place.text(j, i, text, ha="center", va="center", fontsize=8, color=ink)
