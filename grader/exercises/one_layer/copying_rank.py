"""The row-wise test for copying, a few rows of the full table at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import (
    FULL_MIB,
    FULL_VOCABULARY,
    NOTEBOOK,
    SUMMARIZING,
    Head,
    dense_ov,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Budget, Case, Exercise, Mistake, Variant

LARGE_MIB = 14.0  # the whole table of the large case takes 24 MiB in float32


def _integer_head(draw: Draw, d_vocab: int, d_model: int, d_head: int) -> Head:
    """Small whole numbers, so that ties are exact; a head that copies many tokens, not all.

    Some outputs have the very column of another one, so that their logits are always tied.
    """
    W_E = draw.integers((d_vocab, d_model), -2, 2)
    W_V = draw.integers((d_model, d_head), -1, 1)
    W_O = W_V.T + draw.integers((d_head, d_model), -1, 1)
    noise = draw.integers((d_model, d_vocab), -2, 2)
    W_U = W_E.T + noise * (draw.integers((1, d_vocab), 0, 1))
    half = d_vocab // 2
    W_U[:, half : half + half // 2] = W_U[:, : half // 2]
    W_E[half : half + half // 2] = W_E[: half // 2]
    W_E, W_V, W_O, W_U = (weight.to(draw.dtype) for weight in (W_E, W_V, W_O, W_U))
    return W_E, W_V, W_O, W_U


def _often_copying(draw: Draw, d_vocab: int, d_model: int, d_head: int) -> Head:
    """Whole numbers, a large vocabulary: many tokens are copied, and fewer of the first 500.

    The head passes d_head coordinates on as they are. No entry is larger than 2, so nothing beats a
    token whose d_head coordinates are all 2 or −2 and come back unchanged.
    """
    first, later = draw.number(0.2, 0.3), draw.number(0.5, 0.6)
    rare = draw.integers((d_vocab, 1), 1, 1000) > 1000 * torch.where(
        torch.arange(d_vocab)[:, None] < 500, first, later
    )
    signs = 4 * draw.integers((d_vocab, d_model), 0, 1) - 2
    W_E = torch.where(rare, draw.integers((d_vocab, d_model), -2, 2), signs)
    noise = draw.integers((d_model, d_vocab), -2, 2) * rare.T
    W_U = (W_E.T + noise).clamp(-2, 2)
    W_V = torch.eye(d_model)[:, :d_head]
    W_E, W_V, W_O, W_U = (weight.to(draw.dtype) for weight in (W_E, W_V, W_V.T, W_U))
    return W_E, W_V, W_O, W_U


@functools.cache
def _full_size() -> Head:
    """Weights over a full vocabulary, drawn once a process; a dense circuit would take 10 GB."""
    return _often_copying(Draw(0), FULL_VOCABULARY, 24, 8)


def _rank_cases(draw: Draw) -> Iterator[Case]:
    d_head, d_model = sorted(draw.sizes(2, 4, 8))
    yield Case(_integer_head(draw, draw.integer(28, 36), d_model, d_head))
    yield Case(_integer_head(draw, 12, 12, 12), "where all sizes are equal")
    double = Draw(draw.seed, torch.float64)
    yield Case(_integer_head(double, 25, d_model, 1), "with d_head 1, in float64")
    yield Case(_integer_head(draw, 1, d_model, d_head), "with a vocabulary of one token")
    W_E, W_V, W_O, W_U = _integer_head(draw, 30, d_model, d_head)
    yield Case((W_E, W_V, -W_O, W_U), "with a head that lowers what it sees")
    yield Case(
        _often_copying(draw, 2500, 6, 3),
        "with a vocabulary of 2,500 tokens",
        {"memory_mib": LARGE_MIB},
    )
    if draw.guarded:
        yield Case(
            _full_size(), "with the whole vocabulary of 50,257 tokens",
            {"memory_mib": FULL_MIB}, guarded=True,
        )  # fmt: skip


def _chunks(ids: Tensor) -> tuple[Tensor, ...]:
    return torch.split(ids, 500)


def _share(test: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The share of rows that pass ``test(rows, ids of the rows)``, a few hundred rows at a time."""

    def answer(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
        A, B = W_E @ W_V, W_O @ W_U
        ids = torch.arange(len(A))
        passed = [test(A[few] @ B, few).double().sum() for few in _chunks(ids)]
        return torch.stack(passed).sum() / len(A)

    return answer


def _own(rows: Tensor, ids: Tensor) -> Tensor:
    return rows.gather(1, ids[:, None])[:, 0]


def _largest(rows: Tensor, ids: Tensor) -> Tensor:
    return _own(rows, ids) >= rows.amax(dim=1)


def _tokens_by_column(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    return _share(_largest)(W_U.T, W_O.T, W_V.T, W_E.T)


def _strictly(rows: Tensor, ids: Tensor) -> Tensor:
    return _largest(rows, ids) & ((rows == rows.amax(dim=1, keepdim=True)).sum(dim=1) == 1)


def _with_the_direct_path(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    wide = torch.cat([W_E @ W_V, W_E], dim=1), torch.cat([W_O @ W_U, W_U])
    eye = torch.eye(wide[0].shape[1], dtype=W_E.dtype)
    return _share(_largest)(wide[0], eye, eye, wide[1])


def _between_directions(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    eye = torch.eye(len(W_V), dtype=W_V.dtype)
    return _share(_largest)(eye, W_V, W_O, eye)


def _chunk_of_the_vocabulary(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    return _share(_largest)(W_E[:500], W_V, W_O, W_U)


def _within_the_chunk(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    A, B = W_E @ W_V, W_O @ W_U
    counts = []
    for few in _chunks(torch.arange(len(A))):
        block = A[few] @ B
        counts.append((block.diagonal() >= block.amax(dim=1)).double().sum())
    return torch.stack(counts).sum() / len(A)


def _in_numpy(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> float:
    A, B = (W_E @ W_V).numpy(), (W_O @ W_U).numpy()
    hits = 0
    for start in range(0, len(A), 250):
        rows = A[start : start + 250] @ B
        places = np.arange(len(rows))
        hits += int((rows[places, start + places] == rows.max(axis=1)).sum())
    return hits / len(A)


COPYING_RANK = Exercise(
    reference=reference.copying_rank,
    notebook=NOTEBOOK,
    title="The row-wise test for copying",
    paper=SUMMARIZING,
    points=3,
    minutes=15,
    difficulty=2,
    cases=_rank_cases,
    compare=Comparator(),
    # 7–14 s of one core at the full vocabulary; a busy grading machine needs its slack.
    budget=Budget(wall=30.0, cpu=30.0, guarded_wall=120.0),
    hints=(
        "For each source token: is there an output that gains more than the token itself? This is a "
        "question to one row at a time.",
        "A few hundred rows of the full OV circuit cost (rows, d_head) times (d_head, d_vocab). The "
        "token's own entry of row i is at column i of the *whole* table, also in a later chunk.",
        "Go through the rows in chunks; compare each row's own entry with the row's maximum, where "
        "a tie counts; add up the hits; divide by d_vocab.",
    ),
    mistakes=(
        Mistake(
            "by_column",
            _tokens_by_column,
            "The maximum was taken down the columns: for each output, which source raises it most. "
            "Asked for is, for each source, which output it raises most.",
            facts=(50, 37),
        ),
        Mistake(
            "first_of_a_tie",
            _share(lambda rows, ids: rows.argmax(dim=1) == ids),
            "A tie counts as a hit, but `argmax` names only one of the tied tokens, mostly the "
            "first.",
            facts=(50,),
        ),
        Mistake(
            "ties_left_out",
            _share(_strictly),
            "Tied tokens are not counted. If nothing beats the token's own entry, it counts, also "
            "where another one equals it.",
        ),
        Mistake(
            "positive_diagonal",
            _share(lambda rows, ids: _own(rows, ids) > 0),
            "This is the share of tokens that raise themselves at all. Asked for is the share that "
            "raise no other token more.",
        ),
        Mistake(
            "by_size_without_sign",
            _share(lambda rows, ids: _largest(rows.abs(), ids)),
            "Entries are compared by size without sign, so a head that *lowers* the source's logit "
            "counts as copying.",
            facts=(68,),
        ),
        Mistake(
            "count",
            lambda *head: _share(_largest)(*head) * len(head[0]),
            "This is the number of tokens. Asked for is their share, between 0 and 1.",
            facts=(12,),
        ),
        Mistake(
            "percent",
            lambda *head: _share(_largest)(*head) * 100,
            "This is in percent. A share lies between 0 and 1.",
        ),
        Mistake(
            "complement",
            lambda *head: 1 - _share(_largest)(*head),
            "This is the share of the *other* tokens, those that raise something else more than "
            "themselves.",
        ),
        Mistake(
            "between_directions",
            _between_directions,
            "These are rows of W_OV, between directions of the stream. The test is about tokens.",
            facts=(75, 46),
        ),
        Mistake(
            "with_the_direct_path",
            _with_the_direct_path,
            "The direct path is added to the head's table. The test is about the head alone.",
            facts=(54,),
        ),
        Mistake(
            "within_the_chunk",
            _within_the_chunk,
            "Right for small vocabularies only. In a later chunk the rows don't start at token 0: "
            "row i of the chunk has its own entry further to the right.",
            facts=(119,),
        ),
        Mistake(
            "first_chunk_only",
            _chunk_of_the_vocabulary,
            "Right for small vocabularies only: just the first rows are looked at.",
            facts=(119,),
        ),
        Mistake(
            "too_much_memory",
            lambda *head: (
                (dense_ov(*head).diagonal() >= dense_ov(*head).amax(dim=1)).double().mean()
            ),
            "The table of the whole vocabulary was formed.",
        ),
    ),
    variants=(
        Variant("in_chunks", _share(_largest), facts=("E",)),
        Variant("numpy", _in_numpy, facts=("E", "N")),
        Variant(
            "by_counting_what_beats_it",
            _share(lambda rows, ids: (rows > _own(rows, ids)[:, None]).sum(dim=1) == 0),
            facts=("E",),
        ),
    ),
)
