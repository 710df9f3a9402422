"""The phase change: train a model that learns induction, and read the step from its losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from grader.circuits import induction_heads as reference
from grader.circuits import induction_training as live
from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import (
    dead,
    duplicate_token,
    induction,
    positional,
    previous_token,
)
from grader.circuits.compiled_parts import Copy, Head
from grader.exercises.induction_heads.repeating import NOTEBOOK
from grader.judge.comparators import Comparator, Property
from grader.judge.draw import Draw
from grader.judge.reading import Unreadable, read_like, read_model, read_tensor
from grader.judge.spec import Budget, Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

PAPER = "In-context Learning and Induction Heads (2022)"
LEARNED, NOT_LEARNED = 0.95, 0.5

Trained = tuple[Transformer, Tensor]


# --- train_induction -----------------------------------------------------------------------------


def _training_cases(draw: Draw) -> Iterator[Case]:
    for n_layers, label in ((2, "with two layers"), (1, "with one layer")):
        seed = draw.integer(0, 10**6)
        yield Case((seed, n_layers), label, {"seed": draw.integer(0, 10**6)})


def _read(raw: Any, expected: Any, case: Case) -> Trained:
    if raw is None:
        read_like(raw, None)  # raises, and says so
    if not isinstance(raw, tuple | list) or len(raw) != 2:
        raise Unreadable("wrong_type", "A tuple of two was asked for: the model and its losses.")
    model = read_model(raw[0])
    count = len(raw[1]) if hasattr(raw[1], "__len__") else 0
    if count < 5:
        raise Unreadable("shape", "The losses should be a list with one number a training step.")
    if model.d_vocab < live.D_VOCAB or model.n_ctx < live.LENGTH:
        raise Unreadable(
            "shape",
            f"The model knows {model.d_vocab} tokens and {model.n_ctx} positions; "
            f"{live.D_VOCAB} and {live.LENGTH} are needed.",
        )
    return model, read_tensor(raw[1], torch.empty(count))


def _rows(case: Case) -> tuple[Tensor, Tensor]:
    """Fresh rows and which predictions can be known, (rows, 49) and (rows, 48)."""
    return live.induction_rows(128, torch.Generator().manual_seed(int(case.context["seed"])))


def _right(model: Transformer, case: Case) -> Tensor:
    """Of each prediction that can be known, whether it is right: (known,) bool."""
    tokens, known = _rows(case)
    with torch.no_grad():
        guessed = model(tokens)[:, :-1].argmax(dim=-1)
    return (guessed == tokens[:, 1:])[known]


def _accuracy(model: Transformer, case: Case) -> float:
    return float(_right(model, case).double().mean())


def _loss(model: Transformer, case: Case) -> float:
    tokens, known = _rows(case)
    with torch.no_grad():
        losses = F.cross_entropy(model(tokens)[:, :-1].mT, tokens[:, 1:], reduction="none")
    return float(losses[known].mean())


def _late(losses: Tensor) -> float:
    return float(losses[-max(5, len(losses) // 20) :].mean())


def _learns(value: Trained, expected: Any, case: Case) -> tuple[bool, bool]:
    """(accuracy as the number of layers allows, and losses that belong to the model)."""
    model, losses = value
    accuracy = _accuracy(model, case)
    learned = accuracy >= LEARNED if case.args[1] == 2 else accuracy < NOT_LEARNED
    learned = learned and model.n_layers == case.args[1]
    told = bool(torch.isfinite(losses).all()) and abs(_late(losses) - _loss(model, case)) <= 0.5
    return learned, learned and told


def _is_near_chance(value: Trained, case: Case) -> bool:
    return value[0].n_layers == case.args[1] and _accuracy(value[0], case) < 0.035


def _has_other_layers(value: Trained, case: Case) -> bool:
    return value[0].n_layers != case.args[1]


def _knows_one_period(value: Trained, case: Case) -> bool:
    """Nearly perfect on the rows of some period and poor on the others."""
    tokens, known = _rows(case)
    periods = known.logical_not().sum(dim=-1) - 1
    with torch.no_grad():
        right = (value[0](tokens)[:, :-1].argmax(dim=-1) == tokens[:, 1:]) & known
    shares = [
        float(right[periods == p].sum() / known[periods == p].sum()) for p in periods.unique()
    ]
    return max(shares) > 0.9 and sum(shares) / len(shares) < 0.5


def _repeats_what_it_reads(value: Trained, case: Case) -> bool:
    tokens, known = _rows(case)
    with torch.no_grad():
        guessed = value[0](tokens)[:, :-1].argmax(dim=-1)
    return float((guessed == tokens[:, :-1])[known].double().mean()) > 0.8


def _counts_all_tokens(value: Trained, case: Case) -> bool:
    return _learns(value, None, case)[0] and _late(value[1]) > _loss(value[0], case) + 0.5


def _stopped_early(value: Trained, case: Case) -> bool:
    return value[0].n_layers == case.args[1] and _accuracy(value[0], case) < LEARNED


def _by_hand(*layers: list[Head]) -> Callable[[int, int], tuple[Transformer, list[float]]]:
    """A model with those heads in place of a trained one, with losses that fit it."""

    def answer(seed: int, n_layers: int) -> tuple[Transformer, list[float]]:
        model = compile_model(
            layers[:n_layers] or layers, d_vocab=live.D_VOCAB, n_ctx=live.LENGTH, seed=0
        ).model
        case = Case((seed, n_layers), "", {"seed": 0})
        return model, [_loss(model, case)] * 20

    return answer


_two_layers = _by_hand([previous_token()], [induction((0, 0))])


def _always_two(seed: int, n_layers: int) -> tuple[Transformer, list[float]]:
    return _two_layers(seed, 2)


def _untrained(seed: int, n_layers: int) -> tuple[Transformer, list[float]]:
    model = live._untrained(n_layers, torch.Generator().manual_seed(seed))
    return model, [_loss(model, Case((seed, n_layers), "", {"seed": 0}))] * 20


def _too_short(seed: int, n_layers: int) -> tuple[Transformer, list[float]]:
    return _trained(seed, n_layers, steps=75)


def _with_losses_of_all(seed: int, n_layers: int) -> tuple[Transformer, list[float]]:
    """Right, and the losses are those of all tokens: 1.3 nats more, from the first copy."""
    if n_layers == 2:
        model, losses = _two_layers(seed, 2)
    else:
        model, losses = _untrained(seed, 1)
    return model, [loss + 1.3 for loss in losses]


def _trained(
    seed: int, n_layers: int, steps: int, known_only: bool = True
) -> tuple[Transformer, list[float]]:
    """A plain loop with Adam; ``known_only``: trained on predictable tokens only."""
    generator = torch.Generator().manual_seed(seed)
    model = live._untrained(n_layers, generator)
    learned = [w.requires_grad_() for name, w in model.weights().items() if name != "W_pos"]
    adam = torch.optim.Adam(learned, lr=5e-3, betas=(0.9, 0.98))
    losses = []
    for _ in range(steps):
        tokens, known = live.induction_rows(24, generator)
        each = F.cross_entropy(model(tokens)[:, :-1].mT, tokens[:, 1:], reduction="none")
        adam.zero_grad()
        (each[known] if known_only else each).mean().backward()
        adam.step()
        losses.append(float(each[known].mean()))
    return model, losses


TRAIN_INDUCTION = Exercise(
    reference=reference.train_induction,
    notebook=NOTEBOOK,
    title="Watch induction heads form",
    paper=PAPER,
    points=5,
    minutes=45,
    difficulty=3,
    cases=_training_cases,
    compare=Property(_learns, "accuracy", "losses", read=_read, by_outcome=True),
    hints=(
        "Make the text first and look at it: 0, then P distinct ids over and over, cut at 49 tokens, "
        "and another P in each row. If P were the same everywhere, one layer could count P back.",
        "A small model is enough: d_model 64, two heads of 32 a layer, fresh rows at every step, Adam "
        "with a rate of about 5e-3 after a short warm-up, a few hundred steps. Let every weight but "
        "W_pos learn.",
        "What the two-layer model waits for is a previous-token head. Make that easy: sinusoids for "
        "W_pos, fast ones among them (a period of two or three positions), and larger than the "
        "embedding (amplitude 2 against 0.5). Record the loss on predictable tokens at each step.",
    ),
    mistakes=(
        Mistake(
            "number_of_layers_ignored",
            _always_two,
            "The model has another number of layers than was asked for.",
            facts=(118, 119),
            signature=_has_other_layers,
        ),
        Mistake(
            "repeats_what_it_reads",
            _by_hand([previous_token()], [duplicate_token(Copy(strength=12.0))]),
            "The model predicts the token that it is reading. In the loss, is each prediction held "
            "against the *next* token?",
            facts=(10,),
            signature=lambda value, case: _repeats_what_it_reads(value, case) or case.args[1] == 1,
        ),
        Mistake(
            "one_period_only",
            _by_hand([positional(11, Copy())], [dead()]),
            "The model is nearly perfect for one period and poor for all others: it counts back. Draw "
            "another period for every row, from 8 to 24.",
            facts=(119,),
            signature=_knows_one_period,
        ),
        Mistake(
            "losses_of_all_tokens",
            _with_losses_of_all,
            "The model is right, but the losses are not those of predictable tokens. Tokens of the "
            "first copy can't be predicted by anyone, and they hide the change.",
            facts=(12,),
            signature=_counts_all_tokens,
        ),
        Mistake(
            "untrained",
            _untrained,
            "The model is no better than chance. Do the steps reach the weights that you return?",
            signature=_is_near_chance,
        ),
        Mistake(
            "no_change_yet",
            _too_short,
            "The two-layer model has learned something, but no induction yet: it is right on less than "
            "95 in 100 predictable tokens. More steps, a larger rate, or positions that make a "
            "previous-token head easy to find.",
            signature=_stopped_early,
        ),
    ),
    variants=(
        Variant(
            "adam_on_predictable_tokens",
            lambda seed, n_layers: _trained(seed, n_layers, steps=350 if n_layers == 2 else 60),
            ("E", "Z"),
        ),
    ),
    budget=Budget(wall=150.0, cpu=150.0, memory_mib=2048),
    free_rng=True,
)


# --- phase_change_step ---------------------------------------------------------------------------


def _curve(
    draw: Draw, steps: int, at: float, width: float, noise: float = 0.05, drift: float = 0.0
) -> list[float]:
    """A loss that falls from 4 to 1 around the share ``at`` of its steps, in ``width`` of them."""
    x = torch.arange(steps, dtype=torch.float64) / steps
    fall = 3.0 * torch.sigmoid((x - at) / (width / 4))
    shake = noise * draw.normal(steps).double()
    curve: list[float] = (4.0 - fall - drift * x + shake).tolist()
    return curve


def _curve_cases(draw: Draw) -> Iterator[Case]:
    steps = draw.integer(180, 260)
    yield Case((_curve(draw, steps, draw.number(0.35, 0.6), 0.05),), "for a sudden fall")
    early = _curve(draw, steps + 40, draw.number(0.3, 0.5), 0.06, 0.2)
    yield Case((torch.tensor(early, dtype=torch.float64),), "for a noisy fall, as a tensor")
    yield Case((_curve(draw, steps, 0.5, 0.9),), "for a slow fall")
    climbing = [5.0 - loss for loss in _curve(draw, steps, 0.5, 0.05)]
    yield Case((climbing,), "for a curve that rises")
    # 15 % of these steps are many more than 15, and the fall takes a number in between.
    yield Case((_curve(draw, 3 * steps, draw.number(0.4, 0.6), 0.2, 0.02),), "for a long training")
    yield Case((_curve(draw, 60, draw.number(0.4, 0.6), 0.3, 0.02),), "for a short training")
    tail = _curve(draw, steps, draw.number(0.3, 0.5), 0.05, 0.02)
    spike = steps // 8
    tail[spike] -= 2.6  # one lucky batch
    yield Case((tail,), "with one lucky batch early on")
    yield Case(([4.0, 4.0, 4.0, 4.0, 4.0],), "for five equal losses")


def _change(
    losses: Sequence[float] | Tensor,
    *,
    smooth: Callable[[np.ndarray], np.ndarray] | None = None,
    shift: int = 4,
    at: float = 0.5,
    sudden: float | None = 0.15,
    of_level: bool = False,
) -> int:
    curve = np.asarray(losses, dtype=float)
    m = np.convolve(curve, np.ones(5) / 5, mode="valid") if smooth is None else smooth(curve)
    fall = m[0] - m[-1]
    if not fall > 0:
        return -1

    def first(share: float) -> int:
        level = m[0] * (1 - share) if of_level else m[0] - share * fall
        hits = np.nonzero(m <= level)[0]
        return int(hits[0]) if len(hits) else len(m) - 1

    if sudden is not None and not first(0.75) - first(0.25) <= sudden * len(curve):
        return -1
    return first(at) + shift


def _steepest(losses: Sequence[float] | Tensor) -> int:
    curve = np.asarray(losses, dtype=float)
    m = np.convolve(curve, np.ones(5) / 5, mode="valid")
    if not m[0] - m[-1] > 0:
        return -1
    return int(np.argmin(np.diff(m))) + 5


def _in_steps(losses: Sequence[float] | Tensor) -> int:
    count = len(losses)
    return _change(losses, sudden=15 / count)


def _by_loop(losses: Sequence[float] | Tensor) -> int:
    values = [float(loss) for loss in losses]
    m = {i: math.fsum(values[i - 4 : i + 1]) / 5 for i in range(4, len(values))}
    last = len(values) - 1
    fall = m[4] - m[last]
    if fall <= 0:
        return -1
    crossed = [min(i for i in m if m[i] <= m[4] - p * fall) for p in (0.25, 0.5, 0.75)]
    return crossed[1] if crossed[2] - crossed[0] <= 0.15 * len(values) else -1


PHASE_CHANGE_STEP = Exercise(
    reference=reference.phase_change_step,
    notebook=NOTEBOOK,
    title="When did it happen?",
    paper=PAPER,
    points=3,
    minutes=15,
    difficulty=2,
    cases=_curve_cases,
    compare=Comparator(),
    hints=(
        "Smooth the curve first, then ask when a quarter, a half and three quarters of the whole fall "
        "are done. Those three steps answer both questions: when, and how suddenly.",
        "Each mean looks back over five losses, so the first one belongs to step 4. Keep step numbers "
        "and places in an array apart.",
        "Not a fall, or not a sudden one, gives −1. Sudden means that the way from a quarter to three "
        "quarters takes at most 15 of every 100 steps of the training.",
    ),
    mistakes=(
        Mistake(
            "not_smoothed",
            lambda losses: _change(losses, smooth=lambda curve: curve, shift=0),
            "Single losses are compared. They jump from batch to batch, and one lucky batch looks like "
            "a change: take the mean of five first.",
        ),
        Mistake(
            "place_in_the_means",
            lambda losses: _change(losses, shift=0),
            "This is the place in the array of means. The first mean belongs to step 4, not to step 0.",
            facts=(105,),
        ),
        Mistake(
            "centered_means",
            lambda losses: _change(losses, shift=2),
            "The means are taken around each step. They should look back only: over the step and the "
            "four before it.",
            facts=(105,),
        ),
        Mistake(
            "never_refused",
            lambda losses: _change(losses, sudden=None),
            "A slow fall is reported as a change. Ask as well how long the middle half of it takes.",
        ),
        Mistake(
            "quarter",
            lambda losses: _change(losses, at=0.25),
            "This is where a quarter of the fall is done. The step of the change is where half of it is.",
        ),
        Mistake(
            "three_quarters",
            lambda losses: _change(losses, at=0.75),
            "This is where three quarters of the fall are done. The step of the change is where half "
            "of it is.",
        ),
        Mistake(
            "half_of_the_level",
            lambda losses: _change(losses, of_level=True),
            "You ask when the loss is half as large. Shares are of the *fall*, from the first mean to "
            "the last: a loss need not end at 0.",
        ),
        Mistake(
            "steepest_step",
            _steepest,
            "This is the steepest single step. Noise decides which one that is; ask when half of the "
            "fall is done.",
        ),
        Mistake(
            "fifteen_steps",
            _in_steps,
            "A fall counts as sudden here if it takes 15 steps. It is 15 *per cent* of the training "
            "that are allowed.",
            facts=(119,),
        ),
        Mistake(
            "none_for_minus_one",
            lambda losses: None if _change(losses) == -1 else _change(losses),
            "Where there is no sudden fall the answer is −1, not None.",
        ),
    ),
    variants=(
        Variant("loop", _by_loop, ("E",)),
        Variant("numpy_integer", lambda losses: np.int64(_change(losses)), ("N",)),
        Variant("tensor", lambda losses: torch.tensor(_change(losses)), ("N",)),
    ),
)
