"""A transformer run the long way, one position and one head at a time: the oracle of these tests.

Shares no code with ``grader``: numpy, loops, and a softmax spelled out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from grader.transformer import Transformer

Array = npt.NDArray[np.float64]
Change = Callable[[int, int, Array], Array]


def run(
    model: Transformer,
    tokens: Tensor,
    change: Change = lambda layer, head, output: output,
    patterns: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Logits (pos, d_vocab), patterns (layer, head, pos, pos), head outputs (layer, head, pos, d_model).

    ``change`` may replace a head's output before it is added; given patterns are used as they are.
    """
    w = {name: weight.detach().double().numpy() for name, weight in model.weights().items()}
    pos, scale = len(tokens), np.sqrt(model.d_head)
    x = w["W_E"][tokens.numpy()]
    if model.pos_in_stream:
        x = x + w["W_pos"][:pos]
    kept = np.zeros((model.n_layers, model.n_heads, pos, pos))
    outputs = np.zeros((model.n_layers, model.n_heads, pos, model.d_model))
    for layer in range(model.n_layers):
        seen = x if model.pos_in_stream else x + w["W_pos"][:pos]
        for head in range(model.n_heads):
            W_Q, W_K = w["W_Q"][layer, head], w["W_K"][layer, head]
            for dst in range(pos):
                scores = (seen[: dst + 1] @ W_K) @ (seen[dst] @ W_Q) / scale
                weights = np.exp(scores - scores.max())
                kept[layer, head, dst, : dst + 1] = weights / weights.sum()
            if patterns is not None:
                kept[layer, head] = patterns[layer, head]
            for dst in range(pos):
                moved = kept[layer, head, dst, : dst + 1] @ x[: dst + 1]
                outputs[layer, head, dst] = moved @ w["W_V"][layer, head] @ w["W_O"][layer, head]
            outputs[layer, head] = change(layer, head, outputs[layer, head])
        x = x + outputs[layer].sum(axis=0)
    return x @ w["W_U"], kept, outputs


def mean_loss(logits: Array, tokens: Tensor) -> float:
    """Mean of −ln softmax(logits[i])[tokens[i + 1]], nats."""
    losses = []
    for row, target in zip(logits[:-1], tokens[1:].tolist(), strict=True):
        losses.append(np.log(np.exp(row - row.max()).sum()) + row.max() - row[target])
    return float(np.mean(losses))


def as_tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.asarray(array))
