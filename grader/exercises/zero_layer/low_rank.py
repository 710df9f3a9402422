"""Notebook 01: the best table of low rank by squared error, and why it isn't the best model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import zero_layer as reference
from grader.exercises.zero_layer.counting import NOTEBOOK
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant


def _cases(draw: Draw) -> Iterator[Case]:
    def table(by: Draw, d_vocab: int) -> Tensor:
        # Rows far from normalized around one offset, so that centering or renormalizing shows.
        return by.normal(d_vocab, d_vocab, scale=1.5).log_softmax(-1)

    d_vocab = draw.integer(7, 9)
    yield Case((table(draw, d_vocab), draw.integer(2, 4)))
    yield Case((table(Draw(draw.seed, torch.float64), 6), 3), "in float64")
    yield Case((table(draw, 5), 1), "with d_model 1")
    yield Case((table(draw, 4), 9), "with d_model above d_vocab")
    yield Case((table(draw, 1), 2), "with a vocabulary of one token")


Cut = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def _through_svd(cut: Cut) -> Callable[[Tensor, int], Tensor]:
    """A wrong answer that differs in what is put together from U, S, Vh."""

    def answer(log_probs: Tensor, d_model: int) -> Tensor:
        U, S, Vh = torch.linalg.svd(log_probs, full_matrices=False)
        return cut(U, S, Vh, d_model).log_softmax(-1)

    return answer


def _kept(U: Tensor, S: Tensor, Vh: Tensor, k: int) -> Tensor:
    return (U[:, :k] * S[:k]) @ Vh[:k]


def _rows_centered(log_probs: Tensor, d_model: int) -> Tensor:
    centered = log_probs - log_probs.mean(-1, keepdim=True)
    return _raw(centered, d_model).log_softmax(-1)


def _columns_centered(log_probs: Tensor, d_model: int) -> Tensor:
    mean = log_probs.mean(0, keepdim=True)
    return (_raw(log_probs - mean, d_model) + mean).log_softmax(-1)


def _of_probabilities(log_probs: Tensor, d_model: int) -> Tensor:
    return _raw(log_probs.exp(), d_model).clamp_min(1e-9).log().log_softmax(-1)


def _raw(log_probs: Tensor, d_model: int) -> Tensor:
    U, S, Vh = torch.linalg.svd(log_probs, full_matrices=False)
    return _kept(U, S, Vh, d_model)


def _by_eigenvectors(log_probs: Tensor, d_model: int) -> Tensor:
    """Project the rows onto the leading eigenvectors of LᵀL: the right singular vectors."""
    _, vectors = torch.linalg.eigh(log_probs.T.double() @ log_probs.double())
    leading = vectors.flip(-1)[:, :d_model]
    return (log_probs.double() @ leading @ leading.T).log_softmax(-1)


def _by_numpy(log_probs: Tensor, d_model: int) -> np.ndarray:
    U, S, Vh = np.linalg.svd(log_probs.numpy().astype(np.float64))
    S[d_model:] = 0
    kept = U @ np.diag(S) @ Vh
    return kept - np.log(np.exp(kept).sum(-1, keepdims=True))


SVD_BIGRAM_TABLE = Exercise(
    reference=reference.svd_bigram_table,
    notebook=NOTEBOOK,
    title="Cut the table to rank d_model",
    paper="Working with Low-Rank Matrices",
    points=2,
    minutes=12,
    difficulty=2,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "A model's logits are a product through d_model dimensions, so their rank is at most d_model. "
        "Which decomposition gives the nearest matrix of a given rank?",
        "Keep the d_model largest singular values with their left and right vectors; put them "
        "together again. torch returns the right vectors as rows.",
        "After the cut the rows no longer sum to 1. Treat them as logits and make each row a "
        "log-distribution again.",
    ),
    mistakes=(
        Mistake(
            "not_renormalized",
            _raw,
            "The cut table is returned as it is. Its rows are logits now: as probabilities they "
            "don't sum to 1 any more.",
            facts=(8,),
        ),
        Mistake(
            "normalized_over_current",
            lambda L, k: _raw(L, k).log_softmax(0),
            "The columns are normalized. Each row is a distribution over the next token.",
            facts=(9,),
        ),
        Mistake(
            "right_vectors_transposed",
            _through_svd(lambda U, S, Vh, k: (U[:, :k] * S[:k]) @ Vh.T[:k]),
            "The right singular vectors are turned once too often: torch returns them as the rows of "
            "its third result.",
            facts=(88,),
        ),
        Mistake(
            "left_vectors_from_rows",
            _through_svd(
                lambda U, S, Vh, k: (U[:k].T * S[:k]) @ Vh[:k] if k < len(S) else U.T * S @ Vh
            ),
            "The left singular vectors are the columns of the first result; rows were taken.",
            facts=(88,),
        ),
        Mistake(
            "singular_values_left_out",
            _through_svd(lambda U, S, Vh, k: U[:, :k] @ Vh[:k]),
            "The singular values are missing from the product: all kept directions count the same.",
        ),
        Mistake(
            "singular_values_twice",
            _through_svd(lambda U, S, Vh, k: (U[:, :k] * S[:k] ** 2) @ Vh[:k]),
            "The singular values are in the product twice. Split them between the two factors, or "
            "give them to one.",
        ),
        Mistake(
            "smallest_kept",
            _through_svd(lambda U, S, Vh, k: (U[:, -k:] * S[-k:]) @ Vh[-k:]),
            "The *smallest* singular values are kept. They come sorted, the largest first.",
        ),
        Mistake(
            "one_too_many",
            _through_svd(lambda U, S, Vh, k: _kept(U, S, Vh, k + 1)),
            "One direction too many is kept: the rank may be d_model, no more.",
        ),
        Mistake(
            "one_too_few",
            _through_svd(lambda U, S, Vh, k: _kept(U, S, Vh, k - 1)),
            "One direction too few is kept: the rank may be d_model.",
        ),
        Mistake(
            "not_cut",
            lambda L, k: L.log_softmax(-1),
            "The table is as it came. A model with few dimensions can't hold all of it.",
        ),
        Mistake(
            "columns_centered",
            _columns_centered,
            "Each column's mean is taken out before the cut and put back after it. That is another "
            "(rank d_model + 1) approximation; cut the table as given.",
        ),
        Mistake(
            "rows_centered",
            _rows_centered,
            "Each row's mean is taken out before the cut. Row constants don't matter *after* it, but "
            "they change which directions are the largest; cut the table as given.",
        ),
        Mistake(
            "cut_the_probabilities",
            _of_probabilities,
            "The probabilities are cut, not their logarithms. The model's product makes logits.",
            facts=(7,),
        ),
        Mistake(
            "top_entries_kept",
            lambda L, k: torch.where(
                L.topk(min(k, L.shape[-1]), dim=-1).values[:, -1:] <= L, L, L.mean()
            ).log_softmax(-1),
            "The largest entries of each row are kept. Rank counts independent directions, not "
            "entries.",
        ),
    ),
    variants=(
        Variant("numpy_full_svd", _by_numpy, facts=("N", "E")),
        Variant("projection_on_eigenvectors", _by_eigenvectors, facts=("P", "E")),
        Variant(
            "two_factors",
            _through_svd(
                lambda U, S, Vh, k: (U[:, :k] * S[:k].sqrt()) @ (S[:k].sqrt()[:, None] * Vh[:k])
            ),
            facts=("E",),
        ),
        Variant(
            "signs_flipped",
            _through_svd(lambda U, S, Vh, k: (-U[:, :k] * S[:k]) @ -Vh[:k]),
            facts=("P",),
        ),
        Variant("in_float64", lambda L, k: _through_svd(_kept)(L.double(), k), facts=("D",)),
    ),
)
