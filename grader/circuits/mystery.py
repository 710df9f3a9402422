"""Notebook 08: mystery models, drawn from a seed, with proof of what is in them.

::

    mystery = draw_mystery(seed=7, level=2)
    mystery.model     # a Transformer
    mystery.truth     # {"heads": …, "skip_trigrams": …, "compositions": …}

Level 1 has one layer, level 2 two (induction by K-composition), level 3 three (V-composition, and
often Q-composition by a pointer). Among the circuits stand decoys: heads that look where induction
heads look and lower what they find or write something else, duplicate-token heads that copy,
previous-token heads that copy, scrambled heads, dead heads. Every level-1 model has a positional
head, every level-2 model an anti-copying one, every level-3 model a head without a job, so that
three models together show each of them.

A model is handed out only if `grader.circuits.naming.name_circuits`, which sees nothing of the
declarations, reads the declared truth off its behavior; otherwise the next one is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from grader.circuits.compiled import Compiled, compile_model
from grader.circuits.compiled_heads import (
    anti_copying,
    anti_induction,
    dead,
    duplicate_token,
    induction,
    pointer,
    pointer_induction,
    positional,
    previous_token,
    scrambled,
    skip_trigrams,
)
from grader.circuits.compiled_parts import Address, Copy, Head, Jumble, Match, Move, Remember
from grader.circuits.naming import name_circuits
from grader.transformer import Transformer

LEVELS = (1, 2, 3)
"""Also the number of layers."""

HEADS_A_LAYER = 4

FAINT = 3.0
"""Strength of what has no meaning: well below a planted head's, so that it can't pass for one."""

_ATTEMPTS = 20


@dataclass(frozen=True)
class Mystery:
    """A model and the whole truth about it, in the form that ``name_circuits`` answers."""

    model: Transformer
    truth: dict[str, Any]
    level: int
    seed: int


@lru_cache(maxsize=64)
def draw_mystery(seed: int, level: int) -> Mystery:
    """The mystery model of that seed and level. Same arguments, same weights.

    Raises ValueError for another level than 1, 2 or 3.
    """
    if level not in LEVELS:
        raise ValueError(f"draw_mystery: level must be 1, 2 or 3; {level!r} came.")
    for attempt in range(_ATTEMPTS):
        compiled = _compiled(seed, level, attempt)
        truth = _truth(compiled)
        if name_circuits(compiled.model) == truth:
            return Mystery(compiled.model, truth, level, seed)
    raise RuntimeError(  # never seen: nearly every first attempt is proved
        f"draw_mystery: no model of seed {seed}, level {level} behaved as declared."
    )


def _truth(compiled: Compiled) -> dict[str, Any]:
    return {
        "heads": dict(compiled.heads),
        "skip_trigrams": list(compiled.skip_trigrams),
        "compositions": list(compiled.compositions),
    }


def _compiled(seed: int, level: int, attempt: int) -> Compiled:
    """One attempt, not yet proved."""
    rng = Random(f"mystery {seed} {level} {attempt}")
    d_vocab, n_ctx = rng.randint(14, 18), 2 * rng.randint(12, 16)
    pointing = level == 3 and rng.random() < 0.6
    layers = _PLANS[level](rng, d_vocab, pointing)
    return compile_model(
        layers,
        d_vocab=d_vocab,
        n_ctx=n_ctx,
        seed=rng.randrange(2**31),
        pos_in_stream=pointing,
        bigrams=rng.uniform(0.2, 0.8),
    )


def _one_layer(rng: Random, d_vocab: int, pointing: bool) -> list[list[Head]]:
    named = [_trigrams(rng, d_vocab), positional(rng.randint(2, 6), _shown(rng))]
    return [_filled(rng, named, [*_looking(rng), *_silent(), anti_copying(_strength(rng))])]


def _two_layers(rng: Random, d_vocab: int, pointing: bool) -> list[list[Head]]:
    early = [previous_token(), duplicate_token(_shown(rng))]
    late: list[Head] = []
    rng.choice((early, late)).append(_trigrams(rng, d_vocab))
    first = _filled(rng, early, [positional(rng.randint(2, 5), _shown(rng)), *_silent()])
    previous = (0, _remembering(first))
    if rng.random() < 0.75:
        late.append(induction(previous, _strength(rng)))
    decoy = _decoy(rng, previous)
    late += [decoy] if decoy.label == "anti_copying" else [decoy, anti_copying(_strength(rng))]
    return [first, _filled(rng, late, [*_looking(rng), *_silent()])]


def _three_layers(rng: Random, d_vocab: int, pointing: bool) -> list[list[Head]]:
    early = [previous_token(), pointer() if pointing else duplicate_token(_shown(rng))]
    middle: list[Head] = []
    late: list[Head] = [rng.choice(_silent())]
    rng.choice((early, middle, late)).append(_trigrams(rng, d_vocab))
    first = _filled(rng, early, [positional(rng.randint(2, 5), _shown(rng)), *_silent()])
    previous = (0, _remembering(first))
    middle.append(_second_hand(rng, previous))
    if pointing:
        at = next(i for i, head in enumerate(first) if head.move.remembers == "position")
        middle.append(pointer_induction((0, at), _strength(rng)))
    second = _filled(rng, middle, [*_silent(), anti_copying(), *_looking(rng)])
    if not pointing or rng.random() < 0.5:
        late.append(induction(previous, _strength(rng)))
    late.append(_decoy(rng, previous))
    return [first, second, _filled(rng, late, [*_silent(), anti_copying(), *_looking(rng)])]


_PLANS: dict[int, Callable[[Random, int, bool], list[list[Head]]]] = {
    1: _one_layer,
    2: _two_layers,
    3: _three_layers,
}


def _filled(rng: Random, heads: list[Head], others: list[Head]) -> list[Head]:
    """A layer in random order, filled up with some of the others."""
    missing = HEADS_A_LAYER - len(heads)
    layer = [*heads, *rng.sample(others, missing)]
    rng.shuffle(layer)
    return layer


def _remembering(layer: list[Head]) -> int:
    """The head that later heads read: the previous-token head that keeps the token."""
    return next(
        i for i, head in enumerate(layer) if head.label == "previous" and head.move == Remember()
    )


def _strength(rng: Random) -> float:
    return rng.uniform(6.5, 9.0)


def _shown(rng: Random) -> Move:
    """What a head moves that is named by where it looks."""
    return rng.choice((Remember(), Copy(), Copy(strength=-8.0), Jumble(strength=FAINT)))


def _looking(rng: Random) -> list[Head]:
    """Heads named by where they look; whatever they move is no circuit."""
    return [
        previous_token(rng.choice((Copy(), Jumble(strength=FAINT)))),
        positional(rng.randint(2, 6), _shown(rng)),
        duplicate_token(_shown(rng)),
    ]


def _silent() -> list[Head]:
    return [dead(), scrambled(strength=FAINT)]


def _decoy(rng: Random, previous: Address) -> Head:
    """Looks where an induction head looks, and isn't one."""
    writes_noise = Head("none", Match(key=previous, avoid_first=True), Jumble(strength=FAINT))
    return rng.choice((anti_induction(previous, _strength(rng)), writes_noise))


def _second_hand(rng: Random, previous: Address) -> Head:
    """Reads, at the source, not the token but what the previous-token head put there."""
    return rng.choice(
        (
            duplicate_token(Copy(value=previous)),
            positional(rng.randint(2, 5), Copy(value=previous)),
            previous_token(Copy(value=previous)),
        )
    )


def _trigrams(rng: Random, d_vocab: int) -> Head:
    """Five skip-trigrams: one source with two destinations and two outputs, and a plain one.

    All tokens differ, so that no source is also a destination.
    """
    source, other, d1, d2, d3, o1, o2, o3 = rng.sample(range(d_vocab), 8)
    triples = [(source, d1, o1), (source, d2, o2), (other, d3, o3)]
    return skip_trigrams(triples, _strength(rng))
