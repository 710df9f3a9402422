"""Reading an answer: the many forms in which a right result may legitimately come.

A learner may answer in torch or numpy, with Python numbers or lists, in float32 or float64,
requiring grad, non-contiguous, with an extra axis of size 1. All of these are brought to one form
here (float64 on the CPU); what isn't an answer of the kind asked for is told so in plain words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.transformer import WEIGHTS, Transformer

HALF = (torch.float16, torch.bfloat16)


class Unreadable(Exception):
    """The answer isn't of the kind asked for; ``name`` is the general mistake, the text the reason.

    array: the answer all the same, where it is one array of another shape than was asked for
    """

    def __init__(self, name: str, message: str, array: Tensor | None = None) -> None:
        super().__init__(message)
        self.name, self.message, self.array = name, message, array


def read_like(raw: Any, expected: Any) -> Any:
    """``raw`` in the form of ``expected``; raises Unreadable.

    A tensor or number becomes a float64 (complex128) tensor of the expected shape, a tuple or list a
    tuple, a set a frozenset, a model a Transformer.
    """
    if raw is None:
        raise Unreadable(
            "returns_none",
            "Your function returned None. Did it print instead, or miss a `return`?",
        )
    if isinstance(expected, Transformer):
        return read_model(raw)
    if isinstance(expected, tuple | list):
        return _read_sequence(raw, expected)
    if isinstance(expected, set | frozenset):
        return _read_set(raw)
    if isinstance(expected, str):
        if not isinstance(raw, str):
            raise _wrong_type(raw, "a string")
        return raw
    return read_tensor(raw, torch.as_tensor(expected))


def read_tensor(raw: Any, expected: Tensor) -> Tensor:
    """One array or number as float64 in the shape of ``expected`` (complex128 if that is complex)."""
    value = _in_full(_to_tensor(raw))
    if value.dtype == torch.bool and expected.dtype != torch.bool:
        raise Unreadable(
            "wrong_type", "The result holds True and False where numbers were asked for."
        )
    if value.is_complex() and not expected.is_complex():
        value = _without_zero_imaginary(value)
    value = value.to(torch.complex128 if expected.is_complex() else torch.float64)
    return _fit_shape(value, expected)


def read_model(raw: Any) -> Transformer:
    """A model, or its seven weights in a dict, as a float64 Transformer."""
    if isinstance(raw, Mapping):
        missing = set(WEIGHTS) - set(raw)
        if missing:
            raise Unreadable(
                "wrong_type",
                f"A model as a dict needs the keys {', '.join(WEIGHTS)}; {', '.join(sorted(missing))} did not come.",
            )
        weights: dict[str, Any] = dict(raw)
    elif all(hasattr(raw, name) for name in WEIGHTS):
        weights = {
            name: getattr(raw, name) for name in (*WEIGHTS, "pos_in_stream") if hasattr(raw, name)
        }
    else:
        raise _wrong_type(raw, "a model (or its seven weights in a dict)")
    try:
        tensors = {name: _in_full(_to_tensor(weights[name])).double() for name in WEIGHTS}
        return Transformer.from_weights(
            {**tensors, "pos_in_stream": bool(weights.get("pos_in_stream", False))}
        )
    except ValueError as error:
        raise Unreadable("shape", f"The weights don't make a model. {error}") from None


def _to_tensor(raw: Any) -> Tensor:
    if isinstance(raw, Tensor):
        if raw.device.type == "meta":
            raise Unreadable(
                "no_data", "The result is on the 'meta' device: it has a shape and no numbers."
            )
        if raw.layout is not torch.strided:
            raise Unreadable(
                "wrong_type", "The result is a sparse tensor; call `.to_dense()` on it."
            )
        return raw.detach().cpu().resolve_conj()
    if isinstance(raw, bool | np.bool_):
        raise Unreadable("wrong_type", "True or False came where a number was asked for.")
    if isinstance(raw, int | float | complex):
        return torch.tensor(
            raw, dtype=torch.complex128 if isinstance(raw, complex) else torch.float64
        )
    if isinstance(raw, np.ndarray | np.generic):
        if raw.dtype.kind not in "biufc":
            raise Unreadable(
                "wrong_type", f"The result is a numpy array of {raw.dtype}, not of numbers."
            )
        return torch.from_numpy(np.array(raw))
    if isinstance(raw, tuple | list) and raw:
        parts = [_to_tensor(item) for item in raw]
        if len({part.shape for part in parts}) == 1:
            common = parts[0].dtype if len({p.dtype for p in parts}) == 1 else torch.float64
            return torch.stack([part.to(common) for part in parts])
        raise Unreadable(
            "wrong_type",
            "The result is a list of arrays of different shapes where one array was asked for.",
        )
    raise _wrong_type(raw, "an array of numbers")


def _in_full(value: Tensor) -> Tensor:
    if value.dtype in HALF:
        raise Unreadable(
            "half_precision",
            f"The result is in {str(value.dtype).removeprefix('torch.')}, which keeps three digits. Answer in float32 or float64.",
        )
    return value


def _without_zero_imaginary(value: Tensor) -> Tensor:
    """A complex result whose imaginary part is rounding counts as real, where a real one is asked."""
    size = float(value.abs().max()) if value.numel() else 0.0
    if value.numel() and not float(value.imag.abs().max()) <= 1e-4 * (1.0 + size):
        raise Unreadable(
            "complex",
            "The result has an imaginary part that isn't rounding; a real result was asked for.",
        )
    return value.real


def _fit_shape(value: Tensor, expected: Tensor) -> Tensor:
    if value.shape == expected.shape:
        return value
    came, asked = [[n for n in t.shape if n != 1] for t in (value, expected)]
    if came == asked and value.ndim > expected.ndim:
        return value.reshape(expected.shape)
    if came == asked and value.ndim < expected.ndim:
        raise Unreadable(
            "squeezed_axis",
            f"An axis of size 1 is missing: shape {shape_text(value)} came, {shape_text(expected)} was asked for. "
            "A bare `squeeze()` drops real axes when there is one head, one row or one position.",
            value,
        )
    raise Unreadable(
        "shape", f"Shape {shape_text(value)} came, {shape_text(expected)} was asked for.", value
    )


def _read_sequence(raw: Any, expected: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
    if isinstance(raw, Tensor | np.ndarray) and raw.ndim and len(raw) == len(expected):
        raw = list(raw)
    if not isinstance(raw, tuple | list):
        raise _wrong_type(raw, f"a tuple of {len(expected)} results")
    if len(raw) != len(expected):
        raise Unreadable(
            "wrong_length", f"{len(raw)} results came, {len(expected)} were asked for."
        )
    return tuple(read_like(item, like) for item, like in zip(raw, expected, strict=True))


def _read_set(raw: Any) -> frozenset[Any]:
    if not isinstance(raw, set | frozenset | list | tuple):
        raise _wrong_type(raw, "a set")
    return frozenset(_plain(item) for item in raw)


def _plain(item: Any) -> Any:
    """Members of a set as Python values: (tensor(1), 2) and (1, 2) are one pair."""
    if isinstance(item, tuple | list):
        return tuple(_plain(part) for part in item)
    if isinstance(item, Tensor | np.ndarray | np.generic) and len(np.shape(item)) == 0:
        return item.item()
    if isinstance(item, int | float | str):
        return item
    raise Unreadable(
        "wrong_type",
        f"The set holds a {type(item).__name__}; numbers or tuples of numbers were asked for.",
    )


def shape_text(value: Tensor) -> str:
    """A shape in a learner's words: a single number has none."""
    return str(tuple(value.shape)) if value.ndim else "of a single number"


def _wrong_type(raw: Any, asked: str) -> Unreadable:
    article = "an" if type(raw).__name__[:1].lower() in "aeiou" else "a"
    return Unreadable(
        "wrong_type",
        f"{article.capitalize()} {type(raw).__name__} came where {asked} was asked for.",
    )
