"""Proof that a head is what it seems: the composed circuit, its eigenvalues, and ablation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from grader.circuits import induction_heads as reference
from grader.exercises.induction_heads.repeating import NOTEBOOK
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

PAPER = "How Induction Heads Work"


# --- k_composed_qk -------------------------------------------------------------------------------


def _circuit(d_vocab: int, d_model: int, d_head: int, by: Draw) -> tuple[Tensor, ...]:
    W_E = by.normal(d_vocab, d_model)
    W_Q, W_K = (by.normal(d_model, d_head, scale=d_model**-0.5) for _ in range(2))
    return W_E, W_Q, W_K, by.normal(d_model, d_model, scale=d_model**-0.5)


def _circuit_cases(draw: Draw) -> Iterator[Case]:
    d_vocab, d_model, d_head = draw.sizes(3, 3, 9)
    yield Case(_circuit(d_vocab, d_model, d_head, draw))
    n = draw.integer(4, 6)
    yield Case(_circuit(n, n, n, draw), "where all sizes are equal")
    double = Draw(draw.seed, torch.float64)
    yield Case(_circuit(d_vocab, d_model, 1, double), "with d_head 1, in float64")
    yield Case(_circuit(1, d_model, d_head, draw), "with a single token")


def _embedded(make: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """W_E around ``make(W_Q, W_K, W_OV)``."""
    return lambda e, q, k, ov: e @ make(q, k, ov) @ e.T


WRONG_CIRCUITS: tuple[tuple[str, Callable[..., Tensor], str, tuple[int, ...]], ...] = (
    (
        "plain_qk",
        _embedded(lambda q, k, ov: q @ k.T),
        "This is the plain QK circuit: it compares the present token with the source itself, and says "
        "nothing about the token before. The output of the previous-token head has no part in it.",
        (76,),
    ),
    (
        "ov_not_transposed",
        _embedded(lambda q, k, ov: q @ k.T @ ov),
        "W_OV acts from the wrong side. The key side reads a row that W_OV has been applied to; in the "
        "product the whole key side is transposed.",
        (65,),
    ),
    (
        "q_composed",
        _embedded(lambda q, k, ov: ov @ q @ k.T),
        "The previous head's output goes into the *query* here. In an induction head it is the key "
        "that says which token stood before.",
        (79,),
    ),
    (
        "q_composed_transposed",
        _embedded(lambda q, k, ov: ov.T @ q @ k.T),
        "W_OV stands on the query side, and transposed. It belongs to the keys.",
        (79, 65),
    ),
    (
        "both_sides",
        _embedded(lambda q, k, ov: ov @ q @ k.T @ ov.T),
        "W_OV stands on both sides. The query reads the present token straight from the embedding.",
        (64,),
    ),
    (
        "queries_and_keys_swapped",
        _embedded(lambda q, k, ov: k @ q.T @ ov.T),
        "W_Q and W_K have changed places: queries are made by W_Q, and stand on the left.",
        (16,),
    ),
)


K_COMPOSED_QK = Exercise(
    reference=reference.k_composed_qk,
    notebook=NOTEBOOK,
    title="The QK circuit through a previous-token head",
    paper=PAPER,
    points=2,
    minutes=10,
    difficulty=2,
    cases=_circuit_cases,
    compare=Comparator(),
    hints=(
        "Write the score of a destination and a source as query times key. The query reads a token's "
        "embedding; what does the key read, if it sees only what the previous-token head wrote?",
        "The previous head turns the embedding of a token into that row times W_OV. So the keys of all "
        "tokens are a (d_vocab, d_head) table made of three factors.",
        "Multiply the table of queries by the transposed table of keys. The transpose of a product "
        "reverses its order, which is where W_OV gets its own transpose.",
    ),
    mistakes=(
        *(Mistake(name, answer, text, facts) for name, answer, text, facts in WRONG_CIRCUITS),
        Mistake(
            "keys_as_rows",
            lambda e, q, k, ov: (e @ q @ k.T @ ov.T @ e.T).T,
            "Rows and columns are exchanged: a row is a query's token, a column a key's.",
            facts=(30,),
        ),
        Mistake(
            "divided",
            lambda e, q, k, ov: e @ q @ k.T @ ov.T @ e.T / q.shape[1] ** 0.5,
            "It is divided by the square root of d_head. A score is divided, a circuit is not.",
            facts=(17,),
        ),
        Mistake(
            "embedding_left_out",
            lambda e, q, k, ov: q @ k.T @ ov.T,
            "This is a matrix between directions of the stream. Put the embedding on both sides to get "
            "one between tokens.",
            facts=(29,),
        ),
        Mistake(
            "embedding_on_one_side",
            lambda e, q, k, ov: e @ q @ k.T @ ov.T,
            "The embedding is on one side only: queries are tokens, and keys are still directions.",
            facts=(29, 64),
        ),
    ),
    variants=(
        Variant("query_and_key_tables", lambda e, q, k, ov: (e @ q) @ (e @ ov @ k).T, facts=("E",)),
        Variant(
            "einsum",
            lambda e, q, k, ov: torch.einsum("ad,dh,kh,mk,bm->ab", e, q, k, ov, e),
            facts=("E",),
        ),
        Variant(
            "numpy",
            lambda e, q, k, ov: np.linalg.multi_dot(
                [t.double().numpy() for t in (e, q, k.T, ov.T, e.T)]
            ),
            facts=("N",),
        ),
    ),
)


# --- matching_score ------------------------------------------------------------------------------


class _Score(Comparator):
    """A number between −1 and 1; eigenvalues in single precision are good to about 1e-5."""

    def same(self, value: object, other: object, atol: float, case: Case) -> bool:
        return super().same(value, other, max(atol, 1e-4), case)


LARGE = 600
"""Tokens of the case in which the dense table (1.4 MiB in float32) may not be made."""


def _matching_cases(draw: Draw) -> Iterator[Case]:
    d_vocab, d_model, d_head = draw.sizes(3, 4, 10)
    yield Case(_circuit(d_vocab, d_model, min(d_head, 5), draw))
    n = draw.integer(5, 7)
    yield Case(_circuit(n, n, n, draw), "where all sizes are equal")
    double = Draw(draw.seed + 1, torch.float64)
    yield Case(_circuit(d_vocab, d_model, 1, double), "with d_head 1, in float64")
    W_E, W_Q, _, W_OV = _circuit(12, 9, 3, draw)
    # A head that matches: its key undoes what the previous head did.
    W_K = torch.linalg.solve(W_OV, W_Q) + 0.2 * draw.normal(9, 3)
    yield Case((W_E, W_Q, W_K, W_OV), "for a head that matches")
    large = _circuit(LARGE, 12, 4, draw)
    yield Case(large, "with 600 tokens and little memory", {"memory_mib": 0.7})


def _spectrum(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The score of another small matrix with the eigenvalues of that circuit."""

    def answer(e: Tensor, q: Tensor, k: Tensor, ov: Tensor) -> Tensor:
        values = torch.linalg.eigvals(make(e, q, k, ov))
        return values.real.sum() / values.abs().sum()

    return answer


