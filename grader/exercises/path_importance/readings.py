"""Two ways to read a model that are true and can mislead: direct logits, weighted patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import path_importance as reference
from grader.exercises.path_importance.common import NOTEBOOK
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant


def _attribution_cases(draw: Draw) -> list[Case]:
    def case(by: Draw, component: int, pos: int, d_model: int, d_vocab: int, label: str) -> Case:
        # Unequal columns with a mean that is not 0: whatever mean is taken off shows.
        W_U = by.normal(d_model, d_vocab) + by.normal(d_model, 1)
        components = by.normal(component, pos, d_model) + by.normal(component, 1, 1)
        return Case((components, W_U, by.tokens(pos, d_vocab=d_vocab)), label)

    component, pos, d_model, d_vocab = draw.sizes(4, 3, 9)
    n = draw.integer(3, 6)
    double = Draw(draw.seed, torch.float64)
    return [
        case(draw, component, pos, d_model, d_vocab, ""),
        case(draw, n, n, n, n, "where all sizes are equal"),
        case(double, 1, pos, d_model, d_vocab, "with a single component, in float64"),
        case(draw, component, 2, d_model, d_vocab, "with two tokens, so one prediction"),
        case(draw, component, pos, 1, d_vocab, "with d_model 1"),
    ]


def _logits(components: Tensor, W_U: Tensor) -> Tensor:
    return components @ W_U


def _true(values: Tensor, tokens: Tensor) -> Tensor:
    """values (component, pos, d_vocab) → those of each next token, (component, pos − 1)."""
    return values[:, torch.arange(len(tokens) - 1), tokens[1:]]


def _less(center: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The true next token's logit less another number than the mean over the vocabulary."""

    def answer(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
        logits = _logits(components, W_U)
        return _true(logits - center(logits), tokens)

    return answer


def _right(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    return _less(lambda logits: logits.mean(dim=-1, keepdim=True))(components, W_U, tokens)


def _mean_of_the_others(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    logits = _logits(components, W_U)
    own, size = _true(logits, tokens), logits.shape[-1]
    return own - (logits.sum(dim=-1)[:, :-1] - own) / (size - 1)


def _shifted_backwards(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    values = _centered(components, W_U)[:, 1:]
    return values[:, torch.arange(len(tokens) - 1), tokens[:-1]]


def _own_tokens_at_every_position(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    return _centered(components, W_U)[:, torch.arange(len(tokens)), tokens]


def _rolled(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    return _own_tokens_at_every_position(components, W_U, tokens.roll(-1))


def _centered(components: Tensor, W_U: Tensor) -> Tensor:
    logits = _logits(components, W_U)
    return logits - logits.mean(dim=-1, keepdim=True)


def _for_the_predicted_token(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    values = _centered(components, W_U)[:, :-1]
    guess = values.sum(dim=0).argmax(dim=-1)
    return values[:, torch.arange(len(guess)), guess]


def _normalized(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    stream = components.sum(dim=0)
    scale = (stream - stream.mean(dim=-1, keepdim=True)).square().mean(dim=-1, keepdim=True)
    return _right(components / (scale + 1e-5).sqrt(), W_U, tokens)


def _in_numpy(components: Tensor, W_U: Tensor, tokens: Tensor) -> np.ndarray:
    parts, readers, ids = components.double().numpy(), W_U.double().numpy(), tokens.numpy()
    logits = parts @ readers
    own = np.take_along_axis(logits[:, :-1], ids[None, 1:, None], axis=-1)[..., 0]
    return np.asarray(own - logits[:, :-1].mean(axis=-1))


def _one_by_one(components: Tensor, W_U: Tensor, tokens: Tensor) -> list[list[float]]:
    rows = []
    for part in components:
        logits = part @ W_U
        rows.append(
            [float(logits[i, tokens[i + 1]] - logits[i].mean()) for i in range(len(tokens) - 1)]
        )
    return rows


def _by_columns(components: Tensor, W_U: Tensor, tokens: Tensor) -> Tensor:
    directions = (W_U[:, tokens[1:]] - W_U.mean(dim=1, keepdim=True)).T
    return (components[:, :-1] * directions).sum(dim=-1)


DIRECT_LOGIT_ATTRIBUTION = Exercise(
    reference=reference.direct_logit_attribution,
    notebook=NOTEBOOK,
    title="Who lifts the true next token",
    paper="Path Expansion of Logits",
    points=3,
    minutes=15,
    difficulty=2,
    cases=_attribution_cases,
    compare=Comparator(),
    hints=(
        "Logits are linear in the stream, so each component has logits of its own. From each, you "
        "want one number a position.",
        "At position i the token that counts is token i + 1, so the last position has no answer. "
        "The mean runs over the vocabulary, at each position and for each component by itself.",
        "Unembed all components, subtract the mean of the last axis, drop the last position, then "
        "pick for every position the entry of the token that follows.",
    ),
    mistakes=(
        Mistake(
            "mean_kept",
            _less(torch.zeros_like),
            "These are plain logits. A component that lifts all tokens alike changes no prediction: "
            "take the mean over the vocabulary off.",
            facts=(8,),
        ),
        Mistake(
            "log_probabilities",
            _less(lambda logits: logits.logsumexp(dim=-1, keepdim=True)),
            "A softmax of each component by itself. It isn't linear, so the parts no longer add up to "
            "anything. What is to be subtracted is a mean.",
            facts=(7, 8),
        ),
        Mistake(
            "mean_over_positions",
            _less(lambda logits: logits.mean(dim=1, keepdim=True)),
            "The mean runs over positions. Each position has a prediction of its own; the mean is over "
            "the tokens that it could be.",
            facts=(9,),
        ),
        Mistake(
            "mean_over_components",
            _less(lambda logits: logits.mean(dim=0, keepdim=True)),
            "The mean runs over the components, so each one is judged by the others. It is over the "
            "vocabulary, for each component by itself.",
            facts=(9,),
        ),
        Mistake(
            "one_mean_for_all",
            _less(lambda logits: logits.mean()),
            "One mean of everything is subtracted. Each component has a mean at each position.",
        ),
        Mistake(
            "mean_over_directions",
            lambda components, W_U, tokens: _true(
                _logits(components, W_U - W_U.mean(dim=0, keepdim=True)), tokens
            ),
            "W_U was centered along the wrong axis: over the directions of the stream. The vocabulary "
            "is its other axis.",
            facts=(9,),
        ),
        Mistake(
            "components_centered",
            lambda components, W_U, tokens: _true(
                _logits(components - components.mean(dim=-1, keepdim=True), W_U), tokens
            ),
            "The components are centered instead of the logits: the mean of a stream vector has no "
            "meaning for the vocabulary.",
            facts=(109,),
            same_as=("mean_over_directions",),
        ),
        Mistake(
            "mean_of_the_others",
            _mean_of_the_others,
            "The true token is compared with the mean of all *other* tokens, which stretches every "
            "number a little. The mean is over the whole vocabulary.",
        ),
        Mistake(
            "best_logit_subtracted",
            _less(lambda logits: logits.amax(dim=-1, keepdim=True)),
            "The largest logit is subtracted; the mean was asked for.",
        ),
        Mistake(
            "not_shifted",
            lambda *args: _own_tokens_at_every_position(*args)[:, :-1],
            "Each position is asked for its own token. Position i predicts token i + 1.",
            facts=(10,),
        ),
        Mistake(
            "shifted_backwards",
            _shifted_backwards,
            "Each position is asked for the token before it. Position i predicts token i + 1.",
            facts=(11,),
        ),
        Mistake(
            "own_tokens_at_every_position",
            _own_tokens_at_every_position,
            "There is one number for each token here, its own. Position i predicts token i + 1, so "
            "there is one prediction less than tokens.",
            facts=(10,),
        ),
        Mistake(
            "last_token_predicts_the_first",
            _rolled,
            "The tokens go round in a circle: the last position is asked for the first token. It has "
            "no next token, so it has no number.",
            facts=(10,),
        ),
        Mistake(
            "for_the_predicted_token",
            _for_the_predicted_token,
            "This asks about the token that the components together favor. Asked for is the token "
            "that really came next.",
        ),
        Mistake(
            "components_summed",
            lambda *args: _right(*args).sum(dim=0),
            "The components are added up. Each one's number is wanted by itself.",
        ),
        Mistake(
            "components_accumulated",
            lambda *args: _right(*args).cumsum(dim=0),
            "Each row also holds the components before it: that reads the stream so far. Here each "
            "component stands alone.",
        ),
        Mistake(
            "positions_first",
            lambda *args: _right(*args).T,
            "Rows and columns are exchanged: a row is a component, a column a position.",
        ),
        Mistake(
            "sign_reversed",
            lambda *args: -_right(*args),
            "Right size, wrong sign: lifting the true token counts as positive.",
            facts=(106,),
        ),
        Mistake(
            "averaged_over_positions",
            lambda *args: _right(*args).mean(dim=-1),
            "Only one number a component is left. Keep the positions apart.",
        ),
        Mistake(
            "layer_norm_applied",
            _normalized,
            "The components are divided by the size of the stream, as for a model with LayerNorm. "
            "These models have none.",
            facts=(109,),
        ),
    ),
    variants=(
        Variant("one_by_one", _one_by_one, facts=("E", "N")),
        Variant("centered_columns", _by_columns, facts=("E",)),
        Variant("numpy", _in_numpy, facts=("N", "D")),
        Variant(
            "softmax_is_blind_to_the_mean",
            lambda components, W_U, tokens: _right(
                components, W_U + torch.ones_like(W_U[:, :1]), tokens
            ),
            facts=("C",),
        ),
    ),
)


def _weighting_cases(draw: Draw) -> list[Case]:
    def case(by: Draw, pos: int, d_head: int, label: str) -> Case:
        # Sizes far apart, as at a resting place.
        v = by.normal(pos, d_head) * by.normal(pos, 1).exp()
        return Case((by.pattern(pos, pos), v), label)

    pos, d_head, dst, src = draw.sizes(4, 3, 9)
    dst, src = sorted((dst, src))
    n = draw.integer(3, 6)
    double = Draw(draw.seed, torch.float64)
    rows = draw.pattern(src, src)[src - dst :]
    resting = case(draw, pos, d_head, "where one value is zero")
    resting.args[1][0] = 0.0
    return [
        case(draw, pos, d_head, ""),
        case(draw, n, n, "where d_head equals the number of positions"),
        Case((rows, draw.normal(src, d_head)), "for the last destinations only"),
        case(double, pos, 1, "with d_head 1, in float64"),
        case(draw, 1, d_head, "with a single position"),
        resting,
    ]


def _weigh(size: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Any]:
    return lambda pattern, v: pattern * size(v)


_norm: Callable[..., Tensor] = torch.linalg.vector_norm


def _weighted(pattern: Tensor, v: Tensor) -> Tensor:
    return pattern * _norm(v, dim=-1)


VALUE_WEIGHTED_PATTERN = Exercise(
    reference=reference.value_weighted_pattern,
    notebook=NOTEBOOK,
    title="A pattern weighed by what it moves",
    paper="Analyzing a Two-Layer Model",
    points=2,
    minutes=8,
    difficulty=1,
    cases=_weighting_cases,
    compare=Comparator(),
    hints=(
        "What arrives from a source is its attention times its value. How large is a value?",
        "One size for each *source*: the length of its row of v. Sources are the columns of a "
        "pattern.",
        "Take the Euclidean norm of each row of v and multiply column j of the pattern by the j-th "
        "of these. Don't make rows sum to 1 again.",
    ),
    mistakes=(
        Mistake(
            "destinations_weighed",
            lambda pattern, v: pattern * _norm(v, dim=-1, keepdim=True),
            "Each row is scaled: by the value of the destination. It is the source that gives its "
            "value.",
            facts=(52,),
        ),
        Mistake(
            "norm_squared",
            _weigh(lambda v: v.square().sum(dim=-1)),
            "The squares of the entries are added up and the root is missing.",
        ),
        Mistake(
            "sum_of_absolute_entries",
            _weigh(lambda v: v.abs().sum(dim=-1)),
            "The size is the sum of absolute entries. Asked for is the Euclidean length.",
        ),
        Mistake(
            "largest_entry",
            _weigh(lambda v: v.abs().amax(dim=-1)),
            "The size is the largest entry only. Asked for is the Euclidean length.",
        ),
        Mistake(
            "sum_of_entries",
            _weigh(lambda v: v.sum(dim=-1)),
            "The entries of a value are added up as they are, so they can cancel. A size is never "
            "negative.",
        ),
        Mistake(
            "root_mean_square",
            _weigh(lambda v: v.square().mean(dim=-1).sqrt()),
            "The mean of the squares is taken instead of their sum, so the size no longer grows with "
            "d_head.",
        ),
        Mistake(
            "one_size_for_all",
            _weigh(lambda v: _norm(v)),
            "One number for all of v. Each source has a size of its own.",
        ),
        Mistake(
            "norm_over_positions",
            _weigh(lambda v: _norm(v, dim=0)),
            "The norm runs along the positions. A value is a row of v, with d_head entries.",
        ),
        Mistake(
            "rows_normalized",
            lambda pattern, v: (w := _weighted(pattern, v)) / w.sum(dim=-1, keepdim=True),
            "The rows sum to 1 again. That hides what the weighting is to show: at some destinations "
            "a head moves next to nothing.",
        ),
        Mistake(
            "scaled_to_the_largest",
            lambda pattern, v: (w := _weighted(pattern, v)) / w.max(),
            "Everything is divided by the largest entry. Keep the sizes as they are.",
        ),
        Mistake(
            "sizes_scaled_to_the_largest",
            _weigh(lambda v: _norm(v, dim=-1) / _norm(v, dim=-1).max()),
            "The sizes are divided by the largest of them. Keep them as they are.",
        ),
        Mistake(
            "only_the_sizes",
            lambda pattern, v: (pattern > 0) * _norm(v, dim=-1),
            "How much attention a source gets has dropped out; only the sizes of the values are left.",
        ),
        Mistake(
            "weighted_values",
            lambda pattern, v: pattern @ v,
            "These are the head's mixed values. Here nothing is mixed: each pair of destination and "
            "source keeps a number of its own.",
        ),
        Mistake(
            "pattern_transposed",
            lambda pattern, v: _weighted(pattern.T, v),
            "The pattern is turned over. Rows are destinations, columns are sources.",
            facts=(42,),
        ),
    ),
    variants=(
        Variant(
            "einsum",
            lambda pattern, v: torch.einsum("ij,j->ij", pattern, v.pow(2).sum(-1).sqrt()),
            facts=("E",),
        ),
        Variant(
            "diagonal_matrix",
            lambda pattern, v: pattern @ torch.diag(v.norm(dim=1)),
            facts=("E",),
        ),
        Variant(
            "norms_of_what_arrives",
            lambda pattern, v: _norm(pattern[..., None] * v, dim=-1),
            facts=("E",),
        ),
        Variant(
            "numpy",
            lambda pattern, v: pattern.numpy() * np.linalg.norm(v.numpy(), axis=-1),
            facts=("N",),
        ),
    ),
)
