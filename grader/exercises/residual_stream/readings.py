"""Notebook 00: two linear readings of the stream, one by the unembedding, one by a later layer."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grader.circuits.residual_stream import component_logits, virtual_weights
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant


def _component_cases(draw: Draw) -> Iterator[Case]:
    component, pos, d_model, d_vocab = draw.sizes(4, 2, 9)
    yield Case((draw.normal(component, pos, d_model), draw.normal(d_model, d_vocab)))
    yield Case((draw.normal(4, 4, 4), draw.normal(4, 4)), "with all sizes equal")
    yield Case(
        (draw.normal(1, 1, d_model), draw.normal(d_model, d_vocab)),
        "with one component and one position",
    )
    wide = Draw(draw.seed, torch.float64)
    yield Case((wide.normal(3, pos, d_model), wide.normal(d_model, d_vocab)), "in float64")


def _unit(x: Tensor) -> Tensor:
    unit: Tensor = x / x.norm(dim=-1, keepdim=True)
    return unit


COMPONENT_LOGITS = Exercise(
    reference=component_logits,
    notebook="00-residual-stream",
    title="Which part wrote which logit",
    paper="Virtual Weights and the Residual Stream as a Communication Channel",
    points=1,
    minutes=8,
    difficulty=1,
    cases=_component_cases,
    compare=Comparator(),
    hints=(
        "Unembedding is linear: the logits of a sum are the sum of the logits.",
        "Each (pos, d_model) slice meets the same W_U. The component axis only comes along.",
        "One matrix product with W_U on the right does it for all components at once. Nothing is "
        "summed and nothing is normalized.",
    ),
    mistakes=(
        Mistake(
            "components_summed",
            lambda c, W_U: c.sum(0) @ W_U,
            "The components are added up. The logits of the whole stream come out, and which part "
            "wrote what is lost: keep the component axis.",
            facts=(66,),
        ),
        Mistake(
            "log_softmaxed",
            lambda c, W_U: (c @ W_U).log_softmax(-1),
            "Log-probabilities came, logits were asked for. The softmax belongs to the sum of all "
            "components, not to each of them.",
            facts=(8,),
        ),
        Mistake(
            "softmaxed",
            lambda c, W_U: (c @ W_U).softmax(-1),
            "Probabilities came, logits were asked for. Probabilities of parts don't add up to the "
            "probabilities of the whole; logits do.",
            facts=(7,),
        ),
        Mistake(
            "unembedding_transposed",
            lambda c, W_U: c @ W_U.T,
            "W_U is used the other way round. It has a row for each stream dimension and a column for "
            "each token: rows are what is read, columns what comes out.",
            facts=(5,),
        ),
        Mistake(
            "component_axis_moved",
            lambda c, W_U: (c @ W_U).transpose(0, 1),
            "Right numbers, but the position axis comes first. The component axis stays in front.",
            facts=(39,),
        ),
        Mistake(
            "centered",
            lambda c, W_U: (c @ W_U) - (c @ W_U).mean(-1, keepdim=True),
            "Each row is centered: its mean over the vocabulary is taken away. This leaves the "
            "probabilities as they are, but the logits themselves were asked for.",
            facts=(8,),
        ),
        Mistake(
            "accumulated",
            lambda c, W_U: c.cumsum(0) @ W_U,
            "Each entry holds the logits of all components so far. That is a good question too (what "
            "would the model say after this layer?), but here each component answers alone.",
            facts=(54,),
        ),
        Mistake(
            "normalized_first",
            lambda c, W_U: _unit(c) @ W_U,
            "Each component is brought to length 1 first. Its length is part of what it says; and a "
            "sum of rescaled parts is not the stream.",
            facts=(67, 109),
        ),
        Mistake(
            "divided_by_count",
            lambda c, W_U: c @ W_U / len(c),
            "The result is divided by the number of components. The stream is their sum, not their "
            "mean.",
            facts=(41,),
        ),
        Mistake(
            "last_position_only",
            lambda c, W_U: c[:, -1] @ W_U,
            "Only the last position is kept. Every position makes a prediction.",
        ),
        Mistake(
            "first_component_only",
            lambda c, W_U: (c[0] @ W_U).expand(len(c), -1, -1),
            "Every component gets the logits of the first one. Which index did the loop use?",
            facts=(119,),
        ),
    ),
    variants=(
        Variant("einsum", lambda c, W_U: torch.einsum("cpd,dv->cpv", c, W_U), ("E",)),
        Variant("a loop over components", lambda c, W_U: torch.stack([x @ W_U for x in c]), ("E",)),
        Variant("a list of arrays", lambda c, W_U: [x @ W_U for x in c], ("N",)),
        Variant("numpy", lambda c, W_U: c.numpy() @ W_U.numpy(), ("N",)),
        Variant(
            "not contiguous",
            lambda c, W_U: torch.einsum("cpd,dv->vpc", c, W_U).permute(2, 1, 0),
            ("D",),
        ),
        Variant("an axis of size 1 in front", lambda c, W_U: (c @ W_U)[None], ("S",)),
    ),
)


def _virtual_cases(draw: Draw) -> Iterator[Case]:
    d_a, d_model, d_b = draw.sizes(3, 3, 9)
    yield Case((draw.normal(d_a, d_model), draw.normal(d_model, d_b)))
    yield Case((draw.normal(5, 5), draw.normal(5, 5)), "with all sizes equal")
    yield Case((draw.normal(d_a, d_model), draw.normal(d_model, d_a)), "with d_a equal to d_b")
    yield Case((draw.normal(1, d_model), draw.normal(d_model, 1)), "with d_a and d_b 1")
    wide = Draw(draw.seed, torch.float64)
    yield Case((wide.normal(d_b, d_model), wide.normal(d_model, d_a)), "in float64")


VIRTUAL_WEIGHTS = Exercise(
    reference=virtual_weights,
    notebook="00-residual-stream",
    title="Virtual weights",
    paper="Virtual Weights and the Residual Stream as a Communication Channel",
    points=1,
    minutes=8,
    difficulty=1,
    cases=_virtual_cases,
    compare=Comparator(),
    hints=(
        "Follow one vector: the earlier layer holds y, writes y @ W_out, and the later layer reads "
        "what was written by W_in. Which single matrix takes y to what is read?",
        "The shapes leave one way only: d_a comes in on the left, d_b goes out on the right, and the "
        "sum runs over d_model.",
        "Two matrices one after the other are one matrix: their product, the one used first on the "
        "left, because vectors are rows here.",
    ),
    mistakes=(
        Mistake(
            "papers_convention",
            lambda W_out, W_in: W_in.T @ W_out.T,
            "This is the transpose: the paper's own form, where vectors are columns and the later "
            "matrix stands on the left. Here vectors are rows, so a row is what the earlier layer holds.",
            facts=(5, 58),
        ),
        Mistake(
            "reversed",
            lambda W_out, W_in: W_in @ W_out,
            "The later layer's matrix comes first. That product goes from stream to stream; the one "
            "asked for goes from the earlier layer's inside to the later layer's inside.",
            facts=(36, 58),
        ),
        Mistake(
            "reader_transposed",
            lambda W_out, W_in: W_out @ W_in.T,
            "W_in is transposed without need. Its rows are the stream already, which is where the sum "
            "runs.",
            facts=(5,),
        ),
        Mistake(
            "writer_transposed",
            lambda W_out, W_in: W_out.T @ W_in,
            "W_out is transposed without need. Its columns are the stream already, which is where the "
            "sum runs.",
            facts=(5,),
        ),
        Mistake(
            "entry_by_entry",
            lambda W_out, W_in: W_out * W_in,
            "`*` multiplies entry by entry. Going through the stream sums over all its dimensions: a "
            "matrix product.",
        ),
        Mistake(
            "cosines",
            lambda W_out, W_in: _unit(W_out) @ (W_in / W_in.norm(dim=0)),
            "These are cosines: the lengths of the rows and columns are divided out. A virtual weight "
            "keeps them, a strong writer is read strongly.",
            facts=(84,),
        ),
        Mistake(
            "scaled_like_a_score",
            lambda W_out, W_in: W_out @ W_in / W_in.shape[0] ** 0.5,
            "The result is divided by the root of d_model. Attention scores are scaled (by d_head); "
            "weights in a row are not.",
            facts=(18,),
        ),
        Mistake(
            "one_number",
            lambda W_out, W_in: (W_out @ W_in).norm(),
            "One number came: the size of the virtual weights. The whole matrix was asked for.",
            facts=(84,),
        ),
        Mistake(
            "pseudo_inverse",
            lambda W_out, W_in: W_out @ torch.linalg.pinv(W_in).T,
            "A pseudo-inverse undoes a matrix. The later layer does not undo W_in, it reads through it.",
            facts=(15,),
        ),
    ),
    variants=(
        Variant("einsum", lambda a, b: torch.einsum("am,mb->ab", a, b), ("E",)),
        Variant("numpy", lambda a, b: a.numpy() @ b.numpy(), ("N",)),
        Variant("a sum over stream dimensions", lambda a, b: sum(map(torch.outer, a.T, b)), ("E",)),
        Variant("transposed product, turned back", lambda a, b: (b.T @ a.T).T, ("E", "D")),
        Variant("nested lists", lambda a, b: (a @ b).tolist(), ("N",)),
    ),
)
