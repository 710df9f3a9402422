"""Notebook 00: turn the stream's basis and see that nothing the model does depends on it.

An answer is judged by what it is: a model with the same logits whose stream is the given one's,
turned by R or by its transpose. A mistake is recognised by what happened to each weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import torch
from torch import Tensor

from grader.circuits.residual_stream import rotate_residual_stream
from grader.judge.comparators import Property, close
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import WEIGHTS, Transformer

WRITERS = ("W_E", "W_pos", "W_O")
READERS = ("W_Q", "W_K", "W_V", "W_U")
_TOLERANCE = 1e-4  # R itself is rounded to float32


def _turn(model: Transformer, R: Tensor, names: tuple[str, ...]) -> Transformer:
    """The model with only those weights turned."""
    turned = {n: getattr(model, n) @ R for n in names if n in WRITERS}
    turned |= {n: R.mT @ getattr(model, n) for n in names if n in READERS}
    return model.with_weights(**turned)


def _all_but(*left: str) -> Callable[[Transformer, Tensor], Transformer]:
    return lambda model, R: _turn(model, R, tuple(n for n in WEIGHTS if n not in left))


def _near(value: Tensor, wanted: Tensor) -> bool:
    size = float(wanted.abs().max()) if wanted.numel() else 0.0
    return value.shape == wanted.shape and close(value, wanted, _TOLERANCE * size)


def _question(case: Case) -> tuple[Transformer, Tensor, Tensor]:
    model, R = case.args
    return model.to(torch.float64), R.double(), case.context["tokens"]


def _runs(value: Transformer, case: Case) -> tuple[Tensor, ...] | None:
    """Logits and streams of the answer, then of the given model; None where they can't be compared."""
    model, _, tokens = _question(case)
    if any(getattr(value, n).shape != getattr(model, n).shape for n in WEIGHTS):
        return None
    (mine, cached), (theirs, kept) = value.run_with_cache(tokens), model.run_with_cache(tokens)
    return mine, cached.stream, theirs, kept.stream


def _is_turned(value: Transformer, expected: Transformer, case: Case) -> bool:
    """Same logits; and embeddings, positions and the stream of every layer times R or its transpose."""
    runs = _runs(value, case)
    if runs is None or not _near(runs[0], runs[2]):
        return False
    model, R, _ = _question(case)
    pairs = [(value.W_E, model.W_E), (value.W_pos, model.W_pos), (runs[1], runs[3])]
    return any(all(_near(new, old @ Q) for new, old in pairs) for Q in (R, R.mT))


@lru_cache(maxsize=16)  # sixteen mistakes ask this of one answer; keys are compared by identity
def _fates_of(value: Transformer, given: Transformer, R: Tensor) -> list[dict[str, set[str]]]:
    model, fates = given.to(torch.float64), []
    one, other = (_turn(model, Q, tuple(WEIGHTS)) for Q in (R.double(), R.double().mT))
    for turned, back in ((one, other), (other, one)):
        options = {"turned": turned, "kept": model, "back": back}
        fates.append(
            {
                name: {
                    f for f, m in options.items() if _near(getattr(value, name), getattr(m, name))
                }
                for name in WEIGHTS
            }
        )
    return fates


def _fates(value: Transformer, case: Case) -> list[dict[str, set[str]]]:
    """What may have happened to each weight: "turned", "kept" or "back" (by the inverse).

    One reading for each direction in which the stream may have been turned. A weight without
    entries, as in a model without layers, can be all three.
    """
    return _fates_of(value, *case.args)


def _left(*names: str) -> Callable[[Transformer, Case], bool]:
    """Exactly these weights were left as they were, the others turned."""

    def signature(value: Transformer, case: Case) -> bool:
        return any(
            all(("kept" if n in names else "turned") in fate for n, fate in fates.items())
            for fates in _fates(value, case)
        )

    return signature


def _some_left(value: Transformer, case: Case) -> bool:
    return any(all(fate & {"turned", "kept"} for fate in f.values()) for f in _fates(value, case))


def _readers_back(value: Transformer, case: Case) -> bool:
    return any(
        all(("back" if n in READERS else "turned") in fate for n, fate in fates.items())
        for fates in _fates(value, case)
    )


def _both_directions(value: Transformer, case: Case) -> bool:
    return any(all(fate & {"turned", "back"} for fate in f.values()) for f in _fates(value, case))


def _first_layer_only(value: Transformer, case: Case) -> bool:
    model, _, _ = _question(case)
    if model.n_layers < 2 or value.W_Q.shape != model.W_Q.shape:
        return False
    later = ("W_Q", "W_K", "W_V", "W_O")
    return all(_near(getattr(value, n)[1:], getattr(model, n)[1:]) for n in later) and not _near(
        value.W_Q[0], model.W_Q[0]
    )


