"""Notebook 08: name the circuits of a model by what it does.

Everything here is behavior: texts go in, patterns and outputs are read, an output is taken away.
Weights only carry it on, to the logits or to the heads that read it. That makes it a proof for
models whose circuits were declared (`grader.circuits.mystery`): what was planted must also happen.

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
@torch.inference_mode()
def name_circuits(model: Transformer) -> dict[str, Any]:
    """Heads, skip-trigrams and compositions of a model, seen from its behavior.

    → {"heads": {(layer, head): label}, "skip_trigrams": sorted [(source, destination, output)],
    "compositions": sorted [(kind, (layer, head) read from, (layer, head) reading)]}.
    """
    texts = _texts(model)
    cache = model.run_with_cache(texts)[1]
    repeated = Cache(**{name: part[:, 1] for name, part in vars(cache).items()})
    looks = _looks(cache.pattern[:, 0], repeated.pattern, texts[1])
    seen = torch.cat([looks, _raises(model)[..., None]], dim=-1).tolist()
    heads = {
        (layer, head): _by_look(*seen[layer][head])
        for layer in range(model.n_layers)
        for head in range(model.n_heads)
    }
    planted: set[tuple[int, int, int]] = set()
    for address, triples in _answers(model, [a for a in heads if heads[a] == "none"]).items():
        heads[address] = "skip_trigram"
        planted |= triples
    return {
        "heads": heads,
        "skip_trigrams": sorted(planted),
        "compositions": sorted(_compositions(model, repeated)),
    }


def _texts(model: Transformer) -> Tensor:
    """(2, text, pos). First every token by chance; then distinct tokens, over and over, the period
    another in each row, so that no fixed distance stays at an earlier copy."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for number in range(_TEXTS):
        longest = min(model.d_vocab, model.n_ctx // 2)
        period = longest - number % max(1, longest - 4)
        once = torch.randperm(model.d_vocab, generator=generator)[:period]
        rows.append(once.repeat(model.n_ctx // period + 1)[: model.n_ctx])
    repeated = torch.stack(rows)
    return torch.stack(
        [torch.randint(model.d_vocab, repeated.shape, generator=generator), repeated]
    )


def _looks(random: Tensor, repeated: Tensor, tokens: Tensor) -> Tensor:
    """Where heads look, from their patterns (layer, text, head, dst, src) on both kinds of text.

    → (layer, head, 4): the largest share of attention at a fixed distance back, that distance, the
    shares on earlier copies and after them. tokens (text, pos): the repeated texts.
    """
    position = torch.arange(tokens.shape[1])
    steps = position[:, None] - position == position[1:, None, None]  # (distance, dst, src)
    back = torch.einsum("lhds,nds->nlh", random.mean(dim=1), steps.to(random.dtype))
    share, distance = (back / steps.sum(dim=(1, 2))[:, None, None]).max(dim=0)
    copies = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    after = copies.roll(1, dims=-1)
    after[..., 0] = False
    on = (_share(repeated, copies), _share(repeated, after))
    return torch.stack([share, distance + 1, *on], dim=-1)


def _share(pattern: Tensor, places: Tensor) -> Tensor:
    """Attention (layer, text, head, dst, src) on the places (text, dst, src): (layer, head), the
    mean over the destinations that have such a place."""
    there = torch.einsum("lthds,tds->lh", pattern, places.to(pattern.dtype))
    return there / places.any(dim=-1).sum()


def _raises(model: Transformer) -> Tensor:
    """How much each head changes the logit of the one token it sees, above the mean: (layer, head).

    In a text of one token every head looks at that token and nowhere else.
    """
    x = model.embed(torch.arange(model.d_vocab)[:, None])[:, 0]  # (token, d_model)
    raised = model.W_U.new_zeros(model.n_layers, model.n_heads)
    for layer in range(model.n_layers):
        out = x @ model.W_V[layer] @ model.W_O[layer]  # (head, token, d_model)
        logits = out @ model.W_U  # (head, token, d_vocab)
        own = logits.diagonal(0, -2, -1) - logits.mean(dim=-1)
        raised[layer] = own.mean(dim=-1)
        x = x + out.sum(dim=0)
    return raised


def _by_look(share: float, distance: float, copies: float, after: float, raises: float) -> str:
    if share >= LOOKS:
        return "previous" if distance == 1 else "positional"
    if copies >= LOOKS:
        return "duplicate"
    if after >= LOOKS and raises >= MOVES:
        return "induction"
    return "anti_copying" if raises <= -MOVES else "none"


def _answers(
    model: Transformer, heads: list[tuple[int, int]]
) -> dict[tuple[int, int], set[tuple[int, int, int]]]:
    """Every (source, destination, output) that these heads answer, by head; silent heads left out.

    What counts is what the head carries from the source to the logits at the destination. Texts of
    filler, source, destination ask about one pair; the best of three fillers, since a filler may be
    a source too.
    """
    found: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
    pairs = _worth_asking(model, heads) if heads else []
    if not pairs:
        return found
    source, destination = torch.tensor(pairs).T
    asked = [torch.stack([(source + f) % model.d_vocab, source, destination], -1) for f in _FILLERS]
    pattern, given = _fetched(model, torch.cat(asked), heads)
    answered = pattern[:, :, 2, 1, None] * given[:, :, 1]  # (head, filler and pair, d_vocab)
    best = answered.unflatten(1, (len(_FILLERS), -1)).amax(dim=1)
    for head, pair, output in (best >= ANSWERS).nonzero().tolist():
        found.setdefault(heads[head], set()).add((*pairs[pair], output))
    return found


def _worth_asking(model: Transformer, heads: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs (source, destination) for which some head does something while sources compete."""
    crowd, first = _crowd(model.d_vocab, model.n_ctx)
    pattern, given = _fetched(model, crowd, heads)
    carried = (pattern * given.amax(dim=-1)[:, :, None]).tril(-1)[:, :, first:]
    _, text, dst, src = (carried >= HINTS).nonzero().T
    return sorted(
        set(zip(crowd[text, src].tolist(), crowd[text, first + dst].tolist(), strict=True))
    )


def _crowd(d_vocab: int, n_ctx: int) -> tuple[Tensor, int]:
    """Texts (text, pos) of all tokens and then, from a position that is also returned, destinations.

    As many as fit, so few texts are enough; each destination follows on every token, or on as many
    as a text holds.
    """
    first = min(d_vocab, n_ctx - 1)
    starts = torch.arange(0, d_vocab, n_ctx - first)[:, None]
    return (starts + torch.arange(n_ctx)) % d_vocab, first


def _fetched(
    model: Transformer, tokens: Tensor, heads: list[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Where heads look, (head, text, dst, src), and the logits that each source gives to a
    destination that looks at nothing else, (head, text, src, d_vocab)."""
    cache = model.run_with_cache(tokens)[1]
    layer, head = torch.tensor(heads).T
    read = (model.W_O @ model.W_U)[layer, head]
    return cache.pattern[layer, :, head], cache.v[layer, :, head] @ read[:, None]


def _compositions(
    model: Transformer, cache: Cache
) -> set[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Who reads whom: take one head's output away from one input of a later layer, and look."""
    found = set()
    for layer in range(1, model.n_layers):
        for kind, change in _changes(model, cache, layer).items():
            for number, reader in (change >= READS).nonzero().tolist():
                found.add((kind, divmod(number, model.n_heads), (layer, reader)))
    return found


def _changes(model: Transformer, cache: Cache, layer: int) -> dict[str, Tensor]:
    """Change of every head of a layer when an input misses an earlier head: (earlier head, head).

    "Q", "K": the share of its attention that moves elsewhere. "V": the length of the change of its
    output, against that output or half a typical one, whichever is longer.
    """
    gone = cache.head_out[:layer].transpose(0, 1).flatten(1, 2)  # (text, earlier, pos, d_model)
    q, k = (part[layer] / model.d_head**0.5 for part in (cache.q, cache.k))
    asked = torch.einsum("hmk,thsk->tmhs", model.W_Q[layer], k)
    asking = torch.einsum("thdk,hmk->tdhm", q, model.W_K[layer])
    return {
        "Q": _moved(cache, layer, torch.einsum("tedm,tmhs->tedhs", gone, asked)),
        "K": _moved(cache, layer, torch.einsum("tdhm,tesm->tedhs", asking, gone)),
        "V": _rewritten(model, cache, layer, gone),
    }


def _moved(cache: Cache, layer: int, less: Tensor) -> Tensor:
    """Share of attention that moves when scores lose ``less`` (text, earlier head, dst, head, src):
    (earlier head, head)."""
    pattern, scores = (
        part[layer].transpose(1, 2)[:, None] for part in (cache.pattern, cache.scores)
    )
    pos = less.shape[-1]
    future = torch.ones(pos, pos, dtype=torch.bool).triu(1)[:, None]
    other = (scores.masked_fill(future, -torch.inf) - less).softmax(dim=-1)
    return 1 - torch.minimum(pattern, other).sum(dim=-1).mean(dim=(0, 2))


def _rewritten(model: Transformer, cache: Cache, layer: int, gone: Tensor) -> Tensor:
    """Relative change of outputs when values miss ``gone`` (text, earlier head, pos, d_model):
    (earlier head, head)."""
    # With W_Oᵀ = U R and orthonormal U, ‖x W_O‖ = ‖x Rᵀ‖: d_head numbers instead of d_model.
    W_VR = model.W_V[layer] @ torch.linalg.qr(model.W_O[layer].mT).R.mT
    values = torch.einsum("tesm,hmk->thsek", gone, W_VR)
    change = torch.einsum("thds,thsek->tdhek", cache.pattern[layer], values)
    lengths = cache.head_out.norm(dim=-1)  # (layer, text, head, pos)
    own = lengths[layer].mean(dim=(0, -1)).clamp_min(lengths.mean() / 2)  # (head,)
    return change.norm(dim=-1).mean(dim=(0, 1)).mT / own
