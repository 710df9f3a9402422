"""What a one-layer model's heads are used for, and the bugs that come with it.

The largest raw entries of QK and OV belong to rare tokens that never meet. So triples are ranked by
use: attention × OV, summed over real text wherever the third token really came next. A bug is a triple
that the product form forces: if a source raises (d1 → n1) and (d2 → n2), it raises (d1 → n2) as well.
Paper: "Skip-Trigram Bugs".
"""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grader.models.recipes.measure import rows_of
from grader.models.text import HERE, sample_tokens, tokenizer
from grader.transformer import Transformer

FINDINGS = HERE / "skip-trigrams.json"
WINDOW = 24  # how far before the destination the source may stand when the text is searched
NEUTRAL = " the"  # stands where the source would, for comparison


def load_findings() -> dict[str, Any]:
    """The skip-trigrams and bugs found in the shipped one-layer model."""
    found: dict[str, Any] = json.loads(FINDINGS.read_text())
    return found


def full_ov(model: Transformer, head: int) -> Tensor:
    """(source token, output token) of one head."""
    return model.W_E @ model.W_V[0, head] @ model.W_O[0, head] @ model.W_U


@torch.no_grad()
def used(model: Transformer, tokens: Tensor, least: float = 0.1) -> list[dict[str, Tensor]]:
    """tokens (batch, pos) → for each head triples (n, 3), the logits each added in all, and its uses.

    Uses below ``least`` logits are left out; the source stands before the destination.
    """
    moved = [full_ov(model, head) for head in range(model.n_heads)]
    found: list[list[tuple[Tensor, Tensor]]] = [[] for _ in moved]
    for rows in tokens.split(16):
        patterns = model.run_with_cache(rows)[1].pattern[0]
        for head, table in enumerate(moved):
            ahead = patterns[:, head, :-1, :-1].tril(-1)
            effect = ahead * table[rows[:, None, :-1], rows[:, 1:, None]]
            b, dst, src = (effect >= least).nonzero(as_tuple=True)
            triples = torch.stack([rows[b, src], rows[b, dst], rows[b, dst + 1]], dim=1)
            found[head].append((triples, effect[b, dst, src]))
    return [_gathered(pieces) for pieces in found]


