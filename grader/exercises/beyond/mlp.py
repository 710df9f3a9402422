"""The path expansion up to an MLP's activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import beyond as reference
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

NOTEBOOK = "07-beyond"


def _cases(draw: Draw) -> list[Case]:
    def case(by: Draw, pos: int, d_mlp: int, label: str, **sizes: int) -> Case:
        model = by.model(n_layers=1, **sizes)
        model = model.with_weights(W_Q=2 * model.W_Q)
        tokens = by.tokens(pos, d_vocab=model.d_vocab)
        return Case((tokens, model, by.normal(model.d_model, d_mlp)), label)

    a, b, d_model, d_head, d_vocab, d_mlp = draw.sizes(6, 4, 11)
    pos, n_ctx = sorted((a, b))
    sizes = {"d_model": d_model, "d_head": d_head, "d_vocab": d_vocab, "n_ctx": n_ctx}
    n = draw.integer(3, 5)
    equal = dict.fromkeys(("n_heads", "d_model", "d_head", "d_vocab", "n_ctx"), n)
    double = Draw(draw.seed, torch.float64)
    return [
        case(draw, pos, d_mlp, "", n_heads=3, **sizes),
        case(draw, n, n, "where all sizes are equal", **equal),
        case(double, pos, d_mlp, "with a single head, in float64", n_heads=1, **sizes),
        case(draw, 1, d_mlp, "with a single token", n_heads=2, **sizes),
    ]


Answer = Callable[[Tensor, Transformer, Tensor], Any]


def _terms(tokens: Tensor, model: Transformer, pattern: Tensor | None = None) -> Tensor:
    """The embedding, then what each head adds: (1 + head, pos, d_model)."""
    _, cache = model.run_with_cache(tokens)
    x, looks = cache.stream[0], cache.pattern[0] if pattern is None else pattern
    return torch.cat([x[None], looks @ x @ model.W_V[0] @ model.W_O[0]])


def _read(change: Callable[[Tensor], Tensor]) -> Answer:
    return lambda tokens, model, W_in: change(_terms(tokens, model)) @ W_in


def _after(activation: Callable[[Tensor], Tensor]) -> Answer:
    return lambda tokens, model, W_in: activation(_terms(tokens, model) @ W_in)


def _right(tokens: Tensor, model: Transformer, W_in: Tensor) -> Tensor:
    return _terms(tokens, model) @ W_in


def _heads_read_what_heads_before_wrote(tokens: Tensor, model: Transformer, W_in: Tensor) -> Tensor:
    pattern = model.run_with_cache(tokens)[1].pattern[0]
    x, terms = model.W_E[tokens], [model.W_E[tokens]]
    for h in range(model.n_heads):
        terms.append(pattern[h] @ x @ model.W_V[0, h] @ model.W_O[0, h])
        x = x + terms[-1]
    return torch.stack(terms) @ W_in


def _with_positions(tokens: Tensor, model: Transformer, W_in: Tensor) -> Tensor:
    terms = _terms(tokens, model)
    return torch.cat([terms[:1] + model.W_pos[: len(tokens)], terms[1:]]) @ W_in


def _values_with_positions(tokens: Tensor, model: Transformer, W_in: Tensor) -> Tensor:
    pattern = model.run_with_cache(tokens)[1].pattern[0]
    x = model.W_E[tokens] + model.W_pos[: len(tokens)]
    heads = pattern @ x @ model.W_V[0] @ model.W_O[0]
    return torch.cat([model.W_E[tokens][None], heads]) @ W_in


def _transposed(tokens: Tensor, model: Transformer, W_in: Tensor) -> Tensor:
    pattern = model.run_with_cache(tokens)[1].pattern[0]
    return _terms(tokens, model, pattern.mT) @ W_in


def _in_numpy(tokens: Tensor, model: Transformer, W_in: Tensor) -> np.ndarray:
    pattern = model.run_with_cache(tokens)[1].pattern[0].numpy()
    x, reads = model.W_E[tokens].numpy(), W_in.numpy()
    heads = [
        A @ x @ (V @ W_O @ reads)
        for A, V, W_O in zip(pattern, model.W_V[0].numpy(), model.W_O[0].numpy(), strict=True)
    ]
    return np.stack([x @ reads, *heads])


MLP_PATH_EXPANSION = Exercise(
    reference=reference.mlp_path_expansion,
    notebook=NOTEBOOK,
    title="An MLP's inputs, path by path",
    paper="Additional Intuition and Observations",
    points=2,
    minutes=12,
    difficulty=2,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "Before its activation, an MLP reads the stream by one matrix. The stream is a sum: so what "
        "it reads is one too.",
        "After one layer of attention the stream is the embedding plus one term a head. Unembedding "
        "plays no part here: W_in stands where W_U stood.",
        "Put the embedding and the outputs of all heads into one array with a new first axis, then "
        "multiply it by W_in. The cache of a run holds both.",
    ),
    mistakes=(
        Mistake(
            "direct_path_missing",
            _read(lambda terms: terms[1:]),
            "There is one term for each head, and the direct path is missing: the MLP reads the "
            "embedding as well.",
            facts=(53,),
        ),
        Mistake(
            "direct_path_last",
            _read(lambda terms: terms.roll(-1, dims=0)),
            "The direct path stands at the end. It comes first, then the heads in order.",
        ),
        Mistake(
            "direct_path_in_every_term",
            _read(lambda terms: torch.cat([terms[:1], terms[1:] + terms[:1]])),
            "The embedding is in every head's term. A head's term is only what the head adds.",
            facts=(43, 54),
        ),
        Mistake(
            "terms_accumulated",
            _read(lambda terms: terms.cumsum(dim=0)),
            "Each term also holds those before it. The paths are wanted one by one.",
            facts=(54,),
        ),
        Mistake(
            "summed_up",
            _read(lambda terms: terms.sum(dim=0)),
            "This is what the MLP reads in total. Keep the paths apart, with a new first axis.",
        ),
        Mistake(
            "activated",
            _after(torch.relu),
            "An activation has been applied to each path. It acts on the sum only; after it there are "
            "no paths.",
        ),
        Mistake(
            "activated_by_gelu",
            _after(torch.nn.functional.gelu),
            "A GELU has been applied to each path. It acts on the sum only; after it there are no "
            "paths.",
        ),
        Mistake(
            "unembedded",
            lambda tokens, model, W_in: _terms(tokens, model) @ model.W_U,
            "These are logits by path. Here it is the MLP that reads, by W_in.",
        ),
        Mistake(
            "heads_read_each_other",
            _heads_read_what_heads_before_wrote,
            "Each head reads what the heads before it in the same layer wrote. Heads of one layer work "
            "side by side.",
            facts=(59,),
        ),
        Mistake(
            "heads_averaged",
            _read(lambda terms: torch.cat([terms[:1], terms[1:] / (len(terms) - 1)])),
            "The heads' terms are divided by their number. Heads add.",
            facts=(41,),
        ),
        Mistake(
            "positions_in_the_direct_path",
            _with_positions,
            "Positions have got into the direct path. In these models only queries and keys read W_pos.",
            facts=(32,),
        ),
        Mistake(
            "positions_in_the_values",
            _values_with_positions,
            "Positions have got into the heads' values. In these models only queries and keys read "
            "W_pos.",
            facts=(32,),
        ),
        Mistake(
            "pattern_transposed",
            _transposed,
            "The pattern is turned over, so sources receive and destinations give.",
            facts=(42,),
        ),
    ),
    variants=(
        Variant(
            "cached_outputs",
            lambda tokens, model, W_in: [
                part @ W_in
                for cache in [model.run_with_cache(tokens)[1]]
                for part in (cache.stream[0], *cache.head_out[0])
            ],
            facts=("E",),
        ),
        Variant("numpy", _in_numpy, facts=("N",)),
        Variant(
            "folded_weights",
            lambda tokens, model, W_in: torch.cat(
                [
                    (model.W_E @ W_in)[tokens][None],
                    torch.einsum(
                        "hij,jd,hde,hef,fm->him",
                        model.run_with_cache(tokens)[1].pattern[0],
                        model.W_E[tokens],
                        model.W_V[0],
                        model.W_O[0],
                        W_in,
                    ),
                ]
            ),
            facts=("E",),
        ),
    ),
)
