"""What a compiled head is made of: where it looks and what it moves, as matrices between features.

A compiled model keeps each kind of information in a *feature*, a block of directions of the stream.
Inside a feature the codes are orthonormal, or nearly so, and a mechanism is one matrix between two
features:

======== =============================================================== ======================
token    which token stands here, one direction a token                  written by W_E
ones     1 everywhere                                                    written by W_pos
first    1 at position 0, else 0                                         written by W_pos
ramp     position / n_ctx                                                written by W_pos
waves    position p on F circles, (cos ω p, sin ω p) / √F for each ω     written by W_pos
logits   one direction a token, read by W_U                              written by heads and W_E
(l, h)   the memory of head (l, h): a token, or a position as waves      written by that head
======== =============================================================== ======================

Two positions overlap in the waves by κ(p − p'), where κ(δ) is the mean over ω of cos(ω δ): 1 at 0
and at most ``sidelobe`` in size elsewhere. A shift by k turns each circle, so "k back" is one
orthogonal matrix.

How sharply a head looks is declared in nats. If each wrong source scores at least ``margin`` =
ln(n_ctx) + sharpness below every right one, the wrong ones (fewer than n_ctx, each of relative
weight e^−margin) share less than e^−sharpness of the attention. The derivations below show that
each way of looking keeps that margin.

Paper: "Summarizing OV/QK Matrices", "Positional Heads"; the exercises published beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt

import torch
from torch import Tensor

Address = tuple[int, int]
"""(layer, head)."""

Feature = str | Address
"""A name from the table above; an address stands for that head's memory."""

SHARPNESS = 6.0
"""Nats beyond ln(n_ctx): wrong sources share at most e^−6, a quarter of a per cent."""

STRENGTH = 8.0
"""Logits that a head adds to what it moves when its whole attention is on one source."""


@dataclass(frozen=True, eq=False)
class Block:
    """``matrix`` (size of reads, size of writes) between two features.

    In W_QK, ``reads`` is the query's feature and ``writes`` the key's.
    """

    reads: Feature
    writes: Feature
    matrix: Tensor


@dataclass(frozen=True, eq=False)
class Geometry:
    """Sizes, the frequencies ω (F,) of the waves, and the source of randomness of one model."""

    d_vocab: int
    n_ctx: int
    frequencies: Tensor
    generator: torch.Generator

    @cached_property
    def sidelobe(self) -> float:
        """The largest |κ(δ)| over 1 ≤ δ ≤ n_ctx."""
        return float(sidelobe(self.frequencies, self.n_ctx))

    def margin(self, sharpness: float) -> float:
        return log(self.n_ctx) + sharpness

    def waves(self, positions: Tensor) -> Tensor:
        """positions (pos,) → (pos, 2F), rows of length 1: all cosines, then all sines."""
        angles = positions[:, None] * self.frequencies
        points = torch.cat([angles.cos(), angles.sin()], dim=-1)
        return points / sqrt(len(self.frequencies))

    def shift(self, steps: int) -> Tensor:
        """The rotation with ``waves(p) @ shift(k) = waves(p + k)``, (2F, 2F)."""
        cos, sin = (self.frequencies * steps).cos().diag(), (self.frequencies * steps).sin().diag()
        return torch.cat([torch.cat([cos, sin], dim=1), torch.cat([-sin, cos], dim=1)])

    def tokens(self, weight: float) -> Tensor:
        """Same token to same token, (d_vocab, d_vocab)."""
        return weight * torch.eye(self.d_vocab, dtype=torch.float64)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)


def sidelobe(frequencies: Tensor, n_ctx: int) -> Tensor:
    """max |mean over ω of cos(ω δ)| over 1 ≤ δ ≤ n_ctx: (..., F) → (...)."""
    steps = torch.arange(1, n_ctx + 1, dtype=torch.float64)
    overlaps = (frequencies.unsqueeze(-1) * steps).cos().mean(dim=-2)
    return overlaps.abs().amax(dim=-1)


@dataclass(frozen=True)
class Attend:
    """Where a head looks. A query or key of None reads the token, an address that head's memory.

    This class itself scores every source alike: uniform attention.
    """

    query: Address | None = None
    key: Address | None = None

    def blocks(self, g: Geometry) -> list[Block]:
        """W_QK as a sum of blocks, before the division by sqrt(d_head) is undone."""
        return []


@dataclass(frozen=True)
class Offset(Attend):
    """The position ``offset`` before this one; with ``query``, before the one remembered there.

    Score β κ(dst − offset − src): the target gets β, others at most β·sidelobe, so
    β = margin / (1 − sidelobe).
    """

    offset: int = 1
    sharpness: float = SHARPNESS

    def blocks(self, g: Geometry) -> list[Block]:
        beta = g.margin(self.sharpness) / (1 - g.sidelobe)
        return [Block(self.query or "waves", "waves", beta * g.shift(-self.offset))]


