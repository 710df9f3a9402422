"""Every exercise of the course, declared in one place each: one module a notebook.

``grader.exercises.find("causal_pattern")`` is the one way to reach an exercise by name.
"""

from __future__ import annotations

import functools
import importlib

from grader.judge.spec import Exercise

NOTEBOOKS = {
    "00-residual-stream": "residual_stream",
    "01-zero-layer": "zero_layer",
    "02-attention-heads": "attention_heads",
    "03-one-layer": "one_layer",
    "04-composition": "composition",
    "05-induction-heads": "induction_heads",
    "06-path-importance": "path_importance",
    "07-beyond": "beyond",
    "08-mystery-models": "mystery_models",
}


@functools.cache
def registry() -> dict[str, Exercise]:
    """All exercises by name, in the order in which the course teaches them."""
    found: dict[str, Exercise] = {}
    for notebook, module in NOTEBOOKS.items():
        for exercise in importlib.import_module(f"grader.exercises.{module}").EXERCISES:
            if exercise.name in found or exercise.notebook != notebook:
                raise ValueError(f"{exercise.name} is declared twice or outside its notebook.")
            found[exercise.name] = exercise
    return found


def find(name: str) -> Exercise | None:
    """The exercise of that name, or None."""
    return registry().get(name)


def of_notebook(notebook: str) -> list[Exercise]:
    """The exercises of one notebook, in order."""
    return [exercise for exercise in registry().values() if exercise.notebook == notebook]
