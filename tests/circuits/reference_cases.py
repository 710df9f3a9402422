"""What the tests of the reference circuits share: random inputs of every size, drawn by hypothesis.

A failing example prints the seed and the sizes it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from grader.transformer import Transformer

few = settings(deadline=None, max_examples=20)
sizes = st.integers(1, 6)
seeds = st.integers(0, 2**32 - 1)


@dataclass
class Draw:
    """A stream of random tensors that prints as its seed."""

    seed: int
    generator: torch.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def integers(self, below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=self.generator)

    def pattern(self, *shape: int) -> Tensor:
        """Causal patterns that came from no model: (..., pos, pos)."""
        weights = self.normal(*shape).exp().tril()
        return weights / weights.sum(dim=-1, keepdim=True)


draws = seeds.map(Draw)


@st.composite
def cases(
    draw: st.DrawFn,
    n_layers: st.SearchStrategy[int] = st.integers(0, 3),  # noqa: B008
    batched: bool = False,
) -> tuple[Transformer, Tensor]:
    """A random float64 model and tokens (pos,), or with up to two batch axes in front."""
    rng = draw(draws)
    model = Transformer.random(
        n_layers=draw(n_layers),
        n_heads=draw(st.integers(1, 3)),
        d_model=draw(sizes),
        d_head=draw(st.integers(1, 4)),
        d_vocab=draw(st.integers(2, 9)),
        n_ctx=6,
        generator=rng.generator,
        dtype=torch.float64,
        pos_in_stream=draw(st.booleans()),
    )
    batch = draw(st.lists(st.integers(1, 2), max_size=2)) if batched else []
    return model, rng.integers(model.d_vocab, *batch, draw(st.integers(2, 6)))


def close(actual: Tensor, expected: Tensor, within: float = 1e-9) -> None:
    """Equal shape, and equal values up to rounding in float64."""
    assert actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=within, atol=within, check_dtype=False)


def same_multiset(actual: Tensor, expected: Tensor, within: float) -> None:
    """Equal complex numbers along the last axis, in any order: the nearest are paired off."""
    assert actual.shape == expected.shape
    scale = 1 + float(expected.abs().max()) if expected.numel() else 1.0
    for ours, theirs in zip(
        actual.reshape(-1, actual.shape[-1]).tolist(),
        expected.reshape(-1, expected.shape[-1]).tolist(),
        strict=True,
    ):
        for value in sorted(ours, key=abs, reverse=True):
            nearest = min(theirs, key=lambda other: abs(other - value))
            assert abs(nearest - value) <= within * scale
            theirs.remove(nearest)


class Largest(TorchDispatchMode):
    """Watches every torch operation inside: ``numbers`` is the size of the largest result."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor) and value.untyped_storage().data_ptr() not in self._given(
                args
            ):
                self.numbers = max(self.numbers, value.numel())
        return result

    @staticmethod
    def _given(args: Any) -> set[int]:
        """Views of an argument are no new memory."""
        return {a.untyped_storage().data_ptr() for a in args if isinstance(a, Tensor)}
