"""Hold an answer against the expected one: close, close up to what doesn't matter, by behaviour.

A comparator first reads the raw answer, then grades each of its parts from 0 to 1 (mostly 0 or 1).
Comparisons are written ``err <= tol``: a NaN is never right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.reading import read_like
from grader.judge.spec import Case
from grader.transformer import Transformer

RELATIVE = 1e-4
ROUNDING_FLOOR = 2e-5
ROUNDING_SLACK = 30.0
LARGEST = 1e18  # float32 can still hold its square


def tolerance(expected: Any, rough: Any) -> float:
    """The absolute error to allow: a multiple of what the reference itself loses in float32.

    expected: the reference's answer in float64; rough: on the arguments as the learner gets them.
    Never less than 2e-5 of the largest expected value, so that another order of summation passes.
    """
    pairs = [
        (e, r)
        for e, r in zip(leaves(expected), leaves(rough), strict=True)
        if e.numel() and (e.is_floating_point() or e.is_complex())
    ]
    if not pairs:
        return 0.0
    scale = max(_largest(e) for e, _ in pairs)
    noise = max(_noise(e, r.to(e.dtype)) for e, r in pairs)
    return max(ROUNDING_FLOOR * scale, ROUNDING_SLACK * noise)


def _noise(expected: Tensor, rough: Tensor) -> float:
    """The largest difference; complex numbers are eigenvalues, which come in any order."""
    if expected.is_complex():
        return float((expected.reshape(-1, 1) - rough.reshape(1, -1)).abs().amin(dim=1).max())
    return _largest(expected - rough)


def _largest(value: Tensor) -> float:
    sizes = value.abs()
    largest = float(sizes.max()) if sizes.numel() else 0.0
    if math.isfinite(largest):
        return largest
    finite = sizes[torch.isfinite(value)]
    return float(finite.max()) if finite.numel() else 0.0


def leaves(value: Any) -> list[Tensor]:
    """The arrays in a result, in order: itself, the items of a tuple, the weights of a model."""
    if isinstance(value, Transformer):
        return list(value.weights().values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, bool | int | float | complex):
        return [
            torch.as_tensor(
                value, dtype=None if isinstance(value, bool | int | complex) else torch.float64
            )
        ]
    return []


def beyond_arithmetic(value: Any) -> bool:
    """Whether an answer holds numbers that a decomposition or a square may not survive.

    LAPACK on a matrix with a NaN or an infinity in it raises, never ends, or takes the process down,
    so such an answer is wrong before anything is computed from it.
    """
    numbers = [leaf for leaf in leaves(value) if leaf.is_floating_point() or leaf.is_complex()]
    return not all(bool((leaf.abs() <= LARGEST).all()) for leaf in numbers)


def close(value: Tensor, expected: Tensor, atol: float) -> bool:
    """Every entry within the tolerance; equal infinities count, NaN never does."""
    expected = expected.to(value.dtype)
    near = (value - expected).abs() <= atol + RELATIVE * expected.abs()
    return bool(torch.where(torch.isfinite(expected), near, value == expected).all())


class Comparator:
    """Arrays, numbers or models, entry by entry.

    parts: names of the parts that earn points separately (a tuple's items), () for all or nothing
    average: a part's grade over the cases is their mean instead of the least of them
    by_outcome: the reference isn't asked; ``expected`` is None (training is judged by its result)
    """

    by_outcome = False

    def __init__(self, *parts: str, average: bool = False) -> None:
        self.parts = parts
        self.average = average

    def read(self, raw: Any, expected: Any, case: Case) -> Any:
        """The answer in the form of ``expected``; raises ``reading.Unreadable``."""
        return read_like(raw, expected)

    def grade(self, value: Any, expected: Any, atol: float, case: Case) -> tuple[float, ...]:
        """One grade in [0, 1] a part."""
        if self.parts:
            items = zip(value, expected, strict=True)
            return tuple(float(self.same(v, e, atol, case)) for v, e in items)
        return (float(self.same(value, expected, atol, case)),)

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        """Are these two answers one and the same, up to what doesn't matter here?"""
        mine, theirs = leaves(value), leaves(other)
        if len(mine) != len(theirs) or any(
            m.shape != t.shape for m, t in zip(mine, theirs, strict=True)
        ):
            return False
        if not mine:
            return bool(value == other)
        return all(
            close(self.canonical(m), self.canonical(t), atol)
            for m, t in zip(mine, theirs, strict=True)
        )

    def canonical(self, array: Tensor) -> Tensor:
        """The array with what doesn't matter taken out."""
        return array


class UpToRowConstant(Comparator):
    """Equal after each row's mean is taken out: logits and log-probabilities are then the same."""

    def canonical(self, array: Tensor) -> Tensor:
        return array - array.mean(dim=-1, keepdim=True)


class ComplexMultiset(Comparator):
    """The same complex numbers in any order: each expected one takes the nearest that is left."""

    def read(self, raw: Any, expected: Any, case: Case) -> Any:
        return read_like(raw, torch.as_tensor(expected).to(torch.complex128))

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        left, wanted = value.flatten(), torch.as_tensor(other).to(torch.complex128).flatten()
        if len(left) != len(wanted):
            return False
        for number in wanted:
            distance = (left - number).abs()
            nearest = int(distance.argmin())
            if not float(distance[nearest]) <= atol + RELATIVE * float(number.abs()):
                return False
            left = torch.cat([left[:nearest], left[nearest + 1 :]])
        return True


class Unordered(Comparator):
    """The same members, as a set, list or tuple in any order: heads, pairs, token ids."""

    def read(self, raw: Any, expected: Any, case: Case) -> Any:
        return read_like(raw, frozenset())

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        return bool(value == read_like(other, frozenset()))


class UpToSign(Comparator):
    """Columns equal up to a sign or phase each, as singular and eigenvectors are."""

    def canonical(self, array: Tensor) -> Tensor:
        pivot = array.gather(-2, array.abs().argmax(dim=-2, keepdim=True))
        return array * (pivot.conj() / pivot.abs().clamp_min(1e-30))


class SameSpan(Comparator):
    """Columns that span the same space, whatever basis of it they are."""

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        if beyond_arithmetic(value) or beyond_arithmetic(other):
            return False
        return super().same(value, other, atol, case)

    def canonical(self, array: Tensor) -> Tensor:
        q, _ = torch.linalg.qr(array)
        return q @ q.mH


class Property(Comparator):
    """Judged by what the answer does: ``holds(value, expected, case)`` grades each part.

    It is only asked about numbers that arithmetic survives: no NaN, no infinity, none over 1e18.

    read: how the raw answer is read, where the reference's own answer isn't its pattern; needed
        with ``by_outcome``
    """

    def __init__(
        self,
        holds: Callable[[Any, Any, Case], Sequence[float | bool] | float | bool],
        *parts: str,
        read: Callable[[Any, Any, Case], Any] | None = None,
        average: bool = False,
        by_outcome: bool = False,
    ) -> None:
        super().__init__(*parts, average=average)
        self._holds, self._read, self.by_outcome = holds, read, by_outcome

    def read(self, raw: Any, expected: Any, case: Case) -> Any:
        return self._read(raw, expected, case) if self._read else super().read(raw, expected, case)

    def grade(self, value: Any, expected: Any, atol: float, case: Case) -> tuple[float, ...]:
        if beyond_arithmetic(value):
            return tuple(0.0 for _ in self.parts or ("",))
        grades = self._holds(value, expected, case)
        return tuple(map(float, grades)) if isinstance(grades, Sequence) else (float(grades),)
