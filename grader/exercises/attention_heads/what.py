"""What a head copies: its output, the sum over heads, the OV circuit."""

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
MOVES = "Attention Heads as Information Movement"


def _output_cases(draw: Draw) -> Iterator[Case]:
    def case(pos: int, d_model: int, d_head: int, by: Draw, label: str = "") -> Case:
        x, pattern = by.normal(pos, d_model), by.pattern(pos, pos)
        return Case((x, pattern, by.normal(d_model, d_head), by.normal(d_head, d_model)), label)

    pos, d_model, d_head = draw.sizes(3, 3, 9)
    yield case(pos, d_model, d_head, draw)
    n = draw.integer(4, 6)
    yield case(n, n, n, draw, "where all sizes are equal")
    yield case(1, d_model, d_head, draw, "with a single position")
    double = Draw(draw.seed, torch.float64)
    yield case(pos, d_model, 1, double, "with d_head 1, in float64")


HEAD_OUTPUT = Exercise(
    reference=reference.head_output,
    notebook=NOTEBOOK,
    title="What one head adds to the stream",
    paper=MOVES,
    points=2,
    minutes=8,
    difficulty=1,
    cases=_output_cases,
    compare=Comparator(),
    hints=(
        "Four matrices, one product. Which of them mix positions, and which act inside each "
        "position?",
        "x is (pos, d_model). What mixes positions multiplies it from the left, what acts on each "
        "vector from the right.",
        "Project every source to its value, let each destination take its weighted sum of values, "
        "write the result back with W_O.",
    ),
    mistakes=(
        Mistake(
            "pattern_transposed",
            lambda x, pattern, W_V, W_O: pattern.T @ x @ W_V @ W_O,
            "The pattern is turned over: sources receive and destinations give. Look at row 0 of the "
            "result: the first token can only have looked at itself.",
            facts=(42,),
        ),
        Mistake(
            "stream_added",
            lambda x, pattern, W_V, W_O: x + pattern @ x @ W_V @ W_O,
            "The difference to the asked result is x itself. The stream goes on beside the head; "
            "only what the head *adds* is wanted.",
            facts=(43,),
        ),
        Mistake(
            "ov_transposed",
            lambda x, pattern, W_V, W_O: pattern @ x @ W_O.T @ W_V.T,
            "W_V and W_O are used turned over, so the head reads where it should write. That is the "
            "order of the paper's column vectors; here x stands on the left.",
            facts=(37, 36),
        ),
        Mistake(
            "W_O_before_W_V",
            lambda x, pattern, W_V, W_O: pattern @ x @ W_O @ W_V,
            "x meets W_O first. Which of the two weights takes a stream vector, d_model entries "
            "long, on its left?",
            facts=(36,),
        ),
        Mistake(
            "circuit_in_head_space",
            lambda x, pattern, W_V, W_O: pattern @ x @ (W_O @ W_V),
            "`W_O @ W_V` is (d_head, d_head). The product that reads a stream vector and writes one "
            "has d_model at both ends.",
            facts=(36,),
        ),
        Mistake(
            "stops_before_W_O",
            lambda x, pattern, W_V, W_O: pattern @ (x @ W_V),
            "This is what the head has gathered, in its own d_head dimensions. It still has to be "
            "written into the stream.",
        ),
        Mistake(
            "nothing_moves",
            lambda x, pattern, W_V, W_O: x @ W_V @ W_O,
            "The pattern isn't used, so each position only talks to itself. Moving information is "
            "what a head is for.",
        ),
        Mistake(
            "softmaxed_again",
            lambda x, pattern, W_V, W_O: pattern.softmax(dim=-1) @ x @ W_V @ W_O,
            "The pattern goes through a softmax once more. Its rows sum to 1 already.",
        ),
        Mistake(
            "averaged",
            lambda x, pattern, W_V, W_O: pattern @ x @ W_V @ W_O / len(x),
            "The result is divided by the number of positions. The pattern already is a weighted "
            "mean: its rows sum to 1.",
        ),
        Mistake(
            "columns_for_positions",
            lambda x, pattern, W_V, W_O: (pattern @ x @ W_V @ W_O).T,
            "Right numbers, as (d_model, pos): that is the paper's picture, with one column a token. "
            "In this course a token is a row.",
            facts=(42,),
        ),
    ),
    variants=(
        Variant(
            "through_the_ov_circuit",
            lambda x, pattern, W_V, W_O: pattern @ x @ (W_V @ W_O),
            facts=("E", "T"),
        ),
        Variant(
            "einsum",
            lambda x, pattern, W_V, W_O: torch.einsum("ij,jd,dh,ho->io", pattern, x, W_V, W_O),
            facts=("E",),
        ),
        Variant(
            "paper_order_transposed_at_the_end",
            lambda x, pattern, W_V, W_O: (W_O.T @ W_V.T @ x.T @ pattern.T).T,
            facts=("E", "D"),
        ),
        Variant(
            "kronecker",
            lambda x, pattern, W_V, W_O: (
                torch.kron(pattern, (W_V @ W_O).T.contiguous()) @ x.reshape(-1)
            ).reshape(x.shape),
            facts=("E",),
        ),
        Variant(
            "numpy",
            lambda x, pattern, W_V, W_O: pattern.numpy() @ x.numpy() @ W_V.numpy() @ W_O.numpy(),
            facts=("N",),
        ),
    ),
)


