"""The same head in another basis: judged by what stays and what has to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import attention_heads as reference
from grader.judge.comparators import Property
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

NOTEBOOK = "02-attention-heads"
PAPER = "Attention Heads as Information Movement"


def _basis_cases(draw: Draw) -> Iterator[Case]:
    def case(d_model: int, d_head: int, by: Draw, label: str = "") -> Case:
        readers = [by.normal(d_model, d_head) for _ in range(3)]
        bases = by.invertible(d_head), by.invertible(d_head)
        return Case((*readers, by.normal(d_head, d_model), *bases), label)

    d_model, d_head = draw.sizes(2, 3, 8)
    yield case(d_model, d_head, draw)
    n = draw.integer(3, 6)
    yield case(n, n, draw, "where d_head equals d_model")
    yield case(d_model, 1, draw, "with d_head 1")
    yield case(d_model, 2, Draw(draw.seed, torch.float64), "with d_head 2, in float64")


def _inverse(matrix: Tensor) -> Tensor:
    inverse: Tensor = torch.linalg.inv(matrix)
    return inverse


def _forms(matrix: Tensor) -> list[Tensor]:
    """What may multiply W_Q for R, or W_V for S: it, its inverse, and the transposes of both."""
    inverse = _inverse(matrix.double())
    return [matrix.double(), inverse, matrix.double().T, inverse.T]


def _near(value: Tensor, expected: Tensor) -> bool:
    """Within 1e-4 of the largest entry: the condition of R and S is 3 at most."""
    return float((value - expected).abs().max()) <= 1e-4 * float(expected.abs().max())


Quartet = tuple[Tensor, Tensor, Tensor, Tensor]
Partner = Callable[[Tensor, Tensor], Tensor]


def _keys(W_K: Tensor, form: Tensor) -> Tensor:
    return W_K @ _inverse(form).T


def _outputs(W_O: Tensor, form: Tensor) -> Tensor:
    return _inverse(form) @ W_O


def _pair_is(first: int, partner: Partner, matrix: int = 0) -> Callable[[Quartet, Case], bool]:
    """Does a pair of the answer turn its first weight by an allowed form and its second by ``partner``?

    first: 0 for the QK pair, 2 for the OV pair; matrix: 0 where R and S keep their places, 1 where
    each stands in for the other
    """

    def holds(value: Quartet, case: Case) -> bool:
        weights = [argument.double() for argument in case.args[:4]]
        turned_by = case.args[4 + (first // 2 + matrix) % 2]
        return any(
            _near(value[first], weights[first] @ form)
            and _near(value[first + 1], partner(weights[first + 1], form))
            for form in _forms(turned_by)
        )

    return holds


def _same_head(value: Quartet, expected: Quartet, case: Case) -> tuple[bool, bool]:
    """The QK pair and the OV pair are each the old ones in another, allowed basis."""
    return _pair_is(0, _keys)(value, case), _pair_is(2, _outputs)(value, case)


def _answer(qk: Partner = _keys, ov: Partner = _outputs) -> Callable[..., Quartet]:
    """A wrong answer: W_Q and W_V turned as asked, their partners in another way."""

    def answer(W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, R: Tensor, S: Tensor) -> Quartet:
        return W_Q @ R, qk(W_K, R), W_V @ S, ov(W_O, S)

    return answer


def _either(*signatures: Callable[[Quartet, Case], bool]) -> Callable[[Quartet, Case], bool]:
    return lambda value, case: any(signature(value, case) for signature in signatures)


def _inverse_of_keys(W_K: Tensor, form: Tensor) -> Tensor:
    return W_K @ _inverse(form)


def _same_of_keys(W_K: Tensor, form: Tensor) -> Tensor:
    return W_K @ form


def _transposed_of_keys(W_K: Tensor, form: Tensor) -> Tensor:
    return W_K @ form.T


def _transposed_of_outputs(W_O: Tensor, form: Tensor) -> Tensor:
    return form.T @ W_O


def _same_of_outputs(W_O: Tensor, form: Tensor) -> Tensor:
    return form @ W_O


def _inverse_transposed_of_outputs(W_O: Tensor, form: Tensor) -> Tensor:
    return _inverse(form).T @ W_O


def _left_alone(weight: Tensor, form: Tensor) -> Tensor:
    return weight


def _nothing_changed(value: Quartet, case: Case) -> bool:
    return all(_near(v, w.double()) for v, w in zip(value, case.args[:4], strict=True))


CHANGE_OF_BASIS = Exercise(
    reference=reference.change_of_basis,
    notebook=NOTEBOOK,
    title="The same head in another basis",
    paper=PAPER,
    points=3,
    minutes=15,
    difficulty=2,
    cases=_basis_cases,
    compare=Property(_same_head, "the QK pair", "the OV pair"),
    hints=(
        "Only the products W_QK and W_OV may stay. Put a matrix and its inverse between the two "
        "factors of each: the product doesn't notice.",
        "In W_QK the key weights stand transposed, in W_OV nothing does. So what undoes R in W_K and "
        "what undoes S in W_O look different.",
        "The transpose of a product turns the order round: whatever multiplies W_K on its right "
        "arrives transposed on the left of W_K.T. It must cancel R there. R is not a rotation, so "
        "its transpose is not its inverse.",
    ),
    mistakes=(
        Mistake(
            "nothing_changed",
            lambda W_Q, W_K, W_V, W_O, R, S: (W_Q, W_K, W_V, W_O),
            "The four weights came back as they were. The head must stay the same, but in another "
            "basis: all four have to change.",
            signature=_nothing_changed,
        ),
        Mistake(
            "R_and_S_exchanged",
            lambda W_Q, W_K, W_V, W_O, R, S: _answer()(W_Q, W_K, W_V, W_O, S, R),
            "R and S have changed places, or one of them does both jobs. R belongs to queries and "
            "keys, S to values and W_O: the two bases have nothing to do with each other.",
            signature=_either(_pair_is(0, _keys, 1), _pair_is(2, _outputs, 1)),
        ),
        Mistake(
            "ov_rule_for_keys",
            _answer(qk=_inverse_of_keys),
            "W_K is turned by the plain inverse. In W_QK the keys stand transposed, and a transpose "
            "turns the order of a product round: multiply it out.",
            signature=_pair_is(0, _inverse_of_keys),
        ),
        Mistake(
            "same_for_queries_and_keys",
            _answer(qk=_same_of_keys),
            "W_K is turned exactly as W_Q is. For a rotation that would do; R stretches as well, and "
            "then the product W_QK changes.",
            signature=_pair_is(0, _same_of_keys),
        ),
        Mistake(
            "transpose_for_keys",
            _answer(qk=_transposed_of_keys),
            "W_K is turned by the transpose of what turns W_Q. Nothing is undone that way: only an "
            "inverse undoes.",
            signature=_pair_is(0, _transposed_of_keys),
        ),
        Mistake(
            "keys_left_alone",
            _answer(qk=_left_alone),
            "W_Q is turned and W_K is not, so W_QK is another matrix now. Whatever is done on one "
            "side must be undone on the other.",
            signature=_pair_is(0, _left_alone),
        ),
        Mistake(
            "transpose_for_inverse",
            _answer(ov=_transposed_of_outputs),
            "W_O is turned by a transpose. That undoes a rotation, but S stretches as well; W_OV "
            "isn't what it was.",
            signature=_pair_is(2, _transposed_of_outputs),
        ),
        Mistake(
            "qk_rule_for_outputs",
            _answer(ov=_inverse_transposed_of_outputs),
            "W_O is turned by an inverse that is transposed. That is the rule for keys; in W_OV "
            "nothing is transposed.",
            signature=_pair_is(2, _inverse_transposed_of_outputs),
        ),
        Mistake(
            "same_for_values_and_outputs",
            _answer(ov=_same_of_outputs),
            "S multiplies W_O as well, so W_OV has S in it twice. One side must undo what the other "
            "does.",
            signature=_pair_is(2, _same_of_outputs),
        ),
        Mistake(
            "outputs_left_alone",
            _answer(ov=_left_alone),
            "W_V is turned and W_O is not, so W_OV is another matrix now. Whatever is done on one "
            "side must be undone on the other.",
            signature=_pair_is(2, _left_alone),
        ),
        Mistake(
            "W_O_from_the_right",
            lambda W_Q, W_K, W_V, W_O, R, S: (
                *_answer()(W_Q, W_K, W_V, W_O, R, S)[:3],
                W_O @ _inverse(S),
            ),
            "S lives in the head's own d_head dimensions. W_O is (d_head, d_model): on which side "
            "of it is d_head?",
        ),
    ),
    variants=(
        Variant(
            "by_the_inverse",
            lambda W_Q, W_K, W_V, W_O, R, S: _answer()(
                W_Q, W_K, W_V, W_O, _inverse(R), _inverse(S)
            ),
            facts=("R", "E"),
        ),
        Variant(
            "by_the_transpose",
            lambda W_Q, W_K, W_V, W_O, R, S: _answer()(W_Q, W_K, W_V, W_O, R.T, S.T),
            facts=("R", "E"),
        ),
        Variant(
            "by_the_inverse_transposed",
            lambda W_Q, W_K, W_V, W_O, R, S: _answer()(
                W_Q, W_K, W_V, W_O, _inverse(R).T, _inverse(S)
            ),
            facts=("R", "E"),
        ),
        Variant(
            "keys_turned_and_queries_undone",
            lambda W_Q, W_K, W_V, W_O, R, S: (
                W_Q @ _inverse(R).T,
                W_K @ R,
                W_V @ _inverse(S),
                S @ W_O,
            ),
            facts=("R", "E"),
        ),
        Variant(
            "pinv_and_solve",
            lambda W_Q, W_K, W_V, W_O, R, S: (
                W_Q @ R,
                W_K @ torch.linalg.pinv(R).T,
                W_V @ S,
                torch.linalg.solve(S, W_O),
            ),
            facts=("E",),
        ),
        Variant(
            "numpy_list",
            lambda W_Q, W_K, W_V, W_O, R, S: [
                W_Q.numpy() @ R.numpy(),
                W_K.numpy() @ np.linalg.inv(R.numpy()).T,
                W_V.numpy() @ S.numpy(),
                np.linalg.inv(S.numpy()) @ W_O.numpy(),
            ],
            facts=("N", "E"),
        ),
    ),
)
