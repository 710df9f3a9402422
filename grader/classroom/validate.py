"""Every rule that the course's content keeps, put to the test: ``grader validate``.

For each exercise the reference, the notebook's own solution, every listed mistake, every accepted
variant and the general slips are judged like a learner's answer; the texts are read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader import answers, exercises, resources
from grader.classroom import prose, solving, sources
from grader.classroom.sources import Source, SourceError
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.slips import remembered, slips_of
from grader.judge.spec import Exercise
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess

SEEDS = (11, 12, 13)


@dataclass(frozen=True)
class Problem:
    """A rule that is broken. where: an exercise or a notebook; seed: of the verdict, if it was one."""

    where: str
    message: str
    seed: int | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (
            f" (seed {self.seed})" if self.seed is not None else ""
        )


def validate(names: Sequence[str] | None = None, seeds: Sequence[int] = SEEDS) -> list[Problem]:
    """All problems of the exercises or notebooks named (of the whole course, if None).

    Raises ValueError for a name that is neither, CourseNotFound.
    """
    return [problem for _, problems in each(names, seeds) for problem in problems]


def each(
    names: Sequence[str] | None = None, seeds: Sequence[int] = SEEDS
) -> Iterator[tuple[str, list[Problem]]]:
    """As ``validate``, one notebook or exercise after the other, for a progress bar."""
    chosen = _chosen(names)
    for notebook in dict.fromkeys(exercise.notebook for exercise in chosen):
        try:
            source = sources.read(resources.solutions_dir() / f"{notebook}.py")
        except (SourceError, OSError) as error:
            yield notebook, [Problem(notebook, f"its source can't be read: {error}")]
            continue
        flaws = list(_notebook_flaws(source))
        yield notebook, [Problem(notebook, flaw) for flaw in flaws]
        here = [exercise for exercise in chosen if exercise.notebook == notebook]
        solved, failure = _solved(source)
        for exercise in here:
            found = list(_problems(exercise, source, solved, seeds))
            yield exercise.name, ([Problem(exercise.name, failure)] if failure else []) + found


def _chosen(names: Sequence[str] | None) -> list[Exercise]:
    registry = exercises.registry()
    if names is None:
        return list(registry.values())
    known = {*registry, *(exercise.notebook for exercise in registry.values())}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"No exercise or notebook is called {', '.join(unknown)}.")
    return [e for e in registry.values() if e.name in names or e.notebook in names]


def _notebook_flaws(source: Source) -> Iterator[str]:
    names = [exercise.name for exercise in exercises.of_notebook(source.notebook)]
    yield from sources.flaws(source, names)
    yield from prose.notebook_flaws(source, names, resources.course_dir())


def _solved(source: Source) -> tuple[dict[str, Callable[..., Any]], str]:
    """The solutions of a source, and what was raised where they can't be run."""
    try:
        return solving.solutions(source), ""
    except Exception as error:
        return {}, f"the solutions of {source.notebook} don't run: {type(error).__name__}: {error}"


def _problems(
    exercise: Exercise,
    source: Source,
    solved: dict[str, Callable[..., Any]],
    seeds: Sequence[int],
) -> Iterator[Problem]:
    seeds = seeds[:1] if exercise.free_rng else seeds  # those train, for seconds each time
    for flaw in prose.declaration_flaws(exercise):
        yield Problem(exercise.name, flaw)
    for cell in source.of_kind("answer"):
        if sources.answer_name(cell, [exercise.name]):
            solution = sources.solution_text(cell)
            for flaw in (
                *prose.telling_flaws(exercise, solution),
                *prose.stub_flaws(exercise, cell),
            ):
                yield Problem(exercise.name, flaw)
    reference, exercise = exercise.reference, remembered(exercise)
    yield from _stub_problems(exercise, source, seeds[0])
    yield from _must_pass(exercise, "the reference", reference, seeds)
    if exercise.name in solved:
        yield from _must_pass(exercise, "the notebook's solution", solved[exercise.name], seeds)
    for variant in exercise.variants:
        yield from _must_pass(exercise, f"variant {variant.name}", variant.answer, seeds)
    for mistake in exercise.mistakes:
        named = (mistake.name, *mistake.same_as)
        yield from _must_fail(exercise, f"mistake {mistake.name}", mistake.answer, named, seeds)
    yield from _slip_problems(exercise, seeds[0])


def _stub_problems(exercise: Exercise, source: Source, seed: int) -> Iterator[Problem]:
    try:
        function = solving.stub(source, exercise.name, answers.stub_source(exercise.name))
    except Exception as error:
        what = f"its released stub can't be run ({type(error).__name__}: {error}); is it built?"
        yield Problem(exercise.name, what)
        return
    verdict = _judged(exercise, function, seed)
    if verdict.status is not Status.NOT_ATTEMPTED:
        yield Problem(exercise.name, f"the stub is {_said(verdict)}, not NOT_ATTEMPTED", seed)


def _slip_problems(exercise: Exercise, seed: int) -> Iterator[Problem]:
    try:
        slips = slips_of(exercise, list(exercise.cases(Draw(seed))))
    except Exception as error:
        yield Problem(
            exercise.name, f"its cases can't be put: {type(error).__name__}: {error}", seed
        )
        return
    for slip, answer in slips:
        if not slip.named:
            yield from _must_pass(exercise, slip.name, answer, [seed])
        elif not (exercise.free_rng and "touches_global_rng" in slip.named):
            listed = (m.name for m in exercise.mistakes if set(m.facts) & set(slip.facts))
            yield from _must_fail(exercise, slip.name, answer, (*slip.named, *listed), [seed])


def _must_pass(
    exercise: Exercise, what: str, answer: Callable[..., Any], seeds: Sequence[int]
) -> Iterator[Problem]:
    for seed in seeds:
        verdict = _judged(exercise, answer, seed)
        if not verdict.passed:
            yield Problem(exercise.name, f"{what} must pass and is {_said(verdict)}", seed)


def _must_fail(
    exercise: Exercise,
    what: str,
    answer: Callable[..., Any],
    named: Sequence[str],
    seeds: Sequence[int],
) -> Iterator[Problem]:
    for seed in seeds:
        verdict = _judged(exercise, answer, seed)
        if verdict.passed or verdict.status is Status.GRADER_ERROR:
            yield Problem(exercise.name, f"{what} must be rejected and is {_said(verdict)}", seed)
        elif verdict.mistake not in named:
            yield Problem(
                exercise.name,
                f"{what} must be named {' or '.join(named)} and is {_said(verdict)}",
                seed,
            )


def _judged(exercise: Exercise, answer: Callable[..., Any], seed: int) -> Verdict:
    return judge(exercise, InProcess({exercise.name: answer}), seed)


def _said(verdict: Verdict) -> str:
    first = verdict.message.partition("\n")[0]
    return f"{verdict.status} [{verdict.mistake or 'unnamed'}] {first}"
