"""Values as a tree of plain JSON whose leaves name tensors, and back.

A node is null, true, false, a number, a string, or a list that starts with its tag::

    ["list", …] ["tuple", …] ["set", …] ["frozenset", …] ["dict", key, value, key, value, …]
    ["float", "nan"] ["complex", re, im]                  what JSON has no word for
    ["tensor", name, is_complex, requires_grad]           the numbers are in the frame's tensors
    ["array", name, is_complex]                           the same, was numpy and comes back as numpy
    ["model", pos_in_stream, seven tensor nodes]
    ["hollow", "meta" | "sparse", size, size, …]          a tensor without numbers to send
    ["foreign", type name]                                of a type that doesn't cross

Whoever decodes trusts nothing: tags, counts, names, depth and types are checked, each tensor is used
once, and the only error is WireError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.transformer import WEIGHTS, Transformer

DEEPEST = 40
MOST_NODES = 500_000
LONGEST_STRING = 100_000
LARGEST_INTEGER = 10**300


class WireError(ValueError):
    """A value that can't be sent, or a frame that isn't one; the message says which rule it broke."""


class Foreign:
    """Stands for a value of a type that doesn't cross; its class has that type's name."""

    def __repr__(self) -> str:
        return f"<a {type(self).__name__}>"


def foreign(type_name: str) -> Foreign:
    """A stand-in, so that a verdict can say "a generator came"."""
    stand_in: Foreign = type(type_name, (Foreign,), {})()
    return stand_in


class Encoder:
    """``Encoder().encode(value)`` gives the tree; ``tensors`` holds the leaves' numbers by name."""

    def __init__(self, most_bytes: int) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._bytes_left = most_bytes
        self._nodes = 0

    def encode(self, value: Any, depth: int = 0) -> Any:
        """Raises WireError where the value is too deep or too large."""
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            raise WireError(
                f"The value is nested deeper than {DEEPEST} levels or has more than {MOST_NODES:,} parts."
            )
        if value is None or isinstance(value, bool | np.bool_):
            return value if value is None else bool(value)
        if isinstance(value, str):
            return self._string(str(value))
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, int | float | complex | np.number):
            return _number(value)
        if isinstance(value, Transformer):
            weights = [self.encode(w, depth + 1) for w in value.weights().values()]
            return ["model", value.pos_in_stream, *weights]
        for kind, tag in _CONTAINERS.items():
            if isinstance(value, kind):
                return [tag, *(self.encode(item, depth + 1) for item in value)]
        if isinstance(value, dict):
            flat = [part for pair in value.items() for part in pair]
            return ["dict", *(self.encode(part, depth + 1) for part in flat)]
        if all(hasattr(value, name) for name in WEIGHTS):  # a model of the learner's own class
            names = [n for n in (*WEIGHTS, "pos_in_stream") if hasattr(value, n)]
            return self.encode({name: getattr(value, name) for name in names}, depth)
        return ["foreign", type(value).__name__[:80]]

    def _string(self, text: str) -> str:
        if len(text) > LONGEST_STRING:
            raise WireError(f"A string of {len(text):,} characters is too long to hand in.")
        return text

    def _tensor(self, tensor: Tensor) -> list[Any]:
        if tensor.is_meta or tensor.layout is not torch.strided:
            return ["hollow", "meta" if tensor.is_meta else "sparse", *tensor.shape]
        if tensor.is_quantized:
            return ["foreign", "quantized Tensor"]
        return ["tensor", self._keep(tensor), tensor.is_complex(), bool(tensor.requires_grad)]

    def _array(self, array: Any) -> list[Any]:
        if array.dtype.kind not in "biufc":
            return ["foreign", f"ndarray of {array.dtype}"[:80]]
        if array.dtype.kind in "fc" and array.dtype.itemsize > (
            8 if array.dtype.kind == "f" else 16
        ):
            array = array.astype("f8" if array.dtype.kind == "f" else "c16")
        native = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        tensor = torch.from_numpy(native)
        return ["array", self._keep(tensor), tensor.is_complex()]

    def _keep(self, tensor: Tensor) -> str:
        size = tensor.numel() * tensor.element_size()  # before the copy: a view may be far larger
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise WireError(
                f"The value holds more numbers than can be handed in ({size / 2**20:,.0f} MiB)."
            )
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        name = str(len(self.tensors))
        self.tensors[name] = (
            torch.view_as_real(plain) if plain.is_complex() else plain
        ).contiguous()
        return name


_CONTAINERS: dict[type[Iterable[Any]], str] = {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
}


def _number(value: Any) -> Any:
    if isinstance(value, np.number):
        value = complex(value) if isinstance(value, np.complexfloating) else value.item()
        value = float(value) if isinstance(value, np.floating) else value
    if isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise WireError("An integer of more than 300 digits is too long to hand in.")
        return int(value)
    if isinstance(value, complex):
        return ["complex", _number(value.real), _number(value.imag)]
    value = float(value)
    return value if math.isfinite(value) else ["float", str(value)]


