"""A two-layer model as the sum of all its paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition.common import (
    LOGITS,
    NOTEBOOK,
    causal,
    embedded,
    head_scores,
    head_terms,
    placed,
    questions,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

Terms = tuple[Tensor, Tensor, Tensor]


def _two_layer_cases(draw: Draw) -> Iterator[Case]:
    for tokens, model, label in questions(draw):
        yield Case((tokens, model), label)


def _clean_patterns(tokens: Tensor, model: Transformer) -> Tensor:
    """(layer, head, dst, src) of the full run."""
    return model.run_with_cache(tokens)[1].pattern


def _expand(
    tokens: Tensor, model: Transformer, x: Tensor | None = None, pattern: Tensor | None = None
) -> Terms:
    """All terms, from any starting stream and with any patterns."""
    x = embedded(tokens, model) if x is None else x
    pattern = _clean_patterns(tokens, model) if pattern is None else pattern
    first = head_terms(x, pattern[0], model, 0)
    second = head_terms(x, pattern[1], model, 1)
    pairs = torch.stack([head_terms(term, pattern[1], model, 1) for term in first], dim=1)
    return x @ model.W_U, torch.stack([first, second]) @ model.W_U, pairs @ model.W_U


def _stream_read_by_layer_1(tokens: Tensor, model: Transformer) -> Terms:
    direct, heads, virtual = _expand(tokens, model)
    return direct, torch.stack([heads[0], heads[1] + virtual.sum(dim=1)]), virtual


def _virtual_left_empty(tokens: Tensor, model: Transformer) -> Terms:
    direct, heads, virtual = _stream_read_by_layer_1(tokens, model)
    return direct, heads, torch.zeros_like(virtual)


def _patterns_anew(tokens: Tensor, model: Transformer) -> Terms:
    x = placed(embedded(tokens, model), model)
    pattern = [causal(head_scores(x, x, model, layer)) for layer in (0, 1)]
    return _expand(tokens, model, pattern=torch.stack(pattern))


def _wrong_pairs(
    tokens: Tensor, model: Transformer, *, patterns: str = "10", weights: str = "01"
) -> Terms:
    """Virtual terms with the layers of their patterns and weights in another order."""
    x, A = embedded(tokens, model), _clean_patterns(tokens, model)
    W_OV = model.W_V @ model.W_O
    heads = range(model.n_heads)

    def pick(layers: str, of: Tensor, reader: int, read: int) -> list[Tensor]:
        return [of[int(layer), reader if layer == "1" else read] for layer in layers]

    def term(reader: int, read: int) -> Tensor:
        left, right = pick(patterns, A, reader, read), pick(weights, W_OV, reader, read)
        return left[0] @ left[1] @ x @ right[0] @ right[1] @ model.W_U

    rows = [torch.stack([term(reader, read) for read in heads]) for reader in heads]
    return (*_expand(tokens, model)[:2], torch.stack(rows))


def _pairs_of_layer_0(tokens: Tensor, model: Transformer) -> Terms:
    x, A = embedded(tokens, model), _clean_patterns(tokens, model)
    first = head_terms(x, A[0], model, 0)
    pairs = torch.stack([head_terms(term, A[0], model, 0) for term in first], dim=1)
    return (*_expand(tokens, model)[:2], pairs @ model.W_U)


def _direct_in_every_head(tokens: Tensor, model: Transformer) -> Terms:
    direct, heads, virtual = _expand(tokens, model)
    return direct, heads + direct, virtual


def _direct_is_the_rest(tokens: Tensor, model: Transformer) -> Terms:
    direct, heads, virtual = _expand(tokens, model)
    return direct + heads[0].sum(dim=0), heads, virtual


def _pairs_exchanged(tokens: Tensor, model: Transformer) -> Terms:
    direct, heads, virtual = _expand(tokens, model)
    return direct, heads, virtual.transpose(0, 1)


def _heads_averaged(tokens: Tensor, model: Transformer) -> Terms:
    direct, heads, virtual = _expand(tokens, model)
    return direct, heads / model.n_heads, virtual


def _layers_exchanged(tokens: Tensor, model: Transformer) -> Terms:
    direct, heads, virtual = _expand(tokens, model)
    return direct, heads.flip(0), virtual


def _not_unembedded(tokens: Tensor, model: Transformer) -> Terms:
    eye = torch.eye(model.d_model, dtype=model.W_U.dtype)
    return _expand(tokens, model.with_weights(W_U=eye), pattern=_clean_patterns(tokens, model))


def _by_knocking_out(tokens: Tensor, model: Transformer) -> tuple[Any, ...]:
    """From differences of runs with frozen patterns, heads switched off: no path is ever written."""
    A = _clean_patterns(tokens, model)

    def run(*on: tuple[int, int]) -> Tensor:
        x = embedded(tokens, model)
        for layer in (0, 1):
            added = head_terms(x, A[layer], model, layer)
            kept = [added[h] for h in range(model.n_heads) if (layer, h) in on]
            x = torch.stack([x, *kept]).sum(dim=0)
        return x @ model.W_U

    heads, none = range(model.n_heads), run()
    single = [[run((layer, h)) - none for h in heads] for layer in (0, 1)]
    pairs = [
        [run((0, h), (1, g)) - none - single[0][h] - single[1][g] for h in heads] for g in heads
    ]
    return none, single, pairs


def _by_einsum(tokens: Tensor, model: Transformer) -> Terms:
    x, A = embedded(tokens, model), _clean_patterns(tokens, model)
    W_OV = torch.einsum("lhdk,lhke->lhde", model.W_V, model.W_O)
    heads = torch.einsum("lhij,jd,lhde,ev->lhiv", A, x, W_OV, model.W_U)
    once = torch.einsum("hij,jd,hde->hie", A[0], x, W_OV[0])
    pairs = torch.einsum("gij,hjd,gde,ev->ghiv", A[1], once, W_OV[1], model.W_U)
    return torch.einsum("pd,dv->pv", x, model.W_U), heads, pairs


TWO_LAYER_PATHS = Exercise(
    reference=reference.two_layer_paths,
    notebook=NOTEBOOK,
    title="A two-layer model is a sum of paths",
    paper=LOGITS,
    points=5,
    minutes=30,
    difficulty=3,
    cases=_two_layer_cases,
    compare=Comparator("direct", "heads", "virtual"),
    hints=(
        "Take the patterns of one run, then never compute a pattern again. What is left is linear, so "
        "send the embedding along every path by itself.",
        "Three kinds of paths. No head: the embedding goes to W_U. One head: it goes through that "
        "head, of *either* layer, straight from the embedding. Two: what a head of layer 0 adds goes "
        "through a head of layer 1.",
        "Keep layer 0's head outputs apart, (head, pos, d_model). Each head of layer 1 is applied "
        "once to the embedding (its order-1 term) and once to each of those outputs (its virtual "
        "terms). Sum everything and compare with `model(tokens)`.",
    ),
    mistakes=(
        Mistake(
            "stream_read_by_layer_1",
            _stream_read_by_layer_1,
            "Layer 1's own terms are made from the stream after layer 0, so the virtual heads are in "
            "them, and in the virtual terms once more. The parts sum to too much.",
            facts=(55, 56),
        ),
        Mistake(
            "virtual_left_empty",
            _virtual_left_empty,
            "The parts sum to the logits, but the virtual heads are hidden in layer 1's own terms. "
            "Let layer 1 read the embedding only, and what is missing are the pairs.",
            facts=(56,),
        ),
        Mistake(
            "patterns_computed_anew",
            _patterns_anew,
            "Layer 1's patterns were computed from the embedding alone. Freeze all patterns at those "
            "of the full run: only what is moved is taken apart, not where to look.",
            facts=(60,),
        ),
        Mistake(
            "pairs_exchanged",
            _pairs_exchanged,
            "Right virtual terms, head axes exchanged: first the head of layer 1, then the one of "
            "layer 0.",
        ),
        Mistake(
            "patterns_in_the_wrong_order",
            lambda tokens, model: _wrong_pairs(tokens, model, patterns="01"),
            "In the virtual terms layer 0's pattern stands outside. The head that acts last is "
            "outermost.",
            facts=(57,),
        ),
        Mistake(
            "weights_in_the_wrong_order",
            lambda tokens, model: _wrong_pairs(tokens, model, weights="10"),
            "In the virtual terms layer 1's weights come first. A row vector meets layer 0's first.",
            facts=(58,),
        ),
        Mistake(
            "both_in_the_wrong_order",
            lambda tokens, model: _wrong_pairs(tokens, model, patterns="01", weights="10"),
            "In the virtual terms layer 1 acts before layer 0.",
            facts=(57, 58, 59),
        ),
        Mistake(
            "pairs_of_layer_0",
            _pairs_of_layer_0,
            "The virtual terms pair the heads of layer 0 with each other. A path goes up: the second "
            "head is of layer 1.",
            facts=(59,),
        ),
        Mistake(
            "direct_in_every_head",
            _direct_in_every_head,
            "The direct path is contained in every head's term, so the sum counts it many times.",
            facts=(54,),
        ),
        Mistake(
            "layer_0_in_direct",
            _direct_is_the_rest,
            "What you call the direct path is the stream after layer 0. The direct path goes through "
            "no head at all.",
            facts=(54, 55),
        ),
        Mistake(
            "positions_in_the_stream",
            lambda tokens, model: _expand(tokens, model, placed(embedded(tokens, model), model)),
            "W_pos was added to the embedding, so values and the direct path hold positions. With "
            "the patterns frozen, positions have done their work.",
            facts=(32,),
        ),
        Mistake(
            "patterns_transposed",
            lambda tokens, model: _expand(tokens, model, pattern=_clean_patterns(tokens, model).mT),
            "The patterns are turned over: their rows are destinations.",
            facts=(42,),
        ),
        Mistake(
            "heads_averaged",
            _heads_averaged,
            "The heads' terms are divided by the number of heads. Heads add.",
            facts=(41,),
        ),
        Mistake(
            "layers_exchanged",
            _layers_exchanged,
            "The heads' terms of layer 0 and layer 1 have changed places.",
            facts=(61,),
        ),
        Mistake(
            "not_unembedded",
            _not_unembedded,
            "These are parts of the last stream, d_model wide. Logits are what W_U makes of them; it "
            "is linear, so it acts on each part.",
        ),
    ),
    variants=(
        Variant("by_differences_of_runs", _by_knocking_out, facts=("E", "T", "N")),
        Variant("einsum", _by_einsum, facts=("E", "T")),
        Variant(
            "numpy",
            lambda tokens, model: [part.numpy() for part in _expand(tokens, model)],
            facts=("N",),
        ),
    ),
)
