"""What a learner sees: checks and hints, pictures, and widgets to play with.

::

    from grader.lab import pictures

Nothing is imported until one of the names below is used.
"""

from __future__ import annotations

import importlib
from typing import Any

# A widget's name, and the module it lives in.
_HOME: dict[str, str] = {}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"grader.lab.{_HOME[name]}"), name)
    raise AttributeError(f"module 'grader.lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
