"""Notebook 05: the measures of induction, against loops and against heads that are perfect."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, close, draws, few, sizes
from torch import Tensor

from grader.circuits.induction_heads import (
    copying_effect,
    in_context_learning_score,
    k_composed_qk,
    loss_by_position,
    matching_score,
    phase_change_step,
    prefix_matching_score,
    previous_token_score,
    repeated_tokens,
)


def perfect_pattern(tokens: Tensor, shift: int) -> Tensor:
    """All attention, evenly, ``shift`` after each earlier copy of the present token; else at 0."""
    pos = len(tokens)
    pattern = torch.zeros(pos, pos, dtype=torch.float64)
    for dst in range(pos):
        copies = [s for s in range(dst) if tokens[s] == tokens[dst]]
        targets = [s + shift for s in copies if 0 <= s + shift <= dst] or [0]
        pattern[dst, targets] = 1 / len(targets)
    return pattern


class TestRepeatedTokens:
    @few
    @given(st.integers(1, 40), st.data(), st.integers(1, 5), st.integers(0, 2**31))
    def test_distinct_inside_a_period_and_the_same_in_each(
        self, d_vocab: int, data: st.DataObject, repeats: int, seed: int
    ) -> None:
        period = data.draw(st.integers(1, d_vocab))
        tokens = repeated_tokens(d_vocab, period, repeats, seed)
        assert tokens.shape == (period * repeats,)
        assert tokens.dtype == torch.int64
        assert len(set(tokens[:period].tolist())) == period
        assert 0 <= tokens.min() <= tokens.max() < d_vocab
        assert torch.equal(tokens.reshape(repeats, period), tokens[:period].expand(repeats, -1))
        assert torch.equal(tokens, repeated_tokens(d_vocab, period, repeats, seed))

    def test_every_id_is_possible_and_seeds_differ(self) -> None:
        seen = {tuple(repeated_tokens(5, 3, 1, seed).tolist()) for seed in range(300)}
        assert len(seen) == 60  # all 5·4·3 ordered choices

    def test_the_global_generators_are_left_alone(self) -> None:
        torch.manual_seed(1)
        before = torch.get_rng_state()
        repeated_tokens(9, 4, 2, 7)
        assert torch.equal(torch.get_rng_state(), before)

    def test_a_period_longer_than_the_vocabulary_is_refused(self) -> None:
        with pytest.raises(ValueError, match="distinct tokens needs d_vocab ≥ 6; 5 came"):
            repeated_tokens(5, 6, 2, 0)


@few
@given(draws, st.integers(2, 7), sizes)
def test_loss_by_position_is_minus_the_log_of_the_softmax(
    draw: Draw, pos: int, d_vocab: int
) -> None:
    logits, tokens = draw.normal(pos, d_vocab), draw.integers(d_vocab, pos)
    expected = [
        math.log(sum(math.exp(v) for v in logits[i].tolist())) - float(logits[i, tokens[i + 1]])
        for i in range(pos - 1)
    ]
    close(loss_by_position(logits, tokens), torch.tensor(expected, dtype=torch.float64))
    shifted = loss_by_position(logits + draw.normal(pos, 1), tokens)
    close(shifted, loss_by_position(logits, tokens))


class TestInContextLearningScore:
    def test_late_minus_early_is_negative_when_loss_falls(self) -> None:
        losses = torch.tensor([4.0, 3.0, 1.5], dtype=torch.float64)
        assert float(in_context_learning_score(losses, 0, 2)) == -2.5
        assert float(in_context_learning_score(losses, 2, 0)) == 2.5

    def test_positions_beyond_the_text_are_refused(self) -> None:
        with pytest.raises(ValueError, match="must lie in 0 … 2; 1 and 3 came"):
            in_context_learning_score(torch.zeros(3), 1, 3)


@few
@given(draws, st.integers(2, 9))
def test_previous_token_score_is_the_mean_below_the_diagonal(draw: Draw, pos: int) -> None:
    pattern = draw.pattern(pos, pos)
    expected = sum(float(pattern[i, i - 1]) for i in range(1, pos)) / (pos - 1)
    assert float(previous_token_score(pattern)) == pytest.approx(expected)


def test_previous_token_score_needs_two_positions() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        previous_token_score(torch.ones(1, 1))


class TestPrefixMatching:
    @few
    @given(draws, st.integers(4, 12), st.data())
    def test_sums_the_stripes_and_averages_the_rows(
        self, draw: Draw, pos: int, data: st.DataObject
    ) -> None:
        period = data.draw(st.integers(3, pos - 1))
        pattern = draw.normal(pos, pos).exp()  # not causal: what comes later must not count
        rows = []
        for dst in range(period, pos):
            hits = [s for s in range(dst) if (dst - s) % period == period - 1]
            rows.append(sum(float(pattern[dst, s]) for s in hits))
        expected = sum(rows) / len(rows)
        assert float(prefix_matching_score(pattern, period)) == pytest.approx(expected)

    @few
    @given(st.integers(3, 8), st.integers(2, 4), st.integers(0, 99))
    def test_one_for_induction_and_nothing_for_its_neighbours(
        self, period: int, repeats: int, seed: int
    ) -> None:
        tokens = repeated_tokens(20, period, repeats, seed)
        score = {
            shift: float(prefix_matching_score(perfect_pattern(tokens, shift), period))
            for shift in (-1, 0, 1, 2)
        }
        assert score[1] == pytest.approx(1.0)  # also where it is shared among several copies
        # Before the copy: the literal reading of the definition. At the copy: a duplicate-token head.
        assert score[-1] == pytest.approx(0, abs=1 / (period * (repeats - 1)))
        assert score[0] == score[2] == 0

    def test_leading_axes_are_separate_heads(self) -> None:
        pattern = Draw(3).pattern(2, 4, 9, 9)
        each = [[float(prefix_matching_score(p, 4)) for p in row] for row in pattern]
        close(prefix_matching_score(pattern, 4), torch.tensor(each, dtype=torch.float64))

    @pytest.mark.parametrize(
        ("period", "message"), [(2, "at least 3"), (9, "less than the 9 positions; 9 came")]
    )
    def test_periods_that_mean_nothing_are_refused(self, period: int, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            prefix_matching_score(torch.ones(9, 9), period)


class TestCopyingEffect:
    @few
    @given(draws, st.integers(1, 6), sizes, sizes, st.integers(1, 7))
    def test_counts_destinations_whose_source_is_raised(
        self, draw: Draw, pos: int, d_model: int, d_head: int, d_vocab: int
    ) -> None:
        pattern, x = draw.pattern(pos, pos), draw.normal(pos, d_model)
        W_V, W_O = draw.normal(d_model, d_head), draw.normal(d_head, d_model)
        W_U, tokens = draw.normal(d_model, d_vocab), draw.integers(d_vocab, pos)
        raised = 0
        for dst in range(pos):
            row = [
                sum(float(pattern[dst, s]) * float((x[s] @ W_V @ W_O @ W_U)[t]) for s in range(pos))
                for t in range(d_vocab)
            ]
            best = max(range(pos), key=lambda s: float(pattern[dst, s]))
            raised += row[int(tokens[best])] - sum(row) / d_vocab > 1e-12
        result = copying_effect(pattern, x, W_V, W_O, W_U, tokens)
        if d_vocab > 1:  # with one token every row less its mean is 0, or rounding
            assert float(result) == pytest.approx(raised / pos)

    def test_sign_of_the_ov_circuit_decides(self) -> None:
        tokens = torch.tensor([2, 0, 1, 1, 3])
        eye = torch.eye(4)
        pattern = torch.eye(5).roll(-1, dims=1).tril() + torch.tensor([1.0, 0, 0, 0, 0]).diag()
        assert float(copying_effect(pattern, eye[tokens], eye, eye, eye, tokens)) == 1.0
        assert float(copying_effect(pattern, eye[tokens], eye, -eye, eye, tokens)) == 0.0


class TestMatching:
    @few
    @given(draws, st.integers(1, 7), sizes, sizes)
    def test_is_the_circuit_entry_by_entry(
        self, draw: Draw, d_vocab: int, d_model: int, d_head: int
    ) -> None:
        W_E = draw.normal(d_vocab, d_model)
        W_Q, W_K = draw.normal(d_model, d_head), draw.normal(d_model, d_head)
        W_OV = draw.normal(d_model, d_model)
        expected = torch.zeros(d_vocab, d_vocab, dtype=torch.float64)
        for destination in range(d_vocab):
            for source in range(d_vocab):
                query, key = W_E[destination] @ W_Q, (W_E[source] @ W_OV) @ W_K
                expected[destination, source] = query @ key
        close(k_composed_qk(W_E, W_Q, W_K, W_OV), expected)
        eigenvalues = np.linalg.eigvals(expected.numpy())
        score = eigenvalues.sum().real / np.abs(eigenvalues).sum()
        assert float(matching_score(W_E, W_Q, W_K, W_OV)) == pytest.approx(score, abs=1e-6)


class TestPhaseChange:
    @staticmethod
    def sigmoid_curve(steps: int, at: float, width: float) -> list[float]:
        return [4 - 3.5 / (1 + math.exp(-(i - at) / width)) for i in range(steps)]

    @pytest.mark.parametrize("at", [60, 150, 320])
    def test_finds_the_middle_of_a_sudden_fall(self, at: int) -> None:
        # The mean of the last five lags two steps behind.
        assert abs(phase_change_step(self.sigmoid_curve(400, at, width=6.0)) - at - 2) <= 1

    def test_the_limit_is_fifteen_percent_between_a_quarter_and_three_quarters(self) -> None:
        """A logistic curve takes 2 ln 3 = 2.197 widths for that: 60 of 400 steps at width 27.3."""
        assert phase_change_step(self.sigmoid_curve(400, 200, width=26.5)) > 0
        assert phase_change_step(self.sigmoid_curve(400, 200, width=28.0)) == -1

    def test_a_slow_fall_is_none(self) -> None:
        assert phase_change_step(self.sigmoid_curve(400, 200, width=60.0)) == -1
        assert phase_change_step(torch.linspace(4, 1, 400)) == -1

    @pytest.mark.parametrize(
        "losses",
        [
            [1.0] * 50,
            [float(i) for i in range(50)],
            [3.0] * 25 + [math.nan] * 25,
            [math.inf] * 5 + [3.0] * 45,
        ],
        ids=["flat", "rising", "NaN", "infinite"],
    )
    def test_curves_without_a_fall(self, losses: list[float]) -> None:
        assert phase_change_step(losses) == -1

    @few
    @given(st.lists(st.floats(0, 10), min_size=5, max_size=60))
    def test_is_the_definition(self, losses: list[float]) -> None:
        m = {i: float(np.mean(np.array(losses[i - 4 : i + 1]))) for i in range(4, len(losses))}
        fall = m[4] - m[len(losses) - 1]
        expected = -1
        if fall > 1e-9:
            t = {p: min(i for i in m if m[i] <= m[4] - p * fall + 1e-12) for p in (0.25, 0.5, 0.75)}
            expected = t[0.5] if t[0.75] - t[0.25] <= 0.15 * len(losses) else -1
        if abs(fall) > 1e-9:
            assert phase_change_step(losses) == expected

    def test_four_losses_are_too_few(self) -> None:
        with pytest.raises(ValueError, match=r"5 steps or more; \(4,\) came"):
            phase_change_step([1.0, 2.0, 3.0, 4.0])
