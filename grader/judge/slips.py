"""Slips that any answer can have: those that must pass, and those the judge must name.

Each slip makes a wrong (or oddly typed) function out of the right one. The numbers are those of the
programming slips in the course's list of learners' mistakes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.judge.spec import Case, Exercise
from grader.pupil.copies import clone, same
from grader.transformer import Transformer

Answer = Callable[..., Any]


@dataclass(frozen=True)
class Slip:
    """make: the right function and the cases → the function with the slip, None where it can't occur.

    named: how the judge may call it, () where the slip is no mistake and must pass
    """

    name: str
    make: Callable[[Answer, Sequence[Case]], Answer | None]
    facts: tuple[int, ...]
    named: tuple[str, ...] = ()


def slips_of(exercise: Exercise, cases: Sequence[Case]) -> list[tuple[Slip, Answer]]:
    """The slips an answer to this exercise can have, with the function that has each."""
    answered = [case for case in cases if case.raises is None]
    made = ((slip, slip.make(exercise.reference, answered)) for slip in SLIPS)
    return [(slip, answer) for slip, answer in made if answer is not None]


def remembered(exercise: Exercise) -> Exercise:
    """The exercise with a reference that computes each question once, for judging many answers."""
    known: list[tuple[tuple[Any, ...], Any]] = []

    @functools.wraps(exercise.reference)
    def reference(*args: Any) -> Any:
        for asked, result in known:
            if same(asked, args):
                return clone(result)
        known.append((clone(args), exercise.reference(*args)))
        return clone(known[-1][1])

    return dataclasses.replace(exercise, reference=reference)


def _on_result(change: Callable[[Any], Any], whole: bool = False) -> Callable[..., Answer | None]:
    """A slip that changes what comes back: each array in it, or (``whole``) the result itself."""

    def make(right: Answer, cases: Sequence[Case]) -> Answer | None:
        def answer(*args: Any) -> Any:
            result = right(*args)
            return change(result) if whole else _on_arrays(change, result)

        return answer if any(_differs(right, answer, case) for case in cases) else None

    return make


def _on_arrays(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Transformer):
        return {name: change(w) for name, w in value.weights().items()} | {
            "pos_in_stream": value.pos_in_stream
        }
    if type(value) in (tuple, list):
        return type(value)(_on_arrays(change, item) for item in value)
    return value


def _differs(right: Answer, answer: Answer, case: Case) -> bool:
    """Whether the slip shows at all in this case: another type, shape, dtype or layout."""
    plain, slipped = right(*clone(case.args)), answer(*clone(case.args))
    return bool(_look(plain) != _look(slipped))


def _look(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.device, value.requires_grad, value.is_contiguous()
    if isinstance(value, Transformer):
        return [_look(w) for w in value.weights().values()]
    if isinstance(value, dict):
        return [_look(w) for w in value.values() if isinstance(w, Tensor)] or type(value)
    if isinstance(value, tuple | list):
        return type(value), [_look(item) for item in value]
    return type(value)


def _as_numpy(value: Tensor) -> Any:
    return value.detach().resolve_conj().numpy()


def _as_double(value: Tensor) -> Tensor:
    return value.double() if value.is_floating_point() else value


def _requiring_grad(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_() if value.is_floating_point() else value


def _non_contiguous(value: Tensor) -> Tensor:
    return torch.stack([value, value], dim=-1)[..., 0] if value.ndim else value


def _as_half(value: Tensor) -> Tensor:
    return value.half() if value.is_floating_point() else value


def _lists_for_tuples(value: Any) -> Any:
    return [_lists_for_tuples(item) for item in value] if type(value) is tuple else value


def _as_numbers(value: Tensor) -> Any:
    return value.item() if value.ndim == 0 else value


def _extra_axis(value: Any) -> Any:
    return value[None] if isinstance(value, Tensor) else value


def _squeezed(value: Any) -> Any:
    return value.squeeze() if isinstance(value, Tensor) else value


def _mutating(right: Answer, cases: Sequence[Case]) -> Answer | None:
    """Writes into its first argument that can be written into, after the right answer was formed."""

    def answer(*args: Any) -> Any:
        result = right(*args)
        any(_write_into(argument) for argument in args)
        return result

    writable = any(_write_into(argument) for case in cases for argument in clone(case.args))
    return answer if writable else None


def _write_into(argument: Any) -> bool:
    if isinstance(argument, Tensor) and argument.numel():
        argument.detach().zero_()
        return True
    if isinstance(argument, Transformer):
        return _write_into(argument.W_E)
    if isinstance(argument, list) and argument:
        argument.reverse()
        return True
    return False


def _drawing(right: Answer, cases: Sequence[Case]) -> Answer:
    def answer(*args: Any) -> Any:
        torch.rand(1)
        return right(*args)

    return answer


def _reseeding(right: Answer, cases: Sequence[Case]) -> Answer:
    def answer(*args: Any) -> Any:
        torch.manual_seed(271828)
        return right(*args)

    return answer


def _with_a_global(right: Answer, cases: Sequence[Case]) -> Answer | None:
    """Reads the notebook's own variables, so its answer is that of the first case whatever comes."""
    first = right(*clone(cases[0].args))
    if all(same(first, right(*clone(case.args))) for case in cases):
        return None
    return lambda *_: clone(first)


SLIPS = (
    Slip("numpy result", _on_result(_as_numpy), (112,)),
    Slip("Python numbers", _on_result(_as_numbers), (112,)),
    Slip("lists for tuples", _on_result(_lists_for_tuples, whole=True), (112,)),
    Slip("float64 result", _on_result(_as_double), (113,)),
    Slip("result requires grad", _on_result(_requiring_grad), (115,)),
    Slip("non-contiguous result", _on_result(_non_contiguous), ()),
    Slip("extra leading axis of size 1", _on_result(_extra_axis, whole=True), (116,)),
    Slip("input changed in place", _mutating, (110,), ("mutates_input",)),
    Slip("float16 result", _on_result(_as_half), (113,), ("half_precision",)),
    Slip(
        "axes of size 1 squeezed away",
        _on_result(_squeezed, whole=True),
        (117,),
        ("squeezed_axis",),
    ),
    Slip(
        "a global for an argument",
        _with_a_global,
        (118,),
        ("ignores_arguments", "shape", "wrong_length"),
    ),
    Slip("returns None", _on_result(lambda _: None, whole=True), (120,), ("returns_none",)),
    Slip("draws from the global generator", _drawing, (121,), ("touches_global_rng",)),
    Slip("reseeds the global generator", _reseeding, (121,), ("touches_global_rng",)),
    Slip("result without numbers", _on_result(lambda t: t.to("meta")), (), ("no_data",)),
)
