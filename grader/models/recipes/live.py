"""Training that happens in front of a learner, in seconds: notebooks 01 and 05.

Both report through ``progress(step, steps, loss)`` after every step; drawing is somebody else's work.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.models.recipes.network import Network, sinusoids
from grader.models.recipes.optimiser import denormals_flushed, one_thread
from grader.models.recipes.zero_layer import count_bigrams, fit_bigrams
from grader.transformer import Transformer

Progress = Callable[[int, int, float], None]

D_VOCAB, LENGTH, PERIODS = 64, 49, (8, 24)
_EVERY = 20  # steps between two snapshots


def train_zero_layer(
    tokens: Tensor,
    d_vocab: int,
    d_model: int,
    seed: int,
    *,
    steps: int = 400,
    progress: Progress | None = None,
) -> tuple[Tensor, Tensor]:
    """tokens (pos,) → W_E (d_vocab, d_model), W_U (d_model, d_vocab) of the best bigram table.

    Ends within 0.05 nats of the least loss this width allows on this text, in about 5 s at
    d_vocab 512. Paper: "Zero-Layer Transformers".
    """
    if d_vocab > 4096:
        raise ValueError(
            f"The whole table is trained at once: d_vocab at most 4096; {d_vocab} came."
        )
    counts = count_bigrams(tokens, d_vocab)
    return fit_bigrams(counts, d_model, seed=seed, steps=steps, progress=progress)


def induction_rows(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows 0, r, r, …, r and the period of each: tokens (rows, 49) and periods (rows,).

    r is P distinct ids of 1 … 63, P uniform in 8 … 24 row by row: were P the same for all rows, one
    layer could learn "look back P tokens" by position and there would be no change to see.
    """
    periods = torch.randint(PERIODS[0], PERIODS[1] + 1, (rows,), generator=generator)
    distinct = [torch.randperm(D_VOCAB - 1, generator=generator) for _ in range(rows)]
    once = torch.arange(LENGTH - 1) % periods[:, None]
    tokens = torch.zeros(rows, LENGTH, dtype=torch.int64)
    tokens[:, 1:] = 1 + torch.stack(distinct).gather(1, once)
    return tokens, periods


def predictable(periods: Tensor) -> Tensor:
    """(rows, 48): which predictions can be made from what came before.

    Entry i predicts token i + 1. The second copy of r starts at token P + 1, and nothing says that
    it will; from the prediction of token P + 2 on, the token before has been seen with its successor.
    """
    return torch.arange(1, LENGTH) >= periods[:, None] + 2


@one_thread()
@denormals_flushed()
def train_induction(
    seed: int,
    n_layers: int,
    *,
    steps: int = 400,
    progress: Progress | None = None,
    snapshot: Callable[[int, Transformer], None] | None = None,
) -> tuple[Transformer, list[float]]:
    """Train on repeated random tokens → the model and its loss on predictable tokens, one a step.

    snapshot: called with the step and the model, at the beginning, every 20 steps, at the end

    Two layers fall from 3 nats to near 0 in a few dozen steps when induction heads form; one layer
    stays near 3. Paper: "Induction heads"; the sudden change is the subject of "In-context Learning
    and Induction Heads".
    """
    generator = torch.Generator().manual_seed(seed)
    net = Network(
        n_layers=n_layers, n_heads=2, d_model=64, d_head=32, d_vocab=D_VOCAB, seed=seed,
        W_pos=sinusoids(LENGTH, 64, amplitude=2.0),
    )  # fmt: skip
    adam = torch.optim.AdamW(
        net.parameters(), lr=0.005, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    losses: list[float] = []
    for step in range(steps):
        if snapshot and step % _EVERY == 0:
            snapshot(step, net.to_transformer())
        for group in adam.param_groups:
            group["lr"] = 0.005 * min(1.0, (step + 1) / 50)
        tokens, periods = induction_rows(32, generator)
        chosen = predictable(periods)
        loss = F.cross_entropy(net(tokens)[:, :-1][chosen], tokens[:, 1:][chosen])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
        if progress:
            progress(step + 1, steps, losses[-1])
    model = net.to_transformer()
    if snapshot:
        snapshot(steps, model)
    return model, losses


@torch.no_grad()
def induction_accuracy(model: Transformer, rows: int = 256, seed: int = 1) -> float:
    """Share of predictable tokens of fresh rows that the model's first choice gets right."""
    tokens, periods = induction_rows(rows, torch.Generator().manual_seed(seed))
    chosen = predictable(periods)
    return float((model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:])[chosen].float().mean())
