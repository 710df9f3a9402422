"""HTML that the lab's widgets show: tables and texts whose parts explain themselves.

Colours of the page come from JupyterLab's theme; a coloured cell brings its own background and an ink
that can be read on it, so it looks the same in both themes. What a colour says stands in the cell's
``title`` too, and in its text where there is room.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex, to_rgba
from matplotlib.image import imsave

from grader.lab.picture_style import ATTENTION, FUTURE, ink_on, legible

_STEPS = 64  # shades of a colour map that are told apart

STYLE_SHEET = """<style>
.lab-explorer .widget-toggle-buttons {display: flex; flex-wrap: wrap; align-items: center;}
.lab-explorer .widget-toggle-buttons > label {margin-right: 8px; width: auto;}
.lab-title {font-weight: 600; font-size: 15px; color: var(--jp-ui-font-color1, #24292f);}
.lab-about {margin: 2px 0 4px; line-height: 1.4; color: var(--jp-ui-font-color1, #24292f);}
.lab-message {min-height: 1.4em; line-height: 1.4; color: var(--jp-ui-font-color1, #24292f);}
.lab-trouble {font-weight: 600;}
.lab-scroll {overflow: auto; max-width: 100%;}
.lab-table {border-collapse: collapse; font-size: 12px; line-height: 1.35; margin: 2px 0 8px;
  color: var(--jp-ui-font-color1, #24292f);}
.lab-table caption {text-align: left; font-weight: 600; padding: 2px 0 4px; caption-side: top;
  color: var(--jp-ui-font-color1, #24292f);}
.lab-table th {font-weight: 500; padding: 2px 6px; text-align: left; white-space: nowrap;}
.lab-table td {padding: 2px 6px; white-space: nowrap;
  border-top: 1px solid var(--jp-border-color2, #d9d9d9);}
.lab-table td.lab-wrap {white-space: normal;}
.lab-table .lab-number {text-align: right; font-variant-numeric: tabular-nums;}
.lab-table .lab-chosen {outline: 2px solid var(--jp-ui-font-color1, #24292f); outline-offset: -2px;}
.lab-table th.lab-chosen {outline: none; font-weight: 700; text-decoration: underline;}
.lab-together {white-space: nowrap; margin-right: 0.9em;}
.lab-heat {font-size: 11px; line-height: 1.2;}
.lab-heat td {min-width: 13px; height: 15px; padding: 0 4px; border: 1px solid #fcfcfa;
  text-align: center; font-variant-numeric: tabular-nums;}
.lab-heat td.lab-chosen {outline: none; border-top: 2px solid #24292f;
  border-bottom: 2px solid #24292f;}
.lab-heat th {padding: 0 4px; font-weight: 400;}
.lab-heat thead th {vertical-align: bottom; text-align: center;}
.lab-heat thead th span {writing-mode: vertical-rl; transform: rotate(180deg);}
.lab-heat tbody th {text-align: right;}
.lab-text {line-height: 1.3; margin: 4px 0 8px; display: flex; flex-wrap: wrap; gap: 2px 1px;
  color: var(--jp-ui-font-color1, #24292f); font-family: var(--jp-code-font-family, monospace);}
.lab-token {display: inline-flex; flex-direction: column; align-items: center; font-size: 13px;}
.lab-token > span {padding: 1px 3px; border-radius: 2px; white-space: pre;}
.lab-token small {font-size: 10px; min-height: 13px;}
.lab-token.lab-chosen > span {outline: 2px solid var(--jp-ui-font-color1, #24292f);
  outline-offset: 1px; font-weight: 700;}
.lab-caption, .lab-name {font-size: 12px; color: var(--jp-ui-font-color1, #24292f);}
.lab-caption {font-weight: 600;}
.lab-heads {display: grid; gap: 6px; margin-bottom: 6px;}
.lab-heads figure {margin: 0; padding: 3px; border: 2px solid transparent;}
.lab-heads figure.lab-chosen {border-color: var(--jp-ui-font-color1, #24292f); font-weight: 700;}
.lab-heads img, .lab-large img {image-rendering: pixelated; display: block;}
.lab-heads figcaption, .lab-large figcaption {font-size: 12px; line-height: 1.3;
  color: var(--jp-ui-font-color1, #24292f);}
.lab-large {margin: 2px 0 8px;}
</style>"""


def label(text: Any) -> str:
    """One token for a page, escaped: ``·`` is a space at its ends, ``⏎`` a new line."""
    return escape(legible(text).replace(r"\$", "$"))


def html_table(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    caption: str = "",
    chosen: int | None = None,
    titles: Sequence[str] | None = None,
) -> str:
    """A plain table. Numbers stand right, with three digits; strings are escaped, `Markup` is not.

    chosen: a row that is framed; titles: what hovering each row says
    """
    body = []
    for i, row in enumerate(rows):
        kind = " class='lab-chosen'" if i == chosen else ""
        title = f" title='{escape(titles[i])}'" if titles else ""
        body.append(f"<tr{kind}{title}>{''.join(_cell(value) for value in row)}</tr>")
    heads = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    return (
        f"<div class='lab-scroll'><table class='lab-table'>{_caption(caption)}"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


class Markup(str):
    """Text that is HTML already and goes into a table as it is."""


def heat_table(
    values: Any,
    rows: Sequence[Any],
    columns: Sequence[Any],
    *,
    caption: str = "",
    limits: tuple[float, float] = (0.0, 1.0),
    cmap: str = ATTENTION,
    hidden: Any = None,
    chosen: int | None = None,
    digits: int | None = None,
    say: Callable[[int, int, float], str] | None = None,
    write: Callable[[int, int, float], str] | None = None,
) -> str:
    """A matrix as coloured cells; hovering one says its row, column and value.

    values: (row, column); hidden: the same shape, True where a cell is grey and empty
    limits: the values of the first and the last colour; chosen: a row that is framed
    digits: write each number into its cell; write: (row, column, value) → what is written instead
    say: (row, column, value) → the words on hovering
    """
    numbers = np.asarray(values, dtype=np.float64)
    gone = np.zeros(numbers.shape, bool) if hidden is None else np.asarray(hidden, dtype=bool)
    low, high = limits
    steps = np.clip(np.nan_to_num((numbers - low) / ((high - low) or 1.0)), 0, 1) * (_STEPS - 1)
    shades = np.rint(steps).astype(int)
    colors = _shades(cmap)
    names = [label(name) for name in rows], [label(name) for name in columns]
    body = []
    for i, row_name in enumerate(names[0]):
        kind = " class='lab-chosen'" if i == chosen else ""
        cells = []
        for j, number in enumerate(numbers[i].tolist()):
            if gone[i, j]:
                cells.append(f"<td style='background:{FUTURE}'></td>")
                continue
            words = (
                escape(say(i, j, number)) if say else f"{row_name} → {names[1][j]}: {number:.3f}"
            )
            text = "" if digits is None else f"{number:z.{digits}f}"
            text = escape(write(i, j, number)) if write else text
            cells.append(f"<td{kind} style='{colors[shades[i, j]]}' title='{words}'>{text}</td>")
        body.append(f"<tr><th scope='row'{kind}>{row_name}</th>{''.join(cells)}</tr>")
    heads = "".join(f"<th scope='col'><span>{name}</span></th>" for name in names[1])
    return (
        f"<div class='lab-scroll'><table class='lab-table lab-heat'>{_caption(caption)}"
        f"<thead><tr><td style='border:none'></td>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def token_strip(
    labels: Sequence[Any],
    styles: Sequence[str],
    numbers: Sequence[str],
    *,
    titles: Sequence[str] | None = None,
    chosen: int | None = None,
) -> str:
    """A text as its tokens in a row that breaks, a number below each.

    styles: of each token's background, "" for none (`shade`); titles: what hovering each says
    chosen: a token that is framed
    """
    pieces = []
    for i, (name, style, number) in enumerate(zip(labels, styles, numbers, strict=True)):
        kind = "lab-token lab-chosen" if i == chosen else "lab-token"
        title = f" title='{escape(titles[i])}'" if titles else ""
        pieces.append(
            f"<span class='{kind}'{title}><span style='{style}'>{label(name)}</span>"
            f"<small>{escape(number)}</small></span>"
        )
    return f"<div class='lab-text' role='group' aria-label='text'>{''.join(pieces)}</div>"


def shade(share: float, cmap: str = ATTENTION) -> str:
    """The style of a cell that holds ``share``, between 0 and 1, of the strongest colour."""
    return _shades(cmap)[round(min(max(share, 0.0), 1.0) * (_STEPS - 1))]


def thumbnail(pattern: Any, darkest: float = 1.0) -> str:
    """A pattern (dst, src) as the source of an image: a pixel an entry, the future grey."""
    numbers = np.asarray(pattern, dtype=np.float64)
    colors = matplotlib.colormaps[ATTENTION](numbers / (darkest or 1.0))
    colors[np.triu(np.ones(numbers.shape, bool), 1)] = to_rgba(FUTURE)
    with io.BytesIO() as file:
        imsave(file, colors, format="png")
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _cell(value: Any) -> str:
    if isinstance(value, Markup):
        return f"<td class='lab-wrap'>{value}</td>"
    if isinstance(value, float):
        return f"<td class='lab-number'>{value:z.3f}</td>"
    if isinstance(value, int):
        return f"<td class='lab-number'>{value:,}</td>"
    return f"<td>{escape(str(value))}</td>"


def _caption(text: str) -> str:
    return f"<caption>{escape(text)}</caption>" if text else ""


@lru_cache(maxsize=8)
def _shades(cmap: str) -> list[str]:
    """The steps of a colour map as style declarations, background and ink."""
    colors = matplotlib.colormaps[cmap](np.linspace(0, 1, _STEPS))
    return [f"background:{to_hex(color)};color:{ink_on(color)}" for color in colors]
