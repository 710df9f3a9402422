"""The mystery models of one learner: three, drawn from a seed that stays with them.

Alone, the seed is kept in the user's data folder, where `grader.lab.mystery` puts it the first time
the models are opened; judging only reads it. Whoever judges somebody else's notebook sets that
learner's seed with ``seeded``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from grader.circuits.mystery import LEVELS, Mystery, draw_mystery
from grader.userdata import data_dir

SEEDS = 2**31

_SET: ContextVar[int | None] = ContextVar("mystery_seed", default=None)


def seed_file() -> Path:
    return data_dir() / "mystery.json"


def own_seed() -> int | None:
    """The seed of the learner's own models, None where they were never opened."""
    chosen = _SET.get()
    if chosen is not None:
        return chosen
    try:
        seed = json.loads(seed_file().read_text(encoding="utf-8"))["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return seed if type(seed) is int and 0 <= seed < SEEDS else None


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within it, the learner's own models are those of ``seed``, whatever is on this machine."""
    token = _SET.set(seed)
    try:
        yield
    finally:
        _SET.reset(token)


@functools.lru_cache(maxsize=4)
def own_models(seed: int) -> tuple[Mystery, ...]:
    """One of each level, simplest first. Kept: a learner checks again and again, and they stay the same."""
    return tuple(draw_mystery(seed, level) for level in LEVELS)
