"""How far a layer is from a sum of skip-trigrams: two sources compete for one attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import (
    NOTEBOOK,
    WithFloor,
    embedded,
    head_logits,
    one_layer,
    scores,
)
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

SEEN = 0.03  # the least interaction, in logits, that a question is worth asking about
LOGIT_FLOOR = 2e-5  # logits of size 1, four of them subtracted in float32


def _interaction_cases(draw: Draw) -> Iterator[Case]:
    def case(
        by: Draw, where: tuple[int, int, int, int], sizes: dict[str, int], label: str = ""
    ) -> Case:
        pos, dst, a, b = where
        twin = next(i for i in range(dst + 1) if i not in (a, b))
        while True:  # until the two sources get enough attention to compete for
            model = one_layer(by, **sizes)
            tokens = by.tokens(pos, d_vocab=model.d_vocab)
            tokens[a], tokens[b], tokens[twin] = 0, 1, 0  # the token at a stands there once more
            found = reference.source_interaction(tokens, model, dst, a, b)
            if float(found.abs().max()) > SEEN:
                break
        return Case((tokens, model, dst, a, b), label)

    n_heads, d_head, d_model, d_vocab = sorted(draw.sizes(4, 2, 8))
    sizes = {"n_heads": n_heads, "d_head": d_head, "d_model": d_model, "d_vocab": d_vocab}
    yield case(draw, (8, 5, 3, 1), {**sizes, "n_ctx": 10})
    equal = dict.fromkeys(("n_heads", "d_head", "d_model", "d_vocab", "n_ctx"), 6)
    yield case(draw, (6, 5, 0, 4), equal, "where all sizes are equal")
    single = {**sizes, "n_heads": 1, "n_ctx": 9}
    double = Draw(draw.seed, torch.float64)
    yield case(double, (6, 3, 0, 1), single, "with a single head, in float64")
    few = {**sizes, "n_ctx": 4}
    yield case(draw, (4, 2, 1, 0), few, "with nothing left but the destination")


Masked = Callable[[Tensor, Transformer, int, list[int]], Tensor]


def _four_runs(masked: Masked) -> Callable[..., Tensor]:
    def answer(tokens: Tensor, model: Transformer, dst: int, a: int, b: int) -> Tensor:
        none, one, other, both = (masked(tokens, model, dst, off) for off in ([], [a], [b], [a, b]))
        return none - one - other + both

    return answer


def _visible(tokens: Tensor, model: Transformer) -> Tensor:
    future = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
    return scores(tokens, model).masked_fill(future, -torch.inf)


def _logits(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    x = embedded(tokens, model)
    return x @ model.W_U + head_logits(x, model, pattern).sum(dim=0)


def _masked_run(
    tokens: Tensor, model: Transformer, dst: int, off: list[int], fill: float = -torch.inf
) -> Tensor:
    left = _visible(tokens, model)
    left[:, dst, off] = fill
    return _logits(tokens, model, left.softmax(dim=-1))[dst]


def _zeroed_after_softmax(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    pattern = _visible(tokens, model).softmax(dim=-1)
    pattern[:, :, off] = 0.0
    return _logits(tokens, model, pattern)[dst]


def _at_the_end(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    return _masked_run(tokens, model, len(tokens) - 1, off)


def _tokens_removed(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    kept = [i for i in range(dst + 1) if i not in off]
    return model(tokens[kept])[-1]


def _same_tokens_masked(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    ids = {int(tokens[i]) for i in off}
    alike = [i for i in range(dst) if int(tokens[i]) in ids]
    return _masked_run(tokens, model, dst, alike)


def _first_head(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    names = ("W_Q", "W_K", "W_V", "W_O")
    return _masked_run(
        tokens, model.with_weights(**{n: getattr(model, n)[:, :1] for n in names}), dst, off
    )


def _all_rows(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    left = _visible(tokens, model)
    left[:, max(off, default=-1) + 1 :, off] = -torch.inf
    return _logits(tokens, model, left.softmax(dim=-1))


def _without_positions(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    blind = model.with_weights(W_pos=torch.zeros_like(model.W_pos))
    return _masked_run(tokens, blind, dst, off)


def _renormalized(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    pattern = _visible(tokens, model).softmax(dim=-1)
    pattern[:, dst, off] = 0.0
    return _logits(tokens, model, pattern / pattern.sum(dim=-1, keepdim=True))[dst]


def _log_probs(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    return _masked_run(tokens, model, dst, off).log_softmax(dim=-1)


def _weak(tokens: Tensor, model: Transformer, dst: int, off: list[int]) -> Tensor:
    return _masked_run(tokens, model, dst, off, fill=0.0)


def _combined(weights: tuple[int, int, int, int]) -> Callable[..., Tensor]:
    def answer(tokens: Tensor, model: Transformer, dst: int, a: int, b: int) -> Tensor:
        runs = [_masked_run(tokens, model, dst, off) for off in ([], [a], [b], [a, b])]
        return sum((w * run for w, run in zip(weights, runs, strict=True)), torch.zeros(()))

    return answer


SOURCE_INTERACTION = Exercise(
    reference=reference.source_interaction,
    notebook=NOTEBOOK,
    title="Two sources are not the sum of two",
    paper="Do We Fully Understand One-Layer Models?",
    points=4,
    minutes=20,
    difficulty=3,
    cases=_interaction_cases,
    compare=WithFloor(LOGIT_FLOOR),
    hints=(
        "Four runs of one destination: with both sources, without the one, without the other, "
        "without both. If effects added up, what would the alternating sum be?",
        "`model.run_with_cache(tokens)` gives the scores before the mask and the values. Hide the "
        "future *and* the chosen sources, then take the softmax anew, in every head.",
        "Give the hidden sources a score that the softmax turns into 0, apply the new patterns to "
        "the unchanged values, add the direct path, unembed, take row dst. Do it four times.",
    ),
    mistakes=(
        Mistake(
            "not_renormalized",
            _four_runs(_zeroed_after_softmax),
            "Everything cancels: attention was taken away *after* the softmax, and with the rest of "
            "the pattern frozen a layer is a plain sum over sources. Take the softmax anew: the "
            "attention set free goes to the sources that are left.",
            facts=(60, 23),
        ),
        Mistake(
            "hidden_with_zero",
            _four_runs(_weak),
            "The hidden sources got the score 0, and exp(0) is 1. Which score does the softmax turn "
            "into nothing?",
            facts=(22,),
        ),
        Mistake(
            "both_left_out",
            _combined((1, -1, -1, 0)),
            "The run with both sources hidden is missing; without it the rest of the model doesn't "
            "cancel.",
        ),
        Mistake(
            "both_subtracted",
            _combined((1, -1, -1, -1)),
            "The run with both sources hidden is subtracted. It was taken away twice, once with each "
            "source, so it has to be put back.",
        ),
        Mistake(
            "sign",
            _combined((-1, 1, 1, -1)),
            "Right size, wrong sign: the full run counts as positive.",
        ),
        Mistake(
            "effect_of_both",
            _combined((1, 0, 0, -1)),
            "This is what the two sources do together. Asked for is how far that is from the sum of "
            "what each does alone.",
        ),
        Mistake(
            "read_at_the_end",
            _four_runs(_at_the_end),
            "The logits were read at the last position. Sources were hidden from dst; read there.",
        ),
        Mistake(
            "tokens_removed",
            _four_runs(_tokens_removed),
            "The tokens were taken out of the text, so all that follow moved to another position. "
            "The text stays; only the looks are blocked.",
        ),
        Mistake(
            "same_tokens_hidden",
            _four_runs(_same_tokens_masked),
            "Every place with the same token was hidden. a and b are positions: one place each.",
        ),
        Mistake(
            "positions_left_out",
            _four_runs(_without_positions),
            "The scores are made without W_pos. Queries and keys read the embedding and the "
            "position.",
            facts=(33,),
        ),
        Mistake(
            "first_head_only",
            _four_runs(_first_head),
            "Only head 0 took part. The sources compete in every head, and the heads add.",
            facts=(119,),
        ),
        Mistake(
            "all_positions",
            _four_runs(_all_rows),
            "The logits of all positions came. Asked for is one row, that of dst.",
        ),
        Mistake(
            "log_probs",
            _four_runs(_log_probs),
            "These are log-probabilities, whose softmax over outputs adds an interaction of its own. "
            "Stay with logits.",
            facts=(8,),
        ),
    ),
    variants=(
        Variant("four_runs", _four_runs(_masked_run), facts=("E", "T")),
        Variant("renormalized_after_removing", _four_runs(_renormalized), facts=("E", "T")),
        Variant(
            "in_float64",
            lambda tokens, model, dst, a, b: _four_runs(_masked_run)(
                tokens, model.to(torch.float64), dst, a, b
            ),
            facts=("D",),
        ),
        Variant(
            "with_a_large_negative_score",
            _four_runs(
                lambda tokens, model, dst, off: _masked_run(tokens, model, dst, off, fill=-1e9)
            ),
            facts=("M",),
        ),
    ),
)
