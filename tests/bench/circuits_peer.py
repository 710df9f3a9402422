"""TransformerLens's side of the circuits bench: a worker that the peers' Python runs; nothing of ours in it.

One JSON request a line on stdin, one JSON answer a line on stdout. ``{"do": "load", "weights": FILE}``
makes a model of these weights; every other ``do`` is a function below, called with the request's
``arguments`` inside inference_mode, and answered with the seconds it took. With ``"answer": FILE`` what
it returned is saved there, for us to compare.

Each function is what a user of the package would write: its own calls where it has them, and its
weights with einsum where it has none.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformer_lens import HookedTransformer, HookedTransformerConfig

OUTSIDE = {"W_E": "embed.W_E", "W_U": "unembed.W_U", "W_pos": "pos_embed.W_pos"}
CHUNK = 2**24  # numbers, 64 MiB


def load(weights: str) -> HookedTransformer:
    """Attention only, no LayerNorm, no biases, positions read by queries and keys alone."""
    ours = load_file(weights)
    n_layers, n_heads, d_model, d_head = ours["W_Q"].shape
    config = HookedTransformerConfig(
        n_layers=n_layers, n_heads=n_heads, d_model=d_model, d_head=d_head,
        d_vocab=ours["W_E"].shape[0], n_ctx=ours["W_pos"].shape[0], attn_only=True,
        normalization_type=None, positional_embedding_type="shortformer", device="cpu",
        init_weights=False,
    )  # fmt: skip
    model = HookedTransformer(config)
    state = {key: ours[name] for name, key in OUTSIDE.items()}
    for n in range(n_layers):
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            state[f"blocks.{n}.attn.{name}"] = ours[name][n]
    model.load_state_dict(state, strict=False)  # what the state lacks are biases, zero as they are
    return model.eval()


def forward(model: HookedTransformer, tokens: torch.Tensor) -> torch.Tensor:
    """Logits, and all that its cache holds by default: no head's output apart."""
    logits, _ = model.run_with_cache(tokens)
    return logits


def forward_heads(model: HookedTransformer, tokens: torch.Tensor) -> torch.Tensor:
    """The same with what each head writes, which our cache holds too."""
    model.set_use_attn_result(True)
    logits, _ = model.run_with_cache(tokens)
    model.set_use_attn_result(False)
    return logits


def composition(model: HookedTransformer) -> torch.Tensor:
    """(kind, layer, head, layer, head): the head read from, then the head that reads."""
    return torch.stack([model.all_composition_scores(kind) for kind in "QKV"])


def copying(model: HookedTransformer) -> torch.Tensor:
    """Re Σλ / Σ|λ| of the full OV circuit of every head, as in its main demo."""
    full = model.W_E @ model.OV @ model.W_U
    values = full.eigenvalues
    return values.sum(dim=-1).real / values.abs().sum(dim=-1)


def largest(
    model: HookedTransformer, circuit: str, layer: int, head: int, k: int, rows: int
) -> torch.Tensor:
    """The k largest entries in the first rows of a full circuit, a chunk of them at a time: no call does that."""
    attn = model.blocks[layer].attn
    if circuit == "QK":
        full = model.W_E[:rows] @ attn.QK[head] @ model.W_E.T
    else:
        full = model.W_E[:rows] @ attn.OV[head] @ model.W_U
    best = torch.empty(0)
    for A in full.A.split(CHUNK // full.rdim):
        best = torch.cat([best, (A @ full.B).flatten()]).topk(k).values
    return best


def paths(model: HookedTransformer, tokens: torch.Tensor) -> torch.Tensor:
    """Logits of every path, (path, pos, d_vocab): direct, each head alone, each pair of heads."""
    _, cache = model.run_with_cache(tokens, names_filter=lambda name: name.endswith("hook_pattern"))
    stream = model.embed(tokens)
    terms = [stream]
    for layer, block in enumerate(model.blocks):
        values = torch.einsum("tpd,hdk->thpk", torch.cat(terms), block.attn.W_V)
        z = cache["pattern", layer] @ values
        terms += [torch.einsum("thpk,hkd->thpd", z, block.attn.W_O).flatten(0, 1)]
    return torch.cat(terms) @ model.W_U


CALLS: dict[str, Callable[..., torch.Tensor]] = {
    call.__name__: call for call in (forward, forward_heads, composition, copying, largest, paths)
}


def main(threads: int) -> None:
    torch.set_num_threads(threads)
    model: Any = None
    answers, sys.stdout = sys.stdout, sys.stderr  # the package prints
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "load":
            model, took = load(request["weights"]), 0.0
        else:
            took = answer(model, request)
        print(json.dumps({"seconds": took}), file=answers, flush=True)


@torch.inference_mode()
def answer(model: HookedTransformer, request: dict[str, Any]) -> float:
    """Do what is asked, save what came if that is asked, and say how long it took."""
    arguments = request["arguments"]
    if "tokens" in arguments:
        arguments["tokens"] = torch.tensor(arguments["tokens"])
    started = time.perf_counter()
    came = CALLS[request["do"]](model, **arguments)
    took = time.perf_counter() - started
    if "answer" in request:
        save_file({"answer": came.contiguous()}, request["answer"])
    return took


if __name__ == "__main__":
    main(threads=int(sys.argv[1]))
