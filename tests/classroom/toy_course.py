"""A toy course: one notebook's source and the two exercises declared for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

TOY = '''# %% [markdown]
# # A toy notebook
# See [the paper](https://transformer-circuits.pub/2021/framework/index.html).

# %%
import torch

from grader import check

# %% [markdown]
# Scores are divided once. Positions do not enter here.

# %% answer
def scaled_scores(q, k):
    """q (dst, d_head), k (src, d_head) → (dst, src), divided by sqrt(d_head)."""
    ### BEGIN SOLUTION
    scores = q @ k.T
    return scores / q.shape[-1] ** 0.5
    ### END SOLUTION

# %% check
check(scaled_scores)

# %% demo
print("a demonstration")

# %% [markdown]
# Two heads add. The order does not matter.

# %% answer
def head_sum(outputs):
    """outputs (head, pos, d_model) → (pos, d_model)."""
    ### BEGIN SOLUTION
    return outputs.sum(dim=0)
    ### END SOLUTION

# %% check
check(head_sum)
'''


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


def head_sum(outputs: Tensor) -> Tensor:
    return torch.einsum("hpm->pm", outputs)


def score_cases(draw: Draw) -> Iterator[Case]:
    for _ in range(3):
        dst, src, d_head = draw.sizes(3)
        yield Case((draw.normal(dst, d_head), draw.normal(src, d_head)))
    yield Case((draw.normal(1, 3), draw.normal(2, 3)), label="with one destination")


def sum_cases(draw: Draw) -> Iterator[Case]:
    yield Case((draw.normal(*draw.sizes(3)),))
    yield Case((draw.normal(1, 4, 3),), label="with a single head")


SCALED_SCORES = Exercise(
    reference=scaled_scores,
    notebook="00-toy",
    title="Where to look",
    paper="Attention Heads are Independent and Additive",
    points=2,
    minutes=5,
    difficulty=1,
    cases=score_cases,
    compare=Comparator(),
    hints=("What does a dot product of two rows give?", "Which size sets the scale?"),
    mistakes=(
        Mistake("no_scale", lambda q, k: q @ k.mT, "Something is not divided.", facts=(17,)),
        Mistake(
            "d_model_scale",
            lambda q, k: q @ k.mT / q.shape[-1],
            "Look at the root.",
            facts=(18, 19),
        ),
    ),
    variants=(
        Variant("einsum", lambda q, k: torch.einsum("qd,kd->qk", q / q.shape[-1] ** 0.5, k)),
    ),
)
HEAD_SUM = Exercise(
    reference=head_sum,
    notebook="00-toy",
    title="Heads add",
    paper="Attention Heads are Independent and Additive",
    points=1,
    minutes=2,
    difficulty=1,
    cases=sum_cases,
    compare=Comparator(),
    hints=("Which axis runs over heads?", "Nothing is averaged."),
    mistakes=(Mistake("mean", lambda outputs: outputs.mean(0), "Averaging shrinks.", facts=(41,)),),
)


@dataclasses.dataclass
class ToyCourse:
    """A checkout with one source, and the exercises declared for it."""

    root: Path
    declare: Callable[..., None]

    @property
    def source(self) -> Path:
        return self.root / "solutions/00-toy.py"

    def edit(self, old: str, new: str) -> None:
        text = self.source.read_text(encoding="utf-8")
        assert text.count(old) >= 1, f"{old!r} is not in the source"
        self.source.write_text(text.replace(old, new, 1), encoding="utf-8")
