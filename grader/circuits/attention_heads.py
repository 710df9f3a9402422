"""Notebook 02: one head moves information: where from is decided by QK, what by OV.

One head, row vectors::

    pattern = softmax(causal(x W_Q (x W_K)ᵀ / sqrt(d_head)))   reads W_Q, W_K only as W_QK = W_Q W_Kᵀ
    output  = pattern x W_V W_O                                reads W_V, W_O only as W_OV = W_V W_O

The output multiplies x by one matrix on each side. Matrices on different sides do not meet, so they
can be applied in either order; that is what the paper's ``A ⊗ W`` says. Queries, keys and values are
coordinates of a choice: ``W_Q R`` with ``W_K R⁻ᵀ``, or ``W_V S`` with ``S⁻¹ W_O``, are the same head.

Functions take leading axes on weights, patterns or inputs where that makes sense and broadcast them,
so one call can serve all heads.

Paper: "Attention Heads are Independent and Additive", "Attention Heads as Information Movement".
"""

from __future__ import annotations

import torch
from torch import Tensor

from grader.circuits.residual_stream import rotation_in
from grader.circuits.shapes import shaped


@shaped(
    x_dst="... dst d_model",
    x_src="... src d_model",
    W_Q="... d_model d_head",
    W_K="... d_model d_head",
)
def attention_scores(x_dst: Tensor, x_src: Tensor, W_Q: Tensor, W_K: Tensor) -> Tensor:
    """What each destination's query makes of each source's key, divided by sqrt(d_head).

    x_dst (dst, d_model), x_src (src, d_model), W_Q and W_K (d_model, d_head) of one head
    → (dst, src), before any mask, no positions added.
    """
    scores: Tensor = (x_dst @ W_Q) @ (x_src @ W_K).mT / W_Q.shape[-1] ** 0.5
    return scores


@shaped(scores="... pos pos")
def causal_pattern(scores: Tensor) -> Tensor:
    """Softmax over the sources that are not in the future: (..., dst, src) → the same shape.

    scores are already divided by sqrt(d_head). Rows of the result sum to 1.
    """
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(dim=-1)


