"""What the exercises of notebook 06 share: models whose paths matter, and the paths to go wrong on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.judge.draw import Draw
from grader.judge.spec import Mistake
from grader.transformer import Transformer

NOTEBOOK = "06-path-importance"
TERMS = "Term Importance Analysis"

Patterns = tuple[Tensor, Tensor]
"""The patterns of layer 0 and of layer 1, each (head, dst, src)."""


def two_layers(draw: Draw, **sizes: int) -> Transformer:
    """A random model whose layer 1 looks elsewhere because of what layer 0 wrote.

    With plain random weights a layer hardly moves the next one's patterns, and a run that forgets to
    freeze them would differ in the third digit of a loss only.
    """
    model = draw.model(n_layers=2, **sizes)
    loud = torch.tensor([2.0, 1.0], dtype=draw.dtype).reshape(2, 1, 1, 1)
    return model.with_weights(W_Q=2 * model.W_Q, W_O=loud * model.W_O)


def questions(draw: Draw) -> Iterator[tuple[Tensor, Transformer, str]]:
    """Tokens, a two-layer model, and what is special about the pair."""

    def question(by: Draw, pos: int, **sizes: int) -> tuple[Tensor, Transformer]:
        model = two_layers(by, **sizes)
        return by.tokens(pos, d_vocab=model.d_vocab), model

    a, b, d_model, d_head, d_vocab = draw.sizes(5, 4, 10)
    pos, n_ctx = sorted((a, b))
    sizes = {"d_model": d_model, "d_head": d_head, "d_vocab": d_vocab, "n_ctx": n_ctx}
    yield *question(draw, pos, n_heads=3, **sizes), ""
    n = draw.integer(3, 5)
    equal = dict.fromkeys(("n_heads", "d_model", "d_head", "d_vocab", "n_ctx"), n)
    yield *question(draw, n, **equal), "where all sizes are equal"
    double = Draw(draw.seed, torch.float64)
    yield *question(double, pos, n_heads=1, **sizes), "with a single head, in float64"
    yield *question(draw, 2, n_heads=2, **sizes), "with two tokens, so one prediction"


@dataclass(frozen=True)
class Parts:
    """The logits by path: direct (pos, d_vocab), heads (layer, head, pos, d_vocab), virtual
    (head of layer 1, head of layer 0, pos, d_vocab)."""

    direct: Tensor
    heads: Tensor
    virtual: Tensor

    @property
    def order_1(self) -> Tensor:
        return self.heads.sum(dim=(0, 1))

    @property
    def order_2(self) -> Tensor:
        return self.virtual.sum(dim=(0, 1))

    @property
    def full(self) -> Tensor:
        return self.direct + self.order_1 + self.order_2


def clean(tokens: Tensor, model: Transformer) -> Patterns:
    first, second = model.run_with_cache(tokens)[1].pattern
    return first, second


def unfrozen(tokens: Tensor, model: Transformer) -> Patterns:
    """What both layers look at where layer 1 does not read layer 0."""
    silent = model.W_O * torch.tensor([0.0, 1.0], dtype=model.W_O.dtype).reshape(2, 1, 1, 1)
    return clean(tokens, model.with_weights(W_O=silent))


def head_terms(x: Tensor, model: Transformer, layer: int, pattern: Tensor) -> Tensor:
    """What the heads of one layer write, reading x (..., pos, d_model): (..., head, pos, d_model)."""
    return pattern @ x.unsqueeze(-3) @ model.W_V[layer] @ model.W_O[layer]


def parts(tokens: Tensor, model: Transformer, patterns: Patterns | None = None) -> Parts:
    """All paths, with the clean run's patterns or those given."""
    first, second = clean(tokens, model) if patterns is None else patterns
    x = model.W_E[tokens]
    early, late = head_terms(x, model, 0, first), head_terms(x, model, 1, second)
    virtual = head_terms(early, model, 1, second).transpose(0, 1)
    W_U = model.W_U
    return Parts(x @ W_U, torch.stack([early, late]) @ W_U, virtual @ W_U)


def mean_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean loss of the next token, in nats."""
    logs = logits[:-1].log_softmax(dim=-1)
    return -logs[torch.arange(len(tokens) - 1), tokens[1:]].mean()


def losses(tokens: Tensor, *logits: Tensor) -> Tensor:
    return torch.stack([mean_loss(these, tokens) for these in logits])


Loss = Callable[[Tensor, Tensor], Tensor]
"""(logits, tokens) → a scalar."""


def loss_mistakes(with_loss: Callable[[Loss], Callable[..., Any]]) -> tuple[Mistake, ...]:
    """Wrong losses, each as a mistake of an exercise; ``with_loss`` makes its answer with another one."""

    def unshifted(logits: Tensor, tokens: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(logits, tokens)

    def shifted_backwards(logits: Tensor, tokens: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(logits[1:], tokens[:-1])

    def summed(logits: Tensor, tokens: Tensor) -> Tensor:
        return mean_loss(logits, tokens) * (len(tokens) - 1)

    def in_bits(logits: Tensor, tokens: Tensor) -> Tensor:
        return mean_loss(logits, tokens) / math.log(2)

    return (
        Mistake(
            "not_shifted",
            with_loss(unshifted),
            "Each position is asked for its own token. The logits at position i predict token i + 1.",
            facts=(10,),
        ),
        Mistake(
            "shifted_backwards",
            with_loss(shifted_backwards),
            "Each position is asked for the token before it. The logits at position i predict token "
            "i + 1.",
            facts=(11,),
        ),
        Mistake(
            "loss_summed",
            with_loss(summed),
            "The loss is a sum over positions; the mean was asked for.",
            facts=(12,),
        ),
        Mistake(
            "loss_in_bits",
            with_loss(in_bits),
            "This is in bits. Losses here are in nats: the natural logarithm.",
            facts=(6,),
        ),
    )
