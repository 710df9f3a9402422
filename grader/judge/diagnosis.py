"""What kind of mistake was it? Listed mistakes first, then slips, then patterns in the numbers.

A listed mistake is recognised by doing the same thing: its wrong function is put the same
questions, and it must answer (or fail) as the learner did in every case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from grader.judge.comparators import beyond_arithmetic, leaves, tolerance
from grader.judge.patterns import PATTERNS, Seen
from grader.judge.reading import Unreadable
from grader.judge.spec import Case, Exercise, Mistake
from grader.pupil.copies import clone
from grader.pupil.reply import Outcome, Reply
from grader.transformer import Transformer

_IGNORES = (
    "The answer is the same whatever the arguments are. "
    "Does the function use a variable of the notebook instead of its argument?"
)


@dataclass(frozen=True)
class Asked:
    """One case, put and answered: everything the diagnosis may look at.

    expected, value: as the comparator reads them; value is None where the answer was unreadable
    grades: one a part, all zero where there is no readable answer
    steady: every repetition of the question got the same answer
    """

    case: Case
    expected: Any
    atol: float
    reply: Reply
    value: Any = None
    unreadable: Unreadable | None = None
    grades: tuple[float, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    steady: bool = True

    @property
    def arrays(self) -> list[Tensor]:
        """What there is of numbers in the answer, also where its shape was not the one asked for."""
        if self.unreadable is not None:
            return [] if self.unreadable.array is None else [self.unreadable.array]
        return [] if self.value is None else leaves(self.value)

    @property
    def right(self) -> bool:
        return bool(self.grades) and all(grade >= 1.0 for grade in self.grades)


@dataclass(frozen=True)
class Diagnosis:
    """A name for the mistake ("" if none was recognised), the message, and a case that shows it."""

    name: str
    message: str
    shown_by: Asked | None = None


def diagnose(exercise: Exercise, asked: Sequence[Asked]) -> Diagnosis:
    """Name what went wrong. ``asked`` holds at least one case that isn't right."""
    failing = [one for one in asked if not one.right]
    for mistake in exercise.mistakes:
        if _does_the_same(exercise, mistake, asked):
            return Diagnosis(mistake.name, mistake.message, failing[0])
    if _ignores_arguments(asked):
        return Diagnosis("ignores_arguments", _IGNORES, failing[0])
    unread = next((one for one in failing if one.unreadable), None)
    if unread is not None and unread.unreadable is not None:
        seen = _same_pattern(
            [one for one in failing if one.unreadable is None or one.unreadable.name == "shape"]
        )
        if seen is not None and unread.unreadable.name == "shape":
            return Diagnosis(seen.name, seen.message, unread)
        return Diagnosis(unread.unreadable.name, unread.unreadable.message, unread)
    seen = _same_pattern(failing)
    if seen is not None:
        return Diagnosis(seen.name, seen.message, failing[0])
    return _some_right(asked, failing)


def _some_right(asked: Sequence[Asked], failing: Sequence[Asked]) -> Diagnosis:
    shown = failing[0]
    if len(failing) < len(asked):
        return Diagnosis(
            "own_sizes_only",
            f"Right in {len(asked) - len(failing)} of {len(asked)} cases, wrong {_when(shown)}. "
            "Is a size or a number built in that should come from the arguments?",
            shown,
        )
    return Diagnosis(
        "",
        "The result has the right form and other numbers than the reference; no known mistake gives them. "
        "Take the smallest example you can do by hand and compare step by step.",
        shown,
    )


def _when(one: Asked) -> str:
    if one.case.label:
        return one.case.label
    return (
        "for " + ", ".join(f"{axis} {size}" for axis, size in one.sizes.items())
        if one.sizes
        else "in others"
    )


def _does_the_same(exercise: Exercise, mistake: Mistake, asked: Sequence[Asked]) -> bool:
    """True where the wrong function behaves as the learner's in every case, and isn't right in all."""
    return all(_same_case(exercise, mistake, one) for one in asked)


def _same_case(exercise: Exercise, mistake: Mistake, one: Asked) -> bool:
    if mistake.signature is not None and one.value is not None:
        return one.right or _has_signature(mistake.signature, one)
    try:
        raw = mistake.answer(*clone(one.case.args))
    except Exception as error:
        refused = one.case.raises is not None and one.right and isinstance(error, one.case.raises)
        return refused or (one.reply.outcome is Outcome.CRASHED and _alike(one.reply.error, error))
    if one.reply.outcome is not Outcome.ANSWERED:
        return False
    if one.case.raises is not None:
        return True  # both answered where an error was asked for
    try:
        wrong = exercise.compare.read(raw, one.expected, one.case)
    except Unreadable as error:
        return one.unreadable is not None and _same_unreadable(one.unreadable, error)
    if one.value is None:
        return False
    # Both sides were computed in the learner's precision; a mistake may be larger than the right answer.
    slack = max(one.atol, tolerance(wrong, wrong))
    mine, theirs = _without_shared_nan(one.value, wrong)
    return bool(exercise.compare.same(mine, theirs, slack, one.case))


