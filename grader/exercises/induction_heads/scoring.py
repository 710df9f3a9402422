"""Scores that give a head its name: previous token, prefix matching, copying."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import induction_heads as reference
from grader.exercises.induction_heads.repeating import NOTEBOOK
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

FOLLOW_UP = "In-context Learning and Induction Heads (2022)"


# --- previous_token_score ------------------------------------------------------------------------


def _previous_cases(draw: Draw) -> Iterator[Case]:
    pos = draw.integer(6, 10)
    yield Case((draw.pattern(pos, pos),))
    double = Draw(draw.seed, torch.float64)
    yield Case((double.pattern(pos + 3, pos + 3),), "in float64")
    yield Case((draw.pattern(2, 2),), "with two positions")
    one_back = torch.diag(torch.ones(pos - 1), -1)
    one_back[0, 0] = 1.0
    mixed = 0.8 * one_back + 0.2 * draw.pattern(pos, pos).float()
    yield Case((mixed,), "for a head that looks one back most of the time")


PREVIOUS_TOKEN_SCORE = Exercise(
    reference=reference.previous_token_score,
    notebook=NOTEBOOK,
    title="A score for previous-token heads",
    paper=FOLLOW_UP,
    points=1,
    minutes=5,
    difficulty=1,
    cases=_previous_cases,
    compare=Comparator(),
    hints=(
        "Where in the table do the entries stand whose source is one before the destination?",
        "They form a diagonal just below the main one. Row 0 has no entry there: count the rest only.",
    ),
    mistakes=(
        Mistake(
            "main_diagonal",
            lambda pattern: pattern.diagonal().mean(),
            "This is the attention of each position to *itself*. The previous token is one to the left.",
        ),
        Mistake(
            "diagonal_above",
            lambda pattern: pattern.diagonal(1).mean(),
            "This diagonal lies above the main one, in the future, where a causal pattern is 0. Rows "
            "are destinations: the past is to the left.",
            facts=(92,),
        ),
        Mistake(
            "two_back",
            lambda pattern: pattern.diagonal(-2).mean(),
            "This is the attention to the token two back.",
        ),
        Mistake(
            "row_0_counted",
            lambda pattern: pattern.diagonal(-1).sum() / len(pattern),
            "The sum is right, but it is divided by the number of positions. Position 0 has nothing "
            "before it and takes no part.",
            facts=(95,),
        ),
        Mistake(
            "first_position_looks_at_itself",
            lambda pattern: (pattern.diagonal(-1).sum() + pattern[0, 0]) / len(pattern),
            "Position 0 was counted with its attention to itself. It has no previous token: leave it out.",
        ),
        Mistake(
            "summed",
            lambda pattern: pattern.diagonal(-1).sum(),
            "This is the sum. The score is a mean, so that it does not grow with the text.",
            facts=(12,),
        ),
        Mistake(
            "columns_renormalized",
            lambda pattern: (pattern / pattern.sum(dim=0)).diagonal(-1).mean(),
            "Columns were brought to sum 1. The attention of a destination is a row, and that sums to "
            "1 already.",
        ),
    ),
    variants=(
        Variant(
            "loop",
            lambda pattern: (
                sum(float(pattern[i, i - 1]) for i in range(1, len(pattern))) / (len(pattern) - 1)
            ),
            facts=("E", "N"),
        ),
        Variant("slices", lambda p: p[1:, :-1].diagonal().mean(), facts=("E",)),
        Variant("numpy", lambda p: np.diag(p.double().numpy(), -1).mean(), facts=("N",)),
        Variant(
            "indexing",
            lambda p: p[torch.arange(1, len(p)), torch.arange(len(p) - 1)].mean(),
            facts=("E",),
        ),
    ),
)


# --- prefix_matching_score -----------------------------------------------------------------------


def _perfect(pos: int, period: int) -> Tensor:
    """A head that shares its attention evenly among all positions after earlier copies."""
    after = _stripes(pos, lambda back: back % period == period - 1)
    after[:, 0] += (after.sum(dim=-1) == 0).float()
    return after / after.sum(dim=-1, keepdim=True)


def _prefix_cases(draw: Draw) -> Iterator[Case]:
    period = draw.integer(4, 6)
    pos = 3 * period + draw.integer(1, period - 1)
    yield Case((draw.pattern(pos, pos), period), "where the text breaks off inside the fourth copy")
    double = Draw(draw.seed, torch.float64)
    yield Case((double.pattern(2 * period + 2, 2 * period + 2), period + 1), "in float64")
    yield Case((draw.pattern(9, 9), 3), "with a period of three")
    yield Case(
        (draw.pattern(period + 1, period + 1), period), "with one position in the second copy"
    )
    yield Case((_perfect(4 * period, period), period), "for a head that shares evenly among copies")


def _stripes(pos: int, where: Callable[[Tensor], Tensor]) -> Tensor:
    """1 where ``where(dst − src)`` holds and the source is earlier, else 0."""
    back = torch.arange(pos)[:, None] - torch.arange(pos)
    return ((back > 0) & where(back)).float()


def _scored(
    where: Callable[[Tensor, int], Tensor], first_row: Callable[[int], int] = lambda period: period
) -> Callable[[Tensor, int], Tensor]:
    """Row sums over other stripes, or over other rows."""

    def answer(pattern: Tensor, period: int) -> Tensor:
        mask = _stripes(len(pattern), lambda back: where(back, period)).to(pattern.dtype)
        return (pattern * mask)[first_row(period) :].sum(dim=-1).mean()

    return answer


def _after_a_copy(back: Tensor, period: int) -> Tensor:
    return back % period == period - 1


def _mean_of_entries(pattern: Tensor, period: int) -> Tensor:
    mask = _stripes(len(pattern), lambda back: _after_a_copy(back, period)).bool()
    mask[:period] = False
    return pattern[mask].mean()


def _all_rows(pattern: Tensor, period: int) -> Tensor:
    mask = _stripes(len(pattern), lambda back: _after_a_copy(back, period)).to(pattern.dtype)
    mask[:period] = 0.0
    return (pattern * mask).sum(dim=-1).mean()


def _best_copy(pattern: Tensor, period: int) -> Tensor:
    mask = _stripes(len(pattern), lambda back: _after_a_copy(back, period)).to(pattern.dtype)
    return (pattern * mask)[period:].amax(dim=-1).mean()


def _prefix_by_loop(pattern: Tensor, period: int) -> float:
    rows = [
        sum(float(pattern[d, s]) for s in range(d) if (d - s) % period == period - 1)
        for d in range(period, len(pattern))
    ]
    return sum(rows) / len(rows)


def _prefix_by_diagonals(pattern: Tensor, period: int) -> Tensor:
    total = pattern.new_zeros(())
    for back in range(period - 1, len(pattern), period):
        stripe = pattern.diagonal(-back)
        total = total + stripe[max(0, period - back) :].sum()
    return total / (len(pattern) - period)


def _prefix_by_tokens(pattern: Tensor, period: int) -> Tensor:
    """By the token before each source: position 0 has none, and drops out."""
    tokens = (torch.arange(len(pattern)) % period).tolist()
    score = pattern.new_zeros(())
    for d in range(period, len(pattern)):
        sources = [s for s in range(1, d) if tokens[s - 1] == tokens[d]]
        score = score + pattern[d, sources].sum()
    return score / (len(pattern) - period)


PREFIX_MATCHING_SCORE = Exercise(
    reference=reference.prefix_matching_score,
    notebook=NOTEBOOK,
    title="A score for prefix matching",
    paper=FOLLOW_UP,
    points=4,
    minutes=20,
    difficulty=2,
    cases=_prefix_cases,
    compare=Comparator(),
    hints=(
        "Write the tokens of two short periods in a row, say a b c d a b c d, and pick one destination "
        "in the second copy. Which source does an induction head want, and how many steps back is it?",
        "An earlier copy of the present token is a whole number of periods back, and the wanted source "
        "stands one later. So it is all sources with dst − src one less than a multiple of the period.",
        "For each row from `period` on, *add up* the attention on those sources; then take the mean of "
        "the rows. `dst − src` for all pairs is a column of positions less a row of positions.",
    ),
    mistakes=(
        Mistake(
            "looks_at_the_copy",
            _scored(lambda back, p: back % p == 0),
            "You follow the stripe of the earlier copy itself. That is what a duplicate-token head "
            "looks at. An induction head looks at what came *after* the copy.",
            facts=(89, 99),
        ),
        Mistake(
            "one_before_the_copy",
            _scored(lambda back, p: (back % p == 1) & (back > p)),
            "Your stripe points one position *before* the earlier copy. The definition in the paper of "
            "2022 was once worded like this and was corrected; a perfect head scores 0 by it.",
            facts=(90,),
        ),
        Mistake(
            "two_after_the_copy",
            _scored(lambda back, p: back % p == p - 2),
            "Your stripe points two positions after the earlier copy. Count once more on a b c d a b c d.",
            facts=(91,),
        ),
        Mistake(
            "in_the_future",
            lambda pattern, period: pattern.diagonal(period - 1)[1:].sum() * 0.0,
            "The answer is exactly 0: this stripe lies above the diagonal, in the future. Rows are "
            "destinations, so earlier sources are to the left.",
            facts=(92,),
        ),
        Mistake(
            "start_token_assumed",
            _scored(_after_a_copy, lambda period: period + 1),
            "The first row that counts is missing. Did you leave room for a start token? There is none, "
            "so row `period` already sees an earlier copy of its token.",
            facts=(93,),
        ),
        Mistake(
            "whole_stripe",
            _scored(_after_a_copy, lambda period: period - 1),
            "Row period − 1 was counted as well. The stripe does begin there, but in the first copy "
            "nothing has been seen before, so nothing is matched.",
            facts=(94,),
        ),
        Mistake(
            "all_rows_counted",
            _all_rows,
            "The mean runs over all rows. In the first copy there is nothing to match: those rows can "
            "only pull the score down.",
            facts=(95,),
        ),
        Mistake(
            "mean_of_entries",
            _mean_of_entries,
            "You took the mean of the entries. With several earlier copies a head may share its "
            "attention among them: add up inside each row first, then average the rows.",
            facts=(96,),
        ),
        Mistake(
            "latest_copy_only",
            _scored(lambda back, p: back == p - 1),
            "Only the nearest earlier copy counts here. A head that looks after an older copy matches "
            "the prefix just as well.",
            facts=(96,),
        ),
        Mistake(
            "best_copy_only",
            _best_copy,
            "In each row only the largest entry was taken. A head may share its attention among "
            "several copies: add them up.",
            facts=(96,),
        ),
        Mistake(
            "summed_over_rows",
            lambda pattern, period: (
                _scored(_after_a_copy)(pattern, period) * (len(pattern) - period)
            ),
            "The rows were added up. Take their mean, so that the score lies between 0 and 1.",
            facts=(12,),
        ),
        Mistake(
            "position_0_left_out",
            _prefix_by_tokens,
            "Position 0 is missing among the sources. No copy stands before it, but where the last "
            "token of a period looks there, it looks one less than a multiple of the period back, and "
            "that is the rule.",
        ),
        Mistake(
            "pattern_transposed",
            lambda pattern, period: _scored(_after_a_copy)(pattern.T, period),
            "The pattern was read with sources as rows. Rows are destinations.",
            facts=(42, 92),
            same_as=("in_the_future",),
        ),
    ),
    variants=(
        Variant("loop", _prefix_by_loop, facts=("E", "N")),
        Variant("diagonals", _prefix_by_diagonals, facts=("E",)),
        Variant(
            "numpy", lambda p, period: np.float64(_prefix_by_loop(p.double(), period)), facts=("N",)
        ),
    ),
)


# --- copying_effect ------------------------------------------------------------------------------


def _copying_cases(draw: Draw) -> Iterator[Case]:
    def case(pos: int, d_vocab: int, d_model: int, d_head: int, by: Draw, label: str = "") -> Case:
        """A head that copies more than it doesn't, on a stream that also holds other things."""
        tokens = draw.tokens(pos, d_vocab=d_vocab)
        W_E = by.normal(d_vocab, d_model)
        x = W_E[tokens] + by.normal(pos, d_model, scale=0.7)
        W_V = by.normal(d_model, d_head, scale=d_model**-0.5)
        W_O = W_V.T + by.normal(d_head, d_model, scale=0.5 * d_model**-0.5)
        common = by.normal(d_model, 1)  # moves all logits of a row together
        W_U = W_E.T + by.normal(d_model, d_vocab, scale=0.5) + 2.0 * common
        return Case((by.pattern(pos, pos, spread=2.5), x, W_V, W_O, W_U, tokens), label)

    d_vocab, d_model, d_head = draw.sizes(3, 5, 11)
    pos = draw.integer(40, 52)
    yield case(pos, d_vocab, d_model, d_head, draw)
    n = draw.integer(24, 30)
    yield case(n, n, n, n, draw, "where all sizes are equal")
    double = Draw(draw.seed, torch.float64)
    yield case(pos, d_vocab + 9, d_model, 1, double, "with d_head 1, in float64")
    yield case(1, d_vocab, d_model, d_head, draw, "with a single position")


