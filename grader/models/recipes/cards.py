"""Model cards: written from a finished run and its weights, so that no figure is ever typed in.

    python -m grader.models.recipes.cards RUNS CORPUS

``RUNS`` holds one folder a run (``training.run`` writes them) and ``shipped.json``, which says which run
becomes which model and which others were tried; models it does not name stay as they are. Weights are stored as float16 and the figures are
computed from what was stored.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch

from grader.models import report
from grader.models.recipes import catalogue, skip_trigrams
from grader.models.recipes.data import MIX, load_corpus
from grader.models.recipes.zero_layer import entropy_of, fit_bigrams, table_loss
from grader.models.shelf import CHECKPOINTS, WEIGHTS, bigram_counts
from grader.models.text import KINDS
from grader.transformer import Transformer

ORDER = ("zero-layer", "one-layer", "two-layer", "two-layer-curriculum", CHECKPOINTS)


def store(model: Transformer, file: str) -> tuple[Transformer, str]:
    """Write half-precision weights → what a reader will get back, and the file's checksum."""
    path = WEIGHTS / file
    path.parent.mkdir(parents=True, exist_ok=True)
    model.to(torch.float16).save(path)
    path.chmod(0o644)  # a temporary file's rights are its maker's alone; a package is for everybody
    return Transformer.load(path), hashlib.sha256(path.read_bytes()).hexdigest()


def read_log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def outcome(log: list[dict[str, Any]]) -> dict[str, Any]:
    """The last line of a log in a few figures: for runs that were tried and not shipped."""
    last = log[-1]
    return {
        "steps": last["step"],
        "loss": {kind: round(last[kind], 3) for kind in KINDS},
        "second_copy_gain": round(last["code_first"] - last["code_second"], 3),
        "prefix_matching_code": max(last["prefix_matching_code"][1]),
        "prefix_matching_random": max(last["prefix_matching_random"][1]),
        "previous_token": max(last["previous_token"][0]),
        "largest_first_position": max(max(row) for entry in log for row in entry["first_position"]),
    }


def write_card(name: str, files: dict[str, str], fields: dict[str, Any]) -> None:
    card = {"name": name, "order": ORDER.index(name), "files": files, **fields}
    (WEIGHTS / f"{name}.json").write_text(json.dumps(_rounded(card), indent=1) + "\n")


def zero_layer_card(folder: Path) -> None:
    model = catalogue.train("zero-layer", out=folder)
    kept, checksum = store(model, "zero-layer.safetensors")
    counts = bigram_counts()
    floor = entropy_of(counts)
    gaps = {}
    for width in catalogue.ZERO_LAYER_WIDTHS:
        fitted = fit_bigrams(counts, width, steps=300)
        gaps[str(width)] = table_loss(*fitted, counts) - floor
    about = {
        "about": "The best bigram table of its width, trained on the counts of the whole training text.",
        "data": {"counts": "bigrams.npz", "pairs": int(counts.sum())},
        "recipe": catalogue.ZERO_LAYER,
        "seed": catalogue.ZERO_LAYER["seed"],
        "gap_by_d_model": gaps,
        "gap_by_d_model_steps": 300,
    }
    figures = {"figures": report.figures_of("zero-layer", kept)}
    write_card(
        "zero-layer", {"zero-layer.safetensors": checksum}, about | report.losses(kept) | figures
    )


def text_card(name: str, folder: Path, tried: dict[str, Path]) -> None:
    """``tried``: other runs by a short description, their outcomes go onto the card."""
    recipe = json.loads((folder / "recipe.json").read_text())
    log = read_log(folder)
    last = folder / "snapshots" / f"{log[-1]['step']:06d}.safetensors"
    kept, checksum = store(Transformer.load(last), f"{name}.safetensors")
    fields = {
        "about": recipe["about"],
        "data": {"mix": MIX, "held_out": "whole documents, 4 %"},
        "recipe": recipe,
        "seed": recipe["seed"],
        "training_steps": log[-1]["step"],
        "training_tokens": sum(s["steps"] * s["batch"] * s["length"] for s in recipe["stages"]),
        **report.losses(kept),
        "figures": report.figures_of(name, kept),
        "others_tried": {what: outcome(read_log(path)) for what, path in tried.items()},
        "log": log,
    }
    write_card(name, {f"{name}.safetensors": checksum}, fields)


def checkpoints_card(folders: dict[str, Path]) -> None:
    """``folders``: the run of each model that has checkpoints."""
    for stale in (WEIGHTS / CHECKPOINTS).glob("*.safetensors"):
        stale.unlink()
    files: dict[str, str] = {}
    runs: dict[str, Any] = {}
    for of, folder in folders.items():
        steps = catalogue.CHECKPOINT_STEPS[of]
        models = []
        for step in steps:
            file = f"{CHECKPOINTS}/{of}-{step:06d}.safetensors"
            snapshot = folder / "snapshots" / f"{step:06d}.safetensors"
            kept, files[file] = store(Transformer.load(snapshot), file)
            models.append((step, kept))
        runs[of] = {
            "steps": steps,
            "files": [f"{CHECKPOINTS}/{of}-{step:06d}.safetensors" for step in steps],
            "change": [{"step": step} | seen for step, seen in report.change(models)],
        }
    about = "Snapshots through the change in which induction heads form, from the runs that made "
    write_card(CHECKPOINTS, files, {"about": about + " and ".join(folders) + ".", "runs": runs})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def main(runs: Path, corpus: Path) -> None:
    """``shipped.json``: {model: {"run": folder, "tried": {text: folder}}}; zero-layer: true."""
    shipped = json.loads((runs / "shipped.json").read_text())
    if shipped.pop("zero-layer", None):
        zero_layer_card(runs / "zero-layer")
    for name, plan in shipped.items():
        tried = {what: runs / folder for what, folder in plan.get("tried", {}).items()}
        text_card(name, runs / plan["run"], tried)
    if shipped.keys() >= catalogue.CHECKPOINT_STEPS.keys():
        checkpoints_card({of: runs / shipped[of]["run"] for of in catalogue.CHECKPOINT_STEPS})
    if "one-layer" in shipped:
        one_layer = Transformer.load(WEIGHTS / "one-layer.safetensors")
        skip_trigrams.search(one_layer, load_corpus(corpus))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
