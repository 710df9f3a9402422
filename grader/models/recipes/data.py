"""What a training step reads. A batch depends on the seed and the step alone, so a run can resume."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.numpy import load_file
from torch import Tensor

MIX = {"code": 0.45, "docs": 0.35, "jargon": 0.08, "web": 0.12}


def load_corpus(folder: Path) -> dict[str, Tensor]:
    """The training ids of each source; ``recipes/corpus.py`` writes them.

    Raises FileNotFoundError saying how to build the corpus.
    """
    path = folder / "corpus.safetensors"
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path}. Build the corpus first (two minutes): "
            f"python -m grader.models.recipes.corpus FOLDER_OF_DEBS {folder}"
        )
    return {s: torch.from_numpy(ids.astype("int32")) for s, ids in load_file(path).items()}


def step_generator(seed: int, step: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + step)


def text_rows(
    corpus: dict[str, Tensor], rows: int, length: int, generator: torch.Generator
) -> Tensor:
    """(rows, length) random crops; the source of each row is drawn by ``MIX``. No start token."""
    weights = torch.tensor([MIX[source] for source in corpus])
    chosen = torch.multinomial(weights, rows, replacement=True, generator=generator)
    sources = list(corpus.values())

    def crop(ids: Tensor) -> Tensor:
        start = int(torch.randint(len(ids) - length + 1, (1,), generator=generator))
        return ids[start : start + length]

    return torch.stack([crop(sources[int(i)]) for i in chosen]).long()


def repeat_rows(
    d_vocab: int, rows: int, length: int, periods: tuple[int, int], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(rows, length): r, r, r, … where r is P distinct random ids and P differs from row to row.

    The second result, of the same shape, says which tokens can be known from those before: all from
    the second of the second copy on. The rest is noise to a learner and left out of the loss. One
    period for all rows could be learned as a fixed distance, by position alone.
    """
    tokens = torch.empty(rows, length, dtype=torch.int64)
    drawn = torch.randint(periods[0], periods[1] + 1, (rows,), generator=generator)
    for row, period in zip(tokens, drawn.tolist(), strict=True):
        ids = torch.randperm(d_vocab, generator=generator)[:period]
        row[:] = ids.repeat(length // period + 1)[:length]
    return tokens, torch.arange(length) > drawn[:, None]
