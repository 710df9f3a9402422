"""Eigenvalues of a product that is never formed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import LOW_RANK, NOTEBOOK
from grader.judge.comparators import ComplexMultiset
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant


def _with_a_negative_trace(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Some eigenvalue is then negative, so that those that are 0 rank before it."""
    return A, -B if float((A * B.T).sum()) > 0 else B


def _eigen_cases(draw: Draw) -> Iterator[Case]:
    def factors(by: Draw, n: int, k: int) -> tuple[Tensor, Tensor]:
        return _with_a_negative_trace(by.normal(n, k), by.normal(k, n))

    k, n = sorted(draw.sizes(2, 3, 8))
    yield Case(factors(draw, n, k))
    n = draw.integer(3, 5)
    yield Case(factors(draw, n, n), "where k equals n")
    yield Case(factors(Draw(draw.seed, torch.float64), 6, 1), "with k 1, in float64")
    A, turn = draw.normal(7, 2), torch.tensor([[1.0, -2.0], [2.0, 1.0]], dtype=draw.dtype)
    yield Case((A, turn @ torch.linalg.pinv(A)), "with complex eigenvalues")


def _largest_of_the_dense(A: Tensor, B: Tensor, key: Callable[[Tensor], Tensor]) -> Tensor:
    values = torch.linalg.eigvals(A @ B)
    best: Tensor = values[key(values).argsort(descending=True)][: A.shape[1]]
    return best


LOW_RANK_EIGENVALUES = Exercise(
    reference=reference.low_rank_eigenvalues,
    notebook=NOTEBOOK,
    title="Eigenvalues without the big matrix",
    paper=LOW_RANK,
    points=2,
    minutes=8,
    difficulty=1,
    cases=_eigen_cases,
    compare=ComplexMultiset(),
    hints=(
        "Read the proof above once more: which small matrix has the same non-zero eigenvalues?",
        "B is (k, n) and A is (n, k). One of the two products is (k, k).",
        "Multiply the factors in the other order and ask `torch.linalg` for the eigenvalues of a "
        "general matrix, one that isn't symmetric.",
    ),
    mistakes=(
        Mistake(
            "of_the_big_product",
            lambda A, B: torch.linalg.eigvals(A @ B),
            "These are all n eigenvalues of the big product, most of them 0 up to rounding. The k "
            "that matter are had from a small matrix.",
            facts=(36,),
        ),
        Mistake(
            "largest_by_real_part",
            lambda A, B: _largest_of_the_dense(A, B, lambda values: values.real),
            "The eigenvalues of the big product were sorted by their real part. Then zeros come "
            "before the negative ones, which are lost.",
        ),
        Mistake(
            "symmetric_solver",
            lambda A, B: torch.linalg.eigvalsh(B @ A),
            "A solver for symmetric matrices was used; it reads only one triangle and answers with "
            "real numbers. This matrix isn't symmetric.",
            facts=(70,),
        ),
        Mistake(
            "singular_values",
            lambda A, B: torch.linalg.svdvals(A @ B)[: A.shape[1]],
            "These are singular values. They have no sign and no phase, which is the very thing that "
            "we want to know.",
            facts=(69,),
        ),
        Mistake(
            "singular_values_of_the_small",
            lambda A, B: torch.linalg.svdvals(B @ A),
            "These are singular values, of the small matrix. They have no sign, and unlike "
            "eigenvalues they change when a product is turned round.",
            facts=(69, 85),
        ),
        Mistake(
            "real_parts",
            lambda A, B: torch.linalg.eigvals(B @ A).real,
            "Only the real parts came. Eigenvalues of a real matrix may be complex, and the "
            "imaginary part counts.",
            facts=(74,),
        ),
        Mistake(
            "absolute_values",
            lambda A, B: torch.linalg.eigvals(B @ A).abs(),
            "These are absolute values. The sign (or phase) is what tells copying from its opposite.",
            facts=(68,),
        ),
        Mistake(
            "with_eigenvectors",
            lambda A, B: torch.linalg.eig(B @ A),
            "Eigenvalues *and* eigenvectors came, as a pair. Asked for are the eigenvalues.",
        ),
        Mistake(
            "products_of_the_parts",
            lambda A, B: (
                torch.linalg.eigvals(A[: A.shape[1]]) * torch.linalg.eigvals(B[:, : A.shape[1]])
            ),
            "Eigenvalues of a product are not products of eigenvalues, and a matrix that isn't "
            "square has none.",
        ),
    ),
    variants=(
        Variant("numpy", lambda A, B: np.linalg.eigvals(B.numpy() @ A.numpy()), facts=("N",)),
        Variant(
            "transposed",
            lambda A, B: torch.linalg.eig(A.T @ B.T).eigenvalues,
            facts=("E",),
        ),
        Variant(
            "largest_of_the_big_product",
            lambda A, B: _largest_of_the_dense(A.double(), B.double(), torch.abs),
            facts=("E", "T"),
        ),
        Variant(
            "backwards", lambda A, B: torch.linalg.eigvals(B @ A).flip(0).tolist(), facts=("P", "N")
        ),
    ),
)
