"""The trained models, their tokenizer and the text they are measured on; all of it travels in the package.

Nothing heavy is imported until one of these names is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.models.reading import ReadableCard
    from grader.models.shelf import bigram_counts, card, checkpoints, floors, load, names
    from grader.models.text import Tokenizer, sample_text, sample_tokens, tokenizer

_HOME = {
    **dict.fromkeys(("bigram_counts", "card", "checkpoints", "floors", "load", "names"), "shelf"),
    "ReadableCard": "reading",
    **dict.fromkeys(("Tokenizer", "sample_text", "sample_tokens", "tokenizer"), "text"),
}
__all__ = [
    "ReadableCard",
    "Tokenizer",
    "bigram_counts",
    "card",
    "checkpoints",
    "floors",
    "load",
    "names",
    "sample_text",
    "sample_tokens",
    "tokenizer",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"grader.models.{_HOME[name]}"), name)
    raise AttributeError(f"module 'grader.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
