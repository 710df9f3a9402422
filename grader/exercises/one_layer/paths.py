"""The terms of a one-layer model, each by itself."""

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
    scores,
)
from grader.exercises.one_layer.frozen import PAPER, direct, models, with_positions
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer


def _path_cases(draw: Draw) -> Iterator[Case]:
    for tokens, model, label in models(draw):
        yield Case((tokens, model), label)


def _paths(tokens: Tensor, model: Transformer, pattern: Tensor) -> Tensor:
    straight = direct(tokens, model)
    return torch.cat([straight[None], head_logits(embedded(tokens, model), model, pattern)])


def _clean(tokens: Tensor, model: Transformer) -> Tensor:
    return causal(scores(tokens, model))


def _right(tokens: Tensor, model: Transformer) -> Tensor:
    return _paths(tokens, model, _clean(tokens, model))


def _of_tokens_only(tokens: Tensor, model: Transformer) -> Tensor:
    return _right(tokens, model.with_weights(W_pos=torch.zeros_like(model.W_pos)))


def _values_with_positions(tokens: Tensor, model: Transformer) -> Tensor:
    x, pattern = with_positions(tokens, model), _clean(tokens, model)
    heads = head_logits(x, model, pattern)
    return torch.cat([direct(tokens, model)[None], heads])


def _all_with_positions(tokens: Tensor, model: Transformer) -> Tensor:
    x, pattern = with_positions(tokens, model), _clean(tokens, model)
    return torch.cat([(x @ model.W_U)[None], head_logits(x, model, pattern)])


def _direct_in_every_term(tokens: Tensor, model: Transformer) -> Tensor:
    paths = _right(tokens, model)
    return torch.cat([paths[:1], paths[:1] + paths[1:]])


def _unembedded_later(tokens: Tensor, model: Transformer) -> Tensor:
    x = embedded(tokens, model)
    heads = _clean(tokens, model) @ x @ model.W_V[0] @ model.W_O[0]
    return torch.cat([x[None], heads])


def _by_knocking_out(tokens: Tensor, model: Transformer) -> list[Tensor]:
    def only(*heads: int) -> Tensor:
        kept = torch.zeros_like(model.W_O)
        kept[0, list(heads)] = model.W_O[0, list(heads)]
        return model.with_weights(W_O=kept)(tokens)

    straight = only()
    return [straight, *(only(h) - straight for h in range(model.n_heads))]


def _from_the_cache(tokens: Tensor, model: Transformer) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    return torch.cat([cache.stream[:1], cache.head_out[0]]) @ model.W_U


ONE_LAYER_PATHS = Exercise(
    reference=reference.one_layer_paths,
    notebook=NOTEBOOK,
    title="A one-layer model is a sum of paths",
    paper=PAPER,
    points=3,
    minutes=12,
    difficulty=2,
    cases=_path_cases,
    compare=Comparator(),
    hints=(
        "Which terms does the sum in the section above have, and what does each of them read?",
        "The direct path is (pos, d_vocab) and so is each head's term: 1 + head of them, stacked. "
        "Their sum must be `model(tokens)`, which is a check that you can make yourself.",
        "`model.run_with_cache(tokens)` gives the pattern of the run. Freeze it, send the embedding "
        "through each head's OV side and through W_U, and put the direct path in front.",
    ),
    mistakes=(
        Mistake(
            "direct_path_missing",
            lambda tokens, model: _right(tokens, model)[1:],
            "One term is missing: there are as many terms as heads, but one path goes through no "
            "head at all.",
            facts=(53,),
        ),
        Mistake(
            "direct_path_last",
            lambda tokens, model: _right(tokens, model).roll(-1, dims=0),
            "The right terms in another order. The direct path comes first, then head 0, head 1, …",
        ),
        Mistake(
            "running_sum",
            lambda tokens, model: _right(tokens, model).cumsum(dim=0),
            "Each term holds all the terms before it. Asked for are the terms by themselves, so that "
            "they sum to the logits.",
            facts=(54,),
        ),
        Mistake(
            "direct_path_in_every_term",
            _direct_in_every_term,
            "The direct path is contained in every head's term as well, so the sum counts it many "
            "times. A head's term is only what that head *adds*.",
            facts=(54,),
        ),
        Mistake(
            "heads_summed",
            lambda tokens, model: torch.stack(
                [_right(tokens, model)[0], _right(tokens, model)[1:].sum(dim=0)]
            ),
            "The heads came as one sum. Keep them apart: one term for each.",
        ),
        Mistake(
            "positions_in_values",
            _values_with_positions,
            "The heads' terms hold positions. W_pos goes into queries and keys, never into what is "
            "copied.",
            facts=(32,),
        ),
        Mistake(
            "positions_in_stream",
            _all_with_positions,
            "W_pos has got into the direct path and into what the heads copy. It goes into queries "
            "and keys only.",
            facts=(32,),
        ),
        Mistake(
            "positions_left_out",
            _of_tokens_only,
            "The patterns are made from tokens alone. Queries and keys read the embedding *and* "
            "W_pos.",
            facts=(33,),
        ),
        Mistake(
            "no_mask",
            lambda tokens, model: _paths(tokens, model, scores(tokens, model).softmax(dim=-1)),
            "The patterns look into the future: the mask is missing.",
            facts=(27,),
        ),
        Mistake(
            "scores_not_scaled",
            lambda tokens, model: _paths(
                tokens, model, causal(scores(tokens, model) * model.d_head**0.5)
            ),
            "The patterns are sharper than the model's: the scores weren't divided by √d_head.",
            facts=(17,),
        ),
        Mistake(
            "scaled_by_d_model",
            lambda tokens, model: _paths(
                tokens,
                model,
                causal(scores(tokens, model) * (model.d_head / model.d_model) ** 0.5),
            ),
            "The scores are divided by √d_model. Queries and keys have d_head entries.",
            facts=(18,),
        ),
        Mistake(
            "pattern_transposed",
            lambda tokens, model: _paths(tokens, model, _clean(tokens, model).mT),
            "The patterns are turned over. Rows are destinations and stand on the side of the "
            "result.",
            facts=(42,),
        ),
        Mistake(
            "not_unembedded",
            _unembedded_later,
            "These are the terms of the residual stream, d_model wide. Send each through W_U.",
        ),
        Mistake(
            "log_probs",
            lambda tokens, model: _right(tokens, model).log_softmax(dim=-1),
            "Each term went through a log-softmax. Log-probabilities of the parts don't add up to "
            "anything: the sum is over raw logits.",
            facts=(66, 8),
        ),
    ),
    variants=(
        Variant("by_knocking_out_the_others", _by_knocking_out, facts=("E", "T", "N")),
        Variant("from_the_cache", _from_the_cache, facts=("E",)),
        Variant("by_hand", _right, facts=("E",)),
        Variant("in_float64", lambda tokens, model: _right(tokens, model).double(), facts=("D",)),
    ),
)
