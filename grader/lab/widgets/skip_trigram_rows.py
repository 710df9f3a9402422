"""Skip-trigrams of one head, row by row: what a destination looks at, and what each source raises.

Both circuits stay factors (`LowRank`): a destination needs one row of QK, each source one row of OV,
so nothing of size d_vocab² is formed. Beside each skip-trigram stands how often a text has it: source
… destination → next, with the source at most `WINDOW` tokens before the destination.

A source raises its outputs for whoever looks at it. So two right skip-trigrams of one source,
(d₁ → o₁) and (d₂ → o₂), bring (d₁ → o₂) and (d₂ → o₁) along: `bugs` marks those that the text never has.

Paper: "Interpretation as Skip-Trigrams", "Skip-Trigram Bugs".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from grader.circuits.low_rank import LowRank
from grader.circuits.one_layer import bug_partners
from grader.models import Tokenizer, sample_tokens
from grader.transformer import Transformer

WINDOW = 24
RIGHT = 3  # uses in the text from which a skip-trigram counts as right


@dataclass(frozen=True, eq=False)
class HeadCircuits:
    """One head's circuits over the vocabulary, in factors.

    qk: (destination, source), divided by sqrt(d_head); ov: (source, output)
    """

    qk: LowRank
    ov: LowRank

    def best_sources(self, destination: int, n: int, allowed: Tensor | None = None) -> Tensor:
        """The n sources that the destination likes best, best first, (≤ n,) ids.

        allowed: (d_vocab,) bool, those to choose from
        """
        return _best(self.qk.rows(destination), n, allowed)

    def best_destinations(self, source: int, n: int, allowed: Tensor | None = None) -> Tensor:
        """The n destinations that like the source best, (≤ n,) ids."""
        return _best(self.qk.mT.rows(source), n, allowed)

    def best_outputs(self, source: int, n: int, allowed: Tensor | None = None) -> Tensor:
        """The n outputs that the source raises most, (≤ n,) ids."""
        return _best(self.ov.rows(source), n, allowed)

    def effect(self, source: int, destinations: Sequence[int], outputs: Sequence[int]) -> Tensor:
        """Logits that the source adds, against a rival of score 0: (destination, output).

        `skip_trigram_effect` of the course, from rows alone: sigmoid(score) · OV, of rank one.
        """
        scores = self.qk.rows(list(destinations))[:, source]
        return torch.outer(torch.sigmoid(scores), self.ov.rows(source)[list(outputs)])


@torch.no_grad()
def head_circuits(model: Transformer, layer: int, head: int) -> HeadCircuits:
    """A head's circuits, as they read the embedding; positions are left out."""
    scale = model.d_head**-0.5
    queries, keys = model.W_E @ model.W_Q[layer, head], model.W_E @ model.W_K[layer, head]
    values, outputs = model.W_E @ model.W_V[layer, head], model.W_O[layer, head] @ model.W_U
    return HeadCircuits(LowRank(queries * scale, keys.mT), LowRank(values, outputs))


