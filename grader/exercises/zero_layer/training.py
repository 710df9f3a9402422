"""Notebook 01: train a model without layers; judged by the loss it reaches, not by its weights.

The floor of a case is the least loss that a model of that width can reach on that text: known in
closed form where d_model ≥ d_vocab (the bigram entropy), by our own run and the loss of the chain
itself where the text was drawn from a chain of that rank, and shipped for texts of the course.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from grader import models
from grader.circuits import zero_layer as reference
from grader.circuits.zero_layer import (
    bigram_counts,
    bigram_entropy,
    sample_bigram_text,
    svd_bigram_table,
    table_loss,
)
from grader.exercises.zero_layer.counting import NOTEBOOK, PAPER
from grader.judge.comparators import Property
from grader.judge.draw import Draw
from grader.judge.reading import read_like
from grader.judge.spec import Budget, Case, Exercise, Mistake, Variant

SLACK = 0.05  # nats above the floor
NEARLY_ONE = 0.08


def _cases(draw: Draw) -> Iterator[Case]:
    d_vocab, d_model, seed = draw.integer(14, 20), draw.integer(3, 5), draw.integer(0, 10**6)
    chain = draw.normal(d_vocab, d_model, scale=1.3) @ draw.normal(d_model, d_vocab, scale=0.8)
    yield _chain_case(draw, chain, d_model, seed)
    d_vocab = draw.integer(8, 12)
    chain = draw.normal(d_vocab, d_vocab, scale=1.5)
    text = sample_bigram_text(chain.log_softmax(-1), 1, 3000, draw.generator)[0]
    floor = float(bigram_entropy(bigram_counts(text, d_vocab)))
    args = (text, d_vocab, d_vocab + draw.integer(1, 4), draw.integer(0, 10**6))
    yield Case(args, "with d_model above d_vocab, trained twice", {"floor": floor}, repeats=2)
    shipped = draw.choice(models.floors())
    args = (shipped["tokens"], shipped["d_vocab"], shipped["d_model"], draw.integer(0, 10**6))
    yield Case(args, f"on the text {shipped['name']!r} of the course", {"floor": shipped["floor"]})


def _chain_case(draw: Draw, chain: Tensor, d_model: int, seed: int) -> Case:
    log_probs, d_vocab = chain.log_softmax(-1), len(chain)
    text = sample_bigram_text(log_probs, 1, 4000, draw.generator)[0]
    ours = _loss(reference.train_zero_layer(text, d_vocab, d_model, 0, steps=150), text, d_vocab)
    floor = min(ours, float(table_loss(bigram_counts(text, d_vocab), log_probs)))
    return Case(
        (text, d_vocab, d_model, seed),
        "on a text drawn from a chain of that rank",
        {"floor": floor},
    )


def _loss(weights: tuple[Tensor, Tensor], tokens: Tensor, d_vocab: int) -> float:
    """The mean loss of the model on the text, from its counts: equal to running it on every token."""
    W_E, W_U = weights
    return float(table_loss(bigram_counts(tokens, d_vocab).double(), (W_E @ W_U).log_softmax(-1)))


def _read(raw: Any, expected: Any, case: Case) -> tuple[Tensor, Tensor]:
    _, d_vocab, d_model, _ = case.args
    pattern = (torch.empty(d_vocab, d_model), torch.empty(d_model, d_vocab))
    read: tuple[Tensor, Tensor] = read_like(raw, pattern)
    return read


def _reaches_the_floor(value: tuple[Tensor, Tensor], expected: Any, case: Case) -> bool:
    tokens, d_vocab, _, _ = case.args
    return _loss(value, tokens, d_vocab) <= case.context["floor"] + SLACK


# --- what a wrong training leaves in the weights --------------------------------------------------

Weights = tuple[Tensor, Tensor]


def _fit(counts: Tensor, d_model: int, seed: int, steps: int = 200, tied: bool = False) -> Weights:
    """Fit a table to counts: what the learner's loop does when the counts it sees are the wrong ones."""
    generator = torch.Generator().manual_seed(seed)
    share = counts.float() / counts.sum()
    W_E = torch.randn(len(counts), d_model, generator=generator) * d_model**-0.5
    W_U = torch.randn(d_model, len(counts), generator=generator) * d_model**-0.5
    weights = [W_E.requires_grad_()] if tied else [W_E.requires_grad_(), W_U.requires_grad_()]
    optimizer = torch.optim.Adam(weights, lr=0.1)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / steps)
        optimizer.zero_grad()
        loss = -(share * (W_E @ (W_E.T if tied else W_U)).log_softmax(-1)).sum()
        loss.backward()
        optimizer.step()
    return W_E.detach(), (W_E.T if tied else W_U).detach().clone()


