"""A model of one or two layers as a sum over paths, of which any may be left out.

The patterns are those of the clean run throughout, so each path's share of the last stream is fixed:
leaving paths out is leaving terms out of a sum. All of them together are the model's forward pass, up
to rounding; `Paths.gap` is that rounding, measured.

Paper: "Path Expansion of Logits", "Term Importance Analysis".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from grader.circuits.induction_heads import loss_by_position
from grader.circuits.path_importance import direct_logit_attribution
from grader.circuits.paths import Path, path_terms
from grader.transformer import Transformer

_ROUNDING = 1e-5  # of the largest logit: some hundred units of float32's last place


@dataclass(frozen=True, eq=False)
class Paths:
    """Every path of one text: values[i], (pos, d_model), is what paths[i] adds to the last stream.

    tokens (pos,); logits (pos, d_vocab), those of an ordinary forward pass
    """

    tokens: Tensor
    paths: list[Path]
    values: Tensor
    logits: Tensor
    W_U: Tensor

    @cached_property
    def gap(self) -> float:
        """The largest difference between the sum of all paths and the forward pass, in logits."""
        return float((self.values.sum(dim=0) @ self.W_U - self.logits).abs().max())

    @property
    def exact(self) -> bool:
        """Is that difference rounding, for logits of this size?"""
        return self.gap <= _ROUNDING * max(1.0, float(self.logits.abs().max()))

    def sum(self, on: Tensor) -> Tensor:
        """The logits that the paths with ``on``, (path,) bool, add up to: (pos, d_vocab)."""
        return self.values[on].sum(dim=0) @ self.W_U

    def losses(self, on: Tensor) -> Tensor:
        """Their loss on each token but the first, in nats: (pos − 1,). No path: a uniform guess."""
        return loss_by_position(self.sum(on), self.tokens)

    def loss(self, on: Tensor) -> float:
        """Their mean loss, in nats."""
        return float(self.losses(on).mean())

    def chosen(self, which: Callable[[Path], bool]) -> Tensor:
        """(path,) bool: the paths of which ``which`` is true."""
        return torch.tensor([which(path) for path in self.paths])

    def levels(self) -> dict[str, float]:
        """Mean losses to compare with: no path, the direct one, those of one head, all."""
        kept = {
            "no path: a uniform guess": self.chosen(lambda path: False),
            "the direct path": self.chosen(lambda path: not path),
        }
        if any(len(path) > 1 for path in self.paths):
            kept["direct and single heads"] = self.chosen(lambda path: len(path) < 2)
        kept["all paths: the model"] = self.chosen(lambda path: True)
        return {name: self.loss(on) for name, on in kept.items()}

    def target(self, position: int) -> int:
        """The token that should come after ``position``; after the last, the model's best guess."""
        if position < len(self.tokens) - 1:
            return int(self.tokens[position + 1])
        return int(self.logits[position].argmax())

    def shares(self, position: int) -> Tensor:
        """(path,): what each path adds at ``position`` to the logit of its `target`.

        Less its mean over the vocabulary, as in `direct_logit_attribution`.
        """
        pair = torch.tensor([int(self.tokens[position]), self.target(position)])
        here = self.values[:, position : position + 1].expand(-1, 2, -1)
        return direct_logit_attribution(here, self.W_U, pair)[:, 0]


@torch.no_grad()
def read_paths(model: Transformer, tokens: Tensor) -> Paths:
    """All paths of a model on tokens (pos,), the direct one first, patterns of the clean run."""
    terms = path_terms(tokens, model)
    return Paths(
        tokens=tokens,
        paths=[path for order in terms for path in order.paths],
        values=torch.cat([order.values for order in terms]),
        logits=model(tokens),
        W_U=model.W_U,
    )


def path_name(path: Path) -> str:
    """``direct``, ``0.3``, or ``0.3→1.2``: the heads on the way, the earlier first."""
    return "→".join(f"{layer}.{head}" for layer, head in path) or "direct"
