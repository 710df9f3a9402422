"""General patterns of wrong answers: what kind of wrong, seen from the numbers alone.

Each pattern looks at one failing case (value and expected, both read) and yields what it saw. The
diagnosis keeps a pattern only if it fits every failing case in the same words. A message may say
*how* an answer is off (a factor, an axis); it never says what would have been right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from grader.judge.comparators import close


@dataclass(frozen=True)
class Seen:
    """A pattern that fits: its name, and what to tell the learner; both must agree between cases."""

    name: str
    message: str


Pattern = Callable[[Tensor, Tensor, float, Mapping[str, int]], Iterator[Seen]]


def not_finite(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if bool(torch.isfinite(expected).all()) and not bool(torch.isfinite(value).all()):
        what = "NaN" if bool(torch.isnan(value).any()) else "infinite values"
        yield Seen(
            "not_finite",
            f"The result holds {what}. Where could a 0/0, a log of 0 or a row of only −inf arise?",
        )


def transposed(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if value.ndim < 2 or expected.ndim < 2:
        return
    if value.shape == expected.mT.shape and close(value, expected.mT, atol):
        yield Seen(
            "transposed",
            "Right numbers, rows and columns exchanged: this is the transpose. "
            "In row convention a matrix reads its rows and writes its columns.",
        )


def permuted_axes(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if value.ndim != expected.ndim or not 3 <= value.ndim <= 4:
        return
    for order in itertools.permutations(range(expected.ndim)):
        turned = expected.permute(order)
        if (
            order != tuple(range(expected.ndim))
            and turned.shape == value.shape
            and close(value, turned, atol)
        ):
            yield Seen(
                "permuted_axes",
                f"Right numbers, axes in another order: yours are the asked ones in order {order}.",
            )


def negated(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if _fits(value, -expected, atol):
        yield Seen("negated", "Right size, wrong sign, everywhere.")


def constant_factor(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if value.shape != expected.shape or value.is_complex() or not _varies(expected):
        return
    norm = float((expected * expected).sum())
    ratio = float((value * expected).sum()) / norm if norm > 0 else math.nan
    if (
        not math.isfinite(ratio)
        or abs(ratio) < 1e-6
        or not close(value, ratio * expected, atol * max(1.0, abs(ratio)))
    ):
        return
    for label, factor in _known_factors(sizes):
        if math.isclose(ratio, factor, rel_tol=1e-3):
            yield Seen("constant_factor", f"Every number is off by one constant factor: {label}.")
    yield Seen("constant_factor", f"Every number is off by one constant factor, {ratio:.4g}.")
    yield Seen(
        "built_in_factor",
        "Every number is off by a factor that is another in each case. "
        "Is a size built in that should be read off the arguments?",
    )


def _known_factors(sizes: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    """Factors that people forget or add, as 'your result is the asked one times …'."""
    for axis, size in sizes.items():
        if size > 1:
            yield f"yours is √{axis} times too large", math.sqrt(size)
            yield f"yours is √{axis} times too small", 1 / math.sqrt(size)
            yield f"yours is {axis} times too large", float(size)
            yield f"yours is {axis} times too small", 1 / size
    yield "1/ln 2, so this is in bits and not in nats", 1 / math.log(2)
    yield "yours is twice as large", 2.0
    yield "yours is half as large", 0.5


def constant_offset(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if value.shape != expected.shape or value.is_complex() or value.numel() < 2:
        return
    if close(value - value.mean(), expected - expected.mean(), atol):
        yield Seen("constant_offset", "Every number is off by the same added constant.")


def row_constant(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if (
        value.shape != expected.shape
        or value.ndim < 2
        or expected.shape[-1] < 2
        or value.is_complex()
    ):
        return
    if close(
        value - value.mean(-1, keepdim=True), expected - expected.mean(-1, keepdim=True), atol
    ):
        yield Seen(
            "row_constant",
            "Each row is off by a constant of its own. Logits and log-probabilities differ just so: "
            "which of the two was asked for?",
        )


def row_scale(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if (
        value.shape != expected.shape
        or value.ndim < 2
        or expected.shape[-1] < 2
        or value.is_complex()
    ):
        return
    scale = (value * expected).sum(-1, keepdim=True) / (expected * expected).sum(-1, keepdim=True)
    if bool((scale.abs() > 1e-6).all()) and close(
        value, scale * expected, atol * max(1.0, float(scale.abs().max()))
    ):
        yield Seen(
            "row_scale", "Each row is off by a factor of its own. Over what is a row normalised?"
        )


def log_or_exp(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if value.is_complex() or value.shape != expected.shape:
        return
    if bool((value > 0).all()) and close(value.log(), expected, max(atol, 1e-4)):
        yield Seen("exponentiated", "These are probabilities; their logarithms were asked for.")
    if bool((expected > 0).all()) and close(value.exp(), expected, max(atol, 1e-4)):
        yield Seen("logarithm", "These are logarithms; the numbers themselves were asked for.")


def wrong_axis_normalised(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if value.shape != expected.shape or value.ndim < 2 or value.is_complex():
        return
    for name, sums in (("probabilities", _sums), ("log-probabilities", _log_sums)):
        if not _all_one(sums(expected, -1)) or _all_one(sums(value, -1)):
            continue
        for axis in range(value.ndim - 1):
            if _all_one(sums(value, axis)):
                yield Seen(
                    "wrong_axis_normalised",
                    f"The {name} sum to 1 along axis {axis}, not along the last one.",
                )


def future_leaks(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if (
        value.shape != expected.shape
        or value.ndim < 2
        or value.shape[-1] != value.shape[-2]
        or value.shape[-1] < 2
    ):
        return
    if bool((expected.triu(1) == 0).all()) and not float(value.triu(1).abs().max()) <= 1e-6:
        yield Seen(
            "future_leaks",
            "Entries above the diagonal are not zero: a destination reads from its own future.",
        )


def rolled(
    value: Tensor, expected: Tensor, atol: float, sizes: Mapping[str, int]
) -> Iterator[Seen]:
    if value.shape != expected.shape or value.is_complex():
        return
    for axis in range(value.ndim):
        for step in (1, -1):
            size = value.shape[axis]
            if size < 3:
                continue
            # The row that wraps round may hold anything: a shift loses it.
            mine = value.narrow(axis, 1 if step == 1 else 0, size - 1)
            theirs = expected.narrow(axis, 0 if step == 1 else 1, size - 1)
            if _varies(theirs) and close(mine, theirs, atol):
                yield Seen("rolled_by_one", f"Right numbers, off by one along axis {axis}.")


PATTERNS: tuple[Pattern, ...] = (
    not_finite,
    transposed,
    permuted_axes,
    negated,
    constant_factor,
    constant_offset,
    row_constant,
    log_or_exp,
    wrong_axis_normalised,
    row_scale,
    future_leaks,
    rolled,
)


def _fits(value: Tensor, other: Tensor, atol: float) -> bool:
    return value.shape == other.shape and _varies(other) and close(value, other, atol)


def _varies(value: Tensor) -> bool:
    """Is there anything in it to recognise? Zeros equal their transpose, their negative, …"""
    return value.numel() > 0 and float(value.abs().max()) > 1e-9


def _sums(value: Tensor, axis: int) -> Tensor:
    return value.sum(axis) if bool((value >= 0).all()) else torch.full((1,), torch.nan)


def _log_sums(value: Tensor, axis: int) -> Tensor:
    return value.exp().sum(axis) if bool((value <= 1e-9).all()) else torch.full((1,), torch.nan)


def _all_one(sums: Tensor) -> bool:
    return bool(((sums - 1).abs() <= 1e-4).all())
