"""What all pictures of the course share: one look, labels that show spaces, and no double display.

A picture has its own light background, so that it reads the same in JupyterLab's light and dark
themes. Colours stay apart for colour-blind readers: Okabe and Ito's palette for series, ``cividis``
and ``Blues`` for amounts (lightness alone tells them apart), ``RdBu_r`` (blue below 0, white at 0,
red above) for signed values.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

PAPER = "#fcfcfa"
INK = "#24292f"
FAINT = "#8b929a"
FUTURE = "#dcdcd6"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5c5c5c")
ACCENT = SERIES[1]
AMOUNTS, ATTENTION, SIGNED = "cividis", "Blues", "RdBu_r"

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same on every machine
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e4e4de",
    "lines.linewidth": 1.8,
    "legend.frameon": False,
}
_DOTS_PER_INCH = 96
_SHARPNESS = 2  # pixels drawn for each one shown: sharp on dense displays too
_LETTER = 0.08  # inches that one letter of a tick label takes
_LONGEST_LABEL = 16
_VISIBLE = {" ": " ", "\n": "⏎", "\t": "⇥"}


class Picture(Figure):
    """A matplotlib Figure that a notebook shows once, where it is a cell's value.

    It never enters pyplot, which would show it a second time at the end of the cell and keep it in
    memory for ever.
    """

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
        with io.BytesIO() as file:
            self.savefig(file, format="png", dpi=_DOTS_PER_INCH * _SHARPNESS)
            png = base64.b64encode(file.getvalue()).decode()
        width, height = (round(side * _DOTS_PER_INCH) for side in self.get_size_inches())
        return {"image/png": png}, {"image/png": {"width": width, "height": height}}

    def __repr__(self) -> str:
        titles = [a.get_title(loc="left") for a in self.axes if a.get_title(loc="left")]
        return f"<Picture: {'; '.join(titles)}>" if titles else "<Picture>"


def picture(
    width: float, height: float, title: str = "", *, rows: int = 1, columns: int = 1, **kwargs: Any
) -> tuple[Picture, Any]:
    """A new Picture of that many inches and its axes, as a (rows, columns) array.

    title: only for its length: a short picture is widened until its title fits
    """
    width = max(width, 1.4 + 0.09 * len(title))
    with matplotlib.rc_context(STYLE):
        figure = Picture(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **kwargs)


def array(values: Any, dimensions: int | Sequence[int], what: str) -> np.ndarray:
    """``values`` (torch, numpy, nested lists) as a numpy array of numbers.

    Raises ValueError in ``what``'s name where the number of axes is another, or it is empty.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().resolve_conj().numpy()
    try:
        numbers = np.asarray(values)
    except ValueError:
        raise ValueError(f"{what}; rows of different lengths came.") from None
    allowed = (dimensions,) if isinstance(dimensions, int) else tuple(dimensions)
    if numbers.dtype.kind not in "biufc":
        raise ValueError(f"{what}; {type(values).__name__} came, which doesn't hold numbers.")
    if numbers.ndim not in allowed or numbers.size == 0:
        raise ValueError(f"{what}; shape {numbers.shape} came.")
    return numbers


def legible(text: Any) -> str:
    """One token as a label: ``·`` is a space at its ends, ``⏎`` a new line, ``⇥`` a tab.

    What the font can't draw is written as an escape; a dollar sign never starts a formula.
    """
    letters = str(text)
    inner = letters.strip(" ")
    before = len(letters) - len(letters.lstrip(" "))
    after = len(letters) - before - len(inner)
    shown = "·" * before + "".join(_drawable(letter) for letter in inner) + "·" * after or "∅"
    if len(shown) > _LONGEST_LABEL:
        shown = shown[: _LONGEST_LABEL - 1] + "…"
    return shown.replace("$", r"\$")


def token_labels(tokens: Iterable[Any]) -> list[str]:
    """Each token (a string, an id, a 0-d tensor) as a label that shows its spaces."""
    if hasattr(tokens, "tolist"):
        tokens = tokens.tolist()
    return [legible(token) for token in tokens]


def labels_for(names: Iterable[Any] | None, count: int, what: str) -> list[str] | None:
    """Tick labels, one a row; None where there are none. Raises ValueError on another number."""
    if names is None:
        return None
    labels = token_labels(names)
    if len(labels) != count:
        raise ValueError(f"{what}: {len(labels)} labels came for {count} of them.")
    return labels


def ticks(
    place: Axes, side: str, labels: Sequence[str] | None, count: int, small: bool = False
) -> None:
    """Label ``count`` rows or columns of one side ("x" or "y"); numbers them if labels is None."""
    axis = place.xaxis if side == "x" else place.yaxis
    if labels is None:
        axis.set_major_locator(MaxNLocator(min(count, 8), integer=True))
        return
    room = place.get_window_extent().width / place.figure.dpi
    crowded = side == "x" and (max(map(len, labels)) + 1) * count * _LETTER > room
    turned: dict[str, Any] = (
        {"rotation": 55, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    )
    size = 7 if small or count > 28 else 9
    axis.set_ticks(range(count), labels, fontsize=size, **turned)
    axis.set_tick_params(length=0)


def ink_on(color: Any) -> str:
    """Dark or light text, whichever stands out more on that colour (WCAG's relative luminance)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return INK if luminance > 0.2 else "white"


@cache
def _font() -> Any:
    return font_manager.get_font(font_manager.findfont("DejaVu Sans"))


def _drawable(letter: str) -> str:
    if letter in _VISIBLE:
        return _VISIBLE[letter]
    if letter.isprintable() and _font().get_char_index(ord(letter)):
        return letter
    return letter.encode("unicode_escape").decode()
