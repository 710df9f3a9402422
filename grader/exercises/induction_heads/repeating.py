"""Random tokens that repeat, and what a model's loss on them says about looking back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import induction_heads as reference
from grader.judge.comparators import Comparator, Property
from grader.judge.draw import Draw
from grader.judge.reading import Unreadable, read_like
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "05-induction-heads"
PAPER = "Induction Heads"


# --- repeated_tokens -----------------------------------------------------------------------------


def _repeating_cases(draw: Draw) -> Iterator[Case]:
    seed = draw.integer(0, 10**6)
    period, repeats = draw.integer(9, 14), draw.integer(3, 5)
    d_vocab = period + draw.integer(40, 60)
    earlier: list[Tensor] = []  # what other seeds gave at the same sizes
    for number in (seed, seed + 1):
        args = (d_vocab, period, repeats, number)
        yield Case(args, "with another seed" if earlier else "", {"earlier": earlier}, repeats=2)
    yield Case((period, period, 2, seed), "where the period uses every id", repeats=2)
    yield Case((d_vocab, period, 1, seed), "with a single copy")
    yield Case((d_vocab, 1, 1, seed), "with a single token")


def _read_tokens(raw: Any, expected: Any, case: Case) -> Tensor:
    """Whole numbers, period · repeats of them; of a wrong shape only the shape is kept.

    The numbers are random, so that two learners with the same wrong idea share no more than it.
    """
    _, period, repeats, _ = case.args
    try:
        tokens: Tensor = read_like(raw, torch.empty(period * repeats))
    except Unreadable as error:
        raise Unreadable(error.name, error.message) from None
    if not bool((tokens == tokens.round()).all()):
        raise Unreadable("wrong_type", "Token ids are whole numbers; other numbers came.")
    return tokens.long()


def _copies(tokens: Tensor, case: Case) -> Tensor:
    """(repeats, period)."""
    _, period, repeats, _ = case.args
    return tokens.reshape(repeats, period)


def _in_range(tokens: Tensor, case: Case) -> bool:
    return bool(((tokens >= 0) & (tokens < case.args[0])).all())


def _distinct(tokens: Tensor) -> bool:
    return len(tokens.unique()) == len(tokens)


def _same_for_all_seeds(tokens: Tensor, case: Case) -> bool:
    return any(torch.equal(tokens, other) for other in case.context.get("earlier", []))


def _only_lowest_ids(tokens: Tensor, case: Case) -> bool:
    """All ids below the period: for 9 of 49 or more ids the chance of that is below 1e-9."""
    d_vocab, period, _, _ = case.args
    return period >= 9 and d_vocab >= 40 + period and int(tokens.max()) < period


def _repeats_well(tokens: Tensor, expected: Any, case: Case) -> bool:
    first = _copies(tokens, case)[0]
    right = (
        _in_range(tokens, case)
        and torch.equal(tokens, first.repeat(case.args[2]))
        and _distinct(first)
        and not _only_lowest_ids(tokens, case)
        and not _same_for_all_seeds(tokens, case)
    )
    case.context.get("earlier", []).append(tokens)
    return right


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _drawn_anew(d_vocab: int, period: int, repeats: int, seed: int) -> Tensor:
    generator = _generator(seed)
    return torch.cat(
        [torch.randperm(d_vocab, generator=generator)[:period] for _ in range(repeats)]
    )


def _bos_put_over(d_vocab: int, period: int, repeats: int, seed: int) -> Tensor:
    tokens = torch.randperm(d_vocab, generator=_generator(seed))[:period].repeat(repeats)
    tokens[0] = 0
    return tokens


def _is_put_over(tokens: Tensor, case: Case) -> bool:
    copies = _copies(tokens, case)
    return bool(tokens[0] == 0) and torch.equal(
        copies[1:, 1:], copies[:1, 1:].expand(len(copies) - 1, -1)
    )


def _repeats_within(tokens: Tensor, case: Case) -> bool:
    copies = _copies(tokens, case)
    return torch.equal(copies, copies[:1].expand_as(copies)) and not _distinct(copies[0])


def _differs_between_copies(tokens: Tensor, case: Case) -> bool:
    copies = _copies(tokens, case)
    return all(map(_distinct, copies)) and not torch.equal(copies[-1], copies[0])


def _each_in_turn(tokens: Tensor, case: Case) -> bool:
    _, period, repeats, _ = case.args
    return bool((tokens.reshape(period, repeats) == tokens[::repeats, None]).all())


def _in_numpy(d_vocab: int, period: int, repeats: int, seed: int) -> np.ndarray:
    return np.tile(np.random.default_rng(seed).permutation(d_vocab)[:period], repeats)


def _by_choice(d_vocab: int, period: int, repeats: int, seed: int) -> np.ndarray:
    once = np.random.default_rng(seed).choice(d_vocab, size=period, replace=False)
    return np.concatenate([once] * repeats)


def _by_multinomial(d_vocab: int, period: int, repeats: int, seed: int) -> Tensor:
    once = torch.multinomial(torch.ones(d_vocab), period, generator=_generator(seed))
    return once.repeat(repeats)


REPEATED_TOKENS = Exercise(
    reference=reference.repeated_tokens,
    notebook=NOTEBOOK,
    title="Random tokens that repeat",
    paper=PAPER,
    points=2,
    minutes=10,
    difficulty=1,
    cases=_repeating_cases,
    compare=Property(_repeats_well, read=_read_tokens, by_outcome=True),
    hints=(
        "Draw one period first, then lay copies of it end to end. The draw is the part with the trap.",
        "Inside a period no token may come twice, so draw without putting back: shuffle all ids and "
        "keep as many as you need.",
        "`torch.randperm` shuffles and takes a `generator=`; make that generator yourself from the "
        "seed. For the copies, `repeat` on a 1-d tensor does what you want.",
    ),
    mistakes=(
        Mistake(
            "with_replacement",
            lambda v, p, r, s: torch.randint(v, (p,), generator=_generator(s)).repeat(r),
            "A token comes twice inside one period. Then it has two different successors, and looking "
            "up its earlier copy no longer says what comes next. Draw without replacement.",
            facts=(97,),
            signature=_repeats_within,
        ),
        Mistake(
            "drawn_anew_each_time",
            _drawn_anew,
            "Every period is drawn anew, so nothing repeats. Draw one period and copy it.",
            signature=_differs_between_copies,
        ),
        Mistake(
            "start_token_in_front",
            lambda v, p, r, s: torch.cat(
                [torch.zeros(1, dtype=torch.int64), reference.repeated_tokens(v, p, r, s)]
            ),
            "There is one token too many. Is a start token in front? Here there is none: all the "
            "scores of this notebook count positions without it.",
            facts=(93,),
        ),
        Mistake(
            "start_token_put_over",
            _bos_put_over,
            "The first token was overwritten with 0, so the first copy differs from the others. A "
            "public library does the same and loses one position by it. Here there is no start token.",
            facts=(93,),
            signature=_is_put_over,
        ),
        Mistake(
            "each_token_in_turn",
            lambda v, p, r, s: torch.randperm(v, generator=_generator(s))[:p].repeat_interleave(r),
            "Each token is repeated on the spot: a a b b. The whole period must come again: a b a b.",
            signature=_each_in_turn,
        ),
        Mistake(
            "lowest_ids_only",
            lambda v, p, r, s: torch.randperm(p, generator=_generator(s)).repeat(r),
            "Only ids below the period occur. Every id of the vocabulary should have a chance.",
            signature=lambda tokens, case: _only_lowest_ids(tokens, case),
        ),
        Mistake(
            "id_0_left_out",
            lambda v, p, r, s: (1 + torch.randperm(v - 1, generator=_generator(s))[:p]).repeat(r),
            "There are too few tokens where the period is as long as the vocabulary. Was id 0 (or the "
            "last one) left out? Ids run from 0 to d_vocab − 1, and all of them may come.",
        ),
        Mistake(
            "ids_up_to_d_vocab",
            lambda v, p, r, s: (1 + torch.randperm(v, generator=_generator(s))[:p]).repeat(r),
            "Some id is as large as d_vocab itself. Ids count from 0, so the last is d_vocab − 1.",
            signature=lambda tokens, case: not _in_range(tokens, case),
        ),
        Mistake(
            "seed_ignored",
            lambda v, p, r, s: torch.randperm(v, generator=_generator(0))[:p].repeat(r),
            "Two different seeds gave the very same tokens. The draw must come from `seed`.",
            signature=_same_for_all_seeds,
        ),
    ),
    variants=(
        Variant("numpy_permutation", _in_numpy, facts=("N", "Z")),
        Variant("numpy_choice", _by_choice, facts=("N", "Z")),
        Variant("multinomial", _by_multinomial, facts=("E", "Z")),
        Variant("list", lambda v, p, r, s: _in_numpy(v, p, r, s).tolist(), facts=("N",)),
    ),
)


# --- loss_by_position ----------------------------------------------------------------------------


def _loss_cases(draw: Draw) -> Iterator[Case]:
    pos, d_vocab = draw.sizes(2, 4, 10)

    def case(pos: int, d_vocab: int, by: Draw, label: str = "", scale: float = 2.0) -> Case:
        tokens = draw.tokens(pos, d_vocab=d_vocab)
        return Case((by.normal(pos, d_vocab, scale=scale), tokens), label)

    yield case(pos, d_vocab, draw)
    n = draw.integer(4, 8)
    yield case(n, n, draw, "with as many positions as tokens")
    yield case(2, d_vocab, Draw(draw.seed, torch.float64), "with two positions, in float64")
    yield case(pos, d_vocab, draw, "where logits are large", scale=120.0)


def _log_probs(logits: Tensor) -> Tensor:
    return logits.log_softmax(dim=-1)


def _losses(logits: Tensor, tokens: Tensor) -> Tensor:
    return -_log_probs(logits[:-1]).gather(-1, tokens[1:, None])[:, 0]


def _exponentials(logits: Tensor, tokens: Tensor) -> Tensor:
    weights = logits[:-1].exp()
    chosen = weights.gather(-1, tokens[1:, None])[:, 0]
    return -(chosen / weights.sum(dim=-1)).log()


def _losses_in_numpy(logits: Tensor, tokens: Tensor) -> list[float]:
    table, ids = logits.double().numpy(), tokens.tolist()
    total = [m + math.log(np.exp(row - m).sum()) for row in table for m in [row.max()]]
    return [float(total[i] - table[i, ids[i + 1]]) for i in range(len(ids) - 1)]


def _by_crossentropy(logits: Tensor, tokens: Tensor) -> Tensor:
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    result: Tensor = loss(logits[:-1], tokens[1:])
    return result


LOSS_BY_POSITION = Exercise(
    reference=reference.loss_by_position,
    notebook=NOTEBOOK,
    title="The loss at each position",
    paper=PAPER,
    points=2,
    minutes=8,
    difficulty=1,
    cases=_loss_cases,
    compare=Comparator(),
    hints=(
        "Which logits predict which token? The last row of logits predicts a token that isn't there, "
        "and nothing predicts token 0.",
        "Turn each row of logits into log-probabilities along the vocabulary, then pick one entry a "
        "row: that of the token that really came next.",
        "Drop the last row of logits and the first token; then the two line up. The loss is the "
        "picked log-probability with its sign turned. Keep one number a position.",
    ),
    mistakes=(
        Mistake(
            "not_shifted",
            lambda logits, tokens: -_log_probs(logits[:-1]).gather(-1, tokens[:-1, None])[:, 0],
            "Each row of logits is held against the token that the model is reading. It predicts the "
            "token that comes next.",
            facts=(10,),
        ),
        Mistake(
            "shifted_backwards",
            lambda logits, tokens: -_log_probs(logits[1:]).gather(-1, tokens[:-1, None])[:, 0],
            "The shift goes the wrong way: here each row predicts the token before.",
            facts=(11,),
        ),
        Mistake(
            "every_position_kept",
            lambda logits, tokens: -_log_probs(logits).gather(-1, tokens[:, None])[:, 0],
            "There are as many losses as positions, and each row is held against the token being read. "
            "pos tokens give pos − 1 predictions whose outcome is known.",
            facts=(10,),
        ),
        Mistake(
            "averaged",
            lambda logits, tokens: _losses(logits, tokens).mean(),
            "The mean over positions was taken. Here one number a position is wanted: the whole point "
            "is to see where the loss falls.",
            facts=(12,),
        ),
        Mistake(
            "in_bits",
            lambda logits, tokens: _losses(logits, tokens) / math.log(2),
            "These are bits. In this course losses are in nats: the natural logarithm.",
            facts=(6,),
        ),
        Mistake(
            "sign_forgotten",
            lambda logits, tokens: -_losses(logits, tokens),
            "These are log-probabilities, so they are negative. A loss is large where the model is "
            "surprised.",
        ),
        Mistake(
            "probabilities",
            lambda logits, tokens: (-_losses(logits, tokens)).exp(),
            "These are the probabilities of the true tokens. The loss is the negative logarithm.",
            facts=(7,),
        ),
        Mistake(
            "raw_logits",
            lambda logits, tokens: -logits[:-1].gather(-1, tokens[1:, None])[:, 0],
            "These are logits with the sign turned. They must be normalized to log-probabilities "
            "before they can be a loss.",
            facts=(8,),
        ),
        Mistake(
            "softmax_over_positions",
            lambda logits, tokens: (
                -logits[:-1].log_softmax(dim=0).gather(-1, tokens[1:, None])[:, 0]
            ),
            "The softmax runs along the positions. At each position the vocabulary shares out one "
            "probability, so it runs along the last axis.",
            facts=(9,),
        ),
        Mistake(
            "exponentials_overflow",
            _exponentials,
            "Right while logits are small. Where they are large the exponential overflows and NaN or "
            "infinity comes out. Take the logarithm of the softmax in one step.",
        ),
    ),
    variants=(
        Variant("gather", _losses, facts=("E",)),
        Variant("cross_entropy", _by_crossentropy, facts=("E",)),
        Variant("numpy_loop", _losses_in_numpy, facts=("N", "E")),
        Variant(
            "log_probs_from_logsumexp",
            lambda logits, tokens: (
                logits[:-1].logsumexp(-1) - logits[torch.arange(len(tokens) - 1), tokens[1:]]
            ),
            facts=("E",),
        ),
    ),
)


# --- in_context_learning_score -------------------------------------------------------------------


def _score_cases(draw: Draw) -> Iterator[Case]:
    count = draw.integer(8, 14)
    early, late = draw.integer(1, 3), draw.integer(5, count - 2)
    losses = draw.normal(count).abs() + 0.5
    yield Case((losses, early, late))
    yield Case((losses, 0, count - 1), "from the first to the last")
    yield Case((losses, late, early), "where early comes after late")
    double = Draw(draw.seed + 1, torch.float64)
    yield Case((double.normal(count).abs() + 0.5, early, late), "in float64")
    yield Case((losses[:1], 0, 0), "with a single loss")


IN_CONTEXT_LEARNING_SCORE = Exercise(
    reference=reference.in_context_learning_score,
    notebook=NOTEBOOK,
    title="How much the context helps",
    paper="In-context Learning and Induction Heads (2022)",
    points=1,
    minutes=4,
    difficulty=1,
    cases=_score_cases,
    compare=Comparator(),
    hints=(
        "Two entries and one subtraction. Which sign does a model get that uses its context well?",
        "Read the definition in the text once more: the later loss comes first, so a good model gets "
        "a negative number.",
    ),
    mistakes=(
        Mistake(
            "sign_reversed",
            lambda losses, early, late: losses[early] - losses[late],
            "The sign is turned. The paper of 2022 talks about it this way round as well, but it "
            "defines the score as the later loss less the earlier one: negative is good.",
            facts=(104,),
        ),
        Mistake(
            "positions_counted_from_one",
            lambda losses, early, late: losses[late - 1] - losses[early - 1],
            "Both entries are the ones before. `early` and `late` are indices as they are; position "
            "counts from 0.",
            facts=(105,),
        ),
        Mistake(
            "mean_of_the_early_part",
            lambda losses, early, late: losses[late] - losses[: early + 1].mean(),
            "The losses up to `early` were averaged. The score compares two single positions.",
            facts=(105,),
        ),
        Mistake(
            "means_of_both_parts",
            lambda losses, early, late: losses[late:].mean() - losses[: early + 1].mean(),
            "Two stretches of the text were averaged. The score compares two single positions.",
            facts=(105,),
        ),
        Mistake(
            "absolute",
            lambda losses, early, late: (losses[late] - losses[early]).abs(),
            "The sign was dropped, so a model that gets worse looks as good as one that improves.",
            facts=(104,),
        ),
        Mistake(
            "ratio",
            lambda losses, early, late: losses[late] / losses[early],
            "This is a ratio. Losses are logarithms already: their difference is the ratio of the "
            "probabilities.",
            facts=(106,),
        ),
        Mistake(
            "probabilities_compared",
            lambda losses, early, late: (-losses[late]).exp() - (-losses[early]).exp(),
            "The losses were turned into probabilities first. The score is in nats: a difference of "
            "losses.",
            facts=(106,),
        ),
    ),
    variants=(
        Variant("python_float", lambda ls, e, late: float(ls[late]) - float(ls[e]), facts=("N",)),
        Variant(
            "numpy", lambda ls, e, late: np.diff(ls.double().numpy()[[e, late]])[0], facts=("N",)
        ),
    ),
)
