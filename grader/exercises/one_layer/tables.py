"""Skip-trigrams read off the two tables of a head."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import NOTEBOOK, SKIP_TRIGRAMS, largest
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

Top = tuple[Tensor, Tensor]


def _top_cases(draw: Draw) -> Iterator[Case]:
    def tables(by: Draw, d_vocab: int) -> tuple[Tensor, Tensor]:
        return by.normal(d_vocab, d_vocab), by.normal(d_vocab, d_vocab)

    n_sources, n_outputs = draw.sizes(2, 3, 6)
    d_vocab = draw.integer(14, 18)
    yield Case((*tables(draw, d_vocab), draw.integer(0, d_vocab - 1), n_sources, n_outputs))
    qk, ov = tables(draw, d_vocab)
    destination = draw.integer(0, d_vocab - 1)
    qk[destination, destination] = 6.0
    yield Case(
        (qk, ov + 5 * torch.eye(d_vocab), destination, n_sources, n_outputs),
        "where a token looks at itself and copies itself",
    )
    double = Draw(draw.seed, torch.float64)
    qk, ov = tables(double, d_vocab)
    yield Case((qk - 4, ov, 0, n_outputs, n_outputs), "where all scores are low, in float64")
    yield Case((*tables(draw, 9), draw.integer(0, 8), 1, 1), "with one source and one output")


def _top(full_qk: Tensor, full_ov: Tensor, destination: int, n: int, m: int) -> Top:
    sources = largest(full_qk[destination], n)
    return sources, largest(full_ov[sources], m)


def _one_by_one(full_qk: Tensor, full_ov: Tensor, destination: int, n: int, m: int) -> Top:
    sources = [int(s) for s in torch.topk(full_qk[destination], n).indices]
    outputs = [torch.topk(full_ov[s], m).indices.tolist() for s in sources]
    return torch.tensor(sources), torch.tensor(outputs)


def _without_self(full_qk: Tensor, full_ov: Tensor, destination: int, n: int, m: int) -> Top:
    scores = full_qk[destination].clone()
    scores[destination] = -torch.inf
    sources = largest(scores, n)
    return sources, largest(full_ov[sources], m)


def _no_copies(full_qk: Tensor, full_ov: Tensor, destination: int, n: int, m: int) -> Top:
    sources = largest(full_qk[destination], n)
    effects = full_ov.clone().fill_diagonal_(-torch.inf)
    return sources, largest(effects[sources], m)


def _by_product(full_qk: Tensor, full_ov: Tensor, destination: int, n: int, m: int) -> Top:
    sources = largest(full_qk[destination] * full_ov.amax(dim=-1), n)
    return sources, largest(full_ov[sources], m)


def _by_sum(full_qk: Tensor, full_ov: Tensor, destination: int, n: int, m: int) -> Top:
    sources = largest(full_qk[destination], n)
    return sources, largest(full_qk[destination] + full_ov[sources], m)


TOP_SKIP_TRIGRAMS = Exercise(
    reference=reference.top_skip_trigrams,
    notebook=NOTEBOOK,
    title="Read skip-trigrams off the tables",
    paper=SKIP_TRIGRAMS,
    points=2,
    minutes=10,
    difficulty=1,
    cases=_top_cases,
    compare=Comparator("sources", "outputs"),
    hints=(
        "One row of one table answers the first question. Each source found names the row of the "
        "other table that answers the second.",
        "full_qk is [destination, source], full_ov is [source, output]. Return ids, not values: "
        "(n_sources,) and (n_sources, n_outputs).",
        "Sort the destination's row of full_qk in descending order and keep the first ids; take "
        "these rows of full_ov and do the same along their last axis. `torch.topk` gives ids too.",
    ),
    mistakes=(
        Mistake(
            "qk_read_by_column",
            lambda qk, ov, d, n, m: _top(qk.T, ov, d, n, m),
            "The sources come from a column of full_qk: those are the destinations that like this "
            "token as a source. Destinations are rows.",
            facts=(30,),
        ),
        Mistake(
            "ov_read_by_column",
            lambda qk, ov, d, n, m: _top(qk, ov.T, d, n, m),
            "The outputs come from columns of full_ov: those are the sources that raise this token. "
            "Sources are rows.",
            facts=(50, 37),
        ),
        Mistake(
            "both_read_by_column",
            lambda qk, ov, d, n, m: _top(qk.T, ov.T, d, n, m),
            "Both tables are read by columns. In this course what acts stands in the rows: "
            "destination, then source.",
            facts=(30, 37),
        ),
        Mistake(
            "outputs_of_the_destination",
            lambda qk, ov, d, n, m: (
                largest(qk[d], n),
                largest(ov[d], m).repeat(n, 1),
            ),
            "All sources have the same outputs, those of the destination's own row in full_ov. What "
            "is copied comes from the source.",
            facts=(48,),
        ),
        Mistake(
            "outputs_from_qk",
            lambda qk, ov, d, n, m: (largest(qk[d], n), largest(qk[largest(qk[d], n)], m)),
            "The outputs were read from full_qk. QK says where a head looks; only OV says what comes "
            "of it.",
            facts=(47,),
        ),
        Mistake(
            "qk_plus_ov",
            _by_sum,
            "The outputs are ranked by QK plus OV. The two are not in one currency: QK's row of the "
            "destination is about sources, not about outputs.",
            facts=(47,),
        ),
        Mistake(
            "ranked_by_product",
            _by_product,
            "The sources are ranked by QK times their best OV entry. That is a sensible idea, but "
            "asked for are the sources by full_qk alone.",
            facts=(47,),
        ),
        Mistake(
            "worst_first",
            lambda qk, ov, d, n, m: _top(-qk, -ov, d, n, m),
            "These are the lowest entries. The largest come first.",
        ),
        Mistake(
            "by_size_without_sign",
            lambda qk, ov, d, n, m: _top(qk.abs(), ov.abs(), d, n, m),
            "Entries are ranked by size without their sign. A very negative score means that the "
            "head looks away, a very negative entry of OV that the token becomes *less* likely.",
        ),
        Mistake(
            "destination_left_out",
            _without_self,
            "The destination itself was taken off the list of sources. A token may look at itself; "
            "nothing is left out here.",
            facts=(49,),
        ),
        Mistake(
            "source_left_out",
            _no_copies,
            "The source was taken off its own list of outputs. A source that raises itself is what "
            "copying is; nothing is left out here.",
            facts=(49,),
        ),
        Mistake(
            "values_for_ids",
            lambda qk, ov, d, n, m: (
                qk[d].sort(descending=True).values[:n],
                ov[largest(qk[d], n)].sort(dim=-1, descending=True).values[:, :m],
            ),
            "These are the entries themselves. Asked for are the ids of the tokens they belong to.",
        ),
        Mistake(
            "best_source_only",
            lambda qk, ov, d, n, m: (largest(qk[d], n), largest(ov[largest(qk[d], 1)[0]], m)),
            "Outputs came for the best source only. Each source has outputs of its own: "
            "(n_sources, n_outputs).",
        ),
    ),
    variants=(
        Variant("one_by_one", _one_by_one, facts=("E",)),
        Variant(
            "ranked_by_attention",
            lambda qk, ov, d, n, m: _top(qk.softmax(dim=-1), ov, d, n, m),
            facts=("Q",),
        ),
        Variant(
            "numpy",
            lambda qk, ov, d, n, m: (
                np.argsort(-qk.numpy()[d])[:n],
                np.argsort(-ov.numpy()[np.argsort(-qk.numpy()[d])[:n]], axis=-1)[:, :m],
            ),
            facts=("N",),
        ),
        Variant(
            "lists",
            lambda qk, ov, d, n, m: [part.tolist() for part in _top(qk, ov, d, n, m)],
            facts=("N",),
        ),
    ),
)
