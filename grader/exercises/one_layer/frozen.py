"""Frozen patterns: the logits of a one-layer model with the attention given."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import (
    NOTEBOOK,
    causal,
    embedded,
    head_logits,
    one_layer,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

PAPER = "The Path Expansion Trick"


def models(draw: Draw) -> Iterator[tuple[Tensor, Transformer, str]]:
    def question(by: Draw, pos: int, **sizes: int) -> tuple[Tensor, Transformer]:
        model = one_layer(by, **sizes)
        return by.tokens(pos, d_vocab=model.d_vocab), model

    pos, n_heads, d_head, d_model, d_vocab, n_ctx = sorted(draw.sizes(6, 2, 10))
    pos, n_heads = n_heads, pos
    sizes = {"n_heads": n_heads, "d_head": d_head, "d_model": d_model, "d_vocab": d_vocab}
    yield *question(draw, pos, **sizes, n_ctx=n_ctx), ""
    n = draw.integer(4, 6)
    equal = {"n_heads": n, "d_head": n, "d_model": n, "d_vocab": n, "n_ctx": n}
    yield *question(draw, n, **equal), "where all sizes are equal"
    single = {**sizes, "n_heads": 1, "n_ctx": n_ctx}
    double = Draw(draw.seed, torch.float64)
    yield *question(double, pos, **single), "with a single head, in float64"
    yield *question(draw, 1, **sizes, n_ctx=n_ctx), "with a single token"


def _frozen_cases(draw: Draw) -> Iterator[Case]:
    for tokens, model, label in models(draw):
        by = Draw(draw.integer(0, 2**31), model.W_E.dtype)
        pos = len(tokens)
        yield Case((tokens, model, by.pattern(model.n_heads, pos, pos)), label)


def direct(tokens: Tensor, model: Transformer) -> Tensor:
    return embedded(tokens, model) @ model.W_U


def _frozen(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    heads = head_logits(embedded(tokens, model), model, pattern)
    return direct(tokens, model) + heads.sum(dim=0)


def _heads_in_a_row(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    x = embedded(tokens, model)
    for A, W_V, W_O in zip(pattern, model.W_V[0], model.W_O[0], strict=True):
        x = x + A @ x @ W_V @ W_O
    return x @ model.W_U


def _layer_axis_kept(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    x = embedded(tokens, model)
    return (x + (pattern @ x @ model.W_V @ model.W_O).sum(dim=0)) @ model.W_U


def with_positions(tokens: Tensor, model: Transformer) -> Tensor:
    return embedded(tokens, model) + model.W_pos[: len(tokens)]


def _positions_in_values(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    heads = head_logits(with_positions(tokens, model), model, pattern)
    return direct(tokens, model) + heads.sum(dim=0)


def _positions_in_stream(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    x = with_positions(tokens, model)
    return x @ model.W_U + head_logits(x, model, pattern).sum(dim=0)


def _softmaxed_again(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    return _frozen(tokens, model, causal(pattern))


def _through_cached_values(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    stream = cache.stream[0] + (pattern @ cache.v[0] @ model.W_O[0]).sum(dim=0)
    return stream @ model.W_U


def _one_einsum(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    x = embedded(tokens, model)
    added = torch.einsum("hij,jd,hde,hef->if", pattern, x, model.W_V[0], model.W_O[0])
    return (x + added) @ model.W_U


def _head_by_head(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    x = embedded(tokens, model)
    logits = x @ model.W_U
    for h in range(model.n_heads):
        logits = logits + pattern[h] @ (x @ (model.W_V[0, h] @ model.W_O[0, h] @ model.W_U))
    return logits


FROZEN_LOGITS = Exercise(
    reference=reference.frozen_logits,
    notebook=NOTEBOOK,
    title="Logits with the attention given",
    paper=PAPER,
    points=2,
    minutes=10,
    difficulty=1,
    cases=_frozen_cases,
    compare=Comparator(),
    hints=(
        "With the pattern given, nothing has to be found out about queries and keys. What is left "
        "of the model is the embedding, the heads' OV side and the unembedding.",
        "The stream after the layer is x plus one term a head, each (pos, d_model). The weights "
        "carry a layer axis in front, of size 1; pattern has a head axis only.",
        "Embed; for every head mix the positions from the left and apply its two OV weights from the "
        "right, all reading the same x; add the terms to x; unembed the sum.",
    ),
    mistakes=(
        Mistake(
            "pattern_recomputed",
            lambda tokens, model, pattern: model(tokens),
            "These are the logits of the plain model: the given pattern has no effect. Frozen means "
            "that the attention is taken as given, wherever it came from.",
            facts=(60,),
        ),
        Mistake(
            "direct_path_missing",
            lambda tokens, model, pattern: head_logits(embedded(tokens, model), model, pattern).sum(
                dim=0
            ),
            "Only the heads are there. What does a token say about the next one by itself, without "
            "any head?",
            facts=(53, 43),
        ),
        Mistake(
            "direct_path_once_a_head",
            lambda tokens, model, pattern: (
                direct(tokens, model) + head_logits(embedded(tokens, model), model, pattern)
            ).sum(dim=0),
            "The direct path is added once for every head. There is one stream, and the heads add to "
            "it.",
            facts=(54,),
        ),
        Mistake(
            "heads_averaged",
            lambda tokens, model, pattern: (
                direct(tokens, model)
                + head_logits(embedded(tokens, model), model, pattern).mean(dim=0)
            ),
            "The heads' terms are averaged. They add.",
            facts=(41,),
        ),
        Mistake(
            "pattern_transposed",
            lambda tokens, model, pattern: _frozen(tokens, model, pattern.mT),
            "The pattern is turned over, so destinations give and sources receive. Its rows are "
            "destinations.",
            facts=(42,),
        ),
        Mistake(
            "heads_in_a_row",
            _heads_in_a_row,
            "Each head reads the stream that the one before it has already written to. Heads of one "
            "layer work side by side: all of them read the embedding.",
            facts=(55,),
        ),
        Mistake(
            "positions_in_values",
            _positions_in_values,
            "The values hold positions. In this course W_pos goes into queries and keys only; with "
            "the pattern given it has done its work.",
            facts=(32,),
        ),
        Mistake(
            "positions_in_stream",
            _positions_in_stream,
            "W_pos was added to the stream, so the direct path and the values hold positions. It "
            "goes into queries and keys only; with the pattern given it has done its work.",
            facts=(32,),
        ),
        Mistake(
            "softmaxed_again",
            _softmaxed_again,
            "The given pattern goes through a softmax once more. Its rows sum to 1 already.",
        ),
        Mistake(
            "not_unembedded",
            lambda tokens, model, pattern: (
                embedded(tokens, model)
                + (pattern @ embedded(tokens, model) @ model.W_V[0] @ model.W_O[0]).sum(dim=0)
            ),
            "This is the last residual stream. Logits are what W_U reads off it.",
        ),
        Mistake(
            "log_probs",
            lambda tokens, model, pattern: _frozen(tokens, model, pattern).log_softmax(dim=-1),
            "These are log-probabilities. Only raw logits are linear in the parts; the logarithm of "
            "a softmax is not.",
            facts=(8,),
        ),
        Mistake(
            "first_head_only",
            lambda tokens, model, pattern: (
                direct(tokens, model) + head_logits(embedded(tokens, model), model, pattern)[0]
            ),
            "Only head 0 is counted. In `W_V[0, h]` the first number is the layer, the second the "
            "head.",
            facts=(119,),
        ),
        Mistake(
            "layer_axis_kept",
            _layer_axis_kept,
            "A model's weights are (layer, head, …), also when there is one layer. Here the sum ran "
            "over the layer axis and the heads stayed apart.",
            facts=(39,),
        ),
    ),
    variants=(
        Variant("through_cached_values", _through_cached_values, facts=("E",)),
        Variant("einsum", _one_einsum, facts=("E", "T")),
        Variant("head_by_head_through_full_circuits", _head_by_head, facts=("E", "T")),
        Variant(
            "numpy",
            lambda tokens, model, pattern: _frozen(tokens, model, pattern).numpy(),
            facts=("N",),
        ),
    ),
)
