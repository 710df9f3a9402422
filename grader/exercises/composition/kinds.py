"""How strongly one head reads another: through its queries, its keys or its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition.common import NOTEBOOK, THREE_KINDS
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

Product = Callable[[Tensor, Tensor], Tensor]
Score = Callable[[Tensor, Tensor], Any]


def _cases(draw: Draw) -> Iterator[Case]:
    def head(by: Draw, d_model: int, d_head: int, scale: float) -> Tensor:
        return by.normal(d_model, d_head, scale=scale) @ by.normal(d_head, d_model)

    d_model, d_head, other = sorted(draw.sizes(3, 2, 9), reverse=True)
    yield Case((head(draw, d_model, d_head, 1.0), head(draw, d_model, other, 1.0)))
    loud, quiet = draw.number(5, 9), draw.number(0.05, 0.2)
    yield Case(
        (head(draw, d_model, d_head, loud), head(draw, d_model, d_head, quiet)),
        "where one head is loud and the other quiet",
    )
    yield Case(_aligned(draw, 8), "where one head reads just what the other writes")
    double = Draw(draw.seed, torch.float64)
    yield Case((head(double, 5, 5, 1.0), head(double, 5, 5, 1.0)), "of full rank, in float64")
    yield Case((draw.normal(1, 1), draw.normal(1, 1)), "with d_model 1")


def _aligned(draw: Draw, d_model: int) -> tuple[Tensor, Tensor]:
    """Head 2's row side meets what head 1 writes, its column side hardly; both with little noise."""
    turn = draw.orthogonal(d_model)
    written, elsewhere = turn[:2], turn[2:4]
    noise = draw.normal(2, d_model, d_model, scale=0.05)
    first = draw.normal(d_model, 2) @ written + noise[0]
    second = written.T @ draw.invertible(2) @ elsewhere + noise[1]
    return first, second


def _ratio(product: Product, order: Any = "fro", of: Callable[[Any], Any] = lambda r: r) -> Score:
    def score(first: Tensor, second: Tensor) -> Any:
        def norm(matrix: Tensor) -> Tensor:
            result: Tensor = torch.linalg.matrix_norm(matrix, ord=order)
            return result

        return of(norm(product(first, second)) / (norm(first) * norm(second)))

    return score


def _norms_added(product: Product) -> Score:
    return lambda a, b: product(a, b).norm() / (a.norm() + b.norm())


def _trace(product: Product) -> Score:
    return lambda a, b: product(a, b).trace() / (a.norm() * b.norm())


def _product_spectral(product: Product) -> Score:
    return lambda a, b: torch.linalg.matrix_norm(product(a, b), ord=2) / (a.norm() * b.norm())


def _above_baseline(product: Product) -> Score:
    return lambda a, b: _ratio(product)(a, b) - len(a) ** -0.5


def _cosine(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).sum() / (first.norm() * second.norm())


