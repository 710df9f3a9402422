"""What one layer is worth, from two starting points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.circuits import path_importance as reference
from grader.exercises.path_importance.common import (
    NOTEBOOK,
    TERMS,
    Parts,
    clean,
    head_terms,
    loss_mistakes,
    mean_loss,
    parts,
    questions,
    unfrozen,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

Answer = Callable[[Tensor, Transformer, int], Any]
Loss = Callable[[Tensor], Tensor]


def _cases(draw: Draw) -> list[Case]:
    """Both layers, in an order drawn by chance; both for the plain model."""
    asked = list(questions(draw))
    first = draw.integer(0, 1)
    cases = [Case((t, m, (first + i) % 2), label) for i, (t, m, label) in enumerate(asked)]
    tokens, model, _ = asked[0]
    return [*cases, Case((tokens, model, 1 - first), "for the other layer of the first model")]


def _effect(of: Callable[[Parts, int, Loss], tuple[Tensor, Tensor]]) -> Answer:
    """Other differences of losses of the right paths."""

    def answer(tokens: Tensor, model: Transformer, layer: int) -> tuple[Tensor, Tensor]:
        return of(parts(tokens, model), layer, lambda logits: mean_loss(logits, tokens))

    return answer


def _right(p: Parts, layer: int, loss: Loss) -> tuple[Tensor, Tensor]:
    this, other = p.heads[layer].sum(dim=0), p.heads[1 - layer].sum(dim=0)
    alone = loss(p.direct) - loss(p.direct + this)
    return alone, loss(p.direct + other) - loss(p.direct + other + this)


def _both_alone(p: Parts, layer: int, loss: Loss) -> tuple[Tensor, Tensor]:
    alone, _ = _right(p, layer, loss)
    return alone, alone


def _second_from_the_direct_path(p: Parts, layer: int, loss: Loss) -> tuple[Tensor, Tensor]:
    alone, _ = _right(p, layer, loss)
    return alone, loss(p.direct) - loss(p.direct + p.order_1)


def _second_from_the_whole_model(p: Parts, layer: int, loss: Loss) -> tuple[Tensor, Tensor]:
    alone, _ = _right(p, layer, loss)
    return alone, loss(p.full - p.heads[layer].sum(dim=0)) - loss(p.full)


def _second_with_the_layer_knocked_out(p: Parts, layer: int, loss: Loss) -> tuple[Tensor, Tensor]:
    alone, _ = _right(p, layer, loss)
    return alone, loss(p.direct + p.heads[1 - layer].sum(dim=0)) - loss(p.full)


def _from_no_prediction(p: Parts, layer: int, loss: Loss) -> tuple[Tensor, Tensor]:
    this, other = p.heads[layer].sum(dim=0), p.heads[1 - layer].sum(dim=0)
    return loss(torch.zeros_like(this)) - loss(this), loss(other) - loss(other + this)


def _losses_themselves(p: Parts, layer: int, loss: Loss) -> tuple[Tensor, Tensor]:
    return loss(p.direct + p.heads[layer].sum(dim=0)), loss(p.direct + p.order_1)


def _with_parts(change: Callable[[Tensor, Transformer], Parts]) -> Answer:
    def answer(tokens: Tensor, model: Transformer, layer: int) -> tuple[Tensor, Tensor]:
        changed = change(tokens, model)
        return _right(changed, layer, lambda logits: mean_loss(logits, tokens))

    return answer


def _layer_1_reads_layer_0(tokens: Tensor, model: Transformer) -> Parts:
    p = parts(tokens, model)
    return Parts(p.direct, torch.stack([p.heads[0], p.heads[1] + p.virtual.sum(dim=1)]), p.virtual)


def _first_heads_only(tokens: Tensor, model: Transformer) -> Parts:
    p = parts(tokens, model)
    return Parts(p.direct, p.heads[:, :1], p.virtual)


def _heads_averaged(tokens: Tensor, model: Transformer) -> Parts:
    p = parts(tokens, model)
    return Parts(p.direct, p.heads.mean(dim=1, keepdim=True), p.virtual)


def _positions_in_the_stream(tokens: Tensor, model: Transformer) -> Parts:
    p = parts(tokens, model)
    positions = model.W_pos[: len(tokens)]
    extra = [head_terms(positions, model, i, a) for i, a in enumerate(clean(tokens, model))]
    heads = p.heads + torch.stack(extra) @ model.W_U
    return Parts(p.direct + positions @ model.W_U, heads, p.virtual)


def _with_loss(change: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    def answer(tokens: Tensor, model: Transformer, layer: int) -> tuple[Tensor, Tensor]:
        return _right(parts(tokens, model), layer, lambda logits: change(logits, tokens))

    return answer


def _true_logit(logits: Tensor, tokens: Tensor) -> Tensor:
    """Less the lower, so that it points the way a loss does."""
    return -logits[torch.arange(len(tokens) - 1), tokens[1:]].mean()


def _by_streams(tokens: Tensor, model: Transformer, layer: int) -> list[float]:
    _, cache = model.run_with_cache(tokens)
    x = cache.stream[0]
    written = [
        sum(
            cache.pattern[i, h] @ x @ (model.W_V[i, h] @ model.W_O[i, h])
            for h in range(model.n_heads)
        )
        for i in (0, 1)
    ]

    def loss(stream: Tensor) -> float:
        return float(mean_loss(stream @ model.W_U, tokens))

    beside = x + written[1 - layer]
    return [loss(x) - loss(x + written[layer]), loss(beside) - loss(beside + written[layer])]


MARGINAL_EFFECT = Exercise(
    reference=reference.marginal_effect,
    notebook=NOTEBOOK,
    title="What one layer is worth",
    paper=TERMS,
    points=3,
    minutes=15,
    difficulty=2,
    cases=_cases,
    compare=Comparator("on top of the direct path", "beside the other layer"),
    hints=(
        "Four sums are enough: the direct path; with layer 0; with layer 1; with both. Both numbers "
        "are differences of their losses.",
        "Both differences are 'loss without this layer minus loss with it', so a useful layer gets a "
        "positive number. They differ in what else is there.",
        "Order-1 terms only: each layer reads the embedding with its frozen pattern. No virtual head "
        "takes part, not even in the second number.",
    ),
    mistakes=(
        Mistake(
            "both_on_the_direct_path",
            _effect(_both_alone),
            "Both numbers start from the direct path alone. The second one asks what this layer still "
            "adds where the other layer is already there.",
            facts=(63,),
        ),
        Mistake(
            "second_counts_both_layers",
            _effect(_second_from_the_direct_path),
            "Your second number compares both layers with the direct path, so the other layer's share "
            "is in it too. What is its starting point?",
            facts=(63,),
        ),
        Mistake(
            "second_with_virtual_heads",
            _effect(_second_from_the_whole_model),
            "Your second number starts from the whole model. The virtual heads must stay out: only "
            "the direct path and order-1 terms are in this comparison.",
            facts=(63,),
        ),
        Mistake(
            "second_knocks_the_layer_out",
            _effect(_second_with_the_layer_knocked_out),
            "Your second number takes the layer out of the whole model, so what the two layers do "
            "together is charged to this one. Compare sums of order-1 terms.",
            facts=(63,),
        ),
        Mistake(
            "starting_points_exchanged",
            _effect(lambda p, layer, loss: _right(p, layer, loss)[::-1]),
            "Right numbers in exchanged places: on top of the direct path first, beside the other "
            "layer second.",
            facts=(63,),
        ),
        Mistake(
            "other_layer",
            _effect(lambda p, layer, loss: _right(p, 1 - layer, loss)),
            "These are the numbers of the other layer. Layers count from 0, and `layer` is the one "
            "whose effect is asked for.",
            facts=(61,),
        ),
        Mistake(
            "sign_reversed",
            _with_loss(lambda logits, tokens: -mean_loss(logits, tokens)),
            "Right size, wrong sign: a layer that lowers the loss has a positive effect here.",
            facts=(63,),
        ),
        Mistake(
            "losses_for_effects",
            _effect(_losses_themselves),
            "These are losses with the layer in place. An effect is the loss without it minus the "
            "loss with it.",
            facts=(63,),
        ),
        Mistake(
            "direct_path_missing",
            _effect(_from_no_prediction),
            "The direct path is in none of your sums. It is part of every starting point here.",
            facts=(53,),
        ),
        Mistake(
            "layer_1_reads_layer_0",
            _with_parts(_layer_1_reads_layer_0),
            "Layer 1's term contains what it makes of layer 0's output: that path runs through two "
            "heads. At order 1 both layers read the embedding.",
            facts=(56,),
        ),
        Mistake(
            "patterns_not_frozen",
            _with_parts(lambda t, m: parts(t, m, unfrozen(t, m))),
            "Layer 1's pattern was computed anew, without layer 0 in the stream. Keep the clean run's.",
            facts=(60, 102),
        ),
        Mistake(
            "one_pattern_for_both_layers",
            _with_parts(lambda t, m: parts(t, m, (clean(t, m)[0],) * 2)),
            "Both layers use layer 0's patterns. Each layer has its own.",
        ),
        Mistake(
            "first_head_only",
            _with_parts(_first_heads_only),
            "Only head 0 of each layer takes part. A layer's term is the sum over all its heads.",
        ),
        Mistake(
            "heads_averaged",
            _with_parts(_heads_averaged),
            "The heads of a layer are averaged. They add up; nothing is divided.",
            facts=(41,),
        ),
        Mistake(
            "positions_in_the_stream",
            _with_parts(_positions_in_the_stream),
            "Positions have got into the stream. In these models W_pos is read by queries and keys "
            "only.",
            facts=(32,),
        ),
        Mistake(
            "logits_for_losses",
            _with_loss(_true_logit),
            "This is the change of the true token's *logit*. A loss also looks at what all other "
            "tokens get.",
            facts=(106,),
        ),
        *loss_mistakes(_with_loss),
    ),
    variants=(
        Variant("streams_and_loops", _by_streams, facts=("E", "N")),
        Variant(
            "one_tensor_of_two",
            lambda tokens, model, layer: torch.stack(_effect(_right)(tokens, model, layer)),
            facts=("N",),
        ),
        Variant(
            "numbers",
            lambda tokens, model, layer: tuple(
                float(effect) for effect in _effect(_right)(tokens, model.to(torch.float64), layer)
            ),
            facts=("N", "D"),
        ),
    ),
)
