"""The transformer circuits course: `check` an answer, take a `hint`, see the `solution`, your `progress`.

Nothing heavy is imported until one of these is used (`import grader` stays fast, without torch).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.lab.checking import check, hint, progress, solution

__all__ = ["check", "hint", "progress", "solution"]
__version__ = "2026.1"


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("grader.lab.checking"), name)
    raise AttributeError(f"module 'grader' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
