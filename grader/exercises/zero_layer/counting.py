"""Notebook 01: count what follows what, and what the counts allow at best."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import zero_layer as reference
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "01-zero-layer"
PAPER = "Zero-Layer Transformers"


def skewed_counts(draw: Draw, d_vocab: int) -> Tensor:
    """Counts whose rows have very different sums, with zeros, far from symmetric; no empty row.

    One token leads to a single other: its row costs nothing, its column much, so that statistics of
    the table and of its transpose lie far apart.
    """
    counts = draw.integers((d_vocab, d_vocab), -4, 9).clamp_min(0)
    counts[:, draw.integer(0, d_vocab - 1)] += 12
    only = draw.integer(0, d_vocab - 1)
    counts[only] = 0
    counts[only, draw.integer(0, d_vocab - 1)] = 40
    counts[(counts.sum(-1) == 0), 0] = 1
    return counts


# --- bigram_counts -------------------------------------------------------------------------------


def _token_cases(draw: Draw) -> Iterator[Case]:
    d_vocab, batch = draw.sizes(2, 3, 8)

    def text(*shape: int) -> Tensor:
        # Squared, so that small ids are common, and every row ends in the last id but one.
        tokens = (
            draw.tokens(*shape, d_vocab=d_vocab) * draw.tokens(*shape, d_vocab=d_vocab)
        ) % d_vocab
        tokens[..., -1] = d_vocab - 2
        return tokens

    yield Case((text(40), d_vocab))
    yield Case((text(batch, 15), d_vocab), "with a batch of texts")
    yield Case((text(1, 12).int(), d_vocab + 3), "with one text, ids in int32 and unused ids")
    yield Case((text(1), d_vocab), "with a text of one token")


def _added(
    current: Tensor, following: Tensor, d_vocab: int, amount: Tensor | None = None
) -> Tensor:
    counts = torch.zeros(d_vocab, d_vocab)
    ones = torch.ones(current.numel()) if amount is None else amount
    return counts.index_put_(
        (current.long().flatten(), following.long().flatten()), ones, accumulate=True
    )


def _without_accumulating(tokens: Tensor, d_vocab: int) -> Tensor:
    counts = torch.zeros(d_vocab, d_vocab)
    counts[tokens[..., :-1].long().flatten(), tokens[..., 1:].long().flatten()] += 1
    return counts


def _across_rows(tokens: Tensor, d_vocab: int) -> Tensor:
    flat = tokens.flatten()
    return _added(flat[:-1], flat[1:], d_vocab)


def _wrapped(tokens: Tensor, d_vocab: int) -> Tensor:
    return _added(tokens, tokens.roll(-1, -1), d_vocab)


def _shares(counts: Tensor, axis: int | None) -> Tensor:
    total = counts.sum() if axis is None else counts.sum(axis, keepdim=True)
    return counts / total.clamp_min(1)


def _by_counter(tokens: Tensor, d_vocab: int) -> list[list[int]]:
    rows = tokens.long().reshape(-1, tokens.shape[-1]).tolist()
    seen = Counter(pair for row in rows for pair in itertools.pairwise(row))
    return [[seen[a, b] for b in range(d_vocab)] for a in range(d_vocab)]


def _by_one_hot(tokens: Tensor, d_vocab: int) -> Tensor:
    hot = torch.nn.functional.one_hot(tokens.long(), d_vocab).float()
    return torch.einsum("...pa,...pb->ab", hot[..., :-1, :], hot[..., 1:, :])


def _by_numpy(tokens: Tensor, d_vocab: int) -> np.ndarray:
    ids = tokens.long().numpy()
    counts = np.zeros((d_vocab, d_vocab), dtype=np.int32)
    np.add.at(counts, (ids[..., :-1].ravel(), ids[..., 1:].ravel()), 1)
    return counts


BIGRAM_COUNTS = Exercise(
    reference=reference.bigram_counts,
    notebook=NOTEBOOK,
    title="Count bigrams",
    paper=PAPER,
    points=2,
    minutes=12,
    difficulty=1,
    cases=_token_cases,
    compare=Comparator(),
    hints=(
        "A bigram is a token and the one right after it. How many of them does a text of n tokens "
        "have?",
        "Line the text up with itself, moved by one: all tokens but the last, and all but the first. "
        "In a batch, do this along the last axis, so that no row sees its neighbor.",
        "Each pair of ids names one cell of the table. Many pairs name the same cell, and adding at "
        "repeated places needs an operation that accumulates; or turn a pair into one number and "
        "count numbers.",
    ),
    mistakes=(
        Mistake(
            "transposed",
            lambda t, v: _added(t[..., 1:], t[..., :-1], v),
            "The table is [next, current]. Here the row is the current token and the column what "
            "follows it; the paper's column convention has it the other way round.",
            facts=(1,),
        ),
        Mistake(
            "pairs_across_rows",
            _across_rows,
            "The last token of one text is paired with the first of the next. Rows of a batch are "
            "separate texts.",
            facts=(12,),
        ),
        Mistake(
            "wraps_around",
            _wrapped,
            "The last token of a text is paired with its first: a text does not close into a ring.",
            facts=(14,),
        ),
        Mistake(
            "repeats_not_added",
            _without_accumulating,
            "Every pair counts once at most. Indexing with repeated places and `+= 1` writes the same "
            "1 again and again; look for an operation that accumulates.",
        ),
        Mistake(
            "not_shifted",
            lambda t, v: _added(t, t, v),
            "Each token is paired with itself: the second half of a pair must come one place later.",
            facts=(10,),
        ),
        Mistake(
            "every_second_pair",
            lambda t, v: _added(t[..., :-1:2], t[..., 1::2], v),
            "Pairs are taken two tokens at a time. They overlap: a token in the middle ends one pair "
            "and begins the next.",
        ),
        Mistake(
            "two_apart",
            lambda t, v: _added(t[..., :-2], t[..., 2:], v),
            "The pairs are two places apart, not one.",
        ),
        Mistake(
            "both_directions",
            lambda t, v: _added(t[..., :-1], t[..., 1:], v) + _added(t[..., 1:], t[..., :-1], v),
            "Each pair is counted in both directions. Order matters: what follows what?",
        ),
        Mistake(
            "first_text_only",
            lambda t, v: _added(
                t.reshape(-1, t.shape[-1])[0, :-1], t.reshape(-1, t.shape[-1])[0, 1:], v
            ),
            "Only the first text of the batch is counted.",
        ),
        Mistake(
            "last_pair_missing",
            lambda t, v: _added(t[..., :-2], t[..., 1:-1], v),
            "The last pair of each text is missing. A text of n tokens has n − 1 pairs.",
        ),
        Mistake(
            "already_shares",
            lambda t, v: _shares(_added(t[..., :-1], t[..., 1:], v), -1),
            "The rows are divided by their sums already. Counts are asked for here: whole numbers.",
            facts=(3,),
        ),
        Mistake(
            "shares_of_all_pairs",
            lambda t, v: _shares(_added(t[..., :-1], t[..., 1:], v), None),
            "The table is divided by the number of all pairs. Counts are asked for here: whole "
            "numbers.",
            facts=(2, 3),
        ),
        Mistake(
            "size_from_the_text",
            lambda t, v: _added(t[..., :-1], t[..., 1:], int(t.max()) + 1),
            "The table is as large as the ids in this text need. It must have d_vocab rows and "
            "columns, also for tokens that don't occur.",
            facts=(119,),
        ),
        Mistake(
            "starts_at_one",
            lambda t, v: _added(t[..., :-1], t[..., 1:], v) + 1,
            "Every cell is 1 too large. Smoothing comes in the next exercise.",
        ),
    ),
    variants=(
        Variant("counter", _by_counter, facts=("E", "N")),
        Variant("one_hot_einsum", _by_one_hot, facts=("E",)),
        Variant("numpy_add_at", _by_numpy, facts=("E", "N")),
        Variant("float_counts", lambda t, v: _added(t[..., :-1], t[..., 1:], v), facts=("D",)),
        Variant(
            "float64_counts", lambda t, v: _added(t[..., :-1], t[..., 1:], v).double(), facts=("D",)
        ),
    ),
)


# --- bigram_log_probs ----------------------------------------------------------------------------


def _count_cases(draw: Draw) -> Iterator[Case]:
    for d_vocab in draw.sizes(2, 3, 9):
        yield Case((skewed_counts(draw, d_vocab), draw.number(0.1, 0.9)))
    unseen = skewed_counts(draw, 6)
    unseen[draw.integer(0, 5)] = 0
    yield Case(
        (unseen.double(), draw.number(1.2, 3.0)), "with a token that never occurs, in float64"
    )
    yield Case((draw.integers((1, 1), 3, 9).float(), 0.5), "with a vocabulary of one token")


def _smoothed(counts: Tensor, smoothing: float) -> Tensor:
    return counts.double() + smoothing


def _log_shares(counts: Tensor, smoothing: float) -> Tensor:
    smoothed = _smoothed(counts, smoothing)
    return (smoothed / smoothed.sum(-1, keepdim=True)).log()


def _smoothed_after(counts: Tensor, smoothing: float) -> Tensor:
    rows = counts.double() / counts.double().sum(-1, keepdim=True)
    return ((rows + smoothing) / (rows + smoothing).sum(-1, keepdim=True)).log()


BIGRAM_LOG_PROBS = Exercise(
    reference=reference.bigram_log_probs,
    notebook=NOTEBOOK,
    title="From counts to log-probabilities",
    paper=PAPER,
    points=1,
    minutes=8,
    difficulty=1,
    cases=_count_cases,
    compare=Comparator(),
    hints=(
        "Given the current token, the possible next ones share all the probability. So over which "
        "axis must the numbers sum to 1?",
        "First add the smoothing to every cell, then divide each row by its own (new) sum. Keep that "
        "sum as a column, so that it divides rows.",
        "Take the natural logarithm last. The smoothing sees to it that there is no logarithm of 0.",
    ),
    mistakes=(
        Mistake(
            "columns_normalized",
            lambda c, s: (_smoothed(c, s) / _smoothed(c, s).sum(0, keepdim=True)).log(),
            "Each *column* sums to 1: that is how likely a token came before, given what follows. "
            "Asked is what follows, given the current token.",
            facts=(1, 9),
        ),
        Mistake(
            "rows_divided_by_their_neighbors",
            lambda c, s: (_smoothed(c, s) / _smoothed(c, s).sum(-1)).log(),
            "The row sums lie along the wrong axis when they divide: cell [a, b] is divided by the "
            "sum of row b. Keep the summed axis.",
            facts=(9,),
        ),
        Mistake(
            "joint",
            lambda c, s: (_smoothed(c, s) / _smoothed(c, s).sum()).log(),
            "The whole table sums to 1: these are probabilities of pairs. Asked is the probability "
            "of the next token *given* the current one.",
            facts=(2,),
        ),
        Mistake(
            "transposed",
            lambda c, s: _log_shares(c, s).T,
            "Rows and columns are exchanged: the row is the current token.",
            facts=(1,),
        ),
        Mistake(
            "probabilities",
            lambda c, s: _log_shares(c, s).exp(),
            "These are probabilities; their logarithms were asked for.",
            facts=(7,),
        ),
        Mistake(
            "bits",
            lambda c, s: _log_shares(c, s) / np.log(2),
            "These are logarithms to base 2. The course counts in nats: natural logarithms.",
            facts=(6,),
        ),
        Mistake(
            "base_ten",
            lambda c, s: _log_shares(c, s) / np.log(10),
            "These are logarithms to base 10. The course counts in nats: natural logarithms.",
            facts=(6,),
        ),
        Mistake(
            "not_normalized",
            lambda c, s: _smoothed(c, s).log(),
            "The logarithms of the counts themselves: the rows are not normalized.",
            facts=(3, 8),
        ),
        Mistake(
            "softmax_of_counts",
            lambda c, s: _smoothed(c, s).log_softmax(-1),
            "A softmax treats the counts as logits. A cell that was counted twice as often should be "
            "twice as likely, not e to the difference.",
            facts=(8,),
        ),
        Mistake(
            "not_smoothed",
            lambda c, s: (c.double() / c.double().sum(-1, keepdim=True)).log(),
            "The smoothing isn't used, so pairs that never occur get the logarithm of 0.",
            facts=(13,),
        ),
        Mistake(
            "smoothed_after_normalizing",
            _smoothed_after,
            "The smoothing is added to the shares. It belongs to the counts: as if every pair had "
            "been seen that often already.",
        ),
        Mistake(
            "smoothed_above_only",
            lambda c, s: (_smoothed(c, s) / c.double().sum(-1, keepdim=True)).log(),
            "The smoothing is in each cell and not in the sum that divides it, so the rows sum to "
            "more than 1.",
        ),
        Mistake(
            "only_empty_cells_smoothed",
            lambda c, s: _log_shares(torch.where(c == 0, s, c.double()), 0.0),
            "Only empty cells are smoothed. It is added to *every* cell.",
        ),
        Mistake(
            "smoothing_of_one",
            lambda c, s: _log_shares(c, 1.0),
            "1 is added whatever `smoothing` is. Use the argument.",
            facts=(118, 119),
        ),
        Mistake(
            "negative",
            lambda c, s: -_log_shares(c, s),
            "Right size, wrong sign. A log-probability is never above 0; its negative is the "
            "surprise, or loss.",
        ),
    ),
    variants=(
        Variant(
            "log_softmax_of_log_counts",
            lambda c, s: (c.float() + s).log().log_softmax(-1),
            facts=("E", "C"),
        ),
        Variant(
            "normalize_p1",
            lambda c, s: torch.nn.functional.normalize(c.float() + s, p=1.0, dim=-1).log(),
            facts=("E",),
        ),
        Variant(
            "difference_of_logs",
            lambda c, s: (c + s).log() - (c + s).sum(1, keepdim=True).log(),
            facts=("E",),
        ),
        Variant(
            "numpy",
            lambda c, s: np.log((c.numpy() + s) / (c.numpy() + s).sum(-1, keepdims=True)),
            facts=("N",),
        ),
        Variant(
            "row_by_row",
            lambda c, s: [((row + s) / (row + s).sum()).log() for row in c.double()],
            facts=("E", "N"),
        ),
    ),
)


# --- bigram_entropy ------------------------------------------------------------------------------


def _entropy_cases(draw: Draw) -> Iterator[Case]:
    for d_vocab in draw.sizes(3, 3, 9):
        yield Case((skewed_counts(draw, d_vocab),))
    unseen = skewed_counts(draw, 7)
    unseen[draw.integer(0, 6)] = 0
    yield Case((unseen.double(),), "with a token that never occurs, in float64")
    one = torch.zeros(5, 5)
    one[draw.integer(0, 4), draw.integer(0, 4)] = float(draw.integer(2, 30))
    yield Case((one,), "with only one pair, over and over")


def _entropy(p: Tensor) -> Tensor:
    """Σ −p ln p over the last axis, 0 ln 0 = 0."""
    return -torch.special.xlogy(p, p).sum(-1)


def _shares_of_rows(counts: Tensor) -> Tensor:
    c = counts.double()
    return c / c.sum(-1, keepdim=True).clamp_min(1e-300)


def _conditional(counts: Tensor) -> Tensor:
    c = counts.double()
    return (c.sum(-1) * _entropy(_shares_of_rows(c))).sum() / c.sum()


def _naive(counts: Tensor) -> Tensor:
    c = counts.double()
    p = c / c.sum(-1, keepdim=True)
    return -(c / c.sum() * p.log()).sum()


def _chain_rule(counts: Tensor) -> float:
    pairs = counts.double() / counts.double().sum()
    return float(_entropy(pairs.flatten()) - _entropy(pairs.sum(-1)))


def _loops(counts: Tensor) -> float:
    total, loss = float(counts.sum()), 0.0
    for row in counts.tolist():
        loss -= sum(c / total * np.log(c / sum(row)) for c in row if c)
    return loss


BIGRAM_ENTROPY = Exercise(
    reference=reference.bigram_entropy,
    notebook=NOTEBOOK,
    title="The floor: bigram entropy",
    paper=PAPER,
    points=2,
    minutes=12,
    difficulty=2,
    cases=_entropy_cases,
    compare=Comparator(),
    hints=(
        "Imagine a model whose table is exactly the shares in this text. What does it pay for one "
        "pair (a, b), and how often does that pair occur?",
        "Two divisions, by two different sums: the surprise of b uses the sum of row a; the weight "
        "of the pair uses the sum of the whole table.",
        "Cells with count 0 weigh nothing, but a computer turns 0 · ln 0 into NaN. Leave them out, or "
        "use an operation that knows 0 · ln 0 = 0.",
    ),
    mistakes=(
        Mistake(
            "nan_from_empty_cells",
            _naive,
            "The result is NaN: 0 · ln 0 isn't 0 for a computer. Pairs that never occur must count "
            "nothing.",
            facts=(13,),
        ),
        Mistake(
            "the_other_way",
            lambda c: _conditional(c.T),
            "This is the entropy of the token *before*, given the one after. The rows are the current "
            "token, the columns what follows.",
            facts=(1,),
        ),
        Mistake(
            "bits",
            lambda c: _conditional(c) / np.log(2),
            "Off by a factor of 1/ln 2: this is in bits. The course counts in nats.",
            facts=(6,),
        ),
        Mistake(
            "joint",
            lambda c: _entropy((c.double() / c.sum()).flatten()),
            "This is the entropy of pairs: it pays for the current token too, which the model is "
            "given for free.",
            facts=(2,),
        ),
        Mistake(
            "rows_weighed_equally",
            lambda c: _entropy(_shares_of_rows(c))[c.sum(-1) > 0].mean(),
            "Every row weighs the same here. A token that occurs often counts often.",
            facts=(12,),
            same_as=("all_rows_weighed_equally",),
        ),
        Mistake(
            "all_rows_weighed_equally",
            lambda c: _entropy(_shares_of_rows(c)).mean(),
            "Every row weighs the same here. A token that occurs often counts often.",
            facts=(12,),
            same_as=("rows_weighed_equally",),
        ),
        Mistake(
            "rows_added_up",
            lambda c: _entropy(_shares_of_rows(c)).sum(),
            "The entropies of the rows are added up. They should be averaged, each row weighing as "
            "often as its token occurs.",
            facts=(12,),
        ),
        Mistake(
            "sum_over_the_text",
            lambda c: _conditional(c) * c.sum(),
            "This is the loss of the whole text. Asked is the mean for one pair.",
            facts=(12,),
        ),
        Mistake(
            "unigram",
            lambda c: _entropy(c.double().sum(0) / c.sum()),
            "This is the entropy of the next token when nothing is known. A bigram model knows the "
            "current token.",
        ),
        Mistake(
            "unigram_of_current",
            lambda c: _entropy(c.double().sum(-1) / c.sum()),
            "This is the entropy of the current token alone. Asked is the surprise of the next one, "
            "given the current.",
        ),
        Mistake(
            "wrong_sign",
            lambda c: -_conditional(c),
            "Right size, wrong sign: a loss is minus a log-probability, so never below 0.",
        ),
        Mistake(
            "perplexity",
            lambda c: _conditional(c).exp(),
            "This is the perplexity, the exponential of the loss. Asked is the loss in nats.",
        ),
        Mistake(
            "smoothed",
            lambda c: _conditional(c + 1),
            "The counts are smoothed by 1. The floor of this very text uses its counts as they are.",
        ),
        Mistake(
            "mean_over_cells",
            lambda c: -torch.special.xlogy(_shares_of_rows(c), _shares_of_rows(c)).mean(),
            "This averages over the cells of the table. Average over the pairs of the text: a cell "
            "weighs as often as its pair occurs.",
            facts=(12,),
        ),
    ),
    variants=(
        Variant("chain_rule", _chain_rule, facts=("E", "N")),
        Variant("loops", _loops, facts=("E", "N")),
        Variant("rows_first", _conditional, facts=("E", "D")),
        Variant(
            "nansum",
            lambda c: -(c / c.sum() * (c / c.sum(-1, keepdim=True)).log()).nansum(),
            facts=("E",),
        ),
    ),
)
