"""Lines, bars, points and the complex plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Bbox

from grader.lab.picture_style import (
    ACCENT,
    FAINT,
    SERIES,
    STYLE,
    array,
    labels_for,
    picture,
    ticks,
)

# Where a dot's name may stand: offset in points, and the side of the text that is nearest the dot.
_BESIDE = (
    (4, 3, "left", "bottom"), (-4, 3, "right", "bottom"), (4, -3, "left", "top"),
    (-4, -3, "right", "top"), (0, 6, "center", "bottom"), (0, -6, "center", "top"),
)  # fmt: skip
_FEW = 12  # places on a logarithmic axis that are named one by one, better than powers of ten


def lines(
    series: Mapping[str, Any],
    x: Any = None,
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    levels: Mapping[str, float] | None = None,
    log_x: bool = False,
) -> Figure:
    """One line for each series, named in a legend.

    series: name → values (step,); x: where the values stand, 0, 1, … if not given
    levels: name → height of a dashed line, for a bound or a baseline
    """
    if not series:
        raise ValueError("A line picture draws at least one series; an empty mapping came.")
    figure, grid = picture(7.0, 3.4, title)
    place = grid[0, 0]
    with matplotlib.rc_context(STYLE):
        for color, (name, values) in zip(_cycle(SERIES), series.items(), strict=False):
            heights = array(values, 1, f"Series {name!r} is one line of numbers")
            where = np.arange(len(heights)) if x is None else array(x, 1, "x is a line of numbers")
            if len(where) != len(heights):
                raise ValueError(f"Series {name!r} has {len(heights)} values and x {len(where)}.")
            mark = "o" if len(heights) <= 30 else ""
            place.plot(where, heights, color=color, marker=mark, markersize=4, label=name)
        _draw_levels(place, levels or {})
        place.set(xlabel=x_label, ylabel=y_label, title=title)
        place.set_xscale("log" if log_x else "linear")
        if log_x and len(where) <= _FEW:
            place.set_xticks(where, [f"{value:g}" for value in where])
            place.xaxis.set_minor_locator(NullLocator())
        place.grid(True, axis="y")
        if len(series) > 1:
            place.legend(loc="center left", bbox_to_anchor=(1.0, 0.9))
    return figure


def bars(
    values: Any,
    labels: Iterable[Any],
    *,
    y_label: str,
    x_label: str = "",
    title: str = "",
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """One bar a value, above 0 in blue and below in orange; levels as in ``lines``."""
    heights = array(values, 1, "A bar picture draws one line of numbers")
    names = labels_for(labels, len(heights), "Bars") or []
    figure, grid = picture(min(2.2 + 0.45 * len(heights), 10.0), 3.2, title)
    place = grid[0, 0]
    with matplotlib.rc_context(STYLE):
        colors = [SERIES[0] if height >= 0 else ACCENT for height in heights]
        place.bar(range(len(heights)), heights, color=colors, width=0.72)
        place.axhline(0, color=FAINT, linewidth=0.8)
        _draw_levels(place, levels or {})
        ticks(place, "x", names, len(heights))
        place.set(xlabel=x_label, ylabel=y_label, title=title)
        place.grid(True, axis="y")
        place.set_axisbelow(True)
    return figure


def points(
    x: Any,
    y: Any,
    *,
    x_label: str,
    y_label: str,
    labels: Iterable[Any] | None = None,
    title: str = "",
) -> Figure:
    """A dot for each pair; labels: one a dot, written beside it, None for a dot without one."""
    across = array(x, 1, "A point picture draws one line of numbers for x")
    up = array(y, 1, "A point picture draws one line of numbers for y")
    if len(across) != len(up):
        raise ValueError(f"x holds {len(across)} numbers and y {len(up)}; they come in pairs.")
    given = [None] * len(up) if labels is None else list(labels)
    shown = labels_for(["" if name is None else name for name in given], len(up), "Points") or []
    names = ["" if of is None else name for of, name in zip(given, shown, strict=True)]
    figure, grid = picture(5.2, 4.2, title)
    place = grid[0, 0]
    with matplotlib.rc_context(STYLE):
        place.scatter(across, up, color=SERIES[0], s=28, alpha=0.8, linewidths=0)
        place.set(xlabel=x_label, ylabel=y_label, title=title)
        place.grid(True)
        place.set_axisbelow(True)
        if any(names):
            _name_dots(figure, place, names, np.stack([across, up], axis=1))
    return figure


def _name_dots(figure: Figure, place: Axes, names: Sequence[str], spots: np.ndarray) -> None:
    """Each name beside its dot, where it covers no dot and no name before it, if there is such a place."""
    notes = [
        place.annotate(name, spot, xytext=_BESIDE[0][:2], textcoords="offset points", fontsize=9)
        for name, spot in zip(names, spots, strict=True)
        if name
    ]
    figure.draw_without_rendering()  # so that the layout, and with it the room, is known
    taken = [Bbox([dot - 3, dot + 3]) for dot in place.transData.transform(spots)]
    for note in notes:
        boxes = []
        for across, up, side, edge in _BESIDE:
            note.set(position=(across, up), ha=side, va=edge)
            boxes.append(note.get_window_extent())
        covered = [sum(box.overlaps(other) for other in taken) for box in boxes]
        best = covered.index(min(covered))
        across, up, side, edge = _BESIDE[best]
        note.set(position=(across, up), ha=side, va=edge)
        taken.append(boxes[best])


def eigenvalues(values: Any | Mapping[str, Any], *, title: str = "", columns: int = 4) -> Figure:
    """Eigenvalues in the complex plane: right of the vertical line is positive.

    values: (k,) complex or real, or name → values for one plane each
    """
    planes = values if isinstance(values, Mapping) else {title: values}
    if not planes:
        raise ValueError("An eigenvalue picture draws at least one set; an empty mapping came.")
    columns = min(columns, len(planes))
    lines_of = -(-len(planes) // columns)
    side = 4.2 if len(planes) == 1 else min(11.0 / columns, 3.2)
    figure, grid = picture(side * columns, side * lines_of, rows=lines_of, columns=columns)
    with matplotlib.rc_context(STYLE):
        for place in grid.flat[len(planes) :]:
            place.set_visible(False)
        for place, (name, spectrum) in zip(grid.flat, planes.items(), strict=False):
            numbers = array(spectrum, 1, "Eigenvalues are one line of numbers").astype(complex)
            _draw_plane(place, numbers)
            place.set_title(name)
        if isinstance(values, Mapping) and title:
            figure.suptitle(title, fontsize=11, fontweight="bold", x=0.02, ha="left")
    return figure


def _draw_plane(place: Axes, numbers: np.ndarray) -> None:
    reach = 1.15 * float(max(np.abs(numbers.real).max(), np.abs(numbers.imag).max())) or 1.0
    place.axhline(0, color=FAINT, linewidth=0.8)
    place.axvline(0, color=FAINT, linewidth=0.8)
    colors = [SERIES[0] if part >= 0 else ACCENT for part in numbers.real]
    place.scatter(numbers.real, numbers.imag, s=22, c=colors, alpha=0.75, linewidths=0)
    place.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    place.set(xlabel="real part", ylabel="imaginary part")


def _draw_levels(place: Axes, levels: Mapping[str, float]) -> None:
    for name, level in levels.items():
        place.axhline(float(level), color=FAINT, linestyle="--", linewidth=1.2)
        place.annotate(
            name, (1.01, float(level)), xycoords=("axes fraction", "data"), va="center",
            fontsize=9, color="#5c6167", annotation_clip=False,
        )  # fmt: skip


def _cycle(colors: Sequence[str]) -> Iterable[str]:
    while True:
        yield from colors
