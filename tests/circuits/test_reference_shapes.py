"""Shape checks: what they let through, and the words in which they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from grader.circuits.shapes import shaped
from grader.transformer import Transformer


@shaped(x="dst d_model", W="d_model d_head", bias="... d_head")
def project(x: Tensor, W: Tensor, bias: Tensor | None = None, note: str = "") -> Tensor:
    out = x @ W
    return out if bias is None else out + bias


@shaped(tokens="token: ... pos", W_E="d_vocab d_model")
def embed(tokens: Tensor, W_E: Tensor) -> Tensor:
    return W_E[tokens]


@shaped(tokens="token: pos", d_vocab="count: 2")
def one_hot(tokens: Tensor, d_vocab: int) -> Tensor:
    return torch.eye(d_vocab)[tokens]


@shaped(counts="number: current 3")
def totals(counts: Tensor) -> Tensor:
    return counts.sum(dim=-1)


@shaped(model="model: 1", pattern="head pos pos")
def of_model(model: Transformer, pattern: Tensor) -> int:
    return model.n_layers


@shaped(tokens="token: pos")
def free(tokens: Tensor) -> Tensor:
    return tokens


@shaped(model="model:", head="index: head")
def of_head(model: Transformer, head: int) -> int:
    return head


def small_model(n_layers: int = 1) -> Transformer:
    return Transformer.random(n_layers=n_layers, n_heads=2, d_model=5, d_head=3, d_vocab=7, n_ctx=4)


def refusal(function: object, *args: object) -> str:
    with pytest.raises(ValueError, match=r"^\w+: ") as caught:
        function(*args)  # type: ignore[operator]
    return str(caught.value)


def test_arrays_lists_and_gradients_arrive_as_tensors() -> None:
    W = np.ones((2, 3), dtype=np.float32)
    assert torch.equal(project([[1.0, 2.0]], W), torch.full((1, 3), 3.0))
    x = torch.ones(4, 2, requires_grad=True)
    project(x, W).sum().backward()
    assert x.grad is not None
    assert project(torch.ones(2, 4).T, W).shape == (4, 3)


def test_tensors_are_handed_on_and_not_copied() -> None:
    seen = []

    @shaped(x="a")
    def look(x: Tensor) -> None:
        seen.append(x)

    x = torch.ones(3)
    look(x)
    assert seen[0] is x


def test_leading_axes_are_free_and_an_optional_argument_may_be_none() -> None:
    x, W = torch.ones(4, 2), torch.ones(2, 3)
    assert project(x, W, None, "note").shape == (4, 3)
    assert project(x, W, torch.ones(3)).shape == (4, 3)
    assert project(x, W, bias=torch.ones(5, 1, 3)).shape == (5, 4, 3)
    assert embed(torch.zeros(2, 0, 3, dtype=torch.int8), torch.ones(7, 5)).shape == (2, 0, 3, 5)


def test_a_bound_axis_is_named_with_its_size_and_where_it_came_from() -> None:
    assert refusal(project, torch.ones(4, 16), torch.ones(12, 3)) == (
        "project: W must have shape (d_model=16, d_head) and came with (12, 3); d_model is 16 in x."
    )


def test_a_transposed_argument_is_recognised() -> None:
    text = refusal(project, torch.ones(4, 16), torch.ones(3, 16))
    assert text.endswith("d_model is 16 in x. Its transpose would fit.")


def test_too_few_and_too_many_axes_are_refused() -> None:
    assert refusal(project, torch.ones(16), torch.ones(16, 3)) == (
        "project: x must have shape (dst, d_model) and came with (16,)."
    )
    assert "came with (1, 4, 16)" in refusal(project, torch.ones(1, 4, 16), torch.ones(16, 3))
    assert "(..., d_head=3) and came with ()" in refusal(
        project, torch.ones(4, 2), torch.ones(2, 3), torch.tensor(1.0)
    )


def test_one_name_twice_in_a_spec_means_a_square() -> None:
    model = small_model()
    assert of_model(model, torch.ones(2, 3, 3)) == 1
    text = refusal(of_model, model, torch.ones(2, 3, 4))
    assert text == (
        "of_model: pattern must have shape (head=2, pos, pos) and came with (2, 3, 4); "
        "head is 2 in model."
    )


def test_a_digit_is_a_fixed_size() -> None:
    assert totals(torch.ones(2, 3, dtype=torch.int32)).tolist() == [3, 3]
    assert "shape (current, 3) and came with (2, 4)" in refusal(totals, torch.ones(2, 4))


def test_dtypes_are_named() -> None:
    x, W = torch.ones(4, 2), torch.ones(2, 3)
    assert refusal(project, x, W.double()) == (
        "project: W is float64 and x is float32; "
        "give all in one dtype, for instance W.to(torch.float32)."
    )
    assert refusal(project, x.half(), W) == "project: x must be float32 or float64; float16 came."
    assert "x must be float32 or float64; int64 came" in refusal(project, x.long(), W)
    assert refusal(embed, x, W) == "embed: tokens must hold integers; float32 came."
    assert "tokens must hold integers; bool came" in refusal(embed, x > 0, W)
    assert "counts must hold real numbers; complex64 came" in refusal(totals, x.cfloat())


def test_what_is_no_array_is_refused() -> None:
    text = refusal(project, {"a": 1}, torch.ones(2, 3))
    assert text == "project: x must be a tensor or array; a dict came."
    assert "x must be a tensor or array" in refusal(project, None, torch.ones(2, 3))


def test_ids_are_held_to_the_vocabulary_wherever_it_is_named() -> None:
    W_E = torch.ones(7, 5)
    assert refusal(embed, [6, 7], W_E) == (
        "embed: tokens must lie in 0 … 6, as d_vocab is 7 in W_E; 6 … 7 came."
    )
    assert refusal(embed, [-1, 6], W_E).endswith("-1 … 6 came.")
    assert refusal(one_hot, [4], 4) == (
        "one_hot: tokens must lie in 0 … 3, as d_vocab is 4 in d_vocab; 4 came."
    )
    assert refusal(free, [-1, 3]) == "free: tokens must lie in 0 … 3; -1 … 3 came."
    assert free([3]).tolist() == [3]


def test_an_index_counts_along_its_axis() -> None:
    model = small_model()
    assert of_head(model, np.int64(1)) == 1
    assert refusal(of_head, model, 2) == (
        "of_head: head must lie in 0 … 1, as head is 2 in model; 2 came."
    )
    assert "head must be a whole number, at least 0; -1 came" in refusal(of_head, model, -1)
    assert "at least 0; True came" in refusal(of_head, model, True)


def test_counts_are_whole_numbers() -> None:
    assert one_hot([0, 1], np.int64(2)).shape == (2, 2)
    wrong: list[object] = [1, 2.0, True, "3", None]
    for value in wrong:
        text = refusal(one_hot, [0], value)
        assert text == f"one_hot: d_vocab must be a whole number, at least 2; {value!r} came."


def test_models_are_held_to_their_kind_and_depth() -> None:
    text = refusal(of_model, small_model(2), torch.ones(2, 3, 3))
    assert text == "of_model: model must have 1 layer; it has 2."
    assert refusal(of_model, {}, torch.ones(2, 3, 3)) == (
        "of_model: model must be a Transformer; a dict came."
    )
    assert "pattern is float64 and model is float32" in refusal(
        of_model, small_model(), torch.ones(2, 3, 3).double()
    )


def test_missing_arguments_name_the_function() -> None:
    with pytest.raises(TypeError, match=r"^project: missing a required argument: 'W'\.$"):
        project(torch.ones(4, 2))  # type: ignore[call-arg]


def test_a_spec_that_cannot_hold_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="has no argument y"):
        shaped(y="a b")(lambda x: x)
    for spec in ("floats: a b", "a ... b"):
        with pytest.raises(TypeError, match="is not a spec"):
            shaped(x=spec)(lambda x: x)