def _has_signature(signature: Callable[[Any, Case], bool], one: Asked) -> bool:
    try:
        return bool(signature(one.value, one.case))
    except Exception:
        if not beyond_arithmetic(one.value):
            raise
        return False


def _without_shared_nan(mine: Any, theirs: Any) -> tuple[Any, Any]:
    """NaN in the same places of both is the same mistake, though a NaN is never a right answer."""
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs):
        pairs = [_without_shared_nan(m, t) for m, t in zip(mine, theirs, strict=True)]
        return tuple(m for m, _ in pairs), tuple(t for _, t in pairs)
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor) and mine.shape == theirs.shape:
        shared = torch.isnan(mine) & torch.isnan(theirs)
        return mine.masked_fill(shared, 0.0), theirs.masked_fill(shared, 0.0)
    return mine, theirs


def _same_unreadable(mine: Unreadable, theirs: Unreadable) -> bool:
    """Unreadable for the same reason, and the same numbers where there are any."""
    if mine.array is None or theirs.array is None:
        return mine.message == theirs.message
    return mine.array.shape == theirs.array.shape and torch.allclose(
        mine.array, theirs.array, rtol=1e-3, atol=1e-4, equal_nan=True
    )


def raised(error: str, kind: type[Exception]) -> bool:
    """Whether the one line that an exception left names this kind."""
    return error.split(":")[0].strip() == kind.__name__


def _alike(error: str, other: Exception) -> bool:
    """Same kind of exception with the same text, sizes in it included."""
    return _squeezed(error) == _squeezed(f"{type(other).__name__}: {other}")


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text.splitlines()[0] if text else "").strip()


def _ignores_arguments(asked: Sequence[Asked]) -> bool:
    """The very same numbers in every case, although the expected ones differ between the cases."""
    asked = [one for one in asked if one.case.raises is None]
    values = [_content(one.value, one.arrays) for one in asked]
    if len(asked) < 2 or [] in values:
        return False
    wanted = [_content(one.expected, leaves(one.expected)) for one in asked]
    return all(_equal(v, values[0]) for v in values) and not all(
        _equal(w, wanted[0]) for w in wanted
    )


def _content(value: Any, arrays: list[Tensor]) -> list[Tensor] | frozenset[Any]:
    """What can be compared: a set as it is, a dict by what it says, anything else by its arrays."""
    if isinstance(value, dict):
        return frozenset(map(repr, value.items()))
    return frozenset(value) if isinstance(value, set | frozenset) else arrays


def _equal(
    mine: Sequence[Tensor] | frozenset[Any], theirs: Sequence[Tensor] | frozenset[Any]
) -> bool:
    if isinstance(mine, frozenset) or isinstance(theirs, frozenset):
        return mine == theirs
    return len(mine) == len(theirs) and all(
        a.shape == b.shape and bool((a == b).all()) for a, b in zip(mine, theirs, strict=True)
    )


def _same_pattern(failing: Sequence[Asked]) -> Seen | None:
    """The first pattern that fits every failing case in the same words."""
    pairs = [_pair(one) for one in failing]
    if not pairs or any(pair is None for pair in pairs):
        return None
    for pattern in PATTERNS:
        fitting: list[Seen] | None = None
        for one, pair in zip(failing, pairs, strict=True):
            assert pair is not None
            here = list(pattern(*pair, one.atol, one.sizes))
            fitting = here if fitting is None else [seen for seen in fitting if seen in here]
        if fitting:
            return fitting[0]
    return None


def _pair(one: Asked) -> tuple[Tensor, Tensor] | None:
    """An array of the answer with its expected one, also where the shapes differ.

    Of a tuple it is the first item that isn't right.
    """
    expected = one.expected
    if expected is None:
        return None
    if isinstance(one.value, tuple):
        both = zip(one.value, expected, one.grades or (0.0,), strict=False)
        wrong = [(mine, theirs) for mine, theirs, grade in both if grade < 1]
        if not wrong or not isinstance(wrong[0][0], Tensor):
            return None
        (mine, expected), *_ = wrong
    elif len(one.arrays) == 1 and not isinstance(expected, tuple | list | set | dict | str):
        (mine,) = one.arrays
    else:
        return None
    if isinstance(expected, Transformer):
        return None
    expected = torch.as_tensor(expected)
    return (mine, expected.to(mine.dtype)) if expected.is_complex() == mine.is_complex() else None
