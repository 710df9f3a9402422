"""Muon for a stack of heads: every head's matrix moves by an orthogonal step of its own.

Torch has a Muon, but for single matrices and in bfloat16, which is slow on a CPU without bfloat16 units.
Here the heads are one batch of thin float32 matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_QUINTIC = (3.4445, -4.7750, 2.0315)  # the usual coefficients: fast near 0, within ±0.3 of 1


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """(..., n, m) → the same singular vectors with all singular values near 1.

    Newton–Schulz: with X = U S V^T, the polynomial a X + b (X X^T) X + c (X X^T)^2 X keeps U and V and
    maps each singular value s to a s + b s^3 + c s^5, which draws (0, 1] towards 1.
    """
    a, b, c = _QUINTIC
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class HeadMuon(torch.optim.Optimizer):
    """Momentum, then an orthogonal step for each matrix in the last two axes of every parameter."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                buffer = state.setdefault("momentum", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).add_(p.grad)
                ahead = p.grad + group["momentum"] * buffer
                p.add_(orthogonalised(ahead), alpha=-group["lr"])


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Numbers below 1e-38 count as 0 inside: softmax makes many, and they slow a CPU several times."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Of a model as small as the live one, threads have too little to do: on a busy machine two wait for
    each other three times as long as one computes, and only the first flushes its denormals.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
