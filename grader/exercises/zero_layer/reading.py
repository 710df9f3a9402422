"""Notebook 01: run a model without layers, read its table off the weights, measure its loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.circuits import zero_layer as reference
from grader.exercises.zero_layer.counting import NOTEBOOK, PAPER
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

# --- zero_layer_logits ---------------------------------------------------------------------------


def _run_cases(draw: Draw) -> Iterator[Case]:
    d_vocab, d_model, pos, batch = draw.sizes(4, 3, 9)

    def case(by: Draw, label: str, d_vocab: int, d_model: int, *shape: int) -> Case:
        weights = by.normal(d_vocab, d_model), by.normal(d_model, d_vocab)
        return Case((draw.tokens(*shape, d_vocab=d_vocab), *weights), label)

    yield case(draw, "", d_vocab, d_model, pos)
    yield case(draw, "with a batch of texts", d_vocab, d_model, batch, pos)
    yield case(draw, "where d_vocab equals d_model", 5, 5, pos)
    double = Draw(draw.seed, torch.float64)
    yield case(double, "with a single token in float64", d_vocab, d_model, 1)
    yield case(draw, "with a batch of one text", d_vocab, d_model, 1, pos)


def _logits(t: Tensor, E: Tensor, U: Tensor) -> Tensor:
    return E[t] @ U


ZERO_LAYER_LOGITS = Exercise(
    reference=reference.zero_layer_logits,
    notebook=NOTEBOOK,
    title="Run a model without layers",
    paper=PAPER,
    points=1,
    minutes=6,
    difficulty=1,
    cases=_run_cases,
    compare=Comparator(),
    hints=(
        "There is nothing between the two ends: the stream after the embedding is the stream that "
        "the unembedding reads.",
        "Embedding a token means picking its row of `W_E`. Indexing a matrix with a whole array of "
        "ids picks all rows at once, and keeps the array's axes.",
        "The picked rows have shape (…, pos, d_model); one matrix product with `W_U` makes the last "
        "axis d_vocab.",
    ),
    mistakes=(
        Mistake(
            "tied",
            lambda t, E, U: E[t] @ E.T,
            "`W_U` isn't used: the embedding is turned round to unembed. In this course the two are "
            "different matrices. Were they tied, the table would be symmetric: “b after a” as likely "
            "as “a after b”.",
            facts=(4,),
        ),
        Mistake(
            "unembedding_transposed",
            lambda t, E, U: E[t] @ U.T,
            "`W_U` is transposed. It already has the stream on its left side: (d_model, d_vocab).",
            facts=(5,),
        ),
        Mistake(
            "unembeds_with_the_embedding",
            lambda t, E, U: U.T[t] @ U,
            "The rows are picked from the unembedding. Which of the two matrices has a row for each "
            "token?",
            facts=(4,),
        ),
        Mistake(
            "table_transposed",
            lambda t, E, U: (E @ U).T[t],
            "Columns of the table are picked in place of rows: these are the logits of each token "
            "*before* this one.",
            facts=(1,),
        ),
        Mistake(
            "log_probabilities",
            lambda t, E, U: _logits(t, E, U).log_softmax(-1),
            "These are log-probabilities. They differ from the logits by a constant in each row, and "
            "raw logits were asked for.",
            facts=(8,),
        ),
        Mistake(
            "probabilities",
            lambda t, E, U: _logits(t, E, U).softmax(-1),
            "These are probabilities; raw logits were asked for, before any softmax.",
            facts=(7,),
        ),
        Mistake(
            "inverse_as_unembedding",
            lambda t, E, U: E[t] @ torch.linalg.pinv(E),
            "`W_U` is replaced by the inverse of the embedding. It isn't that: then every token "
            "would predict itself.",
            facts=(15,),
        ),
        Mistake(
            "next_tokens_embedded",
            lambda t, E, U: _logits(t.roll(-1, -1), E, U),
            "Position i shows the logits of token i + 1. A model sees the token at its own position "
            "and predicts the next.",
            facts=(10,),
        ),
        Mistake(
            "previous_tokens_embedded",
            lambda t, E, U: _logits(t.roll(1, -1), E, U),
            "Position i shows the logits of token i − 1. A model sees the token at its own position.",
            facts=(11,),
        ),
        Mistake(
            "whole_text_summed",
            lambda t, E, U: E[t].cumsum(-2) @ U,
            "The embeddings of earlier tokens are added up. Without a layer nothing moves between "
            "positions.",
        ),
        Mistake(
            "mean_over_the_text",
            lambda t, E, U: E[t].mean(-2, keepdim=True).expand(*t.shape, -1) @ U,
            "Every position gets the mean of the text. Without a layer nothing moves between "
            "positions.",
        ),
    ),
    variants=(
        Variant("one_hot", lambda t, E, U: F.one_hot(t, len(E)).to(E.dtype) @ E @ U, facts=("E",)),
        Variant("table_first", lambda t, E, U: (E @ U)[t], facts=("E", "T")),
        Variant(
            "einsum",
            lambda t, E, U: torch.einsum("...d,dv->...v", F.embedding(t, E), U),
            facts=("E",),
        ),
        Variant("numpy", lambda t, E, U: E.numpy()[t.numpy()] @ U.numpy(), facts=("N",)),
    ),
)


# --- bigram_table --------------------------------------------------------------------------------


def _weight_cases(draw: Draw) -> Iterator[Case]:
    d_vocab, d_model = draw.sizes(2, 3, 8)
    yield Case((draw.normal(d_vocab, d_model), draw.normal(d_model, d_vocab)))
    yield Case((draw.normal(6, 6), draw.normal(6, 6)), "where d_vocab equals d_model")
    double = Draw(draw.seed, torch.float64)
    yield Case((double.normal(7, 1), double.normal(1, 7)), "with d_model 1, in float64")
    yield Case((draw.normal(1, 4), draw.normal(4, 1)), "with a vocabulary of one token")
    big = draw.normal(d_vocab, d_model, scale=12.0), draw.normal(d_model, d_vocab, scale=12.0)
    yield Case(big, "with large weights")


def _table(E: Tensor, U: Tensor) -> Tensor:
    return (E @ U).log_softmax(-1)


def _overflowing(E: Tensor, U: Tensor) -> Tensor:
    odds = (E @ U).exp()
    return (odds / odds.sum(-1, keepdim=True)).log()


BIGRAM_TABLE = Exercise(
    reference=reference.bigram_table,
    notebook=NOTEBOOK,
    title="Read the table off the weights",
    paper=PAPER,
    points=1,
    minutes=6,
    difficulty=1,
    cases=_weight_cases,
    compare=Comparator(),
    hints=(
        "The model's answer depends on the current token only. So its answers to all possible tokens "
        "are all there is to know.",
        "What does the previous exercise give if the “text” is 0, 1, 2, …, every token once? Which "
        "product is that?",
        "Rows are current tokens; make each a log-distribution over the next. torch has a function "
        "that does this without overflow.",
    ),
    mistakes=(
        Mistake(
            "logits",
            lambda E, U: E @ U,
            "These are the logits. Log-probabilities were asked for: each row still lacks a constant "
            "of its own.",
            facts=(8,),
        ),
        Mistake(
            "probabilities",
            lambda E, U: (E @ U).softmax(-1),
            "These are probabilities; their logarithms were asked for.",
            facts=(7,),
        ),
        Mistake(
            "transposed",
            lambda E, U: _table(E, U).T,
            "The table is [next, current], as the paper's $W_U W_E$ has it. Here the row is the "
            "current token.",
            facts=(1,),
        ),
        Mistake(
            "normalized_over_current",
            lambda E, U: (E @ U).log_softmax(0),
            "Each column is normalized. Given the current token (a row), the next ones share the "
            "probability.",
            facts=(9,),
        ),
        Mistake(
            "normalized_over_all",
            lambda E, U: (E @ U).flatten().log_softmax(0).reshape(len(E), -1),
            "The whole table is normalized at once: these are probabilities of pairs. Each row is a "
            "distribution of its own.",
            facts=(2,),
        ),
        Mistake(
            "transposed_before_normalizing",
            lambda E, U: (E @ U).T.log_softmax(-1),
            "The product is transposed before its rows are normalized: rows are next tokens here.",
            facts=(1, 9),
        ),
        Mistake(
            "tied",
            lambda E, U: (E @ E.T).log_softmax(-1),
            "`W_U` isn't used, and so the logits are symmetric. Is “b after a” as likely as “a after "
            "b”?",
            facts=(4,),
        ),
        Mistake(
            "tied_to_the_unembedding",
            lambda E, U: (U.T @ U).log_softmax(-1),
            "`W_E` isn't used, and so the logits are symmetric. Is “b after a” as likely as “a after "
            "b”?",
            facts=(4,),
        ),
        Mistake(
            "factors_exchanged",
            lambda E, U: (U @ E).log_softmax(-1),
            "The factors stand in the paper's order, which multiplies columns from the left. Here the "
            "embedding comes first; this product is (d_model, d_model).",
            facts=(5,),
        ),
        Mistake(
            "factors_transposed",
            lambda E, U: (E.T @ U.T).log_softmax(-1),
            "Both factors are transposed, so the sum runs over the vocabulary. It runs over d_model.",
            facts=(5,),
        ),
        Mistake(
            "bits",
            lambda E, U: _table(E, U) / math.log(2),
            "These are logarithms to base 2. The course counts in nats.",
            facts=(6,),
        ),
        Mistake(
            "inverse_as_unembedding",
            lambda E, U: (E @ torch.linalg.pinv(E)).log_softmax(-1),
            "`W_U` is replaced by the inverse of the embedding. It isn't that: then every token "
            "would predict itself.",
            facts=(15,),
        ),
        Mistake(
            "overflows",
            _overflowing,
            "With large logits the exponentials overflow. Take the logarithm of the sum without "
            "leaving logarithms, or let torch do it.",
        ),
    ),
    variants=(
        Variant(
            "logsumexp", lambda E, U: (E @ U) - (E @ U).logsumexp(-1, keepdim=True), facts=("E",)
        ),
        Variant(
            "by_running_the_model",
            lambda E, U: F.log_softmax(E[torch.arange(len(E))] @ U, -1),
            facts=("E",),
        ),
        Variant(
            "numpy_arrays", lambda E, U: _table(E.double(), U.double()).numpy(), facts=("N", "D")
        ),
        Variant("row_by_row", lambda E, U: [F.log_softmax(e @ U, 0) for e in E], facts=("E", "N")),
    ),
)


# --- next_token_loss -----------------------------------------------------------------------------


def _loss_cases(draw: Draw) -> Iterator[Case]:
    d_vocab, pos, batch = draw.sizes(3, 3, 9)

    def case(by: Draw, label: str, *shape: int) -> Case:
        tokens = draw.tokens(*shape, d_vocab=d_vocab)
        logits = by.normal(*shape, d_vocab, scale=1.5)
        # The model likes to repeat the token it sees: predicting that one looks far too good.
        logits.scatter_add_(-1, tokens[..., None], torch.full_like(logits[..., :1], 3.0))
        return Case((logits, tokens), label)

    yield case(draw, "", pos)
    yield case(draw, "with a batch of texts", batch, pos)
    yield case(draw, "with as many positions as tokens in the vocabulary", d_vocab)
    yield case(Draw(draw.seed, torch.float64), "with two tokens, in float64", 2)
    yield case(draw, "with a batch of one text", 1, pos)


def _nll(logits: Tensor, tokens: Tensor) -> Tensor:
    """−ln p of each token under the logits at the same place."""
    return -logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


def _shifted(logits: Tensor, tokens: Tensor) -> Tensor:
    return _nll(logits[..., :-1, :], tokens[..., 1:])


def _flat_first(logits: Tensor, tokens: Tensor) -> Tensor:
    flat = logits.flatten(0, -2)
    return F.cross_entropy(flat[:-1], tokens.flatten()[1:])


def _on(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda logits, tokens: change(_shifted(logits, tokens))


def _loop(logits: Tensor, tokens: Tensor) -> float:
    texts = zip(
        logits.reshape(-1, *logits.shape[-2:]), tokens.reshape(-1, tokens.shape[-1]), strict=True
    )
    losses = [
        float(r[i].logsumexp(0) - r[i, t[i + 1]]) for r, t in texts for i in range(len(t) - 1)
    ]
    return sum(losses) / len(losses)


NEXT_TOKEN_LOSS = Exercise(
    reference=reference.next_token_loss,
    notebook=NOTEBOOK,
    title="The loss on the next token",
    paper=PAPER,
    points=2,
    minutes=12,
    difficulty=1,
    cases=_loss_cases,
    compare=Comparator(),
    hints=(
        "The logits at position 3 were made by a model that has read tokens 0 to 3. Which token do "
        "they try to guess?",
        "One of the two arrays loses its first position, the other its last. How many predictions "
        "are left of pos positions?",
        "Turn the logits into log-probabilities, pick the entry of the true next token at each "
        "place, and take minus the mean over all of them, batch included.",
    ),
    mistakes=(
        Mistake(
            "not_shifted",
            lambda r, t: _nll(r, t).mean(),
            "The logits at a position are held against the token *at* that position. The model has "
            "seen it already; such a loss looks far too good.",
            facts=(10,),
        ),
        Mistake(
            "not_shifted_but_cut",
            lambda r, t: _nll(r[..., :-1, :], t[..., :-1]).mean(),
            "The last position was taken from both arrays, and so each prediction is still held "
            "against its own token. Shorten them at different ends.",
            facts=(10,),
        ),
        Mistake(
            "not_shifted_but_cut_in_front",
            lambda r, t: _nll(r[..., 1:, :], t[..., 1:]).mean(),
            "The first position was taken from both arrays, and so each prediction is still held "
            "against its own token. Shorten them at different ends.",
            facts=(10,),
        ),
        Mistake(
            "shifted_backwards",
            lambda r, t: _nll(r[..., 1:, :], t[..., :-1]).mean(),
            "The shift goes the wrong way: each prediction is held against the token *before*.",
            facts=(11,),
        ),
        Mistake(
            "wraps_around",
            lambda r, t: _nll(r, t.roll(-1, -1)).mean(),
            "The last position is held against the first token: `roll` brings it round. The last "
            "logits have no token to be held against.",
            facts=(14,),
        ),
        Mistake(
            "summed",
            _on(lambda losses: losses.sum()),
            "This is the sum over all predictions; the mean was asked for.",
            facts=(12,),
        ),
        Mistake(
            "divided_by_all_positions",
            lambda r, t: _shifted(r, t).sum() / t.numel(),
            "The sum is divided by the number of positions. The last position of a text makes no "
            "prediction that can be judged.",
            facts=(12,),
        ),
        Mistake(
            "summed_over_texts",
            _on(lambda losses: losses.mean(-1).sum()),
            "The mean is taken within each text and then summed over the batch.",
            facts=(12,),
        ),
        Mistake(
            "mean_over_texts_only",
            _on(lambda losses: losses.sum(-1).mean()),
            "The losses are summed within each text; the mean over positions is missing.",
            facts=(12,),
        ),
        Mistake(
            "one_loss_a_text",
            _on(lambda losses: losses.mean(-1, keepdim=losses.ndim == 1)),
            "One number a text came; one number for all of them was asked for.",
            facts=(12,),
        ),
        Mistake(
            "one_loss_a_position",
            _on(lambda losses: losses),
            "The losses of all predictions came; their mean was asked for.",
            facts=(12,),
        ),
        Mistake(
            "across_texts",
            _flat_first,
            "The batch is flattened before the shift, so the last position of a text predicts the "
            "first token of the next.",
            facts=(12, 14),
        ),
        Mistake(
            "bits",
            lambda r, t: _shifted(r, t).mean() / math.log(2),
            "Off by a factor of 1/ln 2: this is in bits. The course counts in nats.",
            facts=(6,),
        ),
        Mistake(
            "mean_probability",
            lambda r, t: (-_shifted(r, t)).exp().mean(),
            "This is the mean probability of the right token. The loss is the mean of minus its "
            "*logarithm*.",
            facts=(7,),
        ),
        Mistake(
            "one_minus_probability",
            lambda r, t: 1 - (-_shifted(r, t)).exp().mean(),
            "This is one minus the mean probability of the right token. The loss uses minus its "
            "*logarithm*.",
            facts=(7,),
        ),
        Mistake(
            "log_of_the_mean",
            lambda r, t: -(-_shifted(r, t)).exp().mean().log(),
            "The mean is taken before the logarithm. Take the logarithm of each probability, then "
            "the mean.",
        ),
        Mistake(
            "raw_logits",
            lambda r, t: -r[..., :-1, :].gather(-1, t[..., 1:, None]).mean(),
            "The logit of the right token is used as it is. A high logit means little if all the "
            "others are high too: normalize first.",
            facts=(8,),
        ),
        Mistake(
            "softmaxed_twice",
            lambda r, t: _shifted(r.softmax(-1), t).mean(),
            "The softmax is taken twice: the function that computes the loss expects logits, not "
            "probabilities.",
            facts=(7, 8),
        ),
        Mistake(
            "softmax_over_positions",
            lambda r, t: -r[..., :-1, :].log_softmax(-2).gather(-1, t[..., 1:, None]).mean(),
            "The softmax runs over positions. At each position the tokens of the *vocabulary* share "
            "the probability.",
            facts=(9,),
        ),
        Mistake(
            "wrong_sign",
            lambda r, t: -_shifted(r, t).mean(),
            "Right size, wrong sign: a loss is minus a log-probability, so never below 0.",
        ),
        Mistake(
            "perplexity",
            lambda r, t: _shifted(r, t).mean().exp(),
            "This is the perplexity, the exponential of the loss. Asked is the loss in nats.",
        ),
        Mistake(
            "last_prediction_only",
            _on(lambda losses: losses[..., -1].mean()),
            "Only the last prediction of each text is judged; the mean runs over all of them.",
        ),
    ),
    variants=(
        Variant(
            "cross_entropy",
            lambda r, t: F.cross_entropy(r[..., :-1, :].flatten(0, -2), t[..., 1:].flatten()),
            facts=("E",),
        ),
        Variant("loop", _loop, facts=("E", "N")),
        Variant(
            "centered_logits",
            lambda r, t: _shifted(r - r.mean(-1, keepdim=True), t).mean(),
            facts=("C",),
        ),
        Variant(
            "of_log_probabilities", lambda r, t: _shifted(r.log_softmax(-1), t).mean(), facts=("C",)
        ),
        Variant("python_float", lambda r, t: _shifted(r, t).mean().item(), facts=("N",)),
    ),
)
