"""An answer may come in many forms; what isn't an answer is told so by name."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from grader.judge.reading import Unreadable, read_like
from grader.transformer import WEIGHTS, Transformer

EXPECTED = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
FORMS = {
    "float32": EXPECTED.float(),
    "float64": EXPECTED,
    "integers": EXPECTED.long(),
    "requires grad": EXPECTED.clone().requires_grad_(),
    "non-contiguous": EXPECTED.T.contiguous().T,
    "numpy": EXPECTED.numpy(),
    "numpy float32, reversed strides": EXPECTED.float().numpy()[::-1].copy()[::-1],
    "nested lists": EXPECTED.tolist(),
    "a list of rows": list(EXPECTED),
    "a leading axis of size 1": EXPECTED[None],
    "an inner axis of size 1": EXPECTED[:, None, :],
    "complex with zero imaginary part": EXPECTED + 1e-9j,
}


@pytest.mark.parametrize("form", FORMS)
def test_legitimate_forms_read_as_the_same_array(form: str) -> None:
    read = read_like(FORMS[form], EXPECTED)
    assert read.dtype == torch.float64
    assert not read.requires_grad
    assert torch.allclose(read, EXPECTED)


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), torch.tensor(2.0), np.array(2.0), [2.0]])
def test_numbers_read_as_single_numbers(number: object) -> None:
    expected = torch.tensor(2.0)
    assert float(read_like(number, expected)) == 2.0


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (None, "returns_none"),
        ("text", "wrong_type"),
        (True, "wrong_type"),
        ({1: 2}, "wrong_type"),
        ([], "wrong_type"),
        (np.array(["a"]), "wrong_type"),
        ([torch.zeros(2), torch.zeros(3)], "wrong_type"),
        (EXPECTED > 1, "wrong_type"),
        (EXPECTED.half(), "half_precision"),
        (EXPECTED.bfloat16(), "half_precision"),
        (EXPECTED.to("meta"), "no_data"),
        (EXPECTED + 1j, "complex"),
        (EXPECTED.T, "shape"),
        (EXPECTED[0], "shape"),
        (torch.zeros(0, 3), "shape"),
    ],
)
def test_what_is_no_answer_is_named(raw: object, name: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_like(raw, EXPECTED)
    assert caught.value.name == name
    assert caught.value.message.endswith((".", "?"))


def test_a_missing_axis_of_size_one_is_named_not_guessed() -> None:
    with pytest.raises(Unreadable) as caught:
        read_like(torch.zeros(3), torch.zeros(1, 3))
    assert caught.value.name == "squeezed_axis"


def test_tuples_lists_and_stacks_are_sequences() -> None:
    expected = (torch.zeros(2), torch.ones(2))
    for raw in (
        [np.zeros(2), np.ones(2)],
        torch.stack(expected),
        (torch.zeros(1, 2), torch.ones(2)),
    ):
        assert [r.tolist() for r in read_like(raw, expected)] == [[0, 0], [1, 1]]
    with pytest.raises(Unreadable, match="2 were asked for"):
        read_like([torch.zeros(2)], expected)
    with pytest.raises(Unreadable, match="tuple of 2"):
        read_like(3.0, expected)


def test_sets_compare_as_plain_values() -> None:
    raw = [(torch.tensor(1), np.int64(2)), [3, 4]]
    assert read_like(raw, {(1, 2)}) == {(1, 2), (3, 4)}
    with pytest.raises(Unreadable):
        read_like({object()}, {(1, 2)})


def test_models_come_as_objects_dicts_and_look_alikes() -> None:
    sizes = {"n_layers": 1, "n_heads": 2, "d_model": 5, "d_head": 3, "d_vocab": 7, "n_ctx": 4}
    model = Transformer.random(**sizes, pos_in_stream=True)
    forms = [
        model,
        {**model.weights(), "pos_in_stream": True},
        SimpleNamespace(**{n: w.numpy() for n, w in model.weights().items()}, pos_in_stream=True),
    ]
    for form in forms:
        read = read_like(form, model)
        assert read.pos_in_stream
        assert all(torch.allclose(getattr(read, n), getattr(model, n).double()) for n in WEIGHTS)
    with pytest.raises(Unreadable, match="W_O did not come"):
        read_like({n: w for n, w in model.weights().items() if n != "W_O"}, model)
    with pytest.raises(Unreadable, match="d_model is 6 here and 5"):
        read_like({**model.weights(), "W_U": torch.zeros(6, 7)}, model)
    with pytest.raises(Unreadable, match="a model"):
        read_like(torch.zeros(2), model)
