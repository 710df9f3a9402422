"""Loading what is shipped: names, checksums, cards, size."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from grader.models import ReadableCard, card, checkpoints, load, names, shelf
from grader.models.recipes import catalogue

MODELS = ["zero-layer", "one-layer", "two-layer", "two-layer-curriculum", "two-layer-checkpoints"]


def test_names_come_simplest_first_and_each_has_a_recipe() -> None:
    assert names() == MODELS
    assert catalogue.recipe_names() == MODELS


@pytest.mark.parametrize("name", MODELS)
def test_every_model_loads_with_its_tokenizer_and_runs(name: str) -> None:
    model = load(name)
    assert model.n_layers == {"zero": 0, "one-": 1, "two-": 2}[name[:4]]
    assert model.W_E.dtype == torch.float32
    assert model.tokenizer.d_vocab == model.d_vocab == 2048
    logits = model(model.tokenizer.encode("def __init__(self"))
    assert torch.isfinite(logits).all()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'gpt-5'; there are zero-layer, one-layer, two-layer"):
        load("gpt-5")
    with pytest.raises(ValueError, match="two-layer-curriculum have"):
        checkpoints("one-layer")


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in shelf.WEIGHTS.glob("zero-layer.*"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path)
    return tmp_path / "zero-layer.safetensors"


def test_a_damaged_file_is_named(copied: Path) -> None:
    load("zero-layer")
    raw = bytearray(copied.read_bytes())
    raw[-1] ^= 1
    copied.write_bytes(raw)
    with pytest.raises(ValueError, match=r"zero-layer\.safetensors is damaged"):
        load("zero-layer")


def test_a_missing_file_is_named(copied: Path) -> None:
    copied.unlink()
    with pytest.raises(ValueError, match=r"zero-layer\.safetensors is missing"):
        load("zero-layer")


def test_all_weights_together_stay_small() -> None:
    files = list(shelf.WEIGHTS.rglob("*.safetensors"))
    assert sum(file.stat().st_size for file in files) <= 45_000_000
    described = [f for name in names() for f in card(name)["files"]]
    assert sorted(described) == sorted(str(f.relative_to(shelf.WEIGHTS)) for f in files)


def test_a_card_is_a_fresh_copy() -> None:
    card("one-layer")["figures"].clear()
    assert card("one-layer")["figures"]


@pytest.mark.parametrize("name", MODELS[1:4])
def test_cards_tell_how_a_model_was_made(name: str) -> None:
    described = card(name)
    assert described["training_tokens"] > 1e6
    assert described["recipe"]["seed"] == described["seed"]
    assert len(described["loss_by_position"]) == load(name).n_ctx - 1
    assert described["log"][0]["step"] == 0
    assert described["log"][-1]["step"] == described["training_steps"]


def test_checkpoints_lead_through_the_training() -> None:
    runs = card(shelf.CHECKPOINTS)["runs"]
    assert sum(len(run["steps"]) for run in runs.values()) <= 24
    for of, run in runs.items():
        found = checkpoints(of)
        assert [step for step, _ in found] == run["steps"] == sorted(run["steps"])
        assert not torch.equal(found[0][1].W_E, found[-1][1].W_E)


@pytest.mark.parametrize("name", MODELS)
def test_a_card_reads_as_text_and_as_a_table(name: str) -> None:
    readable = ReadableCard(name)
    assert card(name)["about"] in str(readable)
    assert all(line.count("|") == 3 for line in readable._repr_markdown_().splitlines()[2:])
