"""What can be moved into the next linear map: LayerNorm's scale and shift, the biases of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import beyond as reference
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "07-beyond"
PAPER = "Additional Intuition and Observations"


def _norm_cases(draw: Draw) -> list[Case]:
    def case(by: Draw, d_model: int, d_out: int, label: str) -> Case:
        weight, bias = 1 + by.normal(d_model), by.normal(d_model)
        args = weight, bias, by.normal(d_model, d_out), by.normal(d_out)
        inputs = by.normal(3 * d_model, d_model).double()
        normalized = torch.nn.functional.layer_norm(inputs, (d_model,))
        return Case(args, label, context={"inputs": normalized})

    d_model, d_out = draw.sizes(2, 4, 9)
    n = draw.integer(4, 7)
    double = Draw(draw.seed, torch.float64)
    return [
        case(draw, d_model, d_out, ""),
        case(draw, n, n, "where d_out equals d_model"),
        case(double, d_model, 1, "with a single output, in float64"),
    ]


def _outputs(pair: Sequence[Tensor], case: Case) -> Tensor:
    W, b = pair
    return case.context["inputs"] @ W.double() + b.double()


class SameOnNormalized(Comparator):
    """A pair (W, b) is what it gives on normalized inputs.

    Their entries sum to 0, so a constant added to every entry of a column of W changes nothing.
    """

    def grade(self, value: Any, expected: Any, atol: float, case: Case) -> tuple[float, ...]:
        return (float(self.same(value, expected, atol, case)),)

    def same(self, value: Any, other: Any, atol: float, case: Case) -> bool:
        # A sum over d_model entries: the error of one is multiplied on the way.
        slack = atol * case.context["inputs"].shape[1]
        mine, theirs = _outputs(value, case), _outputs(other, case)
        return super().same(mine, theirs, slack, case)


Pair = tuple[Tensor, Tensor]


def _scaled(weight: Tensor, W: Tensor) -> Tensor:
    return weight[:, None] * W


def _scaled_outputs(weight: Tensor, bias: Tensor, W: Tensor, b: Tensor) -> Pair:
    return W * weight, bias @ W + b


FOLD_LAYER_NORM = Exercise(
    reference=reference.fold_layer_norm,
    notebook=NOTEBOOK,
    title="Fold LayerNorm's scale and shift",
    paper=PAPER,
    points=2,
    minutes=12,
    difficulty=2,
    cases=_norm_cases,
    compare=SameOnNormalized(),
    hints=(
        "Write n for a normalized input. LayerNorm gives n · weight + bias, entry by entry; the "
        "linear map follows. Multiply out.",
        "The scale belongs to the *inputs* of W, which are its rows. What comes of the shift no longer "
        "depends on the input: it is a vector of d_out numbers.",
        "New matrix: row d of W times weight d. New bias: the old one, plus the shift sent through the "
        "W you were given.",
    ),
    mistakes=(
        Mistake(
            "columns_scaled",
            _scaled_outputs,
            "The scale multiplies the columns of W, its outputs. LayerNorm acts on what goes in.",
        ),
        Mistake(
            "shift_through_the_scaled_matrix",
            lambda weight, bias, W, b: (_scaled(weight, W), bias @ _scaled(weight, W) + b),
            "The shift went through the new matrix, so it was scaled as well. LayerNorm adds its shift "
            "*after* the scale.",
        ),
        Mistake(
            "shift_forgotten",
            lambda weight, bias, W, b: (_scaled(weight, W), b),
            "Only the scale was folded. The shift goes through W too and ends in the bias.",
        ),
        Mistake(
            "shift_not_sent_through",
            lambda weight, bias, W, b: (_scaled(weight, W), b + bias.sum()),
            "The shift was added up instead of being sent through W: each output reads it by its own "
            "column.",
        ),
        Mistake(
            "old_bias_forgotten",
            lambda weight, bias, W, b: (_scaled(weight, W), bias @ W),
            "The linear map's own bias has been lost.",
        ),
        Mistake(
            "scale_forgotten",
            lambda weight, bias, W, b: (W, bias @ W + b),
            "Only the shift was folded; the matrix came back as it was.",
        ),
        Mistake(
            "nothing_folded",
            lambda weight, bias, W, b: (W, b),
            "The linear map came back as it was.",
        ),
        Mistake(
            "divided_by_the_scale",
            lambda weight, bias, W, b: (W / weight[:, None], bias @ W + b),
            "The rows are divided by the scale. LayerNorm multiplies, and the new matrix must do it now.",
        ),
        Mistake(
            "bias_scaled_too",
            lambda weight, bias, W, b: (_scaled(weight, W), (bias * weight) @ W + b * 1.0),
            "The shift was multiplied by the scale before it went through W. LayerNorm adds its shift "
            "after the scale.",
            same_as=("shift_through_the_scaled_matrix",),
        ),
        Mistake(
            "one_plus_weight",
            lambda weight, bias, W, b: (_scaled(1 + weight, W), bias @ W + b),
            "The scale is taken as 1 + weight. Some libraries store it so; here the weight itself is "
            "the scale.",
        ),
    ),
    variants=(
        Variant(
            "diagonal_matrix",
            lambda weight, bias, W, b: (
                torch.diag(weight) @ W,
                b + torch.einsum("d,do->o", bias, W),
            ),
            facts=("E",),
        ),
        Variant(
            "centered_columns",
            lambda weight, bias, W, b: (
                _scaled(weight, W) - _scaled(weight, W).mean(dim=0),
                bias @ W + b,
            ),
            facts=("B",),
        ),
        Variant(
            "numpy_list",
            lambda weight, bias, W, b: [
                weight.numpy()[:, None] * W.numpy(),
                bias.numpy() @ W.numpy() + b.numpy(),
            ],
            facts=("N",),
        ),
    ),
)


def _bias_cases(draw: Draw) -> list[Case]:
    def case(by: Draw, head: int, d_head: int, d_model: int, label: str) -> Case:
        args = by.normal(head, d_head), by.normal(head, d_head, d_model), by.normal(d_model)
        return Case(args, label)

    head, d_head, d_model = draw.sizes(3, 2, 8)
    n = draw.integer(3, 5)
    double = Draw(draw.seed, torch.float64)
    return [
        case(draw, head, d_head, d_model, ""),
        case(draw, n, n, n, "where all sizes are equal"),
        case(double, 1, d_head, d_model, "with a single head, in float64"),
        case(draw, head, 1, d_model, "with d_head 1"),
    ]


def _through(b_V: Tensor, W_O: Tensor) -> Tensor:
    return torch.einsum("hd,hdm->hm", b_V, W_O)


def _heads_mixed(b_V: Tensor, W_O: Tensor, b_O: Tensor) -> Tensor:
    head, d_head, d_model = W_O.shape
    return b_V.T.reshape(-1) @ W_O.reshape(head * d_head, d_model) + b_O


FOLD_VALUE_BIAS = Exercise(
    reference=reference.fold_value_bias,
    notebook=NOTEBOOK,
    title="One bias for two",
    paper=PAPER,
    points=2,
    minutes=8,
    difficulty=1,
    cases=_bias_cases,
    compare=Comparator(),
    hints=(
        "A destination takes a weighted mean of values. If all values are shifted by the same vector, "
        "what happens to the mean?",
        "Rows of a pattern sum to 1, so the bias of the values arrives unchanged, whatever the "
        "pattern is. Then W_O carries it into the stream.",
        "For each head, send its b_V through its W_O; add up over the heads; add b_O once.",
    ),
    mistakes=(
        Mistake(
            "output_bias_for_each_head",
            lambda b_V, W_O, b_O: (_through(b_V, W_O) + b_O).sum(dim=0),
            "b_O is added once for each head. It belongs to the layer and is added once.",
            facts=(44,),
        ),
        Mistake(
            "value_bias_ignored",
            lambda b_V, W_O, b_O: b_O.clone(),
            "The value bias is gone. It reaches every destination, and W_O carries it into the stream.",
            facts=(45,),
        ),
        Mistake(
            "output_bias_forgotten",
            lambda b_V, W_O, b_O: _through(b_V, W_O).sum(dim=0),
            "b_O is missing. One bias is to replace both.",
            facts=(45,),
        ),
        Mistake(
            "heads_averaged",
            lambda b_V, W_O, b_O: _through(b_V, W_O).mean(dim=0) + b_O,
            "The heads are averaged. Heads add.",
            facts=(41,),
        ),
        Mistake(
            "heads_kept_apart",
            lambda b_V, W_O, b_O: _through(b_V, W_O) + b_O,
            "There is one vector for each head. One bias for the whole layer was asked for.",
            facts=(44,),
        ),
        Mistake(
            "first_head_only",
            lambda b_V, W_O, b_O: _through(b_V, W_O)[0] + b_O,
            "Only head 0 is in it. Every head has a bias on its values.",
        ),
        Mistake(
            "heads_mixed_by_reshape",
            _heads_mixed,
            "Heads and d_head have changed places on the way to one long vector: each entry meets "
            "another row of W_O.",
            facts=(38, 39),
        ),
        Mistake(
            "biases_summed_before_W_O",
            lambda b_V, W_O, b_O: b_V.sum(dim=0) @ W_O.sum(dim=0) + b_O,
            "The biases were added up first, and the output weights too. Each head's bias goes through "
            "its own W_O only.",
            facts=(39,),
        ),
        Mistake(
            "output_bias_subtracted",
            lambda b_V, W_O, b_O: _through(b_V, W_O).sum(dim=0) - b_O,
            "b_O is subtracted. Both biases are added to the stream.",
        ),
    ),
    variants=(
        Variant(
            "loop",
            lambda b_V, W_O, b_O: sum((b @ W for b, W in zip(b_V, W_O, strict=True)), b_O),
            facts=("E",),
        ),
        Variant(
            "one_long_product",
            lambda b_V, W_O, b_O: b_V.reshape(-1) @ W_O.reshape(-1, W_O.shape[-1]) + b_O,
            facts=("E",),
        ),
        Variant(
            "numpy",
            lambda b_V, W_O, b_O: np.einsum("hd,hdm->m", b_V.numpy(), W_O.numpy()) + b_O.numpy(),
            facts=("N",),
        ),
    ),
)
