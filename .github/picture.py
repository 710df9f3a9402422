"""Draws the README's picture: python .github/picture.py

Left: how often each letter follows each other one, counted in the course's text sample.
Middle and right: attention of a two-layer transformer whose heads were written by hand
(grader/circuits/compiled_heads.py), run on random letters that repeat.
"""

from __future__ import annotations

import string
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes

from grader import models
from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import induction, previous_token
from grader.lab.picture_style import ATTENTION, FUTURE, STYLE

LETTERS = string.ascii_lowercase
PERIOD, REPEATS, SEED = 8, 3, 3


def letter_bigrams() -> np.ndarray:
    """(current, next): how often ``next`` follows ``current``, each row over its sum."""
    codes = np.frombuffer(models.sample_text().lower().encode("ascii", "replace"), np.uint8)
    codes = codes.astype(int) - ord("a")
    current, following = codes[:-1], codes[1:]
    inside = (current >= 0) & (current < 26) & (following >= 0) & (following < 26)
    counts = np.zeros((26, 26))
    np.add.at(counts, (current[inside], following[inside]), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def patterns() -> tuple[list[str], np.ndarray, np.ndarray]:
    """→ (letters, pattern of the previous-token head, pattern of the induction head)."""
    layers = [[previous_token()], [induction(previous=(0, 0))]]
    model = compile_model(layers, d_vocab=26, n_ctx=PERIOD * REPEATS, seed=SEED).model
    shuffled = torch.randperm(26, generator=torch.Generator().manual_seed(SEED))[:PERIOD]
    tokens = shuffled.repeat(REPEATS)
    pattern = model.run_with_cache(tokens)[1].pattern
    letters = [LETTERS[token] for token in tokens.tolist()]
    return letters, pattern[0, 0].numpy(), pattern[1, 0].numpy()


def draw(place: Axes, values: np.ndarray, labels: list[str], title: str, across: str) -> None:
    place.set_facecolor(FUTURE)
    place.imshow(values, cmap=ATTENTION, vmin=0)
    place.set_title(title)
    place.set_xlabel(across)
    place.set_xticks(range(len(labels)), labels, fontsize=7)
    place.set_yticks(range(len(labels)), labels, fontsize=7)
    place.tick_params(length=0)


def main() -> None:
    letters, previous, matching = patterns()
    future = np.triu(np.ones_like(previous, dtype=bool), 1)
    with plt.style.context(STYLE):
        figure, places = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained")
        draw(places[0], letter_bigrams(), list(LETTERS), "no layer: bigrams", "next letter")
        places[0].set_ylabel("letter")
        for place, pattern, title in (
            (places[1], previous, "first layer: look one token back"),
            (places[2], matching, "second layer: what followed last time"),
        ):
            draw(place, np.ma.array(pattern, mask=future), letters, title, "attends to (source)")
            place.set_ylabel("token (destination)")
        figure.savefig(Path(__file__).with_name("picture.png"), dpi=120)


if __name__ == "__main__":
    main()
