"""The SVD of a product that is never formed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import LOW_RANK, NOTEBOOK
from grader.judge.comparators import Property
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

Svd = tuple[Tensor, Tensor, Tensor]


DENSE_MIB = 0.5  # a product of the last case takes 0.86 MiB in float32


def _svd_cases(draw: Draw) -> Iterator[Case]:
    k, m, n = sorted(draw.sizes(3, 3, 8))
    yield Case((draw.normal(n, k), draw.normal(k, m)))
    yield Case((draw.normal(m, k), draw.normal(k, n)), "where the product is wide")
    size = draw.integer(3, 5)
    yield Case((draw.normal(size, size), draw.normal(size, size)), "where all sizes are equal")
    double = Draw(draw.seed, torch.float64)
    yield Case((double.normal(n, 1), double.normal(1, m)), "with k 1, in float64")
    args = (draw.normal(500, 3), draw.normal(3, 450))
    yield Case(args, "with 500 rows and 450 columns", {"memory_mib": DENSE_MIB})


def _near(value: Tensor, wanted: Tensor) -> bool:
    size = max(1.0, float(wanted.abs().max()))
    return value.shape == wanted.shape and bool(((value - wanted).abs() <= 1e-4 * size).all())


def _product(case: Case) -> Tensor:
    A, B = case.args
    product: Tensor = A.double() @ B.double()
    return product


def _orthonormal(value: Svd) -> bool:
    U, _, Vh = value
    eye = torch.eye(U.shape[1], dtype=U.dtype)
    return _near(U.T @ U, eye) and _near(Vh @ Vh.T, eye)


def _rebuilds(U: Tensor, S: Tensor, Vh: Tensor, case: Case) -> bool:
    return _near(U * S @ Vh, _product(case))


def _is_an_svd(value: Svd, expected: Any, case: Case) -> bool:
    """Any order of the singular values and any signs; U and Vh orthonormal, S not negative."""
    return _orthonormal(value) and bool((value[1] >= 0).all()) and _rebuilds(*value, case)


def _svd(X: Tensor) -> Svd:
    U, S, Vh = torch.linalg.svd(X, full_matrices=False)
    return U, S, Vh


def _as_in_the_paper(A: Tensor, B: Tensor, middle: str = "both") -> Svd:
    """The paper's appendix; ``middle`` says which factors' singular values enter the small matrix."""
    U_A, S_A, V_A = _svd(A)
    U_B, S_B, V_B = _svd(B)
    left = S_A[:, None] * V_A if middle != "right" else V_A
    right = U_B * S_B if middle != "left" else U_B
    U, S, Vh = _svd(left @ right)
    return U_A @ U, S, Vh @ V_B


def _of_the_factors(A: Tensor, B: Tensor) -> Svd:
    U_A, S_A, _ = _svd(A)
    _, S_B, V_B = _svd(B)
    return U_A, S_A * S_B, V_B


def _not_turned_back(A: Tensor, B: Tensor) -> Svd:
    R_A, R_B = torch.linalg.qr(A).R, torch.linalg.qr(B.T).R
    return _svd(R_A @ R_B.T)


def _orthonormal_but_wrong(value: Svd, case: Case) -> bool:
    """Columns of A's space and rows of B's, orthonormal, that don't give the product."""
    A, B = (argument.double() for argument in case.args)
    U, S, Vh = value
    sizes = [torch.linalg.svdvals(X) for X in (A, B)]
    return (
        _orthonormal(value)
        and not _rebuilds(*value, case)
        and _near(U @ (U.T @ A), A)
        and _near(B @ Vh.T @ Vh, B)
        and _near(S, sizes[0] * sizes[1])
    )


def _squared(value: Svd, case: Case) -> bool:
    U, S, Vh = value
    return (
        _orthonormal(value)
        and bool((S >= 0).all())
        and not _rebuilds(*value, case)
        and _rebuilds(U, S.sqrt(), Vh, case)
    )


def _rebuilds_only(value: Svd, case: Case) -> bool:
    return _rebuilds(*value, case) and not _orthonormal(value)


def _negative(value: Svd, case: Case) -> bool:
    return _rebuilds(*value, case) and _orthonormal(value) and bool((value[1] < 0).any())


def _half_scaled(middle: str) -> Callable[[Svd, Case], bool]:
    def signature(value: Svd, case: Case) -> bool:
        A, B = case.args
        wrong = _as_in_the_paper(A.double(), B.double(), middle)
        return _near(value[1], wrong[1]) and _near(
            value[0] * value[1] @ value[2], wrong[0] * wrong[1] @ wrong[2]
        )

    return signature


def _by_gram(A: Tensor, B: Tensor) -> Svd:
    """From eigenvectors of small Gram matrices; half the digits, which double precision has."""
    A, B = A.double(), B.double()
    values, vectors = torch.linalg.eigh(A.T @ A)
    Q, R = A @ vectors / values.sqrt(), values.sqrt()[:, None] * vectors.T
    U, S, Vh = _svd(R @ B)
    return Q @ U, S, Vh


def _by_one_qr(A: Tensor, B: Tensor) -> Svd:
    Q, R = torch.linalg.qr(A)
    U, S, Vh = _svd(R @ B)
    return Q @ U, S, Vh


