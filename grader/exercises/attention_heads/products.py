"""The algebra of heads: one head as a big matrix, two heads in a row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import attention_heads as reference
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "02-attention-heads"
PAPER = "Attention Heads as Information Movement"


def _tensor_cases(draw: Draw) -> Iterator[Case]:
    pos, d_model = draw.sizes(2, 3, 6)
    yield Case((draw.pattern(pos, pos), draw.normal(d_model, d_model)))
    n = draw.integer(3, 5)
    yield Case((draw.pattern(n, n), draw.normal(n, n)), "where pos equals d_model")
    yield Case((draw.pattern(1, 1), draw.normal(d_model, d_model)), "with a single position")
    double = Draw(draw.seed, torch.float64)
    yield Case((double.pattern(pos, pos), double.normal(1, 1)), "with d_model 1, in float64")


def _kron(left: Tensor, right: Tensor) -> Tensor:
    return torch.kron(left.contiguous(), right.contiguous())


def _from_unit_inputs(pattern: Tensor, W_OV: Tensor) -> Tensor:
    pos, d_model = len(pattern), len(W_OV)
    units = torch.eye(pos * d_model, dtype=W_OV.dtype).reshape(-1, pos, d_model)
    return (pattern @ units @ W_OV).reshape(pos * d_model, -1).T


def _block_by_block(pattern: Tensor, W_OV: Tensor) -> Tensor:
    return torch.cat([torch.cat([a * W_OV.T for a in row], dim=1) for row in pattern])


def _kronecker_sum(pattern: Tensor, W_OV: Tensor) -> Tensor:
    eye = torch.eye
    return _kron(pattern, eye(len(W_OV), dtype=W_OV.dtype)) + _kron(
        eye(len(pattern), dtype=W_OV.dtype), W_OV.T
    )


TENSOR_PRODUCT = Exercise(
    reference=reference.tensor_product,
    notebook=NOTEBOOK,
    title="A head as one big matrix",
    paper=PAPER,
    points=3,
    minutes=15,
    difficulty=3,
    cases=_tensor_cases,
    compare=Comparator(),
    hints=(
        "Try 2 positions and 2 dimensions by hand. Entry (i, o) of the result is a sum over sources "
        "j and dimensions d: which number multiplies x[j, d]?",
        "After `reshape(-1)`, x[j, d] sits at place j·d_model + d: the position counts in blocks, "
        "the dimension inside a block. So M is a pos × pos grid of d_model × d_model blocks.",
        "Block (i, j) is the attention from i to j times one and the same small matrix. That one "
        "must turn a *column* of d_model entries as W_OV turns a row. `torch.kron` builds such grids.",
    ),
    mistakes=(
        Mistake(
            "weights_not_transposed",
            lambda pattern, W_OV: _kron(pattern, W_OV),
            "The blocks are in the right places, but inside them W_OV acts on a column as if it were "
            "a row. With the paper's W_OV, which is for columns, your line would be right.",
            facts=(51, 37),
        ),
        Mistake(
            "column_major",
            lambda pattern, W_OV: _kron(W_OV.T, pattern),
            "This fits a flattening down the columns, where the dimension counts in blocks. "
            "`reshape(-1)` runs along rows: all dimensions of position 0 come first.",
            facts=(51,),
        ),
        Mistake(
            "factors_swapped",
            lambda pattern, W_OV: _kron(W_OV, pattern),
            "The two factors stand the other way round: here dimensions count in blocks and "
            "positions inside them. Which of the two varies fastest in `x.reshape(-1)`?",
            facts=(51,),
        ),
        Mistake(
            "pattern_transposed",
            lambda pattern, W_OV: _kron(pattern.T, W_OV.T),
            "The pattern is turned over. M has one row for each entry of the *result*, so block "
            "(i, j) belongs to destination i and source j.",
            facts=(42, 51),
        ),
        Mistake(
            "acts_from_the_right",
            lambda pattern, W_OV: _kron(pattern.T, W_OV),
            "This M works as `x.reshape(-1) @ M`. The exercise puts M on the left, as in the paper.",
            facts=(51,),
        ),
        Mistake(
            "four_axes",
            lambda pattern, W_OV: pattern[:, :, None, None] * W_OV[None, None],
            "All the products are there, as an array with four axes. A matrix needs them in two: "
            "(destination, output dimension) and (source, input dimension).",
            facts=(51,),
        ),
        Mistake(
            "merged_the_wrong_axes",
            lambda pattern, W_OV: (pattern[:, :, None, None] * W_OV.T[None, None]).reshape(
                pattern.numel() // len(pattern) * len(W_OV), -1
            ),
            "The four axes were merged in the order they stood in, which puts destination and source "
            "together. Destination and output dimension belong together.",
            facts=(51,),
        ),
        Mistake(
            "kron_of_a_view",
            lambda pattern, W_OV: torch.kron(pattern, W_OV.T),
            "In this version of PyTorch `torch.kron` can't take a transposed matrix, which is only a "
            "view of another one. Add `.contiguous()` to what you transposed.",
            facts=(51,),
        ),
        Mistake(
            "sum_for_product",
            _kronecker_sum,
            "This moves information *plus* transforms it, two separate effects. A head does both to "
            "the same thing: it is a product.",
        ),
    ),
    variants=(
        Variant("from_unit_inputs", _from_unit_inputs, facts=("E",)),
        Variant("block_by_block", _block_by_block, facts=("E",)),
        Variant(
            "einsum",
            lambda pattern, W_OV: torch.einsum("ij,do->iojd", pattern, W_OV).reshape(
                pattern.shape[0] * W_OV.shape[1], -1
            ),
            facts=("E",),
        ),
        Variant(
            "numpy", lambda pattern, W_OV: np.kron(pattern.numpy(), W_OV.numpy().T), facts=("N",)
        ),
    ),
)


def _mixed_cases(draw: Draw) -> Iterator[Case]:
    def case(pos: int, d_model: int, by: Draw, label: str = "") -> Case:
        heads = [(by.pattern(pos, pos), by.normal(d_model, d_model)) for _ in range(2)]
        return Case((*heads[0], *heads[1]), label)

    pos, d_model = draw.sizes(2, 3, 8)
    yield case(pos, d_model, draw)
    n = draw.integer(3, 6)
    yield case(n, n, draw, "where pos equals d_model")
    yield case(1, d_model, draw, "with a single position")
    yield case(pos, 1, Draw(draw.seed, torch.float64), "with d_model 1, in float64")


MIXED_PRODUCT = Exercise(
    reference=reference.mixed_product,
    notebook=NOTEBOOK,
    title="Two heads in a row are one head",
    paper=PAPER,
    points=2,
    minutes=10,
    difficulty=2,
    cases=_mixed_cases,
    compare=Comparator("pattern", "W_OV"),
    hints=(
        "Write out what head 2 does to the output of head 1, with one expression put into the "
        "other. Then look at what stands left of x and what stands right of it.",
        "The first head is the one nearest to x, on both sides. So the two orders differ.",
        "On the left of x, the second head's pattern stands before the first's; on the right, the "
        "first head's weights stand before the second's.",
    ),
    mistakes=(
        Mistake(
            "patterns_in_the_wrong_order",
            lambda A1, W1, A2, W2: (A1 @ A2, W1 @ W2),
            "The patterns stand in the wrong order. The head that acts last is the outermost: its "
            "destinations are the destinations of the whole.",
            facts=(57,),
        ),
        Mistake(
            "paper_order_of_weights",
            lambda A1, W1, A2, W2: (A2 @ A1, W2 @ W1),
            "The weights stand in the paper's order, which is for columns. A row vector meets the "
            "weights of the first head first.",
            facts=(58,),
        ),
        Mistake(
            "both_in_the_wrong_order",
            lambda A1, W1, A2, W2: (A1 @ A2, W2 @ W1),
            "Both products stand in the wrong order: this lets head 2 act first. Follow one vector "
            "through: which head does it meet first?",
            facts=(57, 58),
        ),
        Mistake(
            "items_exchanged",
            lambda A1, W1, A2, W2: (W1 @ W2, A2 @ A1),
            "Right products, but the tuple holds W_OV first. The pattern comes first.",
        ),
        Mistake(
            "entry_by_entry",
            lambda A1, W1, A2, W2: (A2 * A1, W1 * W2),
            "The matrices are multiplied entry by entry. Going from source to destination *by way "
            "of* a middle position is a sum over middle positions.",
        ),
        Mistake(
            "added",
            lambda A1, W1, A2, W2: (A1 + A2, W1 + W2),
            "The heads are added. Two heads of one layer add; two heads in a row are applied one "
            "after the other.",
        ),
        Mistake(
            "softmaxed_again",
            lambda A1, W1, A2, W2: ((A2 @ A1).softmax(dim=-1), W1 @ W2),
            "The product of the patterns goes through a softmax. Multiply out what one row sums to: "
            "nothing is left to normalize.",
        ),
        Mistake(
            "weights_transposed",
            lambda A1, W1, A2, W2: (A2 @ A1, (W1 @ W2).T),
            "The combined W_OV is turned over: it writes where it should read. That is the paper's "
            "convention, for columns.",
            facts=(37,),
        ),
    ),
    variants=(
        Variant("list", lambda A1, W1, A2, W2: [A2 @ A1, W1 @ W2], facts=("N",)),
        Variant(
            "einsum",
            lambda A1, W1, A2, W2: (
                torch.einsum("ij,jk->ik", A2, A1),
                torch.einsum("ab,bc->ac", W1, W2),
            ),
            facts=("E",),
        ),
        Variant(
            "numpy",
            lambda A1, W1, A2, W2: (A2.numpy() @ A1.numpy(), W1.numpy() @ W2.numpy()),
            facts=("N",),
        ),
    ),
)