def _small(e: Tensor, q: Tensor, k: Tensor, ov: Tensor) -> Tensor:
    """(d_head, d_head) with the non-zero eigenvalues of the composed circuit."""
    return (e @ ov @ k).T @ (e @ q)


def _of_values(score: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda *args: score(torch.linalg.eigvals(_small(*args)))


def _singular(e: Tensor, q: Tensor, k: Tensor, ov: Tensor) -> Tensor:
    values = torch.linalg.svdvals(_small(e, q, k, ov))
    return values.sum() / values.abs().sum()


def _symmetric(e: Tensor, q: Tensor, k: Tensor, ov: Tensor) -> Tensor:
    values = torch.linalg.eigvalsh(_small(e, q, k, ov))
    return values.sum() / values.abs().sum()


def _from_numpy(e: Tensor, q: Tensor, k: Tensor, ov: Tensor) -> complex:
    """Complex as numpy gives it, with an imaginary part that is rounding."""
    values = np.linalg.eigvals(_small(*(t.double() for t in (e, q, k, ov))).numpy())
    return complex(values.sum() / np.abs(values).sum())


MATCHING_SCORE = Exercise(
    reference=reference.matching_score,
    notebook=NOTEBOOK,
    title="Does it look for its own token?",
    paper=PAPER,
    points=3,
    minutes=15,
    difficulty=2,
    cases=_matching_cases,
    compare=_Score(),
    hints=(
        "The score is the one of notebook 03 (`copying_score`), for another matrix. Which matrix has "
        "rows for queries, columns for keys, and a large diagonal where a head looks for its own token?",
        "The circuit is a product of a tall and a wide factor. `A @ B` and `B @ A` share their "
        "non-zero eigenvalues, and one of them is only (d_head, d_head).",
        "Make the table of queries and the table of keys, each (d_vocab, d_head), and multiply them "
        "so that the vocabulary is summed over. Then the real part of the sum of the eigenvalues, "
        "over the sum of their absolute values.",
    ),
    mistakes=(
        Mistake(
            "plain_qk",
            _spectrum(lambda e, q, k, ov: (e @ k).T @ (e @ q)),
            "These are the eigenvalues of the plain QK circuit. For an induction head that is near 0: "
            "it looks for its token *one before* the source. The previous-token head's output belongs "
            "into the keys.",
            facts=(76,),
        ),
        Mistake(
            "ov_not_transposed",
            _spectrum(lambda e, q, k, ov: k.T @ ov @ e.T @ e @ q),
            "W_OV acts from the wrong side of the key. The key reads a row to which W_OV has been "
            "applied.",
            facts=(65,),
        ),
        Mistake(
            "q_composed",
            _spectrum(lambda e, q, k, ov: k.T @ e.T @ e @ ov @ q),
            "The previous head's output goes into the query here. In an induction head it is the key "
            "that reads it.",
            facts=(79,),
        ),
        Mistake(
            "embedding_left_out",
            _spectrum(lambda e, q, k, ov: k.T @ ov.T @ q),
            "The embedding is missing: these are eigenvalues in the stream, not among tokens.",
            facts=(75,),
        ),
        Mistake(
            "absolute_in_the_numerator",
            _of_values(lambda values: values.abs().sum() / values.abs().sum()),
            "Every head gets 1 this way. Add the eigenvalues first: their signs are the point.",
            facts=(68,),
            same_as=("singular_values",),
        ),
        Mistake(
            "singular_values",
            _singular,
            "Singular values are never negative, so every head gets 1. The score needs eigenvalues.",
            facts=(69,),
            same_as=("absolute_in_the_numerator",),
        ),
        Mistake(
            "symmetric_eigenvalues",
            _symmetric,
            "`eigvalsh` is for symmetric matrices and reads half of this one only. The eigenvalues "
            "here are complex.",
            facts=(70,),
        ),
        Mistake(
            "real_parts_below",
            _of_values(lambda values: values.real.sum() / values.real.abs().sum()),
            "The real parts stand in the denominator. A complex eigenvalue counts there with its full "
            "size.",
            facts=(71,),
        ),
        Mistake(
            "absolute_of_the_sum",
            _of_values(lambda values: values.sum().abs() / values.abs().sum()),
            "The absolute value of the sum was taken, so the score is never negative. A head that "
            "avoids its own token should get a negative one.",
            facts=(72,),
        ),
        Mistake(
            "share_of_positive_ones",
            _of_values(lambda values: (values.real > 0).to(values.real.dtype).mean()),
            "This is the share of eigenvalues with a positive real part: a random head gets ½ by it, "
            "where the score gives 0, and small ones count like large ones.",
            facts=(73,),
        ),
        Mistake(
            "summed_not_divided",
            _of_values(lambda values: values.real.sum()),
            "This is the sum of the eigenvalues. Divide by the sum of their sizes, so that the scale "
            "of the weights drops out.",
            facts=(84,),
        ),
    ),
    variants=(
        Variant("the_other_order", _spectrum(lambda *args: _small(*args).T), facts=("E",)),
        Variant("complex_with_rounding", _from_numpy, facts=("N", "P")),
        Variant(
            "through_the_stream",
            _spectrum(lambda e, q, k, ov: q @ k.T @ ov.T @ (e.T @ e)),
            facts=("E",),
        ),
    ),
)


# --- ablate_head ---------------------------------------------------------------------------------


def _ablation_cases(draw: Draw) -> Iterator[Case]:
    d_model, d_head, d_vocab = draw.sizes(3, 4, 10)
    pos, batch = draw.integer(5, 7), draw.integer(2, 3)
    sizes = {"d_model": d_model, "d_head": d_head, "d_vocab": d_vocab, "n_ctx": pos + 2}

    def case(
        layer: int, head: int, how: str, label: str, batch: int = batch, by: Draw = draw,
        **more: int,
    ) -> Case:  # fmt: skip
        model = by.model(**{"n_layers": 2, "n_heads": 3, **sizes, **more})
        # Twice the size of usual queries and keys, so that patterns depend on what is read.
        model = model.with_weights(W_Q=2.0 * model.W_Q, W_V=1.5 * model.W_V)
        return Case((draw.tokens(batch, pos, d_vocab=d_vocab), model, layer, head, how), label)

    for how in ("zero", "mean", "frozen"):
        yield case(0, draw.integer(1, 2), how, f'for "{how}" in the first of two layers')
    yield case(1, 0, draw.choice(("zero", "mean", "frozen")), "in the last layer")
    double = Draw(draw.seed, torch.float64)
    yield case(
        1, 0, "zero", "with one head a layer and one text, in float64", 1, double,
        n_layers=3, n_heads=1,
    )  # fmt: skip
    (tokens, model, *_) = case(0, 1, "mean", "").args
    in_stream = Transformer(**model.weights(), pos_in_stream=True)
    yield Case((tokens, in_stream, 0, 1, "mean"), "where positions are in the stream")


Change = Callable[[Tensor, int], Tensor]


def _run(
    tokens: Tensor, model: Transformer, change: Change, patterns: Tensor | None = None
) -> Tensor:
    """The model with ``change(head outputs (batch, head, pos, d_model), layer)`` in each layer."""
    x = model.embed(tokens)
    for layer in range(model.n_layers):
        seen = model.qk_input(x).unsqueeze(-3)
        scores = (seen @ model.W_Q[layer]) @ (seen @ model.W_K[layer]).mT / model.d_head**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        pattern = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        pattern = pattern if patterns is None else patterns[layer]
        out = pattern @ (x.unsqueeze(-3) @ model.W_V[layer]) @ model.W_O[layer]
        x = x + change(out, layer).sum(dim=-3)
    return x @ model.W_U


def _replaced(at: int, head: int, instead: Tensor | float) -> Change:
    def change(out: Tensor, layer: int) -> Tensor:
        if layer != at:
            return out
        out = out.clone()
        out[..., head, :, :] = instead
        return out

    return change


def _ablation(
    tokens: Tensor,
    model: Transformer,
    layer: int,
    head: int,
    how: str,
    *,
    mean: Callable[[Tensor], Tensor] = lambda out: out.mean(dim=(0, 1)),
) -> Tensor:
    _, cache = model.run_with_cache(tokens)
    instead = mean(cache.head_out[layer][..., head, :, :]) if how == "mean" else 0.0
    patterns = cache.pattern if how == "frozen" else None
    return _run(tokens, model, _replaced(layer, head, instead), patterns)


def _taken_as(asked: str, done: str) -> Callable[..., Tensor]:
    """One kind of ablation is done where another was asked for."""
    return lambda t, m, layer, head, how: _ablation(
        t, m, layer, head, done if how == asked else how
    )


def _averaged(mean: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda t, m, layer, head, how: _ablation(t, m, layer, head, how, mean=mean)


def _direct_only(t: Tensor, m: Transformer, layer: int, head: int, how: str) -> Tensor:
    logits, cache = m.run_with_cache(t)
    out = cache.head_out[layer][..., head, :, :]
    instead = out.mean(dim=(0, 1)) if how == "mean" else 0.0
    return logits - (out - instead) @ m.W_U


def _even_pattern(t: Tensor, m: Transformer, layer: int, head: int, how: str) -> Tensor:
    if how == "mean":
        return _ablation(t, m, layer, head, how)
    W_Q = m.W_Q.clone()
    W_Q[layer, head] = 0.0
    changed = m.with_weights(W_Q=W_Q)
    if how == "zero":
        return changed(t)
    _, cache = m.run_with_cache(t)
    patterns = cache.pattern.clone()
    patterns[layer][..., head, :, :] = changed.run_with_cache(t)[1].pattern[layer][..., head, :, :]
    return _run(t, m, lambda out, _: out, patterns)


def _whole_layer(t: Tensor, m: Transformer, layer: int, head: int, how: str) -> Tensor:
    _, cache = m.run_with_cache(t)
    means = cache.head_out[layer].mean(dim=(0, 2))[:, None] if how == "mean" else None

    def change(out: Tensor, at: int) -> Tensor:
        if at != layer:
            return out
        return torch.zeros_like(out) if means is None else means.expand_as(out)

    return _run(t, m, change, cache.pattern if how == "frozen" else None)


def _every_layer(t: Tensor, m: Transformer, layer: int, head: int, how: str) -> Tensor:
    _, cache = m.run_with_cache(t)

    def change(out: Tensor, at: int) -> Tensor:
        mean = cache.head_out[at][..., head, :, :].mean(dim=(0, 1))
        out = out.clone()
        out[..., head, :, :] = mean if how == "mean" else 0.0
        return out

    return _run(t, m, change, cache.pattern if how == "frozen" else None)


def _other_head(t: Tensor, m: Transformer, layer: int, head: int, how: str) -> Tensor:
    return _ablation(t, m, head, layer, how)


def _by_weights(t: Tensor, m: Transformer, layer: int, head: int, how: str) -> Tensor:
    """W_O of the head set to 0; a mean comes back as a constant added after the layer."""
    if how == "mean":
        return _ablation(t, m, layer, head, how)
    W_O = m.W_O.clone()
    W_O[layer, head] = 0.0
    without = m.with_weights(W_O=W_O)
    if how == "zero":
        return without(t)
    return _run(t, without, lambda out, _: out, m.run_with_cache(t)[1].pattern)


ABLATE_HEAD = Exercise(
    reference=reference.ablate_head,
    notebook=NOTEBOOK,
    title="Take a head out",
    paper=PAPER,
    points=4,
    minutes=25,
    difficulty=3,
    cases=_ablation_cases,
    compare=Comparator(),
    hints=(
        "Removing a head changes the stream, and everything after it reads that stream. Only "
        '"frozen" keeps something: the patterns.',
        "`model.run_with_cache(tokens)` gives the clean run: what each head wrote, and every pattern. "
        "For the rest of the model you need your own loop over the layers, in which one head's output "
        "can be replaced.",
        "In each layer: queries and keys read `model.qk_input(x)`, values read x itself, and the heads' "
        "outputs are added to x. Put the replacement in at the right layer and head. The mean runs over "
        "batch *and* positions, so it is one vector of d_model numbers.",
    ),
    mistakes=(
        Mistake(
            "zero_with_frozen_patterns",
            _taken_as("zero", "frozen"),
            'For "zero" the patterns of the clean run were kept. Later heads should look anew at the '
            "changed stream.",
            facts=(102,),
        ),
        Mistake(
            "patterns_not_frozen",
            _taken_as("frozen", "zero"),
            'For "frozen" the later patterns were computed anew. They should be those of the run with '
            "the head in place.",
            facts=(102, 60),
        ),
        Mistake(
            "mean_for_zero",
            _taken_as("zero", "mean"),
            'For "zero" the mean was put in. Nothing should come in its place.',
            facts=(101,),
        ),
        Mistake(
            "zero_for_mean",
            _taken_as("mean", "zero"),
            'For "mean" the output was set to 0. Its mean should take its place.',
            facts=(101,),
        ),
        Mistake(
            "mean_over_positions_only",
            _averaged(lambda out: out.mean(dim=1, keepdim=True)),
            "The mean runs over positions, text by text. It should run over the batch as well: one "
            "vector for all.",
            facts=(101,),
        ),
        Mistake(
            "mean_over_batch_only",
            _averaged(lambda out: out.mean(dim=0, keepdim=True)),
            "The mean runs over the batch, position by position. It should run over positions as well: "
            "one vector for all.",
            facts=(101,),
        ),
        Mistake(
            "mean_of_everything",
            _averaged(lambda out: out.mean()),
            "The mean runs over the directions of the stream too, which leaves a single number. "
            "Average over batch and positions only.",
            facts=(101,),
        ),
        Mistake(
            "direct_effect_only",
            _direct_only,
            "Only the head's own path to the logits was changed. Later layers read the stream as well, "
            "so the rest must be computed anew.",
            facts=(106,),
        ),
        Mistake(
            "pattern_made_even",
            _even_pattern,
            "The head still moves something: its scores became 0, so it looks everywhere alike. Its "
            "*output* should go.",
            facts=(100,),
        ),
        Mistake(
            "whole_layer",
            _whole_layer,
            "All heads of that layer were taken out. Only one should go.",
        ),
        Mistake(
            "every_layer",
            _every_layer,
            "The head of that number was taken out in every layer.",
        ),
        Mistake(
            "layer_and_head_swapped",
            _other_head,
            "Another head was taken out: the layer comes first, then the head.",
        ),
    ),
    variants=(
        Variant("own_forward_pass", _ablation, facts=("E",)),
        Variant("weights_set_to_zero", _by_weights, facts=("E", "B")),
    ),
)