FACTORED_SVD = Exercise(
    reference=reference.factored_svd,
    notebook=NOTEBOOK,
    title="An SVD from two thin factors",
    paper=LOW_RANK,
    points=3,
    minutes=20,
    difficulty=3,
    cases=_svd_cases,
    compare=Property(_is_an_svd),
    hints=(
        "If A had orthonormal columns and B orthonormal rows, what would the singular values of "
        "A @ B be? Now split each factor into such a part and a small rest.",
        "Every thin matrix is (orthonormal, thin) times (small, k × k): `torch.linalg.qr`, or an SVD "
        "of the thin matrix with `full_matrices=False`. What stands in the middle is (k, k).",
        "Decompose A, and B from its other side; multiply the two small rests; take the SVD of that; "
        "put the orthonormal parts back on the left of its U and on the right of its Vh.",
    ),
    mistakes=(
        Mistake(
            "V_for_Vh",
            lambda A, B: (*_as_in_the_paper(A, B)[:2], _as_in_the_paper(A, B)[2].T),
            "The third item is V, (m, k), where Vh, (k, m), was asked for: it stands on the right of "
            "the product as it is. A well-known library has mixed up the two for years.",
            facts=(88,),
            signature=lambda value, case: (
                value[2].shape[0] == value[2].shape[1]
                and _rebuilds(value[0], value[1], value[2].T, case)
            ),
        ),
        Mistake(
            "of_the_factors",
            _of_the_factors,
            "U is A's and Vh is B's, with the singular values multiplied in pairs. But what A writes "
            "last and what B reads first don't line up: a rotation lies between them.",
            facts=(88,),
            signature=_orthonormal_but_wrong,
        ),
        Mistake(
            "S_A_left_out",
            lambda A, B: _as_in_the_paper(A, B, "right"),
            "The stretching of A got lost on the way: the small middle matrix must hold everything "
            "of A that isn't orthonormal.",
            signature=_half_scaled("right"),
        ),
        Mistake(
            "S_B_left_out",
            lambda A, B: _as_in_the_paper(A, B, "left"),
            "The stretching of B got lost on the way: the small middle matrix must hold everything "
            "of B that isn't orthonormal.",
            signature=_half_scaled("left"),
        ),
        Mistake(
            "squared",
            lambda A, B: (
                _as_in_the_paper(A, B)[0],
                _as_in_the_paper(A, B)[1].square(),
                _as_in_the_paper(A, B)[2],
            ),
            "The singular values are squared: they look like eigenvalues of X Xᵀ. Which root is "
            "missing?",
            signature=_squared,
        ),
        Mistake(
            "not_orthonormal",
            lambda A, B: (
                A / A.norm(dim=0),
                A.norm(dim=0) * B.norm(dim=1),
                B / B.norm(dim=1)[:, None],
            ),
            "The product comes out right, but columns of U or rows of Vh aren't orthonormal. Columns "
            "of length 1 are not enough: they must be perpendicular too.",
            signature=_rebuilds_only,
        ),
        Mistake(
            "negative_singular_values",
            lambda A, B: (
                _as_in_the_paper(A, B)[0],
                -_as_in_the_paper(A, B)[1],
                -_as_in_the_paper(A, B)[2],
            ),
            "Some singular values are negative. The sign belongs to one of the vectors.",
            signature=_negative,
        ),
        Mistake(
            "not_turned_back",
            _not_turned_back,
            "This is the SVD of the small middle matrix. Its vectors are k long; the orthonormal "
            "parts of A and B have to go back on.",
        ),
        Mistake(
            "of_the_turned_product",
            lambda A, B: _svd(B @ A),
            "This is the SVD of B @ A. Eigenvalues allow a product to be turned round, singular "
            "values don't: the published paper has an erratum for this very step.",
            facts=(85,),
        ),
        Mistake(
            "S_as_a_matrix",
            lambda A, B: (
                _as_in_the_paper(A, B)[0],
                torch.diag(_as_in_the_paper(A, B)[1]),
                _as_in_the_paper(A, B)[2],
            ),
            "S came as a diagonal matrix. Asked for are its k entries, (k,).",
        ),
        Mistake(
            "full_matrices",
            lambda A, B: tuple(torch.linalg.svd(A @ B)),
            "U and Vh are square, (n, n) and (m, m), with vectors for singular values that are 0. "
            "Only k of them can be other than 0.",
        ),
        Mistake(
            "too_much_memory",
            lambda A, B: tuple(
                part[..., : A.shape[1]] if i < 2 else part[: A.shape[1]]
                for i, part in enumerate(_svd(A @ B))
            ),
            "The product itself was formed. It is the one thing that this way avoids.",
        ),
    ),
    variants=(
        Variant("as_in_the_paper", _as_in_the_paper, facts=("E", "P")),
        Variant("by_one_qr", _by_one_qr, facts=("E",)),
        Variant("by_gram", _by_gram, facts=("E", "T", "D")),
        Variant(
            "other_signs_and_order",
            lambda A, B: [
                -_as_in_the_paper(A, B)[0].flip(1),
                _as_in_the_paper(A, B)[1].flip(0),
                -_as_in_the_paper(A, B)[2].flip(0),
            ],
            facts=("P", "N"),
        ),
    ),
)
