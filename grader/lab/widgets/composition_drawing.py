"""The composition map, drawn: heads as boxes, layer above layer, a curve for each head that is read.

One geometry for the page (SVG, a few milliseconds) and for paper (matplotlib). The three kinds differ
in dash, in colour, and in where they enter the reading head: Q left, K in the middle, V right.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from grader.lab.picture_style import ACCENT, FAINT, INK, PAPER, SERIES, STYLE, picture
from grader.lab.widgets.composition_edges import Edge, Head, PairSpectrum
from grader.lab.widgets.widget_svg import drawing, lettering

COLORS = {"Q": SERIES[2], "K": SERIES[0], "V": SERIES[1]}
_DASHES = {"Q": "7 4", "K": "", "V": "2 4"}  # of the page; of paper below
_STYLES = {"Q": (0, (5, 3)), "K": "solid", "V": (0, (1, 2))}
_PORTS = {"Q": -0.3, "K": 0.0, "V": 0.3}  # where a kind enters the reading head, in box widths
_ACROSS, _UP, _WIDE, _HIGH = 96, 150, 58, 28  # pixels: from head to head, layer to layer; a box
_NAMED = 8  # edges whose score is written beside them
_THICKEST = 7.0

Point = tuple[float, float]


def map_svg(edges: Sequence[Edge], layers: int, heads: int, *, chosen: Edge, words: str) -> str:
    """The map as part of a page; hovering a curve says its kind, heads and score."""
    width, height = heads * _ACROSS + 20, (layers - 1) * _UP + 110

    def at(place: Point) -> Point:
        return 10 + place[0] * _ACROSS, height - 40 - place[1] * _UP

    top = max((edge.score for edge in edges), default=1.0) or 1.0
    parts, scores = [], []
    for i, edge in reversed(list(enumerate(edges))):  # the highest last, so above the others
        start, end = (at(place) for place in _ends(edge))
        start, end = (start[0], start[1] - _HIGH / 2), (end[0], end[1] + _HIGH / 2)
        middle = (start[1] + end[1]) / 2
        picked = edge == chosen
        parts.append(
            f"<path d='M{start[0]:.1f} {start[1]:.1f}C{start[0]:.1f} {middle:.1f} "
            f"{end[0]:.1f} {middle:.1f} {end[0]:.1f} {end[1]:.1f}' fill='none' "
            f"stroke='{COLORS[edge.kind]}' stroke-width='{_thickness(edge, top):.1f}' "
            f"stroke-dasharray='{_DASHES[edge.kind]}' stroke-opacity='{1 if picked else 0.72}'>"
            f"<title>{escape(f'{edge.name}: {edge.score:+.3f} above chance')}</title></path>"
        )
        if i < _NAMED or picked:
            share = 0.3 + 0.4 * (i % 4) / 3  # at four heights, so that numbers seldom meet
            x, y = _on_curve(start, end, share)
            mark = "▸" if picked else ""
            scores.append(_halo(x, y, f"{mark}{edge.kind} {edge.score:.3f}", bold=picked))
    parts += scores
    for layer in range(layers):
        for head in range(heads):
            parts.append(_box((layer, head), at((head + 0.5, layer)), chosen))
    return drawing(width, height, "heads that read heads: earlier below", words, parts)


def _ends(edge: Edge) -> tuple[Point, Point]:
    """Where a curve leaves and arrives, in heads across and layers up."""
    port = _PORTS[edge.kind] * _WIDE / _ACROSS
    return (edge.early[1] + 0.5, edge.early[0]), (edge.late[1] + 0.5 + port, edge.late[0])


def _thickness(edge: Edge, top: float) -> float:
    return 1.0 + (_THICKEST - 1.0) * max(edge.score, 0.0) / top


def _on_curve(start: Point, end: Point, t: float) -> Point:
    """The point of the curve at t in [0, 1]; its two middle points lie half way up."""
    middle = (start[1] + end[1]) / 2
    a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
    x = (a + b) * start[0] + (c + d) * end[0]
    return x, a * start[1] + (b + c) * middle + d * end[1]


def _halo(x: float, y: float, text: str, *, bold: bool) -> str:
    weight = 700 if bold else 400
    around = f"stroke='{PAPER}' stroke-width='4' paint-order='stroke' stroke-linejoin='round'"
    return (
        f"<text x='{x:.1f}' y='{y + 4:.1f}' font-size='10' text-anchor='middle' "
        f"font-weight='{weight}' fill='{INK}' {around}>{escape(text)}</text>"
    )


def _box(head: Head, place: Point, chosen: Edge) -> str:
    x, y = place
    picked = head in (chosen.early, chosen.late)
    return (
        f"<rect x='{x - _WIDE / 2:.1f}' y='{y - _HIGH / 2:.1f}' width='{_WIDE}' height='{_HIGH}' "
        f"rx='6' fill='{PAPER}' stroke='{INK if picked else FAINT}' "
        f"stroke-width='{2.4 if picked else 1.2}'/>"
        + lettering(x, y + 4, f"{head[0]}.{head[1]}", size=12, anchor="middle")
    )


def map_picture(
    edges: Sequence[Edge], layers: int, heads: int, *, chosen: Edge, spectrum: PairSpectrum,
    threshold: float,
) -> Figure:  # fmt: skip
    """The map on paper, and beside it the chosen pair's singular values and eigenvalues."""
    wide = min(1.0 * heads + 0.6, 7.0)
    figure, places = picture(wide + 5.6, 3.6, columns=3, width_ratios=(wide, 2.6, 2.6))
    with matplotlib.rc_context(STYLE):
        _draw_map(places[0, 0], edges, layers, heads, chosen)
        places[0, 0].set_title(f"composition, {threshold:.2f} or more above chance")
        _draw_spectrum(places[0, 1], places[0, 2], chosen, spectrum)
    return figure