@shaped(
    x="... src d_model",
    pattern="... dst src",
    W_V="... d_model d_head",
    W_O="... d_head d_model",
)
def head_output(x: Tensor, pattern: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    """What one head adds to the stream, ``pattern @ x @ W_V @ W_O``, the stream itself not included.

    x (pos, d_model), pattern (dst, src), W_V (d_model, d_head), W_O (d_head, d_model)
    → (pos, d_model).
    """
    return pattern @ (x @ W_V) @ W_O


@shaped(
    x="pos d_model",
    W_Q="head d_model d_head",
    W_K="head d_model d_head",
    W_V="head d_model d_head",
    W_O="head d_head d_model",
)
def attention_layer(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    """One layer of causal attention, each head apart: x (pos, d_model) → (head, pos, d_model).

    x is what queries, keys and values read, as it is given. The layer's output is the sum over heads.
    """
    pattern = causal_pattern(attention_scores(x, x, W_Q, W_K))
    return head_output(x, pattern, W_V, W_O)


@shaped(z="head pos d_head", W_O="head d_head d_model")
def concat_equals_sum(z: Tensor, W_O: Tensor) -> tuple[Tensor, Tensor]:
    """One layer's output in both forms, each (pos, d_model): heads concatenated, heads summed.

    z (head, pos, d_head), W_O (head, d_head, d_model). Laid side by side, the z of all heads meet
    the W_O of all heads stacked; a block matrix product is the sum of the products of its blocks.
    """
    head, pos, d_head = z.shape
    side_by_side = z.transpose(0, 1).reshape(pos, head * d_head)
    stacked = W_O.reshape(head * d_head, W_O.shape[-1])
    return side_by_side @ stacked, (z @ W_O).sum(dim=0)


@shaped(W_Q="... d_model d_head", W_K="... d_model d_head")
def qk_circuit(W_Q: Tensor, W_K: Tensor) -> Tensor:
    """W_QK = W_Q W_Kᵀ of one head: (d_model, d_model), row = query side, not divided."""
    return W_Q @ W_K.mT


@shaped(W_V="... d_model d_head", W_O="... d_head d_model")
def ov_circuit(W_V: Tensor, W_O: Tensor) -> Tensor:
    """W_OV = W_V W_O of one head: (d_model, d_model), reads rows, writes columns."""
    return W_V @ W_O


@shaped(pattern="dst src", W_OV="d_in d_out")
def tensor_product(pattern: Tensor, W_OV: Tensor) -> Tensor:
    """M with ``M @ x.reshape(-1) == (pattern @ x @ W_OV).reshape(-1)``: (dst·d_out, src·d_in).

    Entry (i, o) of the result is Σ_jd A_ij x_jd W_do, so M at row (i, o), column (j, d) is
    ``A_ij · (Wᵀ)_od``: the Kronecker product of A and Wᵀ, because reshape runs along rows.
    """
    # Not torch.kron, which (2.13) fails on transposed matrices with an axis of size 1.
    product = torch.einsum("ij,do->iojd", pattern, W_OV)
    return product.reshape(product.shape[0] * product.shape[1], -1)


@shaped(A1="... mid src", W1="... d_model d_model", A2="... dst mid", W2="... d_model d_model")
def mixed_product(A1: Tensor, W1: Tensor, A2: Tensor, W2: Tensor) -> tuple[Tensor, Tensor]:
    """Head 1, then head 2, as one head: its (pattern, W_OV).

    ``A2 (A1 x W1) W2 = (A2 A1) x (W1 W2)``: patterns compose leftwards, W_OV rightwards. In the
    paper's column vectors both compose leftwards: (A₂⊗W₂)(A₁⊗W₁) = (A₂A₁)⊗(W₂W₁).
    """
    return A2 @ A1, W1 @ W2


@shaped(
    W_Q="... d_model d_head",
    W_K="... d_model d_head",
    W_V="... d_model d_head",
    W_O="... d_head d_model",
    R="... d_head d_head",
    S="... d_head d_head",
)
def change_of_basis(
    W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, R: Tensor, S: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same head in other coordinates: (W_Q, W_K, W_V, W_O), with W_QK and W_OV unchanged.

    R changes the basis of queries and keys, S that of values, both (d_head, d_head) and invertible:
    ``W_Q R (W_K R⁻ᵀ)ᵀ = W_Q R R⁻¹ W_Kᵀ``. Raises ValueError where one is singular.
    """
    keys, keys_singular = torch.linalg.solve_ex(R, W_K.mT)
    outputs, outputs_singular = torch.linalg.solve_ex(S, W_O)
    for name, singular in (("R", keys_singular), ("S", outputs_singular)):
        if bool(singular.any()):
            raise ValueError(f"change_of_basis: {name} must be invertible; this one is singular.")
    return W_Q @ R, keys.mT, W_V @ S, outputs


def random_basis(
    d_head: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64
) -> Tensor:
    """An invertible (d_head, d_head) matrix that is far from orthogonal yet safe to invert.

    Rotation, stretch, rotation, with stretches between 1/2 and 2, so its condition is at most 4.
    """
    return random_bases(1, d_head, generator)[0].to(dtype)


def random_bases(count: int, d_head: int, generator: torch.Generator | None = None) -> Tensor:
    """What as many calls of ``random_basis`` give, (count, d_head, d_head)."""

    def normal() -> Tensor:
        return torch.randn(d_head, d_head, generator=generator, dtype=torch.float64)

    def uniform() -> Tensor:
        return torch.rand(1, d_head, generator=generator, dtype=torch.float64)

    drawn = [(normal(), normal(), uniform()) for _ in range(count)]
    left, right, stretch = (torch.stack(part) for part in zip(*drawn, strict=True))
    bases: Tensor = (rotation_in(left) * 4 ** (stretch - 0.5)) @ rotation_in(right)
    return bases