def _gathered(pieces: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """The same triple's uses added up."""
    triples, added = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    unique, where, uses = triples.unique(dim=0, return_inverse=True, return_counts=True)
    total = torch.zeros(len(unique)).index_add_(0, where, added)
    return {"triples": unique, "total": total, "uses": uses}


def rank(model: Transformer, tokens: Tensor, per_head: int = 400) -> list[dict[str, Any]]:
    """The most used triples of all heads, best first; each head's share is capped."""
    ranked = []
    for head, found in enumerate(used(model, tokens)):
        total = torch.where(found["uses"] >= 3, found["total"], 0.0)
        for i in total.topk(min(per_head, len(total))).indices.tolist():
            ranked.append(
                {
                    "tokens": found["triples"][i].tolist(),
                    "head": head,
                    "mean": round(float(found["total"][i] / found["uses"][i]), 3),
                    "uses": int(found["uses"][i]),
                }
            )
    return sorted(ranked, key=lambda f: -f["mean"] * f["uses"])


def count_triple(text: Tensor, triple: tuple[int, int, int]) -> int:
    """How often (destination, next) stands in (pos,) with the source in the 24 tokens before."""
    source, destination, following = triple
    at = ((text[:-1] == destination) & (text[1:] == following)).nonzero().flatten()
    at = at[at >= WINDOW]
    before = text[at[:, None] - torch.arange(1, WINDOW + 1)]
    return int((before == source).any(1).sum())


@torch.no_grad()
def probability(
    model: Transformer, text: Tensor, triple: tuple[int, int, int], rows: int = 96
) -> tuple[float, float] | None:
    """Mean p(next) at real places of the destination: without the source, and with it 4 tokens before.

    None where the text has fewer than 8 places. "Without" has a neutral token in the same spot.
    """
    source, destination, following = triple
    at = (text == destination).nonzero().flatten()
    at = at[at >= 32]
    if len(at) < 8:
        return None
    at = at[torch.linspace(0, len(at) - 1, min(rows, len(at))).long()]
    contexts = text[at[:, None] + torch.arange(-31, 1)]
    values = []
    for stand_in in (tokenizer().token_id(NEUTRAL), source):
        contexts[:, -5] = stand_in
        values.append(float(model(contexts)[:, -1].softmax(-1)[:, following].mean()))
    return values[0], values[1]


@torch.no_grad()
def find_bugs(
    model: Transformer, ranked: list[dict[str, Any]], held_out: Tensor, corpus: Tensor
) -> list[dict[str, Any]]:
    """Pairs of used triples with one source and one head, whose crossing the model believes too.

    The 300 crossings that the weights favor most are measured. Kept where the source at least doubles
    p(next) of a crossing that the training text has at most once in 100 uses of its parts.
    """
    measured = (
        _measured(model, crossing, one, other, held_out, corpus)
        for _, crossing, one, other in _crossings(model, ranked)[:300]
    )
    bugs = [bug for bug in measured if bug is not None]
    return sorted(bugs, key=lambda bug: -bug["with"] / bug["without"])


_Crossing = tuple[float, tuple[int, int, int], dict[str, Any], dict[str, Any]]


def _crossings(model: Transformer, ranked: list[dict[str, Any]]) -> list[_Crossing]:
    """(expected logits, (source, d1, n2), the part with d1, the part with n2), best first."""
    moved = [full_ov(model, head) for head in range(model.n_heads)]
    found: dict[tuple[int, int, int], _Crossing] = {}
    for one, other in permutations(ranked, 2):
        (s, d1, n1), (s2, d2, n2), head = one["tokens"], other["tokens"], one["head"]
        if s != s2 or head != other["head"] or d1 == d2 or n1 == n2:
            continue
        # The head attends as it does for (d1 → n1), and moves what it moves for n2.
        expected = one["mean"] * float(moved[head][s, n2] / moved[head][s, n1])
        crossing = (s, d1, n2)
        if _telling(crossing) and expected > found.get(crossing, (1.0,))[0]:
            found[crossing] = (expected, crossing, one, other)
    return sorted(found.values(), key=lambda entry: -entry[0])


def _measured(
    model: Transformer,
    crossing: tuple[int, int, int],
    one: dict[str, Any],
    other: dict[str, Any],
    held_out: Tensor,
    corpus: Tensor,
) -> dict[str, Any] | None:
    """The bug with its figures, or None where it isn't one."""
    seen = probability(model, held_out, crossing)
    if seen is None or seen[1] < max(0.002, 2 * seen[0]):
        return None
    count = count_triple(corpus, crossing)
    parts = [count_triple(corpus, tuple(part["tokens"])) for part in (one, other)]
    if 100 * count > min(parts):
        return None
    return {
        "tokens": list(crossing), "head": one["head"],
        "without": round(seen[0], 5), "with": round(seen[1], 5), "count": count,
        "parts": [one["tokens"], other["tokens"]], "part_counts": parts,
    }  # fmt: skip


def search(model: Transformer, corpus: dict[str, Tensor], out: Path = FINDINGS) -> dict[str, Any]:
    """Find and store the skip-trigrams and bugs of a one-layer model; minutes, not seconds."""
    held_out = sample_tokens()
    ranked = rank(model, rows_of(held_out, len(held_out) // model.n_ctx, model.n_ctx))
    ranked = [f for f in ranked if _telling(tuple(f["tokens"]))]
    text = torch.cat([ids.long() for ids in corpus.values()])
    bugs = find_bugs(model, ranked[:1000], held_out, text)
    found = {"skip_trigrams": _varied(ranked)[:40], "bugs": _varied(bugs)[:20]}
    out.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _varied(found: list[dict[str, Any]], per_source: int = 2) -> list[dict[str, Any]]:
    """The best of each source, each triple once: one boilerplate sentence must not fill the list."""
    kept: list[dict[str, Any]] = []
    for entry in found:
        alike = [k["tokens"] for k in kept if k["tokens"][0] == entry["tokens"][0]]
        if len(alike) < per_source and entry["tokens"] not in alike:
            kept.append(entry)
    return kept


def _telling(triple: tuple[int, ...]) -> bool:
    """Whether a reader may recognise it: a source of two letters or a telling sign, no lone letters."""
    source, destination, following = (tokenizer().decode([i]) for i in triple)
    named = sum(c.isalpha() for c in source) >= 2 or source.strip() in ("@", "[", "{", ">>>", "%")
    lone = len(following.strip()) == 1 and following.strip().isalpha()
    different = len({source, destination, following}) == 3
    return named and different and bool(following.strip()) and not lone
