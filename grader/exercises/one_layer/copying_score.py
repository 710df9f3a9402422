"""The eigenvalue test for copying, at a full vocabulary without the full table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import (
    FULL_MIB,
    FULL_VOCABULARY,
    NOTEBOOK,
    SUMMARIZING,
    Head,
    WithFloor,
    dense_ov,
)
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

SCORE_FLOOR = 1e-4


def _head(draw: Draw, d_vocab: int, d_model: int, d_head: int) -> Head:
    return (
        draw.normal(d_vocab, d_model),
        draw.normal(d_model, d_head, scale=d_model**-0.5),
        draw.normal(d_head, d_model, scale=d_head**-0.5),
        draw.normal(d_model, d_vocab, scale=d_vocab**-0.5),
    )


def _with_eigenvalues(draw: Draw, small: list[list[float]], d_vocab: int, d_model: int) -> Head:
    """A head whose full OV circuit has the non-zero eigenvalues of ``small``."""
    wanted = torch.tensor(small, dtype=torch.float64)
    W_E, W_V, _, W_U = _head(Draw(draw.seed + 1, torch.float64), d_vocab, d_model, len(small))
    W_O = wanted @ torch.linalg.pinv(W_U @ W_E @ W_V)
    W_E, W_V, W_O, W_U = (weight.to(draw.dtype) for weight in (W_E, W_V, W_O, W_U))
    return W_E, W_V, W_O, W_U


@functools.cache
def _full_size() -> Head:
    """Weights over a full vocabulary, drawn once a process; a dense circuit would take 10 GB."""
    return _head(Draw(0), FULL_VOCABULARY, 128, 32)


def _score_cases(draw: Draw) -> Iterator[Case]:
    d_head, d_model, d_vocab = sorted(draw.sizes(3, 3, 9))
    yield Case(_head(draw, d_vocab, d_model, d_head))
    n = draw.integer(4, 6)
    yield Case(_head(draw, n, n, n), "where all sizes are equal")
    turning = [[1.0, -2.0, 0.3], [2.0, 1.0, 0.0], [0.4, 0.0, draw.number(-2.0, -1.0)]]
    yield Case(_with_eigenvalues(draw, turning, 9, 7), "with complex eigenvalues")
    losing = [[-2.0, 0.5], [draw.number(0.2, 0.5), 0.7]]
    yield Case(_with_eigenvalues(draw, losing, 8, 5), "where the negative eigenvalue is the larger")
    yield Case(_head(Draw(draw.seed, torch.float64), 8, 5, 1), "with d_head 1, in float64")
    args = _head(draw, 400, 10, 4)
    yield Case(args, "with a vocabulary of 400 tokens", {"memory_mib": 0.45})  # dense: 0.61
    if draw.guarded:
        yield Case(
            _full_size(), "with the whole vocabulary of 50,257 tokens",
            {"memory_mib": FULL_MIB}, guarded=True,
        )  # fmt: skip


def _small(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    return (W_O @ W_U) @ (W_E @ W_V)


def _of_eigenvalues(score: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda *head: score(torch.linalg.eigvals(_small(*head).double()))


def _ratio(values: Tensor) -> Tensor:
    return values.real.sum() / values.abs().sum()


def _thin_frobenius(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    A, B = W_E @ W_V, W_O @ W_U
    return ((A.T @ A) * (B @ B.T)).sum().sqrt()


def _thin_nuclear(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    R_A, R_B = torch.linalg.qr(W_E @ W_V).R, torch.linalg.qr((W_O @ W_U).T).R
    norm: Tensor = torch.linalg.svdvals(R_A @ R_B.T).sum()
    return norm


COPYING_SCORE = Exercise(
    reference=reference.copying_score,
    notebook=NOTEBOOK,
    title="The eigenvalue test for copying",
    paper=SUMMARIZING,
    points=3,
    minutes=12,
    difficulty=2,
    cases=_score_cases,
    compare=WithFloor(SCORE_FLOOR),
    hints=(
        "The full OV circuit is a product of two thin factors. You have a function for the "
        "eigenvalues of such a product.",
        "W_E @ W_V is (d_vocab, d_head), W_O @ W_U is (d_head, d_vocab). Zero eigenvalues add "
        "nothing to either sum, so the d_head others are enough.",
        "Sum the eigenvalues and take the real part of that; divide by the sum of their absolute "
        "values, which are those of complex numbers. One real number between −1 and 1.",
    ),
    mistakes=(
        Mistake(
            "absolute_values_above",
            _of_eigenvalues(lambda values: values.abs().sum() / values.abs().sum()),
            "Every head gets 1: absolute values were taken before the sum above, as well as below. "
            "The signs must be free to cancel above.",
            facts=(68,),
            same_as=("singular_values",),
        ),
        Mistake(
            "singular_values",
            lambda *head: _thin_nuclear(*head) / _thin_nuclear(*head),
            "Every head gets 1: singular values are never negative. Eigenvalues were meant.",
            facts=(69,),
            same_as=("absolute_values_above",),
        ),
        Mistake(
            "absolute_real_parts_above",
            _of_eigenvalues(lambda values: values.real.abs().sum() / values.abs().sum()),
            "The real parts lost their sign before they were summed, so negative eigenvalues count "
            "as copying.",
            facts=(68,),
        ),
        Mistake(
            "absolute_value_of_the_sum",
            _of_eigenvalues(lambda values: values.sum().abs() / values.abs().sum()),
            "Right size, but never negative: the absolute value of the sum was taken. A head that "
            "lowers what it sees should score below 0.",
            facts=(72,),
        ),
        Mistake(
            "real_parts_below",
            _of_eigenvalues(lambda values: values.real.sum() / values.real.abs().sum()),
            "Below, only the real parts are counted. An eigenvalue that is mostly imaginary turns "
            "tokens into others; its whole size belongs below.",
            facts=(71,),
        ),
        Mistake(
            "share_of_positive_ones",
            _of_eigenvalues(lambda values: (values.real > 0).double().mean()),
            "This is the share of eigenvalues with a positive real part: a random head would get "
            "one half. The score weighs them by size and is 0 for a random head.",
            facts=(73,),
        ),
        Mistake(
            "symmetric_solver",
            lambda *head: _ratio(torch.linalg.eigvalsh(_small(*head).double()).cdouble()),
            "A solver for symmetric matrices was used on one that isn't. It reads one triangle only; "
            "even the sum above survives that by accident, the one below doesn't.",
            facts=(70,),
        ),
        Mistake(
            "of_W_OV",
            lambda W_E, W_V, W_O, W_U: _ratio(torch.linalg.eigvals((W_O @ W_V).double())),
            "These are the eigenvalues of W_OV, between directions of the stream. What a head does "
            "to *tokens* also depends on the embedding and the unembedding, even in sign.",
            facts=(75,),
        ),
        Mistake(
            "mean_eigenvalue",
            _of_eigenvalues(lambda values: values.real.mean()),
            "This is the mean of the eigenvalues. It grows with the size of the weights; the score "
            "divides that out and lies between −1 and 1.",
            facts=(84,),
        ),
        Mistake(
            "trace_over_norm",
            lambda *head: torch.trace(_small(*head)) / _thin_frobenius(*head),
            "The trace is divided by the Frobenius norm of the circuit. What belongs below is the "
            "sum of the absolute values of the eigenvalues.",
        ),
        Mistake(
            "singular_values_below",
            lambda *head: torch.trace(_small(*head)) / _thin_nuclear(*head),
            "Above stands the sum of the eigenvalues, below that of the *singular* values, which "
            "also see how skew the eigenvectors are.",
            facts=(69,),
        ),
        Mistake(
            "symmetric_solver_on_the_whole_table",
            lambda *head: _ratio(torch.linalg.eigvalsh(dense_ov(*head).double()).cdouble()),
            "A solver for symmetric matrices was used on the whole table, which isn't symmetric. And "
            "the table needn't be formed at all.",
            facts=(70,),
        ),
        Mistake(
            "too_much_memory",
            lambda *head: _ratio(torch.linalg.eigvals(dense_ov(*head).double())),
            "The table of the whole vocabulary was formed.",
        ),
    ),
    variants=(
        Variant("by_the_definition", _of_eigenvalues(_ratio), facts=("E",)),
        Variant(
            "through_the_stream",
            lambda W_E, W_V, W_O, W_U: _ratio(torch.linalg.eigvals(W_O @ (W_U @ W_E) @ W_V)),
            facts=("E",),
        ),
        Variant(
            "as_a_complex_number",
            lambda *head: _ratio(torch.linalg.eigvals(_small(*head))) + 1e-7j,
            facts=("N",),
        ),
        Variant(
            "paper_convention",
            lambda *head: _ratio(torch.linalg.eigvals(_small(*head).T)),
            facts=("X",),
        ),
        Variant(
            "trace_above",
            lambda *head: (
                torch.trace(_small(*head)) / torch.linalg.eigvals(_small(*head)).abs().sum()
            ),
            facts=("E", "T"),
        ),
        Variant(
            "numpy",
            lambda *head: float(_ratio(torch.from_numpy(np.linalg.eigvals(_small(*head).numpy())))),
            facts=("N",),
        ),
    ),
)
