"""The tokenizers and the held-out text that ship with the course.

The text is the part of the corpus that no model was trained on, in three kinds: ``code`` (Python's
own library), ``docs`` (its documentation) and ``english`` (the Jargon File and chapters of a modern
English Bible). ``recipes/corpus.py`` says how it was made and LICENCES.md whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor

HERE = Path(__file__).parent
KINDS = ("code", "docs", "english")
_FILES = {"standard": "tokenizer.json", "small": "tokenizer-small.json"}


class Tokenizer:
    """Text to ids and back. Anything outside ASCII is folded to the nearest plain text first."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Backend  # 0.1 s that models alone don't need

        self._backend: Any = Backend.from_file(str(path))

    @property
    def d_vocab(self) -> int:
        return int(self._backend.get_vocab_size())

    def encode(self, text: str) -> Tensor:
        """Text → (pos,) int64 ids. No start token is added: the models never saw one."""
        return torch.tensor(self._backend.encode(text).ids, dtype=torch.int64)

    def decode(self, ids: Iterable[int] | Tensor) -> str:
        """(pos,) ids → the text they stand for."""
        return str(self._backend.decode(_ids(ids)))

    def token_strings(self, ids: Iterable[int] | Tensor | None = None) -> list[str]:
        """A readable label for each id (all of them by default): ``·`` is a space, ``⏎`` a new line."""
        chosen = range(self.d_vocab) if ids is None else _ids(ids)
        return [self.decode([i]).replace(" ", "·").replace("\n", "⏎") for i in chosen]

    def token_id(self, text: str) -> int:
        """The id of a text that is exactly one token, such as ``" self"``; else ValueError."""
        ids = self.encode(text)
        if len(ids) != 1:
            raise ValueError(
                f"{text!r} is not one token but {len(ids)}: {self.token_strings(ids)}."
            )
        return int(ids[0])


def _ids(ids: Iterable[int] | Tensor) -> list[int]:
    listed = ids.reshape(-1).tolist() if isinstance(ids, Tensor) else ids
    return [int(i) for i in listed]


@cache
def tokenizer(name: str = "standard") -> Tokenizer:
    """The tokenizer of every shipped model (2,048 ids), or ``"small"``: 512 ids for tiny tables."""
    if name not in _FILES:
        raise ValueError(f"There is no tokenizer {name!r}; there are {', '.join(_FILES)}.")
    return Tokenizer(HERE / _FILES[name])


@cache
def _sample() -> dict[str, np.ndarray]:
    return load_file(HERE / "sample.safetensors")


def sample_tokens(kind: str | None = None) -> Tensor:
    """Held-out ids of one kind (``code``, ``docs``, ``english``), or of all three, (pos,) int64."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"There is no text of kind {kind!r}; there are {', '.join(KINDS)}.")
    chosen = [kind] if kind else KINDS
    return torch.from_numpy(np.concatenate([_sample()[k] for k in chosen]).astype(np.int64))


def sample_text(kind: str | None = None) -> str:
    """The same held-out part as text, about 1 MB in all."""
    return tokenizer().decode(sample_tokens(kind))
