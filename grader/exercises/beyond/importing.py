"""A model from another library: judged by its logits, and by what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.circuits import beyond as reference
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.reading import read_like, read_model
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

NOTEBOOK = "07-beyond"
State = dict[str, Any]
Weights = dict[str, Any]
_PER_LAYER = ("W_Q", "W_K", "W_V", "W_O")


def _state(model: Transformer) -> State:
    """As TransformerLens writes one; in alphabetical order, so block 10 stands before block 2."""
    zeros = torch.zeros(model.n_heads, model.d_head, dtype=model.W_E.dtype)
    state: State = {
        "embed.W_E": model.W_E, "pos_embed.W_pos": model.W_pos, "unembed.W_U": model.W_U,
        "unembed.b_U": torch.zeros(model.d_vocab, dtype=model.W_E.dtype),
    }  # fmt: skip
    for n in range(model.n_layers):
        block = f"blocks.{n}.attn."
        state |= {block + name: getattr(model, name)[n] for name in _PER_LAYER}
        state |= {block + name: zeros.clone() for name in ("b_Q", "b_K", "b_V")}
        state[block + "b_O"] = torch.zeros(model.d_model, dtype=model.W_E.dtype)
        state[block + "mask"] = torch.ones(model.n_ctx, model.n_ctx, dtype=torch.bool).tril()
        state[block + "IGNORE"] = torch.tensor(-torch.inf)
    return dict(sorted(state.items()))


def _cases(draw: Draw) -> list[Case]:
    def case(by: Draw, label: str, **sizes: int) -> Case:
        model = by.model(**sizes)
        tokens = by.tokens(3, model.n_ctx, d_vocab=model.d_vocab)
        return Case((_state(model),), label, context={"tokens": tokens})

    def biased(name: str) -> Case:
        state = _state(draw.model(n_layers=2, n_heads=2))
        state[name] = draw.normal(*state[name].shape)
        return Case((state,), f"with a bias in {name} that is not zero", raises=ValueError)

    n = draw.integer(4, 6)
    equal = dict.fromkeys(("n_heads", "d_model", "d_head", "d_vocab"), n)
    many = {"n_heads": 2, "d_model": 4, "d_head": 3, "d_vocab": 5, "n_ctx": 6}
    double = Draw(draw.seed, torch.float64)
    return [
        case(draw, "", n_layers=2, n_heads=3),
        case(draw, "with twelve layers", n_layers=12, **many),
        case(draw, "where most sizes are equal", n_layers=2, **equal),
        case(double, "with one layer and one head, in float64", n_layers=1, n_heads=1),
        biased(draw.choice(["blocks.1.attn.b_Q", "blocks.0.attn.b_K", "blocks.1.attn.b_V"])),
        biased(draw.choice(["blocks.1.attn.b_O", "unembed.b_U"])),
    ]


class SameLogits(Comparator):
    """A model, or its weights in a dict, that gives the same logits on tokens drawn for the case."""

    def read(self, raw: Any, expected: Any, case: Case) -> Any:
        return read_like(raw, read_model(expected))

    def grade(self, value: Any, expected: Any, atol: float, case: Case) -> tuple[float, ...]:
        return (float(self.same(value, read_model(expected), atol, case)),)

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        mine, theirs = _logits(value, case), _logits(other, case)
        if mine is None or theirs is None:
            return mine is theirs
        slack = 1e-4 * float(theirs.abs().max())
        return super().same(mine, theirs, slack, case)


def _logits(model: Transformer, case: Case) -> Tensor | None:
    """None where the model can't read the tokens: too few rows in W_E or in W_pos."""
    try:
        return model(case.context["tokens"])
    except (ValueError, RuntimeError):
        return None


def _layers(state: State) -> list[int]:
    return sorted({int(m[1]) for key in state if (m := re.match(r"blocks\.(\d+)\.", key))})


def _refuse(state: State, biases: str = "QKVOU") -> None:
    for key, value in state.items():
        if re.search(rf"\.b_[{biases}]$", key) and bool((value != 0).any()):
            raise ValueError(f"{key} is not zero.")


def _weights(state: State, order: Sequence[Any]) -> Weights:
    outside = {"W_E": "embed.W_E", "W_U": "unembed.W_U", "W_pos": "pos_embed.W_pos"}
    stacked = {
        name: torch.stack([state[f"blocks.{n}.attn.{name}"] for n in order]) for name in _PER_LAYER
    }
    return {name: state[key] for name, key in outside.items()} | stacked


def _as_it_is(weights: Weights) -> Weights:
    return weights