def _other_rotation(value: Transformer, case: Case) -> bool:
    model, R, _ = _question(case)
    turned = any(_near(value.W_E, model.W_E @ Q) for Q in (R, R.mT))
    runs = _runs(value, case)
    return not turned and runs is not None and _near(runs[0], runs[2])


def _loses_positions(value: Transformer, case: Case) -> bool:
    model, _, _ = _question(case)
    return value.pos_in_stream != model.pos_in_stream and any(
        all("turned" in fate for fate in fates.values()) for fates in _fates(value, case)
    )


def _cases(draw: Draw) -> Iterator[Case]:
    def case(source: Draw, label: str = "", **sizes: int | bool) -> Case:
        model = source.model(**sizes)
        tokens = source.tokens(min(model.n_ctx, 6), d_vocab=model.d_vocab)
        return Case((model, source.orthogonal(model.d_model)), label, {"tokens": tokens})

    yield case(draw, n_layers=2, n_heads=2)
    yield case(
        draw, "with all sizes equal", n_layers=2, n_heads=3, d_model=5, d_head=5, d_vocab=5, n_ctx=5
    )
    yield case(
        draw, "with positions in the stream", n_layers=1, n_heads=1, pos_in_stream=True, n_ctx=6
    )
    yield case(draw, "without layers", n_layers=0)
    double = Draw(draw.seed, torch.float64)
    yield case(double, "in float64", n_layers=1, n_heads=2)


def _readers_turned_back(model: Transformer, R: Tensor) -> Transformer:
    return _turn(_turn(model, R, WRITERS), R.mT, READERS)


def _readers_on_the_right(model: Transformer, R: Tensor) -> Transformer:
    return model.with_weights(**{name: w @ R for name, w in model.weights().items()})


def _turn_first_layer(model: Transformer, R: Tensor) -> Transformer:
    whole = _turn(model, R, tuple(WEIGHTS))
    inner = {
        n: torch.cat([getattr(whole, n)[:1], getattr(model, n)[1:]])
        for n in ("W_Q", "W_K", "W_V", "W_O")
    }
    return whole.with_weights(**inner)


def _without_flag(model: Transformer, R: Tensor) -> Transformer:
    return Transformer.from_weights(_turn(model, R, tuple(WEIGHTS)).weights())


def _quarter_turn(model: Transformer, R: Tensor) -> Transformer:
    """Ignores R: exchanges the stream's dimensions by rolling them on by one."""
    shift = torch.eye(len(R), dtype=R.dtype).roll(1, dims=0)
    return _turn(model, shift, tuple(WEIGHTS))


def _as_dict(model: Transformer, R: Tensor) -> dict[str, object]:
    turned = _turn(model, R, tuple(WEIGHTS))
    return {**turned.weights(), "pos_in_stream": model.pos_in_stream}


def _by_einsum(model: Transformer, R: Tensor) -> Transformer:
    return model.with_weights(
        W_E=torch.einsum("vm,mn->vn", model.W_E, R),
        W_pos=torch.einsum("cm,mn->cn", model.W_pos, R),
        W_O=torch.einsum("lhdm,mn->lhdn", model.W_O, R),
        W_Q=torch.einsum("lhmd,mn->lhnd", model.W_Q, R),
        W_K=torch.einsum("lhmd,mn->lhnd", model.W_K, R),
        W_V=torch.einsum("lhmd,mn->lhnd", model.W_V, R),
        W_U=torch.einsum("mv,mn->nv", model.W_U, R),
    )


def _by_inverse(model: Transformer, R: Tensor) -> Transformer:
    back = torch.linalg.inv(R)
    writers = {n: getattr(model, n) @ R for n in WRITERS}
    return model.with_weights(**writers, **{n: back @ getattr(model, n) for n in READERS})


