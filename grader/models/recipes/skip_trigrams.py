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


@torch.no_grad()
def used(model: Transformer, tokens: Tensor, head: int, least: float = 0.1) -> dict[str, Tensor]:
    """tokens (batch, pos) → triples (n, 3), the logits each added in all (n,), and uses (n,).

    Uses below ``least`` logits are left out; the source stands before the destination.
    """
    full_ov = model.W_E @ model.W_V[0, head] @ model.W_O[0, head] @ model.W_U
    keys, added = [], []
    for rows in tokens.split(16):
        pattern = model.run_with_cache(rows)[1].pattern[0, :, head]
        effect = pattern[:, :-1, :-1].tril(-1) * full_ov[rows[:, None, :-1], rows[:, 1:, None]]
        b, dst, src = (effect >= least).nonzero(as_tuple=True)
        keys.append(torch.stack([rows[b, src], rows[b, dst], rows[b, dst + 1]], dim=1))
        added.append(effect[b, dst, src])
    triples, where, uses = torch.cat(keys).unique(dim=0, return_inverse=True, return_counts=True)
    total = torch.zeros(len(triples)).index_add_(0, where, torch.cat(added))
    return {"triples": triples, "total": total, "uses": uses}


def rank(model: Transformer, tokens: Tensor, per_head: int = 150) -> list[dict[str, Any]]:
    """The most used triples of all heads, best first; each head's share is capped."""
    ranked = []
    for head in range(model.n_heads):
        found = used(model, tokens, head)
        often = found["uses"] >= 3
        total = torch.where(often, found["total"], 0.0)
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


def find_bugs(
    model: Transformer, ranked: list[dict[str, Any]], held_out: Tensor, corpus: Tensor
) -> list[dict[str, Any]]:
    """Pairs of used triples with one source and one head, whose crossing the model believes too.

    Kept where the source at least doubles p(next) of a crossing that the training text has at most
    once in 100 uses of its parts; ``with`` and ``without`` are measured in real contexts.
    """
    bugs, seen = [], set()
    for one, other in permutations(ranked, 2):
        (s, d1, n1), (s2, d2, n2) = one["tokens"], other["tokens"]
        crossing = (s, d1, n2)
        if s != s2 or one["head"] != other["head"] or d1 == d2 or n1 == n2 or crossing in seen:
            continue
        seen.add(crossing)
        measured = probability(model, held_out, crossing)
        if measured is None or measured[1] < 0.002 or measured[1] < 2 * measured[0]:
            continue
        parts = [count_triple(corpus, (s, d1, n1)), count_triple(corpus, (s, d2, n2))]
        count = count_triple(corpus, crossing)
        if 100 * count <= min(parts):
            bugs.append(
                {
                    "tokens": list(crossing), "head": one["head"],
                    "without": round(measured[0], 5), "with": round(measured[1], 5),
                    "count": count, "parts": [one["tokens"], other["tokens"]],
                    "part_counts": parts,
                }
            )  # fmt: skip
    return sorted(bugs, key=lambda bug: -bug["with"] / bug["without"])


def search(model: Transformer, corpus: dict[str, Tensor], out: Path = FINDINGS) -> dict[str, Any]:
    """Find and store the skip-trigrams and bugs of a one-layer model; minutes, not seconds."""
    held_out = sample_tokens()
    ranked = rank(model, rows_of(held_out, len(held_out) // model.n_ctx, model.n_ctx))
    text = torch.cat([ids.long() for ids in corpus.values()])
    telling = [f for f in ranked if _readable(f["tokens"])]
    found = {
        "skip_trigrams": telling[:40],
        "bugs": find_bugs(model, telling[:400], held_out, text)[:20],
    }
    out.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _readable(triple: list[int]) -> bool:
    """Source of two letters or more, or a telling sign; three different tokens."""
    source, destination, following = (tokenizer().decode([i]) for i in triple)
    named = sum(c.isalpha() for c in source) >= 2 or source.strip() in ("@", "[", "{", ">>>", "%")
    return named and len({source, destination, following}) == 3 and bool(following.strip())
