"""What the path explorer says of a part of a model: its losses, its next token, each path's share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from grader.lab.widgets.path_sums import Paths, path_name
from grader.lab.widgets.widget_html import Markup, html_table, shade, token_strip

_TOP = 6
_BAR = 120  # pixels of the longest bar

Names = Callable[[list[int]], list[str]]
"""ids → a label each."""


def exactness(paths: Paths, on: Tensor) -> str:
    """How many paths are on, and how far the sum of all is from the forward pass."""
    count, every = int(on.sum()), len(on)
    gap = f"largest difference in any logit {paths.gap:.1e}"
    if not paths.exact:
        return f"{count} of {every} paths are on. The sum of all is NOT the forward pass: {gap}."
    if count == every:
        return f"All {every} paths are on: their sum is the forward pass, exactly up to rounding ({gap})."
    return f"{count} of {every} paths are on. The sum of all is the forward pass ({gap})."


def loss_table(levels: Mapping[str, float], now: float) -> str:
    """Mean losses as numbers and bars, that of what is on the last."""
    losses = {**levels, "▸ the paths that are on": now}
    longest = max(*losses.values(), 1e-9)
    rows = []
    for name, loss in losses.items():
        width, color = round(_BAR * loss / longest), shade(0.85 if name[0] == "▸" else 0.5)
        bar = Markup(f"<div style='width:{width}px;height:11px;{color}'></div>")
        rows.append([name, loss, bar])
    return html_table(
        ["sum of", "nats", "compared"],
        rows,
        caption="mean loss on the text",
        chosen=len(losses) - 1,
    )


def token_losses(labels: Sequence[str], now: Tensor, whole: Tensor, worst: float) -> str:
    """The text, each token with the loss of predicting it, darker where it is larger.

    now, whole: (pos − 1,) losses of what is on and of the model; worst: the darkest colour's
    """
    top = max(float(now.max()), worst)
    titles = [
        f"loss of predicting “{name}” after “{before}”: {loss:.3f}, all paths {model:.3f}"
        for before, name, loss, model in zip(
            labels, labels[1:], now.tolist(), whole.tolist(), strict=False
        )
    ]
    strip = token_strip(
        labels, ["", *(shade(loss / top) for loss in now.tolist())],
        ["–", *(f"{loss:.2f}" for loss in now.tolist())],
        titles=["nothing comes before it", *titles],
    )  # fmt: skip
    return f"<div class='lab-caption'>loss on each token, in nats</div>{strip}"


@torch.no_grad()
def next_table(paths: Paths, logits: Tensor, position: int, names: Names, after: str) -> str:
    """The likeliest next tokens by the logits (d_vocab,) of what is on, and the model's chances."""
    target = paths.target(position)
    chance, model = logits.softmax(dim=-1), paths.logits[position].softmax(dim=-1)
    best = logits.argsort(descending=True, stable=True)[:_TOP].tolist()
    if target not in best:
        best.append(target)
    rows = [
        [("▸ " if i == target else "") + name, *(float(x[i]) for x in (logits, chance, model))]
        for i, name in zip(best, names(best), strict=True)
    ]
    return html_table(
        ["next token", "logit", "chance", "model's chance"], rows, chosen=best.index(target),
        caption=f"after {position}: {after}",
    )  # fmt: skip


@torch.no_grad()
def share_table(paths: Paths, on: Tensor, position: int, names: Names) -> str:
    """The paths that add most to the next token's logit, or take most from it."""
    shares = paths.shares(position)
    best = shares.abs().argsort(descending=True, stable=True)[:_TOP].tolist()
    rows = [[path_name(paths.paths[i]), float(shares[i]), "on" if on[i] else "off"] for i in best]
    target = names([paths.target(position)])[0]
    return html_table(
        ["path", "logit less mean", "switch"], rows,
        caption=f"what the largest paths add to “{target}”",
    )  # fmt: skip
