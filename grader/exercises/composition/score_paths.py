"""The scores of a layer-1 head, taken apart by who reads what layer 0 wrote."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grader.circuits import composition as reference
from grader.exercises.composition.common import (
    NOTEBOOK,
    SCORES,
    after_layer_0,
    causal,
    placed,
    questions,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer


def _cases(draw: Draw) -> Iterator[Case]:
    for tokens, model, label in questions(draw):
        last = model.n_heads - 1
        yield Case((tokens, model, draw.integer(min(1, last), last)), label)


def _score(x_dst: Tensor, x_src: Tensor, model: Transformer, head: int, layer: int = 1) -> Tensor:
    q, k = x_dst @ model.W_Q[layer, head], x_src @ model.W_K[layer, head]
    return q @ k.T / model.d_head**0.5


def _four(base: Tensor, composed: Tensor, model: Transformer, head: int, layer: int = 1) -> Tensor:
    sides = [(base, base), (composed, base), (base, composed), (composed, composed)]
    return torch.stack([_score(dst, src, model, head, layer) for dst, src in sides])


def _sides(tokens: Tensor, model: Transformer) -> tuple[Tensor, Tensor]:
    x, added = after_layer_0(tokens, model)
    return placed(x, model), added


def _right(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    return _four(*_sides(tokens, model), model, head)


def _positions_composed_too(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    base, added = _sides(tokens, model)
    return _four(base, placed(added, model), model, head)


def _positions_composed_only(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    x, added = after_layer_0(tokens, model)
    return _four(x, placed(added, model), model, head)


def _positions_lost(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    return _four(*after_layer_0(tokens, model), model, head)


def _whole_stream_composed(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    base, added = _sides(tokens, model)
    return _four(base, base + added, model, head)


def _whole_stream_on_the_other_side(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    base, added = _sides(tokens, model)
    full = base + added
    sides = [(base, base), (added, full), (full, added), (added, added)]
    return torch.stack([_score(dst, src, model, head) for dst, src in sides])


def _one_head_of_layer_0(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    base, _ = _sides(tokens, model)
    _, cache = model.run_with_cache(tokens)
    return _four(base, cache.head_out[0, head], model, head)


def _heads_averaged(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    base, added = _sides(tokens, model)
    return _four(base, added / model.n_heads, model, head)


def _ov_transposed(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    base, _ = _sides(tokens, model)
    _, cache = model.run_with_cache(tokens)
    W_VO = (model.W_V[0] @ model.W_O[0]).mT
    return _four(base, (cache.pattern[0] @ cache.stream[0] @ W_VO).sum(dim=0), model, head)


def _pattern_left_out(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    base, _ = _sides(tokens, model)
    moved_nowhere = (model.W_E[tokens] @ model.W_V[0] @ model.W_O[0]).sum(dim=0)
    return _four(base, moved_nowhere, model, head)


def _both_one_sided(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    terms = _right(tokens, model, head)
    return torch.stack([terms[0], terms[1], terms[2], terms[1] + terms[2]])


def _softmaxed(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    return causal(_right(tokens, model, head))


def _by_differences(tokens: Tensor, model: Transformer, head: int) -> list[Tensor]:
    """From whole score tables only: what changes when a side stops reading layer 0."""
    base, added = _sides(tokens, model)
    full = base + added
    none = _score(base, base, model, head)
    q_side = _score(full, base, model, head) - none
    k_side = _score(base, full, model, head) - none
    return [none, q_side, k_side, _score(full, full, model, head) - none - q_side - k_side]


def _by_weights(tokens: Tensor, model: Transformer, head: int) -> Tensor:
    """By the composed QK circuits, one head of layer 0 at a time, patterns outside."""
    base, _ = _sides(tokens, model)
    x = model.W_E[tokens]
    A = model.run_with_cache(tokens)[1].pattern[0]
    W_QK = model.W_Q[1, head] @ model.W_K[1, head].T / model.d_head**0.5
    W_OV = model.W_V[0] @ model.W_O[0]
    heads = range(model.n_heads)
    q_side = sum(A[h] @ x @ W_OV[h] @ W_QK @ base.T for h in heads)
    k_side = sum(base @ W_QK @ W_OV[h].T @ x.T @ A[h].T for h in heads)
    both = sum(A[g] @ x @ W_OV[g] @ W_QK @ W_OV[h].T @ x.T @ A[h].T for g in heads for h in heads)
    return torch.stack([base @ W_QK @ base.T, *map(torch.as_tensor, (q_side, k_side, both))])


ATTENTION_SCORE_PATHS = Exercise(
    reference=reference.attention_score_paths,
    notebook=NOTEBOOK,
    title="A layer-1 head's scores as a sum of paths",
    paper=SCORES,
    points=4,
    minutes=20,
    difficulty=3,
    cases=_cases,
    compare=Comparator("direct", "Q only", "K only", "both"),
    hints=(
        "A score has two sides, and it is linear in each. Each side reads a sum of two parts. "
        "Multiply out (a + b)(c + d).",
        "The two parts of a side: the embedding with positions, and the sum of what layer 0's heads "
        "wrote, without positions. Your `attention_scores` of notebook 02 takes two different inputs "
        "for exactly this.",
        "Four score tables with the same W_Q[1, head] and W_K[1, head]: (embedding, embedding), "
        "(layer 0, embedding), (embedding, layer 0), (layer 0, layer 0), destination side first. Add "
        "them up and compare with `cache.scores[1, head]`.",
    ),
    mistakes=(
        Mistake(
            "q_and_k_exchanged",
            lambda tokens, model, head: _right(tokens, model, head)[[0, 2, 1, 3]],
            "The terms 'Q only' and 'K only' have changed places. Rows of scores are destinations, "
            "and the destination's side is the query.",
            facts=(79,),
        ),
        Mistake(
            "not_scaled",
            lambda tokens, model, head: _right(tokens, model, head) * model.d_head**0.5,
            "The terms are not divided by √d_head. The paper leaves that out; here they must sum to "
            "the model's scores.",
            facts=(17,),
        ),
        Mistake(
            "scaled_on_both_sides",
            lambda tokens, model, head: _right(tokens, model, head) / model.d_head**0.5,
            "The terms are divided by √d_head twice, once too often.",
            facts=(19,),
        ),
        Mistake(
            "softmaxed",
            _softmaxed,
            "These have been through a softmax, and such parts don't add up to anything. Take the "
            "scores apart, before mask and softmax.",
            facts=(66,),
        ),
        Mistake(
            "masked",
            lambda tokens, model, head: _right(tokens, model, head).masked_fill(
                torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1), -torch.inf
            ),
            "The future is masked. Asked for are the scores before the mask, which is no sum.",
        ),
        Mistake(
            "transposed",
            lambda tokens, model, head: _right(tokens, model, head).mT,
            "Each table is turned over. Rows are destinations, columns are sources.",
            facts=(16, 30),
        ),
        Mistake(
            "positions_composed_too",
            _positions_composed_too,
            "W_pos is in both parts of each side, so it is counted twice. It belongs to the "
            "embedding; what layer 0 wrote comes without it.",
            facts=(33,),
        ),
        Mistake(
            "positions_composed_only",
            _positions_composed_only,
            "W_pos went to what layer 0 wrote. It belongs to the embedding's part.",
            facts=(33,),
        ),
        Mistake(
            "positions_lost",
            _positions_lost,
            "The positions are missing. Queries and keys read the embedding *with* W_pos, also in "
            "layer 1.",
            facts=(33,),
        ),
        Mistake(
            "whole_stream_composed",
            _whole_stream_composed,
            "The composed side reads the whole stream after layer 0, the embedding included, so that "
            "the embedding is counted again and again. Take only what layer 0 *added*.",
            facts=(54, 55),
        ),
        Mistake(
            "whole_stream_on_the_other_side",
            _whole_stream_on_the_other_side,
            "In 'Q only' and 'K only' the *other* side reads the whole stream. Then both terms hold "
            "'both' as well. The other side reads the embedding only.",
            facts=(55, 64),
        ),
        Mistake(
            "one_head_of_layer_0",
            _one_head_of_layer_0,
            "The composed side holds one head of layer 0, the one with the number `head`. That "
            "number is for layer 1; of layer 0 all heads are summed.",
            facts=(119,),
        ),
        Mistake(
            "heads_averaged",
            _heads_averaged,
            "The composed side is the mean of layer 0's heads. Heads add.",
            facts=(41,),
        ),
        Mistake(
            "weights_of_layer_0",
            lambda tokens, model, head: _four(*_sides(tokens, model), model, head, layer=0),
            "The queries and keys are those of layer 0. The head asked for is in layer 1.",
            facts=(119,),
        ),
        Mistake(
            "always_head_0",
            lambda tokens, model, head: _right(tokens, model, 0),
            "These are the scores of head 0, whatever `head` says.",
            facts=(118, 119),
        ),
        Mistake(
            "ov_transposed",
            _ov_transposed,
            "What layer 0 writes was computed with its W_OV turned over.",
            facts=(65, 37),
        ),
        Mistake(
            "pattern_left_out",
            _pattern_left_out,
            "The composed side skips layer 0's patterns: it turns each token by W_OV where it "
            "stands. Layer 0 also *moves* things.",
            facts=(64,),
        ),
        Mistake(
            "both_is_the_sum",
            _both_one_sided,
            "The last term is the sum of the two before it. It is a term of its own: layer 0 on the "
            "query's side meeting layer 0 on the key's side.",
            facts=(64,),
        ),
    ),
    variants=(
        Variant("by_differences", _by_differences, facts=("E", "T")),
        Variant("by_composed_circuits", _by_weights, facts=("E", "T")),
        Variant(
            "numpy", lambda tokens, model, head: _right(tokens, model, head).numpy(), facts=("N",)
        ),
    ),
)
