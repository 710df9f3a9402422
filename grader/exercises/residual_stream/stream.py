"""Notebook 00: the stream as a running sum."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grader.circuits.residual_stream import residual_stream
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant


def _stream_case(draw: Draw, layers: int, pos: int, d_model: int, label: str = "") -> Case:
    return Case((draw.normal(pos, d_model), draw.normal(layers, pos, d_model)), label)


def _stream_cases(draw: Draw) -> Iterator[Case]:
    layers, pos, d_model = draw.sizes(3, 3, 8)
    yield _stream_case(draw, layers, pos, d_model)
    yield _stream_case(draw, 4, 4, 4, "with all sizes equal")
    yield _stream_case(draw, 0, pos, d_model, "without layers")
    yield _stream_case(draw, 1, 1, d_model, "with one layer and one position")
    yield _stream_case(Draw(draw.seed, torch.float64), 2, pos, d_model, "in float64")


def _one_tensor_many_times(embedding: Tensor, layer_outputs: Tensor) -> Tensor:
    x = embedding.clone()
    rows = [x]
    for output in layer_outputs:
        x += output
        rows.append(x)
    return torch.stack(rows)


def _loop(embedding: Tensor, layer_outputs: Tensor) -> Tensor:
    rows = [embedding]
    for output in layer_outputs:
        rows.append(rows[-1] + output)
    return torch.stack(rows)


def _two_layers_built_in(embedding: Tensor, layer_outputs: Tensor) -> Tensor:
    first = embedding + layer_outputs[0]
    return torch.stack([embedding, first, first + layer_outputs[1]])


def _parts(embedding: Tensor, layer_outputs: Tensor) -> Tensor:
    return torch.cat([embedding[None], layer_outputs])


RESIDUAL_STREAM = Exercise(
    reference=residual_stream,
    notebook="00-residual-stream",
    title="The stream as a running sum",
    paper="Virtual Weights and the Residual Stream as a Communication Channel",
    points=1,
    minutes=10,
    difficulty=1,
    cases=_stream_cases,
    compare=Comparator(),
    hints=(
        "A layer never replaces the stream. It adds its output to what is there already.",
        "Entry 0 of the result is the embedding alone. Every later entry is the entry before it plus "
        "one layer's output, so the first axis has layer + 1 entries.",
        "Put the embedding in front of the layer outputs along the first axis. Each entry you want is "
        "then the sum of all entries up to that place. Does it still work with zero layers?",
    ),
    mistakes=(
        Mistake(
            "embedding_missing",
            lambda e, o: torch.cat([torch.zeros_like(e)[None], o.cumsum(0)]),
            "The layer outputs are summed, but the embedding is not part of the sum. "
            "The stream starts as the embedding and never loses it.",
            facts=(53,),
        ),
        Mistake(
            "not_accumulated",
            lambda e, o: torch.cat([e[None], e + o]),
            "Every layer's output is added to the embedding alone. A layer adds to the whole stream "
            "as the layers before it left it.",
        ),
        Mistake(
            "outputs_not_summed",
            _parts,
            "These are the separate parts: the embedding, then each layer's output. "
            "What does the stream hold after a layer has added its part to it?",
        ),
        Mistake(
            "starts_after_layer_0",
            lambda e, o: e + o.cumsum(0),
            "The stream before layer 0 is missing: with n layers there are n + 1 moments to look at.",
            facts=(61,),
        ),
        Mistake(
            "stops_before_the_last_layer",
            lambda e, o: _parts(e, o).cumsum(0)[: len(o)],
            "The stream after the last layer is missing: the one that the unembedding reads.",
            facts=(61,),
        ),
        Mistake(
            "final_stream_only",
            lambda e, o: e + o.sum(0),
            "This is the stream after the last layer only. The exercise asks for every moment on the "
            "way, one entry a moment.",
        ),
        Mistake(
            "embedding_added_again",
            lambda e, o: torch.cat([e[None], e + o]).cumsum(0),
            "The embedding is counted again at every layer. It enters the stream once, at the start.",
            facts=(54,),
        ),
        Mistake(
            "one_layer_late",
            lambda e, o: torch.cat([e[None], torch.cat([e[None], o[:-1]]).cumsum(0)])[: len(o) + 1],
            "The sums are one layer late: entry 1 does not hold layer 0's output yet. "
            "Entry i is the stream after i layers.",
            facts=(61,),
        ),
        Mistake(
            "one_layer_early",
            lambda e, o: _parts(e, o).cumsum(0)[[*range(1, len(o) + 1), -1]],
            "The sums are one layer early: entry 0 already holds layer 0's output. "
            "Entry 0 is the stream that layer 0 reads.",
            facts=(61,),
        ),
        Mistake(
            "last_layer_first",
            lambda e, o: torch.cat([e[None], o.flip(0)]).cumsum(0),
            "The layers are added from the last to the first. Layer 0 writes first.",
        ),
        Mistake(
            "summed_over_positions",
            lambda e, o: _parts(e, o).cumsum(1),
            "The running sum goes along the positions. A layer adds its output position by position; "
            "the sum runs along the layers.",
            facts=(9,),
        ),
        Mistake(
            "summed_over_dimensions",
            lambda e, o: _parts(e, o).cumsum(-1),
            "The running sum goes along the d_model axis. It should run along the layers.",
            facts=(9,),
        ),
        Mistake(
            "running_mean",
            lambda e, o: (
                _parts(e, o).cumsum(0) / torch.arange(1, len(o) + 2, dtype=e.dtype)[:, None, None]
            ),
            "This is a running mean. The stream is a plain sum; nothing divides it.",
            facts=(12,),
        ),
        Mistake(
            "one_tensor_many_times",
            _one_tensor_many_times,
            "All entries hold the same numbers, those after the last layer. Is one tensor updated in "
            "place (`+=`) and put into the list many times? All of them are then that one tensor.",
            facts=(110,),
        ),
        Mistake(
            "outputs_counted_twice",
            lambda e, o: torch.cat([e[None], e + o.cumsum(0)]).cumsum(0),
            "Sums of sums: a layer's output is counted again at each later layer. Each output enters "
            "the stream once and stays there.",
            facts=(62,),
        ),
        Mistake(
            "two_layers_built_in",
            _two_layers_built_in,
            "Two layers are built in. The number of layers is the length of layer_outputs, and may be "
            "zero.",
            facts=(119,),
        ),
    ),
    variants=(
        Variant("a loop that keeps every sum", _loop, ("E",)),
        Variant("a Python list, one entry a moment", lambda e, o: list(_loop(e, o)), ("N",)),
        Variant("numpy", lambda e, o: _parts(e, o).numpy().cumsum(axis=0), ("E", "N")),
        Variant(
            "a triangle of ones",
            lambda e, o: torch.einsum(
                "ij,jpd->ipd",
                torch.ones(len(o) + 1, len(o) + 1, dtype=e.dtype).tril(),
                _parts(e, o),
            ),
            ("E",),
        ),
        Variant("in float64", lambda e, o: _loop(e.double(), o.double()), ("D",)),
        Variant("requires grad", lambda e, o: _loop(e.requires_grad_(), o), ("D",)),
    ),
)
