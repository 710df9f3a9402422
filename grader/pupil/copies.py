"""Copies of a question for the learner to keep, and whether the learner wrote into them."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.transformer import Transformer


def clone(value: Any) -> Any:
    """A copy that shares no memory with ``value``; tensors keep dtype, shape and requires_grad.

    What can't be copied (a function, a tokenizer) is passed as it is.
    """
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if value is None or isinstance(value, _IMMUTABLE):
        return value
    if isinstance(value, Transformer):
        return value.with_weights(**{name: clone(w) for name, w in value.weights().items()})
    if type(value) in (list, tuple, set):
        return type(value)(clone(item) for item in value)
    if type(value) is dict:
        return {key: clone(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _clone_dataclass(value)
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


_IMMUTABLE = (bool, int, float, complex, str, bytes, frozenset, torch.dtype, torch.device)


def _clone_dataclass(value: Any) -> Any:
    twin = copy.copy(value)
    for field in dataclasses.fields(value):
        object.__setattr__(twin, field.name, clone(getattr(value, field.name)))
    return twin


def same(a: Any, b: Any) -> bool:
    """Bit for bit equal: NaN equals itself, and no temporary copy is made."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return _same_tensor(a, b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and _array_bytes(a) == _array_bytes(b)
    if isinstance(a, Transformer):
        return a.pos_in_stream == b.pos_in_stream and same(a.weights(), b.weights())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)
    if isinstance(a, (bool, int, str, bytes, set, frozenset)):
        return bool(a == b)
    return True  # something opaque; whether it changed can't be seen


def _same_tensor(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
        return False
    return torch.equal(_bits(a), _bits(b))


def _bits(tensor: Tensor) -> Tensor:
    """The same memory read as integers, so that NaN compares equal to NaN."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor)
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.view(_INTEGER_OF_SIZE[tensor.element_size()])


_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _array_bytes(array: Any) -> bytes:
    return repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