def _common_mistakes(product: Product) -> tuple[Mistake, ...]:
    """What can go wrong with any of the three, whatever product is taken."""
    return (
        Mistake(
            "spectral_norm",
            _ratio(product, order=2),
            "This is built from largest singular values (`ord=2`). The Frobenius norm takes all of "
            "them into account; for a matrix `torch.linalg.norm` has it when no `ord` is given.",
            facts=(82,),
        ),
        Mistake(
            "spectral_norm_of_the_product",
            _product_spectral(product),
            "The product above the line is measured by its largest singular value, the two below by "
            "their Frobenius norms. One norm for all three.",
            facts=(82,),
        ),
        Mistake(
            "nuclear_norm",
            _ratio(product, order="nuc"),
            "This is built from sums of singular values, the nuclear norm. Asked for is the "
            "Frobenius norm: the root of the sum of squared entries.",
            facts=(82,),
        ),
        Mistake(
            "squared",
            _ratio(product, of=lambda r: r**2),
            "This is the square of the score. A sum of squared entries still needs its root to be a "
            "norm.",
            facts=(83,),
        ),
        Mistake(
            "no_denominator",
            lambda a, b: product(a, b).norm(),
            "This grows when a head is made louder. What a head's size contributes has to be divided "
            "out, for both heads.",
            facts=(84,),
        ),
        Mistake(
            "divided_by_the_first_only",
            lambda a, b: product(a, b).norm() / a.norm(),
            "The size of the earlier head is divided out, that of the later one is not. Double its "
            "weights and see what your score does.",
            facts=(84,),
        ),
        Mistake(
            "divided_by_the_second_only",
            lambda a, b: product(a, b).norm() / b.norm(),
            "The size of the later head is divided out, that of the earlier one is not. Double its "
            "weights and see what your score does.",
            facts=(84,),
        ),
        Mistake(
            "norms_added",
            _norms_added(product),
            "Below the line the two norms are added. Then the score still changes when both heads "
            "become louder: how does the norm of a product grow?",
            facts=(84,),
        ),
        Mistake(
            "entry_by_entry",
            lambda a, b: (a * b).norm() / (a.norm() * b.norm()),
            "The two matrices are multiplied entry by entry. For one head to feed another, what "
            "comes out of the first must go into the second: a matrix product.",
        ),
        Mistake(
            "cosine",
            _cosine,
            "This is the cosine between the two matrices as long vectors: it asks whether they are "
            "alike. Composition asks whether what one writes is what the other reads.",
        ),
        Mistake(
            "trace",
            _trace(product),
            "This is the trace of the product, which can cancel and be negative. The score takes the "
            "norm.",
            facts=(85,),
        ),
        Mistake(
            "baseline_subtracted",
            _above_baseline(product),
            "A random baseline is already taken off. Here the plain ratio is asked for; the baseline "
            "comes later, in `composition_table`.",
            facts=(86,),
        ),
    )


def _variants(product: Product) -> tuple[Variant, ...]:
    def by_root_of_squares(a: Tensor, b: Tensor) -> Tensor:
        squares = [matrix.square().sum() for matrix in (product(a, b), a, b)]
        return (squares[0] / (squares[1] * squares[2])).sqrt()

    def by_singular_values(a: Tensor, b: Tensor) -> Tensor:
        sizes = [torch.linalg.svdvals(m).square().sum().sqrt() for m in (product(a, b), a, b)]
        return sizes[0] / sizes[1] / sizes[2]

    def by_trace(a: Tensor, b: Tensor) -> float:
        made = product(a, b)
        return float((made @ made.T).trace().sqrt() / (a.norm() * b.norm()))

    def in_numpy(a: Tensor, b: Tensor) -> Any:
        made = product(a.double(), b.double()).numpy()
        return np.linalg.norm(made) / (np.linalg.norm(a.numpy()) * np.linalg.norm(b.numpy()))

    return (
        Variant("root_of_squares", by_root_of_squares, facts=("E",)),
        Variant("singular_values", by_singular_values, facts=("E", "T")),
        Variant("trace_of_a_square", by_trace, facts=("E", "N")),
        Variant("numpy", in_numpy, facts=("N", "D")),
        Variant(
            "scaled_to_norm_1_first",
            lambda a, b: product(a / a.norm(), b / b.norm()).norm(),
            facts=("E",),
        ),
        Variant(
            "transposed_product",
            lambda a, b: _ratio(lambda a, b: product(a, b).T)(a, b),
            facts=("X",),
        ),
    )


def _exercise(
    by: Callable[..., Any],
    product: Product,
    mistakes: tuple[Mistake, ...],
    hints: tuple[str, ...],
    *,
    title: str,
    points: int,
    minutes: int,
) -> Exercise:
    common = _common_mistakes(product)
    if by is reference.k_composition:  # the trace of a @ b.T *is* the sum in the cosine
        common = tuple(mistake for mistake in common if mistake.name != "trace")
    return Exercise(
        reference=by,
        notebook=NOTEBOOK,
        title=title,
        paper=THREE_KINDS,
        points=points,
        minutes=minutes,
        difficulty=1,
        cases=_cases,
        compare=Comparator(),
        hints=hints,
        mistakes=(*mistakes, *common),
        variants=_variants(product),
    )


