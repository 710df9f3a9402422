"""Answers of every kind that a frame can carry: each is a verdict on the learner, none a fault of ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from grader import exercises
from grader.judge.judge import judge
from grader.judge.spec import Exercise
from grader.judge.verdict import Status
from grader.pupil.reply import Outcome, Reply, Series
from grader.pupil.wire import foreign, pack, unpack
from grader.transformer import Transformer

MODEL = Transformer.random(n_layers=1, n_heads=2, d_model=3, d_head=4, d_vocab=5, n_ctx=6)
IN_EVERY_RUN = {
    "causal_pattern", "loss_by_position", "low_rank_eigenvalues", "fold_value_bias",
}  # fmt: skip


def odd_answers(first: Tensor) -> dict[str, Any]:
    """first: an argument of the question, for answers of a likely shape."""
    floating = first.double()
    return {
        "none": None, "true": True, "int": 3, "huge int": 10**300, "nan": float("nan"), "complex": 1j,
        "text": "x" * 1000, "empty list": [], "ragged": [[1, 2], [3]], "texts": ["a", "b"],
        "dict": {1: 2}, "weights": {n: torch.zeros(2, 2) for n in MODEL.weights()}, "model": MODEL,
        "set": {1, (1, 2)}, "frozenset": frozenset({"a", 1.5}), "numpy": np.full((2, 3), 1e308),
        "numpy bool": np.array([True]), "numpy complex": np.array([1j]),
        "numpy bytes": np.arange(4, dtype=np.uint8), "scalar": torch.tensor(float("nan")),
        "half": torch.zeros(3, dtype=torch.bfloat16), "quarter": torch.zeros(3).to(torch.float8_e4m3fn),
        "unsigned": torch.zeros(3, dtype=torch.uint64), "meta": torch.empty(2, 3, device="meta"),
        "sparse": torch.zeros(2, 3).to_sparse(), "empty": torch.zeros(0, 3, 0),
        "generator": foreign("generator"), "argument": first, "argument, NaN": floating * torch.nan,
        "argument, infinite": floating * torch.inf, "argument, complex": floating + 0j,
        "argument, huge": torch.full(first.shape, 1e308, dtype=torch.float64),
        "pair": (first, first), "three": (None, first, "x"), "arguments": [first, torch.zeros(2)],
        "many axes": torch.zeros([1] * 30), "nested": ([[[[[1]]]]],), "models": [MODEL, MODEL],
    }  # fmt: skip


class Odd:
    """A guarded pupil that has one kind of answer to everything."""

    guarded = True

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def ahead(self, many: Sequence[Series]) -> dict[str, list[Reply]]:
        return {}

    def replies(self, series: Series) -> Iterator[Reply]:
        for args, _ in series.asks:
            first = next((a for a in args if isinstance(a, Tensor)), torch.zeros(3))
            yield Reply(Outcome.ANSWERED, unpack(pack(odd_answers(first)[self.kind])))


def quick(exercise: Exercise) -> bool:
    return exercise.budget.wall <= 30


ASKED = [exercise for exercise in exercises.registry().values() if quick(exercise)]


@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(e, id=e.name, marks=[] if e.name in IN_EVERY_RUN else [pytest.mark.long])
        for e in ASKED
    ],
)
def test_no_odd_answer_is_a_fault_of_the_graders(exercise: Exercise) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's on what it thinks of sparse tensors
        verdicts = {kind: judge(exercise, Odd(kind), 3) for kind in odd_answers(torch.zeros(2))}
    faults = {kind: v for kind, v in verdicts.items() if v.status is Status.GRADER_ERROR}
    assert faults == {}
    assert {kind: v.points for kind, v in verdicts.items() if v.points} == {}


def test_the_exercises_named_here_exist() -> None:
    assert {e.name for e in ASKED} >= IN_EVERY_RUN
