"""All heads of layer 1 against all heads of layer 0, above the random baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition.common import ANALYZING, NOTEBOOK
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer


def _cases(draw: Draw) -> Iterator[Case]:
    n_heads, d_head, d_model, d_vocab, n_ctx = sorted(draw.sizes(5, 4, 10))
    sizes = {"d_head": d_head, "d_model": d_model, "d_vocab": d_vocab, "n_ctx": n_ctx}

    def model(by: Draw, n_heads: int, **sizes: int) -> Transformer:
        made = by.model(n_layers=2, n_heads=n_heads, **sizes)
        # Heads of unequal size, so that a norm left out shows as more than one common factor.
        loud = torch.linspace(0.4, 2.5, 2 * n_heads, dtype=by.dtype).reshape(2, n_heads, 1, 1)
        return made.with_weights(W_O=made.W_O * loud, W_K=made.W_K * loud.flip(1))

    yield Case((_composing(draw, model(draw, n_heads, **sizes)),))
    n = draw.integer(4, 6)
    equal = {"d_head": n, "d_model": n, "d_vocab": n, "n_ctx": n}
    yield Case((model(draw, 3, **equal),), "with as many heads as kinds")
    double = Draw(draw.seed, torch.float64)
    yield Case((model(double, 1, **sizes),), "with a single head, in float64")
    thin = {**sizes, "d_head": 1}
    yield Case((model(draw, 2, **thin),), "with d_head 1")


def _composing(draw: Draw, model: Transformer) -> Transformer:
    """Head 1 of layer 1 looks for what head 0 of layer 0 writes, by its keys."""
    W_K = model.W_K.clone()
    W_K[1, 1] = model.W_O[0, 0].T + 0.1 * W_K[1, 1]
    return model.with_weights(W_K=W_K)


# A score of one pair from the four factors that stand in a row, W_V, W_O of the earlier head first.
Pair = Callable[[Tensor, Tensor, Tensor, Tensor], Any]
Factors = dict[str, Tensor]


def _dense(A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    return _ratio(A @ B, C @ D)


def _ratio(first: Tensor, second: Tensor, order: Any = "fro") -> Tensor:
    norm = torch.linalg.matrix_norm
    made: Tensor = norm(first @ second, order) / (norm(first, order) * norm(second, order))
    return made


def _read_by(kind: str, model: Transformer, head: int, layer: int) -> tuple[Tensor, Tensor]:
    """The reading head's two factors, the one that meets the stream first."""
    first, second = {
        "Q": (model.W_Q, model.W_K.mT),
        "K": (model.W_K, model.W_Q.mT),
        "V": (model.W_V, model.W_O),
    }[kind]
    return first[layer, head], second[layer, head]


def _scores(
    model: Transformer, pair: Pair = _dense, kinds: str = "QKV", writes: int = 0, reads: int = 1
) -> Tensor:
    """(kind, reader, read) of one wrong or right idea of a pair's score, no baseline taken off."""
    heads = range(model.n_heads)
    return torch.stack(
        [
            torch.stack(
                [
                    torch.as_tensor(
                        pair(
                            model.W_V[writes, h],
                            model.W_O[writes, h],
                            *_read_by(kind, model, g, reads),
                        )
                    )
                    for h in heads
                ]
            )
            for kind in kinds
            for g in heads
        ]
    ).reshape(len(kinds), len(heads), len(heads))


def _table(model: Transformer, pair: Pair = _dense, **which: Any) -> Tensor:
    return _scores(model, pair, **which) - model.d_model**-0.5


