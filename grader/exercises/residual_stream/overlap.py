"""Notebook 00: how much of what one layer writes another one can see."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits.residual_stream import read_write_overlap
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

_SLACK = 1e-4


def _of_rank(draw: Draw, rank: int, rows: int, columns: int) -> Tensor:
    """A matrix of exactly that rank at most: small integers, so that no rounding can raise it."""
    left, right = draw.integers((rows, rank), -3, 3), draw.integers((rank, columns), -3, 3)
    return (left @ right).to(draw.dtype) / 16


def _cases(draw: Draw) -> Iterator[Case]:
    d_a, d_b, d_model = sorted(draw.sizes(3, 3, 9))
    yield Case((draw.normal(d_a, d_model), draw.normal(d_model, d_b)))
    yield Case((draw.normal(6, 6), _of_rank(draw, 2, 6, 6)), "with all sizes equal and rank 2")
    yield Case((draw.normal(d_a, d_b), draw.normal(d_b, d_model)), "with a reader that sees all")
    yield Case(
        (draw.normal(d_b, d_model), _of_rank(draw, 2, d_model, d_b)),
        "with a W_in whose columns depend on each other",
    )
    yield Case(
        (draw.normal(4, d_model), _of_rank(draw, 2, d_model, d_model + 3)),
        "with a W_in that has more columns than d_model, and rank 2",
    )
    zeros = torch.zeros(d_a, d_model, dtype=draw.dtype)
    yield Case((zeros, draw.normal(d_model, d_b)), "with a W_out of zeros")
    double = Draw(draw.seed, torch.float64)
    yield Case((double.normal(1, d_model), double.normal(d_model, 1)), "in float64, d_a and d_b 1")


def _basis(W: Tensor) -> Tensor:
    U, S, _ = torch.linalg.svd(W, full_matrices=False)
    basis: Tensor = U[:, S.max() * 1e-5 < S]
    return basis


def _share(part: Tensor, whole: Tensor) -> Tensor:
    total: Tensor = whole.square().sum()
    share: Tensor = part.square().sum() / total
    return total if total == 0 else share


def _ratio(seen: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """‖seen‖² / ‖W_out‖² for another idea of what is seen."""
    return lambda W_out, W_in: _share(seen(W_out, W_in), W_out)


def _by_gram(W_out: Tensor, W_in: Tensor) -> Tensor:
    return _share(W_out @ W_in @ torch.linalg.inv(W_in.T @ W_in) @ W_in.T, W_out)


def _row_space(W_out: Tensor, W_in: Tensor) -> Tensor:
    return W_out @ _basis(W_in.T)


def _spectral(W_out: Tensor, W_in: Tensor) -> Tensor:
    def norm(A: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(A, ord=2) if A.numel() else A.sum()

    total: Tensor = norm(W_out)
    ratio: Tensor = norm(W_out @ _basis(W_in)) / total
    squared: Tensor = ratio**2
    return total if total == 0 else squared


def _mean_of_rows(W_out: Tensor, W_in: Tensor) -> Tensor:
    seen = (W_out @ _basis(W_in)).square().sum(1)
    shares: Tensor = seen / W_out.square().sum(1).clamp_min(1e-30)
    mean: Tensor = shares.mean()
    return mean


def _composition(W_out: Tensor, W_in: Tensor) -> Tensor:
    sizes: Tensor = W_out.norm() * W_in.norm()
    score: Tensor = (W_out @ W_in).norm() / sizes
    return sizes if sizes == 0 else score


def _unit_columns(W_out: Tensor, W_in: Tensor) -> Tensor:
    units: Tensor = W_in / W_in.norm(dim=0).clamp_min(1e-30)
    return W_out @ units


def _overlap_of_spaces(W_out: Tensor, W_in: Tensor) -> Tensor:
    writes = _basis(W_out.T)
    return _share(writes.T @ _basis(W_in), writes) if writes.numel() else W_out.sum()


def _no_rank_cut(value: Tensor, case: Case) -> bool:
    """Too much is seen, and only where W_in has less than full rank."""
    W_out, W_in = (argument.double() for argument in case.args)
    truth = float(read_write_overlap(W_out, W_in))
    full = int(torch.linalg.matrix_rank(W_in)) == min(W_in.shape)
    return not full and truth + _SLACK < float(value) <= 1 + _SLACK


def _zero_over_zero(value: Tensor, case: Case) -> bool:
    return not bool(case.args[0].any()) and not bool(torch.isfinite(value))


def _plain(W_out: Tensor, W_in: Tensor) -> Tensor:
    return _share(W_out @ _basis(W_in), W_out)


def _by_numpy(W_out: Tensor, W_in: Tensor) -> float:
    A, B = W_out.numpy(), W_in.numpy()
    total = np.linalg.norm(A) ** 2
    return float(np.linalg.norm(A @ B @ np.linalg.pinv(B)) ** 2 / total) if total else 0.0


def _by_least_squares(W_out: Tensor, W_in: Tensor) -> Tensor:
    nearest = torch.linalg.lstsq(W_in, W_out.T, driver="gelsd").solution
    return _share(W_in @ nearest, W_out)


def _by_gram_schmidt(W_out: Tensor, W_in: Tensor) -> Tensor:
    seen = torch.zeros_like(W_out)
    basis: list[Tensor] = []
    for column in W_in.T:
        left = column.clone()
        for direction in basis * 2:  # twice: once loses digits
            left = left - (left @ direction) * direction
        if left.norm() > 1e-4 * W_in.norm():
            basis.append(left / left.norm())
            seen = seen + torch.outer(W_out @ basis[-1], basis[-1])
    return _share(seen, W_out)


def _by_eigenvectors(W_out: Tensor, W_in: Tensor) -> Tensor:
    sizes, directions = torch.linalg.eigh(W_in @ W_in.T)
    return _share(W_out @ directions[:, sizes > 1e-5 * sizes.max()], W_out)


READ_WRITE_OVERLAP = Exercise(
    reference=read_write_overlap,
    notebook="00-residual-stream",
    title="How much of a write is read",
    paper="Virtual Weights and the Residual Stream as a Communication Channel",
    points=3,
    minutes=25,
    difficulty=3,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "A reader x @ W_in takes the dot product of x with each column of W_in. A part of x at right "
        "angles to all columns is never seen. Which space do the columns span?",
        "Find vectors of length 1, at right angles to each other, that span the column space, and as "
        "many as the rank says. The SVD of W_in has them. Then project every row of W_out.",
        "With those vectors as the columns of U, the projector is U times its transpose. Singular "
        "values that are zero up to rounding bring directions that W_in doesn't read: leave them out. "
        "Divide squared Frobenius norms, and mind a W_out of zeros.",
    ),
    mistakes=(
        Mistake(
            "not_squared",
            lambda a, b: _plain(a, b).sqrt(),
            "This is the ratio of the norms. The share is the ratio of their squares: squares of "
            "parts at right angles add up to one whole.",
            facts=(83,),
        ),
        Mistake(
            "columns_as_they_are",
            _ratio(lambda a, b: a @ b @ b.T),
            "W_in times its transpose is not a projector. It stretches what it sees by the sizes of "
            "the columns; a projector keeps seen directions exactly as they are.",
        ),
        Mistake(
            "read_not_projected",
            _ratio(lambda a, b: a @ b),
            "This compares what the reader gets out of W_in with what was written. How strongly W_in "
            "reads shouldn't matter, only which directions it reads at all.",
            facts=(84,),
        ),
        Mistake(
            "composition_score",
            _composition,
            "This is a composition score, the norm of the product over the product of the norms "
            "(notebook 04). Here the question is another: which share of the write lies in the space "
            "that is read?",
            facts=(84,),
        ),
        Mistake(
            "composition_score_squared",
            lambda a, b: _composition(a, b) ** 2,
            "Divided by the size of W_in as well, this mixes in how strongly each direction is read. "
            "A projector knows directions only.",
            facts=(83,),
        ),
        Mistake(
            "unit_columns",
            _ratio(_unit_columns),
            "The columns of W_in have length 1 here, but they are not at right angles to each other, "
            "so what two of them share is counted twice.",
        ),
        Mistake(
            "row_space",
            _ratio(_row_space),
            "These directions span the rows of W_in: the reader's own inside. The stream is on the "
            "other side, where the columns live.",
            facts=(88,),
        ),
        Mistake(
            "no_rank_cut",
            lambda a, b: _share(a @ torch.linalg.svd(b, full_matrices=False)[0], a),
            "Right as long as W_in has full rank. Otherwise an SVD or QR returns more directions than "
            "W_in reads; those with a singular value of zero (up to rounding) have to go.",
            signature=_no_rank_cut,
        ),
        Mistake(
            "inverse_of_gram",
            _by_gram,
            "The inverse of W_in.T @ W_in exists only if the columns of W_in are independent. "
            "Columns that depend on each other, or more columns than d_model, break it.",
        ),
        Mistake(
            "zero_over_zero",
            lambda a, b: (a @ _basis(b)).square().sum() / a.square().sum(),
            "Right, but for a W_out of zeros it divides zero by zero. Nothing is written then, and the "
            "share is 0 by definition.",
            facts=(13,),
            signature=_zero_over_zero,
        ),
        Mistake(
            "unseen_share",
            lambda a, b: 1 - _plain(a, b),
            "This is the share that is *not* seen. It and the one asked for add up to 1.",
        ),
        Mistake(
            "roles_exchanged",
            lambda a, b: _share(_basis(a.T).T @ b, b) if a.any() else a.sum(),
            "Reader and writer are exchanged: this is the share of W_in that lies where W_out writes.",
            facts=(80,),
        ),
        Mistake(
            "divided_by_reader",
            lambda a, b: (a @ _basis(b)).square().sum() / b.square().sum(),
            "What is seen is divided by the size of W_in. The whole it is a share of is what was "
            "written.",
            facts=(84,),
        ),
        Mistake(
            "not_a_share",
            lambda a, b: (a @ _basis(b)).square().sum(),
            "This is how much is seen, not which share of the write it is: doubling W_out changes it.",
            facts=(84,),
        ),
        Mistake(
            "mean_of_rows",
            _mean_of_rows,
            "This is the mean of the shares of the single rows, as if all rows were equally long. "
            "Sum the squares first, then divide.",
            facts=(12,),
        ),
        Mistake(
            "spectral_norm",
            _spectral,
            "This norm looks at the largest singular value only. The Frobenius norm takes all entries: "
            "the root of the sum of their squares.",
            facts=(82,),
        ),
        Mistake(
            "spaces_only",
            _overlap_of_spaces,
            "This compares the two spaces and forgets how much is written into each direction. "
            "Project W_out itself, not a basis of what it writes.",
        ),
    ),
    variants=(
        Variant("pseudo-inverse", lambda a, b: _share(a @ b @ torch.linalg.pinv(b), a), ("E",)),
        Variant("numpy, a Python float", _by_numpy, ("E", "N")),
        Variant("least squares", _by_least_squares, ("E",)),
        Variant("Gram and Schmidt", _by_gram_schmidt, ("E",)),
        Variant("eigenvectors of W_in @ W_in.T", _by_eigenvectors, ("E",)),
        Variant("the dense projector", lambda a, b: _share(a @ _basis(b) @ _basis(b).T, a), ("E",)),
        Variant("in float64", lambda a, b: _plain(a.double(), b.double()), ("D",)),
        Variant("shape (1,)", lambda a, b: _plain(a, b).reshape(1), ("S",)),
    ),
)
