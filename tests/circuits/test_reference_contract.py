"""What every function of notebooks 05 to 07 promises, whatever it computes.

Its name and arguments are those of the plan, it keeps the dtype and leaves its arguments alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from reference_cases import Draw
from torch import Tensor

from grader.circuits import beyond, induction_heads, path_importance
from grader.transformer import Transformer

PLAN = {
    induction_heads: {
        "repeated_tokens": "d_vocab, period, repeats, seed",
        "loss_by_position": "logits, tokens",
        "in_context_learning_score": "losses, early, late",
        "previous_token_score": "pattern",
        "prefix_matching_score": "pattern, period",
        "copying_effect": "pattern, x, W_V, W_O, W_U, tokens",
        "find_induction_heads": "model",
        "k_composed_qk": "W_E, W_Q, W_K, W_OV_previous",
        "matching_score": "W_E, W_Q, W_K, W_OV_previous",
        "ablate_head": "tokens, model, layer, head, how",
        "previous_token_head": "n_ctx, d_model, d_head",
        "induction_by_k_composition": "d_vocab, n_ctx",
        "induction_by_pointer_arithmetic": "d_vocab, n_ctx",
        "train_induction": "seed, n_layers",
        "phase_change_step": "losses",
    },
    path_importance: {
        "term_importance": "tokens, model",
        "marginal_effect": "tokens, model, layer",
        "virtual_head_importance": "tokens, model",
        "direct_logit_attribution": "components, W_U, tokens",
        "value_weighted_pattern": "pattern, v",
    },
    beyond: {
        "mlp_path_expansion": "tokens, model, W_in",
        "fold_layer_norm": "weight, bias, W, b",
        "fold_value_bias": "b_V, W_O, b_O",
        "erasure_score": "W_V, W_O",
        "smeared_keys": "k, alpha",
        "from_transformer_lens": "state",
    },
}


@pytest.mark.parametrize("module", list(PLAN), ids=lambda module: module.__name__)
def test_names_and_arguments_are_those_of_the_plan(module: Any) -> None:
    found = {
        name: ", ".join(inspect.signature(getattr(module, name)).parameters)
        for name in PLAN[module]
    }
    assert found == PLAN[module]


def arguments(dtype: torch.dtype) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """A call of each function, the same numbers in either dtype."""
    draw = Draw(11)

    def normal(*shape: int) -> Tensor:
        return draw.normal(*shape).to(dtype)

    model = Transformer.random(
        n_layers=2, n_heads=3, d_model=10, d_head=4, d_vocab=13, n_ctx=16,
        generator=draw.generator, dtype=dtype,
    )  # fmt: skip
    one_layer = model.with_weights(
        **{name: getattr(model, name)[:1] for name in ("W_Q", "W_K", "W_V", "W_O")}
    )
    tokens, pattern = draw.integers(13, 8), draw.pattern(8, 8).to(dtype)
    W_E, W_U, W_Q, W_K, W_V = (normal(13, 10), normal(10, 13), *(normal(10, 4) for _ in range(3)))
    W_O, W_OV, x = normal(4, 10), normal(10, 10), normal(8, 10)
    heads, paths, other = induction_heads, path_importance, beyond
    calls = [
        (heads.loss_by_position, normal(8, 13), tokens),
        (heads.in_context_learning_score, normal(9), 1, 8),
        (heads.previous_token_score, pattern),
        (heads.prefix_matching_score, pattern, 3),
        (heads.copying_effect, pattern, x, W_V, W_O, W_U, tokens),
        (heads.k_composed_qk, W_E, W_Q, W_K, W_OV),
        (heads.matching_score, W_E, W_Q, W_K, W_OV),
        (heads.ablate_head, tokens[None], model, 0, 1, "mean"),
        (heads.ablate_head, tokens[None], model, 1, 2, "frozen"),
        (paths.term_importance, tokens, model),
        (paths.marginal_effect, tokens, model, 1),
        (paths.virtual_head_importance, tokens, model),
        (paths.direct_logit_attribution, normal(5, 8, 10), W_U, tokens),
        (paths.value_weighted_pattern, pattern, normal(8, 4)),
        (other.mlp_path_expansion, tokens, one_layer, normal(10, 7)),
        (other.fold_layer_norm, normal(10), normal(10), normal(10, 3), normal(3)),
        (other.fold_value_bias, normal(3, 4), normal(3, 4, 10), normal(10)),
        (other.erasure_score, W_V, W_O),
        (other.smeared_keys, normal(2, 8, 4), 0.7),
    ]
    return {f"{f.__name__}-{i}": (f, rest) for i, (f, *rest) in enumerate(calls)}


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Transformer):
        return list(value.weights().values())
    return [t for v in value for t in tensors(v)] if isinstance(value, tuple | list) else []


@pytest.mark.parametrize("name", list(arguments(torch.float64)))
def test_dtype_is_kept_and_arguments_are_left_alone(name: str) -> None:
    results = {}
    for dtype in (torch.float32, torch.float64):
        function, given = arguments(dtype)[name]
        before = [t.clone() for t in tensors(given)]
        results[dtype] = tensors(function(*given))
        assert results[dtype]
        assert {t.dtype for t in results[dtype]} == {dtype}
        assert all(map(torch.equal, tensors(given), before))
    for single, double in zip(results[torch.float32], results[torch.float64], strict=True):
        torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", list(arguments(torch.float64)))
def test_gradients_and_other_strides_are_no_trouble(name: str) -> None:
    function, given = arguments(torch.float64)[name]
    expected = tensors(function(*given))

    def strange(value: Any) -> Any:
        if isinstance(value, Transformer):
            return value.with_weights(**{n: strange(w) for n, w in value.weights().items()})
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.repeat_interleave(2, dim=-1)[..., ::2].requires_grad_()
        return value

    for ours, plain in zip(tensors(function(*map(strange, given))), expected, strict=True):
        torch.testing.assert_close(ours.detach(), plain)
