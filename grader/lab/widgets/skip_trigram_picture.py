"""The skip-trigram explorer on paper: a destination's sources, and one source's grid with its bugs."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grader.lab.picture_style import (
    ATTENTION,
    INK,
    SERIES,
    STYLE,
    ink_on,
    picture,
    ticks,
    token_labels,
)
from grader.lab.widgets.skip_trigram_rows import Grid, Source


def skip_trigram_picture(
    sources: Sequence[Source], grid: Grid, names: Sequence[str], *, title: str
) -> Figure:
    """Bars of the sources' scores with what each raises; beside them what one source adds to logits.

    names: a label for each id of the vocabulary; a cross marks a bug
    """
    figure, places = picture(11.0, 0.9 + 0.36 * max(len(sources), 5), columns=2)
    with matplotlib.rc_context(STYLE):
        _draw_sources(places[0, 0], sources, names)
        places[0, 0].set_title(title)
        _draw_grid(places[0, 1], grid, names)
    return figure


def _draw_sources(place: Axes, sources: Sequence[Source], names: Sequence[str]) -> None:
    heights = range(len(sources))
    place.barh(heights, [s.score for s in sources], color=SERIES[4], height=0.7)
    ticks(place, "y", token_labels(names[s.token] for s in sources), len(sources))
    for height, source in zip(heights, sources, strict=True):
        best = zip(source.outputs, source.raised, source.counts, strict=True)
        raised = [
            f"{token_labels([names[o]])[0]} {amount:+.1f}" + (f" ({count}×)" if count > 0 else "")
            for o, amount, count in list(best)[:3]
        ]
        place.text(0.05, height, "   ".join(raised), va="center", fontsize=8, color=INK)
    place.invert_yaxis()
    place.set(xlabel="QK score / √d_head; in the bars: what the source raises, logits")


def _draw_grid(place: Axes, grid: Grid, names: Sequence[str]) -> None:
    source = token_labels([names[grid.source]])[0]
    place.set_title(f"what {source} adds to the logits (✗: forced, never seen)", fontsize=10)
    if not grid.outputs:
        place.axis("off")
        place.text(0.0, 0.8, "no pair is right in the text, so none is forced", fontsize=9)
        return
    effect = grid.effect.numpy()
    image = place.imshow(
        effect, aspect="auto", cmap=ATTENTION, vmin=0, vmax=1.6 * float(effect.max())
    )
    ticks(place, "y", token_labels(names[d] for d in grid.destinations), len(effect))
    ticks(place, "x", token_labels(names[o] for o in grid.outputs), effect.shape[1])
    for i, row in enumerate(effect):
        for j, amount in enumerate(row):
            count = int(grid.counts[i, j])
            mark = "\n✗" if grid.bug[i, j] else (f"\n{count}×" if count > 0 else "")
            place.text(
                j, i, f"{amount:.1f}{mark}", ha="center", va="center", fontsize=7,
                color=ink_on(image.cmap(image.norm(amount))),
            )  # fmt: skip
    place.set(ylabel="destination", xlabel="output")
    place.spines[:].set_visible(False)
