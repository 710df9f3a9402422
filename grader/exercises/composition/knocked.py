"""One of a head's three inputs cut off from layer 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition.common import (
    ANALYZING,
    NOTEBOOK,
    after_layer_0,
    causal,
    head_scores,
    placed,
    questions,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

KINDS = ("Q", "K", "V")


def _cases(draw: Draw) -> Iterator[Case]:
    for i, (tokens, model, label) in enumerate(questions(draw)):
        # Kinds in turn, so that each occurs with some case in which it makes a difference.
        kinds = KINDS if i == 0 else (KINDS[(draw.seed + i) % 3],)
        for kind in kinds:
            told = f"{label}, {kind} knocked out" if label else f"{kind} knocked out"
            yield Case((tokens, model, kind), told)


Inputs = dict[str, Tensor]


def _layer_1(
    reads: Inputs, model: Transformer, step: Callable[[Tensor], Tensor] = causal
) -> Tensor:
    """The sum of what layer 1's heads add, each input given; positions are in Q and K already."""
    pattern = step(head_scores(reads["Q"], reads["K"], model, 1))
    return (pattern @ reads["V"] @ model.W_V[1] @ model.W_O[1]).sum(dim=0)


def _reads(stream: Tensor, model: Transformer) -> Inputs:
    return {"Q": placed(stream, model), "K": placed(stream, model), "V": stream}


def _run(
    tokens: Tensor,
    model: Transformer,
    knocked: str,
    step: Callable[[Tensor], Tensor] = causal,
) -> Tensor:
    """The right way for one kind; several letters knock out several inputs."""
    x, added = after_layer_0(tokens, model)
    full, bare = _reads(x + added, model), _reads(x, model)
    reads = {kind: (bare if kind in knocked else full)[kind] for kind in KINDS}
    return (x + added + _layer_1(reads, model, step)) @ model.W_U


def _others(kind: str) -> str:
    return "".join(other for other in KINDS if other != kind)


