"""Notebook 08: the capstone. Name the circuits of transformers that nobody has explained to you."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from grader.circuits.mystery import LEVELS, Mystery, draw_mystery
from grader.exercises.mystery_models.known import known_truth, name_circuits, remember
from grader.exercises.mystery_models.own import SEEDS, own_models, own_seed
from grader.exercises.mystery_models.reading import Named
from grader.exercises.mystery_models.wrong import MISTAKES
from grader.judge.draw import Draw
from grader.judge.spec import Budget, Case, Exercise, Variant
from grader.transformer import Transformer

NOTEBOOK = "08-mystery-models"
LAYERS = ("no layers", "one layer", "two layers", "three layers")


def _cases(draw: Draw) -> Iterator[Case]:
    """Three own models, then three fresh ones: half of each part's grade comes from either."""
    seed = own_seed()
    for mystery in own_models(draw.integer(0, SEEDS - 1) if seed is None else seed):
        yield _case(mystery, "in your own model" if seed is not None else "in a model")
    for level in LEVELS:
        mystery = draw_mystery(draw.integer(0, SEEDS - 1), level)
        yield _case(mystery, "in a model you have not seen", torch.float64 if level == 2 else None)


def _case(mystery: Mystery, label: str, dtype: torch.dtype | None = None) -> Case:
    remember(mystery)
    model = mystery.model if dtype is None else mystery.model.to(dtype)
    return Case((model,), f"{label} of {LAYERS[mystery.level]}")


def _as_sets(model: Transformer) -> dict[str, Any]:
    truth = known_truth(model)
    return truth | {name: set(truth[name]) for name in ("skip_trigrams", "compositions")}


def _with_numpy_numbers(model: Transformer) -> dict[str, Any]:
    truth = known_truth(model)
    heads = {tuple(np.array(address)): label for address, label in truth["heads"].items()}
    return truth | {"heads": heads, "skip_trigrams": torch.tensor(truth["skip_trigrams"])}


def _without_silent_heads(model: Transformer) -> dict[str, Any]:
    truth = known_truth(model)
    return truth | {"heads": {a: label for a, label in truth["heads"].items() if label != "none"}}


def _in_lists(model: Transformer) -> dict[str, Any]:
    truth = known_truth(model)
    lists = [[kind.lower(), list(of), list(by)] for kind, of, by in truth["compositions"]]
    return truth | {
        "compositions": lists[::-1],
        "skip_trigrams": [list(triple) for triple in reversed(truth["skip_trigrams"])],
    }


NAME_CIRCUITS = Exercise(
    reference=name_circuits,
    notebook=NOTEBOOK,
    title="Name the circuits of a mystery model",
    paper="Two-Layer Attention-Only Transformers",
    points=5,
    minutes=180,
    difficulty=3,
    cases=_cases,
    compare=Named(),
    hints=(
        "Begin with where each head looks. Two kinds of text tell nearly everything: random tokens, on "
        "which only fixed distances survive, and distinct tokens that repeat, on which copies and "
        "what comes after them make stripes.",
        "What a head does to the token it sees is in the full OV circuit: its diagonal, compared with "
        "the rest of each row. Skip-trigrams are the pairs of a large entry of the full QK circuit "
        "(row destination, column source) and a large entry of the full OV circuit (row source, "
        "column output). Ask heads that already have a label last, or not at all.",
        "Compositions are what notebook 04 measured: the norm of a product over the product of the "
        "norms, for each kind and each pair of an earlier and a later head, minus 1/√d_model. What is "
        "planted stands out by 0.05 or more. Practice models tell you the truth: run your detector on "
        "a hundred of them, look at the first one that it gets wrong, and move the threshold into "
        "the gap between the two groups of scores.",
    ),
    mistakes=MISTAKES,
    variants=(
        Variant("sets", _as_sets, facts=("P",)),
        Variant("numpy_and_torch_numbers", _with_numpy_numbers, facts=("N",)),
        Variant("silent_heads_left_out", _without_silent_heads, facts=("X",)),
        Variant("lists_in_another_order", _in_lists, facts=("P",)),
    ),
    budget=Budget(wall=90.0, cpu=90.0, memory_mib=2048),
)

EXERCISES = [NAME_CIRCUITS]