class Corpus:
    """A text, tokens (pos,), in which skip-trigrams are counted."""

    def __init__(self, tokens: Tensor, d_vocab: int) -> None:
        self.tokens, self.d_vocab = tokens, d_vocab
        self._around = lru_cache(maxsize=8)(self._read_around)

    def sources_of(self, destination: int) -> Tensor:
        """(d_vocab,): at how many places of the destination each token stands before it."""
        before, _ = self._around(destination)
        before = before.sort(dim=1).values
        first = torch.ones_like(before, dtype=torch.bool)  # a token twice in a window counts once
        first[:, 1:] = before[:, 1:] != before[:, :-1]
        return torch.bincount(before[first & (before >= 0)], minlength=self.d_vocab)

    def outputs_of(self, source: int, destination: int) -> Tensor:
        """(d_vocab,): how often each token follows the destination, the source before."""
        before, following = self._around(destination)
        here = (before == source).any(dim=1) & (following >= 0)
        return torch.bincount(following[here], minlength=self.d_vocab)

    def pairs_of(self, source: int) -> tuple[Tensor, Tensor]:
        """Every (destination, output) that comes with the source before: (pair, 2) ids, (pair,) counts."""
        seen = torch.zeros(len(self.tokens) + 1, dtype=torch.int32)
        torch.cumsum(self.tokens == source, dim=0, dtype=torch.int32, out=seen[1:])
        near = seen[:-1].clone()  # how many sources stand in [0, i), then in [i − WINDOW, i)
        near[WINDOW:] -= seen[: -1 - WINDOW]
        places = near[:-1].nonzero().flatten()
        keys = self.tokens[places] * self.d_vocab + self.tokens[places + 1]
        keys, counts = keys.unique(return_counts=True)
        return torch.stack([keys // self.d_vocab, keys % self.d_vocab], dim=1), counts

    def _read_around(self, destination: int) -> tuple[Tensor, Tensor]:
        """At each place of a token: (place, WINDOW) what stands before, (place,) what follows; -1: nothing."""
        places = (self.tokens == destination).nonzero().flatten()
        windows = places[:, None] - torch.arange(1, WINDOW + 1)
        before = torch.where(windows >= 0, self.tokens[windows.clamp_min(0)], -1)
        last = len(self.tokens) - 1
        following = torch.where(places < last, self.tokens[(places + 1).clamp_max(last)], -1)
        return before, following


def corpus_for(model: Transformer, given: Tensor | None = None) -> Corpus | None:
    """The given ids (pos,); else the course's held-out text, where the model reads its tokens.

    Raises ValueError for ids that the model doesn't know.
    """
    if given is None:
        ours = isinstance(model.tokenizer, Tokenizer) and model.tokenizer.d_vocab == model.d_vocab
        return Corpus(sample_tokens(), model.d_vocab) if ours else None
    if (
        given.ndim != 1
        or not len(given)
        or not 0 <= int(given.min()) <= int(given.max()) < model.d_vocab
    ):
        raise ValueError(f"A corpus is ids (pos,) of 0 … {model.d_vocab - 1}.")
    return Corpus(given, model.d_vocab)


@dataclass(frozen=True, eq=False)
class Source:
    """One source of a destination; seen and counts are -1 where no text was counted.

    score: QK, divided by sqrt(d_head); attention: sigmoid(score), its share against a rival of score 0
    seen: places of the destination that have it before them
    outputs: (n,) ids, raised: (n,) OV entries, counts: (n,) how often each came next in the text
    """

    token: int
    score: float
    attention: float
    seen: int
    outputs: list[int]
    raised: list[float]
    counts: list[int]


@torch.no_grad()
def sources(
    circuits: HeadCircuits, destination: int, corpus: Corpus | None, *, n: int, outputs: int,
    least: int = 0,
) -> list[Source]:  # fmt: skip
    """The n best sources of a destination with the outputs that each raises most.

    least: leave out sources that stand at fewer places before the destination in the corpus
    """
    seen = None if corpus is None else corpus.sources_of(destination)
    allowed = None if seen is None or least <= 0 else seen >= least
    scores = circuits.qk.rows(destination)
    found = []
    for token in circuits.best_sources(destination, n, allowed).tolist():
        best = circuits.best_outputs(token, outputs).tolist()
        after = None if corpus is None else corpus.outputs_of(token, destination)
        found.append(
            Source(
                token=token, score=float(scores[token]),
                attention=float(torch.sigmoid(scores[token])),
                seen=-1 if seen is None else int(seen[token]),
                outputs=best, raised=circuits.ov.rows(token)[best].tolist(),
                counts=[-1] * len(best) if after is None else after[best].tolist(),
            )
        )  # fmt: skip
    return found


@dataclass(frozen=True, eq=False)
class Grid:
    """What one source does for several destinations.

    effect: (destination, output) logits; counts: the same shape, uses in the text, -1 without one
    bug: the same shape, True where right pairs force a triple that the text never has
    """

    source: int
    destinations: list[int]
    outputs: list[int]
    effect: Tensor
    counts: Tensor
    bug: Tensor


@torch.no_grad()
def grid(
    circuits: HeadCircuits, source: int, destination: int, corpus: Corpus | None, *,
    rows: int, columns: int,
) -> Grid:  # fmt: skip
    """The destination, others that like the source best, and what the source raises for them.

    With a corpus only destinations and outputs that take part in a right skip-trigram of the source
    (the destination itself aside); else those of the largest entries.
    """
    if corpus is None:
        chosen = _with_first(destination, circuits.best_destinations(source, rows), rows)
        outs = circuits.best_outputs(source, columns).tolist()
        return _grid(circuits, source, chosen, outs, torch.full((len(chosen), len(outs)), -1))
    pairs, counts = corpus.pairs_of(source)
    right = (counts >= RIGHT) & (circuits.ov.rows(source)[pairs[:, 1]] > 0)
    liked = circuits.best_destinations(source, rows, _flags(pairs[right, 0], corpus.d_vocab))
    chosen = _with_first(destination, liked, rows)
    here = right & torch.isin(pairs[:, 0], torch.tensor(chosen))
    outs = circuits.best_outputs(source, columns, _flags(pairs[here, 1], corpus.d_vocab)).tolist()
    table = torch.zeros(len(chosen), corpus.d_vocab, dtype=torch.int64)
    for i, d in enumerate(chosen):
        row = pairs[:, 0] == d
        table[i, pairs[row, 1]] = counts[row]
    counted = table[:, outs]
    kept = [i for i in range(len(chosen)) if i == 0 or bool((counted[i] >= RIGHT).any())]
    return _grid(circuits, source, [chosen[i] for i in kept], outs, counted[kept])


def bugs(counts: Tensor) -> Tensor:
    """(destination, output) counts → True where two right pairs force one that never came."""
    rows, columns = (range(size) for size in counts.shape)
    partners = bug_partners([(d, o) for d, o in (counts >= RIGHT).nonzero().tolist()])
    forced = torch.tensor([[(d, o) in partners for o in columns] for d in rows], dtype=torch.bool)
    return forced & (counts == 0)


def _grid(
    circuits: HeadCircuits, source: int, destinations: list[int], outputs: list[int], counts: Tensor
) -> Grid:
    effect = circuits.effect(source, destinations, outputs)
    return Grid(source, destinations, outputs, effect, counts, bugs(counts))


def _with_first(first: int, others: Tensor, n: int) -> list[int]:
    return [first, *(other for other in others.tolist() if other != first)][:n]


def _flags(ids: Tensor, d_vocab: int) -> Tensor:
    found = torch.zeros(d_vocab, dtype=torch.bool)
    found[ids] = True
    return found


def _best(values: Tensor, n: int, allowed: Tensor | None) -> Tensor:
    order = values.argsort(descending=True, stable=True)
    return order[:n] if allowed is None else order[allowed[order]][:n]
