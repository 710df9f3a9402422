"""Two heads in a row, and how many ways lead through a model."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, perm
from typing import Any

import numpy as np
import torch

from grader.circuits import composition as reference
from grader.exercises.composition.common import LOGITS, NOTEBOOK, VIRTUAL_HEADS, causal
from grader.judge.comparators import Comparator, leaves
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

# --- a virtual head ---------------------------------------------------------------------------------


def _virtual_cases(draw: Draw) -> Iterator[Case]:
    def case(pos: int, d_model: int, by: Draw, label: str = "") -> Case:
        heads = [(by.pattern(pos, pos), by.normal(d_model, d_model)) for _ in range(2)]
        return Case((*heads[0], *heads[1]), label)

    pos, d_model = draw.sizes(2, 3, 8)
    yield case(pos, d_model, draw)
    n = draw.integer(3, 6)
    yield case(n, n, draw, "where pos equals d_model")
    yield case(1, d_model, draw, "with a single position")
    yield case(pos, 1, Draw(draw.seed, torch.float64), "with d_model 1, in float64")


VIRTUAL_HEAD = Exercise(
    reference=reference.virtual_head,
    notebook=NOTEBOOK,
    title="A virtual head",
    paper=VIRTUAL_HEADS,
    points=1,
    minutes=5,
    difficulty=1,
    cases=_virtual_cases,
    compare=Comparator("pattern", "W_OV"),
    hints=(
        "You have built this once, in notebook 02. Put head 1's output where head 2's input stands, "
        "and sort what is left of x from what is right of it.",
        "On the left of x the head that acts last is outermost. On the right of x the head that acts "
        "first is innermost.",
        "The two products have opposite orders: later head first for the patterns, earlier head "
        "first for the weights.",
    ),
    mistakes=(
        Mistake(
            "patterns_in_the_wrong_order",
            lambda A, V, B, W: (A @ B, V @ W),
            "The patterns stand in the wrong order. The destinations of the whole are the "
            "destinations of the head that acts last.",
            facts=(57,),
        ),
        Mistake(
            "weights_in_the_papers_order",
            lambda A, V, B, W: (B @ A, W @ V),
            "The weights stand in the paper's order, which is for columns. A row vector meets the "
            "weights of the first head first.",
            facts=(58,),
        ),
        Mistake(
            "both_in_the_wrong_order",
            lambda A, V, B, W: (A @ B, W @ V),
            "Both products stand in the wrong order: head 2 would act first. Follow one vector "
            "through.",
            facts=(57, 58),
        ),
        Mistake(
            "items_exchanged",
            lambda A, V, B, W: (V @ W, B @ A),
            "Right products, but the pattern comes first in the tuple.",
        ),
        Mistake(
            "entry_by_entry",
            lambda A, V, B, W: (B * A, V * W),
            "The matrices are multiplied entry by entry. Going by way of a middle position is a sum "
            "over middle positions.",
        ),
        Mistake(
            "added",
            lambda A, V, B, W: (A + B, V + W),
            "The heads are added. That is what heads of one layer do; these come one after the other.",
        ),
        Mistake(
            "first_head_transposed",
            lambda A, V, B, W: (B @ A.T, V @ W),
            "The first pattern is turned over. Its rows are destinations, the middle positions, and "
            "those must meet the second head's sources.",
            facts=(42,),
        ),
        Mistake(
            "weights_transposed",
            lambda A, V, B, W: (B @ A, (V @ W).T),
            "The virtual head's W_OV is turned over: it writes where it should read.",
            facts=(37,),
        ),
        Mistake(
            "softmaxed_again",
            lambda A, V, B, W: (causal(B @ A), V @ W),
            "The product of the patterns goes through a softmax. Its rows sum to 1 already.",
        ),
    ),
    variants=(
        Variant("list", lambda A, V, B, W: [B @ A, V @ W], facts=("N",)),
        Variant(
            "einsum",
            lambda A, V, B, W: (
                torch.einsum("ij,jk->ik", B, A),
                torch.einsum("ab,bc->ac", V, W),
            ),
            facts=("E",),
        ),
        Variant(
            "numpy", lambda A, V, B, W: (B.numpy() @ A.numpy(), V.numpy() @ W.numpy()), facts=("N",)
        ),
    ),
)


# --- counting ---------------------------------------------------------------------------------------


class Exactly(Comparator):
    """Whole numbers, without any tolerance: two counts that differ by one are different."""

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        mine, theirs = leaves(value), leaves(other)
        return len(mine) == len(theirs) and all(
            bool((m.double() == t.double()).all()) for m, t in zip(mine, theirs, strict=True)
        )


def _count_cases(draw: Draw) -> Iterator[Case]:
    yield Case((2, 12), "for the paper's two layers of 12 heads")
    layers, heads = draw.sizes(2, 3, 7)
    yield Case((layers, heads))
    yield Case((2, heads), "with two layers")
    yield Case((draw.integer(3, 6), 1), "with one head a layer")
    yield Case((1, draw.integer(5, 30)), "with one layer")
    yield Case((0, draw.integer(2, 9)), "with no layer")
    # The largest count must stay below 2^53, from where on float64 leaves whole numbers out.
    yield Case((draw.integer(10, 12), draw.integer(10, 12)), "for a deep model")


def _by_order(n_layers: int, n_heads: int) -> list[int]:
    return [comb(n_layers, k) * n_heads**k for k in range(n_layers + 1)]


def _running_sum(n_layers: int, n_heads: int) -> list[int]:
    return [sum(_by_order(n_layers, n_heads)[: k + 1]) for k in range(n_layers + 1)]


def _layer_by_layer(n_layers: int, n_heads: int) -> list[int]:
    counts = [1]
    for _ in range(n_layers):
        longer = [n_heads * count for count in counts]
        counts = [a + b for a, b in zip([*counts, 0], [0, *longer], strict=True)]
    return counts


def _as_polynomial(n_layers: int, n_heads: int) -> np.ndarray:
    power = np.poly1d([n_heads, 1]) ** n_layers
    return np.asarray(power.coeffs[::-1])


COUNT_PATHS = Exercise(
    reference=reference.count_paths,
    notebook=NOTEBOOK,
    title="How many paths?",
    paper=LOGITS,
    points=2,
    minutes=10,
    difficulty=1,
    cases=_count_cases,
    compare=Exactly(),
    hints=(
        "Multiply out (1 + heads)(1 + heads) for two layers with two heads each, and count the terms "
        "by how many heads are in them.",
        "A path passes every layer: by a head, or beside all of them. For a path through k heads, "
        "first choose *which* layers it uses, then one head in each of those.",
        "Two factors for each k: the number of ways to choose k layers of all (`math.comb`), and the "
        "number of ways to pick a head in each chosen one.",
    ),
    mistakes=(
        Mistake(
            "direct_path_missing",
            lambda n, h: _by_order(n, h)[1:],
            "The direct path is missing. It goes through no head, and there is one of it.",
            facts=(53,),
        ),
        Mistake(
            "layers_not_chosen",
            lambda n, h: [h**k for k in range(n + 1)],
            "For a path through k heads you picked the heads, and not the layers that they are in.",
        ),
        Mistake(
            "heads_not_chosen",
            lambda n, h: [comb(n, k) for k in range(n + 1)],
            "You chose the layers that a path uses, and not the head in each of them.",
        ),
        Mistake(
            "any_heads",
            lambda n, h: [comb(n * h, k) for k in range(n + 1)],
            "This counts any k of all heads, also two of one layer. Heads of one layer can't read "
            "each other.",
            facts=(59,),
        ),
        Mistake(
            "any_heads_in_any_order",
            lambda n, h: [(n * h) ** k for k in range(n + 1)],
            "This lets each of the k heads be any head of the model. On a path every head must be in "
            "a later layer than the one before.",
            facts=(59,),
        ),
        Mistake(
            "layers_in_any_order",
            lambda n, h: [perm(n, k) * h**k for k in range(n + 1)],
            "This counts the same layers in every order. A path goes up: once the layers are chosen "
            "their order is fixed.",
            facts=(59,),
        ),
        Mistake(
            "running_sum",
            _running_sum,
            "Each number holds all shorter paths as well. Asked for are the paths through exactly k "
            "heads.",
            facts=(54,),
        ),
        Mistake(
            "longest_first",
            lambda n, h: _by_order(n, h)[::-1],
            "Right numbers, but the direct path comes first and the longest paths last.",
            facts=(61,),
        ),
        Mistake(
            "total_only",
            lambda n, h: (1 + h) ** n,
            "This is the number of all paths together. Asked for is a list, by the number of heads "
            "on the path.",
        ),
        Mistake(
            "two_layers_built_in",
            lambda n, h: [1, 2 * h, h * h],
            "These are the numbers for two layers, whatever `n_layers` is.",
            facts=(119,),
        ),
    ),
    variants=(
        Variant("layer_by_layer", _layer_by_layer, facts=("E",)),
        Variant("polynomial_in_numpy", _as_polynomial, facts=("E", "N")),
        Variant("tensor", lambda n, h: torch.tensor(_by_order(n, h)), facts=("N",)),
        Variant("tuple", lambda n, h: tuple(_by_order(n, h)), facts=("N",)),
        Variant("whole_floats", lambda n, h: [float(c) for c in _by_order(n, h)], facts=("N",)),
    ),
)