def _answer(
    change: Callable[[Weights], Weights] = _as_it_is,
    order: Callable[[list[int]], Sequence[Any]] = list,
    biases: str = "QKVOU",
) -> Callable[[State], Transformer]:
    """Read with one thing changed: the weights, the order of the blocks, which biases are refused."""

    def answer(state: State) -> Transformer:
        if biases:
            _refuse(state, biases)
        return Transformer.from_weights(change(_weights(state, order(_layers(state)))))

    return answer


def _another_error(state: State) -> Transformer:
    try:
        return _answer()(state)
    except ValueError as error:
        raise AssertionError(str(error)) from None


def _every_bias_refused(state: State) -> Transformer:
    if any(re.search(r"\.b_\w$", key) for key in state):
        raise ValueError("These models have no biases.")
    return _answer()(state)


def _as_a_dict(state: State) -> Weights:
    _refuse(state)
    return _weights(state, _layers(state))


FROM_TRANSFORMER_LENS = Exercise(
    reference=reference.from_transformer_lens,
    notebook=NOTEBOOK,
    title="Bring in somebody else's model",
    paper="Transformer Overview",
    points=3,
    minutes=20,
    difficulty=2,
    cases=_cases,
    compare=SameLogits(),
    hints=(
        "The matrices are the same, with the same axes; only their names differ, and each block has "
        "its own. Collect them into the seven weights.",
        "Read the number of a block as a number: as text, '10' stands before '2'. Then stack the "
        "blocks' matrices along a new first axis.",
        "Skip `mask` and `IGNORE`. Look at every key that ends in b_Q, b_K, b_V, b_O or b_U: all zero "
        "is fine, anything else is an error that says which key it was.",
    ),
    mistakes=(
        Mistake(
            "layers_sorted_as_text",
            _answer(order=lambda layers: sorted(map(str, layers))),
            "Right for fewer than ten layers. With more, the blocks come in the order of their names "
            "as text, and block 10 stands before block 2.",
            facts=(119,),
        ),
        Mistake(
            "biases_ignored",
            _answer(biases=""),
            "A bias that is not zero was dropped in silence, and the logits would be others. Refuse "
            "such a model with a ValueError.",
            facts=(45,),
        ),
        Mistake(
            "another_error",
            _another_error,
            "A bias is refused, but by another kind of error. A ValueError was asked for.",
        ),
        Mistake(
            "attention_biases_only",
            _answer(biases="QKV"),
            "A bias of the outputs (b_O) or of the unembedding (b_U) passes unseen.",
            facts=(44,),
        ),
        Mistake(
            "output_biases_only",
            _answer(biases="OU"),
            "A bias of queries, keys or values passes unseen.",
            facts=(45,),
        ),
        Mistake(
            "zero_biases_refused",
            _every_bias_refused,
            "Every model is refused. TransformerLens always stores biases; those that are zero do no "
            "harm.",
        ),
        Mistake(
            "queries_and_keys_exchanged",
            _answer(lambda w: {**w, "W_Q": w["W_K"], "W_K": w["W_Q"]}),
            "Queries and keys have changed places.",
            facts=(16,),
        ),
        Mistake(
            "unembedding_from_the_embedding",
            _answer(lambda w: {**w, "W_U": w["W_E"].T}),
            "The unembedding is the embedding turned over. They are two matrices, each with its key.",
            facts=(4,),
        ),
        Mistake(
            "positions_in_the_stream",
            _answer(lambda w: {**w, "pos_in_stream": True}),
            "Positions go into the stream. These models add them to what queries and keys read, and "
            "to nothing else.",
            facts=(32,),
        ),
        Mistake(
            "positions_left_out",
            _answer(lambda w: {**w, "W_pos": torch.zeros_like(w["W_pos"])}),
            "The positions are zero. Queries and keys read `pos_embed.W_pos` as well.",
            facts=(33,),
        ),
        Mistake(
            "first_block_only",
            _answer(order=lambda layers: layers[:1]),
            "Only block 0 was read.",
            facts=(119,),
        ),
        Mistake(
            "two_blocks_built_in",
            _answer(order=lambda layers: [0, 1]),
            "Exactly two blocks are read, whatever there is. Take their number from the keys.",
            facts=(119,),
        ),
        Mistake(
            "blocks_reversed",
            _answer(order=lambda layers: layers[::-1]),
            "The blocks come in reversed order. Block 0 acts first.",
        ),
    ),
    variants=(
        Variant("a_model", _answer(), facts=("E",)),
        Variant("a_dict", _as_a_dict, facts=("E",)),
        Variant(
            "another_basis_inside_the_heads",
            _answer(lambda w: {**w, "W_V": 2 * w["W_V"], "W_O": w["W_O"] / 2}),
            facts=("R",),
        ),
    ),
)
