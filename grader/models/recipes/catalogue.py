"""Every shipped model by name, and ``train``, which makes it again.

The numbers below are the whole difference between the models; ``training`` and ``zero_layer`` hold the
loops, ``corpus`` the text.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from grader.models.recipes.data import load_corpus
from grader.models.recipes.network import sinusoids
from grader.models.recipes.training import Progress, Recipe, Stage, run
from grader.models.recipes.zero_layer import fit_bigrams
from grader.models.shelf import CHECKPOINTS, bigram_counts
from grader.transformer import Transformer

N_CTX = 256
ZERO_LAYER = {"d_model": 128, "steps": 800, "seed": 0}
ZERO_LAYER_WIDTHS = (16, 32, 64, 128, 256)

_ON_TEXT = Stage(0, batch=6, length=N_CTX, muon_lr=0.015, adam_lr=0.005, decay_from=0.25)

RECIPES = {
    "one-layer": Recipe(
        "one-layer",
        "Natural text, no start token, eight heads.",
        n_layers=1,
        n_heads=8,
        stages=(replace(_ON_TEXT, steps=3600, muon_lr=0.02, adam_lr=0.006),),
    ),
    "two-layer": Recipe(
        "two-layer",
        "Natural text alone, no start token. Induction grows slowly, while the learning rate falls: "
        "it falls to 0 once, and four times more from a lower start.",
        n_layers=2,
        n_heads=4,
        stages=(
            replace(_ON_TEXT, steps=6500),
            replace(_ON_TEXT, steps=3000, muon_lr=0.01, adam_lr=0.0033, decay_from=0.0),
            replace(_ON_TEXT, steps=1200, muon_lr=0.008, adam_lr=0.0027, decay_from=0.0),
            replace(_ON_TEXT, steps=2500, muon_lr=0.01, adam_lr=0.0033, decay_from=0.0),
            replace(_ON_TEXT, steps=2000, muon_lr=0.01, adam_lr=0.0033, decay_from=0.0),
        ),
    ),
    "two-layer-curriculum": Recipe(
        "two-layer-curriculum",
        "A curriculum: first nothing but repeated random tokens, on which induction heads form in a "
        "sudden change; then natural text with some such rows still mixed in. Trained on text alone "
        "(`two-layer`) the same shape of model gets weaker induction heads, and slowly.",
        n_layers=2,
        n_heads=4,
        position_amplitude=2.0,
        stages=(
            Stage(
                450, batch=16, length=97, muon_lr=0.02, adam_lr=0.006,
                repeats=1.0, decay_from=0.99, end=1.0,
            ),
            replace(_ON_TEXT, steps=1400, repeats=0.25, decay_from=0.99, end=1.0),
            replace(_ON_TEXT, steps=2600, repeats=0.1, decay_from=0.0, warm_up=1),
            replace(
                _ON_TEXT, steps=900, muon_lr=0.008, adam_lr=0.0027, repeats=0.25, decay_from=0.0
            ),
        ),
    ),
}  # fmt: skip


# Which snapshots ship: through the slow change on text, and through the sudden one on repeats.
CHECKPOINT_STEPS: dict[str, tuple[int, ...]] = {
    "two-layer": (500, 1500, 2000, 2400, 2800, 3200, 3600, 4000, 4500, 5000, 6500, 10700),
    "two-layer-curriculum": (0, 100, 200, 250, 275, 300, 325, 350, 375, 400, 450, 5350),
}


def recipe_names() -> list[str]:
    return ["zero-layer", *RECIPES, CHECKPOINTS]


def recipes_for(name: str, seed: int | None = None) -> list[Recipe]:
    """The recipes of a model trained on text (two for the checkpoints), with another seed if given."""
    chosen = [RECIPES[of] for of in (CHECKPOINT_STEPS if name == CHECKPOINTS else [name])]
    return chosen if seed is None else [replace(recipe, seed=seed) for recipe in chosen]


def cost(name: str) -> dict[str, Any]:
    """What ``train`` will take: ``tokens`` read, ``minutes`` on one core, and if it needs the corpus.

    Raises ValueError listing the known names.
    """
    _known(name)
    if name == "zero-layer":
        return {"tokens": 0, "minutes": 1.0, "needs_corpus": False}
    recipes = recipes_for(name)
    minutes = sum(r.tokens / r.tokens_per_second for r in recipes) / 60
    tokens = sum(r.tokens for r in recipes)
    return {"tokens": tokens, "minutes": round(minutes, 1), "needs_corpus": True}


def train(
    name: str,
    *,
    out: Path,
    corpus: Path | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    resume: bool = True,
) -> Transformer:
    """Make a shipped model again: ``out/NAME.safetensors`` (float16), log and checkpoint beside it.

    ``progress(step, steps, loss)`` is called after every step. ``corpus`` is the folder that
    ``recipes/corpus.py`` wrote (default ``out/corpus``); the zero-layer model needs none. Killed and
    called again, it goes on from the last checkpoint unless ``resume`` is False. The checkpoints are
    two runs, whose snapshots end in ``out/MODEL/snapshots``.

    Raises ValueError for an unknown name, FileNotFoundError saying how to build a missing corpus.
    """
    _known(name)
    out.mkdir(parents=True, exist_ok=True)
    if name == "zero-layer":
        model = _zero_layer(out, seed, progress, resume)
    else:
        text = load_corpus(corpus or out / "corpus")
        for recipe in recipes_for(name, seed):
            model = run(
                recipe, out / recipe.name, text, resume=resume, progress=progress,
                snapshots=CHECKPOINT_STEPS[recipe.name] if name == CHECKPOINTS else (),
            )  # fmt: skip
    model.to(torch.float16).save(out / f"{name}.safetensors")
    return model


def zero_layer_model(W_E: torch.Tensor, W_U: torch.Tensor) -> Transformer:
    """Two matrices as a ``Transformer`` without layers."""
    d_model = W_E.shape[1]
    none = torch.zeros(0, 1, d_model, 1)
    W_pos = sinusoids(N_CTX, d_model, amplitude=1.0)
    return Transformer(W_E, W_U, W_pos, none, none, none, none.mT)


def _zero_layer(
    out: Path, seed: int | None, progress: Progress | None, resume: bool
) -> Transformer:
    settings = ZERO_LAYER if seed is None else {**ZERO_LAYER, "seed": seed}
    checkpoint = out / "zero-layer.state.pt"
    if not resume:
        checkpoint.unlink(missing_ok=True)
    W_E, W_U = fit_bigrams(bigram_counts(), **settings, progress=progress, checkpoint=checkpoint)
    return zero_layer_model(W_E, W_U)


def _known(name: str) -> None:
    if name not in recipe_names():
        raise ValueError(f"No recipe is called {name!r}; there are {', '.join(recipe_names())}.")