def _layer_0_removed(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    _, added = after_layer_0(tokens, model)
    return _run(tokens, model, kind) - added @ model.W_U


def _without_positions(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    x, added = after_layer_0(tokens, model)
    reads = _reads(x + added, model) | {kind: x}
    return (x + added + _layer_1(reads, model)) @ model.W_U


def _with_positions_in_values(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    x, added = after_layer_0(tokens, model)
    reads = _reads(x + added, model) | {kind: placed(x, model)}
    return (x + added + _layer_1(reads, model)) @ model.W_U


def _reads_nothing(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    x, added = after_layer_0(tokens, model)
    bare = _reads(torch.zeros_like(x), model)
    reads = _reads(x + added, model) | {kind: bare[kind]}
    return (x + added + _layer_1(reads, model)) @ model.W_U


def _reads_layer_0_only(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    x, added = after_layer_0(tokens, model)
    reads = _reads(x + added, model) | {kind: _reads(added, model)[kind]}
    return (x + added + _layer_1(reads, model)) @ model.W_U


def _pattern_kept(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    return _run(tokens, model, kind if kind == "V" else "")


def _one_head_only(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    if model.n_heads == 1:
        return _run(tokens, model, kind)
    W_O = model.W_O.clone()
    W_O[1, 0] = 0
    rest = model.with_weights(W_O=W_O)
    first = model.with_weights(W_O=model.W_O - W_O + _of_layer_0(W_O))
    x, added = after_layer_0(tokens, model)
    return _run(tokens, first, kind) + _run(tokens, rest, "") - (x + added) @ model.W_U


def _of_layer_0(W_O: Tensor) -> Tensor:
    return torch.cat([W_O[:1], torch.zeros_like(W_O[1:])])


def _zero_ablated(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    x = model.W_E[tokens]
    return (x + _layer_1(_reads(x, model), model)) @ model.W_U


def _only_what_layer_1_adds(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    x, added = after_layer_0(tokens, model)
    return _run(tokens, model, kind) - (x + added) @ model.W_U


def _by_the_cache(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    x, stream = cache.stream[0], cache.stream[1]
    q, k, v = cache.q[1], cache.k[1], cache.v[1]
    if kind == "Q":
        q = model.qk_input(x) @ model.W_Q[1]
    elif kind == "K":
        k = model.qk_input(x) @ model.W_K[1]
    else:
        v = x @ model.W_V[1]
    written = causal(q @ k.mT / model.d_head**0.5) @ v @ model.W_O[1]
    return (stream + written.sum(dim=0)) @ model.W_U


def _by_loops(tokens: Tensor, model: Transformer, kind: str) -> Tensor:
    x, added = after_layer_0(tokens, model)
    out = x + added
    for h in range(model.n_heads):
        q, k, v = (x if kind == letter else x + added for letter in KINDS)
        queries, keys = placed(q, model) @ model.W_Q[1, h], placed(k, model) @ model.W_K[1, h]
        pattern = causal(queries @ keys.T / model.d_head**0.5)
        out = out + pattern @ (v @ (model.W_V[1, h] @ model.W_O[1, h]))
    return out @ model.W_U


KNOCK_OUT_COMPOSITION = Exercise(
    reference=reference.knock_out_composition,
    notebook=NOTEBOOK,
    title="Knock one kind of composition out",
    paper=ANALYZING,
    points=4,
    minutes=25,
    difficulty=3,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "Run layer 0 as always. Then layer 1 has two streams at hand, the embedding and the stream "
        "after layer 0, and three inputs. Who reads which?",
        "One of the three inputs reads the embedding, the other two the stream after layer 0. "
        "Queries and keys have W_pos added whichever they read; values never.",
        "`cache.stream[0]` and `cache.stream[1]` of `model.run_with_cache` are the two streams. "
        "Compute layer 1's scores, patterns and outputs anew from the three inputs, add them to the "
        "*whole* stream after layer 0, unembed.",
    ),
    mistakes=(
        Mistake(
            "nothing_knocked_out",
            lambda tokens, model, kind: model(tokens),
            "These are the logits of the whole model. The chosen input of layer 1 still reads what "
            "layer 0 wrote.",
        ),
        Mistake(
            "everything_knocked_out",
            lambda tokens, model, kind: _run(tokens, model, "QKV"),
            "All three inputs of layer 1 read the embedding. Only the one named by `kind` should.",
        ),
        Mistake(
            "the_other_two_knocked_out",
            lambda tokens, model, kind: _run(tokens, model, _others(kind)),
            "The other two inputs read the embedding, and the one named by `kind` alone reads layer "
            "0. That answers another question: is this kind enough?",
        ),
        Mistake(
            "q_and_k_exchanged",
            lambda tokens, model, kind: _run(tokens, model, {"Q": "K", "K": "Q"}.get(kind, "V")),
            "Queries and keys are exchanged. A row of scores is one destination's query.",
            facts=(79,),
        ),
        Mistake(
            "both_sides_of_the_pattern",
            lambda tokens, model, kind: _run(tokens, model, "V" if kind == "V" else "QK"),
            "Queries and keys are cut together, since both make the pattern. They are two inputs, "
            "and each can be cut alone.",
            facts=(64,),
        ),
        Mistake(
            "always_queries",
            lambda tokens, model, kind: _run(tokens, model, "Q"),
            "Queries are cut whatever `kind` says.",
            facts=(118,),
        ),
        Mistake(
            "always_keys",
            lambda tokens, model, kind: _run(tokens, model, "K"),
            "Keys are cut whatever `kind` says.",
            facts=(118,),
        ),
        Mistake(
            "always_values",
            lambda tokens, model, kind: _run(tokens, model, "V"),
            "Values are cut whatever `kind` says.",
            facts=(118,),
        ),
        Mistake(
            "layer_0_removed",
            _layer_0_removed,
            "What layer 0 wrote is missing from the last stream. It is cut from one input of layer "
            "1; its own way to the unembedding stays.",
            facts=(53,),
        ),
        Mistake(
            "layer_0_ablated",
            _zero_ablated,
            "Layer 0 is switched off altogether. It still runs and writes; one reader closes its "
            "eyes to it.",
            facts=(102,),
        ),
        Mistake(
            "positions_lost",
            _without_positions,
            "The cut input has lost its positions. Where queries or keys read the embedding only, "
            "W_pos is still added, as for every query and key.",
            facts=(33,),
        ),
        Mistake(
            "positions_in_values",
            _with_positions_in_values,
            "Right for queries and keys. The values, when cut, read the embedding without positions: "
            "W_pos is never part of what is copied.",
            facts=(32,),
        ),
        Mistake(
            "reads_nothing",
            _reads_nothing,
            "The cut input reads nothing at all. It should still see the token itself: the embedding "
            "is not layer 0's work.",
        ),
        Mistake(
            "reads_layer_0_only",
            _reads_layer_0_only,
            "The cut input reads what layer 0 *added* and lost the embedding. It is the other way "
            "round.",
        ),
        Mistake(
            "pattern_kept",
            _pattern_kept,
            "Right for values. For queries and keys nothing changed: were the scores and patterns of "
            "layer 1 computed anew from the changed input?",
            facts=(60,),
        ),
        Mistake(
            "one_head_only",
            _one_head_only,
            "Only head 0 of layer 1 has its input cut. Every head of layer 1 should.",
            facts=(119,),
        ),
        Mistake(
            "not_scaled",
            lambda tokens, model, kind: _run(
                tokens, model, kind, lambda scores: causal(scores * model.d_head**0.5)
            ),
            "The scores of layer 1 are not divided by √d_head.",
            facts=(17,),
        ),
        Mistake(
            "no_mask",
            lambda tokens, model, kind: _run(tokens, model, kind, lambda s: s.softmax(dim=-1)),
            "Layer 1 sees the future. Its patterns, made anew, need the causal mask too.",
            facts=(27,),
        ),
        Mistake(
            "only_what_layer_1_adds",
            _only_what_layer_1_adds,
            "Only what layer 1 adds is unembedded. The stream before it goes on as well.",
            facts=(43,),
        ),
    ),
    variants=(
        Variant("with_the_cache", _by_the_cache, facts=("E",)),
        Variant("loops", _by_loops, facts=("E", "T")),
        Variant(
            "numpy", lambda tokens, model, kind: _run(tokens, model, kind).numpy(), facts=("N",)
        ),
    ),
)
