"""What a learner sees: checks and hints, pictures, and widgets to play with.

::

    from grader.lab import pictures

Nothing is imported until one of the names below is used.
"""

from __future__ import annotations

import importlib
from typing import Any

# A widget and the module of grader.lab.widgets that it lives in.
_HOME = {
    "eigenvalue_plane": "eigenvalue_widget",
    "induction_workshop": "workshop_widget",
    "phase_change": "phase_widget",
    "attention_viewer": "attention_widget",
    "composition_map": "composition_widget",
    "path_explorer": "path_widget",
    "skip_trigrams": "skip_trigram_widget",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"grader.lab.widgets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'grader.lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
