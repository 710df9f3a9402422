"""The heads that are planted in compiled models: one function a mechanism.

Each returns a declaration for `grader.circuits.compiled.compile_model`. Where a head reads what an
earlier head stored, that head is named by its address (layer, head), and the two compose.

Paper: "Skip-Trigrams", "Induction Heads"; exercises, "Induction Heads through Pointer Arithmetic".
"""

from __future__ import annotations

from collections.abc import Iterable

from grader.circuits.compiled_parts import (
    SHARPNESS,
    STRENGTH,
    Address,
    Answer,
    Attend,
    Copy,
    Haphazard,
    Head,
    Jumble,
    Match,
    Move,
    Offset,
    Pairs,
    Remember,
)


def previous_token(move: Move | None = None, sharpness: float = SHARPNESS) -> Head:
    """Looks one back and, unless told otherwise, remembers the token there."""
    return Head("previous", Offset(offset=1, sharpness=sharpness), move or Remember())


def positional(offset: int, move: Move | None = None, sharpness: float = SHARPNESS) -> Head:
    """Looks ``offset`` back, at least 2 (1 is the previous token), whatever stands there."""
    if offset < 2:
        raise ValueError(f"positional: offset must be at least 2; {offset} came.")
    return Head("positional", Offset(offset=offset, sharpness=sharpness), move or Remember())


def duplicate_token(move: Move | None = None, sharpness: float = SHARPNESS) -> Head:
    """Looks at earlier copies of the present token."""
    return Head("duplicate", Match(avoid_self=True, sharpness=sharpness), move or Remember())


def skip_trigrams(
    triples: Iterable[tuple[int, int, int]],
    strength: float = STRENGTH,
    sharpness: float = SHARPNESS,
) -> Head:
    """Predicts output after destination where source came before, for (source, destination, output).

    One source with two destinations and two outputs makes all four combinations: the bug.
    """
    triples = list(triples)
    pairs = tuple(sorted({(s, d) for s, d, _ in triples}))
    answers = tuple(sorted({(s, o) for s, _, o in triples}))
    attend = Pairs(pairs=pairs, sharpness=sharpness)
    return Head("skip_trigram", attend, Answer(answers=answers, strength=strength))


def copying(strength: float = STRENGTH) -> Head:
    """Looks everywhere alike and raises every token it sees."""
    return Head("copying", Attend(), Copy(strength=strength))


def anti_copying(strength: float = STRENGTH) -> Head:
    """Looks everywhere alike and lowers every token it sees."""
    return Head("anti_copying", Attend(), Copy(strength=-strength))


def induction(previous: Address, strength: float = STRENGTH, sharpness: float = SHARPNESS) -> Head:
    """Looks after earlier copies of the present token, by K-composition, and raises what it finds.

    ``previous`` is a previous-token head of an earlier layer: the key is the token before.
    """
    return Head("induction", _after_copies(previous, sharpness), Copy(strength=strength))


def anti_induction(
    previous: Address, strength: float = STRENGTH, sharpness: float = SHARPNESS
) -> Head:
    """Looks where an induction head looks and lowers what it finds: not an induction head."""
    return Head("anti_copying", _after_copies(previous, sharpness), Copy(strength=-strength))


def pointer(sharpness: float = SHARPNESS) -> Head:
    """A duplicate-token head that remembers *where* the latest earlier copy stands.

    Needs positions in the stream. It must settle on one copy: the average of two positions in the
    waves points at neither.
    """
    attend = Match(avoid_self=True, prefer_latest=True, sharpness=sharpness)
    return Head("duplicate", attend, Remember(position=True))


def pointer_induction(
    pointed: Address, strength: float = STRENGTH, sharpness: float = SHARPNESS
) -> Head:
    """Looks one after the position that ``pointed`` remembers, by Q-composition, and copies."""
    attend = Offset(query=pointed, offset=-1, sharpness=sharpness)
    return Head("induction", attend, Copy(strength=strength))


def dead() -> Head:
    """Looks everywhere alike and moves nothing."""
    return Head("none")


def scrambled(strength: float = STRENGTH, nats: float = 2.0) -> Head:
    """As strong as the others and without any order."""
    return Head("none", Haphazard(nats=nats), Jumble(strength=strength))


def _after_copies(previous: Address, sharpness: float) -> Attend:
    return Match(key=previous, avoid_first=True, sharpness=sharpness)
