"""Find the induction heads of a model: judged on models whose heads were written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import torch
from torch import Tensor

from grader.circuits import induction_heads as reference
from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import (
    anti_induction,
    duplicate_token,
    induction,
    pointer,
    pointer_induction,
    positional,
    previous_token,
)
from grader.circuits.compiled_parts import Copy, Head
from grader.circuits.low_rank import real_over_absolute
from grader.circuits.one_layer import copying_score
from grader.exercises.induction_heads.repeating import NOTEBOOK, PAPER
from grader.judge.comparators import Unordered
from grader.judge.draw import Draw
from grader.judge.spec import Budget, Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

Heads = list[tuple[int, int]]

POOL = 8
"""Compiling a model takes longer than judging it, so a few of each kind are kept and shuffled."""

LOWER = Copy(strength=-8.0)

# Each decoy is like an induction head in one respect at most, at every period from three on: none
# that looks a fixed distance back also copies, since that would meet the stripe of one period.
KINDS: dict[str, list[list[Head]]] = {
    "decoys": [
        [previous_token(), duplicate_token(Copy()), previous_token(Copy())],
        [induction((0, 0)), anti_induction((0, 0)), positional(3, LOWER)],
    ],
    "two": [
        [previous_token(), duplicate_token(Copy())],
        [induction((0, 0)), induction((0, 0), strength=5.0)],
    ],
    "none": [
        [previous_token(), duplicate_token(Copy())],
        [anti_induction((0, 0)), positional(2, LOWER)],
    ],
    "deep": [[duplicate_token(Copy())], [previous_token()], [induction((1, 0))]],
    "pointing": [[pointer()], [pointer_induction((0, 0))]],
}


@lru_cache(maxsize=POOL * len(KINDS))
def _compiled(kind: str, number: int) -> Transformer:
    d_vocab, n_ctx = (11 + number % 3, 20 + 2 * (number % 4))
    return compile_model(
        KINDS[kind], d_vocab=d_vocab, n_ctx=n_ctx, seed=number, pos_in_stream=kind == "pointing"
    ).model


def _shuffled(model: Transformer, draw: Draw) -> Transformer:
    """The heads of each layer in a random order: the same model, other addresses."""
    orders = torch.stack(
        [torch.randperm(model.n_heads, generator=draw.generator) for _ in range(model.n_layers)]
    )
    layers = torch.arange(model.n_layers)[:, None]
    return model.with_weights(
        **{name: getattr(model, name)[layers, orders] for name in ("W_Q", "W_K", "W_V", "W_O")}
    )


def _cases(draw: Draw) -> Iterator[Case]:
    def case(kind: str, label: str) -> Case:
        return Case((_shuffled(_compiled(kind, draw.integer(0, POOL - 1)), draw),), label)

    yield case("decoys", "among heads that resemble induction heads in one respect")
    yield case("two", "in a model with two of them")
    yield case("none", "in a model without any")
    yield case("deep", "in a model of three layers with one head each")
    (model,) = case("pointing", "").args
    yield Case((model.to(torch.float64),), "where positions are in the stream, in float64")


# --- detectors, right and wrong ------------------------------------------------------------------


def _patterns(model: Transformer) -> tuple[Tensor, int]:
    """(layer, head, dst, src) on one text of two periods, and the period."""
    period = min(model.d_vocab, model.n_ctx // 2)
    tokens = reference.repeated_tokens(model.d_vocab, period, 2, 5)
    return model.run_with_cache(tokens)[1].pattern, period


def _matching(model: Transformer) -> Tensor:
    pattern, period = _patterns(model)
    matching: Tensor = reference.prefix_matching_score(pattern, period)
    return matching


def _stripe(where: Callable[[Tensor, int], Tensor]) -> Callable[[Transformer], Tensor]:
    def scores(model: Transformer) -> Tensor:
        pattern, period = _patterns(model)
        position = torch.arange(pattern.shape[-1])
        back = position[:, None] - position
        looked = (back > 0) & where(back, period)
        return (pattern * looked)[..., period:, :].sum(dim=-1).mean(dim=-1)

    return scores


def _copying(model: Transformer) -> Tensor:
    score: Tensor = copying_score(model.W_E, model.W_V, model.W_O, model.W_U)
    return score


def _copying_in_stream(model: Transformer) -> Tensor:
    return real_over_absolute(torch.linalg.eigvals(model.W_V @ model.W_O))


def _addresses(found: Tensor) -> Heads:
    return [(layer, head) for layer, head in found.nonzero().tolist()]


def _both(
    look: Callable[[Transformer], Tensor] = _matching,
    copy: Callable[[Transformer], Tensor] = _copying,
) -> Callable[[Transformer], Heads]:
    return lambda model: _addresses((look(model) >= 0.5) & (copy(model) >= 0.5))


_right = _both()


def _best_only(model: Transformer) -> Heads:
    product = _matching(model) * _copying(model)
    return [divmod(int(product.argmax()), model.n_heads)]


def _by_loop(model: Transformer) -> list[list[int]]:
    """Head by head, by effect in place of eigenvalues, several copies; lists for pairs."""
    period = 5
    tokens = reference.repeated_tokens(model.d_vocab, period, model.n_ctx // period, 9)
    _, cache = model.run_with_cache(tokens)
    found = []
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            pattern = cache.pattern[layer, head]
            effect = reference.copying_effect(
                pattern, cache.stream[layer], model.W_V[layer, head], model.W_O[layer, head],
                model.W_U, tokens,
            )  # fmt: skip
            if reference.prefix_matching_score(pattern, period) > 0.6 and effect > 0.6:
                found.append([layer, head])
    return found


FIND_INDUCTION_HEADS = Exercise(
    reference=reference.find_induction_heads,
    notebook=NOTEBOOK,
    title="Find the induction heads",
    paper=PAPER,
    points=4,
    minutes=25,
    difficulty=3,
    cases=_cases,
    compare=Unordered(),
    hints=(
        "An induction head does two things: it looks at what came after an earlier copy, and it "
        "raises what it finds. Measure both for every head and ask for both.",
        "For the first, run the model on random tokens that repeat and score every pattern with your "
        "`prefix_matching_score`. For the second, `copying_score` of notebook 03 reads the weights "
        "and your `copying_effect` reads a run; either will do.",
        "Take sizes from the model: the period may not exceed d_vocab, nor the text n_ctx. Heads here "
        "score above 0.7 and 0.5 if they are of the kind; the others fail at least one of the two "
        "clearly. Several texts, or several periods, make the measure steadier.",
    ),
    mistakes=(
        Mistake(
            "prefix_matching_alone",
            lambda model: _addresses(_matching(model) >= 0.5),
            "Some of these heads look where induction heads look and *lower* what they find. Looking "
            "right is half of the definition: an induction head also copies.",
            facts=(98,),
        ),
        Mistake(
            "copying_alone",
            lambda model: _addresses(_copying(model) >= 0.5),
            "All heads that copy were found. Copying says what a head does with what it sees; does it "
            "also look at what came after an earlier copy?",
            facts=(98,),
        ),
        Mistake(
            "duplicate_token_heads",
            _both(look=_stripe(lambda back, p: back % p == 0)),
            "These heads look at the earlier copy *itself*: duplicate-token heads. An induction head "
            "looks one further, at what came next.",
            facts=(89, 99),
        ),
        Mistake(
            "previous_token_heads",
            lambda model: _addresses(_patterns(model)[0].diagonal(-1, -2, -1).mean(dim=-1) >= 0.5),
            "These are previous-token heads. An induction head reads what such a head wrote, and is "
            "another head.",
        ),
        Mistake(
            "anti_copying_heads",
            lambda model: _addresses((_matching(model) >= 0.5) & (_copying(model) <= -0.5)),
            "These heads look at the right place and lower what they find. Check the sign of the "
            "copying score.",
            facts=(98, 72),
        ),
        Mistake(
            "one_before_the_copy",
            _both(look=_stripe(lambda back, p: (back % p == 1) & (back > p))),
            "Nothing was found in models that hold induction heads. Is the stripe one position off? A "
            "period of P puts the wanted source P − 1 back, not P + 1.",
            facts=(90,),
            same_as=("eigenvalues_in_the_stream",),
        ),
        Mistake(
            "eigenvalues_in_the_stream",
            _both(copy=_copying_in_stream),
            "Nothing was found in models that hold induction heads. Is copying measured by W_V W_O "
            "alone? A head may read a token in one set of directions and write it in another: the "
            "embedding and the unembedding belong around it.",
            facts=(75,),
            same_as=("one_before_the_copy",),
        ),
        Mistake(
            "head_before_layer",
            lambda model: [(head, layer) for layer, head in _right(model)],
            "The pairs are turned round: (layer, head), in this order.",
        ),
        Mistake(
            "numbered_through",
            lambda model: [layer * model.n_heads + head for layer, head in _right(model)],
            "The heads are numbered through the whole model. Pairs (layer, head) were asked for.",
        ),
        Mistake(
            "layer_1_only",
            lambda model: [(layer, head) for layer, head in _right(model) if layer == 1],
            "Only layer 1 was searched. A model may have more layers, with induction heads in any of "
            "them but the first.",
            facts=(119,),
        ),
        Mistake(
            "best_one_only",
            _best_only,
            "Exactly one head came back each time. A model can have several, or none at all.",
        ),
    ),
    variants=(
        Variant("one_text_and_a_threshold", _right, facts=("Z",)),
        Variant("head_by_head_by_effect", _by_loop, facts=("E", "P", "Z")),
        Variant("set", lambda model: set(_right(model)), facts=("P",)),
        Variant("other_order", lambda model: _right(model)[::-1], facts=("P",)),
    ),
    budget=Budget(wall=30.0, cpu=30.0),
)
