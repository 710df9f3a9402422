"""A previous-token head, written by hand and judged by where it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import cos, pi, sqrt
from typing import Any

import torch
from torch import Tensor

from grader.circuits import induction_heads as reference
from grader.exercises.induction_heads.repeating import NOTEBOOK
from grader.judge.comparators import Property
from grader.judge.draw import Draw
from grader.judge.reading import read_like
from grader.judge.spec import Case, Exercise, Mistake, Variant

PAPER = "How Induction Heads Work"
ENOUGH = 0.95

Weights = tuple[Tensor, Tensor, Tensor]


def _cases(draw: Draw) -> Iterator[Case]:
    n_ctx, d_model, d_head = draw.integer(20, 40), *draw.sizes(2, 3, 9)
    yield Case((n_ctx, d_model, d_head))
    n = draw.integer(5, 9)
    yield Case((n, n, n), "where all sizes are equal")
    yield Case((128, 2, 2), "with 128 positions in two dimensions")
    yield Case((2, d_model, d_head), "with two positions")
    yield Case((draw.integer(70, 100), 16, 12), "with many positions and a large head")


def _read(raw: Any, expected: Any, case: Case) -> Weights:
    n_ctx, d_model, d_head = case.args
    reads = torch.empty(d_model, d_head)
    weights: Weights = read_like(raw, (torch.empty(n_ctx, d_model), reads, reads))
    return weights


def _scores(value: Weights) -> Tensor:
    """(dst, src) at zero content, before the mask."""
    W_pos, W_Q, W_K = value
    return (W_pos @ W_Q) @ (W_pos @ W_K).T / sqrt(W_Q.shape[1])


def _pattern(scores: Tensor) -> Tensor:
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1)


def _looks_one_back(value: Weights, expected: Any, case: Case) -> bool:
    return bool((_pattern(_scores(value)).diagonal(-1) >= ENOUGH).all())


def _mostly(value: Weights, offset: int) -> bool:
    """Without the mask, most rows that could prefer the position ``offset`` back."""
    best, rows = _scores(value).argmax(dim=-1), torch.arange(len(value[0]))
    possible = (rows >= offset) & (rows - offset < len(rows))
    return bool((best == rows - offset)[possible].double().mean() > 0.5)


def _too_soft(value: Weights, case: Case) -> bool:
    share = _pattern(_scores(value)).diagonal(-1)
    left = _pattern(_scores(value)).tril(-2).amax(dim=-1)[1:]
    return bool((share >= left - 1e-9).double().mean() > 0.9)


def _comes_round(value: Weights, case: Case) -> bool:
    """Some position far back looks just like the previous one."""
    scores = _scores(value)
    wanted = scores.diagonal(-1)[2:, None]
    rival = scores[3:].tril(1)  # row dst: sources up to dst − 2
    near = (rival - wanted).abs() <= 1e-3 * wanted.abs().clamp_min(1.0)
    return bool(near.tril(1).any(dim=-1).double().mean() > 0.2)  # 1 row of 4 with seven positions


def _rows_without_code(value: Weights, case: Case) -> bool:
    return bool((value[0].norm(dim=-1) == 0).any())


def _circle(
    n_ctx: int, d_model: int, d_head: int, *, back: float = 1.0, theta: float | None = None,
    lead: float = 12.0,
) -> Weights:  # fmt: skip
    """Positions on a circle, the query turned back by ``back`` steps."""
    theta = 2 * pi / n_ctx if theta is None else theta
    gain = lead / max(1 - cos(theta), 1e-12)
    angle = theta * torch.arange(n_ctx, dtype=torch.float64)
    W_pos = torch.zeros(n_ctx, d_model, dtype=torch.float64)
    W_pos[:, :2] = torch.stack([angle.cos(), angle.sin()], dim=1)
    turn = torch.tensor(back * theta, dtype=torch.float64)
    W_Q, W_K = torch.zeros(2, d_model, d_head, dtype=torch.float64)
    W_Q[:2, :2] = torch.stack([turn.cos(), -turn.sin(), turn.sin(), turn.cos()]).reshape(2, 2)
    W_K[:2, :2] = torch.eye(2)
    return W_pos, W_Q * gain * sqrt(d_head), W_K


def _turned(**changed: float) -> Callable[[int, int, int], Weights]:
    return lambda n, m, h: _circle(n, m, h, **changed)


def _one_hot(n_ctx: int, d_model: int, d_head: int) -> Weights:
    W_pos = torch.eye(n_ctx, d_model)
    W_Q, W_K = torch.zeros(2, d_model, d_head)
    k = min(d_model, d_head)
    W_K[:k, :k] = torch.eye(k)
    W_Q[1:k, : k - 1] = 40.0 * torch.eye(k - 1)
    return W_pos, W_Q, W_K


def _keys_turned(n_ctx: int, d_model: int, d_head: int) -> Weights:
    """The other side turned, by one step forward, and in float32."""
    W_pos, W_Q, W_K = _circle(n_ctx, d_model, d_head, back=-1.0)
    return W_pos.float(), W_K.float(), W_Q.float()


def _parabola(n_ctx: int, d_model: int, d_head: int) -> Weights:
    """No circle: (p, p²)-like scores −g (dst − 1 − src)², less what is constant in a row.

    g (2 (dst − 1) src − src²) needs (1, p) from the query and (src, src²) from the key: with an
    always-1 it takes three numbers of the position in two dimensions, so src² is written as such.
    """
    p = torch.arange(n_ctx, dtype=torch.float64)
    W_pos = torch.zeros(n_ctx, d_model, dtype=torch.float64)
    W_pos[:, 0], W_pos[:, 1] = p, p.square()
    if d_model >= 3 and d_head >= 2:
        W_pos[:, 2] = 1.0
        W_Q, W_K = torch.zeros(2, d_model, d_head, dtype=torch.float64)
        W_Q[0, 0], W_Q[2, 0], W_Q[2, 1] = 2.0, -2.0, -1.0
        W_K[0, 0], W_K[1, 1] = 1.0, 1.0
        return W_pos, 12.0 * sqrt(d_head) * W_Q, W_K
    return _circle(n_ctx, d_model, d_head)


PREVIOUS_TOKEN_HEAD = Exercise(
    reference=reference.previous_token_head,
    notebook=NOTEBOOK,
    title="Write a previous-token head",
    paper=PAPER,
    points=4,
    minutes=25,
    difficulty=3,
    cases=_cases,
    compare=Property(_looks_one_back, read=_read, by_outcome=True),
    hints=(
        "Give every position a point on a circle: two numbers, however many positions there are. Two "
        "points close together have a large dot product.",
        "If the query were the point itself, each position would look at itself. Turn the query by one "
        "step along the circle, so that it falls on the key of the position before. In which direction?",
        "All positions must fit on the circle without coming round to where they began. Neighbors are "
        "then close together, so multiply by a large factor: large enough that one step aside costs "
        "several units of score after the division by sqrt(d_head).",
    ),
    mistakes=(
        Mistake(
            "not_sharp_enough",
            _turned(lead=1.5),
            "It looks in the right direction and shares its attention with the neighbors. Make the "
            "scores larger: how much does one step along the circle cost with as many positions?",
            signature=lambda value, case: _mostly(value, 1) and _too_soft(value, case),
        ),
        Mistake(
            "not_turned",
            _turned(back=0.0),
            "Each position looks at itself: query and key of the same position agree best. Turn one of "
            "them by a step.",
            facts=(35,),
            signature=lambda value, case: _mostly(value, 0),
        ),
        Mistake(
            "turned_the_wrong_way",
            _turned(back=-1.0),
            "The query is turned forward: its best key is that of the *next* position, which the mask "
            "hides. Turn the other way, or turn the key instead.",
            facts=(35,),
            signature=lambda value, case: _mostly(value, -1),
        ),
        Mistake(
            "two_back",
            _turned(back=2.0),
            "It looks two positions back. One step is the angle between neighbors.",
            facts=(35,),
            signature=lambda value, case: _mostly(value, 2) or len(value[0]) == 2,
        ),
        Mistake(
            "one_hot_positions",
            _one_hot,
            "Some positions have no code at all: their row of W_pos is 0. One direction a position "
            "needs n_ctx of them, and there are only d_model. Two directions are enough if positions "
            "lie on a circle.",
            signature=_rows_without_code,
        ),
        Mistake(
            "comes_round_again",
            _turned(theta=2 * pi / 5),
            "Right for the first few positions. Then the circle comes round and a position much "
            "farther back has the same point. How large may the step be, if all n_ctx positions are to "
            "stay apart?",
            facts=(119,),
            signature=_comes_round,
        ),
    ),
    variants=(
        Variant("circle", _circle, facts=("R",)),
        Variant("keys_turned_in_float32", _keys_turned, facts=("R", "D")),
        Variant("parabola", _parabola, facts=("R", "E")),
        Variant("half_a_circle", lambda n, m, h: _circle(n, m, h, theta=pi / n), facts=("R",)),
        Variant("numpy", lambda n, m, h: tuple(w.numpy() for w in _circle(n, m, h)), facts=("N",)),
    ),
)