def _cyclic(A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    return (B @ C @ D @ A).norm() / ((A @ B).norm() * (C @ D).norm())


def _reversed(A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    return _ratio(C @ D, A @ B)


def _no_denominator(A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    return (A @ B @ C @ D).norm()


def _factors_norms(A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    return (A @ B @ C @ D).norm() / (A.norm() * B.norm() * C.norm() * D.norm())


def _by_factors(model: Transformer) -> Tensor:
    """Small matrices only: R of the outer factors stands for them in a norm."""

    def through(A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
        left, right = torch.linalg.qr(A).R @ B, C @ torch.linalg.qr(D.T).R.T
        return _ratio(left, right)

    return _table(model, through)


def _by_broadcasting(model: Transformer) -> Tensor:
    W_OV = model.W_V @ model.W_O
    W_QK = model.W_Q @ model.W_K.mT
    first = W_OV[0][None, :]  # (1, read, d_model, d_model)
    second = torch.stack([W_QK[1], W_QK[1].mT, W_OV[1]])[:, :, None]  # (kind, reader, 1, …)
    norms = (first @ second).flatten(-2).norm(dim=-1)
    scale = first.flatten(-2).norm(dim=-1) * second.flatten(-2).norm(dim=-1)
    return norms / scale - 1 / sqrt(model.d_model)


def _as_lists(model: Transformer) -> list[Any]:
    table: list[Any] = _table(model).tolist()
    return table


COMPOSITION_TABLE = Exercise(
    reference=reference.composition_table,
    notebook=NOTEBOOK,
    title="Who reads whom: the composition table",
    paper=ANALYZING,
    points=4,
    minutes=20,
    difficulty=2,
    cases=_cases,
    compare=Comparator("Q", "K", "V"),
    hints=(
        "You have a function for each kind. What is left is to make the W_OV and W_QK of every head, "
        "to go through all pairs, and to take off what random heads would score.",
        "The reading head is in layer 1, the head that is read in layer 0: `model.W_V[0, h]` belongs "
        "to the latter. The result is (kind, head of layer 1, head of layer 0).",
        "Three nested loops, over kinds Q, K, V, over heads of layer 1, over heads of layer 0. The "
        "baseline is one number for the whole table; it depends on the width of the stream only.",
    ),
    mistakes=(
        Mistake(
            "baseline_forgotten",
            _scores,
            "Right scores, but the random baseline is still in them. What do two random heads score "
            "at this d_model?",
            facts=(86,),
        ),
        Mistake(
            "baseline_divided",
            lambda model: _scores(model) * model.d_model**0.5,
            "The scores are divided by the baseline. Take it off instead, as the paper does.",
            facts=(86,),
        ),
        Mistake(
            "baseline_from_d_head",
            lambda model: _scores(model) - model.d_head**-0.5,
            "The baseline uses d_head. In which space do the two heads have to meet by chance?",
            facts=(86,),
        ),
        Mistake(
            "baseline_without_root",
            lambda model: _scores(model) - 1 / model.d_model,
            "The baseline is that of the *squared* score. The table holds scores.",
            facts=(86, 83),
        ),
        Mistake(
            "mean_subtracted",
            lambda model: _scores(model) - _scores(model).mean(),
            "The mean of the table itself is taken off. Then a model whose heads all compose would "
            "look like one whose heads don't: the baseline is what *random* heads score.",
            facts=(86,),
        ),
        Mistake(
            "mean_of_each_kind_subtracted",
            lambda model: _scores(model) - _scores(model).mean(dim=(1, 2), keepdim=True),
            "From each kind its own mean is taken off. The baseline is what *random* heads score, "
            "whatever this model does.",
            facts=(86,),
        ),
        Mistake(
            "q_and_k_exchanged",
            lambda model: _table(model, kinds="KQV"),
            "The tables for queries and keys have changed places. Which side of W_QK, rows or "
            "columns, is the query's?",
            facts=(79,),
        ),
        Mistake(
            "keys_left_out",
            lambda model: _table(model, kinds="QQV"),
            "The table for keys repeats the one for queries. Keys are the other side of W_QK.",
            facts=(79,),
        ),
        Mistake(
            "heads_exchanged",
            lambda model: _table(model).mT,
            "Right numbers, rows and columns exchanged. Rows are the heads of layer 1, which read; "
            "columns those of layer 0, which are read.",
            facts=(30,),
        ),
        Mistake(
            "kinds_last",
            lambda model: _table(model).permute(1, 2, 0),
            "Right numbers, axes in another order: the kind comes first, then the head that reads.",
        ),
        Mistake(
            "layers_exchanged",
            lambda model: _table(model, writes=1, reads=0),
            "Here layer 0 would read what layer 1 writes, which is not there yet. The earlier head "
            "gives the W_OV that stands in front.",
            facts=(87,),
        ),
        Mistake(
            "both_of_layer_0",
            lambda model: _table(model, writes=0, reads=0),
            "Both heads are taken from layer 0. Heads of one layer read the same stream and can't "
            "read each other.",
            facts=(87, 59),
        ),
        Mistake(
            "both_of_layer_1",
            lambda model: _table(model, writes=1, reads=1),
            "Both heads are taken from layer 1. Heads of one layer read the same stream and can't "
            "read each other.",
            facts=(87, 59),
        ),
        Mistake(
            "order_reversed",
            lambda model: _table(model, _reversed),
            "In every product the later head stands in front. A row vector meets the earlier head's "
            "weights first.",
            facts=(80,),
        ),
        Mistake(
            "only_W_O",
            lambda model: _table(model, lambda A, B, C, D: _ratio(B, C @ D)),
            "The earlier head's W_V is left out. How strongly each written direction is used depends "
            "on what feeds it: the whole W_OV counts.",
            facts=(81,),
        ),
        Mistake(
            "only_the_reading_factor",
            lambda model: _table(model, lambda A, B, C, D: _ratio(A @ B, C)),
            "Of the later head only the factor that reads is used, W_Q, W_K or W_V. Which of its "
            "d_head directions matter depends on the partner: W_QK and W_OV as a whole count.",
            facts=(81,),
        ),
        Mistake(
            "spectral_norm",
            lambda model: _table(model, lambda A, B, C, D: _ratio(A @ B, C @ D, 2)),
            "These are scores by largest singular values. The score is built from Frobenius norms.",
            facts=(82,),
        ),
        Mistake(
            "nuclear_norm",
            lambda model: _table(model, lambda A, B, C, D: _ratio(A @ B, C @ D, "nuc")),
            "These are scores by sums of singular values. The score is built from Frobenius norms.",
            facts=(82,),
        ),
        Mistake(
            "squared",
            lambda model: _table(model, lambda *four: _dense(*four) ** 2),
            "The scores are squared. A norm is a root.",
            facts=(83,),
        ),
        Mistake(
            "no_denominator",
            lambda model: _table(model, _no_denominator),
            "The norms of the two heads are not divided out, so loud heads seem to compose with all "
            "others.",
            facts=(84,),
        ),
        Mistake(
            "divided_by_the_factors_norms",
            lambda model: _table(model, _factors_norms),
            "The denominator multiplies the norms of four factors. It takes two norms, of the two "
            "heads' products, each as a whole.",
            facts=(84, 81),
        ),
        Mistake(
            "cyclic",
            lambda model: _table(model, _cyclic),
            "Factors were turned in a circle inside the norm, to get a small matrix. That keeps "
            "traces and eigenvalues, not norms: the paper's figure had to be corrected for it.",
            facts=(85,),
        ),
    ),
    variants=(
        Variant("all_pairs_at_once", _by_broadcasting, facts=("E",)),
        Variant("by_thin_factors", _by_factors, facts=("E", "T")),
        Variant("nested_lists", _as_lists, facts=("N",)),
        Variant("numpy", lambda model: _table(model).numpy(), facts=("N",)),
    ),
)
