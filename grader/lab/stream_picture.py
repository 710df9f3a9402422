"""The residual stream, drawn: a line that layers read from and add to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from grader.lab.picture_style import ACCENT, FAINT, INK, PAPER, SERIES, STYLE, picture

_BOX_WIDTH, _BOX_HEIGHT, _GAP = 1.7, 0.72, 0.35
_LAYER_WIDTH = 3.4  # from one layer's reading point to the next one's
_ENDS = 1.6


def stream_diagram(
    layers: Sequence[str | Sequence[str]],
    *,
    path: Sequence[tuple[int, int]] | None = None,
    start: str = "embedding",
    end: str = "unembedding",
    title: str = "",
) -> Figure:
    """The stream from left to right; each layer reads it (arrow up) and adds to it (arrow down).

    layers: one box a layer ("layer 0"), or several that read and write side by side
        (["head 0.0", "head 0.1"])
    path: (layer, box) pairs to highlight as one way through the model; () is the direct path
    Raises ValueError where a path names no box or goes back.
    """
    boxes = [[layer] if isinstance(layer, str) else list(layer) for layer in layers]
    _check_path(boxes, path)
    tallest = max((len(layer) for layer in boxes), default=0)
    length = 2 * _ENDS + _LAYER_WIDTH * max(len(boxes), 1)  # with no layer, a bare line
    top = 0.75 + tallest * (_BOX_HEIGHT + _GAP)
    height = (top + 0.9) * 0.72 + (0.35 if title else 0.0)
    figure, grid = picture(min(length * 0.72, 11.0), min(height, 6.0), title)
    place = grid[0, 0]
    with matplotlib.rc_context(STYLE):
        place.set(xlim=(-0.2, length + 0.2), ylim=(-0.75, top), aspect="equal", title=title)
        place.axis("off")
        _draw_stream(place, length, start, end)
        for i, layer in enumerate(boxes):
            for j, name in enumerate(layer):
                _draw_box(place, i, j, name, path is not None and (i, j) in path)
            _draw_sum(place, i)
        if path is not None:
            _draw_path(place, path, length)
    return figure


def _check_path(boxes: Sequence[Sequence[str]], path: Sequence[tuple[int, int]] | None) -> None:
    for layer, box in path or ():
        if not (0 <= layer < len(boxes) and 0 <= box < len(boxes[layer])):
            raise ValueError(f"The path names box {(layer, box)}, (layer, box); there is none.")
    order = [layer for layer, _ in path or ()]
    if any(later <= earlier for earlier, later in itertools.pairwise(order)):
        raise ValueError(f"A path goes through later and later layers; {order} came.")


def _reads_at(layer: int) -> float:
    return _ENDS + 0.35 + _LAYER_WIDTH * layer


def _writes_at(layer: int) -> float:
    return _reads_at(layer) + _BOX_WIDTH + 0.7


def _height(box: int) -> float:
    return 0.55 + _BOX_HEIGHT / 2 + box * (_BOX_HEIGHT + _GAP)


def _draw_stream(place: Axes, length: float, start: str, end: str) -> None:
    place.plot([_ENDS, length - _ENDS], [0, 0], color=INK, linewidth=2.6, zorder=1)
    for left, name in ((0.0, start), (length - _ENDS, end)):
        _framed(place, left, 0, _ENDS, name, SERIES[6])
    place.text(length / 2, -0.55, "residual stream", ha="center", color=INK, fontsize=10)


def _draw_box(place: Axes, layer: int, box: int, name: str, highlighted: bool) -> None:
    reads, writes, height = _reads_at(layer), _writes_at(layer), _height(box)
    left = reads + 0.35
    place.plot([reads, reads, left], [0, height, height], color=FAINT, linewidth=1.5, zorder=0)
    place.plot(
        [left + _BOX_WIDTH, writes, writes], [height, height, 0.2], color=FAINT, linewidth=1.5,
        zorder=0,
    )  # fmt: skip
    place.plot(left - 0.1, height, marker=">", color=FAINT, markersize=6, zorder=2)
    place.plot(writes, 0.27, marker="v", color=FAINT, markersize=6, zorder=2)
    _framed(place, left, height, _BOX_WIDTH, name, ACCENT if highlighted else SERIES[0])


def _framed(place: Axes, left: float, middle: float, width: float, name: str, color: str) -> None:
    frame = FancyBboxPatch(
        (left + 0.06, middle - _BOX_HEIGHT / 2), width - 0.12, _BOX_HEIGHT,
        boxstyle="round,pad=0.0,rounding_size=0.14", facecolor=PAPER, edgecolor=color,
        linewidth=1.8, zorder=4,
    )  # fmt: skip
    place.add_patch(frame)
    place.text(left + width / 2, middle, name, ha="center", va="center", fontsize=9, zorder=5)


def _draw_sum(place: Axes, layer: int) -> None:
    place.plot(
        _writes_at(layer), 0, marker="o", markersize=13, markerfacecolor=PAPER,
        markeredgecolor=INK, zorder=6,
    )  # fmt: skip
    place.text(_writes_at(layer), -0.01, "+", ha="center", va="center", fontsize=12, zorder=7)


def _draw_path(place: Axes, path: Sequence[tuple[int, int]], length: float) -> None:
    xs, ys = [_ENDS], [0.0]
    for layer, box in path:
        reads, writes, height = _reads_at(layer), _writes_at(layer), _height(box)
        xs += [reads, reads, writes, writes]
        ys += [0.0, height, height, 0.0]
    place.plot([*xs, length - _ENDS], [*ys, 0.0], color=ACCENT, linewidth=4, alpha=0.85, zorder=3)
