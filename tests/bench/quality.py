"""What the judge makes of every listed mistake and variant, beside the test that people usually write.

That test is ``torch.testing.assert_close`` on one fixed example: the first question of seed 0, answered
by the reference. It meets the very same functions. It can name no mistake, so naming has no peer.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from grader import exercises
from grader.judge.draw import Draw, fresh_seed
from grader.judge.judge import judge_here
from grader.judge.slips import remembered, slips_of
from grader.judge.spec import Exercise
from grader.judge.verdict import Status
from grader.pupil.copies import clone
from grader.transformer import Transformer
from tests.bench.rows import Row

NAIVE = "assert_close on one example"
WORKERS = 2
KINDS = ("mistake", "slip", "variant", "oddity")


@dataclass(frozen=True)
class Judged:
    """One function and what became of it. kind: one of KINDS; an oddity is a slip that is no mistake.

    right: rejected if wrong, accepted if not; named: by a name that it may have; naive: right, by the
    usual test.
    """

    kind: str
    facts: tuple[int, ...]
    right: bool
    named: bool
    naive: bool


def rows() -> Iterator[Row]:
    # Whoever forks after torch has computed in threads hangs: the workers start anew.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context, initializer=_one_thread) as pool:
        judged = [one for part in pool.map(of_exercise, longest_first()) for one in part]
    of = {kind: [one for one in judged if one.kind == kind] for kind in KINDS}
    yield _counted("listed mistakes rejected", of["mistake"])
    yield _named("listed mistakes given their own diagnosis", of["mistake"], 1.0)
    yield _counted("general slips rejected", of["slip"])
    yield _counted("legitimate variants accepted", of["variant"])
    yield _counted("right answers of another type or layout accepted", of["oddity"])
    entries = _entries([*of["mistake"], *of["slip"]])
    yield _counted("entries of the list of learners' mistakes rejected", entries)
    yield _named("the same entries, named rightly", entries, 0.9)


def longest_first() -> list[str]:
    """The exercises, those that train at the head, so that no worker is left with them in the end."""
    every = exercises.registry()
    return sorted(every, key=lambda name: not every[name].free_rng)


def _counted(what: str, judged: list[Judged]) -> Row:
    right, naive = (float(sum(getattr(one, by) for one in judged)) for by in ("right", "naive"))
    return Row(
        what, (right,), _of(judged), NAIVE, (naive,),
        more_is_better=True, at_least=len(judged),
    )  # fmt: skip


def _named(what: str, judged: list[Judged], share: float) -> Row:
    named = float(sum(one.named for one in judged))
    return Row(what, (named,), _of(judged), at_least=math.ceil(share * len(judged)))


def _of(judged: list[Judged]) -> str:
    return f"of {len(judged):,}"


def _entries(judged: list[Judged]) -> list[Judged]:
    """One for each entry of the list: right (or named) where all the functions that show it are."""
    showing: dict[int, list[Judged]] = {}
    for one in judged:
        for fact in one.facts:
            showing.setdefault(fact, []).append(one)
    return [
        Judged("entry", (fact,), *(all(getattr(one, by) for one in ones) for by in ("right", "named", "naive")))
        for fact, ones in sorted(showing.items())
    ]  # fmt: skip


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def of_exercise(name: str) -> list[Judged]:
    """Judge all that is listed for one exercise, on questions drawn afresh."""
    exercise = exercises.registry()[name]
    naive = naive_test(exercise)
    exercise, seed = remembered(exercise), fresh_seed()
    return [
        _judged(exercise, seed, naive, kind, facts, names, answer)
        for kind, facts, names, answer in _listed(exercise, seed)
    ]


def _listed(
    exercise: Exercise, seed: int
) -> Iterator[tuple[str, tuple[int, ...], tuple[str, ...], Callable[..., Any]]]:
    """Kind, entries, allowed names (none: it must pass) and function of each."""
    for mistake in exercise.mistakes:
        yield "mistake", mistake.facts, (mistake.name, *mistake.same_as), mistake.answer
    for variant in exercise.variants:
        yield "variant", (), (), variant.answer
    for slip, answer in slips_of(exercise, list(exercise.cases(Draw(seed)))):
        listed = (m.name for m in exercise.mistakes if set(m.facts) & set(slip.facts))
        if not slip.named:
            yield "oddity", (), (), answer
        elif not (exercise.free_rng and "touches_global_rng" in slip.named):
            yield "slip", slip.facts, (*slip.named, *listed), answer


def _judged(
    exercise: Exercise,
    seed: int,
    naive: Callable[[Callable[..., Any]], bool],
    kind: str,
    facts: tuple[int, ...],
    names: tuple[str, ...],
    answer: Callable[..., Any],
) -> Judged:
    verdict = judge_here(exercise, answer, seed)
    must_pass = not names
    right = verdict.passed == must_pass and verdict.status is not Status.GRADER_ERROR
    named = right and (must_pass or verdict.mistake in names)
    return Judged(kind, facts, right, named, naive(answer) == must_pass)


def naive_test(exercise: Exercise) -> Callable[[Callable[..., Any]], bool]:
    """answer → whether it equals the reference's on the first question of seed 0."""
    from torch.testing import assert_close

    case = next(
        case for case in exercise.cases(Draw(0)) if not case.guarded and case.raises is None
    )

    @functools.cache
    def expected() -> Any:
        return _plain(exercise.reference(*clone(case.args)))

    def passes(answer: Callable[..., Any]) -> bool:
        try:
            assert_close(_plain(answer(*clone(case.args))), expected())
        except Exception:  # whatever a wrong answer raises fails the test
            return False
        return True

    return passes


def _plain(value: Any) -> Any:
    """A model as the dictionary of its weights, which ``assert_close`` knows how to compare."""
    return value.weights() if isinstance(value, Transformer) else value
