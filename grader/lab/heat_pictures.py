"""Matrices and attention patterns as colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grader.lab.picture_style import (
    AMOUNTS,
    ATTENTION,
    FUTURE,
    SIGNED,
    STYLE,
    array,
    ink_on,
    labels_for,
    picture,
    ticks,
)

_MOST_NUMBERS = 150  # entries that still fit as numbers into their cells


def matrix(
    values: Any,
    rows: Iterable[Any] | None = None,
    columns: Iterable[Any] | None = None,
    *,
    axes: tuple[str, str] = ("row", "column"),
    title: str = "",
    diverging: bool = True,
    digits: int = 2,
) -> Figure:
    """A matrix as colours, small ones with their numbers.

    values: (row, column); rows, columns: a label each; axes: what rows and columns are.
    diverging: white is 0, red above, blue below; False: from the least (dark) to the largest.
    digits: after the point, where numbers are written into the cells
    """
    numbers = array(values, 2, "A matrix picture draws an array of shape (row, column)")
    height, width = numbers.shape
    figure, grid = picture(
        min(1.8 + 0.52 * width, 9.5), min(1.3 + (0.36 if height > 1 else 0.6) * height, 8.0), title
    )
    place = grid[0, 0]
    size = float(np.nanmax(np.abs(numbers))) or 1.0
    limits = {"vmin": -size, "vmax": size, "cmap": SIGNED} if diverging else {"cmap": AMOUNTS}
    with matplotlib.rc_context(STYLE):
        image = place.imshow(numbers, aspect="auto", interpolation="nearest", **limits)
        figure.colorbar(image, ax=place, fraction=0.06, pad=0.02).outline.set_visible(False)
        ticks(place, "y", labels_for(rows, height, "Rows of the matrix"), height)
        ticks(place, "x", labels_for(columns, width, "Columns of the matrix"), width)
        place.set(ylabel=axes[0], xlabel=axes[1], title=title)
        place.spines[:].set_visible(False)
        if numbers.size <= _MOST_NUMBERS and width <= 16:
            _write_numbers(place, numbers, image, digits)
    return figure


def pattern(
    pattern: Any, tokens: Iterable[Any] | None = None, *, title: str = "", numbers: bool = False
) -> Figure:
    """One head's attention: a row for each destination, dark where it looks; the future is grey.

    pattern: (dst, src), entries in [0, 1]; tokens: one a position; numbers: write each weight
    """
    weights = array(pattern, 2, "A pattern picture draws one head's (dst, src)")
    _check_square(weights)
    side = min(2.4 + 0.32 * len(weights), 7.5)
    figure, grid = picture(side, side * 0.92, title)
    with matplotlib.rc_context(STYLE):
        image = draw_pattern(grid[0, 0], weights, labels_for(tokens, len(weights), "Tokens"))
        figure.colorbar(
            image, ax=grid[0, 0], fraction=0.05, pad=0.02, label="attention"
        ).outline.set_visible(False)
        grid[0, 0].set(ylabel="destination (looks from)", xlabel="source (looks at)", title=title)
        if numbers:
            _write_numbers(grid[0, 0], np.ma.array(weights, mask=_future(weights)), image, 2)
    return figure


def patterns(
    heads: Any,
    tokens: Iterable[Any] | None = None,
    *,
    titles: Iterable[str] | None = None,
    columns: int = 4,
) -> Figure:
    """Several heads side by side, each as in ``pattern``, on one colour scale.

    heads: (head, dst, src), or (layer, head, dst, src), one row of pictures a layer
    titles: one a head; "head 0" or "head 1.0" (layer.head) if not given
    """
    weights = array(heads, (3, 4), "Patterns are (head, dst, src) or (layer, head, dst, src)")
    _check_square(weights)
    if weights.ndim == 4:
        columns = weights.shape[1]
        names = [f"head {i}.{j}" for i, j in np.ndindex(*weights.shape[:2])]
        weights = weights.reshape(-1, *weights.shape[2:])
    else:
        names = [f"head {i}" for i in range(len(weights))]
    columns = min(columns, len(weights))
    shown = names if titles is None else list(titles)
    if len(shown) != len(weights):
        raise ValueError(f"{len(shown)} titles came for {len(weights)} heads.")
    labels = labels_for(tokens, weights.shape[-1], "Tokens")
    lines_of = -(-len(weights) // columns)
    side = min(11.0 / columns, 3.2)
    figure, grid = picture(
        columns * side + 0.8, lines_of * side * 1.02 + 0.3, rows=lines_of, columns=columns
    )
    image: Any = None
    with matplotlib.rc_context(STYLE):
        for i, place in enumerate(grid.flat):
            if i >= len(weights):
                place.set_visible(False)
                continue
            image = draw_pattern(place, weights[i], labels, small=True)
            place.set_title(shown[i], fontsize=10)
            place.set_ylabel("destination" if i % columns == 0 else "")
            place.set_xlabel("source" if i + columns >= len(weights) else "")
        figure.colorbar(
            image, ax=grid, fraction=0.03, pad=0.01, label="attention"
        ).outline.set_visible(False)
    return figure


def draw_pattern(
    place: Axes, weights: np.ndarray, labels: Sequence[str] | None, small: bool = False
) -> Any:
    cmap = matplotlib.colormaps[ATTENTION].with_extremes(bad=FUTURE)
    shown = np.ma.array(weights, mask=_future(weights))
    image = place.imshow(shown, vmin=0, vmax=1, cmap=cmap, interpolation="nearest")
    few = labels if labels is None or not small or len(labels) <= 24 else None
    ticks(place, "x", few, len(weights), small)
    ticks(place, "y", few, len(weights), small)
    place.spines[:].set_visible(False)
    return image


def _future(weights: np.ndarray) -> np.ndarray:
    """Entries that a causal pattern leaves empty. One that isn't empty is shown: it is a bug."""
    future: np.ndarray = np.triu(np.ones(weights.shape, dtype=bool), 1) & (weights == 0)
    return future


def _check_square(weights: np.ndarray) -> None:
    if weights.shape[-1] != weights.shape[-2]:
        raise ValueError(
            f"A pattern has as many destinations as sources; shape {weights.shape} came."
        )


def _write_numbers(place: Axes, numbers: np.ndarray, image: Any, digits: int) -> None:
    for (i, j), number in np.ndenumerate(numbers):
        if not np.ma.getmaskarray(numbers)[i, j]:
            whole = float(number).is_integer() and bool(np.all(np.mod(numbers, 1) == 0))
            text = f"{number:.0f}" if whole else f"{number:z.{digits}f}"
            color = ink_on(image.cmap(image.norm(number)))
            place.text(j, i, text, ha="center", va="center", fontsize=8, color=color)
