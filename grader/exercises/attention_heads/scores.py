"""Where a head looks: the scores, and the QK circuit behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import attention_heads as reference
from grader.exercises.attention_heads.wrong_patterns import (
    future,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "02-attention-heads"
PAPER = "Attention Heads as Information Movement"


def _scores_cases(draw: Draw) -> Iterator[Case]:
    def case(dst: int, src: int, d_model: int, d_head: int, by: Draw, label: str = "") -> Case:
        x_dst, x_src = by.normal(dst, d_model), by.normal(src, d_model)
        return Case((x_dst, x_src, by.normal(d_model, d_head), by.normal(d_model, d_head)), label)

    dst, src, d_model, d_head = draw.sizes(4)
    yield case(dst, src, d_model, d_head, draw)
    n = draw.integer(4, 6)
    yield case(n, n, n, n, draw, "where all four sizes are equal")
    double = Draw(draw.seed, torch.float64)
    yield case(1, src, d_model, d_head, double, "with one destination, in float64")
    yield case(dst, 1, d_model, 1, draw, "with one source and d_head 1")


def _plain_scores(x_dst: Tensor, x_src: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    return x_dst @ W_Q @ W_K.T @ x_src.T


def _keys_not_transposed(x_dst: Tensor, x_src: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    return (x_dst @ W_Q) @ (x_src @ W_K) / math.sqrt(W_Q.shape[-1])


def _pairs_not_crossed(x_dst: Tensor, x_src: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    return ((x_dst @ W_Q) * (x_src @ W_K)).sum(dim=-1) / math.sqrt(W_Q.shape[-1])


def _cosine(x_dst: Tensor, x_src: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    q, k = (torch.nn.functional.normalize(v, dim=-1) for v in (x_dst @ W_Q, x_src @ W_K))
    return q @ k.T


def _masked_scores(x_dst: Tensor, x_src: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    scores = _plain_scores(x_dst, x_src, W_Q, W_K) / math.sqrt(W_Q.shape[-1])
    return scores.masked_fill(future(scores), -torch.inf)


def _scores_by_loops(x_dst: Tensor, x_src: Tensor, W_Q: Tensor, W_K: Tensor) -> list[list[float]]:
    scale = math.sqrt(W_Q.shape[1])
    return [[float((d @ W_Q) @ (s @ W_K)) / scale for s in x_src] for d in x_dst]


ATTENTION_SCORES = Exercise(
    reference=reference.attention_scores,
    notebook=NOTEBOOK,
    title="Attention scores of one head",
    paper=PAPER,
    points=2,
    minutes=8,
    difficulty=1,
    cases=_scores_cases,
    compare=Comparator(),
    hints=(
        "A score is one dot product: the query of a destination with the key of a source. You need "
        "it for every pair.",
        "Queries have shape (dst, d_head), keys (src, d_head). A matrix product sums over the last "
        "axis of the left factor and the first axis of the right one: which factor has to be turned?",
        "Project the destinations, project the sources, multiply the first by the transpose of the "
        "second, and divide by the square root of the size that a query has.",
    ),
    mistakes=(
        Mistake(
            "roles_swapped",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_dst, x_src, W_K, W_Q) / math.sqrt(W_Q.shape[-1])
            ),
            "Queries and keys have changed roles. Destinations *ask* and sources *are asked*: which "
            "of the two weights belongs to asking?",
            facts=(16,),
        ),
        Mistake(
            "result_transposed",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_dst, x_src, W_Q, W_K).T / math.sqrt(W_Q.shape[-1])
            ),
            "Right numbers, but rows are sources and columns destinations. In this course a row "
            "belongs to one destination: (dst, src).",
            facts=(16, 30),
        ),
        Mistake(
            "not_scaled",
            _plain_scores,
            "This is the plain dot product of query and key. A *score* is also divided; what is "
            "divided by, and why, stands above the exercise.",
            facts=(17,),
        ),
        Mistake(
            "scaled_by_d_model",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_dst, x_src, W_Q, W_K) / math.sqrt(W_Q.shape[0])
            ),
            "The scale uses the width of the stream. The dot product sums over the entries of a "
            "query; how many are there?",
            facts=(18,),
        ),
        Mistake(
            "scaled_by_d_head",
            lambda x_dst, x_src, W_Q, W_K: _plain_scores(x_dst, x_src, W_Q, W_K) / W_Q.shape[1],
            "The scale is d_head itself. Its square root is asked for, and once: dividing the query "
            "*and* the key, or taking a mean for the sum, divides twice.",
            facts=(19,),
        ),
        Mistake(
            "scaled_the_wrong_way",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_dst, x_src, W_Q, W_K) * math.sqrt(W_Q.shape[1])
            ),
            "The scale is multiplied where it should divide: it is there to make scores smaller.",
            facts=(17,),
        ),
        Mistake(
            "d_head_built_in",
            lambda x_dst, x_src, W_Q, W_K: _plain_scores(x_dst, x_src, W_Q, W_K) / 8.0,
            "The scale is 8 whatever the weights are: the square root of a d_head of 64. Read d_head "
            "off the shape of the weights.",
            facts=(119,),
        ),
        Mistake(
            "keys_not_transposed",
            _keys_not_transposed,
            "Queries (dst, d_head) times keys (src, d_head): the two inner sizes must be the axis "
            "that is summed, d_head. One factor has to be transposed.",
            facts=(16,),
        ),
        Mistake(
            "pairs_not_crossed",
            _pairs_not_crossed,
            "Entry by entry, query i meets key i only. Every destination must meet every source.",
        ),
        Mistake(
            "keys_from_destinations",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_dst, x_dst, W_Q, W_K) / math.sqrt(W_Q.shape[-1])
            ),
            "Keys are made from `x_dst`; `x_src` isn't used. Who is looked *at*?",
        ),
        Mistake(
            "queries_from_sources",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_src, x_src, W_Q, W_K) / math.sqrt(W_Q.shape[-1])
            ),
            "Queries are made from `x_src`; `x_dst` isn't used. Who does the looking?",
        ),
        Mistake(
            "one_weight_for_both",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_dst, x_src, W_Q, W_Q) / math.sqrt(W_Q.shape[-1])
            ),
            "`W_Q` makes the queries and the keys as well. What a head asks for and what it answers "
            "to are two different things.",
        ),
        Mistake(
            "softmaxed",
            lambda x_dst, x_src, W_Q, W_K: (
                _plain_scores(x_dst, x_src, W_Q, W_K) / math.sqrt(W_Q.shape[-1])
            ).softmax(dim=-1),
            "These are already shares that sum to 1. Scores come before the softmax.",
        ),
        Mistake(
            "already_masked",
            _masked_scores,
            "The future is masked here already. The mask is the next exercise; scores know nothing "
            "about order.",
        ),
        Mistake(
            "cosine",
            _cosine,
            "Queries and keys are brought to length 1 first. A score is the plain dot product: a "
            "long key draws more attention than a short one.",
        ),
    ),
    variants=(
        Variant("loops", _scores_by_loops, facts=("E", "N")),
        Variant(
            "through_the_qk_circuit",
            lambda x_dst, x_src, W_Q, W_K: (
                x_dst @ (W_Q @ W_K.T) @ x_src.T / math.sqrt(W_Q.shape[1])
            ),
            facts=("E", "T"),
        ),
        Variant(
            "einsum",
            lambda x_dst, x_src, W_Q, W_K: torch.einsum(
                "id,dh,jm,mh->ij", x_dst, W_Q, x_src, W_K
            ).div(math.sqrt(W_K.shape[1])),
            facts=("E",),
        ),
        Variant(
            "numpy",
            lambda x_dst, x_src, W_Q, W_K: (
                (x_dst.numpy() @ W_Q.numpy() @ W_K.numpy().T @ x_src.numpy().T)
                / np.sqrt(W_Q.shape[1])
            ),
            facts=("N",),
        ),
        Variant(
            "in_float64",
            lambda x_dst, x_src, W_Q, W_K: (
                ((x_dst.double() @ W_Q.double()) @ (x_src.double() @ W_K.double()).T)
                / math.sqrt(W_Q.shape[1])
            ),
            facts=("D",),
        ),
        Variant(
            "each_side_scaled_by_the_fourth_root",
            lambda x_dst, x_src, W_Q, W_K: (
                (x_dst @ W_Q / W_Q.shape[1] ** 0.25) @ (x_src @ W_K / W_K.shape[1] ** 0.25).T
            ),
            facts=("E",),
        ),
    ),
)


def _qk_cases(draw: Draw) -> Iterator[Case]:
    d_model, d_head = draw.sizes(2, 3, 9)
    yield Case((draw.normal(d_model, d_head), draw.normal(d_model, d_head)))
    n = draw.integer(3, 6)
    yield Case((draw.normal(n, n), draw.normal(n, n)), "where d_head equals d_model")
    double = Draw(draw.seed, torch.float64)
    yield Case((double.normal(d_model, 1), double.normal(d_model, 1)), "with d_head 1, in float64")


QK_CIRCUIT = Exercise(
    reference=reference.qk_circuit,
    notebook=NOTEBOOK,
    title="The QK circuit",
    paper=PAPER,
    points=1,
    minutes=5,
    difficulty=1,
    cases=_qk_cases,
    compare=Comparator(),
    hints=(
        "Write the score of one pair with x_dst on the far left and x_src on the far right. "
        "Whatever stands between them is the circuit.",
        "Both weights are (d_model, d_head) and the result is (d_model, d_model): the axis that "
        "disappears is d_head.",
        "It is one matrix product of the query weights with the key weights turned over, and "
        "nothing else: no division.",
    ),
    mistakes=(
        Mistake(
            "roles_swapped",
            lambda W_Q, W_K: W_K @ W_Q.T,
            "Right numbers, rows and columns exchanged. Rows are the query side: the destination "
            "multiplies from the left.",
            facts=(16,),
        ),
        Mistake(
            "divided",
            lambda W_Q, W_K: W_Q @ W_K.T / math.sqrt(W_Q.shape[1]),
            "The circuit is divided by √d_head. Scores are divided, circuits are not: the paper's "
            "W_QK is the plain product.",
            facts=(17,),
        ),
        Mistake(
            "in_head_space",
            lambda W_Q, W_K: W_Q.T @ W_K,
            "This is (d_head, d_head): the sum ran over the stream. The circuit compares two stream "
            "vectors, so d_head is the axis that must go.",
            facts=(16,),
        ),
        Mistake(
            "not_transposed",
            lambda W_Q, W_K: W_Q @ W_K,
            "Two matrices of shape (d_model, d_head) in a row: one of them has to be transposed, so "
            "that d_head meets d_head.",
            facts=(16,),
        ),
        Mistake(
            "one_weight_for_both",
            lambda W_Q, W_K: W_Q @ W_Q.T,
            "`W_Q` stands on both sides. The result is symmetric; a real W_QK is not: what asks and "
            "what answers differ.",
        ),
        Mistake(
            "symmetrized",
            lambda W_Q, W_K: (W_Q @ W_K.T + W_K @ W_Q.T) / 2,
            "The result is symmetric. 'a looks at b' and 'b looks at a' are two different numbers.",
        ),
        Mistake(
            "entry_by_entry",
            lambda W_Q, W_K: W_Q * W_K,
            "The weights are multiplied entry by entry. A matrix product is asked for.",
        ),
    ),
    variants=(
        Variant("einsum", lambda W_Q, W_K: torch.einsum("ah,bh->ab", W_Q, W_K), facts=("E",)),
        Variant("numpy", lambda W_Q, W_K: W_Q.numpy() @ W_K.numpy().T, facts=("N",)),
        Variant(
            "sum_of_outer_products",
            lambda W_Q, W_K: sum(torch.outer(q, k) for q, k in zip(W_Q.T, W_K.T, strict=True)),
            facts=("E",),
        ),
        Variant("non_contiguous", lambda W_Q, W_K: (W_K @ W_Q.T).T, facts=("D",)),
    ),
)
