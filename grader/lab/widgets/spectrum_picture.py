"""Spectra in the complex plane: a head's circuits above, the same circuits of a random head below."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grader.lab.picture_style import ACCENT, FAINT, INK, SERIES, STYLE, Picture
from grader.lab.widgets.spectra import Spectrum

DECADES = 3
"""Powers of ten that the logarithmic radius shows; what is smaller lies in the centre."""

RADII = ("linear", "logarithmic")
_SIDE = 2.9  # inches

Dot = tuple[float, float, str]
"""x and y, at most 1 in size, and the eigenvalue in words."""


def spectrum_picture(spectra: Sequence[Spectrum], *, head: str, radius: str = "linear") -> Figure:
    """One column a circuit. Radii are |λ| over the largest in the column, angles as they are.

    radius: "linear", or "logarithmic" over `DECADES` powers of ten, which parts the small ones
    """
    columns = len(spectra)
    with matplotlib.rc_context(STYLE):
        # Places are given, not solved for: a solved layout takes most of the time of a redraw.
        figure = Picture(figsize=(0.5 + _SIDE * columns, 0.4 + _SIDE * 2))
        figure.subplots_adjust(0.1 / columns, 0.06, 0.99, 0.95, 0.06, 0.14)
        grid = figure.subplots(2, columns, squeeze=False)
        for column, spectrum in zip(grid.T, spectra, strict=True):
            own, random = dots(spectrum, radius)
            _draw_plane(column[0], own, radius)
            _draw_plane(column[1], random, radius)
            for place, name in zip(column, titles(spectrum, head), strict=True):
                place.set_title(name, fontsize=10)
            column[1].set_xlabel("real part", labelpad=2)
        for place in grid[:, 0]:
            place.set_ylabel("imaginary part", labelpad=2)
    return figure


def titles(spectrum: Spectrum, head: str) -> tuple[str, str]:
    """Of a head's plane and of the random head's."""
    circuit, *through = spectrum.name.split(maxsplit=1)
    name = " ".join([f"{circuit} of {head}", *through])
    untrained = float(spectrum.random_scores[0])
    return f"{name}: {spectrum.score:+.2f}", f"random head: {untrained:+.2f}"


def dots(spectrum: Spectrum, radius: str) -> tuple[list[Dot], list[Dot]]:
    """The head's eigenvalues and the random head's, on one scale: the largest of all has size 1."""
    both = torch.stack([spectrum.values, spectrum.random])
    largest = float(both.abs().max()) or 1.0
    own, random = (_dots(values.numpy(), largest, radius) for values in both)
    return own, random


def _dots(values: np.ndarray, largest: float, radius: str) -> list[Dot]:
    sizes, angles = np.abs(values), np.angle(values)
    out = sizes / largest
    if radius == "logarithmic":
        out = np.maximum(np.log10(np.maximum(out, 10.0**-DECADES)) / DECADES + 1, 0.0)
    x, y = out * np.cos(angles), out * np.sin(angles)
    said = [
        f"|λ| {size:.4g} at {angle:z.0f}°"
        for size, angle in zip(sizes, np.degrees(angles), strict=True)
    ]
    return list(zip(x.tolist(), y.tolist(), said, strict=True))


def circles(radius: str) -> dict[str, float]:
    """The circles that give a plane its scale: what |λ| is there, over the largest → how far out."""
    if radius == "linear":
        return {"1": 1.0}
    return {f"{10.0 ** (i - DECADES):g}": i / DECADES for i in range(1, DECADES + 1)}


def _draw_plane(place: Axes, spots: list[Dot], radius: str) -> None:
    """Dots right of the vertical line, hollow triangles left of it; a circle at the largest size."""
    around = np.exp(1j * np.linspace(0, 2 * np.pi, 97))
    for name, size in circles(radius).items():
        place.plot(size * around.real, size * around.imag, color=FAINT, linewidth=0.7, zorder=1)
        place.text(0.02, size - 0.09, name, fontsize=7, color=INK)
    for line in (place.axhline, place.axvline):
        line(0, color=FAINT, linewidth=0.7, zorder=1)
    x, y = (np.array(side) for side in zip(*(spot[:2] for spot in spots), strict=True))
    right = x >= 0
    place.scatter(x[right], y[right], s=24, color=SERIES[0], alpha=0.75, linewidths=0, zorder=2)
    place.scatter(
        x[~right], y[~right], s=26, marker="<", facecolors="none", edgecolors=ACCENT,
        linewidths=1.1, zorder=2,
    )  # fmt: skip
    place.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
