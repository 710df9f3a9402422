"""A matrix that passes the eigenvalue test and lowers a token's own logit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import NOTEBOOK, SUMMARIZING
from grader.judge.comparators import Property
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

_ZERO = 1e-4  # relative to the largest eigenvalue: a double eigenvalue comes out so far off


def _trap_cases(draw: Draw) -> Iterator[Case]:
    n, larger = sorted(draw.sizes(2, 3, 9))
    yield Case((n,))
    yield Case((2,), "with n 2")
    yield Case((larger,))


def _eigenvalues(value: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts, in units of the largest eigenvalue (of the largest entry if all are 0)."""
    values = torch.linalg.eigvals(value)
    size = float(values.abs().max()) or float(value.abs().max()) or 1.0
    return values.real / size, values.imag / size


def _all_real(value: Tensor) -> bool:
    return bool((_eigenvalues(value)[1].abs() <= _ZERO).all())


def _all_positive(value: Tensor) -> bool:
    return _all_real(value) and bool((_eigenvalues(value)[0] > _ZERO).all())


def _finite(value: Tensor) -> bool:
    return bool(torch.isfinite(value).all())


def _own_logit_lowered(value: Tensor) -> bool:
    return bool((value.diagonal() < 0).any())


def _is_a_trap(value: Tensor, expected: Any, case: Case) -> bool:
    return _finite(value) and _own_logit_lowered(value) and _all_positive(value)


def _trap(test: Callable[[Tensor], bool]) -> Callable[[Tensor, Case], bool]:
    return lambda value, case: _finite(value) and test(value)


def _symmetric(value: Tensor) -> bool:
    return bool(((value - value.T).abs() <= 1e-9 * value.abs().max()).all())


def _triangular(value: Tensor) -> bool:
    return bool((value.tril(-1) == 0).all()) or bool((value.triu(1) == 0).all())


def _with_corner(n: int, corner: list[list[float]]) -> Tensor:
    matrix = torch.eye(n, dtype=torch.float64)
    matrix[:2, :2] = torch.tensor(corner, dtype=torch.float64)
    return matrix


def _from_eigenvectors(n: int) -> np.ndarray:
    """Two almost parallel eigenvectors with eigenvalues 1 and 5, the rest along the axes."""
    vectors = np.eye(n)
    vectors[:2, :2] = [[1.0, 1.0], [1.0, 2.0]]
    matrix: np.ndarray = vectors @ np.diag([5.0, *np.ones(n - 1)]) @ np.linalg.inv(vectors)
    return matrix


def _searched(n: int) -> Any:
    generator = torch.Generator().manual_seed(n)
    base = torch.diag(torch.arange(1.0, n + 1, dtype=torch.float64))
    while True:
        turn = torch.randn(n, n, generator=generator, dtype=torch.float64)
        matrix = turn @ base @ torch.linalg.inv(turn)
        if _is_a_trap(matrix, None, Case((n,))):
            return matrix


EIGENVALUE_TRAP = Exercise(
    reference=reference.eigenvalue_trap,
    notebook=NOTEBOOK,
    title="A matrix that fools the eigenvalues",
    paper=SUMMARIZING,
    points=2,
    minutes=15,
    difficulty=2,
    cases=_trap_cases,
    compare=Property(_is_a_trap),
    hints=(
        "Begin with n = 2. The eigenvalues are the roots of λ² − trace · λ + determinant. Which "
        "trace and determinant make both of them positive?",
        "One diagonal entry is negative, so the other must more than make up for it. Their product "
        "is then negative; what must the other two entries do to the determinant?",
        "Choose the diagonal with a positive sum, then two off-diagonal entries of opposite sign, "
        "large enough for a positive determinant and small enough for real roots (trace² at least "
        "4 times the determinant). For larger n, put ones on the rest of the diagonal.",
    ),
    mistakes=(
        Mistake(
            "symmetric",
            lambda n: _with_corner(n, [[3.0, 1.0], [1.0, -1.0]]),
            "Your matrix is symmetric, and one of its eigenvalues is negative. For a symmetric "
            "matrix a diagonal entry is a weighted mean of the eigenvalues, so it can't be negative "
            "when they are all positive. The trap needs eigenvectors that aren't perpendicular.",
            facts=(70,),
            signature=_trap(lambda value: _symmetric(value) and not _all_positive(value)),
        ),
        Mistake(
            "triangular",
            lambda n: _with_corner(n, [[3.0, 1.0], [0.0, -1.0]]),
            "In a triangular matrix the eigenvalues *are* the diagonal entries, so a negative one is "
            "an eigenvalue. Both triangles have to take part.",
            signature=_trap(lambda value: _triangular(value) and _own_logit_lowered(value)),
        ),
        Mistake(
            "no_negative_diagonal",
            lambda n: torch.eye(n),
            "All eigenvalues are positive, but no diagonal entry is negative: every token still "
            "raises itself.",
            signature=_trap(lambda value: _all_positive(value) and not _own_logit_lowered(value)),
        ),
        Mistake(
            "complex_eigenvalues",
            lambda n: _with_corner(n, [[3.0, -4.0], [2.0, -1.0]]),
            "The real parts are positive, but two eigenvalues are complex: the off-diagonal entries "
            "turn too strongly. Compare trace² with 4 times the determinant.",
            signature=_trap(
                lambda value: not _all_real(value) and bool((_eigenvalues(value)[0] > 0).all())
            ),
        ),
        Mistake(
            "zero_eigenvalue",
            lambda n: _with_corner(n, [[2.0, -2.0], [1.0, -1.0]]),
            "An eigenvalue is 0: the determinant vanishes. All of them must be above 0.",
            signature=_trap(
                lambda value: (
                    _all_real(value)
                    and bool((_eigenvalues(value)[0].abs() <= _ZERO).any())
                    and bool((_eigenvalues(value)[0] >= -_ZERO).all())
                )
            ),
        ),
        Mistake(
            "negative_eigenvalue",
            lambda n: _with_corner(n, [[2.0, 2.0], [1.0, -1.0]]),
            "An eigenvalue is negative. With two rows: the product of the eigenvalues is the "
            "determinant. Look at its sign.",
            signature=_trap(lambda value: bool((_eigenvalues(value)[0] < -_ZERO).any())),
        ),
        Mistake(
            "two_by_two",
            lambda n: _with_corner(2, [[4.0, -2.0], [3.0, -1.0]]),
            "A (2, 2) matrix came whatever n was. Fill up to (n, n) in a way that adds only positive "
            "eigenvalues.",
            facts=(119,),
        ),
    ),
    variants=(
        Variant("double_eigenvalue", lambda n: _with_corner(n, [[3.0, -4.0], [1.0, -1.0]])),
        Variant("from_eigenvectors", _from_eigenvectors, facts=("E", "N")),
        Variant("found_by_search", _searched, facts=("E", "Z")),
        Variant("transposed", lambda n: reference.eigenvalue_trap(n).T, facts=("X",)),
        Variant("float32", lambda n: reference.eigenvalue_trap(n).float(), facts=("D",)),
    ),
)
