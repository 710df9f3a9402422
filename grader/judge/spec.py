"""How an exercise is declared: its cases, its reference, the mistakes learners make, the hints."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.judge.comparators import Comparator
    from grader.judge.draw import Draw


@dataclass(frozen=True)
class Case:
    """One question: arguments for the learner's function.

    label: what is special about it, in a learner's words ("with a single head"); "" for a plain one
    context: what the comparator needs beside the reference's answer (a floor, held-out text)
    repeats: how often the question is put; all answers must be equal to 1e-5
    guarded: too large for a learner's kernel; put only where the answer runs in its own process,
        and only after all other cases were answered rightly. Yield it only ``if draw.guarded``.
    raises: the exception that the answer must raise here, as the reference does; None for none
    """

    args: tuple[Any, ...]
    label: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 1
    guarded: bool = False
    raises: type[Exception] | None = None


@dataclass(frozen=True)
class Mistake:
    """A wrong idea, what it would have answered, and what to tell the learner who had it.

    answer: the wrong function, same arguments as the reference; it may raise, as the learner's would
    message: names the idea and where to look; never the solution or the values
    facts: the numbers of the entry in the course's list of learners' mistakes
    same_as: names of mistakes of this exercise that no case can tell from this one
    signature: where one wrong function can't stand for all (property exercises):
        (answer as read, case) → is it this mistake? Used beside ``answer``, which tests still call.
        It also meets NaN and infinities, so no decomposition may be computed in it.
    """

    name: str
    answer: Callable[..., Any]
    message: str
    facts: tuple[int, ...] = ()
    same_as: tuple[str, ...] = ()
    signature: Callable[[Any, Case], bool] | None = None


@dataclass(frozen=True)
class Variant:
    """A legitimate way to answer that must pass: another algorithm, type, order or convention."""

    name: str
    answer: Callable[..., Any]
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Budget:
    """Limits for all cases of an exercise together: seconds of wall and CPU time, MiB of memory.

    guarded_wall: seconds for each guarded case, on top of ``wall``
    """

    wall: float = 10.0
    cpu: float = 10.0
    memory_mib: int = 1024
    guarded_wall: float = 60.0


@dataclass(frozen=True)
class Exercise:
    """An exercise, declared in one place. Its name and arguments are its reference's.

    reference: from grader.circuits; called on float64 copies for the expected answer and on the
        arguments as they are for the rounding error to allow
    cases: draws the questions afresh: every dimension another size, weights asymmetric, head count
        1 and batch 1 among them
    compare: how an answer is held against the expected one
    title: a few words for the progress map
    paper: the section of the paper it comes from
    hints: two or more, from a nudge to nearly there; none prints the solution
    minutes, difficulty (1–3): what a learner should expect
    free_rng: the answer may use the global random generators (training only)
    """

    reference: Callable[..., Any]
    notebook: str
    title: str
    paper: str
    points: int
    minutes: int
    difficulty: int
    cases: Callable[[Draw], Iterable[Case]]
    compare: Comparator
    hints: tuple[str, ...]
    mistakes: tuple[Mistake, ...] = ()
    variants: tuple[Variant, ...] = ()
    budget: Budget = Budget()
    free_rng: bool = False

    @property
    def name(self) -> str:
        return self.reference.__name__

    @functools.cached_property
    def parameters(self) -> tuple[str, ...]:
        """The arguments a case fills in; keyword-only ones of the reference are its own affair."""
        named = inspect.signature(self.reference).parameters.values()
        return tuple(p.name for p in named if p.kind is not p.KEYWORD_ONLY)
