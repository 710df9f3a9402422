"""`from_transformer_lens` against the package itself (``pip install '.[lens]'``); skipped without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grader import models
from grader.circuits.beyond import from_transformer_lens
from grader.transformer import Transformer

lens: Any = pytest.importorskip("transformer_lens")
pytestmark = pytest.mark.filterwarnings("default")  # the package's own warnings are not ours


def hooked(model: Transformer) -> Any:
    """A model of the package of the same sizes: attention only, shortformer positions, no LayerNorm."""
    config = lens.HookedTransformerConfig(
        n_layers=model.n_layers, n_heads=model.n_heads, d_model=model.d_model,
        d_head=model.d_head, d_vocab=model.d_vocab, n_ctx=model.n_ctx, attn_only=True,
        normalization_type=None, positional_embedding_type="shortformer", seed=0, device="cpu",
    )  # fmt: skip
    return lens.HookedTransformer(config)


def test_a_model_initialized_by_the_package_gives_the_same_logits() -> None:
    sizes = Transformer.random(n_layers=3, n_heads=2, d_model=16, d_head=5, d_vocab=23, n_ctx=11)
    theirs = hooked(sizes)
    tokens = torch.randint(0, 23, (2, 11), generator=torch.Generator().manual_seed(0))
    ours = from_transformer_lens(theirs.state_dict())
    torch.testing.assert_close(ours(tokens), theirs(tokens).detach(), atol=1e-4, rtol=1e-4)


def test_a_trained_model_goes_there_and_back() -> None:
    model = models.load("two-layer")
    theirs = hooked(model)
    state = theirs.state_dict()
    outside = {"embed.W_E": "W_E", "unembed.W_U": "W_U", "pos_embed.W_pos": "W_pos"}
    state |= {key: getattr(model, name) for key, name in outside.items()}
    for n in range(model.n_layers):
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            state[f"blocks.{n}.attn.{name}"] = getattr(model, name)[n]
    theirs.load_state_dict(state)
    tokens = models.sample_tokens("code")[:64][None]
    expected = theirs(tokens).detach()
    torch.testing.assert_close(model(tokens), expected, atol=1e-4, rtol=1e-4)
    ours = from_transformer_lens(theirs.state_dict())
    torch.testing.assert_close(ours(tokens), model(tokens), atol=1e-4, rtol=1e-4)
