"""What one virtual head is worth: the loss without it."""

from __future__ import annotations

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
    mean_loss,
    parts,
    questions,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

Answer = Callable[[Tensor, Transformer], Any]
Loss = Callable[[Tensor], Tensor]
Rise = Callable[[Parts, int, int, Loss], Tensor]


def _cases(draw: Draw) -> list[Case]:
    return [Case((tokens, model), label) for tokens, model, label in questions(draw)]


def _table(rise: Rise) -> Answer:
    """rise(parts, head of layer 1, head of layer 0, loss), for all pairs."""

    def answer(tokens: Tensor, model: Transformer) -> Tensor:
        p, heads = parts(tokens, model), range(model.n_heads)

        def loss(logits: Tensor) -> Tensor:
            return mean_loss(logits, tokens)

        return torch.stack(
            [torch.stack([rise(p, late, early, loss) for early in heads]) for late in heads]
        )

    return answer


def _with_loss(change: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    def answer(tokens: Tensor, model: Transformer) -> Any:
        def loss(logits: Tensor) -> Tensor:
            return change(logits, tokens)

        return _table(lambda p, late, early, _: _rise(p, late, early, loss))(tokens, model)

    return answer


def _rise(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    return loss(p.full - p.virtual[late, early]) - loss(p.full)


def _on_the_direct_path(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    return loss(p.direct) - loss(p.direct + p.virtual[late, early])


def _on_order_1(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    up_to_1 = p.direct + p.order_1
    return loss(up_to_1) - loss(up_to_1 + p.virtual[late, early])


def _all_others_removed(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    return loss(p.direct + p.order_1 + p.virtual[late, early]) - loss(p.full)


def _head_of_layer_1_removed(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    return loss(p.full - p.heads[1, late] - p.virtual[late].sum(dim=0)) - loss(p.full)


def _head_of_layer_0_removed(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    return loss(p.full - p.heads[0, early] - p.virtual[:, early].sum(dim=0)) - loss(p.full)


def _single_terms_removed_too(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    gone = p.virtual[late, early] + p.heads[1, late] + p.heads[0, early]
    return loss(p.full - gone) - loss(p.full)


def _mean_in_its_place(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    term = p.virtual[late, early]
    return loss(p.full - term + term.mean(dim=0)) - loss(p.full)


def _removed_for_good(p: Parts, late: int, early: int, loss: Loss) -> Tensor:
    """What a hook does that nobody takes off again: the terms before are still missing."""
    gone = late * p.virtual.shape[1] + early + 1
    return loss(p.full - p.virtual.flatten(0, 1)[:gone].sum(dim=0)) - loss(p.full)


def _with_terms(terms: Callable[[Tensor, Transformer], Tensor]) -> Answer:
    """Other terms (head of layer 1, head of layer 0, pos, d_model) taken away from the right logits."""

    def answer(tokens: Tensor, model: Transformer) -> Tensor:
        virtual, p = terms(tokens, model) @ model.W_U, parts(tokens, model)
        without = [mean_loss(p.full - term, tokens) for term in virtual.flatten(0, 1)]
        return (torch.stack(without) - mean_loss(p.full, tokens)).reshape(virtual.shape[:2])

    return answer


def _patterns_exchanged(tokens: Tensor, model: Transformer) -> Tensor:
    first, second = clean(tokens, model)
    moved = first @ second[:, None] @ model.W_E[tokens]
    return moved @ _ov(model, 0) @ _ov(model, 1)[:, None]


def _weights_exchanged(tokens: Tensor, model: Transformer) -> Tensor:
    first, second = clean(tokens, model)
    moved = second[:, None] @ first @ model.W_E[tokens]
    return moved @ _ov(model, 1)[:, None] @ _ov(model, 0)


def _ov(model: Transformer, layer: int) -> Tensor:
    return model.W_V[layer] @ model.W_O[layer]


def _connection_cut(tokens: Tensor, model: Transformer) -> Tensor:
    """The head of layer 1 stops hearing the head of layer 0 altogether, its pattern included."""
    _, cache = model.run_with_cache(tokens)
    whole = mean_loss(model(tokens), tokens)

    def rise(late: int, early: int) -> Tensor:
        x = cache.stream[1] - cache.head_out[0, early]
        asking = model.qk_input(x)
        scores = asking @ model.W_Q[1, late] @ (asking @ model.W_K[1, late]).mT
        future = torch.ones(scores.shape, dtype=torch.bool).triu(1)
        pattern = (scores / model.d_head**0.5).masked_fill(future, -torch.inf).softmax(dim=-1)
        new = pattern @ x @ model.W_V[1, late] @ model.W_O[1, late]
        stream = cache.stream[2] - cache.head_out[1, late] + new
        return mean_loss(stream @ model.W_U, tokens) - whole

    heads = range(model.n_heads)
    return torch.stack([torch.stack([rise(late, early) for early in heads]) for late in heads])


def _true_logit_lost(logits: Tensor, tokens: Tensor) -> Tensor:
    return -logits[torch.arange(len(tokens) - 1), tokens[1:]].mean()


def _by_cached_outputs(tokens: Tensor, model: Transformer) -> list[list[float]]:
    logits, cache = model.run_with_cache(tokens)
    before = float(mean_loss(logits, tokens))
    table = []
    for A, W_V, W_O in zip(cache.pattern[1], model.W_V[1], model.W_O[1], strict=True):
        terms = [A @ written @ (W_V @ W_O @ model.W_U) for written in cache.head_out[0]]
        table.append([float(mean_loss(logits - term, tokens)) - before for term in terms])
    return table


def _all_at_once(tokens: Tensor, model: Transformer) -> Tensor:
    logits, cache = model.run_with_cache(tokens)
    term = head_terms(cache.head_out[0], model, 1, cache.pattern[1]).transpose(0, 1) @ model.W_U
    logs = torch.cat([(logits - term).flatten(0, 1), logits[None]]).log_softmax(dim=-1)
    wanted = tokens[1:].expand(len(logs), -1)[..., None]
    loss = -logs[:, :-1].gather(-1, wanted).mean(dim=(1, 2))
    return (loss[:-1] - loss[-1]).reshape(model.n_heads, model.n_heads)


VIRTUAL_HEAD_IMPORTANCE = Exercise(
    reference=reference.virtual_head_importance,
    notebook=NOTEBOOK,
    title="What one virtual head is worth",
    paper=TERMS,
    points=3,
    minutes=20,
    difficulty=2,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "A virtual head is one term of the sum. Take it out of the full logits, leave everything else "
        "where it is, and look at the loss.",
        "Its term: head j of layer 0 writes into the stream; head i of layer 1 reads that with its "
        "frozen pattern and writes again; then the unembedding. Row i, column j.",
        "The loss without the term minus the loss of the whole model. You need no second run: "
        "subtract the term from the logits of the clean run.",
    ),
    mistakes=(
        Mistake(
            "heads_in_the_other_order",
            lambda tokens, model: _table(_rise)(tokens, model).T,
            "Rows and columns are exchanged: a row is a head of layer 1, a column a head of layer 0.",
        ),
        Mistake(
            "sign_reversed",
            _table(lambda p, i, j, loss: -_rise(p, i, j, loss)),
            "Right size, wrong sign: a useful virtual head makes the loss *rise* when it is gone.",
            facts=(63,),
        ),
        Mistake(
            "rises_without_sign",
            _table(lambda p, i, j, loss: _rise(p, i, j, loss).abs()),
            "The sign is lost. Some virtual heads do harm on a text; without them the loss falls.",
        ),
        Mistake(
            "losses_for_rises",
            _table(lambda p, i, j, loss: loss(p.full - p.virtual[i, j])),
            "These are losses. How much did each one rise?",
            facts=(63,),
        ),
        Mistake(
            "added_to_the_direct_path",
            _table(_on_the_direct_path),
            "You put the term on top of the direct path. The loss isn't linear: what a term is worth "
            "depends on what else is there. Here it is taken out of the *whole* model.",
            facts=(63,),
        ),
        Mistake(
            "added_to_order_1",
            _table(_on_order_1),
            "You put the term on top of order ≤ 1. Here it is taken out of the whole model, with all "
            "other virtual heads in place.",
            facts=(63,),
        ),
        Mistake(
            "all_others_removed",
            _table(_all_others_removed),
            "All virtual heads but this one are gone. Remove one at a time.",
            facts=(63,),
        ),
        Mistake(
            "term_added_again",
            _table(lambda p, i, j, loss: loss(p.full + p.virtual[i, j]) - loss(p.full)),
            "The term is in the sum twice instead of not at all.",
            facts=(62,),
        ),
        Mistake(
            "whole_head_of_layer_1_removed",
            _table(_head_of_layer_1_removed),
            "All numbers of a row are equal: the whole head of layer 1 is gone. Remove only what it "
            "makes of one head of layer 0.",
        ),
        Mistake(
            "whole_head_of_layer_0_removed",
            _table(_head_of_layer_0_removed),
            "All numbers of a column are equal: the whole head of layer 0 is gone, with what it writes "
            "to the logits itself. Remove only what one head of layer 1 makes of it.",
        ),
        Mistake(
            "single_terms_removed_too",
            _table(_single_terms_removed_too),
            "The two heads' own order-1 terms are gone too. Only the path through both of them goes.",
        ),
        Mistake(
            "connection_cut",
            _connection_cut,
            "The head of layer 1 no longer hears the head of layer 0 at all, so it also looks "
            "elsewhere. Patterns stay frozen; only the value path is removed.",
            facts=(60, 102),
        ),
        Mistake(
            "mean_in_its_place",
            _table(_mean_in_its_place),
            "The term is replaced by its mean over positions. Here it is removed: nothing comes in "
            "its place.",
            facts=(101,),
        ),
        Mistake(
            "removed_for_good",
            _table(_removed_for_good),
            "Only the first number is right: the terms removed before are still missing when the next "
            "one is. Start from the whole model each time.",
            facts=(103,),
        ),
        Mistake(
            "patterns_in_the_wrong_order",
            _with_terms(_patterns_exchanged),
            "In your terms the two patterns are multiplied in the wrong order: information moves by "
            "layer 0 first. Which of them stands next to the stream?",
            facts=(57,),
        ),
        Mistake(
            "weights_in_the_wrong_order",
            _with_terms(_weights_exchanged),
            "In your terms the two OV circuits are multiplied in the paper's order; for row vectors "
            "the weights of layer 0 come first.",
            facts=(58,),
        ),
        Mistake(
            "logits_for_losses",
            _with_loss(_true_logit_lost),
            "This is what the true token's *logit* loses. A loss also looks at what all other tokens "
            "get.",
            facts=(106,),
        ),
        *loss_mistakes(_with_loss),
    ),
    variants=(
        Variant("cached_outputs_and_loops", _by_cached_outputs, facts=("E", "N")),
        Variant("all_terms_at_once", _all_at_once, facts=("E",)),
        Variant(
            "numpy",
            lambda tokens, model: np.array(_by_cached_outputs(tokens, model.to(torch.float64))),
            facts=("N", "D"),
        ),
    ),
)