class Decoder:
    """``Decoder(tensors).decode(tree)``; call ``finish`` after it. Raises WireError, nothing else."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._unused = dict(tensors)
        self._nodes = 0

    def decode(self, node: Any, depth: int = 0) -> Any:
        self._nodes += 1
        _demand(depth <= DEEPEST and self._nodes <= MOST_NODES, "it is nested too deep or too long")
        if node is None or isinstance(node, bool | int | float):
            return node
        if isinstance(node, str):
            _demand(len(node) <= LONGEST_STRING, "a string is too long")
            return node
        _demand(isinstance(node, list) and bool(node), "a node is neither a value nor a list")
        tag, parts = node[0], node[1:]
        _demand(isinstance(tag, str) and tag in _READERS, "a tag is unknown")
        return _READERS[tag](self, parts, depth + 1)

    def finish(self) -> None:
        _demand(not self._unused, "tensors came that nothing names")

    def _many(self, parts: list[Any], depth: int) -> list[Any]:
        return [self.decode(part, depth) for part in parts]

    def _set(self, parts: list[Any], depth: int) -> set[Any]:
        members = self._many(parts, depth)
        try:
            return set(members)
        except TypeError:
            raise WireError("The frame is broken: a set holds what no set can hold.") from None

    def _dict(self, parts: list[Any], depth: int) -> dict[Any, Any]:
        _demand(len(parts) % 2 == 0, "a key has no value")
        flat = self._many(parts, depth)
        try:
            return dict(zip(flat[::2], flat[1::2], strict=True))
        except TypeError:
            raise WireError("The frame is broken: a dict has a key that can't be one.") from None

    def _float(self, parts: list[Any], depth: int) -> float:
        _demand(len(parts) == 1 and parts[0] in ("nan", "inf", "-inf"), "a float is none")
        return float(parts[0])

    def _complex(self, parts: list[Any], depth: int) -> complex:
        real, imaginary = self._exactly(2, self._many(parts, depth))
        _demand(isinstance(real, float) and isinstance(imaginary, float), "a complex is none")
        return complex(real, imaginary)

    def _tensor(self, parts: list[Any], depth: int) -> Tensor:
        name, is_complex, requires_grad = self._exactly(3, parts)
        tensor = self._take(name, is_complex)
        if requires_grad is not True:
            return tensor
        _demand(tensor.is_floating_point() or tensor.is_complex(), "integers can't require grad")
        return tensor.requires_grad_()

    def _array(self, parts: list[Any], depth: int) -> Any:
        name, is_complex = self._exactly(2, parts)
        tensor = self._take(name, is_complex)
        _demand(tensor.dtype not in _NOT_NUMPY, "numpy has no such dtype")
        return tensor.numpy()

    def _model(self, parts: list[Any], depth: int) -> Transformer:
        pos_in_stream, *weights = self._exactly(1 + len(WEIGHTS), self._many(parts, depth))
        _demand(isinstance(pos_in_stream, bool), "a model's switch is none")
        _demand(all(isinstance(w, Tensor) for w in weights), "a model's weight is no tensor")
        try:
            named = dict(zip(WEIGHTS, weights, strict=True))
            return Transformer(**named, pos_in_stream=pos_in_stream)
        except ValueError as error:
            raise WireError(f"The weights don't make a model. {error}") from None

    def _hollow(self, parts: list[Any], depth: int) -> Tensor:
        _demand(1 <= len(parts) <= 17 and parts[0] in ("meta", "sparse"), "a hollow tensor is none")
        sizes = parts[1:]
        _demand(all(type(n) is int and 0 <= n < 2**31 for n in sizes), "a size is none")
        _demand(math.prod(sizes) < 2**62, "a shape is too large")
        if parts[0] == "meta":
            return torch.empty(sizes, device="meta")
        return torch.zeros(sizes, layout=torch.sparse_coo)

    def _foreign(self, parts: list[Any], depth: int) -> Foreign:
        (name,) = self._exactly(1, parts)
        _demand(
            isinstance(name, str) and len(name) <= 80 and name.isprintable(), "a type has no name"
        )
        return foreign(name)

    def _take(self, name: Any, is_complex: Any) -> Tensor:
        _demand(isinstance(name, str) and name in self._unused, "a leaf names no tensor of its own")
        tensor = self._unused.pop(name)
        if is_complex is not True:
            return tensor
        pairs = tensor.ndim > 0 and tensor.shape[-1] == 2 and tensor.dtype in _REAL
        _demand(pairs, "a complex tensor isn't made of pairs")
        return torch.view_as_complex(tensor)

    @staticmethod
    def _exactly(count: int, parts: list[Any]) -> list[Any]:
        _demand(len(parts) == count, "a node has too few or too many parts")
        return parts


_NOT_NUMPY = {torch.bfloat16, *(d for n in dir(torch) if isinstance(d := getattr(torch, n), torch.dtype) and n.startswith("float8"))}  # fmt: skip
_REAL = (torch.float16, torch.float32, torch.float64)
_READERS: dict[str, Callable[[Decoder, list[Any], int], Any]] = {
    "list": lambda decoder, parts, depth: decoder._many(parts, depth),
    "tuple": lambda decoder, parts, depth: tuple(decoder._many(parts, depth)),
    "set": lambda decoder, parts, depth: decoder._set(parts, depth),
    "frozenset": lambda decoder, parts, depth: frozenset(decoder._set(parts, depth)),
    "dict": Decoder._dict,
    "float": Decoder._float,
    "complex": Decoder._complex,
    "tensor": Decoder._tensor,
    "array": Decoder._array,
    "model": Decoder._model,
    "hollow": Decoder._hollow,
    "foreign": Decoder._foreign,
}


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WireError(f"The frame is broken: {otherwise}.")
