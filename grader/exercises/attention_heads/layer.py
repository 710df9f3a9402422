"""A whole layer of heads: every step of a head can go wrong here, and the head axis as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.circuits import attention_heads as reference
from grader.exercises.attention_heads.wrong_patterns import (
    WEAK_MASK,
    WRONG_STEPS,
    causal,
    weak_mask,
)
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

WEAK_FILL = (
    "The future got a low score, but not low enough: where all real scores are lower still, it draws "
    "most of the attention. Which value can no score reach?"
)


def _cases(draw: Draw) -> Iterator[Case]:
    def case(
        head: int, pos: int, d_model: int, d_head: int, by: Draw = draw, label: str = ""
    ) -> Case:
        readers = [by.normal(head, d_model, d_head, scale=d_model**-0.5) for _ in range(3)]
        x, W_O = by.normal(pos, d_model, scale=1.5), by.normal(head, d_head, d_model)
        return Case((x, *readers, W_O), label)

    head, pos, d_model, d_head = draw.sizes(4, 2, 8)
    yield case(head, pos, d_model, d_head)
    n = draw.integer(3, 5)
    yield case(n, n, n, n, label="where all sizes are equal")
    double = Draw(draw.seed, torch.float64)
    yield case(1, pos, d_model, d_head, double, "with a single head, in float64")
    yield case(head, 1, d_model, d_head, label="with a single position")
    x, W_Q, _, W_V, W_O = case(head, pos, d_model, d_head).args
    # Keys that oppose their queries: scores lie near −40, far below a mask of −10, never under it by
    # so much that a softmax over all sources would leave nothing for the visible ones.
    x = 0.3 * x + 6.0 * torch.ones(d_model) / d_model**0.5
    largest = (x @ W_Q).square().sum(dim=-1).amax(dim=-1)
    W_K = -W_Q * (40.0 * math.sqrt(d_head) / largest)[:, None, None]
    yield Case((x, W_Q, W_K, W_V, W_O), "where scores lie far below 0")


def _layer(
    x: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    *,
    scale: float | None = None,
    step: Callable[[Tensor], Tensor] = causal,
) -> Tensor:
    """The layer with one thing changed: what scores are divided by, or how they become a pattern."""
    scores = (x @ W_Q) @ (x @ W_K).mT / (scale if scale is not None else math.sqrt(W_Q.shape[-1]))
    return step(scores) @ (x @ W_V) @ W_O


def _with_step(step: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda *args: _layer(*args, step=step)


def _scaled_after_softmax(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    return _layer(x, W_Q, W_K, W_V, W_O, scale=1.0) / math.sqrt(W_Q.shape[-1])


def _one_pattern_for_all(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    scores = torch.einsum("id,ndh,jm,nmh->ij", x, W_Q, x, W_K) / math.sqrt(W_Q.shape[-1])
    return causal(scores) @ (x @ W_V) @ W_O


def _fused(split: Callable[[Tensor, int, int], Tensor], fuse_first: bool) -> Callable[..., Tensor]:
    """Heads computed by one wide product, as fast code does, with a slip in taking it apart."""

    def answer(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
        head, d_model, d_head = W_Q.shape

        def project(W: Tensor) -> Tensor:
            wide = W if not fuse_first else W.transpose(0, 1)
            return split(x @ wide.reshape(d_model, head * d_head), head, d_head)

        q, k, v = project(W_Q), project(W_K), project(W_V)
        return causal(q @ k.mT / d_head**0.5) @ v @ W_O

    return answer


def _split(wide: Tensor, head: int, d_head: int) -> Tensor:
    return wide.reshape(-1, head, d_head).transpose(0, 1)


def _split_by_reshape(wide: Tensor, head: int, d_head: int) -> Tensor:
    return wide.reshape(head, -1, d_head)


def _split_interleaved(wide: Tensor, head: int, d_head: int) -> Tensor:
    return wide.reshape(-1, d_head, head).permute(2, 0, 1)


def _all_axes_reversed(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    # What `.T` does to three axes; spelled out, since PyTorch warns of it.
    keys = (x @ W_K).permute(2, 1, 0)
    return causal((x @ W_Q) @ keys / math.sqrt(W_Q.shape[-1])) @ (x @ W_V) @ W_O


def _ov_transposed(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    return _layer(x, W_Q, W_K, W_O.mT, W_V.mT)


def _by_loops(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> list[Tensor]:
    return [
        causal((x @ q) @ (x @ k).T / math.sqrt(q.shape[1])) @ x @ v @ o
        for q, k, v, o in zip(W_Q, W_K, W_V, W_O, strict=True)
    ]


def _by_einsum(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    q, k, v = (torch.einsum("pd,hde->hpe", x, W) for W in (W_Q, W_K, W_V))
    pattern = causal(torch.einsum("hie,hje->hij", q, k) / math.sqrt(W_Q.shape[-1]))
    return torch.einsum("hij,hje,hed->hid", pattern, v, W_O)


def _by_circuits(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    pattern = causal(x @ (W_Q @ W_K.mT) @ x.T / math.sqrt(W_Q.shape[-1]))
    return pattern @ x @ (W_V @ W_O)


def _in_numpy(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> np.ndarray:
    stream, *weights = (tensor.double().numpy() for tensor in (x, W_Q, W_K, W_V, W_O))
    q, k, v = (stream @ W for W in weights[:3])
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(W_Q.shape[-1])
    scores = np.where(np.tri(len(stream), dtype=bool), scores, -np.inf)
    pattern = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(pattern / pattern.sum(axis=-1, keepdims=True) @ v @ weights[3])


def _by_torchs_own(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    attend: Any = torch.nn.functional.scaled_dot_product_attention
    z: Tensor = attend(x @ W_Q, x @ W_K, x @ W_V, is_causal=True)
    return z @ W_O


ATTENTION_LAYER = Exercise(
    reference=reference.attention_layer,
    notebook="02-attention-heads",
    title="A layer of heads, one term each",
    paper="Attention Heads are Independent and Additive",
    points=4,
    minutes=20,
    difficulty=2,
    cases=_cases,
    compare=Comparator(),
    hints=(
        "You have all the pieces: scores, pattern, output. A layer does the three for each head, and "
        "no head knows of the others.",
        "Either loop over the heads and stack the results, or let `@` carry the head axis along: "
        "(pos, d_model) @ (head, d_model, d_head) is (head, pos, d_head). To transpose, exchange the "
        "last two axes only.",
        "For each head: scores of x with itself by its W_Q and W_K, causal pattern, head output by "
        "its W_V and W_O. Stack along a new first axis; don't add up, don't add x.",
    ),
    mistakes=(
        Mistake(
            "heads_summed",
            lambda *args: _layer(*args).sum(dim=0),
            "The heads are already added up. Here each head's term is wanted by itself, with the "
            "head axis in front.",
            facts=(41,),
        ),
        Mistake(
            "heads_averaged",
            lambda *args: _layer(*args) / len(args[1]),
            "Each term is divided by the number of heads. Heads add to the stream, nothing is "
            "averaged.",
            facts=(41,),
        ),
        Mistake(
            "stream_added",
            lambda *args: _layer(*args) + args[0],
            "The stream is contained in every term. A head's term is only what it *adds*; the "
            "stream itself goes on beside it.",
            facts=(43,),
        ),
        Mistake(
            "head_axis_in_the_middle",
            lambda *args: _layer(*args).transpose(0, 1),
            "Right numbers, axes in another order: asked for is (head, pos, d_model).",
            facts=(39,),
        ),
        Mistake(
            "stops_before_W_O",
            lambda x, W_Q, W_K, W_V, W_O: (
                causal((x @ W_Q) @ (x @ W_K).mT / math.sqrt(W_Q.shape[-1])) @ (x @ W_V)
            ),
            "This is what the head has gathered, in its own d_head dimensions. It still has to be "
            "written back into the stream.",
        ),
        Mistake(
            "roles_swapped",
            lambda x, W_Q, W_K, W_V, W_O: _layer(x, W_K, W_Q, W_V, W_O),
            "Queries and keys have changed roles: rows of the scores must be destinations, and "
            "destinations ask.",
            facts=(16,),
        ),
        Mistake(
            "not_scaled",
            lambda *args: _layer(*args, scale=1.0),
            "The scores are not divided by √d_head, so the pattern is too sharp.",
            facts=(17,),
        ),
        Mistake(
            "scaled_by_d_model",
            lambda *args: _layer(*args, scale=args[1].shape[1] ** 0.5),
            "The scale uses the width of the stream. How many entries does the dot product of a "
            "query and a key sum over?",
            facts=(18,),
        ),
        Mistake(
            "scaled_by_d_head",
            lambda *args: _layer(*args, scale=float(args[1].shape[-1])),
            "The scale is d_head itself, or its root applied twice. The root is applied once.",
            facts=(19,),
        ),
        Mistake(
            "scaled_by_head_count",
            lambda *args: _layer(*args, scale=args[1].shape[0] ** 0.5),
            "The scale is the root of the number of *heads*: the first axis of W_Q. Which axis of "
            "(head, d_model, d_head) holds the size of a query?",
            facts=(18, 119),
        ),
        Mistake(
            "d_head_built_in",
            lambda *args: _layer(*args, scale=8.0),
            "The scale is 8 whatever the weights are: the square root of a d_head of 64. Read d_head "
            "off the shape of the weights.",
            facts=(119,),
        ),
        Mistake(
            "scaled_after_softmax",
            _scaled_after_softmax,
            "The division by √d_head comes after the softmax, so attention no longer sums to 1. It "
            "belongs to the scores.",
            facts=(20,),
        ),
        *(
            Mistake(name, _with_step(step), message, facts=(number,))
            for number, name, step, message in WRONG_STEPS
        ),
        Mistake(
            "softmax_over_heads",
            _with_step(lambda scores: causal(scores, dim=0)),
            "The softmax runs over the heads, as if they competed. Each head has an attention of 1 "
            "of its own, shared out among *sources*.",
            facts=(21, 39),
        ),
        Mistake("weak_mask", _with_step(weak_mask), WEAK_MASK, facts=(28,)),
        Mistake(
            "weak_mask_filled", _with_step(lambda s: causal(s, fill=-10.0)), WEAK_FILL, facts=(28,)
        ),
        Mistake(
            "pattern_transposed",
            _with_step(lambda scores: causal(scores).mT),
            "The pattern is turned over when it moves the values, so sources receive and "
            "destinations give. Look at what row 0 gets: only itself may be in it.",
            facts=(42,),
        ),
        Mistake(
            "ov_transposed",
            _ov_transposed,
            "W_V and W_O are used turned over: it writes where it should read. In row convention a "
            "value is `x @ W_V`, with nothing transposed.",
            facts=(37,),
        ),
        Mistake(
            "first_head_looks_for_all",
            lambda x, W_Q, W_K, W_V, W_O: _layer(x, W_Q[:1], W_K[:1], W_V, W_O),
            "Every head uses the pattern of head 0. Each has its own queries and keys.",
            facts=(39,),
        ),
        Mistake(
            "one_pattern_for_all",
            _one_pattern_for_all,
            "The scores of all heads are added up into one pattern. The head axis must survive the "
            "product of queries and keys.",
            facts=(39,),
        ),
        Mistake(
            "all_axes_reversed",
            _all_axes_reversed,
            "`.T` turns *all* axes round, the head axis too. With three axes only the last two may "
            "change places: `.mT`, or `transpose(-1, -2)`.",
            facts=(39,),
        ),
        Mistake(
            "heads_fused_by_reshape",
            _fused(_split, fuse_first=False),
            "The weights of all heads are put side by side by `reshape` alone, which mixes heads: "
            "d_model must come first before the head and d_head axes can be merged.",
            facts=(38,),
        ),
        Mistake(
            "heads_split_by_reshape",
            _fused(_split_by_reshape, fuse_first=True),
            "A wide (pos, head · d_head) result was taken apart by `reshape` to (head, pos, d_head), "
            "which cuts up positions. Split the last axis first, then move the head axis.",
            facts=(38,),
        ),
        Mistake(
            "head_and_d_head_mixed",
            _fused(_split_interleaved, fuse_first=True),
            "The wide axis is taken apart in the wrong order: d_head and head have changed places, "
            "so every 'head' holds one dimension of each real one.",
            facts=(39,),
        ),
        Mistake(
            "heads_in_another_order",
            lambda x, W_Q, W_K, W_V, W_O: _layer(x, W_Q, W_K, W_V, W_O.flip(0)),
            "What one head gathers is written by another head's W_O: the order of the heads changed "
            "on the way.",
            facts=(40,),
        ),
    ),
    variants=(
        Variant("loops_returning_a_list", _by_loops, facts=("E", "N")),
        Variant("einsum", _by_einsum, facts=("E",)),
        Variant("through_the_circuits", _by_circuits, facts=("E", "T")),
        Variant("fused_heads", _fused(_split, fuse_first=True), facts=("E",)),
        Variant("numpy", _in_numpy, facts=("N", "D")),
        Variant("torchs_own_attention", _by_torchs_own, facts=("E",)),
        Variant("filled_with_minus_1e4", _with_step(lambda s: causal(s, fill=-1e4)), facts=("M",)),
        Variant(
            "renormalized_after_the_mask",
            _with_step(lambda s: (p := s.softmax(dim=-1).tril()) / p.sum(dim=-1, keepdim=True)),
            facts=("E",),
        ),
    ),
)
