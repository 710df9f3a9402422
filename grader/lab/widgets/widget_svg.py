"""Small drawings that a widget puts into the page: drawn in a few milliseconds, explained on hover.

A widget that redraws while a control moves has no time for matplotlib, which takes 30 ms an axis.
Like the course's pictures these bring their own light ground, so both themes show the same. A drawing
is one image to a screen reader, read out as its ``words``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from grader.lab.picture_style import ACCENT, FAINT, INK, PAPER, SERIES

_GREY = "#5c6167"  # text that may stay behind, still 6 : 1 on the ground
_SIDE = 236  # pixels of a plane
_WIDTH, _HEIGHT = 298, 168  # of a chart
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 26, 34  # margins of a chart
_MOST_LABELS = 7

Dot = tuple[float, float, str]
"""x, y, and what hovering it says."""


def plane(dots: Sequence[Dot], *, title: str, words: str, circles: Mapping[str, float]) -> str:
    """Dots between −1 and 1 on both axes; hollow triangles where x is negative.

    circles: label → radius, drawn around the centre
    """
    half = _SIDE / 2
    scale = (half - 12) / 1.06

    def at(x: float, y: float) -> tuple[float, float]:
        return half + scale * x, half + 12 - scale * y

    across = [(at(-1.06, 0), at(1.06, 0)), (at(0, -1.06), at(0, 1.06))]
    parts = [stroke(a, b, FAINT) for a, b in across]
    for name, size in circles.items():
        x, y = at(0, 0)
        parts.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{scale * size:.1f}' fill='none' stroke='{FAINT}'/>"
        )
        parts.append(lettering(x + 3, y - scale * size + 11, name, size=9, color=_GREY))
    for x, y, said in dots:
        left, top = at(x, y)
        if x < 0:
            shape = f"<path d='M{left + 3:.1f} {top - 4:.1f}v8l-7-4z' fill='none' stroke='{ACCENT}'"
        else:
            shape = f"<circle cx='{left:.1f}' cy='{top:.1f}' r='3.6' fill='{SERIES[0]}' fill-opacity='.75'"
        parts.append(f"{shape}><title>{escape(said)}</title>{_END[shape[1]]}")
    parts.append(
        lettering(at(1.06, 0)[0], at(0, 0)[1] + 12, "real", anchor="end", size=9, color=_GREY)
    )
    return drawing(_SIDE, _SIDE + 24, title, words, parts)


_END = {"p": "</path>", "c": "</circle>"}


def chart(
    heights: Sequence[float],
    labels: Sequence[str],
    *,
    title: str,
    at: int,
    words: str,
    others: Sequence[Sequence[float]] = (),
    x_label: str = "",
    floor: float | None = None,
    ceiling: float | None = None,
) -> str:
    """One line over equally spaced places, a mark and its number at place ``at``.

    others: fainter lines for comparison; floor, ceiling: of the axis, else the least and the largest
    """
    every = [*heights, *(h for line in others for h in line)]
    low = min(every) if floor is None else min(floor, *every)
    high = max(every) if ceiling is None else max(ceiling, *every)
    span = (high - low) or 1.0
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(heights) - 1)

    def place(i: int, height: float) -> tuple[float, float]:
        share = (height - low) / span
        return _LEFT + step * i, _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = []
    for level in (low, (low + high) / 2, high):
        x, y = place(0, level)
        parts.append(stroke((x, y), (_WIDTH - _RIGHT, y), "#e0e0da"))
        parts.append(lettering(x - 5, y + 3.5, f"{level:z.2f}", anchor="end", size=10))
    for i, name in enumerate(labels):
        if i % -(-len(labels) // _MOST_LABELS) == 0:
            parts.append(lettering(place(i, low)[0], _HEIGHT - 20, name, anchor="middle", size=10))
    parts.append(lettering((_LEFT + _WIDTH) / 2, _HEIGHT - 6, x_label, anchor="middle", size=10))
    for line in others:
        parts += [stroke(a, b, FAINT) for a, b in pairwise(place(i, h) for i, h in enumerate(line))]
    spots = [place(i, h) for i, h in enumerate(heights)]
    parts += [stroke(a, b, SERIES[0], 2.0) for a, b in pairwise(spots)]
    for (x, y), name, height in zip(spots, labels, heights, strict=True):
        said = escape(f"{name}: {height:.3f}")
        parts.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{SERIES[0]}'><title>{said}</title></circle>"
        )
    x, y = spots[at]
    parts.append(stroke((x, _TOP), (x, _HEIGHT - _BOTTOM), ACCENT, 1.0))
    parts.append(
        f"<rect x='{x - 5:.1f}' y='{y - 5:.1f}' width='10' height='10' fill='none' "
        f"stroke='{ACCENT}' stroke-width='2'/>"
    )
    return drawing(_WIDTH, _HEIGHT, title, words, parts)


def side_by_side(*drawings: str) -> str:
    """Drawings in a row that breaks where the page is narrow."""
    return (
        "<div style='display:flex;flex-wrap:wrap;align-items:flex-start;gap:6px 10px;margin:2px 0 6px'>"
        f"{''.join(drawings)}</div>"
    )


def drawing(width: int, height: int, title: str, words: str, parts: Sequence[str]) -> str:
    """Parts (SVG elements) on the light ground with a title; the whole is read out as ``words``."""
    return (
        f"<svg role='img' aria-label='{escape(words)}' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' style='max-width:100%;height:auto;background:{PAPER};"
        f"border-radius:3px' font-family='DejaVu Sans, Verdana, sans-serif'>"
        f"{lettering(8, 16, title, size=12, weight=600)}{''.join(parts)}</svg>"
    )


def stroke(
    start: tuple[float, float], end: tuple[float, float], color: str, width: float = 0.8
) -> str:
    """A straight line."""
    (a, b), (c, d) = start, end
    return (
        f"<line x1='{a:.1f}' y1='{b:.1f}' x2='{c:.1f}' y2='{d:.1f}' stroke='{color}' "
        f"stroke-width='{width}'/>"
    )


def lettering(
    x: float, y: float, text: str, *, size: int, anchor: str = "start", weight: int = 400,
    color: str = INK,
) -> str:  # fmt: skip
    """Text whose base line starts, or has its middle or end, at (x, y)."""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' "
        f"font-weight='{weight}' fill='{color}'>{escape(text)}</text>"
    )
