"""Heads that erase, and keys that remember the token before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import beyond as reference
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "07-beyond"


def _eraser(draw: Draw, d_model: int, d_head: int) -> tuple[Tensor, Tensor]:
    """A head that takes away, mostly: its score lies well above 0, and below 1."""
    reads = draw.normal(d_model, d_head)
    noise = draw.normal(d_head, d_model, scale=0.15)
    return reads, -torch.linalg.pinv(reads) + noise


def _erasure_cases(draw: Draw) -> list[Case]:
    d_model, d_head = sorted(draw.sizes(2, 3, 9))[::-1]
    n = draw.integer(4, 7)
    double = Draw(draw.seed, torch.float64)
    plain = draw.normal(d_model, d_head), draw.normal(d_head, d_model)
    copier = _eraser(draw, d_model, d_head)
    return [
        Case(plain),
        Case(_eraser(draw, d_model, d_head), "for a head that erases"),
        Case((copier[0], -copier[1]), "for a head that copies"),
        Case((double.normal(n, n), double.normal(n, n)), "where d_head equals d_model, in float64"),
        Case((draw.normal(d_model, 1), draw.normal(1, d_model)), "with d_head 1"),
        Case((draw.normal(2 * n, 3), draw.normal(3, 2 * n)), "for a thin head in a wide stream"),
    ]


def _score(numbers: Tensor) -> Tensor:
    return -numbers.sum().real / numbers.abs().sum()


def _values(W_V: Tensor, W_O: Tensor) -> Tensor:
    return torch.linalg.eigvals((W_V @ W_O).double())


def _symmetric(W_V: Tensor, W_O: Tensor) -> Tensor:
    return torch.linalg.eigvalsh((W_V @ W_O).double())


def _share_negative(W_V: Tensor, W_O: Tensor) -> Tensor:
    return (torch.linalg.eigvals((W_O @ W_V).double()).real < 0).double().mean()


def _diagonal(W_V: Tensor, W_O: Tensor) -> Tensor:
    return _score((W_V @ W_O).double().diagonal())


def _real_parts(W_V: Tensor, W_O: Tensor) -> Tensor:
    real = _values(W_V, W_O).real
    return -real.sum() / real.abs().sum()


ERASURE_SCORE = Exercise(
    reference=reference.erasure_score,
    notebook=NOTEBOOK,
    title="How much a head erases",
    paper="Virtual Weights and the Residual Stream as a Communication Channel",
    points=2,
    minutes=10,
    difficulty=2,
    cases=_erasure_cases,
    compare=Comparator(),
    hints=(
        "A head that looks at its own position adds x W_OV to x. If that is to remove something, in "
        "which direction must x W_OV point?",
        "Eigenvalues of W_OV: −1 on a direction means that what was there is gone. The score is that "
        "of copying, with the sign turned round, for W_OV itself.",
        "Take the eigenvalues λ of the small matrix W_O @ W_V, or of the large one. Real part of their "
        "sum, divided by the sum of their absolute values, times −1.",
    ),
    mistakes=(
        Mistake(
            "copying_for_erasing",
            lambda W_V, W_O: -_score(_values(W_V, W_O)),
            "Right size, wrong sign: this is a copying score. A head that erases should come out near 1.",
        ),
        Mistake(
            "absolute_values_first",
            lambda W_V, W_O: -_values(W_V, W_O).abs().sum() / _values(W_V, W_O).abs().sum(),
            "Every head gets −1: the absolute value was taken before the sum.",
            facts=(68,),
        ),
        Mistake(
            "singular_values",
            lambda W_V, W_O: (
                torch.linalg.svdvals(W_V @ W_O).double().sum()
                / torch.linalg.svdvals(W_V @ W_O).double().sum()
            ),
            "Every head gets 1. Singular values are never negative and can't tell adding from taking "
            "away; eigenvalues can.",
            facts=(69,),
        ),
        Mistake(
            "symmetric_routine",
            lambda W_V, W_O: _score(_symmetric(W_V, W_O)),
            "The eigenvalues come from a routine for symmetric matrices. W_OV isn't symmetric.",
            facts=(70,),
        ),
        Mistake(
            "absolute_real_parts",
            _real_parts,
            "The denominator holds absolute values of the *real parts*. Take those of the complex "
            "numbers.",
            facts=(71,),
        ),
        Mistake(
            "absolute_of_the_sum",
            lambda W_V, W_O: _score(_values(W_V, W_O)).abs(),
            "The sign is lost, so a copying head counts as an eraser.",
            facts=(72,),
        ),
        Mistake(
            "share_of_negative_ones",
            _share_negative,
            "This counts how many eigenvalues are negative. Their sizes matter as well.",
            facts=(73,),
        ),
        Mistake(
            "diagonal_for_eigenvalues",
            _diagonal,
            "The numbers in the denominator are diagonal entries. They have the same sum as the "
            "eigenvalues, and other sizes.",
        ),
        Mistake(
            "not_divided",
            lambda W_V, W_O: -(W_V @ W_O).trace(),
            "The sum isn't divided by the sum of absolute values, so it depends on the size of the "
            "weights.",
        ),
        Mistake(
            "averaged_eigenvalues",
            lambda W_V, W_O: -(W_V @ W_O).trace() / W_V.shape[1],
            "This is the mean eigenvalue. Divide by the sum of absolute values instead.",
        ),
        Mistake(
            "divided_by_the_norm",
            lambda W_V, W_O: -(W_V @ W_O).trace() / (W_V @ W_O).norm(),
            "The denominator is the Frobenius norm. It is the sum of the eigenvalues' absolute values "
            "that is wanted.",
        ),
        Mistake(
            "one_minus_copying",
            lambda W_V, W_O: 1 + _score(_values(W_V, W_O)),
            "This is 1 minus the copying score, which runs from 0 to 2. Turn the sign round instead.",
        ),
    ),
    variants=(
        Variant(
            "small_matrix",
            lambda W_V, W_O: _score(torch.linalg.eigvals(W_O @ W_V)),
            facts=("E", "P"),
        ),
        Variant(
            "trace_over_sizes",
            lambda W_V, W_O: -(W_V @ W_O).trace() / torch.linalg.eigvals(W_O @ W_V).abs().sum(),
            facts=("E",),
        ),
        Variant(
            "transposed_W_OV",
            lambda W_V, W_O: _score(torch.linalg.eigvals((W_O @ W_V).T)),
            facts=("X", "E"),
        ),
        Variant(
            "numpy_number",
            lambda W_V, W_O: float(
                -(e := np.linalg.eigvals((W_O @ W_V).double().numpy())).sum().real / np.abs(e).sum()
            ),
            facts=("N", "D"),
        ),
        Variant(
            "complex_result",
            lambda W_V, W_O: -(e := torch.linalg.eigvals(W_O @ W_V)).sum() / e.abs().sum(),
            facts=("N",),
        ),
    ),
)


def _key_cases(draw: Draw) -> list[Case]:
    def alpha() -> float:
        return draw.choice([-1.0, 1.0]) * draw.number(0.5, 2.0)

    pos, d_head, head, batch = draw.sizes(4, 3, 8)
    n = draw.integer(3, 6)
    double = Draw(draw.seed, torch.float64)
    return [
        Case((draw.normal(pos, d_head), alpha())),
        Case((draw.normal(batch, head, pos, d_head), alpha()), "with batch and head axes"),
        Case((draw.normal(n, n), alpha()), "where d_head equals the number of positions"),
        Case((double.normal(head, pos, d_head), alpha()), "with a head axis, in float64"),
        Case((draw.normal(1, 1, d_head), alpha()), "with a single position and a single head"),
        Case((draw.normal(pos, d_head), torch.tensor(alpha())), "with alpha as a tensor"),
    ]


def _sigmoid(alpha: float | Tensor) -> float:
    return 1 / (1 + math.exp(-float(alpha)))


def _mix(own: float, k: Tensor, before: Tensor, first: Tensor | None = None) -> Tensor:
    mixed = own * k + (1 - own) * before
    return torch.cat([k[..., :1, :] if first is None else first, mixed[..., 1:, :]], dim=-2)


def _smear(share: Callable[[float | Tensor], float]) -> Callable[[Tensor, float | Tensor], Any]:
    return lambda k, alpha: _mix(share(alpha), k, k.roll(1, dims=-2))


def _in_a_row(k: Tensor, alpha: float | Tensor) -> Tensor:
    own, keys = _sigmoid(alpha), [k[..., 0, :]]
    for j in range(1, k.shape[-2]):
        keys.append(own * k[..., j, :] + (1 - own) * keys[-1])
    return torch.stack(keys, dim=-2)


def _from_the_next(k: Tensor, alpha: float | Tensor) -> Tensor:
    own = _sigmoid(alpha)
    mixed = own * k + (1 - own) * k.roll(-1, dims=-2)
    return torch.cat([mixed[..., :-1, :], k[..., -1:, :]], dim=-2)


def _rolled(k: Tensor, alpha: float | Tensor) -> Tensor:
    own = _sigmoid(alpha)
    return own * k + (1 - own) * k.roll(1, dims=-2)


def _zero_before(k: Tensor, alpha: float | Tensor) -> Tensor:
    return _mix(_sigmoid(alpha), k, k.roll(1, dims=-2), _sigmoid(alpha) * k[..., :1, :])


def _first_dropped(k: Tensor, alpha: float | Tensor) -> Tensor:
    return _rolled(k, alpha)[..., 1:, :]


def _along_d_head(k: Tensor, alpha: float | Tensor) -> Tensor:
    turned = k.mT
    return _mix(_sigmoid(alpha), turned, turned.roll(1, dims=-2)).mT


def _along_the_first_axis(k: Tensor, alpha: float | Tensor) -> Tensor:
    own = _sigmoid(alpha)
    return torch.cat([k[:1], own * k[1:] + (1 - own) * k[:-1]])


def _by_matrix(k: Tensor, alpha: float | Tensor) -> Tensor:
    pos, own = k.shape[-2], _sigmoid(alpha)
    mixing = own * torch.eye(pos, dtype=k.dtype)
    mixing = mixing + (1 - own) * torch.ones(pos, pos, dtype=k.dtype).tril(-1).triu(-1)
    mixing[0, 0] = 1.0
    return mixing @ k


def _in_numpy(k: Tensor, alpha: float | Tensor) -> np.ndarray:
    own, keys = _sigmoid(alpha), k.numpy().copy()
    keys[..., 1:, :] = own * k.numpy()[..., 1:, :] + (1 - own) * k.numpy()[..., :-1, :]
    return keys


SMEARED_KEYS = Exercise(
    reference=reference.smeared_keys,
    notebook=NOTEBOOK,
    title="Keys that remember the token before",
    paper="In-context Learning and Induction Heads (2022)",
    points=2,
    minutes=10,
    difficulty=1,
    cases=_key_cases,
    compare=Comparator(),
    hints=(
        "Every key but the first becomes a mix of itself and the one before it.",
        "σ is the sigmoid: σ(α) is the share of the key itself, the rest goes to the key before. Use "
        "keys as they came, not mixed ones.",
        "Positions are the last axis but one. Mix positions 1 and on with positions up to the last but "
        "one, then put the first key in front as it was.",
    ),
    mistakes=(
        Mistake(
            "first_takes_the_last",
            _rolled,
            "The first key is mixed with the *last* one: a roll goes round in a circle. The first key "
            "has nothing before it and stays as it was.",
            facts=(107,),
        ),
        Mistake(
            "first_mixed_with_zero",
            _zero_before,
            "The first key got smaller: it was mixed with a key of zeros. It should stay as it was.",
            facts=(107,),
        ),
        Mistake(
            "shares_swapped",
            _smear(lambda alpha: 1 - _sigmoid(alpha)),
            "The two shares are exchanged: σ(α) belongs to the key itself.",
            facts=(108,),
        ),
        Mistake(
            "alpha_without_sigmoid",
            _smear(lambda alpha: float(alpha)),
            "α itself is used as a share. It may be any number; σ brings it between 0 and 1.",
        ),
        Mistake(
            "tanh_for_sigmoid",
            _smear(lambda alpha: math.tanh(float(alpha))),
            "The share isn't a sigmoid of α but a tanh, which can be negative.",
        ),
        Mistake(
            "smeared_in_a_row",
            _in_a_row,
            "Each key is mixed with one that was already mixed, so a key remembers the whole past. Only "
            "the token before, as it came, belongs in it.",
        ),
        Mistake(
            "mixed_with_the_next",
            _from_the_next,
            "Each key is mixed with the one *after* it. That would let the future in.",
        ),
        Mistake(
            "first_dropped",
            _first_dropped,
            "The first position is gone. There is a key for every position.",
        ),
        Mistake(
            "along_d_head",
            _along_d_head,
            "The mix runs along d_head, the last axis. Positions are the axis before.",
        ),
        Mistake(
            "along_the_first_axis",
            _along_the_first_axis,
            "The mix runs along the first axis. With heads or batches in front that is another one: "
            "count from the end.",
        ),
        Mistake(
            "previous_key_only",
            lambda k, alpha: _mix(0.0, k, k.roll(1, dims=-2)),
            "Only the key before is left. The mix keeps a share of the key itself.",
        ),
        Mistake(
            "sum_not_mix",
            lambda k, alpha: torch.cat(
                [k[..., :1, :], k[..., 1:, :] + (1 - _sigmoid(alpha)) * k[..., :-1, :]], dim=-2
            ),
            "The key itself isn't scaled, so the two shares don't sum to 1.",
        ),
    ),
    variants=(
        Variant("mixing_matrix", _by_matrix, facts=("E",)),
        Variant("numpy", _in_numpy, facts=("N",)),
        Variant(
            "where",
            lambda k, alpha: torch.where(
                torch.arange(k.shape[-2])[:, None] > 0, _rolled(k, alpha), k
            ),
            facts=("E",),
        ),
    ),
)
