"""What every function of notebooks 00 to 04 promises, whatever it computes.

Its name and arguments are those of the plan; it keeps the dtype, leaves its arguments and the global
generators alone, reads numpy arrays as well as tensors, and names an argument that cannot be.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from reference_cases import Draw
from torch import Tensor

from grader.circuits import (
    attention_heads,
    composition,
    one_layer,
    residual_stream,
    zero_layer,
)
from grader.transformer import Transformer

PLAN = {
    residual_stream: {
        "residual_stream": "embedding, layer_outputs",
        "component_logits": "components, W_U",
        "virtual_weights": "W_out, W_in",
        "rotate_residual_stream": "model, R",
        "read_write_overlap": "W_out, W_in",
    },
    zero_layer: {
        "bigram_counts": "tokens, d_vocab",
        "bigram_log_probs": "counts, smoothing",
        "zero_layer_logits": "tokens, W_E, W_U",
        "bigram_table": "W_E, W_U",
        "next_token_loss": "logits, tokens",
        "bigram_entropy": "counts",
        "train_zero_layer": "tokens, d_vocab, d_model, seed",
        "svd_bigram_table": "log_probs, d_model",
    },
    attention_heads: {
        "attention_scores": "x_dst, x_src, W_Q, W_K",
        "causal_pattern": "scores",
        "head_output": "x, pattern, W_V, W_O",
        "attention_layer": "x, W_Q, W_K, W_V, W_O",
        "concat_equals_sum": "z, W_O",
        "qk_circuit": "W_Q, W_K",
        "ov_circuit": "W_V, W_O",
        "tensor_product": "pattern, W_OV",
        "mixed_product": "A1, W1, A2, W2",
        "change_of_basis": "W_Q, W_K, W_V, W_O, R, S",
    },
    one_layer: {
        "frozen_logits": "tokens, model, pattern",
        "one_layer_paths": "tokens, model",
        "full_qk_circuit": "W_E, W_Q, W_K",
        "full_ov_circuit": "W_E, W_V, W_O, W_U",
        "top_skip_trigrams": "full_qk, full_ov, destination, n_sources, n_outputs",
        "skip_trigram_effect": "full_qk, full_ov, source, destinations, outputs, d_head",
        "bug_partners": "pairs",
        "positional_pattern": "W_pos, W_Q, W_K",
        "low_rank_eigenvalues": "A, B",
        "factored_svd": "A, B",
        "eigenvalue_trap": "n",
        "copying_score": "W_E, W_V, W_O, W_U",
        "copying_rank": "W_E, W_V, W_O, W_U",
        "used_skip_trigrams": "tokens, pattern, full_ov, k",
        "source_interaction": "tokens, model, dst, a, b",
    },
    composition: {
        "q_composition": "W_OV_1, W_QK_2",
        "k_composition": "W_OV_1, W_QK_2",
        "v_composition": "W_OV_1, W_OV_2",
        "low_rank_frobenius": "A, B",
        "random_composition": "d_model, d_head, samples, seed",
        "composition_table": "model",
        "knock_out_composition": "tokens, model, kind",
        "virtual_head": "pattern_1, W_OV_1, pattern_2, W_OV_2",
        "count_paths": "n_layers, n_heads",
        "two_layer_paths": "tokens, model",
        "attention_score_paths": "tokens, model, head",
    },
}
NAMES = [(module, name) for module, functions in PLAN.items() for name in functions]
# These take no arrays, or arrays of integers only, and give what such a function gives.
WITHOUT_FLOATS = {
    "bigram_counts", "bug_partners", "eigenvalue_trap", "count_paths", "random_composition",
    "train_zero_layer",
}  # fmt: skip
SIZES = {
    "d_vocab": 11, "d_model": 8, "d_head": 3, "head": 2, "layer": 3, "pos": 5, "n_ctx": 7,
}  # fmt: skip


def arguments(name: str, dtype: torch.dtype) -> list[Any]:
    """One good call of a function, the same numbers in either dtype, every axis of another size."""
    draw = Draw(21)
    V, d, e, h, layer, p = (
        SIZES[a] for a in ("d_vocab", "d_model", "d_head", "head", "layer", "pos")
    )

    def n(*shape: int) -> Tensor:
        return draw.normal(*shape).to(dtype)

    models = [
        Transformer.random(
            n_layers=k, n_heads=h, d_model=d, d_head=e, d_vocab=V, n_ctx=SIZES["n_ctx"],
            generator=draw.generator, dtype=dtype,
        )
        for k in (1, 2)
    ]  # fmt: skip
    one, two = models
    tokens, pattern = draw.integers(V, p), draw.pattern(h, p, p).to(dtype)
    head = {"W_E": n(V, d), "W_Q": n(d, e), "W_K": n(d, e), "W_V": n(d, e), "W_O": n(e, d)}
    W_U, square, table = n(d, V), n(d, d), n(V, V)
    stack = [n(h, d, e), n(h, d, e), n(h, d, e), n(h, e, d)]
    R = residual_stream.random_rotation(d, draw.generator, dtype)
    basis = attention_heads.random_basis(e, draw.generator, dtype)
    calls: dict[str, list[Any]] = {
        "residual_stream": [n(p, d), n(layer, p, d)],
        "component_logits": [n(layer, p, d), W_U],
        "virtual_weights": [n(e, d), W_U],
        "rotate_residual_stream": [two, R],
        "read_write_overlap": [n(e, d), n(d, 4)],
        "bigram_counts": [tokens, V],
        "bigram_log_probs": [n(V, V).abs(), 0.5],
        "zero_layer_logits": [tokens, head["W_E"], W_U],
        "bigram_table": [head["W_E"], W_U],
        "next_token_loss": [n(p, V), tokens],
        "bigram_entropy": [n(V, V).abs()],
        "train_zero_layer": [tokens, V, 2, 0],
        "svd_bigram_table": [table, 3],
        "attention_scores": [n(4, d), n(p, d), head["W_Q"], head["W_K"]],
        "causal_pattern": [n(h, p, p)],
        "head_output": [n(p, d), pattern[0], head["W_V"], head["W_O"]],
        "attention_layer": [n(p, d), *stack],
        "concat_equals_sum": [n(h, p, e), stack[3]],
        "qk_circuit": [head["W_Q"], head["W_K"]],
        "ov_circuit": [head["W_V"], head["W_O"]],
        "tensor_product": [pattern[0], square],
        "mixed_product": [pattern[0], square, pattern[1], n(d, d)],
        "change_of_basis": [*(head[k] for k in ("W_Q", "W_K", "W_V", "W_O")), basis, basis.mT],
        "frozen_logits": [tokens, one, pattern],
        "one_layer_paths": [tokens, one],
        "full_qk_circuit": [head["W_E"], head["W_Q"], head["W_K"]],
        "full_ov_circuit": [head["W_E"], head["W_V"], head["W_O"], W_U],
        "top_skip_trigrams": [table, n(V, V), 4, 3, 2],
        "skip_trigram_effect": [table, n(V, V), 4, [1, 2], [3, 5, 7], e],
        "bug_partners": [[(1, 2), (3, 4)]],
        "positional_pattern": [n(SIZES["n_ctx"], d), head["W_Q"], head["W_K"]],
        "low_rank_eigenvalues": [n(p, 2), n(2, p)],
        "factored_svd": [n(p, 2), n(2, 4)],
        "eigenvalue_trap": [3],
        "copying_score": [head["W_E"], head["W_V"], head["W_O"], W_U],
        "copying_rank": [head["W_E"], head["W_V"], head["W_O"], W_U],
        "used_skip_trigrams": [tokens, pattern[0], table, 4],
        "source_interaction": [tokens, one, 4, 1, 2],
        "q_composition": [square, n(d, d)],
        "k_composition": [square, n(d, d)],
        "v_composition": [square, n(d, d)],
        "low_rank_frobenius": [n(p, 2), n(2, 4)],
        "random_composition": [d, e, 200, 0],
        "composition_table": [two],
        "knock_out_composition": [tokens, two, "Q"],
        "virtual_head": [pattern[0], square, pattern[1], n(d, d)],
        "count_paths": [2, 3],
        "two_layer_paths": [tokens, two],
        "attention_score_paths": [tokens, two, 1],
    }
    return calls[name]


def called(module: Any, name: str, given: list[Any]) -> Any:
    """The function's result; training is cut short, since nothing here depends on its length."""
    quick = {"steps": 5} if name == "train_zero_layer" else {}
    return getattr(module, name)(*given, **quick)


