"""Transformers written by hand, hidden in a random basis: models whose circuits are known.

::

    mystery = compile_model(
        [[previous_token(), skip_trigrams([(3, 7, 12)])], [induction(previous=(0, 0))]],
        d_vocab=24, n_ctx=40, seed=5,
    )
    mystery.model          # a Transformer like any other
    mystery.heads          # {(0, 0): "previous", (0, 1): "skip_trigram", (1, 0): "induction", …}
    mystery.compositions   # [("K", (0, 0), (1, 0))]

Five stages: check the declarations, lay out the stream, write the weights feature by feature, turn
every basis that has no meaning (the stream's and each head's), add a little noise. After the turn
nothing can be read off an axis; with noise no circuit is exactly zero, and as in trained models
"none" means small. The heads to declare are in `compiled_heads`, how they work in `compiled_parts`.

Paper: "Residual Stream" (no privileged basis), "Attention Heads are Independent and Additive" (the
basis inside a head is arbitrary), "Two-Layer Attention-Only Transformers".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader.circuits.compiled_heads import dead
from grader.circuits.compiled_parts import Address, Answer, Geometry, Head, Offset, Pairs
from grader.circuits.compiled_weights import Sizes, blur, frequencies, turn, write
from grader.transformer import Transformer

N_WAVES = 8
"""Enough that no two positions overlap by more than about ½, up to n_ctx 64."""


@dataclass(frozen=True)
class Compiled:
    """A model and what is in it.

    heads: the label of every head by (layer, head), heads that fill up a layer as "none".
    skip_trigrams: sorted (source, destination, output), the forced combinations (the bug) included.
    compositions: sorted (kind "Q", "K" or "V", head read from, head reading).
    """

    model: Transformer
    heads: dict[Address, str]
    skip_trigrams: list[tuple[int, int, int]]
    compositions: list[tuple[str, Address, Address]]


def compile_model(
    layers: Sequence[Sequence[Head]],
    *,
    d_vocab: int,
    n_ctx: int,
    seed: int,
    d_model: int | None = None,
    d_head: int | None = None,
    n_waves: int | None = None,
    pos_in_stream: bool = False,
    bigrams: float = 0.5,
    noise: float = 0.01,
    dtype: torch.dtype = torch.float32,
) -> Compiled:
    """Assemble declared heads into one Transformer. Same arguments, same weights.

    layers: heads by layer; shorter layers are filled up with dead heads. d_model and d_head default
    to what the declarations need; more leaves directions empty. n_waves: circles that positions are
    written on; fewer make d_head smaller and scores by position larger. By default `N_WAVES`, or
    enough to keep all positions apart exactly where a head remembers them. bigrams: standard
    deviation of the direct path's logits. noise: standard deviation of what is added to every
    weight, relative to the root mean square of that weight; up to 0.02 every head behaves as said.

    Raises ValueError where a declaration can't be built, naming the head and what it lacks.
    """
    heads = _addressed(layers)
    generator = torch.Generator().manual_seed(seed)
    if n_waves is None:
        pointing = any(head.move.remembers == "position" for head in heads.values())
        n_waves = n_ctx if pointing else N_WAVES
    geometry = Geometry(d_vocab, n_ctx, frequencies(n_waves, n_ctx, generator), generator)
    for address in heads:
        _check(address, heads, geometry, pos_in_stream)
    model = write(heads, geometry, Sizes(d_model, d_head), bigrams, pos_in_stream)
    model = blur(turn(model, generator), noise, generator)
    return Compiled(
        model=model.to(dtype),
        heads={address: head.label for address, head in heads.items()},
        skip_trigrams=_planted_trigrams(heads),
        compositions=_planted_compositions(heads),
    )


def _addressed(layers: Sequence[Sequence[Head]]) -> dict[Address, Head]:
    """The heads by (layer, head), every layer filled up to the longest."""
    n_heads = max((len(layer) for layer in layers), default=0)
    if n_heads == 0:
        raise ValueError("compile_model: declare at least one head.")
    return {
        (layer, index): heads[index] if index < len(heads) else dead()
        for layer, heads in enumerate(layers)
        for index in range(n_heads)
    }


def _check(address: Address, heads: dict[Address, Head], g: Geometry, pos_in_stream: bool) -> None:
    head = heads[address]
    where = f"compile_model: head {address} ({head.label})"
    for kind, source in _reads(head):
        if source not in heads or source[0] >= address[0]:
            raise ValueError(f"{where} reads {source}, which is no head of an earlier layer.")
        needed, kept = _memory_needed(kind, head), heads[source].move.remembers
        if kept != needed:
            raise ValueError(
                f"{where} reads a {needed} from {source}, which remembers {kept or 'nothing'}."
            )
    if head.move.remembers == "position" and not pos_in_stream:
        raise ValueError(f"{where} remembers positions; that takes pos_in_stream=True.")
    if isinstance(head.attend, Offset) and not abs(head.attend.offset) < g.n_ctx:
        raise ValueError(f"{where} looks {head.attend.offset} back, and n_ctx is {g.n_ctx}.")
    for token in _tokens_named(head):
        if not 0 <= token < g.d_vocab:
            raise ValueError(f"{where} names token {token}; ids are 0 … {g.d_vocab - 1}.")


def _reads(head: Head) -> list[tuple[str, Address]]:
    """(kind, head read from) of every composition that a head declares."""
    sources = {"Q": head.attend.query, "K": head.attend.key, "V": head.move.value}
    return [(kind, source) for kind, source in sources.items() if source is not None]


def _memory_needed(kind: str, head: Head) -> str:
    if kind == "V":
        return head.move.remembers or "token"
    return "position" if isinstance(head.attend, Offset) else "token"


def _tokens_named(head: Head) -> list[int]:
    pairs = head.attend.pairs if isinstance(head.attend, Pairs) else ()
    answers = head.move.answers if isinstance(head.move, Answer) else ()
    return [token for pair in (*pairs, *answers) for token in pair]


def _planted_trigrams(heads: dict[Address, Head]) -> list[tuple[int, int, int]]:
    """Every (source, destination, output): a source's outputs follow all of its destinations."""
    return sorted(
        {
            (source, destination, output)
            for head in heads.values()
            if isinstance(head.attend, Pairs) and isinstance(head.move, Answer)
            for source, destination in head.attend.pairs
            for answered, output in head.move.answers
            if answered == source
        }
    )


def _planted_compositions(heads: dict[Address, Head]) -> list[tuple[str, Address, Address]]:
    return sorted(
        (kind, source, address) for address, head in heads.items() for kind, source in _reads(head)
    )