ROTATE_RESIDUAL_STREAM = Exercise(
    reference=rotate_residual_stream,
    notebook="00-residual-stream",
    title="No privileged basis",
    paper="Virtual Weights and the Residual Stream as a Communication Channel",
    points=3,
    minutes=25,
    difficulty=2,
    cases=_cases,
    compare=Property(_is_turned),
    hints=(
        "Sort the seven weights into two groups: those whose output lands in the stream, and those "
        "that read from it. Where does W_pos belong?",
        "In the new basis a stream vector is x @ R. A weight that writes must write in the new basis. "
        "A weight that reads must undo the turn first, so that it sees what it saw before.",
        "R meets a writer on the side of its d_model axis, which is the last one. The inverse of R "
        "meets a reader on the side of its d_model axis, the one before the last. For an orthogonal "
        "R, what is the inverse? `model.with_weights(…)` gives a changed copy.",
    ),
    mistakes=(
        Mistake(
            "positions_leave_the_stream",
            _without_flag,
            "All weights are turned, but the new model puts its positions elsewhere: the given one "
            "has pos_in_stream=True. `model.with_weights(…)` keeps such settings.",
            facts=(32,),
            signature=_loses_positions,
        ),
        Mistake(
            "not_turned_at_all",
            lambda model, R: model.clone(),
            "The logits agree because nothing was changed: this is the given model. "
            "The stream itself has to be turned by R.",
            signature=_left(*WEIGHTS),
        ),
        Mistake(
            "only_the_embedding",
            lambda model, R: _turn(model, R, ("W_E",)),
            "Only W_E is turned. Everybody who reads the stream now reads it in the wrong basis, and "
            "the heads still write in the old one.",
            signature=_left("W_pos", "W_Q", "W_K", "W_V", "W_O", "W_U"),
        ),
        Mistake(
            "only_the_two_ends",
            lambda model, R: _turn(model, R, ("W_E", "W_U")),
            "The embedding and the unembedding are turned, the layers between them are not. A head "
            "reads from the stream and writes to it too.",
            signature=_left("W_pos", "W_Q", "W_K", "W_V", "W_O"),
        ),
        Mistake(
            "positions_forgotten",
            _all_but("W_pos"),
            "W_pos is as it was. It is added to stream vectors, so it lives in the same space and has "
            "to be written in the new basis.",
            facts=(33,),
            signature=_left("W_pos"),
        ),
        Mistake(
            "unembedding_forgotten",
            _all_but("W_U"),
            "W_U is as it was. It reads the stream at the very end, and the stream has turned.",
            facts=(46,),
            signature=_left("W_U"),
        ),
        Mistake(
            "head_outputs_forgotten",
            _all_but("W_O"),
            "W_O is as it was. The heads still write in the old basis, into a stream that is in the "
            "new one.",
            signature=_left("W_O"),
        ),
        Mistake(
            "head_inputs_forgotten",
            _all_but("W_Q", "W_K", "W_V"),
            "W_Q, W_K and W_V are as they were. They read the stream, and have to undo the turn first.",
            signature=_left("W_Q", "W_K", "W_V"),
        ),
        Mistake(
            "values_forgotten",
            _all_but("W_V"),
            "W_V is as it was. Values are read from the stream as queries and keys are.",
            signature=_left("W_V"),
        ),
        Mistake(
            "queries_and_keys_forgotten",
            _all_but("W_Q", "W_K"),
            "W_Q and W_K are as they were, so the heads now look at other places. They read the stream "
            "too.",
            signature=_left("W_Q", "W_K"),
        ),
        Mistake(
            "some_weights_forgotten",
            _all_but("W_K", "W_pos"),
            "Some weights are turned and some are as they were. All seven touch the stream: go "
            "through them one by one.",
            signature=_some_left,
        ),
        Mistake(
            "readers_turned_the_wrong_way",
            _readers_turned_back,
            "Writers and readers are turned against each other. What is written with R has to be read "
            "with the inverse of R, so that the two cancel. Check: writer times reader must not change.",
            signature=_readers_back,
        ),
        Mistake(
            "two_directions",
            lambda model, R: _turn(_turn(model, R, ("W_E", "W_O", *READERS)), R.mT, ("W_pos",)),
            "Some weights are turned by R and some by its inverse. All that is written into one stream "
            "needs one and the same basis.",
            signature=_both_directions,
        ),
        Mistake(
            "readers_on_the_right",
            _readers_on_the_right,
            "Every weight is multiplied from the right. For a weight that reads the stream, the right "
            "side is what comes out of it (d_head, d_vocab); the stream is on its left.",
            facts=(5,),
        ),
        Mistake(
            "first_layer_only",
            _turn_first_layer,
            "Only the first layer is turned. Every layer reads the stream and writes to it.",
            facts=(119,),
            signature=_first_layer_only,
        ),
        Mistake(
            "another_rotation",
            _quarter_turn,
            "The logits agree, but the stream was not turned by the given R. Is another matrix used "
            "instead of the argument?",
            facts=(118,),
            signature=_other_rotation,
        ),
    ),
    variants=(
        Variant("turned by the transpose", lambda m, R: _turn(m, R.T, tuple(WEIGHTS)), ("X",)),
        Variant("a dict of weights", _as_dict, ("N",)),
        Variant("einsum", _by_einsum, ("E",)),
        Variant("with the inverse of R", _by_inverse, ("E",)),
        Variant("in float64", lambda m, R: _turn(m.to(torch.float64), R.double(), tuple(WEIGHTS))),
        Variant(
            "parameters that require grad",
            lambda m, R: _turn(m, R.clone().requires_grad_(), tuple(WEIGHTS)),
            ("D",),
        ),
    ),
)
