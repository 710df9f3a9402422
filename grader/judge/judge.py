"""The judge: draw questions, put them to a pupil, hold the answers against the reference, say why.

``judge_all`` reads as the five stages: draw → expect (``_pose``), ask → grade → say (``_settle``).
Only what happens before a question is handed over, or in our own arithmetic on answers already
read, is a GRADER_ERROR. Everything after the hand-over is the learner's verdict.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from grader.judge.comparators import leaves, tolerance
from grader.judge.diagnosis import Asked, raised
from grader.judge.draw import Draw, fresh_seed
from grader.judge.reading import Unreadable
from grader.judge.saying import grader_error, say
from grader.judge.spec import Case, Exercise
from grader.judge.verdict import Verdict
from grader.pupil.calling import InProcess
from grader.pupil.guards import one_thread
from grader.pupil.memory import warm_up
from grader.pupil.reply import Ask, Outcome, Pupil, Reply, Series
from grader.transformer import Transformer

REPEATABLE = 1e-5


@dataclass(frozen=True)
class Question:
    """A case with the reference's answer to it, in float64, and the error to allow."""

    case: Case
    expected: Any
    atol: float
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Posed:
    """The questions of an exercise, ready to be put.

    guarded: the large cases, which wait for the others; seconds: that all this took
    """

    exercise: Exercise
    seed: int
    questions: Sequence[Question]
    guarded: Sequence[Case]
    seconds: float


def judge(exercise: Exercise, pupil: Pupil, seed: int | None = None) -> Verdict:
    """Judge one answer. Never raises; a fault of ours is the verdict GRADER_ERROR.

    seed: what the cases are drawn from (fresh from the system if None); the same seed and answer
    give the same verdict.
    """
    return judge_all([(exercise, fresh_seed() if seed is None else seed)], pupil)[0]


@one_thread()
def judge_all(asked: Sequence[tuple[Exercise, int]], pupil: Pupil) -> list[Verdict]:
    """`judge` several answers of one pupil: (exercise, seed) → verdict, in order."""
    posed = [_pose(exercise, seed, pupil.guarded) for exercise, seed in asked]
    many = [_series(one.exercise, one.questions) for one in posed if isinstance(one, Posed)]
    ahead = pupil.ahead(many) if len(many) > 1 else {}
    return [
        one if isinstance(one, Verdict) else _settle(one, pupil, ahead.get(one.exercise.name))
        for one in posed
    ]


def _pose(exercise: Exercise, seed: int, guarded: bool) -> Posed | Verdict:
    """Draw and expect; the verdict GRADER_ERROR where that fails."""
    started = time.perf_counter()
    try:
        drawn = exercise.cases(Draw(seed, guarded=guarded))
        cases = [case for case in drawn if guarded or not case.guarded]
        questions = [_expect(exercise, case) for case in cases if not case.guarded]
        seconds = time.perf_counter() - started
        if not guarded and any("memory_mib" in case.context for case in cases):
            warm_up()  # seconds, once a process, and not the learner's
    except Exception as error:
        return grader_error(exercise, error, seed, time.perf_counter() - started)
    return Posed(exercise, seed, questions, [case for case in cases if case.guarded], seconds)


def _settle(posed: Posed, pupil: Pupil, came: Sequence[Reply] | None) -> Verdict:
    """Ask, grade and say. came: the replies, where they are there already."""
    exercise, questions = posed.exercise, posed.questions
    # What a notebook says of its own seconds may be any number.
    took = min(sum(reply.seconds for reply in came or ()), exercise.budget.wall)
    started = time.perf_counter() - posed.seconds - took
    try:
        replies = pupil.replies(_series(exercise, questions)) if came is None else came
        asked = list(_graded(exercise, questions, replies))
        if all(_fits(one) for one in asked):
            if len(asked) < len(questions):
                raise RuntimeError(f"{len(asked)} of {len(questions)} questions were answered.")
            asked += _ask_guarded(exercise, pupil, posed.guarded)
        return say(exercise, asked, posed.seed, time.perf_counter() - started)
    except Exception as error:
        return grader_error(exercise, error, posed.seed, time.perf_counter() - started)


def judge_here(exercise: Exercise, answer: Callable[..., Any], seed: int | None = None) -> Verdict:
    """`judge` a function in this very process: for a learner's own notebook, never a stranger's."""
    return judge(exercise, InProcess({exercise.name: answer}), seed)


def _fits(one: Asked) -> bool:
    """Right, and within the memory that the case allows."""
    return one.right and one.reply.largest_mib <= one.case.context.get("memory_mib", inf)


