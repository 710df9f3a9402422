"""Notebook 06's exercises: which slips only cases made for them can show, and what still passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.exercises.path_importance import EXERCISES
from grader.exercises.path_importance.common import losses, parts, questions, unfrozen
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess
from grader.transformer import Transformer

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}
SEEDS = range(4)


def verdict(name: str, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(BY_NAME[name], InProcess({name: answer}), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_cases_make_unfrozen_patterns_show_at_order_one(seed: int) -> None:
    gaps = []
    for tokens, model, _ in questions(Draw(seed)):
        right, anew = parts(tokens, model), parts(tokens, model, unfrozen(tokens, model))
        one, other = losses(tokens, right.direct + right.order_1, anew.direct + anew.order_1)
        gaps.append(float((one - other).abs()))
        torch.testing.assert_close(right.full, model(tokens), atol=1e-3, rtol=1e-3)
    assert max(gaps) > 0.02


def test_an_answer_right_at_both_ends_only_is_told_to_freeze() -> None:
    """The paper's procedure, run anew each time: orders 0 and 2 come out right."""

    def answer(tokens: Tensor, model: Transformer) -> list[float]:
        saved, found = [torch.zeros(len(tokens), model.d_model).to(model.W_E)] * 2, []
        for _ in range(3):
            x, computed = model.W_E[tokens], []
            for layer in (0, 1):
                asking = model.qk_input(x)
                scores = asking @ model.W_Q[layer] @ (asking @ model.W_K[layer]).mT
                hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
                scores = (scores / model.d_head**0.5).masked_fill(hidden, -torch.inf)
                heads = scores.softmax(dim=-1) @ x @ model.W_V[layer] @ model.W_O[layer]
                computed.append(heads.sum(dim=0))
                x = x + saved[layer]
            saved = computed
            logits = x @ model.W_U
            found.append(float(torch.nn.functional.cross_entropy(logits[:-1], tokens[1:])))
        return found

    assert verdict("term_importance", answer).mistake == "patterns_not_frozen"


def test_one_effect_right_earns_half() -> None:
    exercise = BY_NAME["marginal_effect"]

    def answer(tokens: Tensor, model: Transformer, layer: int) -> tuple[Tensor, Tensor]:
        alone, _ = exercise.reference(tokens, model, layer)
        return alone, alone + 1

    found = verdict("marginal_effect", answer)
    assert found.status is Status.PARTIAL
    assert 0 < found.points < exercise.points


@pytest.mark.parametrize("constant", [-3.0, 0.5])
def test_attribution_is_blind_to_what_all_logits_share(constant: float) -> None:
    reference = BY_NAME["direct_logit_attribution"].reference

    def answer(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
        shared = constant * torch.ones(1, W_U.shape[1], dtype=W_U.dtype)
        result: Tensor = reference(components, W_U + shared, tokens)
        return result

    assert verdict("direct_logit_attribution", answer).status is Status.PASS


def test_weighing_by_the_destination_is_named_though_some_cases_refuse_it() -> None:
    def answer(pattern: Tensor, v: Tensor) -> Tensor:
        return (pattern.T * v.norm(dim=1)).T

    found = verdict("value_weighted_pattern", answer)
    assert not found.passed
    assert (
        verdict(
            "value_weighted_pattern", lambda pattern, v: pattern * v.norm(dim=1)[:, None]
        ).mistake
        == "destinations_weighed"
    )
