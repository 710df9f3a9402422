"""What ``name_circuits`` answered, as one set of claims, and how much of the truth it holds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from grader.circuits.naming import LABELS
from grader.judge.comparators import Comparator
from grader.judge.reading import Unreadable
from grader.judge.spec import Case

PARTS = ("heads", "skip_trigrams", "compositions")

Claim = tuple[Any, ...]
"""("heads", address, label), ("skip_trigrams", s, d, o) or ("compositions", kind, from, by)."""

Claims = frozenset[Claim]


class Named(Comparator):
    """A grade a part: the F1 of its claims, the mean over the models."""

    def __init__(self) -> None:
        super().__init__("heads", "skip-trigrams", "compositions", average=True)

    def read(self, raw: Any, expected: Any, case: Case) -> Claims:
        return read_claims(raw)

    def grade(self, value: Any, expected: Any, atol: float, case: Case) -> tuple[float, ...]:
        """Where a part holds nothing, silence is worth what the heads around it are worth.

        Otherwise an answer that never names anything would earn points in every small model.
        """
        truth = read_claims(expected)
        heads = f1(part(value, "heads"), part(truth, "heads"))
        grades = [heads]
        for name in PARTS[1:]:
            mine, theirs = part(value, name), part(truth, name)
            grades.append(f1(mine, theirs) if mine or theirs else heads)
        return tuple(grades)

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        return bool(value == other)


def part(claims: Iterable[Claim], name: str) -> Claims:
    return frozenset(claim for claim in claims if claim[0] == name)


def f1(claimed: Claims, true: Claims) -> float:
    """Harmonic mean of precision and recall: 2 · right / (claimed + true); of nothing, 1."""
    both = len(claimed) + len(true)
    return 2 * len(claimed & true) / both if both else 1.0


def read_claims(raw: Any) -> Claims:
    """A dict of three parts as a set of claims; a part that isn't there claims nothing.

    "none" is no claim: a head with that label is left out, as if it had not been listed.
    Raises Unreadable, in the learner's words.
    """
    if raw is None:
        raise Unreadable(
            "returns_none",
            "Your function returned None. Did it print instead, or miss a `return`?",
        )
    if not isinstance(raw, Mapping):
        raise _wrong(f"A dict with the keys {_quoted(PARTS)} was asked for; {_kind(raw)} came.")
    for key in raw:
        if key not in PARTS:
            raise _wrong(f"{key!r} is no part of the answer; the keys are {_quoted(PARTS)}.")
    heads = raw.get("heads", {})
    if not isinstance(heads, Mapping):
        raise _wrong(f'"heads" must be a dict {{(layer, head): label}}; {_kind(heads)} came.')
    claims: set[Claim] = set()
    for address, label in heads.items():
        where = _numbers(address, 2, "a key (layer, head) of heads")
        if _label(label) != "none":
            claims.add(("heads", where, label))
    for item in _items(raw.get("skip_trigrams", ()), "skip_trigrams"):
        triple = _numbers(item, 3, "a skip-trigram (source, destination, output)")
        claims.add(("skip_trigrams", *triple))
    for item in _items(raw.get("compositions", ()), "compositions"):
        claims.add(("compositions", *_composition(item)))
    return frozenset(claims)


def _label(label: Any) -> str:
    if isinstance(label, str) and label in LABELS:
        return label
    near = difflib.get_close_matches(str(label).lower().replace("-", "_"), LABELS, 1, 0.5)
    guess = f' Did you mean "{near[0]}"?' if near else f" The labels are {_quoted(LABELS)}."
    raise Unreadable("unknown_label", f"No head can be labeled {label!r:.40}.{guess}")


def _composition(item: Any) -> Claim:
    form = '("Q", "K" or "V", (layer, head) read from, (layer, head) reading)'
    if not isinstance(item, tuple | list) or len(item) != 3 or not isinstance(item[0], str):
        raise _wrong(f"A composition is {form}; {item!r:.60} came.")
    kind = item[0].upper()
    if kind not in ("Q", "K", "V"):
        raise _wrong(f'A composition is of kind "Q", "K" or "V"; {item[0]!r:.20} came.')
    return (kind, *(_numbers(address, 2, "a head (layer, head)") for address in item[1:]))


def _items(raw: Any, name: str) -> list[Any]:
    if isinstance(raw, Tensor | np.ndarray):
        return list(raw.tolist())
    if isinstance(raw, tuple | list | set | frozenset):
        return list(raw)
    raise _wrong(f'"{name}" must be a list; {_kind(raw)} came.')


def _numbers(raw: Any, count: int, what: str) -> tuple[int, ...]:
    items = raw.tolist() if isinstance(raw, Tensor | np.ndarray) else raw
    if isinstance(items, tuple | list) and len(items) == count:
        plain = [
            i.item() if isinstance(i, Tensor | np.generic) and i.ndim == 0 else i for i in items
        ]
        if all(isinstance(i, int | float) and i == int(i) for i in plain):
            return tuple(int(i) for i in plain)
    raise _wrong(f"{what[:1].upper()}{what[1:]} was asked for; {raw!r:.60} came.")


def _wrong(message: str) -> Unreadable:
    return Unreadable("wrong_type", message)


def _kind(raw: Any) -> str:
    return f"a {type(raw).__name__}"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
