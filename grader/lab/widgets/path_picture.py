"""The path explorer on paper: losses of parts of the model, and what each path adds to one token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.figure import Figure

from grader.lab.picture_style import ACCENT, FAINT, SERIES, STYLE, picture, ticks, token_labels

_MOST_BARS = 14


def path_picture(
    losses: Mapping[str, float], names: Sequence[str], shares: Sequence[float], on: Sequence[bool],
    *, after: str, next_token: str,
) -> Figure:  # fmt: skip
    """Bars of losses in nats, and of the shares in a logit, the largest of them.

    losses: name → nats; names, shares, on: one a path; a path that is off is drawn hollow
    """
    largest = sorted(range(len(names)), key=lambda i: -abs(shares[i]))[:_MOST_BARS]
    figure, places = picture(
        11.0, 1.2 + 0.24 * max(len(largest), 8), columns=2, width_ratios=(1.0, 1.1)
    )
    left, right = places[0]
    with matplotlib.rc_context(STYLE):
        heights = range(len(losses))
        colors = [*[SERIES[4]] * (len(losses) - 1), ACCENT]
        left.barh(heights, list(losses.values()), color=colors, height=0.65)
        ticks(left, "y", list(losses), len(losses))
        for height, loss in zip(heights, losses.values(), strict=True):
            left.text(loss, height, f" {loss:.3f}", va="center", fontsize=9)
        left.set(xlim=(0, 1.18 * max(losses.values())), xlabel="mean loss on the text (nats)")
        left.invert_yaxis()
        for height, i in enumerate(largest):
            color = SERIES[0] if shares[i] >= 0 else ACCENT
            right.barh(
                height,
                shares[i],
                height=0.65,
                edgecolor=color,
                facecolor=color if on[i] else "none",
            )
        right.axvline(0, color=FAINT, linewidth=0.8)
        ticks(right, "y", [names[i] for i in largest], len(largest))
        right.invert_yaxis()
        pair = token_labels([after, next_token])
        right.set(xlabel="logit less its mean over the vocabulary; hollow: switched off")
        right.set_title(f"what paths add to {pair[1]} after {pair[0]}", fontsize=10)
    return figure
