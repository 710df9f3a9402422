"""What a learner calls: ``check`` an answer, take a ``hint``, see the ``solution``, the ``progress``."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grader
from grader import answers
from grader.exercises import find, registry
from grader.exercises.mystery_models import NAME_CIRCUITS
from grader.judge.judge import judge_here
from grader.judge.spec import Exercise
from grader.judge.verdict import Status, Verdict
from grader.lab import cards, class_settings, showing
from grader.lab import progress as kept
from grader.lab.showing import Points

_OURS = Path(grader.__file__).resolve().parent


def check(function: Callable[..., Any]) -> Points:
    """Judge your answer against the reference, now, on fresh random inputs.

    Give the function itself, not its result: ``check(causal_pattern)``. Shows what the verdict is
    and, for a wrong answer, what kind of mistake it was; returns the points. Your random generators,
    your arguments and your plots stay as they were.
    """
    exercise, trouble = _exercise_of(function)
    if exercise is None:
        html, text = cards.notice("○ NOTHING TO CHECK", trouble)
        return showing.publish(Points(0.0, html), text)
    if _is_ours(function):
        verdict = _not_attempted(
            exercise, "This is the course's own reference. Give your function."
        )
    else:
        verdict = _received(judge_here(exercise, function))
    notes = (*verdict.notes, *_record(verdict), *_next_step(exercise, verdict))
    html, text = cards.verdict_card(verdict, notes)
    return showing.publish(Points(verdict.points, html), text)


def hint(of: Callable[..., Any] | str) -> None:
    """Show the next hint for an exercise, the earlier ones with it: ``hint(causal_pattern)``."""
    exercise, trouble = _exercise_of(of, by_name=True)
    if exercise is None:
        showing.display(*cards.notice("No hint", trouble))
        return
    if closed := _closed("hints"):
        showing.display(*cards.notice("No hint", closed))
        return
    number = min(kept.hints_seen(exercise.name) + 1, len(exercise.hints))
    try:
        kept.record_hint(exercise.name, number)
    except kept.ProgressNotSaved:
        number = len(exercise.hints)  # which were seen isn't known, so none can be withheld
    showing.display(*cards.hint_card(exercise, number))


def solution(of: Callable[..., Any] | str, *, anyway: bool = False) -> None:
    """Show one way to solve an exercise, once you passed it (or now, with ``anyway=True``).

    With the name of a question, in quotes: what a good answer to it holds.
    """
    if closed := _closed("solutions"):
        showing.display(*cards.notice("No solution", closed))
        return
    if isinstance(of, str) and find(of) is None and (guide := _guide(of)):
        showing.display_markdown(f"**What a good answer holds.** Mark your own by it.\n\n{guide}")
        return
    exercise, trouble = _exercise_of(of, by_name=True)
    if exercise is None:
        showing.display(*cards.notice("No solution", trouble))
        return
    if not anyway and not kept.passed(exercise.name):
        message = (
            f"It opens once `check({exercise.name})` says right. To look now all the same: "
            f"`solution({exercise.name}, anyway=True)`. A hint may be the better next step."
        )
        showing.display(*cards.notice("Not yet", message))
        return
    try:
        source = answers.solution_source(exercise.name)
    except (answers.AnswerNotFound, OSError, ValueError) as error:
        showing.display(*cards.notice("No solution", str(error)))
        return
    showing.display(*cards.solution_card(exercise.name, source))


def progress() -> None:
    """Show the course as a map: every exercise, the points reached, what comes next."""
    showing.display(kept.as_html(), kept.as_text())


def _exercise_of(of: Any, by_name: bool = False) -> tuple[Exercise | None, str]:
    """The exercise meant by a function (or its name) → (exercise, ""), or (None, what to do)."""
    if isinstance(of, str) and not by_name:
        return None, f"Give the function itself, without quotes: `check({of})`."
    name = of if isinstance(of, str) else getattr(of, "__name__", None)
    if not isinstance(name, str):
        kind = type(of).__name__
        return None, f"A {kind} came; give the function itself, as in `check(causal_pattern)`."
    exercise = find(name)
    if exercise is not None:
        return exercise, ""
    near = difflib.get_close_matches(name, registry(), n=3, cutoff=0.5)
    guess = " Did you mean " + " or ".join(f"`{n}`" for n in near) + "?" if near else ""
    return None, (
        f"No exercise is called `{name}`. A function must keep the name it has in the notebook.{guess}"
    )


def _closed(what: str) -> str:
    """Why the teacher's settings keep ``what`` closed, "" where it opens."""
    try:
        settings = class_settings.here()
    except class_settings.SettingsDamaged as error:
        return str(error)
    opens = settings.hints if what == "hints" else settings.solutions
    return "" if opens else f"Your teacher keeps the {what} closed in the class {settings.course}."


def _received(verdict: Verdict) -> Verdict:
    """In a class, the truth about a learner's own models is with the teacher."""
    judged = (Status.PASS, Status.PARTIAL, Status.WRONG)
    if verdict.exercise != NAME_CIRCUITS.name or verdict.status not in judged:
        return verdict
    try:
        in_class = bool(class_settings.here().own_models)
    except class_settings.SettingsDamaged:
        in_class = True
    if not in_class:
        return verdict
    message = (
        "The truth about your own three models is with your teacher, and half of the points come from "
        f"them. On six models that were drawn just now:\n{verdict.message}"
    )
    return dataclasses.replace(verdict, status=Status.RECEIVED, message=message)


def _guide(question: str) -> str:
    try:
        return answers.marking_guide(question)
    except (answers.AnswerNotFound, OSError, ValueError):
        return ""


def _is_ours(function: Callable[..., Any]) -> bool:
    """Is this code of the product rather than of a notebook?"""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return code is not None and _OURS in Path(code.co_filename).resolve().parents


def _not_attempted(exercise: Exercise, message: str) -> Verdict:
    return Verdict(
        exercise=exercise.name, status=Status.NOT_ATTEMPTED, points=0.0,
        max_points=float(exercise.points), message=message, seed=0,
    )  # fmt: skip


def _record(verdict: Verdict) -> tuple[str, ...]:
    try:
        kept.record(verdict)
    except kept.ProgressNotSaved as error:
        return (str(error),)
    return ()


def _next_step(exercise: Exercise, verdict: Verdict) -> tuple[str, ...]:
    if verdict.status is Status.PASS:
        return (f"Compare with ours: `solution({exercise.name})`.",)
    if verdict.status in (Status.NOT_ATTEMPTED, Status.GRADER_ERROR, Status.RECEIVED):
        return ()
    seen = kept.hints_seen(exercise.name)
    if seen < len(exercise.hints):
        return (f"Stuck? `hint({exercise.name})` shows hint {seen + 1} of {len(exercise.hints)}.",)
    return (f"All hints are out; `hint({exercise.name})` shows them again.",)
