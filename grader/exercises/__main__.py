"""What the exercises cover, counted: ``python -m grader.exercises``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Column, Table

from grader import exercises
from grader.judge.slips import SLIPS
from grader.judge.spec import Exercise


@dataclass(frozen=True)
class Counts:
    """facts: numbers of the entries of the list of learners' mistakes that are told apart."""

    exercises: int
    points: int
    mistakes: int
    variants: int
    facts: frozenset[int]


def count(chosen: Iterable[Exercise]) -> Counts:
    """Totals over some exercises; the general slips count as facts wherever there is one."""
    listed = list(chosen)
    mistakes = [mistake for exercise in listed for mistake in exercise.mistakes]
    general = {fact for slip in SLIPS for fact in slip.facts} if listed else set()
    return Counts(
        exercises=len(listed),
        points=sum(exercise.points for exercise in listed),
        mistakes=len(mistakes),
        variants=sum(len(exercise.variants) for exercise in listed),
        facts=frozenset(general.union(*(mistake.facts for mistake in mistakes))),
    )


def by_notebook() -> dict[str, Counts]:
    """Counts of each notebook, in the order of the course."""
    grouped = itertools.groupby(
        exercises.registry().values(), key=lambda exercise: exercise.notebook
    )
    return {notebook: count(group) for notebook, group in grouped}


def main() -> None:
    table = Table(
        Column("notebook", no_wrap=True),
        *("exercises", "points", "mistakes", "variants", "entries covered"),
    )
    for column in table.columns[1:]:
        column.justify = "right"
    total = count(exercises.registry().values())
    for name, counts in {**by_notebook(), "all": total}.items():
        numbers = (
            counts.exercises,
            counts.points,
            counts.mistakes,
            counts.variants,
            len(counts.facts),
        )
        table.add_row(name, *map(str, numbers), end_section=name != "all")
    console = Console()
    console.print(table)
    console.print("entries covered:", _ranges(sorted(total.facts)), highlight=False)


def _ranges(numbers: list[int]) -> str:
    """Sorted numbers as text: 1–3, 7, 9–10."""
    runs = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(group) for _, group in runs)]
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in ends)


if __name__ == "__main__":
    main()
