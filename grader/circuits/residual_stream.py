"""Notebook 00: the residual stream, a sum that every layer reads from and adds to.

Row vectors. A layer reads the stream by a matrix on its right, ``x @ W_in``, and writes by adding
``y @ W_out``. Nothing else ever happens to the stream, which has two consequences. It is a sum of
everything written so far, so what a later layer reads of an earlier one is ``y @ W_out @ W_in``, a
*virtual weight*, however many layers lie between. And no coordinate is special: turn the stream by
an orthogonal R, let writers write ``W @ R`` and readers read ``Rᵀ @ W``, and each product of a
writer and a reader, hence every logit, is unchanged, as ``W_out R Rᵀ W_in = W_out W_in``.

Paper: "Virtual Weights and the Residual Stream as a Communication Channel".
"""

from __future__ import annotations

import torch
from torch import Tensor

from grader.circuits.shapes import shaped
from grader.transformer import Transformer

_ROUNDED = 1e-4


@shaped(embedding="pos d_model", layer_outputs="layer pos d_model")
def residual_stream(embedding: Tensor, layer_outputs: Tensor) -> Tensor:
    """The stream before layer 0, after layer 0, …, after the last layer.

    embedding (pos, d_model), layer_outputs (layer, pos, d_model), no layer allowed
    → (layer + 1, pos, d_model). Paper: "High-Level Architecture".
    """
    return torch.cat([embedding.unsqueeze(0), layer_outputs]).cumsum(dim=0)


@shaped(components="component pos d_model", W_U="d_model d_vocab")
def component_logits(components: Tensor, W_U: Tensor) -> Tensor:
    """What each part of the stream adds to the logits, which are linear in the stream.

    components (component, pos, d_model), W_U (d_model, d_vocab) → (component, pos, d_vocab); summed
    over components they are the logits of the sum.
    """
    return components @ W_U


@shaped(W_out="d_a d_model", W_in="d_model d_b")
def virtual_weights(W_out: Tensor, W_in: Tensor) -> Tensor:
    """How a later layer reads an earlier one: (d_a, d_model), (d_model, d_b) → (d_a, d_b)."""
    return W_out @ W_in


@shaped(model="model:", R="d_model d_model")
def rotate_residual_stream(model: Transformer, R: Tensor) -> Transformer:
    """The same model in another basis of its stream: x becomes ``x @ R``, the logits stay.

    R (d_model, d_model) orthogonal. W_pos turns too: it is added to the stream where queries and
    keys read it, so it lives in the same space. Returns a new model; the given one is untouched.
    Raises ValueError where R is not orthogonal.
    """
    _check_orthogonal(R)
    writers = {name: getattr(model, name) @ R for name in ("W_E", "W_pos", "W_O")}
    readers = {name: R.mT @ getattr(model, name) for name in ("W_Q", "W_K", "W_V", "W_U")}
    return model.with_weights(**writers, **readers)


@shaped(W_out="d_a d_model", W_in="d_model d_b")
def read_write_overlap(W_out: Tensor, W_in: Tensor) -> Tensor:
    """The share of what W_out writes that W_in can see at all: ‖W_out P‖²_F / ‖W_out‖²_F.

    W_out (d_a, d_model), W_in (d_model, d_b) → a number in [0, 1]. P projects onto the column space
    of W_in, the only directions a reader ``x @ W_in`` responds to; with U its orthonormal basis,
    ``‖W_out U Uᵀ‖ = ‖W_out U‖``. The basis comes from the SVD of W_in, cut at its numerical rank. A
    W_out or W_in of zeros gives 0.
    """
    U, S, _ = torch.linalg.svd(W_in, full_matrices=False)
    noise = S[:1] * max(W_in.shape) * torch.finfo(S.dtype).eps
    seen = W_out @ U[:, noise < S]
    total: Tensor = W_out.square().sum()
    if total == 0:
        return total
    share: Tensor = seen.square().sum() / total
    return share.clamp(0, 1)


def random_rotation(
    d_model: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64
) -> Tensor:
    """An orthogonal (d_model, d_model) matrix, uniformly drawn (Haar measure)."""
    normal = torch.randn(d_model, d_model, generator=generator, dtype=torch.float64)
    return rotation_in(normal).to(dtype)


def rotation_in(normal: Tensor) -> Tensor:
    """The rotation in each Gaussian matrix, uniformly drawn: (..., d_model, d_model), both.

    It is Q of QR, with signs such that R has a positive diagonal: without them the distribution
    depends on how the library happens to choose signs.
    """
    Q, R = torch.linalg.qr(normal)
    rotation: Tensor = Q * R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return rotation


def _check_orthogonal(R: Tensor) -> None:
    off = (R @ R.mT - torch.eye(len(R), dtype=R.dtype, device=R.device)).abs().max()
    if not bool(off <= _ROUNDED):  # also in float64: R may have been rounded on its way there
        raise ValueError(
            f"rotate_residual_stream: R must be orthogonal, R @ R.T = identity; an entry is off by "
            f"{float(off):.2g}."
        )
