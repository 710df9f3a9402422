"""The training that notebook 05 shows live, against plain loops for the same task.

All start from the same weights, see the same rows and take the same optimiser's steps, each in a warm
process of its own with as many threads; their first losses must agree. A run has *reached* the phase
change by what notebook 05 asks of one: `phase_change_step` gives its losses a step, and in the end the
model is right on 95 in 100 known tokens of fresh rows.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from grader.circuits.induction_heads import phase_change_step
from grader.models.recipes.live import train_induction
from tests.bench import kernels, peers
from tests.bench.rows import Row

SEEDS = range(10)
ONE_LAYER_SEEDS = range(3)
STEPS = 400
COMPARED = 240  # steps, where the change is what matters: the last seeds are through it by then
TOKENS = 32 * 49  # a step
PATIENCE = 60.0  # seconds until the change, at most
PEERS = {"plain": "a plain nanoGPT-style loop", "lens": "a plain TransformerLens loop"}
OURS = '''
import json, time, torch
from grader.lab import live
from grader.models.recipes import live as recipe

def bench(seed, layers, steps, shown):
    """As the cell of notebook 05 with its picture, or without."""
    watch = live.phase(levels={"63 tokens alike": 4.143})
    times, threads, started = [], set(), time.perf_counter()
    def progress(*told):
        threads.add(torch.get_num_threads())
        if shown:
            watch(*told)
        times.append(time.perf_counter() - started)
    keep = watch.keep if shown else None
    model, losses = recipe.train_induction(
        seed, layers, steps=steps, progress=progress, snapshot=keep
    )
    print(json.dumps({
        "losses": losses, "times": times, "accuracy": recipe.induction_accuracy(model),
        "threads": max(threads),
    }))
'''


@dataclass(frozen=True)
class Run:
    """A training: the loss on known tokens and the seconds since the start, both after each step."""

    losses: Sequence[float]
    times: Sequence[float]
    accuracy: float
    threads: int

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return TOKENS * len(self.times) / self.times[-1]

    @property
    def until_change(self) -> float | None:
        """Seconds to the phase change; None where it wasn't reached."""
        step = phase_change_step(self.losses)
        return self.times[step] if step >= 0 and self.accuracy >= 0.95 else None


Contestant = Callable[[int, int], Run]
"""Trains two layers from a seed for so many steps."""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name, kernels.kernel(Path(name)) as client:
        kernels.run(client, OURS)

        def ours(seed: int, steps: int, *, layers: int = 2, shown: bool = False) -> Run:
            told = kernels.run(client, f"bench({seed}, {layers}, {steps}, {shown})")
            return Run(**json.loads(told))

        runs = compared(ours, Path(name))
        whole = ours(SEEDS[0], STEPS, shown=True)
        lives = [whole, *(ours(seed, COMPARED, shown=True) for seed in SEEDS[1:])]
        singles = [ours(seed, STEPS, layers=1) for seed in ONE_LAYER_SEEDS]
    yield from live_rows(lives, singles)
    for peer, package in PEERS.items():
        yield from peer_rows(runs["ours"], runs[peer], package)


def live_rows(lives: Sequence[Run], singles: Sequence[Run]) -> Iterator[Row]:
    """The bars: how soon the change comes before a learner's eyes, and that it needs two layers."""
    reached = changes(lives)
    if reached:
        yield Row(
            "live training in notebook 05, seconds to the phase change", tuple(reached), "s",
            at_most=PATIENCE, note=f"its picture drawn in a kernel; threads: {lives[0].threads}",
        )  # fmt: skip
    soon = sum(seconds <= PATIENCE for seconds in reached)
    yield Row(
        f"seeds of {len(lives)} that reach it within {PATIENCE:.0f} s", (soon,), "seeds",
        at_least=0.9 * len(lives), note="dated by phase_change_step, and right on 95 in 100",
    )  # fmt: skip
    yield Row(
        f"seeds of {len(singles)} that reach it with one layer", (len(changes(singles)),), "seeds",
        at_most=0, note="in as many steps",
    )  # fmt: skip
    yield Row(f"live training in notebook 05, all {STEPS} steps", (lives[0].times[-1],), "s")


def peer_rows(ours: Sequence[Run], theirs: Sequence[Run], package: str) -> Iterator[Row]:
    """The same training without its picture, beside a peer's."""
    yield Row(
        "training of notebook 05 without its picture",
        tuple(run.speed for run in ours), "tokens/s",
        package, tuple(run.speed for run in theirs), more_is_better=True,
    )  # fmt: skip
    mine, others = changes(ours), changes(theirs)
    if mine and others:
        yield Row(
            "the same, seconds to the phase change", tuple(mine), "s", package, tuple(others),
            note=f"reached by {len(mine)} and {len(others)} of {len(ours)} seeds",
        )  # fmt: skip


def changes(runs: Sequence[Run]) -> list[float]:
    """Seconds to the phase change of those that reached it."""
    return [seconds for run in runs if (seconds := run.until_change) is not None]


def compared(ours: Contestant, folder: Path) -> dict[str, list[Run]]:
    """All seeds, contestants in turns, after a short run each whose losses must agree."""
    with contextlib.ExitStack() as stack:
        contestants = {"ours": ours}
        for peer in PEERS:
            contestants[peer] = stack.enter_context(worker(peer, folder))
        agree({name: train(0, 10) for name, train in contestants.items()})
        runs: dict[str, list[Run]] = {name: [] for name in contestants}
        for seed in SEEDS:
            for name, train in contestants.items():
                runs[name].append(train(seed, COMPARED))
    return runs


def agree(runs: dict[str, Run]) -> None:
    """Raises AssertionError unless all had the same losses, and as many threads."""
    ours = runs["ours"]
    for name, run in runs.items():
        apart = max(abs(a - b) for a, b in zip(ours.losses, run.losses, strict=True))
        assert apart <= 1e-3, f"{name} trains something else: {run.losses} beside {ours.losses}"
        assert run.threads == ours.threads, f"{name} has {run.threads} threads, {ours.threads} we"


@contextlib.contextmanager
def worker(peer: str, folder: Path) -> Iterator[Contestant]:
    """A peer's process, which trains what it is asked to until the block ends."""
    script = Path(__file__).with_name("training_peer.py")
    start, log = folder / f"{peer}.pt", folder / f"{peer}.log"
    with (
        log.open("w") as complaints,
        subprocess.Popen(
            [str(peers.program()), str(script), peer], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=complaints, text=True, cwd=folder,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        questions, answers = process.stdin, process.stdout

        def train(seed: int, steps: int) -> Run:
            untrained, _ = train_induction(seed, 2, steps=0)
            torch.save(untrained.weights(), start)
            job = {"seed": seed, "layers": 2, "steps": steps, "start": str(start)}
            print(json.dumps(job), file=questions, flush=True)
            told = answers.readline()
            if not told:
                raise RuntimeError(f"{PEERS[peer]} ended: {log.read_text()[-2000:]}")
            return Run(**json.loads(told))

        try:
            yield train
        finally:
            process.kill()
