"""Term importance: the loss with paths of order 0, up to 1, up to 2."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
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
    losses,
    mean_loss,
    parts,
    questions,
    unfrozen,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

Answer = Callable[[Tensor, Transformer], Any]


def _cases(draw: Draw) -> list[Case]:
    return [Case((tokens, model), label) for tokens, model, label in questions(draw)]


def _orders(of: Callable[[Parts], tuple[Tensor, ...]]) -> Answer:
    """The losses of other sums of the right paths."""
    return lambda tokens, model: losses(tokens, *of(parts(tokens, model)))


def _with_virtual(virtual: Callable[[Tensor, Transformer], Tensor]) -> Answer:
    """Orders 0 and 1 as they should be, and another stream (pos, d_model) for the virtual heads."""

    def answer(tokens: Tensor, model: Transformer) -> Tensor:
        p = parts(tokens, model)
        up_to_1 = p.direct + p.order_1
        return losses(tokens, p.direct, up_to_1, up_to_1 + virtual(tokens, model) @ model.W_U)

    return answer


def _pairs(
    tokens: Tensor, model: Transformer, looks: tuple[int, int], writes: tuple[int, int]
) -> Tensor:
    """Virtual heads of which the layers ``looks`` give the patterns and ``writes`` the weights.

    Each in the order in which they act.
    """
    patterns = clean(tokens, model)
    x = model.W_E[tokens]
    first = patterns[looks[0]] @ x @ model.W_V[writes[0]] @ model.W_O[writes[0]]
    both = patterns[looks[1]][:, None] @ first @ model.W_V[writes[1], :, None]
    return (both @ model.W_O[writes[1], :, None]).sum(dim=(0, 1))


def _within_layers_too(tokens: Tensor, model: Transformer) -> Tensor:
    pairs = [(0, 1), (0, 0), (1, 1)]
    return torch.stack([_pairs(tokens, model, p, p) for p in pairs]).sum(dim=0)


def _heads_of_one_number(p: Parts) -> tuple[Tensor, ...]:
    diagonal = torch.stack([p.virtual[h, h] for h in range(len(p.virtual))]).sum(dim=0)
    return p.direct, p.direct + p.order_1, p.direct + p.order_1 + diagonal


def _not_frozen(tokens: Tensor, model: Transformer) -> Tensor:
    p = parts(tokens, model, unfrozen(tokens, model))
    return losses(tokens, p.direct, p.direct + p.order_1, model(tokens))


def _with_patterns(change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Answer:
    def answer(tokens: Tensor, model: Transformer) -> Tensor:
        p = parts(tokens, model, change(*clean(tokens, model)))
        return losses(tokens, p.direct, p.direct + p.order_1, p.full)

    return answer


def _procedure(keep_added: bool = False, on_top: bool = False) -> Answer:
    """The paper's procedure: run three times, each with the head outputs saved in the run before.

    keep_added: saves what went into the stream; on_top: adds the saved outputs to the computed ones
    """

    def answer(tokens: Tensor, model: Transformer) -> Tensor:
        patterns, saved, found = clean(tokens, model), [torch.tensor(0.0)] * 2, []
        for _ in range(3):
            x, outputs = model.W_E[tokens], []
            for layer in (0, 1):
                computed = head_terms(x, model, layer, patterns[layer]).sum(dim=0)
                added = saved[layer] + computed * float(on_top)
                outputs.append(added if keep_added else computed)
                x = x + added
            found.append(mean_loss(x @ model.W_U, tokens))
            saved = outputs
        return torch.stack(found)

    return answer


def _reductions(tokens: Tensor, model: Transformer) -> Tensor:
    found = _right(tokens, model)
    before = torch.cat([found.new_tensor([math.log(model.d_vocab)]), found[:-1]])
    return before - found


def _differences(tokens: Tensor, model: Transformer) -> Tensor:
    found = _right(tokens, model)
    return torch.cat([found[:1], found[:-1] - found[1:]])


def _other_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    def answer(tokens: Tensor, model: Transformer) -> Tensor:
        p = parts(tokens, model)
        by_order = p.direct, p.direct + p.order_1, p.full
        return torch.stack([loss(logits, tokens) for logits in by_order])

    return answer


def _positions_in_the_stream(tokens: Tensor, model: Transformer) -> Tensor:
    x = model.W_E[tokens] + model.W_pos[: len(tokens)]
    first, second = clean(tokens, model)
    early, late = head_terms(x, model, 0, first), head_terms(x, model, 1, second)
    middle = x + early.sum(dim=0) + late.sum(dim=0)
    top = middle + head_terms(early.sum(dim=0), model, 1, second).sum(dim=0)
    return losses(tokens, *(stream @ model.W_U for stream in (x, middle, top)))


_right = _orders(lambda p: (p.direct, p.direct + p.order_1, p.full))


def _by_loops(tokens: Tensor, model: Transformer) -> list[float]:
    patterns, x = clean(tokens, model), model.W_E[tokens]

    def through(layer: int, stream: Tensor) -> Tensor:
        terms = torch.zeros_like(stream)
        for h in range(model.n_heads):
            W_OV = model.W_V[layer, h] @ model.W_O[layer, h]
            terms = terms + patterns[layer][h] @ stream @ W_OV
        return terms

    streams = [x, x + through(0, x) + through(1, x), model.run_with_cache(tokens)[1].stream[-1]]
    return [float(mean_loss(stream @ model.W_U, tokens)) for stream in streams]


def _by_elimination(tokens: Tensor, model: Transformer) -> Tensor:
    """Order ≤ 1 as the full run less what layer 1 makes of layer 0's output."""
    logits, cache = model.run_with_cache(tokens)
    heard = head_terms(cache.head_out[0].sum(dim=0), model, 1, cache.pattern[1]).sum(dim=0)
    return losses(tokens, cache.stream[0] @ model.W_U, logits - heard @ model.W_U, logits)