def _concat_cases(draw: Draw) -> Iterator[Case]:
    def case(
        head: int, pos: int, d_head: int, d_model: int, by: Draw = draw, label: str = ""
    ) -> Case:
        return Case((by.normal(head, pos, d_head), by.normal(head, d_head, d_model)), label)

    head, pos, d_head, d_model = draw.sizes(4, 3, 9)
    yield case(head, pos, d_head, d_model)
    n = draw.integer(3, 5)
    yield case(n, n, n, n, label="where all sizes are equal")
    yield case(1, pos, d_head, d_model, label="with a single head")
    double = Draw(draw.seed, torch.float64)
    wide = "where d_model is head · d_head, as in most models, in float64"
    yield case(head, 1, d_head, head * d_head, double, wide)
    yield case(head, pos, 1, d_model, label="with d_head 1")


def _concatenated(z: Tensor, W_O: Tensor) -> Tensor:
    """The concatenated form, from any z and W_O with the same two first sizes."""
    flat = z.transpose(0, 1).reshape(z.shape[1], -1)
    return flat @ W_O.reshape(-1, W_O.shape[-1])


def _summed(z: Tensor, W_O: Tensor) -> Tensor:
    return (z @ W_O).sum(dim=0)


def _interleaved(z: Tensor) -> Tensor:
    return z.permute(1, 2, 0).reshape(z.shape[1], -1)


CONCAT_EQUALS_SUM = Exercise(
    reference=reference.concat_equals_sum,
    notebook=NOTEBOOK,
    title="Concatenating heads is adding them",
    paper="Attention Heads are Independent and Additive",
    points=2,
    minutes=10,
    difficulty=2,
    cases=_concat_cases,
    compare=Comparator("concatenated form", "summed form"),
    hints=(
        "Draw it: the z of all heads side by side, a long row; the W_O of all heads stacked, a tall "
        "matrix. What does the product of a long row and a tall matrix add up?",
        "For the concatenated form, head and d_head merge into one axis. `reshape` can only merge "
        "axes that stand next to each other, in the order they stand in.",
        "Move pos in front of head in z, then merge the last two axes; merge the first two of W_O; "
        "one product. For the summed form, multiply head by head and sum over the head axis.",
    ),
    mistakes=(
        Mistake(
            "reshaped_without_moving",
            lambda z, W_O: (
                z.reshape(z.shape[1], -1) @ W_O.reshape(-1, W_O.shape[-1]),
                _summed(z, W_O),
            ),
            "In the concatenated form z was only reshaped. Its axes are (head, pos, d_head), and "
            "`reshape` never moves an axis: pieces of different positions land in one row.",
            facts=(38,),
        ),
        Mistake(
            "z_interleaved",
            lambda z, W_O: (
                _interleaved(z) @ W_O.reshape(-1, W_O.shape[-1]),
                _summed(z, W_O),
            ),
            "In the concatenated form the rows of z run through d_head first and heads second, the "
            "stacked W_O the other way round. Both must list the same (head, d_head) pairs.",
            facts=(39,),
        ),
        Mistake(
            "W_O_interleaved",
            lambda z, W_O: (
                z.transpose(0, 1).reshape(z.shape[1], -1)
                @ W_O.transpose(0, 1).reshape(-1, W_O.shape[-1]),
                _summed(z, W_O),
            ),
            "In the concatenated form the rows of the stacked W_O are in another order than the "
            "columns of z. Both must list the same (head, d_head) pairs.",
            facts=(39,),
        ),
        Mistake(
            "heads_in_another_order",
            lambda z, W_O: (_concatenated(z.flip(0), W_O), _summed(z, W_O)),
            "In the concatenated form, heads stand in another order in z than in W_O.",
            facts=(40,),
        ),
        Mistake(
            "averaged",
            lambda z, W_O: (_concatenated(z, W_O), (z @ W_O).mean(dim=0)),
            "The summed form is a mean over heads. Heads add.",
            facts=(41,),
        ),
        Mistake(
            "both_averaged",
            lambda z, W_O: (_concatenated(z, W_O) / len(z), (z @ W_O).mean(dim=0)),
            "Both forms agree, and both are divided by the number of heads. Heads add.",
            facts=(41,),
        ),
        Mistake(
            "not_summed",
            lambda z, W_O: (_concatenated(z, W_O), z @ W_O),
            "The second form still has its head axis: one term a head, not yet their sum.",
        ),
        Mistake(
            "only_concatenated",
            lambda z, W_O: (z.transpose(0, 1).reshape(z.shape[1], -1), _summed(z, W_O)),
            "The first form stops at z side by side. Writing it into the stream, by all W_O stacked, "
            "is missing.",
        ),
        Mistake(
            "sum_before_writing",
            lambda z, W_O: (_concatenated(z, W_O), z.sum(dim=0) @ W_O.sum(dim=0)),
            "In the summed form z and W_O are summed over heads before they meet, so every head's z "
            "goes through every head's W_O.",
            facts=(39,),
        ),
        Mistake(
            "one_form_only",
            _summed,
            "One result came. A tuple of two is asked for: the concatenated form, then the summed "
            "one.",
        ),
    ),
    variants=(
        Variant("helpers", lambda z, W_O: (_concatenated(z, W_O), _summed(z, W_O)), facts=("E",)),
        Variant(
            "cat_of_blocks",
            lambda z, W_O: (
                torch.cat(list(z), dim=-1) @ torch.cat(list(W_O), dim=0),
                torch.stack([a @ b for a, b in zip(z, W_O, strict=True)]).sum(0),
            ),
            facts=("E",),
        ),
        Variant(
            "both_in_another_order",
            lambda z, W_O: (_concatenated(z.flip(0), W_O.flip(0)), _summed(z, W_O)),
            facts=("E",),
        ),
        Variant(
            "einsum_list",
            lambda z, W_O: [_concatenated(z, W_O), torch.einsum("hpe,hed->pd", z, W_O)],
            facts=("E", "N"),
        ),
        Variant(
            "numpy",
            lambda z, W_O: (
                np.concatenate(list(z.numpy()), axis=1) @ np.concatenate(list(W_O.numpy())),
                (z.numpy() @ W_O.numpy()).sum(axis=0),
            ),
            facts=("N",),
        ),
    ),
)


