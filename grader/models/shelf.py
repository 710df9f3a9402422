"""Where the trained models stand: load one by name, read its card, walk through its checkpoints.

Weights are float16 safetensors beside a card (JSON) that says how they were made, what they show and
the checksum of every file. Cards are written by ``recipes/cards.py``, never by hand.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor

from grader.models.text import HERE, tokenizer
from grader.transformer import Transformer

WEIGHTS = HERE / "weights"
CHECKPOINTS = "two-layer-checkpoints"


def names() -> list[str]:
    """The names of the shipped models, simplest first."""
    cards = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in WEIGHTS.glob("*.json")
    }
    return sorted(cards, key=lambda name: (cards[name]["order"], name))


def card(name: str) -> dict[str, Any]:
    """The model card: data, steps, seed, losses and circuit figures; a fresh copy on every call.

    Raises ValueError listing the known names.
    """
    path = WEIGHTS / f"{name}.json"
    if name not in names():
        raise ValueError(f"There is no model {name!r}; there are {', '.join(names())}.")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def load(name: str) -> Transformer:
    """A shipped model in float32 with its ``tokenizer``; for the checkpoints, the last of them.

    Raises ValueError for an unknown name or a damaged file.
    """
    files = card(name)["files"]
    return _read(list(files)[-1], files)


def checkpoints(of: str = "two-layer-curriculum") -> list[tuple[int, Transformer]]:
    """Snapshots through the change of ``of``'s training as (step, model), earliest first.

    Raises ValueError listing the models that have them.
    """
    described = card(CHECKPOINTS)
    if of not in described["runs"]:
        raise ValueError(
            f"There are no checkpoints of {of!r}; {', '.join(described['runs'])} have."
        )
    run = described["runs"][of]
    return [
        (step, _read(file, described["files"]))
        for step, file in zip(run["steps"], run["files"], strict=True)
    ]


def _read(file: str, files: dict[str, str]) -> Transformer:
    path = WEIGHTS / file
    if not path.is_file():
        raise ValueError(f"The weights file {file} is missing: install the course again.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != files[file]:
        raise ValueError(
            f"The weights file {file} is damaged (its checksum is not the one on its card): "
            "install the course again."
        )
    model = Transformer.load(path)
    model.tokenizer = tokenizer()
    return model


@cache
def _counts() -> np.ndarray:
    d_vocab = tokenizer().d_vocab
    with np.load(HERE / "bigrams.npz") as stored:
        cells = np.cumsum(stored["gaps"].astype(np.int64))
        counts = np.zeros(d_vocab * d_vocab, dtype=np.float64)
        counts[cells] = stored["counts"]
    return counts.reshape(d_vocab, d_vocab)


def bigram_counts() -> Tensor:
    """(current, next) float64: how often each token follows each other one in the training text."""
    return torch.from_numpy(_counts().copy())


def floors() -> list[dict[str, Any]]:
    """Texts small enough for ``train_zero_layer``, each with the least loss that its width allows.

    Each case: ``name``, ``tokens`` (pos,) int64, ``d_vocab``, ``d_model``, ``floor`` (nats) and
    ``how`` it was computed. See ``recipes/floors.py``.
    """
    cases = json.loads((HERE / "floors.json").read_text(encoding="utf-8"))
    tokens = load_file(HERE / "floors.safetensors")
    return [
        {**case, "tokens": torch.from_numpy(tokens[case["name"]].astype("int64"))} for case in cases
    ]
