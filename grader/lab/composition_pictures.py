"""Heads that read heads, drawn: the three ways in, the table of all pairs, and what chance gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from grader.lab.picture_style import (
    ACCENT,
    FAINT,
    INK,
    PAPER,
    SERIES,
    SIGNED,
    STYLE,
    array,
    ink_on,
    picture,
    ticks,
)

_KINDS = ("Q", "K", "V")
_WAYS = {
    "Q": ("Q-composition", "another question"),
    "K": ("K-composition", "another label"),
    "V": ("V-composition", "copied once more"),
}
_PORTS = {"Q": 0.62, "K": 1.12, "V": 1.62}  # where the later head's three inputs stand


def composition_diagram(title: str = "") -> Figure:
    """A head of layer 1 reading a head of layer 0 in each of the three ways, side by side."""
    figure, grid = picture(9.6, 3.1, title, columns=3)
    with matplotlib.rc_context(STYLE):
        for place, kind in zip(grid[0], _KINDS, strict=True):
            _draw_way(place, kind)
        if title:
            figure.suptitle(title, fontsize=11, fontweight="bold", x=0.02, ha="left")
    return figure


def _draw_way(place: Axes, kind: str) -> None:
    name, effect = _WAYS[kind]
    place.set(xlim=(-0.1, 3.3), ylim=(-0.35, 3.0))
    place.axis("off")
    place.plot([-0.05, -0.05], [-0.2, 2.75], color=INK, linewidth=3.2, solid_capstyle="round")
    place.text(0.06, 2.72, "stream", fontsize=9, color=FAINT, va="top")
    _draw_box(place, (0.45, 0.05, 1.35, 0.5), "head 0.h")
    _draw_box(place, (0.45, 1.9, 1.35, 0.6), "head 1.g")
    for port, x in _PORTS.items():
        chosen = port == kind
        place.annotate(
            "", (x, 1.88), (x, 1.35), zorder=2,
            arrowprops={
                "arrowstyle": "-|>", "linewidth": 2.6 if chosen else 1.2,
                "color": ACCENT if chosen else FAINT,
            },
        )  # fmt: skip
        place.text(
            x + 0.07, 1.58, port, fontsize=10, color=ACCENT if chosen else FAINT,
            weight="bold" if chosen else "normal",
        )  # fmt: skip
    others = [x for port, x in _PORTS.items() if port != kind]
    place.plot([-0.05, max(others)], [1.35, 1.35], color=FAINT, linewidth=1.2, zorder=1)
    x = _PORTS[kind]
    place.plot([x, x, x], [0.57, 0.9, 1.35], color=ACCENT, linewidth=2.6, zorder=3)
    place.text(2.0, 2.2, effect, fontsize=9, va="center", style="italic")
    place.text(2.0, 0.3, "writes", fontsize=9, va="center", style="italic")
    place.set_title(name, fontsize=10)


def _draw_box(place: Axes, box: tuple[float, float, float, float], text: str) -> None:
    x, y, width, height = box
    frame = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0.02,rounding_size=0.08",
        facecolor=PAPER, edgecolor=SERIES[0], linewidth=1.6, zorder=3,
    )  # fmt: skip
    place.add_patch(frame)
    place.text(x + width / 2, y + height / 2, text, ha="center", va="center", zorder=4)


def compositions(table: Any, *, title: str = "", scale: float | None = None) -> Figure:
    """A composition table: three panels Q, K, V on one colour scale, white at the baseline.

    table: (3, head of layer 1, head of layer 0); scale: the score of the darkest colour, to make two
    pictures comparable
    """
    numbers = array(table, 3, "A composition table is (3, head of layer 1, head of layer 0)")
    if len(numbers) != len(_KINDS):
        raise ValueError(f"A composition table has three kinds, Q, K, V; {len(numbers)} came.")
    _, readers, read = numbers.shape
    size = float(np.abs(numbers).max() if scale is None else scale) or 1.0
    figure, grid = picture(
        min(2.4 + 3 * 0.62 * max(read, 3), 11.0), 1.4 + 0.46 * max(readers, 2), title, columns=3
    )
    image: Any = None
    with matplotlib.rc_context(STYLE):
        for place, kind, panel in zip(grid[0], _KINDS, numbers, strict=True):
            image = place.imshow(panel, vmin=-size, vmax=size, cmap=SIGNED, aspect="auto")
            ticks(place, "y", [f"1.{g}" for g in range(readers)], readers)
            ticks(place, "x", [f"0.{h}" for h in range(read)], read)
            place.set(xlabel="head read", ylabel="head reading" if kind == "Q" else "")
            place.set_title(f"{kind}-composition", fontsize=10)
            place.spines[:].set_visible(False)
            _write(place, panel, image)
        bar = figure.colorbar(image, ax=grid, fraction=0.04, pad=0.01, label="above baseline")
        bar.outline.set_visible(False)
        if title:
            figure.suptitle(title, fontsize=11, fontweight="bold", x=0.02, ha="left")
    return figure


def _write(place: Axes, panel: np.ndarray, image: Any) -> None:
    if panel.size > 36:
        return
    for (i, j), number in np.ndenumerate(panel):
        color = ink_on(image.cmap(image.norm(number)))
        place.text(j, i, f"{number:z.2f}", ha="center", va="center", fontsize=8, color=color)


def histogram(
    series: Mapping[str, Any],
    *,
    x_label: str,
    title: str = "",
    levels: Mapping[str, float] | None = None,
    bins: int = 60,
) -> Figure:
    """How often each value came, one outline a series over common bins, as shares of each series.

    series: name → values (sample,); levels: name → a dashed vertical line
    """
    if not series:
        raise ValueError("A histogram draws at least one series; an empty mapping came.")
    samples = {
        name: array(v, 1, f"Series {name!r} is a line of samples") for name, v in series.items()
    }
    together = np.concatenate([*samples.values(), np.array(list((levels or {}).values()))])
    edges = np.linspace(together.min(), together.max(), bins + 1)
    figure, grid = picture(7.0, 3.2, title)
    place = grid[0, 0]
    with matplotlib.rc_context(STYLE):
        for color, (name, values) in zip(SERIES, samples.items(), strict=False):
            share = np.full(len(values), 1 / len(values))
            common: dict[str, Any] = {"bins": edges, "weights": share, "color": color}
            place.hist(values, alpha=0.35, **common)
            place.hist(values, histtype="step", linewidth=1.5, label=name, **common)
        for name, level in (levels or {}).items():
            place.axvline(level, color=INK, linestyle="--", linewidth=1.2, label=name)
        place.set(xlabel=x_label, ylabel="share of samples", title=title)
        place.legend(loc="center left", bbox_to_anchor=(1.0, 0.8))
    return figure
