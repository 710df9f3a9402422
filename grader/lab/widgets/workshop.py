"""An induction circuit with its knobs: how strong, how sharp, how far back the first head looks.

Two heads make the circuit. The earlier one tells each position which token stands before it; the
later one looks for the present token among those, and raises the token it finds there. Three edits
show what each part is for::

    strength s      W_O of the later head times s: what it adds to the logits
    temperature T   W_Q of both heads over T: softmax(scores / T), so 1 leaves all as it is
    offset k        the earlier head looks k back instead of 1; only in the circuit written by hand

Paper: "How Induction Heads Work"; the circuit written by hand, `grader.circuits.compiled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import induction
from grader.circuits.compiled_parts import Head, Offset, Remember
from grader.circuits.composition import composition_scores
from grader.circuits.induction_heads import find_induction_heads, repeated_tokens
from grader.transformer import Transformer

Address = tuple[int, int]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
N_CTX = 48
OFFSETS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, eq=False)
class Circuit:
    """A model with the two heads that make induction in it."""

    model: Transformer
    previous: Address
    induction: Address

    def edited(self, strength: float, temperature: float) -> Transformer:
        """The model with the two edits; at strength 1 and temperature 1 the model itself."""
        W_Q, W_O = self.model.W_Q.clone(), self.model.W_O.clone()
        for head in (self.previous, self.induction):
            W_Q[head] /= temperature
        W_O[self.induction] *= strength
        return self.model.with_weights(W_Q=W_Q, W_O=W_O)


@cache
def by_hand(offset: int = 1) -> Circuit:
    """The circuit written by hand, over the letters a … z; its first head looks ``offset`` back."""
    first = Head("positional", Offset(offset=offset), Remember())
    compiled = compile_model(
        [[first], [induction(previous=(0, 0))]],
        d_vocab=len(LETTERS), n_ctx=N_CTX, seed=0, noise=0.0, bigrams=0.0,
    )  # fmt: skip
    return Circuit(compiled.model, (0, 0), (1, 0))


def found_in(model: Transformer) -> Circuit:
    """The induction head of a model and the earlier head that its keys read most.

    Raises ValueError where there is none, and says what is missing.
    """
    if model.n_layers < 2:
        raise ValueError(
            "Induction takes two layers, a head that reads what an earlier head wrote; this model "
            f"has {model.n_layers}."
        )
    model = model.with_weights(**{name: w.detach() for name, w in model.weights().items()})
    heads = [head for head in find_induction_heads(model) if head[0] > 0]
    if not heads:
        raise ValueError(
            "No head of this model matches prefixes and copies clearly enough to be edited. Without a "
            "model, induction_workshop() takes the circuit written by hand."
        )
    table = composition_scores(model)[
        1
    ]  # K-composition: (layer, head, earlier layer, earlier head)
    later = max(heads, key=lambda head: float(table[head].max()))
    earlier = divmod(int(table[later].argmax()), model.n_heads)
    return Circuit(model, earlier, later)


def letters(text: str) -> Tensor:
    """A text for the circuit written by hand, spaces left out: (pos,) int64.

    Raises ValueError for anything but a … z.
    """
    kept = [letter for letter in text.lower() if not letter.isspace()]
    strange = list(dict.fromkeys(letter for letter in kept if letter not in LETTERS))
    if strange:
        raise ValueError(
            f"The circuit written by hand knows the letters a … z; {' '.join(strange[:5])} came."
        )
    return torch.tensor([LETTERS.index(letter) for letter in kept], dtype=torch.int64)


def random_text(d_vocab: int, n_ctx: int, seed: int) -> Tensor:
    """Three copies of random tokens, seven if the model has room for them: (pos,) int64."""
    period = min(7, d_vocab, n_ctx // 3)
    return repeated_tokens(d_vocab, period, 3, seed)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a circuit did on one text.

    tokens (pos,); looked_back, looked (dst, src): the patterns of the earlier and the later head
    probability: (pos − 1,) of the token that really comes next; guess: (pos − 1,) the likeliest one
    after: (pos − 1,) int64, where the latest earlier copy's successor stands; −1 where no token of
    this text came before with the same successor, so that looking back can't help
    """

    tokens: Tensor
    looked_back: Tensor
    looked: Tensor
    probability: Tensor
    guess: Tensor
    after: Tensor

    @cached_property
    def known(self) -> Tensor:
        """(pos − 1,) bool: which predictions can be made by looking back."""
        return self.after >= 0

    @property
    def right(self) -> Tensor:
        """(pos − 1,) bool: is the likeliest token the one that comes?"""
        return self.guess == self.tokens[1:]

    def share_right(self) -> float:
        """Of the predictions that can be made, the share that is right."""
        return float(self.right[self.known].double().mean())

    def mean_probability(self) -> float:
        """Of the right token, over the predictions that can be made."""
        return float(self.probability[self.known].mean())

    def matching(self) -> float:
        """The later head's attention to successors of earlier copies, over those predictions."""
        rows = self.known.nonzero()[:, 0]
        copies = self.tokens[None, :] == self.tokens[:, None]  # (dst, src): the same token
        after = copies.roll(1, dims=1).tril(0)
        after[:, 0] = False
        return float((self.looked * after)[rows].sum(dim=-1).mean())


@torch.no_grad()
def run(circuit: Circuit, tokens: Tensor, strength: float, temperature: float) -> Outcome:
    """The edited circuit on a text, tokens (pos,).

    Raises ValueError where no token comes again with the same successor: then there is nothing for
    an induction head to do.
    """
    after = successors(tokens.tolist())
    if not bool((after >= 0).any()):
        raise ValueError(
            "In this text no token comes again with the same one after it, so looking back can't "
            "help. Repeat something: a b c a b c."
        )
    logits, cache = circuit.edited(strength, temperature).run_with_cache(tokens)
    chances = logits[:-1].softmax(dim=-1)
    return Outcome(
        tokens=tokens,
        looked_back=cache.pattern[circuit.previous],
        looked=cache.pattern[circuit.induction],
        probability=chances.gather(-1, tokens[1:, None])[:, 0],
        guess=chances.argmax(dim=-1),
        after=after,
    )


def successors(tokens: Sequence[int]) -> Tensor:
    """(pos − 1,) int64: where the token after the latest earlier copy stands, if it comes again.

    −1 where the token is new, or was followed by another one than now.
    """
    last: dict[int, int] = {}
    after = []
    for place, token in enumerate(tokens[:-1]):
        found = last.get(token, -1) + 1
        after.append(found if found and tokens[found] == tokens[place + 1] else -1)
        last[token] = place
    return torch.tensor(after, dtype=torch.int64)