def tensors(value: Any) -> list[Tensor]:
    """All tensors in a result or an argument, weights of models included."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Transformer):
        return value.parameters()
    if isinstance(value, list | tuple):
        return [t for item in value for t in tensors(item)]
    return []


every = pytest.mark.parametrize(("module", "name"), NAMES, ids=[name for _, name in NAMES])


@every
def test_names_and_arguments_are_those_of_the_plan(module: Any, name: str) -> None:
    function = getattr(module, name)
    positional = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind is not p.KEYWORD_ONLY
    ]
    assert ", ".join(positional) == PLAN[module][name]
    assert inspect.getdoc(function)


@every
def test_the_precision_that_comes_is_the_precision_that_leaves(module: Any, name: str) -> None:
    found = {
        dtype: tensors(called(module, name, arguments(name, dtype)))
        for dtype in (torch.float32, torch.float64)
    }
    if name in WITHOUT_FLOATS or name in ("top_skip_trigrams", "used_skip_trigrams"):
        return
    assert found[torch.float32]
    for single, double in zip(found[torch.float32], found[torch.float64], strict=True):
        assert (single.dtype, double.dtype) in (
            (torch.float32, torch.float64),
            (torch.complex64, torch.complex128),
        )
        if not single.dtype.is_complex and name != "factored_svd":  # free signs, free order
            torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@every
def test_arguments_and_generators_stay_as_they_were(module: Any, name: str) -> None:
    given = arguments(name, torch.float32)
    before = [t.clone() for t in tensors(given)]
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    result = tensors(called(module, name, given))
    for value, kept in zip(tensors(given), before, strict=True):
        assert torch.equal(value, kept)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.random.get_state()[1].tolist() == numpy_state
    again = tensors(called(module, name, given))
    assert all(torch.equal(a, b) for a, b in zip(result, again, strict=True))


@every
def test_numpy_arrays_are_read_like_tensors(module: Any, name: str) -> None:
    given = arguments(name, torch.float64)
    arrays = [a.numpy() if isinstance(a, Tensor) else a for a in given]
    expected, result = (tensors(called(module, name, args)) for args in (given, arrays))
    assert all(torch.equal(a, b) for a, b in zip(expected, result, strict=True))


@every
def test_gradients_and_other_strides_change_nothing(module: Any, name: str) -> None:
    given = arguments(name, torch.float64)

    def strange(value: Any) -> Any:
        if isinstance(value, Transformer):
            return value.with_weights(**{n: strange(w) for n, w in value.weights().items()})
        if isinstance(value, Tensor):
            spread = value.repeat_interleave(2, dim=-1)[..., ::2]
            return spread.requires_grad_() if value.is_floating_point() else spread
        return value

    results = tensors(called(module, name, list(map(strange, given))))
    for ours, plain in zip(results, tensors(called(module, name, given)), strict=True):
        torch.testing.assert_close(ours.detach(), plain)


@every
def test_an_argument_that_cannot_be_is_named(module: Any, name: str) -> None:
    function = getattr(module, name)
    names = PLAN[module][name].split(", ")
    for i, argument in enumerate(arguments(name, torch.float32)):
        wrong: list[Any] = []
        if isinstance(argument, Tensor):
            wrong = [argument.flatten()[0], argument.cfloat(), "text"]
            wrong += (
                [argument.half()]
                if argument.is_floating_point() and "count" not in names[i]
                else []
            )
        elif isinstance(argument, Transformer):
            wrong = ["text", argument.with_weights(**{
                n: getattr(argument, n)[:0] for n in ("W_Q", "W_K", "W_V", "W_O")
            })]  # fmt: skip
            wrong = wrong[:1] if name == "rotate_residual_stream" else wrong
        elif isinstance(argument, int):
            wrong = [-1, 0.5, "text", None]
        for value in wrong:
            call = arguments(name, torch.float32)
            call[i] = value
            with pytest.raises(ValueError, match=rf"^{name}: ") as caught:
                function(*call)
            assert names[i] in str(caught.value)


def test_every_public_function_is_in_the_plan_or_a_documented_helper() -> None:
    helpers = {
        "random_rotation", "rotation_in", "table_loss", "sample_bigram_text", "random_basis",
        "random_bases", "random_copying_scores", "composition_scores",
    }  # fmt: skip
    for module, functions in PLAN.items():
        public = {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value)
            and value.__module__ == module.__name__
            and not name.startswith("_")
        }
        assert set(functions) <= public <= set(functions) | helpers
