"""Notebook 08: name the circuits of a model by what it does.

Everything here is seen from outside: texts go in, patterns and outputs are read. No weight is
looked at but the unembedding, which turns an output into logits. That makes it a proof for models
whose circuits were declared (`grader.circuits.mystery`): what was planted must also happen.

A head is named by the first line that fits, from where it looks to what it does::

    the position just before, whatever stands there         "previous"
    a fixed distance further back                           "positional"
    earlier copies of the present token                     "duplicate"
    after earlier copies, and raises the token found        "induction"
    elsewhere, or there, and lowers the token found         "anti_copying"
    answers some (source, destination) with an output       "skip_trigram"
    nothing of these                                        "none"

Paper: "Induction Heads", "Skip-Trigrams", "Three Kinds of Composition".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.circuits.shapes import shaped
from grader.transformer import Cache, Transformer

LABELS = (
    "previous", "duplicate", "positional", "induction", "anti_copying", "skip_trigram", "none",
)  # fmt: skip

LOOKS = 0.8
"""Share of the attention on the places that name a head; planted heads give them 0.95 or more."""

MOVES = 2.0
"""Logits by which a head must raise or lower the token it looks at; planted ones do 6 or more."""

ANSWERS = 4.5
"""Logits that a skip-trigram must add; planted ones add 6 or more, scrambled heads at most 4."""

HINTS = 1.0
"""Logits that are worth a closer look, where a source competes with others for attention."""

READS = 0.25
"""Change of a pattern or output when one input goes; planted compositions change 0.5 or more."""

_TEXTS = 8
_FILLERS = (1, 4, 6)  # steps from the source; three, and a mystery model has two sources


@shaped(model="model:")
def name_circuits(model: Transformer) -> dict[str, Any]:
    """Heads, skip-trigrams and compositions of a model, seen from its behavior.

    → {"heads": {(layer, head): label}, "skip_trigrams": sorted [(source, destination, output)],
    "compositions": sorted [(kind, (layer, head) read from, (layer, head) reading)]}.
    """
    texts = _Texts.of(model)
    looks, raises = _looks(model, texts), _raises(model)
    addresses = [(layer, head) for layer in range(model.n_layers) for head in range(model.n_heads)]
    heads = {address: _by_look(looks, raises, address) for address in addresses}
    planted: set[tuple[int, int, int]] = set()
    for address, triples in _answers(model, [a for a in heads if heads[a] == "none"]).items():
        heads[address] = "skip_trigram"
        planted |= triples
    return {
        "heads": heads,
        "skip_trigrams": sorted(planted),
        "compositions": sorted(_compositions(model, texts.repeated)),
    }


@dataclass(frozen=True)
class _Texts:
    """random (text, pos): every token by chance. repeated (text, pos): distinct tokens, over and
    over, the period another in each row, so that no fixed distance stays at an earlier copy."""

    random: Tensor
    repeated: Tensor

    @classmethod
    def of(cls, model: Transformer) -> _Texts:
        generator = torch.Generator().manual_seed(0)
        rows = []
        for number in range(_TEXTS):
            longest = min(model.d_vocab, model.n_ctx // 2)
            period = longest - number % max(1, longest - 4)
            once = torch.randperm(model.d_vocab, generator=generator)[:period]
            rows.append(once.repeat(model.n_ctx // period + 1)[: model.n_ctx])
        shape = (_TEXTS, model.n_ctx)
        return cls(torch.randint(model.d_vocab, shape, generator=generator), torch.stack(rows))


@dataclass(frozen=True)
class _Looks:
    """Shares of attention by (layer, head): back (n_ctx, …) at each fixed distance, copies, after."""

    back: Tensor
    copies: Tensor
    after: Tensor


def _looks(model: Transformer, texts: _Texts) -> _Looks:
    pattern = model.run_with_cache(texts.random)[1].pattern  # (layer, text, head, dst, src)
    back = [
        pattern.diagonal(-distance, -2, -1).mean(dim=(1, -1)) for distance in range(model.n_ctx)
    ]
    tokens = texts.repeated
    pattern = model.run_with_cache(tokens)[1].pattern
    earlier = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril(-1)
    copies = (tokens[:, :, None] == tokens[:, None, :]) & earlier
    after = copies.roll(1, dims=-1)
    after[..., 0] = False
    return _Looks(torch.stack(back), _share(pattern, copies), _share(pattern, after))


def _share(pattern: Tensor, places: Tensor) -> Tensor:
    """Attention (layer, text, head, dst, src) on the places (text, dst, src): (layer, head), the
    mean over the destinations that have such a place."""
    there = (pattern * places[:, None]).sum(dim=-1)  # (layer, text, head, dst)
    asked = places.any(dim=-1)[:, None].to(pattern.dtype)
    return (there * asked).sum(dim=(1, -1)) / asked.sum()


def _raises(model: Transformer) -> Tensor:
    """How much each head changes the logit of the one token it sees, above the mean: (layer, head).

    In a text of one token every head looks at that token and nowhere else.
    """
    alone = torch.arange(model.d_vocab)[:, None]
    cache = model.run_with_cache(alone)[1]
    logits = cache.head_out[..., 0, :] @ model.W_U  # (layer, token, head, d_vocab)
    logits = logits - logits.mean(dim=-1, keepdim=True)
    return logits.diagonal(0, 1, -1).mean(dim=-1)


def _by_look(looks: _Looks, raises: Tensor, address: tuple[int, int]) -> str:
    distances = looks.back[1:, *address]
    if distances.max() >= LOOKS:
        return "previous" if int(distances.argmax()) == 0 else "positional"
    if looks.copies[address] >= LOOKS:
        return "duplicate"
    if looks.after[address] >= LOOKS and raises[address] >= MOVES:
        return "induction"
    return "anti_copying" if raises[address] <= -MOVES else "none"


def _answers(
    model: Transformer, heads: list[tuple[int, int]]
) -> dict[tuple[int, int], set[tuple[int, int, int]]]:
    """Every (source, destination, output) that these heads answer, by head; silent heads left out.

    What counts is what the head carries from the source to the logits at the destination. Texts of
    all tokens and then a destination show which pairs to ask about; there, sources compete. Texts
    of filler, source, destination then ask about one pair; the best of three fillers, since a
    filler may be a source too.
    """
    d_vocab = model.d_vocab
    everything = torch.arange(d_vocab).repeat(d_vocab, 1)
    crowd = torch.cat([everything, torch.arange(d_vocab)[:, None]], dim=-1)[:, -model.n_ctx :]
    carried = _carried(model, crowd, heads).amax(dim=-1)  # (head, text, src)
    pairs = sorted({(int(crowd[d, i]), d) for _, d, i in (carried >= HINTS).nonzero().tolist()})
    found: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
    if not pairs:
        return found
    source, destination = torch.tensor(pairs).T
    asked = [torch.stack([(source + f) % d_vocab, source, destination], -1) for f in _FILLERS]
    best = torch.stack([_carried(model, text, heads)[:, :, 1] for text in asked]).amax(dim=0)
    for head, pair, output in (best >= ANSWERS).nonzero().tolist():
        found.setdefault(heads[head], set()).add((*pairs[pair], output))
    return found


def _carried(model: Transformer, tokens: Tensor, heads: list[tuple[int, int]]) -> Tensor:
    """Logits at the last position that heads fetch from each one before: (head, text, src, d_vocab).

    The last position itself is left out.
    """
    cache = model.run_with_cache(tokens)[1]
    text, pos = tokens.shape
    none = model.W_U.new_zeros(0, text, pos - 1, model.d_vocab)
    fetched = [
        cache.pattern[layer, :, head, -1, :-1, None]
        * (cache.v[layer, :, head, :-1] @ (model.W_O[layer, head] @ model.W_U))
        for layer, head in heads
    ]
    return torch.stack(fetched) if fetched else none


def _compositions(
    model: Transformer, tokens: Tensor
) -> set[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Who reads whom: take one head's output away from one input of a later layer, and look."""
    cache = model.run_with_cache(tokens)[1]
    typical = float(cache.head_out.norm(dim=-1).mean())
    found = set()
    for layer in range(1, model.n_layers):
        for before in range(layer):
            for writer in range(model.n_heads):
                changes = _changes(model, cache, layer, cache.head_out[before, :, writer], typical)
                for kind, change in changes.items():
                    for reader in (change >= READS).nonzero().flatten().tolist():
                        found.add((kind, (before, writer), (layer, reader)))
    return found