def _in_numpy(tokens: Tensor, model: Transformer) -> np.ndarray:
    p = parts(tokens, model.to(torch.float64))
    orders = np.stack([p.direct, p.order_1, p.order_2]).cumsum(axis=0)[:, :-1]
    shifted = orders - orders.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(-logs[:, np.arange(len(tokens) - 1), tokens[1:].numpy()].mean(axis=-1))


TERM_IMPORTANCE = Exercise(
    reference=reference.term_importance,
    notebook=NOTEBOOK,
    title="The loss, order by order",
    paper=TERMS,
    points=4,
    minutes=25,
    difficulty=3,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "One clean run gives all the patterns. From then on everything is linear, and you only "
        "decide which terms may be in the sum.",
        "At order 1 both layers read the *embedding*, each with its pattern of the clean run. What "
        "layer 1 makes of layer 0's output goes through two heads, so it is order 2.",
        "Three streams: the embedding; the embedding plus what all heads of both layers make of the "
        "embedding; the whole model's last stream. Unembed each, and take the mean loss of token "
        "i + 1 at position i.",
    ),
    mistakes=(
        Mistake(
            "patterns_not_frozen",
            _not_frozen,
            "Orders 0 and 2 are right and order 1 is not: layer 1 computed its pattern anew, from a "
            "stream without layer 0. Freeze both layers' patterns at the clean run. The highest order "
            "can't show this slip, since there nothing is missing.",
            facts=(60,),
        ),
        Mistake(
            "order_1_reads_layer_0",
            _orders(lambda p: (p.direct, p.full, p.full)),
            "Your order ≤ 1 is already the whole model: layer 1 read a stream that layer 0 had "
            "written to. Such a path runs through two heads.",
            facts=(56,),
        ),
        Mistake(
            "virtual_terms_twice",
            _orders(lambda p: (p.direct, p.full, p.full + p.order_2)),
            "Layer 1 reads layer 0 in your order 1, and then the virtual heads are added again. "
            "Split it either way, but count each path once.",
            facts=(55,),
        ),
        Mistake(
            "direct_path_missing",
            _orders(lambda p: (p.direct, p.order_1, p.order_1 + p.order_2)),
            "The direct path is gone as soon as heads come in. The losses are cumulative: order ≤ 1 "
            "contains order 0.",
            facts=(53,),
        ),
        Mistake(
            "direct_path_twice",
            _orders(lambda p: (p.direct, 2 * p.direct + p.order_1, p.direct + p.full)),
            "The direct path is in your order-1 terms as well, so it counts twice. A head's term is "
            "what the head adds, without the stream that it read.",
            facts=(54,),
        ),
        Mistake(
            "orders_not_cumulative",
            _orders(lambda p: (p.direct, p.order_1, p.order_2)),
            "Each order stands by itself here. Asked for is the loss with all paths *up to* that "
            "order.",
            facts=(53,),
        ),
        Mistake(
            "order_2_without_order_1",
            _orders(lambda p: (p.direct, p.direct + p.order_1, p.direct + p.order_2)),
            "Your last sum holds the direct path and the virtual heads, and the single heads have "
            "dropped out. Order ≤ 2 is everything.",
        ),
        Mistake(
            "orders_off_by_one",
            _orders(lambda p: (torch.zeros_like(p.direct), p.direct, p.direct + p.order_1)),
            "All numbers are there, one place late: your order n is order n − 1. The first loss "
            "belongs to the direct path, the last to the whole model.",
            facts=(61,),
        ),
        Mistake(
            "starts_at_order_1",
            _orders(lambda p: (p.direct + p.order_1, p.full, p.full)),
            "The numbers stand one place early: your list starts with the heads. Order 0 is the "
            "direct path alone.",
            facts=(61,),
        ),
        Mistake(
            "saved_after_replacement",
            _procedure(keep_added=True),
            "Three times the same loss, that of the direct path. If you run the model again and "
            "again: save what the heads *computed*, not the zeros that you put in its place.",
            facts=(62,),
        ),
        Mistake(
            "saved_outputs_on_top",
            _procedure(on_top=True),
            "The saved head outputs go into the stream beside the computed ones, so heads count "
            "twice. The saved output replaces the computed one.",
            facts=(62,),
        ),
        Mistake(
            "nothing_replaced",
            _orders(lambda p: (p.full, p.full, p.full)),
            "All three are the loss of the whole model. With all patterns frozen and nothing else "
            "changed, a run gives the same logits: paths must be left out.",
            facts=(100,),
        ),
        Mistake(
            "reductions_for_losses",
            _reductions,
            "These are the reductions, as in the paper's table. Asked for are the three losses "
            "themselves; the differences come afterwards.",
            facts=(63,),
        ),
        Mistake(
            "differences_for_losses",
            _differences,
            "The first number is a loss, the others are differences. Asked for are three losses.",
            facts=(63,),
        ),
        Mistake(
            "layers_for_orders",
            _orders(lambda p: (p.direct, p.direct + p.heads[0].sum(dim=0), p.full)),
            "Your middle number holds layer 0 only. An order counts the heads on a path, not layers: "
            "a path through one head of *layer 1* is order 1 too.",
        ),
        Mistake(
            "layer_0_left_out",
            _orders(lambda p: (p.direct, p.direct + p.heads[1].sum(dim=0), p.full)),
            "Your middle number lacks the heads of layer 0. They also write to the logits directly, "
            "past layer 1.",
        ),
        Mistake(
            "one_pattern_for_both_layers",
            _with_patterns(lambda first, second: (first, first)),
            "Both layers use layer 0's patterns. Each layer has its own.",
        ),
        Mistake(
            "pattern_transposed",
            _with_patterns(lambda first, second: (first.mT, second.mT)),
            "The patterns are turned over, so sources receive and destinations give. Rows of a "
            "pattern are destinations; it stands on the left of what it mixes.",
            facts=(42,),
        ),
        Mistake(
            "patterns_in_the_wrong_order",
            _with_virtual(lambda t, m: _pairs(t, m, (1, 0), (0, 1))),
            "Orders 0 and 1 are right. In the virtual heads the two patterns are multiplied in the "
            "wrong order: information moves by layer 0 first. Which of them stands next to the "
            "stream?",
            facts=(57,),
        ),
        Mistake(
            "weights_in_the_wrong_order",
            _with_virtual(lambda t, m: _pairs(t, m, (0, 1), (1, 0))),
            "Orders 0 and 1 are right. In the virtual heads the two OV circuits are multiplied in the "
            "paper's order; for row vectors the weights of layer 0 come first.",
            facts=(58,),
        ),
        Mistake(
            "layers_exchanged",
            _with_virtual(lambda t, m: _pairs(t, m, (1, 0), (1, 0))),
            "Orders 0 and 1 are right. In your virtual heads layer 0 reads what layer 1 wrote; there "
            "is no such path.",
            facts=(59,),
        ),
        Mistake(
            "pairs_within_a_layer",
            _with_virtual(_within_layers_too),
            "Orders 0 and 1 are right. Your virtual heads also pair heads of one and the same layer, "
            "which never read each other.",
            facts=(59,),
        ),
        Mistake(
            "only_heads_of_one_number",
            _orders(_heads_of_one_number),
            "Orders 0 and 1 are right. Each head of layer 1 reads *every* head of layer 0, not just "
            "the one of its own number: the pairs are many more than the heads.",
        ),
        Mistake(
            "heads_averaged",
            _orders(
                lambda p: (
                    p.direct,
                    p.direct + p.heads.mean(dim=1).sum(dim=0),
                    p.direct + p.heads.mean(dim=1).sum(dim=0) + p.virtual.mean(dim=(0, 1)),
                )
            ),
            "The heads are averaged. Heads add to the stream, nothing is divided.",
            facts=(41,),
        ),
        Mistake(
            "positions_in_the_stream",
            _positions_in_the_stream,
            "Positions have got into the stream. In these models W_pos is read by queries and keys "
            "only, and the frozen patterns know about it already.",
            facts=(32,),
        ),
        *loss_mistakes(_other_loss),
        Mistake(
            "mean_over_all_positions",
            _other_loss(
                lambda logits, tokens: mean_loss(logits, tokens) * (len(tokens) - 1) / len(tokens)
            ),
            "The sum is divided by the number of tokens. The last position predicts nothing that we "
            "know: how many predictions are there?",
            facts=(12,),
        ),
    ),
    variants=(
        Variant("the_papers_procedure", _procedure(), facts=("E",)),
        Variant("loops_returning_numbers", _by_loops, facts=("E", "N")),
        Variant("full_run_less_what_layer_1_hears", _by_elimination, facts=("E", "T")),
        Variant("numpy", _in_numpy, facts=("N", "D")),
        Variant(
            "tuple_of_numbers",
            lambda tokens, model: tuple(float(loss) for loss in _right(tokens, model)),
            facts=("N",),
        ),
    ),
)