@dataclass(frozen=True)
class Match(Attend):
    """Sources whose content equals the query's.

    Score ``G [same] − B κ(dst − src) − D [src = 0] + ρ src``, each part where asked for. With
    s = sidelobe and r = ρ n_ctx, the most that the slope can give:

    ``avoid_self`` (a token always equals itself): a copy beats self by at least B(1 − s) − r, so
    B = (margin + r) / (1 − s).
    A copy beats a different token by at least G − 2Bs − r, so G = margin + 2Bs + r.
    ``avoid_first`` (position 0 can attend only to itself, so what a previous-token head stored
    there is its own token, a false match): D = G + r takes all of it away.
    ``prefer_latest`` (two copies must not blur into one pointer): ρ = margin / 3, so copies three
    or more positions apart differ by the margin. That needs s = 0, or B κ outweighs the slope.
    """

    avoid_self: bool = False
    avoid_first: bool = False
    prefer_latest: bool = False
    sharpness: float = SHARPNESS

    def blocks(self, g: Geometry) -> list[Block]:
        margin, s = g.margin(self.sharpness), g.sidelobe
        rise = g.n_ctx * margin / 3 if self.prefer_latest else 0.0
        B = (margin + rise) / (1 - s) if self.avoid_self else 0.0
        G = margin + 2 * B * s + rise
        blocks = [Block(self.query or "token", self.key or "token", g.tokens(G))]
        if self.avoid_self:
            blocks.append(Block("waves", "waves", -B * g.shift(0)))
        if self.avoid_first:
            blocks.append(Block("ones", "first", _number(-G - rise)))
        if self.prefer_latest:
            blocks.append(Block("ones", "ramp", _number(rise)))
        return blocks


@dataclass(frozen=True)
class Pairs(Attend):
    """From given destination tokens to given source tokens, ``pairs`` of (source, destination).

    Score ``2 margin [pair] − margin [source of any pair]``: a pair beats an ordinary token by the
    margin, and a source without its destination falls below ordinary tokens by the margin. What is
    then attended, evenly, are tokens about which the head says nothing.
    """

    pairs: tuple[tuple[int, int], ...] = ()
    sharpness: float = SHARPNESS

    def blocks(self, g: Geometry) -> list[Block]:
        margin = g.margin(self.sharpness)
        wanted, shunned = g.tokens(0.0), g.tokens(0.0)[:1]
        for source, destination in self.pairs:
            wanted[destination, source] = 2 * margin
            shunned[0, source] = -margin
        query, key = self.query or "token", self.key or "token"
        return [Block(query, key, wanted), Block("ones", key, shunned)]


@dataclass(frozen=True)
class Haphazard(Attend):
    """Random scores between tokens, standard deviation ``nats``."""

    nats: float = 2.0

    def blocks(self, g: Geometry) -> list[Block]:
        table = self.nats * g.normal(g.d_vocab, g.d_vocab)
        return [Block(self.query or "token", self.key or "token", table)]


@dataclass(frozen=True)
class Move:
    """What a head moves. A value of None reads the token, an address that head's memory.

    This class itself moves nothing. ``remembers`` says what a reader finds in the head's memory.
    """

    value: Address | None = None

    @property
    def remembers(self) -> str | None:
        return None

    def blocks(self, g: Geometry, memory: Address) -> list[Block]:
        """W_OV as a sum of blocks."""
        return []


@dataclass(frozen=True)
class Copy(Move):
    """Raise the logit of what is read; a negative strength lowers it."""

    strength: float = STRENGTH

    def blocks(self, g: Geometry, memory: Address) -> list[Block]:
        return [Block(self.value or "token", "logits", g.tokens(self.strength))]


@dataclass(frozen=True)
class Answer(Move):
    """Raise given output tokens for given source tokens, ``answers`` of (source, output)."""

    answers: tuple[tuple[int, int], ...] = ()
    strength: float = STRENGTH

    def blocks(self, g: Geometry, memory: Address) -> list[Block]:
        table = g.tokens(0.0)
        for source, output in self.answers:
            table[source, output] = self.strength
        return [Block(self.value or "token", "logits", table)]


@dataclass(frozen=True)
class Remember(Move):
    """Keep the token read (or, with ``position``, where it stood) for later heads to read."""

    position: bool = False

    @property
    def remembers(self) -> str:
        return "position" if self.position else "token"

    def blocks(self, g: Geometry, memory: Address) -> list[Block]:
        if self.position:
            return [Block(self.value or "waves", memory, g.shift(0))]
        return [Block(self.value or "token", memory, g.tokens(1.0))]


@dataclass(frozen=True)
class Jumble(Move):
    """A random map from tokens to logits; the rows have about the length that a copy's have."""

    strength: float = STRENGTH

    def blocks(self, g: Geometry, memory: Address) -> list[Block]:
        table = g.normal(g.d_vocab, g.d_vocab) * self.strength / sqrt(g.d_vocab)
        return [Block(self.value or "token", "logits", table)]


@dataclass(frozen=True)
class Head:
    """One head: its name in the ground truth, where it looks, what it moves."""

    label: str
    attend: Attend = Attend()
    move: Move = Move()


def _number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)