def _ov_cases(draw: Draw) -> Iterator[Case]:
    d_model, d_head = draw.sizes(2, 3, 9)
    yield Case((draw.normal(d_model, d_head), draw.normal(d_head, d_model)))
    n = draw.integer(3, 6)
    yield Case((draw.normal(n, n), draw.normal(n, n)), "where d_head equals d_model")
    double = Draw(draw.seed, torch.float64)
    yield Case((double.normal(d_model, 1), double.normal(1, d_model)), "with d_head 1, in float64")


OV_CIRCUIT = Exercise(
    reference=reference.ov_circuit,
    notebook=NOTEBOOK,
    title="The OV circuit",
    paper=MOVES,
    points=1,
    minutes=5,
    difficulty=1,
    cases=_ov_cases,
    compare=Comparator(),
    hints=(
        "Take one source vector, a row, all the way through the head. Which weight does it meet "
        "first?",
        "The result is (d_model, d_model) and the axis that disappears is d_head.",
        "One matrix product in the order in which a row vector meets the weights; nothing is "
        "transposed and nothing divided.",
    ),
    mistakes=(
        Mistake(
            "in_head_space",
            lambda W_V, W_O: W_O @ W_V,
            "The factors stand in the paper's order, which is for weights on the left of columns; in "
            "rows it gives (d_head, d_head). Beware: it has the same non-zero eigenvalues.",
            facts=(36,),
        ),
        Mistake(
            "paper_convention",
            lambda W_V, W_O: W_O.T @ W_V.T,
            "This is the paper's W_OV, for column vectors: the transpose of ours. Here rows read and "
            "columns write. Trace, norm and eigenvalues can't tell the two apart.",
            facts=(37,),
        ),
        Mistake(
            "divided",
            lambda W_V, W_O: W_V @ W_O / W_V.shape[1] ** 0.5,
            "The circuit is divided by √d_head. That belongs to scores only; nothing on the OV side "
            "is ever divided.",
        ),
        Mistake(
            "transposes_in_head_space",
            lambda W_V, W_O: W_V.T @ W_O.T,
            "This is (d_head, d_head): the sum ran over the stream. The circuit takes a stream "
            "vector and returns one.",
            facts=(36,),
        ),
        Mistake(
            "W_O_transposed",
            lambda W_V, W_O: W_V @ W_O.T,
            "W_O is (d_head, d_model) already, so that d_head meets d_head without a transpose. "
            "Only the QK circuit needs one.",
            facts=(37,),
        ),
    ),
    variants=(
        Variant("einsum", lambda W_V, W_O: torch.einsum("ah,hb->ab", W_V, W_O), facts=("E",)),
        Variant("numpy", lambda W_V, W_O: W_V.numpy() @ W_O.numpy(), facts=("N",)),
        Variant(
            "read_off_unit_vectors",
            lambda W_V, W_O: torch.stack(
                [row @ W_V @ W_O for row in torch.eye(len(W_V), dtype=W_V.dtype)]
            ),
            facts=("E",),
        ),
        Variant("non_contiguous", lambda W_V, W_O: (W_O.T @ W_V.T).T, facts=("D",)),
    ),
)
