"""From graded cases to one verdict in the learner's words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.judge.diagnosis import Asked, Diagnosis, diagnose
from grader.judge.spec import Exercise
from grader.judge.verdict import Status, Verdict
from grader.pupil.reply import Outcome

MUTATES = (
    "An argument was changed in place: the caller's {what} is different after the call. Work on a "
    "copy, or use the operation that returns a new array (no trailing underscore, no `+=`)."
)
GLOBAL_RNG = (
    "The global random generator of {what} was used or reseeded, so every later cell draws other "
    "numbers. Make a generator of your own, for instance "
    "`torch.Generator().manual_seed(seed)`."
)
UNSTEADY = (
    "The same question got two different answers. Where a seed is given, everything random must "
    "come from it."
)
MEMORY = (
    "An array of {largest:.0f} MiB was made on the way, and at most {limit:.0f} MiB was allowed in "
    "this case. Which large product can stay a pair of thin factors?"
)


def say(exercise: Exercise, asked: Sequence[Asked], seed: int, seconds: float) -> Verdict:
    """The verdict on all cases that were put; the last may have ended the questioning."""
    last = asked[-1].reply
    if last.outcome is Outcome.NOT_ATTEMPTED:
        status, found = _unfinished(asked)
    elif last.outcome is Outcome.TIMEOUT:
        status = Status.TIMEOUT
        wall = exercise.budget.guarded_wall if asked[-1].case.guarded else exercise.budget.wall
        text = (
            f"No answer within the {wall:g} s allowed. Is there a loop that does not "
            "end, or one over every entry of a matrix?"
        )
        found = Diagnosis("", text, asked[-1])
    elif last.outcome is Outcome.OUT_OF_MEMORY:
        status = Status.OUT_OF_MEMORY
        found = Diagnosis(
            "",
            "It asked for more memory than there is. Which large product can stay a pair of thin factors?",
            asked[-1],
        )
    elif all(one.right for one in asked):
        found = _slip(exercise, asked)
        status = Status.WRONG if found.name else Status.PASS
    else:
        found = diagnose(exercise, asked)
        status = _status(exercise, asked)
        found = _with_crash(found, asked) if status is Status.CRASHED else found
    fraction = (
        1.0
        if status is Status.PASS
        else _fraction(exercise, asked)
        if status is Status.PARTIAL
        else 0.0
    )
    crash = next((one.reply for one in asked if one.reply.traceback and not one.right), None)
    return Verdict(
        exercise=exercise.name,
        status=status,
        points=exercise.points * fraction,
        max_points=float(exercise.points),
        message=_with_parts(exercise, asked, found.message)
        if status is Status.PARTIAL
        else found.message,
        seed=seed,
        mistake=found.name,
        where=_where(found.shown_by),
        traceback=crash.traceback if crash and status is Status.CRASHED else "",
        printed=next((one.reply.printed for one in asked if one.reply.printed), ""),
        notes=_notes(status, asked),
        seconds=seconds,
    )


def grader_error(exercise: Exercise, error: Exception, seed: int, seconds: float) -> Verdict:
    """Ours alone: no points are lost, the answer is kept and judged again."""
    return Verdict(
        exercise=exercise.name,
        status=Status.GRADER_ERROR,
        points=0.0,
        max_points=float(exercise.points),
        message="The grader itself failed, not your answer. Nothing is counted; run the check again, "
        f"and if it stays, report this line: {exercise.name}, seed {seed}, {type(error).__name__}: {error}",
        seed=seed,
        seconds=seconds,
    )


def _unfinished(asked: Sequence[Asked]) -> tuple[Status, Diagnosis]:
    if len(asked) == 1:
        text = (
            asked[0].reply.error
            or "Nothing here yet: replace `raise NotImplementedError()` by your answer, run its cell, then this one."
        )
        return Status.NOT_ATTEMPTED, Diagnosis("", text)
    text = "Some inputs still reach `raise NotImplementedError`; others were answered."
    return Status.CRASHED, Diagnosis("unfinished", text, asked[-1])


def _slip(exercise: Exercise, asked: Sequence[Asked]) -> Diagnosis:
    """What can be wrong although every number is right."""
    for one in asked:
        if one.reply.mutated:
            names = [
                exercise.parameters[i] for i in one.reply.mutated if i < len(exercise.parameters)
            ]
            return Diagnosis(
                "mutates_input", MUTATES.format(what=" and ".join(f"`{n}`" for n in names)), one
            )
        if one.reply.touched_rng and not exercise.free_rng:
            return Diagnosis(
                "touches_global_rng",
                GLOBAL_RNG.format(what=" and ".join(one.reply.touched_rng)),
                one,
            )
        if not one.steady:
            return Diagnosis("not_deterministic", UNSTEADY, one)
        limit = one.case.context.get("memory_mib")
        if limit is not None and not one.reply.largest_mib <= limit:
            return Diagnosis(
                "too_much_memory", MEMORY.format(largest=one.reply.largest_mib, limit=limit), one
            )
    return Diagnosis("", "Right.")


def _status(exercise: Exercise, asked: Sequence[Asked]) -> Status:
    if 0.0 < _fraction(exercise, asked) < 1.0 and not _slip(exercise, asked).name:
        return Status.PARTIAL
    first = next(one for one in asked if not one.right)
    return Status.CRASHED if first.reply.outcome is Outcome.CRASHED else Status.WRONG


def _fraction(exercise: Exercise, asked: Sequence[Asked]) -> float:
    """Mean over the parts of what each earned: its least grade over the cases, or their mean."""
    earned = []
    for grades in zip(*(one.grades for one in asked), strict=True):
        earned.append(sum(grades) / len(grades) if exercise.compare.average else min(grades))
    return sum(earned) / len(earned)


def _with_parts(exercise: Exercise, asked: Sequence[Asked], message: str) -> str:
    columns = zip(*(one.grades for one in asked), strict=True)
    right = [
        part
        for part, grades in zip(exercise.compare.parts, columns, strict=False)
        if min(grades) >= 1.0
    ]
    return f"Right: {', '.join(right)}. Not yet the rest: {message}" if right else message


def _with_crash(found: Diagnosis, asked: Sequence[Asked]) -> Diagnosis:
    """A crash says first what was raised, then the idea behind it if that is known."""
    crash = next(one for one in asked if one.reply.outcome is Outcome.CRASHED and not one.right)
    named = (
        found.message
        if found.name not in ("", "own_sizes_only")
        else _crash_help(crash.reply.error)
    )
    name = found.name if found.name != "own_sizes_only" else ""
    return Diagnosis(name, f"{crash.reply.error}\n{named}".strip(), crash)


def _crash_help(error: str) -> str:
    if re.search(
        r"mat1 and mat2 shapes|size mismatch|must match the size|inconsistent tensor|expected size|size of tensor",
        error,
    ):
        return "Two shapes don't fit. Write the axes of each factor beside it: which of them wants its transpose, and over which axis is the sum?"
    if re.search(
        r"takes \d+ positional argument|missing \d+ required positional|unexpected keyword", error
    ):
        return "The function is called with the arguments of the stub, in that order. Has the `def` line been changed?"
    if error.startswith("NameError"):
        return "A name is not defined inside the function. Was its cell run, or does it exist under another name?"
    return "This was raised by your own code; the lines are below."


def _where(one: Asked | None) -> str:
    if one is None:
        return ""
    sizes = ", ".join(f"{axis} {size}" for axis, size in one.sizes.items())
    return " — ".join(text for text in (one.case.label, sizes) if text)


def _notes(status: Status, asked: Sequence[Asked]) -> tuple[str, ...]:
    if status is Status.PASS:
        return ()
    if any(one.reply.mutated for one in asked) and not all(one.right for one in asked):
        return ("It also changes one of its arguments in place.",)
    return ()
