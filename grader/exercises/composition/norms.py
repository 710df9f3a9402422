"""The norm of a product that is never formed, and the rule that does not hold for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition.common import LOW_RANK, NOTEBOOK
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant


def _cases(draw: Draw) -> Iterator[Case]:
    def case(n: int, k: int, m: int, by: Draw = draw, label: str = "") -> Case:
        return Case((by.normal(n, k, scale=by.number(0.5, 3)), by.normal(k, m)), label)

    k, n, m = sorted(draw.sizes(3, 2, 9))
    # Square like a W_OV first: there the cyclic rule gives a number, and not only a shape error.
    yield case(n, k, n, label="where the product is square, as W_OV is")
    yield case(n, k, m)
    yield case(k + 1, k + 1, k + 1, label="where all sizes are equal")
    yield case(m, 1, n, label="with k 1")
    yield case(m, k, n, Draw(draw.seed, torch.float64), "in float64")
    yield _tall(draw, k)


def _tall(draw: Draw, k: int) -> Case:
    """The product would take 4.6 MiB; a loop over rows stays possible, at 16 KiB a row."""
    A, B = draw.normal(300, k), draw.normal(k, 4000)
    return Case((A, B), "where the product would be large", context={"memory_mib": 2})


def _by_grams(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    return A.T @ A, B @ B.T


def _gram_summed(A: Tensor, B: Tensor) -> Tensor:
    left, right = _by_grams(A, B)
    return (left @ right).sum().sqrt()


def _gram_norm(A: Tensor, B: Tensor) -> Tensor:
    left, right = _by_grams(A, B)
    return (left @ right).norm().sqrt()


def _singular_values_multiplied(A: Tensor, B: Tensor) -> Tensor:
    return (torch.linalg.svdvals(A) * torch.linalg.svdvals(B)).norm()


def _orthonormal_factor_kept(A: Tensor, B: Tensor) -> Tensor:
    return (torch.linalg.qr(A).Q @ B).norm()


def _sum_of_absolutes(A: Tensor, B: Tensor) -> Tensor:
    return torch.stack([(row @ B).abs().sum() for row in A]).sum()


def _by_two_triangles(A: Tensor, B: Tensor) -> Tensor:
    left, right = torch.linalg.qr(A).R, torch.linalg.qr(B.T).R
    return (left @ right.T).norm()


def _by_singular_vectors(A: Tensor, B: Tensor) -> Tensor:
    _, S, Vh = torch.linalg.svd(A, full_matrices=False)
    return (S[:, None] * (Vh @ B)).norm()


def _by_chunks(A: Tensor, B: Tensor) -> Tensor:
    return torch.stack([(rows @ B).square().sum() for rows in A.split(64)]).sum().sqrt()


def _by_eigenvalues(A: Tensor, B: Tensor) -> Tensor:
    left, right = _by_grams(A.double(), B.double())
    return torch.linalg.eigvals(left @ right).sum().sqrt()


def _in_numpy(A: Tensor, B: Tensor) -> float:
    a, b = A.double().numpy(), B.double().numpy()
    return float(np.sqrt(np.trace(a.T @ a @ (b @ b.T))))


LOW_RANK_FROBENIUS = Exercise(
    reference=reference.low_rank_frobenius,
    notebook=NOTEBOOK,
    title="The norm of a product that is never formed",
    paper=LOW_RANK,
    points=3,
    minutes=20,
    difficulty=3,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "The squared Frobenius norm of any M is the trace of M M^T. Write that out for M = A B, and "
        "only then move factors around.",
        "A *trace* may be turned in a circle: the trace of X Y is the trace of Y X. After one turn "
        "two small (k, k) matrices stand side by side. (Another way: `torch.linalg.qr`, and ask "
        "which factor a norm can't see.)",
        "One small matrix is made of A alone, the other of B alone, each of a factor and its own "
        "transpose with the long axis summed away. The trace of their product is the squared norm.",
    ),
    mistakes=(
        Mistake(
            "cyclic",
            lambda A, B: (B @ A).norm(),
            "The two factors changed places inside the norm. That is allowed in a trace and for "
            "eigenvalues, never in a norm; it is the very mistake in the paper's erratum.",
            facts=(85,),
        ),
        Mistake(
            "norms_multiplied",
            lambda A, B: A.norm() * B.norm(),
            "This is the product of the two norms, which is only an upper bound: it would be right "
            "if everything A gives were what B takes. How the factors meet must come in.",
            facts=(84,),
        ),
        Mistake(
            "squared",
            lambda A, B: torch.trace((A.T @ A) @ (B @ B.T)),
            "This is the squared norm. Take its root.",
            facts=(83,),
        ),
        Mistake(
            "trace_of_the_product",
            lambda A, B: (B @ A).trace(),
            "This is the trace of A B. The trace that belongs to a norm is that of M M^T, with the "
            "*whole* of A B for M.",
            facts=(85,),
        ),
        Mistake(
            "gram_matrices_summed",
            _gram_summed,
            "The two small matrices are right, and their product too. Then all its entries were "
            "added up; a trace adds the diagonal only.",
        ),
        Mistake(
            "norm_of_the_gram_matrices",
            _gram_norm,
            "The two small matrices are right. But it is the trace of their product that is the "
            "squared norm of A B, not its norm.",
        ),
        Mistake(
            "singular_values_multiplied",
            _singular_values_multiplied,
            "The singular values of the factors are paired, largest with largest. That would need "
            "what A gives most of to be just what B takes best; singular vectors matter too.",
        ),
        Mistake(
            "orthonormal_factor_kept",
            _orthonormal_factor_kept,
            "Of A = Q R the factor Q was kept. A norm can't see a factor with orthonormal columns on "
            "the left, so what you have is the norm of B: it is R that matters.",
        ),
        Mistake(
            "spectral_norm",
            lambda A, B: torch.linalg.svdvals(_small(A, B))[0],
            "This is the largest singular value of the product. The Frobenius norm has all of them "
            "in it.",
            facts=(82,),
        ),
        Mistake(
            "nuclear_norm",
            lambda A, B: torch.linalg.svdvals(_small(A, B)).sum(),
            "This is the sum of the singular values of the product. The Frobenius norm is the root "
            "of the sum of their squares.",
            facts=(82,),
        ),
        Mistake(
            "sum_of_absolutes",
            _sum_of_absolutes,
            "This adds up absolute entries. The Frobenius norm adds up squares and takes the root.",
            facts=(82,),
        ),
    ),
    variants=(
        Variant(
            "gram_matrices",
            lambda A, B: torch.trace((A.T @ A) @ (B @ B.T)).sqrt(),
            facts=("E", "T"),
        ),
        Variant(
            "gram_matrices_entry_by_entry",
            lambda A, B: float(((A.T @ A) * (B @ B.T)).sum()) ** 0.5,
            facts=("E", "N"),
        ),
        Variant("two_triangles", _by_two_triangles, facts=("E", "P")),
        Variant("one_triangle", lambda A, B: (torch.linalg.qr(A).R @ B).norm(), facts=("E",)),
        Variant("singular_vectors", _by_singular_vectors, facts=("E", "P")),
        Variant("some_rows_at_a_time", _by_chunks, facts=("E",)),
        Variant("eigenvalues_of_the_small_product", _by_eigenvalues, facts=("E", "P")),
        Variant("numpy", _in_numpy, facts=("N", "D")),
    ),
)


def _small(A: Tensor, B: Tensor) -> Tensor:
    return torch.linalg.qr(A).R @ torch.linalg.qr(B.T).R.T
