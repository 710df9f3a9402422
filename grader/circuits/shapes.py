"""Argument checks in the course's own words, so that a wrong shape is named where it enters.

::

    @shaped(x="pos d_model", W_V="d_model d_head", W_O="d_head d_model")
    def ov_output(x, W_V, W_O): ...

    ov_output: W_V must have shape (d_model=16, d_head) and came with (4, 16);
    d_model is 16 in x. Its transpose would fit.

A spec is ``"kind: axes"``; the kind may be left out and is then ``float``.

==================== =========================================================================
``"dst d_model"``    float32 or float64, all arguments of a call in the same dtype
``"... pos d_head"`` any number of leading axes, also none; ``...`` may differ between arguments
``"int: ... pos"``   integers, handed on as int64
``"token: ... pos"`` the same, each in 0 … d_vocab − 1 where the call says what d_vocab is
``"number: a b"``    any real dtype, integers too, handed on as they are
``"count: 2"``       a whole number of at least 2; it binds the axis of its own name
``"index: head"``    a whole number that counts along that axis, so 0 … head − 1
``"model: 2"``       a Transformer with two layers; ``"model:"`` one of any depth
==================== =========================================================================

Equal axis names mean equal sizes, within a call and with those of a model; a digit is a fixed size.
numpy arrays, numbers and nested lists are accepted and arrive as torch tensors. An argument whose
default is None may be None. Arguments without a spec pass through.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from grader.transformer import Transformer

P = ParamSpec("P")
R = TypeVar("R")

_KINDS = ("float", "int", "token", "number", "count", "index", "model")
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def shaped(**specs: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the named arguments of a function against their specs (module docstring) at each call.

    The decorated function raises ValueError that names the function, the argument, what was
    expected and what came; TypeError where arguments are missing or too many.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters
        unknown = sorted(set(specs) - set(parameters))
        if unknown:
            raise TypeError(f"{function.__name__} has no argument {', '.join(unknown)} to check.")
        parsed = {name: _parse(spec) for name, spec in specs.items()}
        signature = inspect.signature(function)
        positional = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if positional and not kwargs and len(args) == len(parameters):
                arguments = dict(zip(parameters, args, strict=True))  # the usual call; faster
            else:
                try:
                    arguments = signature.bind(*args, **kwargs).arguments
                except TypeError as error:
                    raise TypeError(f"{function.__name__}: {error}.") from None
            call = _Call(function.__name__)
            for name, (kind, axes) in parsed.items():
                if name not in arguments:
                    continue
                value = arguments[name]
                if value is None and parameters[name].default is None:
                    continue
                arguments[name] = call.check(name, kind, axes, value)
            call.check_bounds()
            return function(**arguments)  # type: ignore[arg-type, call-arg]

        # The judge names a case's sizes by these ("d_model 7") and finds factors among them.
        vars(checked)["axes"] = {name: axes for name, (_, axes) in parsed.items()}
        return checked

    return decorate


def _parse(spec: str) -> tuple[str, list[str]]:
    kind, colon, axes = spec.rpartition(":")
    kind = kind.strip() if colon else "float"
    if kind not in _KINDS or "..." in axes.split()[1:]:
        raise TypeError(f"{spec!r} is not a spec: {', '.join(_KINDS)}, then axes, '...' first.")
    return kind, axes.split()


class _Call:
    """What one call has bound so far: sizes of axes and the dtype, each with where it came from."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.sizes: dict[str, tuple[int, str]] = {}
        self.dtype: tuple[torch.dtype, str] | None = None
        self.bounded: dict[str, tuple[str, int, int]] = {}

    def check(self, name: str, kind: str, axes: list[str], value: Any) -> Any:
        if kind == "count":
            return self._count(name, int(axes[0]), value)
        if kind == "index":
            number = self._whole(name, 0, value)
            self.bounded[name] = axes[0], number, number
            return number
        if kind == "model":
            return self._model(name, axes, value)
        tensor = self._tensor(name, value)
        tensor = self._with_dtype(name, kind, tensor)
        self._shape(name, axes, tensor)
        if kind == "token" and tensor.numel():
            self.bounded[name] = "d_vocab", int(tensor.min()), int(tensor.max())
        return tensor

    def check_bounds(self) -> None:
        """Last of all, because the size of an axis may be bound by a later argument."""
        for name, (axis, least, most) in self.bounded.items():
            size, source = self.sizes.get(axis, (most + 1, ""))
            if least < 0 or most >= size:
                known = f", as {axis} is {size} in {source}" if source else ""
                came = f"{least} … {most}" if least < most else f"{least}"
                raise self._fail(f"{name} must lie in 0 … {size - 1}{known}; {came} came.")

    def _fail(self, text: str) -> ValueError:
        return ValueError(f"{self.function}: {text}")

    def _count(self, name: str, least: int, value: Any) -> int:
        number = self._whole(name, least, value)
        self._bind(name, number, name)
        return number

    def _whole(self, name: str, least: int, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            number = None
        if number is None or isinstance(value, bool) or number < least:
            raise self._fail(
                f"{name} must be a whole number, at least {least}; {value!r:.60} came."
            )
        return number

    def _model(self, name: str, axes: list[str], value: Any) -> Transformer:
        if not isinstance(value, Transformer):
            raise self._fail(f"{name} must be a Transformer; a {type(value).__name__} came.")
        if axes and value.n_layers != int(axes[0]):
            raise self._fail(
                f"{name} must have {_counted(int(axes[0]), 'layer')}; it has {value.n_layers}."
            )
        sizes = {
            "layer": value.n_layers, "head": value.n_heads, "d_model": value.d_model,
            "d_head": value.d_head, "d_vocab": value.d_vocab, "n_ctx": value.n_ctx,
        }  # fmt: skip
        for axis, size in sizes.items():
            self._bind(axis, size, name)
        self._same_dtype(name, value.W_E.dtype)
        return value

    def _tensor(self, name: str, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            raise self._fail(
                f"{name} must be a tensor or array; a {type(value).__name__} came."
            ) from None

    def _with_dtype(self, name: str, kind: str, tensor: Tensor) -> Tensor:
        if kind == "number":
            if tensor.dtype.is_complex or tensor.dtype == torch.bool:
                raise self._fail(f"{name} must hold real numbers; {_short(tensor.dtype)} came.")
            return tensor
        if kind in ("int", "token"):
            if tensor.dtype not in _INTEGERS:
                raise self._fail(f"{name} must hold integers; {_short(tensor.dtype)} came.")
            return tensor.long()
        if tensor.dtype not in (torch.float32, torch.float64):
            raise self._fail(f"{name} must be float32 or float64; {_short(tensor.dtype)} came.")
        self._same_dtype(name, tensor.dtype)
        return tensor

    def _same_dtype(self, name: str, dtype: torch.dtype) -> None:
        if self.dtype is None:
            self.dtype = dtype, name
        elif self.dtype[0] != dtype:
            other, source = self.dtype
            raise self._fail(
                f"{name} is {_short(dtype)} and {source} is {_short(other)}; "
                f"give all in one dtype, for instance {name}.to({other})."
            )

    def _shape(self, name: str, axes: list[str], tensor: Tensor) -> None:
        shape = tuple(tensor.shape)
        sizes = self._with_axes(name, axes, shape)
        if sizes is None:
            named = [axis for axis in axes if axis in self.sizes]
            known = [f"{axis} is {self.sizes[axis][0]} in {self.sizes[axis][1]}" for axis in named]
            flipped = (*shape[:-2], *shape[:-3:-1])
            fits = self._with_axes(name, axes, flipped) is not None
            raise self._fail(
                f"{name} must have shape ({', '.join(map(self._axis, axes))}"
                f"{',' if len(axes) == 1 else ''}) and came with {shape}"
                + (f"; {', '.join(known)}." if known else ".")
                + (" Its transpose would fit." if fits else "")
            )
        self.sizes = sizes

    def _with_axes(
        self, name: str, axes: list[str], shape: tuple[int, ...]
    ) -> dict[str, tuple[int, str]] | None:
        """The sizes bound so far and those of this shape; None where they contradict each other."""
        fixed = axes[1:] if axes[:1] == ["..."] else axes
        if len(shape) < len(fixed) or (fixed == axes and len(shape) != len(fixed)):
            return None
        sizes = dict(self.sizes)
        for axis, size in zip(reversed(fixed), reversed(shape), strict=False):
            bound = int(axis) if axis.isdigit() else sizes.setdefault(axis, (size, name))[0]
            if size != bound:
                return None
        return sizes

    def _axis(self, axis: str) -> str:
        return f"{axis}={self.sizes[axis][0]}" if axis in self.sizes else axis

    def _bind(self, axis: str, size: int, name: str) -> None:
        bound, source = self.sizes.setdefault(axis, (size, name))
        if bound != size:
            raise self._fail(f"{axis} is {size} in {name} and {bound} in {source}.")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
