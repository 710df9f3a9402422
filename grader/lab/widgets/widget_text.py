"""A learner's text as tokens, or a sentence that says why it can't be read.

A model that came with a tokenizer reads text; another reads token ids, written as numbers: "3 1 4".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.lab.widgets.widget_base import CannotShow
from grader.transformer import Transformer

TEXT = "def get(self, name):\n    return self.name\n\ndef set(self, name):"


@dataclass(frozen=True)
class Text:
    """tokens (pos,) int64; labels: one a position; note: what a reader should know, or ""."""

    tokens: Tensor
    labels: list[str]
    note: str = ""


def given_or_default(
    model: Transformer, text: str | Tensor | Sequence[int]
) -> str | Tensor | Sequence[int]:
    """The text; for an empty string `TEXT`, or without a tokenizer a few ids, twice over."""
    if not isinstance(text, str) or text:
        return text
    if model.tokenizer is not None:
        return TEXT
    period = max(1, min(6, model.d_vocab, model.n_ctx // 2))
    return " ".join(str((7 * i + 3) % model.d_vocab) for i in [*range(period), *range(period)])


def read_text(model: Transformer, text: str | Tensor | Sequence[int], *, least: int = 2) -> Text:
    """What the model reads of a text (a string, or ids (pos,)): tokens, labels, and a note.

    Raises CannotShow for fewer than ``least`` tokens, more than the model's context, or ids that
    the model doesn't know.
    """
    tokens = _encode(model, text) if isinstance(text, str) else _ids(text)
    if len(tokens) < least:
        raise CannotShow(_too_short(len(tokens), least))
    if len(tokens) > model.n_ctx:
        raise CannotShow(
            f"This text has {len(tokens)} tokens; the model reads at most {model.n_ctx}. Shorten it."
        )
    unknown = sorted({int(t) for t in tokens if not 0 <= int(t) < model.d_vocab})
    if unknown:
        raise CannotShow(
            f"The model knows the tokens 0 … {model.d_vocab - 1}; "
            f"{', '.join(map(str, unknown[:5]))} came."
        )
    note = _unknown_letters(model, text) if isinstance(text, str) else ""
    return Text(tokens, token_labels(model, tokens), note)


def as_typed(model: Transformer, text: str | Tensor | Sequence[int]) -> str:
    """A text, or ids, as they stand in a field of one line: ``⏎`` for a new line."""
    if not isinstance(text, str):
        ids = [int(i) for i in text]
        text = " ".join(map(str, ids)) if model.tokenizer is None else model.tokenizer.decode(ids)
    return text.replace("\n", "⏎")


def typed_text(field: str) -> str:
    """The text that was typed into a field of one line."""
    return field.replace("⏎", "\n")


def token_labels(model: Transformer, ids: Tensor | Sequence[int]) -> list[str]:
    """A label for each id: its text with spaces shown, or the id itself without a tokenizer."""
    listed = [int(i) for i in ids]
    if model.tokenizer is None:
        return [str(i) for i in listed]
    return list(model.tokenizer.token_strings(listed))


def one_token(model: Transformer, text: str) -> int:
    """The id that a typed text stands for: exactly one token (``·`` may stand for a space), or an id.

    Raises CannotShow for anything else.
    """
    if model.tokenizer is None:
        tokens = read_text(model, text, least=1).tokens
    else:
        tokens = read_text(model, text.replace("·", " ").replace("⏎", "\n"), least=1).tokens
    if len(tokens) != 1:
        pieces = " | ".join(token_labels(model, tokens))
        raise CannotShow(
            f"“{text}” is {len(tokens)} tokens, not one: {pieces}. Choose one of them."
        )
    return int(tokens[0])


def _encode(model: Transformer, text: str) -> Tensor:
    if model.tokenizer is not None:
        return torch.as_tensor(model.tokenizer.encode(text), dtype=torch.int64)
    words = [word for word in re.split(r"[\s,]+", text.strip()) if word]
    strange = next((word for word in words if not re.fullmatch(r"-?\d{1,18}", word)), None)
    if strange is not None:
        raise CannotShow(
            f"This model has no tokenizer: write token ids, such as “3 1 4”. “{strange}” is none."
        )
    return torch.tensor([int(word) for word in words], dtype=torch.int64)


def _ids(text: Any) -> Tensor:
    try:
        tokens = torch.as_tensor(text)
    except (TypeError, ValueError, RuntimeError):
        tokens = torch.zeros(1)
    if tokens.ndim != 1 or tokens.dtype.is_floating_point or tokens.dtype.is_complex:
        raise CannotShow("A text is a string, or token ids as integers of shape (pos,).")
    return tokens.to(torch.int64)


def _too_short(count: int, least: int) -> str:
    if count == 0:
        return "There is no text yet: type some."
    return (
        f"One token can only look at itself: type at least {least}."
        if count == 1
        else f"This needs at least {least} tokens; {count} came."
    )


def _unknown_letters(model: Transformer, text: str) -> str:
    if model.tokenizer is None or text.isascii():
        return ""
    letters = dict.fromkeys(c for c in text if not c.isascii())
    lost = [c for c in letters if "?" in model.tokenizer.decode(model.tokenizer.encode(c))]
    if not lost:
        return ""
    return f"The tokenizer doesn't know {' '.join(lost[:8])}: read as “?”."
