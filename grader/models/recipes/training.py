"""The loop that every text model is trained with: stages, checkpoints, a log, and resuming.

A killed run goes on from its last checkpoint and ends in the same weights: batches depend on
(seed, step) only, and the optimisers' state is stored. "The same" holds for one machine, one version of
torch and one number of threads; torch promises no more.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from grader.models.recipes.data import repeat_rows, step_generator, text_rows
from grader.models.recipes.measure import watch
from grader.models.recipes.network import Network, sinusoids
from grader.models.recipes.optimiser import HeadMuon, denormals_flushed
from grader.transformer import Transformer

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Stage:
    """Some steps of one kind. ``repeats`` is the share of rows that are repeated random tokens.

    The learning rate is level until ``decay_from`` (a share of the stage), then falls to ``end``.
    """

    steps: int
    batch: int
    length: int
    muon_lr: float
    adam_lr: float
    repeats: float = 0.0
    periods: tuple[int, int] = (16, 48)
    decay_from: float = 0.4
    end: float = 0.0
    warm_up: int = 50

    def scale(self, step: int) -> float:
        done = step / self.steps
        fall = (1 - done) / (1 - self.decay_from) if done > self.decay_from else 1.0
        return min(1.0, (step + 1) / self.warm_up) * (self.end + (1 - self.end) * fall)


@dataclass(frozen=True)
class Recipe:
    """All that makes a model; ``about`` goes onto its card."""

    name: str
    about: str
    n_layers: int
    n_heads: int
    stages: tuple[Stage, ...]
    d_model: int = 128
    d_head: int = 32
    d_vocab: int = 2048
    n_ctx: int = 256
    position_amplitude: float = 1.0
    seed: int = 0
    tokens_per_second: int = 12_000  # one core of 2.5 GHz, for the estimate

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    @property
    def tokens(self) -> int:
        return sum(stage.steps * stage.batch * stage.length for stage in self.stages)

    def stage_at(self, step: int) -> tuple[Stage, int]:
        for stage in self.stages:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        raise ValueError("The recipe has no such step.")


class Run:
    """One training run in a folder: ``recipe.json``, ``state.pt``, ``log.jsonl``, ``snapshots/``."""

    def __init__(self, recipe: Recipe, folder: Path, corpus: dict[str, Tensor]) -> None:
        self.recipe, self.folder, self.corpus = recipe, folder, corpus
        self.step = 0
        self.net = Network(
            n_layers=recipe.n_layers, n_heads=recipe.n_heads, d_model=recipe.d_model,
            d_head=recipe.d_head, d_vocab=recipe.d_vocab, seed=recipe.seed,
            W_pos=sinusoids(recipe.n_ctx, recipe.d_model, recipe.position_amplitude),
        )  # fmt: skip
        net = self.net
        self.muon = HeadMuon([net.W_Q, net.W_K, net.W_V, net.W_O], lr=0.0)
        self.adam = torch.optim.AdamW(
            [net.W_E, net.W_U], lr=0.0, betas=(0.9, 0.98), weight_decay=0.0, fused=True
        )

    @property
    def _fingerprint(self) -> str:
        return repr(replace(self.recipe, about=""))

    @property
    def _state(self) -> Path:
        return self.folder / "state.pt"

    def resume(self) -> None:
        """Go on from the last checkpoint, if the folder has one."""
        if not self._state.is_file():
            return
        state = torch.load(self._state, weights_only=True)
        if state["recipe"] != self._fingerprint:
            raise ValueError(
                f"{self.folder} holds a run of another recipe. Give another folder, or start anew "
                "with resume=False."
            )
        self.net.load_state_dict(state["net"])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.step = state["step"]

    def checkpoint(self) -> None:
        """Written beside the old one and renamed: killed at any moment, one of the two is whole."""
        state = {
            "recipe": self._fingerprint, "step": self.step, "net": self.net.state_dict(),
            "muon": self.muon.state_dict(), "adam": self.adam.state_dict(),
        }  # fmt: skip
        part = self._state.with_suffix(".part")
        torch.save(state, part)
        os.replace(part, self._state)

    def rows(self, stage: Stage) -> tuple[Tensor, Tensor]:
        """The batch of this step and which of its tokens count in the loss, both (batch, length)."""
        generator = step_generator(self.recipe.seed, self.step)
        noisy = int(torch.rand(stage.batch, generator=generator).lt(stage.repeats).sum())
        tokens = torch.empty(stage.batch, stage.length, dtype=torch.int64)
        counts = torch.ones(stage.batch, stage.length, dtype=torch.bool)
        if noisy:
            tokens[:noisy], counts[:noisy] = repeat_rows(
                self.recipe.d_vocab, noisy, stage.length, stage.periods, generator
            )
        if noisy < stage.batch:
            tokens[noisy:] = text_rows(self.corpus, stage.batch - noisy, stage.length, generator)
        return tokens, counts

    def take_step(self) -> float:
        stage, within = self.recipe.stage_at(self.step)
        scale = stage.scale(within)
        for optimiser, rate in ((self.muon, stage.muon_lr), (self.adam, stage.adam_lr)):
            for group in optimiser.param_groups:
                group["lr"] = rate * scale
            optimiser.zero_grad()
        loss = self.net.loss(*self.rows(stage))
        loss.backward()
        self.muon.step()
        self.adam.step()
        self.step += 1
        return float(loss.detach())

    def note(self, loss: float | None, seconds: float) -> None:
        """Add one line to the log: step, tokens so far, and all that ``watch`` sees."""
        entry = {"step": self.step, "loss": loss, "seconds": round(seconds, 1)}
        entry |= watch(self.net.to_transformer())
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")

    def snapshot(self) -> None:
        folder = self.folder / "snapshots"
        folder.mkdir(exist_ok=True)
        self.net.to_transformer().to(torch.float16).save(folder / f"{self.step:06d}.safetensors")


@denormals_flushed()
def run(
    recipe: Recipe,
    folder: Path,
    corpus: dict[str, Tensor],
    *,
    resume: bool = True,
    progress: Progress | None = None,
    every: int = 200,
    snapshots: tuple[int, ...] = (),
) -> Transformer:
    """Train to the end of the recipe, or on from where a killed run stopped.

    ``progress(step, steps, loss)`` is called after every step. Logs and checkpoints come every
    ``every`` steps; a snapshot (float16) at each step in ``snapshots`` and at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    training = Run(recipe, folder, corpus)
    if resume:
        training.resume()
    started, smooth = time.monotonic(), None
    if training.step == 0:
        (folder / "log.jsonl").unlink(missing_ok=True)
        (folder / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1) + "\n")
        training.note(None, 0.0)
        if 0 in snapshots:
            training.snapshot()
    while training.step < recipe.steps:
        loss = training.take_step()
        smooth = loss if smooth is None else 0.98 * smooth + 0.02 * loss
        if progress:
            progress(training.step, recipe.steps, smooth)
        if training.step in snapshots or training.step == recipe.steps:
            training.snapshot()
        if training.step % every == 0 or training.step == recipe.steps:
            training.note(smooth, time.monotonic() - started)
            training.checkpoint()
    return training.net.to_transformer()