def _draw_map(place: Axes, edges: Sequence[Edge], layers: int, heads: int, chosen: Edge) -> None:
    half_wide, half_high = _WIDE / _ACROSS / 2, _HIGH / _UP / 2
    top = max((edge.score for edge in edges), default=1.0) or 1.0
    for i, edge in reversed(list(enumerate(edges))):
        (x0, y0), (x1, y1) = _ends(edge)
        start, end = (x0, y0 + half_high), (x1, y1 - half_high)
        middle = (start[1] + end[1]) / 2
        curve = Path(
            [start, (x0, middle), (x1, middle), end],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        place.add_patch(
            PathPatch(
                curve, fill=False, edgecolor=COLORS[edge.kind], alpha=0.75,
                linewidth=0.7 * _thickness(edge, top), linestyle=_STYLES[edge.kind],
            )
        )  # fmt: skip
        if i < _NAMED or edge == chosen:
            x, y = _on_curve(start, end, 0.3 + 0.4 * (i % 4) / 3)
            place.text(
                x, y, f"{edge.kind} {edge.score:.3f}", fontsize=7, ha="center", va="center",
                weight="bold" if edge == chosen else "normal",
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
    for layer in range(layers):
        for head in range(heads):
            picked = (layer, head) in (chosen.early, chosen.late)
            box = FancyBboxPatch(
                (head + 0.5 - half_wide, layer - half_high), 2 * half_wide, 2 * half_high,
                boxstyle="round,pad=0,rounding_size=0.06", facecolor=PAPER, zorder=3,
                edgecolor=INK if picked else FAINT, linewidth=2.0 if picked else 1.2,
            )  # fmt: skip
            place.add_patch(box)
            place.text(
                head + 0.5, layer, f"{layer}.{head}", ha="center", va="center", fontsize=9, zorder=4
            )
    place.set(xlim=(-0.05, heads + 0.05), ylim=(-0.25, layers - 0.75))
    place.axis("off")


def _draw_spectrum(singular: Axes, plane: Axes, chosen: Edge, spectrum: PairSpectrum) -> None:
    sizes, values = spectrum.shares()
    singular.plot(range(1, len(sizes) + 1), sizes, "o-", color=SERIES[0], markersize=3)
    singular.set(xlabel="singular values, over the largest", ylim=(0, 1.05))
    singular.set_title(chosen.name, fontsize=10)
    for right, marker in ((True, "o"), (False, "<")):
        some = [z for z in values if (z.real >= 0) == right]
        plane.scatter(
            [z.real for z in some], [z.imag for z in some], s=20, marker=marker,
            facecolors=SERIES[0] if right else "none", edgecolors=SERIES[0] if right else ACCENT,
        )  # fmt: skip
    plane.axhline(0, color=FAINT, linewidth=0.8)
    plane.axvline(0, color=FAINT, linewidth=0.8)
    plane.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xlabel="eigenvalues, real part")
    plane.set_title(f"Re Σλ / Σ|λ| = {spectrum.score:+.2f}", fontsize=10)