def _changes(
    model: Transformer, cache: Cache, layer: int, gone: Tensor, typical: float
) -> dict[str, Tensor]:
    """Change of every head of a layer, (head,), when ``gone`` (text, pos, d_model) is missing.

    "Q", "K": the share of its attention that moves elsewhere. "V": the length of the change of its
    output, against that output or half a typical one, whichever is longer.
    """
    q, k, pattern = cache.q[layer], cache.k[layer], cache.pattern[layer]
    gone = gone.unsqueeze(1)  # (text, 1, pos, d_model)
    change_v = (pattern @ (gone @ model.W_V[layer])) @ model.W_O[layer]
    own = cache.head_out[layer].norm(dim=-1).mean(dim=(0, -1))  # (head,)
    return {
        "Q": _moved(pattern, q - gone @ model.W_Q[layer], k),
        "K": _moved(pattern, q, k - gone @ model.W_K[layer]),
        "V": change_v.norm(dim=-1).mean(dim=(0, -1)) / own.clamp_min(typical / 2),
    }


def _moved(pattern: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Half of what changes in each row, averaged: 0 if all stays, 1 if all goes elsewhere."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    other = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
    moved: Tensor = (pattern - other).abs().sum(dim=-1).mean(dim=(0, -1)) / 2
    return moved
