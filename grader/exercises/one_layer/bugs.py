"""The skip-trigram bug: one source does the same for everybody who looks at it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import NOTEBOOK
from grader.judge.comparators import Comparator, Unordered
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

Pair = tuple[Hashable, Hashable]


def _effect_cases(draw: Draw) -> Iterator[Case]:
    def case(by: Draw, d_vocab: int, dst: int, out: int, d_head: int, label: str = "") -> Case:
        qk = by.normal(d_vocab, d_vocab, scale=2.0 * d_head**0.5)
        ids = [torch.randperm(d_vocab, generator=by.generator)[:n].tolist() for n in (dst, out)]
        args = (qk, by.normal(d_vocab, d_vocab), by.integer(0, d_vocab - 1), *ids, d_head)
        return Case(args, label)

    dst, out, d_head, d_vocab = sorted(draw.sizes(4, 2, 9))
    yield case(draw, d_vocab, dst, out, d_head)
    yield case(draw, 5, 5, 5, 4, "with every token as destination and as output")
    double = Draw(draw.seed, torch.float64)
    yield case(double, d_vocab, 1, out, 16, "with one destination, in float64")
    yield case(draw, d_vocab, out, 1, 3, "with one output")


def _share(qk: Tensor, source: int, destinations: Sequence[int], d_head: float) -> Tensor:
    return torch.sigmoid(qk[destinations, source] / d_head**0.5)


def _entry_by_entry(
    qk: Tensor,
    ov: Tensor,
    source: int,
    destinations: Sequence[int],
    outputs: Sequence[int],
    d_head: int,
) -> list[list[float]]:
    rows = []
    for d in destinations:
        e = float((qk[d, source] / d_head**0.5).exp())
        rows.append([e / (e + 1) * float(ov[source, o]) for o in outputs])
    return rows


def _two_sources_softmax(
    qk: Tensor,
    ov: Tensor,
    source: int,
    destinations: Sequence[int],
    outputs: Sequence[int],
    d_head: int,
) -> Tensor:
    s = qk[destinations, source] / d_head**0.5
    share = torch.stack([s, torch.zeros_like(s)], dim=-1).softmax(dim=-1)
    return share @ torch.stack([ov[source, outputs], torch.zeros(len(outputs), dtype=ov.dtype)])


SKIP_TRIGRAM_EFFECT = Exercise(
    reference=reference.skip_trigram_effect,
    notebook=NOTEBOOK,
    title="What one source does, for many destinations",
    paper="Skip-Trigram Bugs",
    points=3,
    minutes=15,
    difficulty=2,
    cases=_effect_cases,
    compare=Comparator(),
    hints=(
        "There are two sources: the one you study and one that scores 0 and writes nothing. How do "
        "two sources share an attention of 1?",
        "The attention depends on the destination only, the row of full_ov on the source only. One "
        "number for each destination, one for each output.",
        "A softmax over the two scores s and 0 is the sigmoid of s, where s is the entry of full_qk "
        "divided by √d_head. The result is an outer product.",
    ),
    mistakes=(
        Mistake(
            "not_scaled",
            lambda qk, ov, s, ds, os, d: torch.outer(torch.sigmoid(qk[ds, s]), ov[s, os]),
            "The attention is too sharp: an entry of a circuit becomes a score when it is divided by "
            "√d_head.",
            facts=(17,),
        ),
        Mistake(
            "scaled_by_d_head",
            lambda qk, ov, s, ds, os, d: torch.outer(torch.sigmoid(qk[ds, s] / d), ov[s, os]),
            "The scores are divided by d_head instead of its square root.",
            facts=(19,),
        ),
        Mistake(
            "qk_transposed",
            lambda qk, ov, s, ds, os, d: torch.outer(_share(qk.T, s, ds, d), ov[s, os]),
            "full_qk was read as [source, destination]. The destination is in the rows.",
            facts=(30, 16),
        ),
        Mistake(
            "ov_transposed",
            lambda qk, ov, s, ds, os, d: torch.outer(_share(qk, s, ds, d), ov[os, s]),
            "full_ov was read as [output, source]. The source is in the rows.",
            facts=(37, 50),
        ),
        Mistake(
            "both_transposed",
            lambda qk, ov, s, ds, os, d: torch.outer(_share(qk.T, s, ds, d), ov[os, s]),
            "Both tables were read by columns. full_qk is [destination, source], full_ov is "
            "[source, output].",
            facts=(30, 37),
        ),
        Mistake(
            "ov_row_of_the_destination",
            lambda qk, ov, s, ds, os, d: _share(qk, s, ds, d)[:, None] * ov[ds][:, os],
            "Each destination has its own row of full_ov here. What is written comes from the "
            "*source*, and there is one: that is why the bug arises.",
            facts=(48,),
        ),
        Mistake(
            "score_times_ov",
            lambda qk, ov, s, ds, os, d: torch.outer(qk[ds, s] / d**0.5, ov[s, os]),
            "The score itself is multiplied with OV. The destination pays *attention*, a share "
            "between 0 and 1, made from the score.",
            facts=(47,),
        ),
        Mistake(
            "raw_product",
            lambda qk, ov, s, ds, os, d: torch.outer(qk[ds, s], ov[s, os]),
            "The raw entries of QK and OV are multiplied. The destination pays *attention*, a share "
            "between 0 and 1, made from its score.",
            facts=(47,),
        ),
        Mistake(
            "exponential_only",
            lambda qk, ov, s, ds, os, d: torch.outer((qk[ds, s] / d**0.5).exp(), ov[s, os]),
            "The exponential of the score isn't a share yet: it must be divided by the sum over both "
            "sources.",
        ),
        Mistake(
            "softmax_over_destinations",
            lambda qk, ov, s, ds, os, d: torch.outer(
                (qk[ds, s] / d**0.5).softmax(dim=0), ov[s, os]
            ),
            "The softmax runs over destinations. They don't compete with each other: each shares out "
            "an attention of its own, among sources.",
            facts=(21,),
        ),
        Mistake(
            "softmax_over_the_vocabulary",
            lambda qk, ov, s, ds, os, d: torch.outer(
                (qk[ds] / d**0.5).softmax(dim=-1)[:, s], ov[s, os]
            ),
            "The source competes with the whole vocabulary. Here it has a single rival, whose score "
            "is 0.",
        ),
        Mistake(
            "attention_of_the_rival",
            lambda qk, ov, s, ds, os, d: torch.outer(1 - _share(qk, s, ds, d), ov[s, os]),
            "This is the attention that goes to the *other* source, the one that writes nothing.",
        ),
        Mistake(
            "outputs_in_the_rows",
            lambda qk, ov, s, ds, os, d: torch.outer(ov[s, os], _share(qk, s, ds, d)),
            "Right numbers, with the outputs in the rows. Destinations come first.",
        ),
        Mistake(
            "log_probs",
            lambda qk, ov, s, ds, os, d: (_share(qk, s, ds, d)[:, None] * ov[s]).log_softmax(
                dim=-1
            )[:, os],
            "These are log-probabilities. The softmax over outputs mixes in a term for each "
            "destination, and the product form is gone; logits were asked for.",
            facts=(8,),
        ),
    ),
    variants=(
        Variant("entry_by_entry", _entry_by_entry, facts=("E", "N")),
        Variant("softmax_over_two_sources", _two_sources_softmax, facts=("E",)),
        Variant(
            "numpy",
            lambda qk, ov, s, ds, os, d: np.outer(
                1 / (1 + np.exp(-qk.numpy()[ds, s] / np.sqrt(d))), ov.numpy()[s, os]
            ),
            facts=("N",),
        ),
    ),
)


# --- what is forced along -------------------------------------------------------------------------


def _bug_cases(draw: Draw) -> Iterator[Case]:
    yield Case(([("in", "mind"), ("at", "bay"), ("under", "wraps")],), "for 'keep'")
    ids = [int(i) for i in torch.randperm(20, generator=draw.generator)]
    yield Case(([(ids[0], ids[1]), (ids[0], ids[2]), (ids[3], ids[1]), (ids[4], ids[5])],))
    chain = [(ids[6], ids[7]), (ids[7], ids[8]), (ids[6], ids[7])]
    yield Case((chain,), "with a token on both sides, and a pair that comes twice")
    grid = [(d, o) for d in ids[:2] for o in ids[2:5]]
    yield Case((grid,), "where nothing more is forced")
    yield Case(([(ids[0], ids[1])],), "with a single pair")


def _grid(pairs: Sequence[Pair]) -> set[Pair]:
    return {(d, o) for d, _ in pairs for _, o in pairs}


def _neighbours(pairs: Sequence[Pair]) -> set[Pair]:
    crossed = [(a[0], b[1]) for a, b in pairwise(pairs)]
    back = [(b[0], a[1]) for a, b in pairwise(pairs)]
    return {*crossed, *back} - set(pairs)


def _as_dict(pairs: Sequence[Pair]) -> set[Pair]:
    kept = dict(pairs)
    return {(d, o) for d in kept for o in kept.values()} - set(kept.items())


def _all_tokens(pairs: Sequence[Pair]) -> set[Pair]:
    tokens = [token for pair in pairs for token in pair]
    return {(a, b) for a in tokens for b in tokens if a != b} - set(pairs)


def _crossed_in_a_loop(pairs: Sequence[Pair]) -> list[Pair]:
    found = []
    for destination, _ in pairs:
        for _, output in pairs:
            if (destination, output) not in pairs:
                found.append((destination, output))
    return found


BUG_PARTNERS = Exercise(
    reference=reference.bug_partners,
    notebook=NOTEBOOK,
    title="Which pairs are forced along",
    paper="Skip-Trigram Bugs",
    points=1,
    minutes=8,
    difficulty=1,
    cases=_bug_cases,
    compare=Unordered(),
    hints=(
        "The source writes the same for everybody who looks at it. So who gets which outputs?",
        "Collect the destinations and the outputs; every destination gets every output. Some of "
        "these pairs were asked for.",
        "All combinations of a destination with an output, as a set, without the given pairs.",
    ),
    mistakes=(
        Mistake(
            "given_pairs_kept",
            _grid,
            "The pairs that were wanted are among the result. Asked for are those that come along "
            "with them.",
        ),
        Mistake(
            "given_pairs_only",
            set,
            "These are the pairs that were given. Asked for are the *others*, which the head cannot "
            "avoid.",
        ),
        Mistake(
            "sides_exchanged",
            lambda pairs: {(o, d) for d, o in _grid(pairs) - set(pairs)},
            "Destination and output are exchanged in your pairs.",
        ),
        Mistake(
            "neighbors_only",
            _neighbours,
            "Only pairs that stand next to each other in the list were crossed. Every destination "
            "gets every output.",
        ),
        Mistake(
            "one_output_a_destination",
            _as_dict,
            "A dictionary keeps one output for each destination. A destination may well have "
            "several.",
        ),
        Mistake(
            "everything_with_everything",
            _all_tokens,
            "All tokens were combined with all. A destination is never followed by another "
            "destination because of this source: first come destinations, then outputs.",
        ),
        Mistake(
            "same_token_left_out",
            lambda pairs: {(d, o) for d, o in _grid(pairs) if d != o} - set(pairs),
            "Pairs of a token with itself are left out. If that token is both a destination and an "
            "output, the pair is forced like any other.",
        ),
        Mistake(
            "sorted_pairs",
            lambda pairs: {tuple(sorted(pair, key=str)) for pair in _grid(pairs) - set(pairs)},
            "The two tokens of a pair were sorted. Which is the destination and which the output "
            "must stay known.",
        ),
    ),
    variants=(
        Variant("list_in_a_loop", _crossed_in_a_loop, facts=("E", "P")),
        Variant(
            "cross_every_two",
            lambda pairs: {(a[0], b[1]) for a in pairs for b in pairs}.difference(pairs),
            facts=("E",),
        ),
    ),
)
