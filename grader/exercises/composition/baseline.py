"""What random heads score: an answer that is itself random, judged within its own error.

The distribution that an answer must come from depends on the shapes only. It is measured once, by
the reference with 20,000 draws a shape, and kept here; `tests/exercises/test_composition.py`
measures it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition.common import ANALYZING, NOTEBOOK
from grader.judge.comparators import Property
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

DRAWS = 20_000
STANDARD_ERRORS = 4.0
OF_THE_ERROR = 0.2
"""How far the standard error itself may be off; with 200 samples or more it scatters by some 5%."""

# (d_model, d_head): mean and standard deviation of one score, from DRAWS draws with seed 0.
MEASURED = {
    (16, 4): (0.244108, 0.053090),
    (20, 5): (0.220316, 0.039061),
    (24, 4): (0.199497, 0.040954),
    (9, 1): (0.273136, 0.190192),
    (12, 1): (0.235121, 0.167019),
    (36, 6): (0.165295, 0.022887),
    (40, 5): (0.156231, 0.025009),
}

Scores = Callable[[int, int, int, torch.Generator], Tensor]


def _cases(draw: Draw) -> Iterator[Case]:
    def case(shape: tuple[int, int], samples: int, label: str = "", repeats: int = 1) -> Case:
        return Case((*shape, samples, draw.integer(0, 10**6)), label, repeats=repeats)

    yield case(draw.choice([(16, 4), (20, 5), (24, 4)]), draw.integer(250, 320))
    # One direction a head: the score is widest here, and its mean farthest from 1/sqrt(d_model).
    yield case(draw.choice([(9, 1), (12, 1)]), draw.integer(500, 600), "with d_head 1")
    yield case(draw.choice([(36, 6), (40, 5)]), draw.integer(200, 240), repeats=2)


def _holds(value: Any, expected: Any, case: Case) -> tuple[bool, bool]:
    return _fits(value, case, *MEASURED[case.args[:2]])


def _fits(value: Any, case: Case, mean: float, deviation: float) -> tuple[bool, bool]:
    """Are mean and standard error those of samples from a distribution with these two?"""
    came, error = (float(number) for number in value)
    should = deviation / sqrt(case.args[2])
    allowed = STANDARD_ERRORS * sqrt(should**2 + deviation**2 / DRAWS)
    return abs(came - mean) <= allowed, abs(error - should) <= OF_THE_ERROR * should


# --- what else could have been averaged --------------------------------------------------------------


def _heads(
    n: int, d_model: int, d_head: int, by: torch.Generator, noise: Callable[..., Tensor]
) -> list[Tensor]:
    """The four factors in a row, W_V and W_O of either head: n of each."""
    shapes = [(n, d_model, d_head), (n, d_head, d_model)] * 2
    return [noise(shape, generator=by, dtype=torch.float64) for shape in shapes]


def _norm(matrix: Tensor, order: Any = "fro") -> Tensor:
    result: Tensor = torch.linalg.matrix_norm(matrix, ord=order)
    return result


def _ratio(first: Tensor, second: Tensor, order: Any = "fro") -> Tensor:
    return _norm(first @ second, order) / (_norm(first, order) * _norm(second, order))


def _scores(
    of: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    noise: Callable[..., Tensor] = torch.randn,
) -> Scores:
    def scores(n: int, d_model: int, d_head: int, by: torch.Generator) -> Tensor:
        return of(*_heads(n, d_model, d_head, by, noise))

    return scores


def _full_rank(n: int, d_model: int, d_head: int, by: torch.Generator) -> Tensor:
    first, second = torch.randn((2, n, d_model, d_model), generator=by, dtype=torch.float64)
    return _ratio(first, second)


_right = _scores(lambda A, B, C, D: _ratio(A @ B, C @ D))
_squared = _scores(lambda A, B, C, D: _ratio(A @ B, C @ D) ** 2)
_spectral = _scores(lambda A, B, C, D: _ratio(A @ B, C @ D, 2))
_nuclear = _scores(lambda A, B, C, D: _ratio(A @ B, C @ D, "nuc"))
_cyclic = _scores(lambda A, B, C, D: _norm(B @ C @ D @ A) / (_norm(A @ B) * _norm(C @ D)))
_not_divided = _scores(lambda A, B, C, D: _norm(A @ B @ C @ D))
_uniform = _scores(lambda A, B, C, D: _ratio(A @ B, C @ D), torch.rand)
_above = _scores(lambda A, B, C, D: _ratio(A @ B, C @ D) - A.shape[-2] ** -0.5)

Summary = Callable[[Tensor], tuple[float, float]]


def _mean_and_error(scores: Tensor) -> tuple[float, float]:
    return float(scores.mean()), float(scores.std()) / sqrt(len(scores))


def _mistake(
    name: str,
    scores: Scores,
    message: str,
    facts: tuple[int, ...] = (),
    said: Summary = _mean_and_error,
) -> Mistake:
    """A wrong score or a wrong summary, known by its own distribution, drawn as often."""

    def answer(d_model: int, d_head: int, samples: int, seed: int) -> tuple[float, float]:
        return said(scores(samples, d_model, d_head, torch.Generator().manual_seed(seed)))

    def signature(value: Any, case: Case) -> bool:
        d_model, d_head, samples, _ = case.args
        drawn = scores(samples, d_model, d_head, torch.Generator().manual_seed(1))
        mean, error = said(drawn)
        mine, my_error = (float(number) for number in value)
        near = 5 * float(drawn.std()) * sqrt(2 / samples) + 1e-9
        return abs(mine - mean) <= near and abs(my_error - error) <= 0.45 * abs(error) + 1e-9

    return Mistake(name, answer, message, facts, signature=signature)


def _root_mean_square(scores: Tensor) -> tuple[float, float]:
    return float(scores.square().mean().sqrt()), _mean_and_error(scores)[1]


def _by_loop(d_model: int, d_head: int, samples: int, seed: int) -> tuple[float, float]:
    by = torch.Generator().manual_seed(seed)
    scores = [float(_right(1, d_model, d_head, by)) for _ in range(samples)]
    mean = sum(scores) / samples
    variance = sum((score - mean) ** 2 for score in scores) / (samples - 1)
    return mean, sqrt(variance / samples)


def _by_numpy(d_model: int, d_head: int, samples: int, seed: int) -> tuple[Any, Any]:
    by = np.random.default_rng(seed)
    A, B, C, D = (
        by.standard_normal((samples, *shape))
        for shape in [(d_model, d_head), (d_head, d_model)] * 2
    )
    first, second = A @ B, C @ D

    def norm(matrix: np.ndarray) -> Any:
        return np.sqrt((matrix**2).sum(axis=(1, 2)))

    scores = norm(first @ second) / norm(first) / norm(second)
    return scores.mean(), scores.std() / np.sqrt(samples)


def _by_other_sizes(d_model: int, d_head: int, samples: int, seed: int) -> tuple[float, float]:
    scores = _scores(lambda A, B, C, D: _ratio(7 * A @ B, C @ D / 50))
    return _mean_and_error(
        scores(samples, d_model, d_head, torch.Generator().manual_seed(2 * seed + 1))
    )


RANDOM_COMPOSITION = Exercise(
    reference=reference.random_composition,
    notebook=NOTEBOOK,
    title="What random heads score",
    paper=ANALYZING,
    points=3,
    minutes=15,
    difficulty=2,
    cases=_cases,
    compare=Property(_holds, "mean", "standard error"),
    hints=(
        "One sample is one pair of random heads: four thin Gaussian factors, two W_OVs, one V-score. "
        "Write that first, then repeat it.",
        "Make one `torch.Generator` from the seed, before the loop, and give it to every `torch.randn`. "
        "Batches work too: `torch.randn(samples, d_model, d_head, generator=…)`.",
        "The first result is the mean of the scores. The second says how far that *mean* may be off: "
        "the standard deviation of the scores, over the root of how many there are.",
    ),
    mistakes=(
        _mistake(
            "full_rank_matrices",
            _full_rank,
            "The mean is as it should be, the spread is too small: these look like full random "
            "matrices. A head's W_OV is a product of two thin ones, and thin heads scatter more.",
            facts=(86,),
        ),
        _mistake(
            "squared",
            _squared,
            "These look like squared scores. Each score is a norm over norms: take the root in "
            "every sample, then the mean.",
            facts=(83,),
        ),
        _mistake(
            "root_mean_square",
            _right,
            "The mean looks like the root of the mean of *squared* scores, or like a formula for "
            "it. That is a little more than the mean of the scores, and with d_head 1 much more.",
            facts=(83, 86),
            said=_root_mean_square,
        ),
        _mistake(
            "spectral_norm",
            _spectral,
            "These look like scores by largest singular values. The score is built from Frobenius "
            "norms; in a batch, say so: `torch.linalg.matrix_norm`.",
            facts=(82,),
        ),
        _mistake(
            "nuclear_norm",
            _nuclear,
            "These look like scores by sums of singular values. The score is built from Frobenius "
            "norms.",
            facts=(82,),
        ),
        _mistake(
            "cyclic",
            _cyclic,
            "The factors look turned in a circle inside the norm, which is allowed for a trace only "
            "(the paper's erratum, and the exercise before this one).",
            facts=(85,),
        ),
        _mistake(
            "no_denominator",
            _not_divided,
            "These look like norms of the product as they are. The size of both heads has to be "
            "divided out.",
            facts=(84,),
        ),
        _mistake(
            "uniform_factors",
            _uniform,
            "These look like factors with entries from 0 to 1 (`torch.rand`). All of them positive, "
            "they share a direction and compose strongly. Gaussian ones come from `torch.randn`.",
        ),
        _mistake(
            "baseline_subtracted",
            _above,
            "Something like 1/sqrt(d_model) has been taken off already. Here the plain mean is asked "
            "for: it *is* the baseline.",
            facts=(86,),
        ),
        Mistake(
            "nothing_sampled",
            lambda d_model, d_head, samples, seed: (d_model**-0.5, 0.0),
            "This is the formula, with an error of 0. Asked for is a measurement: the formula is "
            "for the mean *square*, so the mean of the scores is a little less.",
            facts=(86,),
            signature=lambda value, case: (
                float(value[1]) == 0 and abs(float(value[0]) - case.args[0] ** -0.5) <= 1e-6
            ),
        ),
        Mistake(
            "same_sample_each_time",
            lambda d_model, d_head, samples, seed: (
                float(_right(1, d_model, d_head, torch.Generator().manual_seed(seed))),
                0.0,
            ),
            "Every sample is the same one. Is the generator made from the seed inside the loop, so "
            "that it starts afresh each time?",
            facts=(121,),
            signature=lambda value, case: abs(float(value[1])) <= 1e-9,
        ),
        _mistake(
            "deviation_for_error",
            _right,
            "The second number is the spread of single scores. The mean of many is known better than "
            "that: how does its error shrink with their number?",
            said=lambda scores: (float(scores.mean()), float(scores.std())),
        ),
        _mistake(
            "divided_by_the_number",
            _right,
            "The second number is too small: the spread of the scores is divided by their number. "
            "The error of a mean shrinks more slowly than that.",
            said=lambda scores: (float(scores.mean()), float(scores.std()) / len(scores)),
        ),
        _mistake(
            "variance_for_error",
            _right,
            "The second number looks like a variance over the number of samples. That is the "
            "*square* of the standard error.",
            said=lambda scores: (float(scores.mean()), float(scores.var()) / len(scores)),
        ),
    ),
    variants=(
        Variant("loop", _by_loop, facts=("Z", "N")),
        Variant("numpy", _by_numpy, facts=("Z", "N", "D")),
        Variant("factors_of_any_size", _by_other_sizes, facts=("Z",)),
    ),
)
