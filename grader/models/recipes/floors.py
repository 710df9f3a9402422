"""The least loss that a width allows on three short texts: what ``train_zero_layer`` is judged by.

    python -m grader.models.recipes.floors

There is no closed form for the best bigram table of rank d_model (truncated SVD answers another
question), so a floor is the lowest of four long runs from different seeds. An upper bound, then, but
the four agree to a few thousandths, and the exercise allows 0.05 nats above.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor

from grader.models.recipes.zero_layer import count_bigrams, entropy_of, fit_bigrams, table_loss
from grader.models.text import HERE, sample_text, tokenizer

SEEDS = (0, 1, 2, 3)
STEPS, RATE = 2000, 0.1


@dataclass(frozen=True)
class Case:
    """A stretch of held-out text as ``length`` ids, and the width to train."""

    name: str
    kind: str
    letters: bool  # single characters, else the small tokenizer
    d_model: int
    length: int = 50_000

    @property
    def d_vocab(self) -> int:
        return 96 if self.letters else tokenizer("small").d_vocab

    def tokens(self) -> Tensor:
        text = sample_text(self.kind)
        small = tokenizer("small")
        if not self.letters:
            return small.encode(text[: 6 * self.length])[: self.length]
        # The first 96 ids of the small tokenizer are the single characters.
        ids = {small.decode([i]): i for i in range(self.d_vocab)}
        return torch.tensor([ids[c] for c in text[: self.length]])


CASES = (
    Case("english-letters", "english", letters=True, d_model=8),
    Case("code-pieces", "code", letters=False, d_model=32),
    Case("docs-pieces", "docs", letters=False, d_model=64),
)


def floor_of(case: Case) -> dict[str, Any]:
    counts = count_bigrams(case.tokens(), case.d_vocab)
    runs = [fit_bigrams(counts, case.d_model, seed=s, steps=STEPS, lr=RATE) for s in SEEDS]
    reached = [round(table_loss(*run, counts), 5) for run in runs]
    return asdict(case) | {
        "d_vocab": case.d_vocab,
        "floor": min(reached),
        "runs": reached,
        "bigram_entropy": round(entropy_of(counts), 5),
        "how": f"lowest of {len(SEEDS)} runs of {STEPS} full-batch Adam steps, rate {RATE} to 0",
    }


def build(out: Path = HERE) -> list[dict[str, Any]]:
    """Write ``floors.json`` and, as uint16 ids, ``floors.safetensors``."""
    save_file(
        {c.name: c.tokens().numpy().astype(np.uint16) for c in CASES}, out / "floors.safetensors"
    )
    described = [floor_of(case) for case in CASES]
    (out / "floors.json").write_text(json.dumps(described, indent=1) + "\n")
    return described


if __name__ == "__main__":
    print(json.dumps(build(), indent=1))
