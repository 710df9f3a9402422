"""What a head is really used for on a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import (
    NOTEBOOK,
    SKIP_TRIGRAMS,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

Found = list[tuple[int, int, int, float]]
Uses = Iterator[tuple[int, int]]


def _used_cases(draw: Draw) -> Iterator[Case]:
    def case(by: Draw, pos: int, d_vocab: int, k: int, label: str = "") -> Case:
        tokens, ov = by.tokens(pos, d_vocab=d_vocab), by.normal(d_vocab, d_vocab)
        return Case((tokens, by.pattern(pos, pos), ov, k), label)

    d_vocab, k, pos = draw.integer(3, 4), draw.integer(5, 8), draw.integer(14, 18)
    yield case(draw, pos, d_vocab, k)
    yield case(draw, 12, 12, 12, "where pos, d_vocab and k are equal")
    yield case(Draw(draw.seed, torch.float64), pos, 2, 3, "with two tokens only, in float64")
    yield case(draw, 3, d_vocab, 1, "with three tokens, so that there is one use")


def _pairs(tokens: Tensor, past: int = 1, left: int = 1) -> Uses:
    """All (dst, src) with src at least ``past`` before dst, and dst at least ``left`` before the end."""
    for dst in range(len(tokens) - left):
        for src in range(dst - past + 1):
            yield dst, src


def _gathered(
    tokens: Tensor,
    k: int,
    amount: Callable[[int, int], Tensor],
    pairs: Uses | None = None,
    key: Callable[[int, int], tuple[int, int, int]] | None = None,
) -> Found:
    ids = tokens.tolist()

    def triple(dst: int, src: int) -> tuple[int, int, int]:
        return ids[src], ids[dst], ids[(dst + 1) % len(ids)]

    sums: Counter[tuple[int, int, int]] = Counter()
    for dst, src in pairs or _pairs(tokens):
        sums[(key or triple)(dst, src)] += float(amount(dst, src))  # type: ignore[assignment]
    best = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return [(*tokens_of, total) for tokens_of, total in best[:k]]


def _amount(tokens: Tensor, pattern: Tensor, ov: Tensor) -> Callable[[int, int], Tensor]:
    return lambda dst, src: pattern[dst, src] * ov[tokens[src], tokens[(dst + 1) % len(tokens)]]


def _used(tokens: Tensor, pattern: Tensor, ov: Tensor, k: int) -> Found:
    return _gathered(tokens, k, _amount(tokens, pattern, ov))


def _single_uses(tokens: Tensor, pattern: Tensor, ov: Tensor, k: int) -> Found:
    """The largest single uses, not gathered."""
    amount, ids = _amount(tokens, pattern, ov), tokens.tolist()
    uses = [
        (ids[src], ids[dst], ids[dst + 1], float(amount(dst, src))) for dst, src in _pairs(tokens)
    ]
    return sorted(uses, key=lambda use: -use[3])[:k]


def _mean_use(tokens: Tensor, pattern: Tensor, ov: Tensor, k: int) -> Found:
    every = 10**6
    sums = _gathered(tokens, every, _amount(tokens, pattern, ov))
    counts = {use[:3]: use[3] for use in _gathered(tokens, every, lambda *_: torch.tensor(1.0))}
    means = [(*use[:3], use[3] / counts[use[:3]]) for use in sums]
    return sorted(means, key=lambda use: -use[3])[:k]


def _by_size(tokens: Tensor, pattern: Tensor, ov: Tensor, k: int) -> Found:
    return sorted(_used(tokens, pattern, ov, 10**6), key=lambda use: -abs(use[3]))[:k]


def _no_next(tokens: Tensor, pattern: Tensor, ov: Tensor, k: int) -> Found:
    ids = tokens.tolist()
    return _gathered(
        tokens, k, lambda dst, src: pattern[dst, src] * ov[tokens[src], tokens[dst]],
        key=lambda dst, src: (ids[src], ids[dst], ids[dst + 1]),
    )  # fmt: skip


def _as_positions(tokens: Tensor, pattern: Tensor, ov: Tensor, k: int) -> Found:
    amount = _amount(tokens, pattern, ov)
    uses = [(src, dst, dst + 1, float(amount(dst, src))) for dst, src in _pairs(tokens)]
    return sorted(uses, key=lambda use: -use[3])[:k]


def _dense_table(tokens: Tensor, pattern: Tensor, ov: Tensor, k: int) -> Found:
    """Attention gathered into a (d_vocab, d_vocab, d_vocab) table, then times OV."""
    table = torch.zeros(len(ov), len(ov), len(ov), dtype=pattern.dtype)
    seen = torch.zeros_like(table, dtype=torch.bool)
    for dst, src in _pairs(tokens):
        place = tokens[src], tokens[dst], tokens[dst + 1]
        table[place] += pattern[dst, src]
        seen[place] = True
    table = (table * ov[:, None, :]).masked_fill(~seen, -torch.inf).flatten()
    values, places = table.topk(min(k, int(seen.sum())))
    n = len(ov)
    return [
        (p // n**2, p // n % n, p % n, v)
        for p, v in zip(places.tolist(), values.tolist(), strict=True)
    ]


USED_SKIP_TRIGRAMS = Exercise(
    reference=reference.used_skip_trigrams,
    notebook=NOTEBOOK,
    title="What a head is really used for",
    paper=SKIP_TRIGRAMS,
    points=4,
    minutes=25,
    difficulty=3,
    cases=_used_cases,
    compare=Comparator(),
    hints=(
        "One use of the head: a destination looks at an earlier source, and the true next token "
        "gains or loses by it. How much? Which three tokens take part?",
        "Run over all pairs src < dst where a token after dst exists. The same three tokens can meet "
        "many times in a text: their amounts belong into one sum.",
        "Add pattern[dst, src] times the OV entry of the source and the token at dst + 1 to a "
        "dictionary, keyed by (source token, destination token, next token). Sort by the sums, "
        "largest first, and keep k.",
    ),
    mistakes=(
        Mistake(
            "not_gathered",
            _single_uses,
            "The same three tokens come up more than once, or only once of many. Uses of the same "
            "(source, destination, next) belong into one sum.",
        ),
        Mistake(
            "mean_of_the_uses",
            _mean_use,
            "The amounts are averaged over the uses. A triple that helps a little a thousand times "
            "matters more than one that helps a lot once: sum them.",
            facts=(12,),
        ),
        Mistake(
            "itself_as_source",
            lambda tokens, A, ov, k: _gathered(
                tokens, k, _amount(tokens, A, ov), _pairs(tokens, past=0)
            ),
            "Destinations that look at themselves were counted. The source of a skip-trigram stands "
            "*before* its destination.",
        ),
        Mistake(
            "wraps_around",
            lambda tokens, A, ov, k: _gathered(
                tokens, k, _amount(tokens, A, ov), _pairs(tokens, left=0)
            ),
            "The last position was counted with the first token as its next one. It has no next "
            "token: leave it out.",
            facts=(10,),
        ),
        Mistake(
            "last_use_missing",
            lambda tokens, A, ov, k: _gathered(
                tokens, k, _amount(tokens, A, ov), _pairs(tokens, left=2)
            ),
            "One destination too few: the last but one position still has a next token.",
        ),
        Mistake(
            "no_shift",
            _no_next,
            "The OV entry is read at the destination's own token. What counts is the token that "
            "really came *next*.",
            facts=(10,),
        ),
        Mistake(
            "attention_only",
            lambda tokens, A, ov, k: _gathered(tokens, k, lambda dst, src: A[dst, src]),
            "Only attention was summed. A look that writes nothing to the next token's logit is not "
            "used: multiply with OV.",
            facts=(47,),
        ),
        Mistake(
            "ov_only",
            lambda tokens, A, ov, k: _gathered(
                tokens, k, lambda dst, src: ov[tokens[src], tokens[dst + 1]]
            ),
            "Only OV was summed, as if every destination looked at every source in full. Weigh it by "
            "the attention.",
            facts=(47,),
        ),
        Mistake(
            "pattern_transposed",
            lambda tokens, A, ov, k: _used(tokens, A.T, ov, k),
            "All sums are 0: the pattern was read as [source, destination], where the future is "
            "empty. Rows are destinations.",
            facts=(42,),
        ),
        Mistake(
            "ov_transposed",
            lambda tokens, A, ov, k: _used(tokens, A, ov.T, k),
            "The OV table was read as [output, source]. The source is in the rows.",
            facts=(37,),
        ),
        Mistake(
            "destination_first",
            lambda tokens, A, ov, k: [(d, s, n, v) for s, d, n, v in _used(tokens, A, ov, k)],
            "Source and destination are exchanged in your triples: the source comes first, as it "
            "does in the text.",
        ),
        Mistake(
            "worst_first",
            lambda tokens, A, ov, k: _used(tokens, A, ov, 10**6)[::-1][:k],
            "The smallest sums came. The largest come first.",
        ),
        Mistake(
            "by_size_without_sign",
            _by_size,
            "Sums are ranked by size without their sign. A negative sum means that the head made the "
            "true next token *less* likely.",
        ),
        Mistake(
            "positions",
            _as_positions,
            "These are positions. The uses are gathered by *token*: look the ids up.",
        ),
    ),
    variants=(
        Variant("in_a_dictionary", _used, facts=("E",)),
        Variant("dense_table", _dense_table, facts=("E",)),
        Variant(
            "as_an_array",
            lambda tokens, A, ov, k: torch.tensor(_used(tokens, A, ov, k), dtype=torch.float64),
            facts=("N",),
        ),
    ),
)
