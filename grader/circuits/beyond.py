"""Notebook 07: what the simplified models leave out, brought back one piece at a time.

MLPs read the stream linearly before their activation, so the path expansion reaches their inputs
and stops there. LayerNorm is a linear map but for one division; biases fold away; TransformerLens
stores the same matrices under other names.

Paper: "Additional Intuition and Observations" and the appendix on MLP layers and LayerNorm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from grader.circuits.low_rank import LowRank, real_over_absolute
from grader.circuits.paths import path_terms
from grader.circuits.shapes import shaped
from grader.transformer import Transformer


@shaped(tokens="token: pos", model="model: 1", W_in="d_model d_mlp")
def mlp_path_expansion(tokens: Tensor, model: Transformer, W_in: Tensor) -> Tensor:
    """Pre-activations of an MLP after a one-layer model, by path: (1 + head, pos, d_mlp).

    W_in (d_model, d_mlp). The direct path first, then each head; they sum to ``stream @ W_in``.
    After the activation there is no such sum.
    """
    direct, heads = path_terms(tokens, model)
    return torch.cat([direct.values, heads.values]) @ W_in


@shaped(weight="d_model", bias="d_model", W="d_model d_out", b="d_out")
def fold_layer_norm(weight: Tensor, bias: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and shift of a LayerNorm, moved into the linear map that follows: new (W, b).

    weight, bias (d_model,), W (d_model, d_out), b (d_out,). With n the normalised input,
    ``(n · weight + bias) W + b = n (diag(weight) W) + (bias W + b)``. Centring could be folded too,
    being linear; the division by the standard deviation could not.
    """
    return weight.unsqueeze(-1) * W, bias @ W + b


@shaped(b_V="head d_head", W_O="head d_head d_model", b_O="d_model")
def fold_value_bias(b_V: Tensor, W_O: Tensor, b_O: Tensor) -> Tensor:
    """One bias (d_model,) for b_V (head, d_head) and b_O (d_model,) together.

    Rows of a pattern sum to 1, so ``A (x W_V + 1 b_V) W_O = A x W_V W_O + 1 b_V W_O``: the value
    bias reaches every position unchanged, through W_O (head, d_head, d_model).
    """
    return b_O + torch.einsum("hd,hdm->m", b_V, W_O)


@shaped(W_V="d_model d_head", W_O="d_head d_model")
def erasure_score(W_V: Tensor, W_O: Tensor) -> Tensor:
    """−Re Σλ / Σ|λ| of W_OV, one head: near 1 for a head that takes away what it reads.

    In the stream itself, without W_E and W_U: memory is freed whatever it held.
    Paper: "Virtual Weights and the Residual Stream as a Communication Channel".
    """
    return -real_over_absolute(LowRank(W_V, W_O).eigenvalues())


@shaped(k="... pos d_head")
def smeared_keys(k: Tensor, alpha: float | Tensor) -> Tensor:
    """σ(α) k_j + (1 − σ(α)) k_{j−1}, the first key as it was: k (..., pos, d_head) → same shape.

    k_{j−1} is the unsmeared one. With it, "the token before" is in the key without a head that puts
    it there, and one layer is enough for induction.
    Paper: In-context Learning and Induction Heads (2022), the smeared-key architecture.
    """
    alpha = torch.as_tensor(alpha, dtype=k.dtype, device=k.device)
    if alpha.ndim > 0:
        raise ValueError(
            f"smeared_keys: alpha must be one number; shape {tuple(alpha.shape)} came."
        )
    own = torch.sigmoid(alpha)
    smeared = own * k[..., 1:, :] + (1 - own) * k[..., :-1, :]
    return torch.cat([k[..., :1, :], smeared], dim=-2)


_PER_LAYER = ("W_Q", "W_K", "W_V", "W_O")
_OUTSIDE = {"W_E": "embed.W_E", "W_U": "unembed.W_U", "W_pos": "pos_embed.W_pos"}
_BIAS = re.compile(r"(blocks\.\d+\.attn\.b_[QKVO]|unembed\.b_U)$")
_BUFFER = re.compile(r"blocks\.\d+\.attn\.(mask|IGNORE)$")
_BLOCK = re.compile(r"blocks\.(\d+)\.attn\.(W_[QKVO])$")


def from_transformer_lens(state: Mapping[str, Any]) -> Transformer:
    """A state dict of TransformerLens as a Transformer with the same logits.

    For attention-only models with shortformer positions (added to queries and keys only) and no
    LayerNorm; that a model is one, its state dict does not always tell. Keys ``embed.W_E``,
    ``pos_embed.W_pos``, ``unembed.W_U`` and, for each layer N, ``blocks.N.attn.W_Q``, W_K, W_V,
    W_O; layers in the order of the *numbers* N. Causal masks are ignored, and biases that are zero.

    Raises ValueError for a bias that is not zero, for a weight that is missing, and for any other
    key (an MLP, a LayerNorm): a model that needs it would give other logits.
    """
    if not isinstance(state, Mapping):
        raise ValueError(
            f"from_transformer_lens: a state dict is needed; a {type(state).__name__} came."
        )
    layers: dict[int, dict[str, Any]] = {}
    for key, value in state.items():
        block = _BLOCK.match(key)
        if block:
            layers.setdefault(int(block[1]), {})[block[2]] = value
        elif _BIAS.match(key):
            if bool((torch.as_tensor(value) != 0).any()):
                raise ValueError(
                    f"from_transformer_lens: {key} is not zero, and these models have no biases."
                )
        elif not _BUFFER.match(key) and key not in _OUTSIDE.values():
            raise ValueError(
                f"from_transformer_lens: {key} has no place in an attention-only model without "
                "LayerNorm."
            )
    _check_complete(state, layers)
    weights = {name: state[key] for name, key in _OUTSIDE.items()}
    for name in _PER_LAYER:
        weights[name] = torch.stack([torch.as_tensor(layers[n][name]) for n in sorted(layers)])
    return Transformer.from_weights(weights)


def _check_complete(state: Mapping[str, Any], layers: dict[int, dict[str, Any]]) -> None:
    missing = [key for key in _OUTSIDE.values() if key not in state]
    for n in range(max(layers, default=0) + 1):
        weights = layers.get(n, {})
        missing += [f"blocks.{n}.attn.{name}" for name in _PER_LAYER if name not in weights]
    if missing:
        raise ValueError(f"from_transformer_lens: {', '.join(missing)} did not come.")