def _on_counts(change: Callable[[Tensor], Tensor]) -> Callable[..., Weights]:
    def answer(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Weights:
        return _fit(change(bigram_counts(tokens, d_vocab)), d_model, seed, steps=60)

    return answer


def _current(counts: Tensor) -> Tensor:
    return counts.sum(-1).diag()


def _untrained(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Weights:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(d_vocab, d_model, generator=generator) * 0.02,
        torch.randn(d_model, d_vocab, generator=generator) * 0.02,
    )


def _too_short(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Weights:
    return _fit(bigram_counts(tokens, d_vocab), d_model, seed, steps=14)


def _from_svd(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Weights:
    logs = reference.bigram_log_probs(bigram_counts(tokens, d_vocab), 0.5).float()
    U, S, Vh = torch.linalg.svd(logs, full_matrices=False)
    k = min(d_model, d_vocab)
    W_E, W_U = torch.zeros(d_vocab, d_model), torch.zeros(d_model, d_vocab)
    W_E[:, :k], W_U[:k] = U[:, :k] * S[:k], Vh[:k]
    return W_E, W_U


@lru_cache(maxsize=8)
def _facts(case_id: int, tokens: Tensor, d_vocab: int) -> tuple[Tensor, float]:
    """Counts and the loss of the unigram table on a text; kept, since several signatures ask."""
    counts = bigram_counts(tokens, d_vocab).double()
    unigram = ((counts.sum(0) + 1e-9) / counts.sum()).log().expand(d_vocab, -1)
    return counts, float(table_loss(counts, unigram))


def _seen(value: Weights, case: Case) -> tuple[Tensor, Tensor, float, float]:
    """→ counts, the answer's table, its loss on the text, the unigram loss of the text."""
    tokens, d_vocab, _, _ = case.args
    counts, unigram = _facts(id(case), tokens, d_vocab)
    table = (value[0] @ value[1]).log_softmax(-1)
    return counts, table, float(table_loss(counts, table)), unigram


def _fits_better(other: Callable[[Tensor], Tensor]) -> Callable[[Weights, Case], bool]:
    """The table fits other counts much better than those of the text."""

    def signature(value: Weights, case: Case) -> bool:
        counts, table, loss, _ = _seen(value, case)
        return float(table_loss(other(counts), table)) < loss - 2 * SLACK

    return signature


def _is_tied(value: Weights, case: Case) -> bool:
    logits = value[0] @ value[1]
    return bool((logits - logits.T).abs().max() <= 1e-3 * logits.abs().max())


def _is_not_finite(value: Weights, case: Case) -> bool:
    return not all(bool(weight.isfinite().all()) for weight in value)


def _diverged(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Weights:
    return torch.full((d_vocab, d_model), torch.nan), torch.full((d_model, d_vocab), torch.nan)


def _is_untrained(value: Weights, case: Case) -> bool:
    _, table, _, _ = _seen(value, case)
    return float((table.exp() - 1 / len(table)).abs().max()) <= 0.05


def _knows_no_context(value: Weights, case: Case) -> bool:
    """All rows nearly one: on average they differ from the mean row in few hundredths of their mass."""
    _, table, _, _ = _seen(value, case)
    rows = table.exp()
    return float((rows - rows.mean(0)).abs().sum(-1).mean()) / 2 <= NEARLY_ONE


def _is_svd(value: Weights, case: Case) -> bool:
    """Some smoothing makes the truncated SVD of the log-probabilities agree with the answer."""
    d_model = case.args[2]
    counts, table, _, _ = _seen(value, case)
    for smoothing in (0.5, 1.0, 0.1, 0.01, 1e-3):
        cut = svd_bigram_table(reference.bigram_log_probs(counts, smoothing), d_model)
        if float((cut.exp() - table.exp()).abs().max()) <= 0.02:
            return True
    return False


def _still_falling(value: Weights, case: Case) -> bool:
    _, _, loss, unigram = _seen(value, case)
    return loss < unigram + 1.0


def _by_count_matrix(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Weights:
    return _fit(bigram_counts(tokens, d_vocab), d_model, seed, steps=300)


def _by_batches_at_first(tokens: Tensor, d_vocab: int, d_model: int, seed: int) -> Weights:
    """Random pairs, then the whole text by its counts; draws from the global generator.

    Batches alone leave the rare tokens of a shipped text 0.1 nats above its floor after 1,200 steps.
    """
    torch.manual_seed(seed)
    W_E = torch.nn.Parameter(torch.randn(d_vocab, d_model) * d_model**-0.5)
    W_U = torch.nn.Parameter(torch.randn(d_model, d_vocab) * d_model**-0.5)
    optimizer = torch.optim.Adam([W_E, W_U], lr=0.02)
    for _ in range(60):
        at = torch.randint(len(tokens) - 1, (1024,))
        loss = torch.nn.functional.cross_entropy(W_E[tokens[at]] @ W_U, tokens[at + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    share = bigram_counts(tokens, d_vocab).float() / (len(tokens) - 1)
    optimizer = torch.optim.Adam([W_E, W_U], lr=0.1)  # its scales fit the smooth gradients anew
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=400)
    for _ in range(400):
        optimizer.zero_grad()
        (-(share * (W_E @ W_U).log_softmax(-1)).sum()).backward()
        optimizer.step()
        slower.step()
    return W_E, W_U


TRAIN_ZERO_LAYER = Exercise(
    reference=reference.train_zero_layer,
    notebook=NOTEBOOK,
    title="Train a model without layers",
    paper=PAPER,
    points=4,
    minutes=30,
    difficulty=3,
    cases=_cases,
    compare=Property(_reaches_the_floor, read=_read, by_outcome=True),
    hints=(
        "The loss depends on the text only through its bigram counts. So you may train on the whole "
        "text at once, as one small matrix, in place of batches.",
        "Start from small random `W_E` and `W_U` drawn from a generator of your own with the seed. "
        "Each step: the table from the weights, its mean loss under the counts, backward, one step "
        "of Adam.",
        "A few hundred steps are enough if the learning rate begins large (near 0.1 for whole-text "
        "steps) and falls to zero by the end. Return the weights detached.",
    ),
    mistakes=(
        Mistake(
            "diverged",
            _diverged,
            "The weights hold NaN or infinity: the training blew up on its way. Look for a logarithm "
            "of 0 in the loss, and for a learning rate that is far too large.",
            facts=(13,),
            signature=_is_not_finite,
        ),
        Mistake(
            "untrained",
            _untrained,
            "The weights hardly differ from a random start: the model gives every next token nearly "
            "the same probability. Do the steps reach the weights that you return?",
            signature=_is_untrained,
        ),
        Mistake(
            "tied",
            lambda t, v, d, s: _fit(bigram_counts(t, v), d, s, steps=60, tied=True),
            "The logits are symmetric: the unembedding is the embedding turned round. Then “b after "
            "a” is as likely as “a after b”. Train two matrices.",
            facts=(4,),
            signature=_is_tied,
        ),
        Mistake(
            "predicts_the_token_it_sees",
            _on_counts(_current),
            "The model has learned to repeat the token it sees. In the loss, is each prediction held "
            "against the *next* token?",
            facts=(10,),
            signature=_fits_better(_current),
        ),
        Mistake(
            "trained_backwards",
            _on_counts(lambda c: c.T),
            "The model fits the text read backwards. Which of the two tokens of a pair is the one the "
            "model sees?",
            facts=(11, 1),
            signature=_fits_better(lambda c: c.T),
        ),
        Mistake(
            "knows_no_context",
            _on_counts(lambda c: c.sum(0, keepdim=True).expand_as(c)),
            "Every row of the table is the same: the model learned how frequent tokens are, and "
            "nothing about what follows what.",
            signature=_knows_no_context,
        ),
        Mistake(
            "svd_for_training",
            _from_svd,
            "This is the cut (SVD) of the log-probabilities. It makes squared error small, and the "
            "loss counts something else: how surprised the model is by what really occurs.",
            signature=_is_svd,
        ),
        Mistake(
            "stopped_too_early",
            _too_short,
            "The model learns the right thing, and stops above what its width can reach. Let it take "
            "more steps, or larger ones at the beginning and small ones at the end.",
            signature=_still_falling,
        ),
    ),
    variants=(
        Variant("count_matrix", _by_count_matrix, facts=("E",)),
        Variant("batches_at_first_and_global_seed", _by_batches_at_first, facts=("Z", "D")),
        Variant(
            "numpy_weights",
            lambda t, v, d, s: tuple(w.numpy() for w in _by_count_matrix(t, v, d, s)),
            facts=("N",),
        ),
    ),
    budget=Budget(wall=120.0, cpu=120.0, memory_mib=2048),
    free_rng=True,
)