def _ask_guarded(exercise: Exercise, pupil: Pupil, cases: Sequence[Case]) -> Iterator[Asked]:
    """The large cases, each with the whole budget's time; reached only if all before was right.

    An answer that is wrong or wasteful at a small size would only cost minutes here, or the process.
    """
    for case in cases:
        question = _expect(exercise, case)
        series = _series(exercise, [question], exercise.budget.guarded_wall)
        for asked in _graded(exercise, [question], pupil.replies(series)):
            yield asked
            if asked.reply.outcome is not Outcome.ANSWERED:
                return


def _expect(exercise: Exercise, case: Case) -> Question:
    """The reference's answer in float64, and from its own float32 answer the error to allow."""
    if exercise.compare.by_outcome or case.raises:
        return Question(case, None, 0.0, _sizes(exercise, case.args))
    expected = exercise.reference(*_in_double(case.args))
    rough = exercise.reference(*case.args)
    return Question(case, expected, tolerance(expected, rough), _sizes(exercise, case.args))


def _in_double(args: tuple[Any, ...]) -> tuple[Any, ...]:
    def widen(value: Any) -> Any:
        if isinstance(value, Transformer):
            return value.to(torch.float64)
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.double()
        if isinstance(value, tuple | list):
            return type(value)(widen(item) for item in value)
        return value

    return tuple(map(widen, args))


def _sizes(exercise: Exercise, args: tuple[Any, ...]) -> dict[str, int]:
    """The sizes of a case by the names of its axes, as the reference declares them."""
    axes: Mapping[str, Sequence[str]] = getattr(exercise.reference, "axes", {})
    sizes: dict[str, int] = {}
    for name, argument in zip(exercise.parameters, args, strict=True):
        if isinstance(argument, Transformer):
            sizes |= {
                "layer": argument.n_layers, "head": argument.n_heads, "d_model": argument.d_model,
                "d_head": argument.d_head, "d_vocab": argument.d_vocab, "n_ctx": argument.n_ctx,
            }  # fmt: skip
        elif isinstance(argument, Tensor):
            named = list(zip(reversed(axes.get(name, ())), reversed(argument.shape), strict=False))
            sizes |= {a: size for a, size in reversed(named) if a != "..." and not a.isdigit()}
        elif isinstance(argument, int) and not isinstance(argument, bool):
            sizes[name] = argument
    return sizes


def _series(exercise: Exercise, questions: Sequence[Question], wall: float = 0.0) -> Series:
    """Each question as often as its case says."""
    asks = [
        Ask(question.case.args, "memory_mib" in question.case.context)
        for question in questions
        for _ in range(question.case.repeats)
    ]
    return Series(exercise.name, asks, wall or exercise.budget.wall)


def _graded(
    exercise: Exercise, questions: Sequence[Question], replies: Iterable[Reply]
) -> Iterator[Asked]:
    """The replies beside their questions, as far as they came."""
    left = iter(replies)
    for question in questions:
        came = list(itertools.islice(left, question.case.repeats))
        if not came:
            return
        bad = [one for one in came if one.outcome is not Outcome.ANSWERED]
        reply = bad[0] if bad else came[0]
        steady = bool(bad) or all(_repeats(exercise, question, reply, again) for again in came[1:])
        yield _grade(exercise, question, reply, steady)


def _repeats(exercise: Exercise, question: Question, first: Reply, second: Reply) -> bool:
    """Equal to 1e-5; what can't be read is left to the grading."""
    try:
        answers = [
            leaves(exercise.compare.read(reply.value, question.expected, question.case))
            for reply in (first, second)
        ]
    except Exception:
        return True
    return all(
        one.shape == two.shape and torch.allclose(one, two, rtol=REPEATABLE, atol=REPEATABLE)
        for one, two in zip(*answers, strict=True)
    )


def _grade(exercise: Exercise, question: Question, reply: Reply, steady: bool) -> Asked:
    case, compare, expected = question.case, exercise.compare, question.expected
    value, unreadable, grades = None, None, tuple(0.0 for _ in compare.parts or ("",))
    if case.raises:
        refused = reply.outcome is Outcome.CRASHED and raised(reply.error, case.raises)
        grades = tuple(float(refused) for _ in grades)
        if reply.outcome is Outcome.ANSWERED:
            name = case.raises.__name__
            unreadable = Unreadable(
                "no_error", f"An answer came {case.label}; it must raise {name}."
            )
    elif reply.outcome is Outcome.ANSWERED:
        try:
            value = compare.read(reply.value, expected, case)
        except Unreadable as error:
            unreadable = error
        except Exception as error:  # an object that resists being looked at is no answer
            unreadable = Unreadable("wrong_type", f"The result can't be read ({error!r:.80}).")
        else:
            grades = compare.grade(value, expected, question.atol, case)
    return Asked(
        case=case, expected=expected, atol=question.atol, reply=reply, value=value,
        unreadable=unreadable, grades=grades, sizes=question.sizes, steady=steady,
    )  # fmt: skip
