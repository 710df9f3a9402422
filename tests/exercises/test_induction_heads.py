"""What is special about notebook 05's exercises; the rules for all exercises are tested elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import induction, previous_token
from grader.circuits.induction_heads import (
    find_induction_heads,
    phase_change_step,
    prefix_matching_score,
    repeated_tokens,
)
from grader.circuits.one_layer import copying_score
from grader.exercises.induction_heads import EXERCISES
from grader.exercises.induction_heads.finding import KINDS, POOL, _compiled
from grader.exercises.induction_heads.training import _curve_cases, _learns, _two_layers
from grader.judge.draw import Draw
from grader.judge.judge import judge
from grader.judge.spec import Case
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess
from grader.transformer import Transformer

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}


def verdict(name: str, answer: Callable[..., Any], seed: int = 0) -> Verdict:
    return judge(BY_NAME[name], InProcess({name: answer}), seed)


def test_tokens_that_come_from_no_seed_are_told() -> None:
    def unseeded(d_vocab: int, period: int, repeats: int, seed: int) -> Tensor:
        generator = torch.Generator()
        generator.seed()
        return torch.randperm(d_vocab, generator=generator)[:period].repeat(repeats)

    assert verdict("repeated_tokens", unseeded).mistake == "not_deterministic"


def test_tokens_from_the_global_generator_are_told() -> None:
    def reseeding(d_vocab: int, period: int, repeats: int, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return torch.randperm(d_vocab)[:period].repeat(repeats)

    assert verdict("repeated_tokens", reseeding).mistake == "touches_global_rng"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(0, POOL, 3))
def test_every_head_to_be_found_or_not_is_clearly_one_or_the_other(kind: str, number: int) -> None:
    """The promise of the prompt, at a short, a middle and a long period."""
    model = _compiled(kind, number)
    copying = copying_score(model.W_E, model.W_V, model.W_O, model.W_U)
    found = find_induction_heads(model)
    assert len(found) == {"none": 0, "two": 2}.get(kind, 1)
    for period in (4, 7, min(model.d_vocab, model.n_ctx // 2)):
        tokens = repeated_tokens(model.d_vocab, period, model.n_ctx // period, 3)
        matching = prefix_matching_score(model.run_with_cache(tokens)[1].pattern, period)
        for layer in range(model.n_layers):
            for head in range(model.n_heads):
                scores = float(matching[layer, head]), float(copying[layer, head])
                if (layer, head) in found:
                    assert scores[0] >= 0.7
                    assert scores[1] >= 0.5
                else:
                    assert scores[0] <= 0.2 or scores[1] <= 0.0


def test_a_head_that_is_nearly_sharp_enough_is_refused() -> None:
    def nearly(n_ctx: int, d_model: int, d_head: int) -> Any:
        W_pos, W_Q, W_K = BY_NAME["previous_token_head"].reference(n_ctx, d_model, d_head)
        return W_pos, W_Q * 0.3, W_K  # a lead of 2 nats: about 0.8 on the previous position

    found = verdict("previous_token_head", nearly)
    assert found.status is Status.WRONG
    assert found.mistake == "not_sharp_enough"


def test_induction_that_works_otherwise_earns_half() -> None:
    pointing = BY_NAME["induction_by_pointer_arithmetic"].reference
    found = verdict("induction_by_k_composition", pointing)
    assert (found.status, found.mistake) == (Status.PARTIAL, "not_by_keys")
    assert found.points == BY_NAME["induction_by_k_composition"].points / 2


def test_a_noisy_model_by_hand_passes() -> None:
    def noisy(d_vocab: int, n_ctx: int) -> Transformer:
        layers = [[previous_token()], [induction((0, 0))]]
        return compile_model(layers, d_vocab=d_vocab, n_ctx=n_ctx, seed=4, noise=0.003).model

    assert verdict("induction_by_k_composition", noisy).status is Status.PASS


def test_training_is_judged_by_layers_accuracy_and_losses() -> None:
    model, losses = _two_layers(0, 2)
    told, two, one = (
        torch.tensor(losses),
        Case((0, 2), "", {"seed": 5}),
        Case((0, 1), "", {"seed": 5}),
    )
    assert _learns((model, told), None, two) == (True, True)
    assert _learns((model, told), None, one) == (False, False)
    assert _learns((model, told + 1.0), None, two) == (True, False)
    assert _learns((model, told * torch.nan), None, two) == (True, False)


@pytest.mark.parametrize("seed", range(6))
def test_curves_hold_sudden_slow_and_rising_ones(seed: int) -> None:
    answers = {case.label: phase_change_step(case.args[0]) for case in _curve_cases(Draw(seed))}
    assert answers["for a sudden fall"] > 0
    assert answers["for a noisy fall, as a tensor"] > 0
    assert answers["for a long training"] > 0
    assert answers["for a slow fall"] == answers["for a curve that rises"] == -1
