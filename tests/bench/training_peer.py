"""Plain training loops for the task of notebook 05, run in the peers' environment: imports nothing of ours.

``python training_peer.py lens|plain``: each line of the input is a job in JSON (seed, layers, steps, and
the file of the weights to start from), each line of the output what became of it. ``lens`` trains a
HookedTransformer, ``plain`` an ``nn.Module`` in the manner of nanoGPT. Rows, rate and optimiser are the
course's.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

D_VOCAB, LENGTH, D_MODEL, N_HEADS, D_HEAD = 64, 49, 64, 2, 32
BATCH, PEAK, WARM_UP = 32, 0.005, 50


def rows_of(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens (count, 49), and which predictions (count, 48) can be made."""
    periods = torch.randint(8, 25, (count,), generator=generator)
    distinct = [torch.randperm(D_VOCAB - 1, generator=generator) for _ in range(count)]
    tokens = torch.zeros(count, LENGTH, dtype=torch.int64)
    tokens[:, 1:] = 1 + torch.stack(distinct).gather(1, torch.arange(48) % periods[:, None])
    return tokens, torch.arange(1, LENGTH) >= periods[:, None] + 2


class Attention(nn.Module):
    """nanoGPT's, but positions go into queries and keys only."""

    def __init__(self) -> None:
        super().__init__()
        width = N_HEADS * D_HEAD
        self.c_attn_qk = nn.Linear(D_MODEL, 2 * width, bias=False)
        self.c_attn_v = nn.Linear(D_MODEL, width, bias=False)
        self.c_proj = nn.Linear(width, D_MODEL, bias=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k = self.c_attn_qk(x + positions).split(N_HEADS * D_HEAD, dim=2)
        q, k, v = (
            each.view(B, T, N_HEADS, D_HEAD).transpose(1, 2) for each in (q, k, self.c_attn_v(x))
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Plain(nn.Module):
    def __init__(self, layers: int, start: dict[str, Tensor]) -> None:
        super().__init__()
        self.wte = nn.Embedding(D_VOCAB, D_MODEL)
        self.register_buffer("positions", start["W_pos"])
        self.h = nn.ModuleList(Attention() for _ in range(layers))
        self.lm_head = nn.Linear(D_MODEL, D_VOCAB, bias=False)
        with torch.no_grad():
            self.wte.weight.copy_(start["W_E"])
            self.lm_head.weight.copy_(start["W_U"].T)
            for layer, block in enumerate(self.h):
                q, k, v = (start[name][layer].transpose(0, 1).flatten(1) for name in QKV)
                block.c_attn_qk.weight.copy_(torch.cat([q, k], dim=1).T)
                block.c_attn_v.weight.copy_(v.T)
                block.c_proj.weight.copy_(start["W_O"][layer].flatten(0, 1).T)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens)
        for block in self.h:
            x = x + block(x, self.positions[: tokens.shape[1]])
        return self.lm_head(x)


QKV = ("W_Q", "W_K", "W_V")


def lens(layers: int, start: dict[str, Tensor]) -> nn.Module:
    """TransformerLens' model of the same shape, with the same weights; what it has beyond them is fixed."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = HookedTransformerConfig(
        n_layers=layers, n_heads=N_HEADS, d_model=D_MODEL, d_head=D_HEAD, d_vocab=D_VOCAB,
        n_ctx=LENGTH, attn_only=True, normalization_type=None,
        positional_embedding_type="shortformer", device="cpu", seed=0,
    )  # fmt: skip
    model = HookedTransformer(config)
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name in ("embed.W_E", "pos_embed.W_pos", "unembed.W_U"):
            named[name].copy_(start[name.partition(".")[2]])
        for layer in range(layers):
            for name in (*QKV, "W_O"):
                named[f"blocks.{layer}.attn.{name}"].copy_(start[name][layer])
    for name, parameter in named.items():
        parameter.requires_grad_(".W_" in name and name != "pos_embed.W_pos")
    return model


def train(model: nn.Module, seed: int, steps: int) -> dict[str, Any]:
    """→ the loss on predictable tokens and the seconds since the start, both after each step."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=PEAK, betas=(0.9, 0.98), weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    losses, times = [], []
    started = time.perf_counter()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = PEAK * min(1.0, (step + 1) / WARM_UP)
        tokens, known = rows_of(BATCH, generator)
        loss = F.cross_entropy(model(tokens)[:, :-1][known], tokens[:, 1:][known])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - started)
    return {"losses": losses, "times": times}


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    """Share of the predictable tokens of fresh rows that the first choice gets right."""
    tokens, known = rows_of(256, torch.Generator().manual_seed(1))
    return float((model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:])[known].float().mean())


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what the packages print is no answer
    torch.set_num_threads(1)  # as ours trains; with more they are slower, too
    make = {"lens": lens, "plain": Plain}[sys.argv[1]]
    for line in sys.stdin:
        job = json.loads(line)
        start = torch.load(job["start"], weights_only=True)
        model = make(job["layers"], start)
        told = train(model, job["seed"], job["steps"])
        told |= {"accuracy": accuracy(model), "threads": torch.get_num_threads()}
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
