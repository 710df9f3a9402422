"""Losses of sums of paths, on many texts at once: the demos of notebook 06 draw from it.

A learner writes the same for one text; the demos can't wait for that. Rows of ``texts`` are separate.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grader.circuits.paths import head_writes
from grader.circuits.zero_layer import next_token_loss
from grader.transformer import Transformer

Head = tuple[int, int]

PAPER = (
    "In nats. Paper: Elhage et al. 2021, “Term Importance Analysis”, with 12 heads in each layer; "
    "the numbers as its authors tell them in their video on it."
)


@dataclass(frozen=True)
class Effect:
    """A group of terms, what it is added to, and how many terms there are for ``heads`` heads.

    paper: by how many nats it lowered the loss of the paper's model
    without, terms: the ``groups`` in the sum before, and those that come in
    """

    name: str
    base: str
    paper: float
    count: Callable[[int], int]
    without: Sequence[str]
    terms: Sequence[str]


EFFECTS = (
    Effect("direct path", "a uniform guess", 1.8, lambda h: 1, [], ["direct"]),
    Effect(
        "all single heads", "direct path", 5.2, lambda h: 2 * h, ["direct"], ["heads 0", "heads 1"]
    ),
    Effect(
        "all virtual heads", "direct path, single heads", 0.3, lambda h: h * h,
        ["direct", "heads 0", "heads 1"], ["virtual"],
    ),
    Effect("heads of layer 0", "direct path", 1.3, lambda h: h, ["direct"], ["heads 0"]),
    Effect(
        "heads of layer 0", "direct path, layer 1", 0.05, lambda h: h,
        ["direct", "heads 1"], ["heads 0"],
    ),
    Effect("heads of layer 1", "direct path", 5.2, lambda h: h, ["direct"], ["heads 1"]),
    Effect(
        "heads of layer 1", "direct path, layer 0", 4.0, lambda h: h,
        ["direct", "heads 0"], ["heads 1"],
    ),
)  # fmt: skip


def groups(
    model: Transformer, texts: Tensor, *, frozen: bool = True, free: Collection[Head] = ()
) -> dict[str, Tensor]:
    """The last stream of a two-layer model in four parts: direct, heads 0, heads 1, virtual.

    texts (batch, pos) → (batch, pos, d_model) each, with the clean run's patterns. frozen=False:
    layer 1 looks where it would look if layer 0 had written nothing.
    free: heads that are not counted on a path; what passes through them keeps its order.
    """
    pattern = model.run_with_cache(texts)[1].pattern
    if not frozen:
        silent = torch.cat([torch.zeros_like(model.W_O[:1]), model.W_O[1:]])
        pattern = model.with_weights(W_O=silent).run_with_cache(texts)[1].pattern

    def written(x: Tensor, layer: int, counted: bool) -> Tensor:
        chosen = [h for h in range(model.n_heads) if ((layer, h) not in free) == counted]
        heads = head_writes(x, pattern[layer], model.W_V[layer], model.W_O[layer])
        return heads[:, chosen].sum(dim=1)

    def through(x: Tensor) -> Tensor:
        return x + written(x, 1, counted=False)

    x = model.embed(texts)
    bare, early = x + written(x, 0, counted=False), written(x, 0, counted=True)
    return {
        "direct": through(bare),
        "heads 0": through(early),
        "heads 1": written(bare, 1, counted=True),
        "virtual": written(early, 1, counted=True),
    }


def loss_of(model: Transformer, texts: Tensor, parts: Collection[Tensor]) -> float:
    """The mean loss of the logits that these parts of the last stream add up to; none: a uniform guess."""
    if not parts:
        return math.log(model.d_vocab)
    return float(next_token_loss(sum(parts, torch.tensor(0.0)) @ model.W_U, texts))


def by_order(
    model: Transformer, texts: Tensor, *, frozen: bool = True, free: Collection[Head] = ()
) -> list[float]:
    """The loss with paths of order 0, ≤ 1 and ≤ 2. Arguments as in ``groups``."""
    found = groups(model, texts, frozen=frozen, free=free)
    up_to = [["direct"], ["direct", "heads 0", "heads 1"]]
    losses = [loss_of(model, texts, [found[name] for name in names]) for names in up_to]
    # With all terms there the model is whole, and looks where it looks.
    return [*losses, float(next_token_loss(model(texts), texts))]


def effects(model: Transformer, texts: Tensor) -> list[float]:
    """By how many nats each of ``EFFECTS`` lowers the loss on these texts."""
    found = groups(model, texts)

    def loss(names: Sequence[str]) -> float:
        return loss_of(model, texts, [found[name] for name in names])

    return [loss(e.without) - loss([*e.without, *e.terms]) for e in EFFECTS]


def without_virtual(model: Transformer, texts: Tensor) -> Tensor:
    """How much the loss rises without one virtual head: (head of layer 1, head of layer 0)."""
    logits, cache = model.run_with_cache(texts)
    whole = float(next_token_loss(logits, texts))
    rises = torch.zeros(model.n_heads, model.n_heads)
    for early in range(model.n_heads):
        read = cache.head_out[0][:, early]
        terms = head_writes(read, cache.pattern[1], model.W_V[1], model.W_O[1])
        for late in range(model.n_heads):
            rest = logits - terms[:, late] @ model.W_U
            rises[late, early] = float(next_token_loss(rest, texts)) - whole
    return rises


class Table:
    """Effects in the paper and in ours, in nats; shows itself in a notebook and as text."""

    def __init__(self, columns: Mapping[str, tuple[Transformer, list[float]]]) -> None:
        self.head = ["terms", "added to", "paper", *columns]
        self.rows = []
        for i, effect in enumerate(EFFECTS):
            cells = [_amount(effect.paper, effect.count(12))]
            cells += [_amount(v[i], effect.count(m.n_heads)) for m, v in columns.values()]
            self.rows.append([effect.name, effect.base, *cells])

    def __repr__(self) -> str:
        lines = [self.head, *self.rows]
        wide = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, wide, strict=True)).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        def row(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self.rows)
        return f"<table>{row(self.head, 'th')}{body}</table><p>{html.escape(PAPER)}</p>"


def _amount(nats: float, count: int) -> str:
    each = f" ({count} terms, {nats / count:.3f} each)" if count > 1 else ""
    return f"{nats:.2f}{each}"


def table(models: Mapping[str, Transformer], texts: Tensor) -> Table:
    """The paper's table of term importance beside the same numbers of these models."""
    return Table({name: (model, effects(model, texts)) for name, model in models.items()})
