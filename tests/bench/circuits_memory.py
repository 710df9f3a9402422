"""How much memory a function of ours takes beyond its inputs: run as a program, it prints MiB.

``python -m tests.bench.circuits_memory copying_score`` or ``largest_ov``, at GPT-2's vocabulary and
widths, one head. A process of its own, since a peak can't be told apart from an earlier higher one; the
kernel's own count (Linux), since getrusage's also counts the parent that started it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from grader.circuits.low_rank import LowRank
from grader.circuits.one_layer import copying_score

D_VOCAB, D_MODEL, D_HEAD = 50_257, 768, 64


def largest_ov(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> object:
    return LowRank(W_E @ W_V, W_O @ W_U).largest(100)


CALLS: dict[str, Callable[..., object]] = {"copying_score": copying_score, "largest_ov": largest_ov}


def mebibytes(name: str) -> float:
    """The peak of one call above its inputs, measured in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.circuits_memory", name]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return float(done.stdout)


@torch.inference_mode()
def main(name: str) -> None:
    call = CALLS[name]
    call(*weights(d_vocab=128))  # what libraries take once is no part of it
    inputs = weights(D_VOCAB)
    before = kibibytes("VmRSS")
    call(*inputs)
    print((kibibytes("VmHWM") - before) / 1024)


def weights(d_vocab: int) -> list[Tensor]:
    """W_E, W_V, W_O, W_U of one head, filled where they lie: drawing takes no memory beside them."""
    shapes = (d_vocab, D_MODEL), (D_MODEL, D_HEAD), (D_HEAD, D_MODEL), (D_MODEL, d_vocab)
    generator = torch.Generator().manual_seed(0)
    return [torch.empty(shape).normal_(generator=generator) for shape in shapes]


def kibibytes(field: str) -> float:
    """A line of this process's status: VmRSS what it holds now, VmHWM the most it ever held."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return float(next(line for line in lines if line.startswith(field + ":")).split()[1])


if __name__ == "__main__":
    main(sys.argv[1])