def _direct(pattern: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    logits: Tensor = pattern @ x @ W_V @ W_O @ W_U
    return logits - logits.mean(dim=-1, keepdim=True)


def _share(logits: Tensor, chosen: Tensor) -> Tensor:
    return (logits.gather(-1, chosen[:, None]) > 0).to(logits.dtype).mean()


Answer = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _of(make: Callable[..., Tensor]) -> Answer:
    """``make(logits as asked, pattern, tokens)``: the head's logits are right, the rest is not."""

    def answer(p: Tensor, x: Tensor, v: Tensor, o: Tensor, u: Tensor, t: Tensor) -> Tensor:
        return make(_direct(p, x, v, o, u), p, t)

    return answer


def _with(make: Callable[..., Tensor]) -> Answer:
    """``make(pattern, x, W_V, W_O, W_U)``: the logits are wrong, the rest is right."""

    def answer(p: Tensor, x: Tensor, v: Tensor, o: Tensor, u: Tensor, t: Tensor) -> Tensor:
        return _share(make(p, x, v, o, u), t[p.argmax(dim=-1)])

    return answer


def _centered(logits: Tensor) -> Tensor:
    return logits - logits.mean(dim=-1, keepdim=True)


def _copying_by_loop(
    pattern: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor, tokens: Tensor
) -> float:
    table = (pattern.double() @ x.double() @ W_V.double() @ W_O.double() @ W_U.double()).numpy()
    seen = tokens[pattern.argmax(dim=1)].tolist()
    return sum(row[t] > row.mean() for row, t in zip(table, seen, strict=True)) / len(seen)


def _copying_by_circuit(
    pattern: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor, tokens: Tensor
) -> Tensor:
    logits = torch.einsum("ij,jd,de,ev->iv", pattern, x, W_V @ W_O, W_U)
    own = logits[torch.arange(len(tokens)), tokens[pattern.max(dim=1).indices]]
    return (own > logits.mean(dim=1)).double().mean()


COPYING_EFFECT = Exercise(
    reference=reference.copying_effect,
    notebook=NOTEBOOK,
    title="Does it raise what it looks at?",
    paper=FOLLOW_UP,
    points=3,
    minutes=15,
    difficulty=2,
    cases=_copying_cases,
    compare=Comparator(),
    hints=(
        "Three steps: the head's own logits, the token it looks at most at each destination, and a "
        "yes or no whether that token was raised.",
        "A softmax does not see what is added to a whole row of logits. So raised means: above the "
        "mean of its row.",
        "The argmax of a row of the pattern is a *position*. Look up which token stands there, then "
        "pick that token's logit in the same row. The share of positive ones is the answer.",
    ),
    mistakes=(
        Mistake(
            "mean_not_removed",
            _with(lambda p, x, v, o, u: p @ x @ v @ o @ u),
            "The logits are compared with 0. A head that adds the same to all tokens changes nothing: "
            "take each row's mean off first.",
            facts=(109,),
        ),
        Mistake(
            "mean_over_positions",
            _with(lambda p, x, v, o, u: (p @ x @ v @ o @ u) - (p @ x @ v @ o @ u).mean(dim=0)),
            "The mean was taken over the positions. Raised means: above the other tokens at the same "
            "position.",
            facts=(9,),
        ),
        Mistake(
            "token_of_the_destination",
            _of(lambda logits, p, t: _share(logits, t)),
            "This asks about the token at the destination. Copying is about the token that the head "
            "looks at.",
        ),
        Mistake(
            "position_taken_for_token",
            _of(lambda logits, p, t: _share(logits, p.argmax(dim=-1) % logits.shape[-1])),
            "The argmax of the pattern is a position, and it was used as a token id. Which token "
            "stands at that position?",
        ),
        Mistake(
            "token_after_the_attended",
            _of(
                lambda logits, p, t: _share(logits, t[(p.argmax(dim=-1) + 1).clamp_max(len(t) - 1)])
            ),
            "This asks about the token one after the one that is looked at. The head already looks at "
            "what follows the earlier copy; no further step is needed.",
            facts=(90,),
        ),
        Mistake(
            "largest_of_the_column",
            _of(lambda logits, p, t: _share(logits, t[p.argmax(dim=0)])),
            "The largest entry was taken down each column. A destination's attention is a row.",
            facts=(42,),
        ),
        Mistake(
            "pattern_transposed",
            _with(lambda p, x, v, o, u: _centered(p.T @ x @ v @ o @ u)),
            "The pattern is turned over on the way to the logits: rows are destinations.",
            facts=(42,),
        ),
        Mistake(
            "ov_transposed",
            _with(lambda p, x, v, o, u: _centered(p @ x @ o.T @ v.T @ u)),
            "The head reads with W_O and writes with W_V here. Rows are read by W_V and written by W_O.",
            facts=(37,),
        ),
        Mistake(
            "pattern_left_out",
            _with(lambda p, x, v, o, u: _centered(x @ v @ o @ u)),
            "These are the logits of each position's own value, not of what the head gathers. The "
            "pattern must mix the rows.",
        ),
        Mistake(
            "stream_added",
            _with(lambda p, x, v, o, u: _centered((x + p @ x @ v @ o) @ u)),
            "The stream is in it too. The score is about the head's *own* direct effect on the logits.",
            facts=(43,),
        ),
        Mistake(
            "must_be_the_largest",
            _of(
                lambda logits, p, t: (
                    (logits.argmax(dim=-1) == t[p.argmax(dim=-1)]).to(logits.dtype).mean()
                )
            ),
            "You ask whether the attended token wins. Here it is enough that it is raised at all.",
            facts=(77,),
        ),
        Mistake(
            "mean_logit",
            _of(lambda logits, p, t: logits.gather(-1, t[p.argmax(dim=-1)][:, None]).mean()),
            "This is the mean of the logits. The score counts: the share of destinations at which the "
            "attended token is raised.",
            facts=(106,),
        ),
        Mistake(
            "every_source_weighted",
            _of(lambda logits, p, t: (p * (logits[:, t] > 0)).sum(dim=-1).mean()),
            "All sources were counted, weighted by attention. Here only the most attended one counts "
            "at each destination.",
        ),
    ),
    variants=(
        Variant("loop_in_double", _copying_by_loop, facts=("E", "N")),
        Variant("through_the_ov_circuit", _copying_by_circuit, facts=("E",)),
    ),
)
