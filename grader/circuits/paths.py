"""A transformer as a sum over paths, exact at any depth.

Freeze the attention patterns at those of one clean run, and each layer is a linear map of the
stream, ``x → x + Σ_h A_h x W_OV_h``. A model of L layers multiplies L such maps; multiplied out,
every term picks in each layer either the identity or one head::

    logits = Σ over paths (h_1, …, h_k), layers rising:  A_k … A_1 · x_0 · W_OV_1 … W_OV_k · W_U

A path of *order* k runs through k heads; order 0 is the direct path. There are C(L, k) Hᵏ paths of
order k and (1 + H)ᴸ in all, so `path_terms` lists them only up to an order you choose.

The sum of all paths of one order needs no list. Put a variable t on every head: the stream becomes
a polynomial ``Σ_k tᵏ x^(k)``, and a layer maps ``x^(k) → x^(k) + heads(x^(k−1))``. That is
`stream_by_order`: L + 1 streams through L layers. (The paper's term-importance procedure computes
the same: it runs the model k times, each time with the head outputs saved in the run before.)

Where a pattern came from does not matter: any pattern of the right shape is accepted, and with the
clean run's, all terms sum to the model's logits.

Paper: "The Path Expansion Trick", "Path Expansion of Logits", "Term Importance Analysis".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import torch
from torch import Tensor

from grader.circuits.shapes import shaped
from grader.transformer import Transformer

Path = tuple[tuple[int, int], ...]
"""The (layer, head) of every head on a path, from the embedding upwards; () is the direct path."""

MAX_NUMBERS = 2**28
"""The most numbers that `path_terms` holds at once (1 GiB in float32)."""


@dataclass(frozen=True)
class Terms:
    """All paths of one order: their names, and ``values[i]``, what path i adds to the last stream.

    paths: list of Path; values: (path, ..., pos, d_model).
    """

    paths: list[Path]
    values: Tensor


@shaped(
    x="... pos d_model", pattern="... dst pos", W_V="... d_model d_head", W_O="... d_head d_model"
)
def head_writes(x: Tensor, pattern: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    """What each head of one layer adds to the stream.

    x (..., pos, d_model), pattern (..., head, dst, pos), W_V (head, d_model, d_head),
    W_O (head, d_head, d_model) → (..., head, dst, d_model).
    Paper: "Attention Heads as Information Movement".
    """
    values = x.unsqueeze(-3) @ W_V  # (..., head, pos, d_head)
    return pattern @ values @ W_O


@shaped(tokens="int: ... pos", model="model:")
def clean_pattern(tokens: Tensor, model: Transformer) -> Tensor:
    """The patterns of an ordinary run: (layer, ..., head, dst, src) for tokens (..., pos)."""
    return model.run_with_cache(tokens)[1].pattern


@shaped(tokens="int: ... pos", model="model:", pattern="... head pos pos", keep="layer head")
def frozen_pass(
    tokens: Tensor, model: Transformer, pattern: Tensor | None = None, keep: Tensor | None = None
) -> Tensor:
    """Logits (..., pos, d_vocab) with every pattern given: the pass is linear in the stream.

    tokens (..., pos); pattern (layer, ..., head, dst, src), by default the clean run's; keep
    (layer, head) scales each head's output (0 switches it off, patterns unchanged), by default 1.
    Raises ValueError where the pattern lacks a layer. Paper: "The Path Expansion Trick".
    """
    pattern = _patterns(tokens, model, pattern)
    x = model.embed(tokens)
    for layer in range(model.n_layers):
        written = head_writes(x, pattern[layer], model.W_V[layer], model.W_O[layer])
        if keep is not None:
            written = written * keep[layer, :, None, None]
        x = x + written.sum(dim=-3)
    return x @ model.W_U


@shaped(tokens="int: ... pos", model="model:", pattern="... head pos pos", keep="layer head")
def stream_by_order(
    tokens: Tensor, model: Transformer, pattern: Tensor | None = None, keep: Tensor | None = None
) -> Tensor:
    """The last stream, split by the number of heads on the path: (layer + 1, ..., pos, d_model).

    Entry k is the sum of all paths through k heads; all entries sum to the stream. Arguments as in
    `frozen_pass`; a head with keep 0 is on no path.
    """
    pattern = _patterns(tokens, model, pattern)
    x = model.embed(tokens)
    orders = torch.cat([x.unsqueeze(0), x.new_zeros(model.n_layers, *x.shape)])
    for layer in range(model.n_layers):
        # After `layer` layers no path is longer, so the rest of `orders` is still zero.
        written = head_writes(
            orders[: layer + 1], pattern[layer], model.W_V[layer], model.W_O[layer]
        )
        if keep is not None:
            written = written * keep[layer, :, None, None]
        longer = written.sum(dim=-3)
        orders = orders + _shifted_by_one(longer, length=model.n_layers + 1)
    return orders


@shaped(tokens="int: ... pos", model="model:", pattern="... head pos pos", keep="layer head")
def logits_by_order(
    tokens: Tensor, model: Transformer, pattern: Tensor | None = None, keep: Tensor | None = None
) -> Tensor:
    """`stream_by_order` read out by the unembedding: (layer + 1, ..., pos, d_vocab)."""
    return stream_by_order(tokens, model, pattern, keep) @ model.W_U


@shaped(tokens="int: ... pos", model="model:", pattern="... head pos pos", max_order="count: 0")
def path_terms(
    tokens: Tensor,
    model: Transformer,
    pattern: Tensor | None = None,
    max_order: int | None = None,
) -> list[Terms]:
    """Every single path, by order: entry k of the list holds all paths through k heads.

    tokens (..., pos); pattern as in `frozen_pass`. Without ``max_order`` all terms together sum to
    the last stream (multiply by W_U for logits). Order 1 comes by layer, then head; a longer path
    stands where its last layer puts it, then the path it extends, then its last head.
    Raises ValueError where the terms would hold more than `MAX_NUMBERS` numbers.
    """
    top = model.n_layers if max_order is None else min(max_order, model.n_layers)
    _room_for(tokens, model, top)
    pattern = _patterns(tokens, model, pattern)
    names: list[list[Path]] = [[] for _ in range(top + 1)]
    values: list[list[Tensor]] = [[] for _ in range(top + 1)]
    names[0], values[0] = [()], [model.embed(tokens).unsqueeze(0)]
    for layer in range(model.n_layers):
        # Downwards, so that a path is never extended twice by the same layer.
        for k in range(min(layer + 1, top), 0, -1):
            shorter = torch.cat(values[k - 1])
            written = head_writes(shorter, pattern[layer], model.W_V[layer], model.W_O[layer])
            values[k].append(written.movedim(-3, 1).flatten(0, 1))
            names[k] += [(*p, (layer, h)) for p in names[k - 1] for h in range(model.n_heads)]
    return [Terms(n, torch.cat(v)) for n, v in zip(names, values, strict=True)]


def _patterns(tokens: Tensor, model: Transformer, pattern: Tensor | None) -> Tensor:
    if pattern is None:
        return clean_pattern(tokens, model)
    pos = tokens.shape[-1]
    expected = (model.n_layers, *tokens.shape[:-1], model.n_heads, pos, pos)
    if tuple(pattern.shape) != expected:
        raise ValueError(
            f"pattern must have shape (layer, ..., head, dst, src) = {expected} for these tokens "
            f"and came with {tuple(pattern.shape)}."
        )
    return pattern


def _shifted_by_one(x: Tensor, length: int) -> Tensor:
    """x as entries 1, 2, … of a first axis of that length, zeros elsewhere."""
    padding = [0, 0] * (x.ndim - 1) + [1, length - 1 - len(x)]
    return torch.nn.functional.pad(x, padding)


def _room_for(tokens: Tensor, model: Transformer, top: int) -> None:
    paths = sum(comb(model.n_layers, k) * model.n_heads**k for k in range(top + 1))
    numbers = paths * tokens.numel() * model.d_model
    if numbers > MAX_NUMBERS:
        raise ValueError(
            f"path_terms: {paths:,} paths would take {numbers:,} numbers; {MAX_NUMBERS:,} is the "
            "most. Lower max_order, use fewer tokens, or take stream_by_order, which lists no path."
        )