Q_COMPOSITION = _exercise(
    reference.q_composition,
    lambda a, b: a @ b,
    (
        Mistake(
            "keys_for_queries",
            _ratio(lambda a, b: a @ b.T),
            "This is how much the *keys* of the later head read the earlier one. Which side of W_QK, "
            "its rows or its columns, belongs to the query?",
            facts=(79,),
        ),
        Mistake(
            "order_reversed",
            _ratio(lambda a, b: b @ a),
            "The later head stands in front. A row vector meets the weights from left to right, and "
            "what the earlier head writes comes first.",
            facts=(80,),
        ),
        Mistake(
            "papers_formula_on_rows",
            _ratio(lambda a, b: b.T @ a),
            "This is the paper's formula with our matrices put into it. The paper's W_OV is the "
            "transpose of ours, so in your product the query meets what the earlier head *reads*.",
            facts=(80,),
        ),
    ),
    (
        "The earlier head writes into the stream; the later head's query reads the stream. Chain the "
        "two: what comes out of the first must go into the second.",
        "W_OV_1 reads by its rows and writes by its columns. W_QK_2 has the query side in its rows. "
        "So what stands beside what?",
        "The Frobenius norm of the one product in which head 1's written side meets head 2's query "
        "side, over the product of the two heads' own Frobenius norms.",
    ),
    title="Q-composition",
    points=2,
    minutes=10,
)

K_COMPOSITION = _exercise(
    reference.k_composition,
    lambda a, b: a @ b.T,
    (
        Mistake(
            "queries_for_keys",
            _ratio(lambda a, b: a @ b),
            "This is how much the *queries* of the later head read the earlier one. The key side of "
            "W_QK is its columns.",
            facts=(79,),
        ),
        Mistake(
            "papers_formula_on_rows",
            _ratio(lambda a, b: b @ a),
            "This is the paper's formula with our matrices put into it. The paper's W_OV is the "
            "transpose of ours, so in your product the key meets what the earlier head *reads*.",
            facts=(80,),
        ),
        Mistake(
            "read_side_of_head_1",
            _ratio(lambda a, b: a.T @ b),
            "Here W_OV_1 is turned over, so that its *read* side meets head 2. Head 2 sees what head "
            "1 writes, which are the columns of W_OV_1.",
            facts=(37, 79),
        ),
    ),
    (
        "What changes against Q-composition is only which side of W_QK the earlier head's output "
        "arrives at.",
        "Keys are the columns of W_QK. To multiply W_OV_1 from the right onto them, the columns must "
        "become rows.",
        "The same ratio as for queries, with the key side of W_QK_2 brought to where the query side "
        "was.",
    ),
    title="K-composition",
    points=1,
    minutes=5,
)

V_COMPOSITION = _exercise(
    reference.v_composition,
    lambda a, b: a @ b,
    (
        Mistake(
            "order_reversed",
            _ratio(lambda a, b: b @ a),
            "The two heads stand in the paper's order, which is for columns. With rows this says how "
            "much the *earlier* head reads the later one.",
            facts=(80, 58),
        ),
        Mistake(
            "write_sides_compared",
            _ratio(lambda a, b: a @ b.T),
            "This compares what both heads *write*. The later head's values read the stream by the "
            "rows of its W_OV.",
            facts=(37,),
        ),
        Mistake(
            "read_sides_compared",
            _ratio(lambda a, b: a.T @ b),
            "This compares what both heads *read*. What the earlier head writes are the columns of "
            "its W_OV.",
            facts=(37,),
        ),
    ),
    (
        "The later head's values read the stream, and in it what the earlier head wrote. Which two "
        "matrices does a vector pass on this way, in which order?",
        "Both matrices are W_OV: rows read, columns write. The written side of head 1 meets the read "
        "side of head 2.",
        "The Frobenius norm of the product of both in the order in which a row vector meets them, "
        "over the product of the two norms.",
    ),
    title="V-composition",
    points=1,
    minutes=5,
)
