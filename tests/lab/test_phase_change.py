"""The phase change, step by step: figures of the reference mathematics, controls, runs of one's own."""

from __future__ import annotations

import re

import pytest
import torch
from matplotlib import pyplot
from torch.nn import functional as F

from grader import models
from grader.circuits.induction_by_hand import induction_by_k_composition
from grader.circuits.induction_heads import (
    in_context_learning_score,
    loss_by_position,
    prefix_matching_score,
)
from grader.lab import live, phase_change
from grader.lab.widgets.moments import CODE, RANDOM, Run, measure, random_copies
from grader.lab.widgets.phase_widget import PhaseChange
from grader.models.recipes import live as recipe
from grader.transformer import Transformer

SIZES = [
    {"n_layers": 1, "n_heads": 2, "d_model": 6, "d_head": 3, "d_vocab": 3, "n_ctx": 6},
    {"n_layers": 3, "n_heads": 2, "d_model": 8, "d_head": 4, "d_vocab": 40, "n_ctx": 120},
]


def random_run(
    sizes: dict[str, int], steps: tuple[int, ...] = (7, 0, 3)
) -> list[tuple[int, Transformer]]:
    generator = torch.Generator().manual_seed(1)
    return [(step, Transformer.random(**sizes, generator=generator)) for step in steps]


@pytest.fixture(scope="module")
def shipped() -> PhaseChange:
    shown = phase_change()
    assert isinstance(shown, PhaseChange)
    return shown


def shown_numbers(shown: PhaseChange) -> list[str]:
    return re.findall(r"<td[^>]*>([^<]*)</td>", shown.figures.value)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_figures_are_those_of_the_reference_row_by_row(sizes: dict[str, int]) -> None:
    run = Run(random_run(sizes))
    assert run.steps == [0, 3, 7]
    text = run.texts[RANDOM]
    for i, (_, model) in enumerate(run.snapshots):
        losses = torch.stack([loss_by_position(model(row), row) for row in text.tokens]).mean(dim=0)
        found = run.losses(RANDOM)[i]
        assert found.copied == pytest.approx(float(losses[text.period :].mean()), abs=1e-5)
        size = -(-len(losses) // 15)
        bins = torch.stack([b.mean() for b in losses.split(size) if len(b) == size])
        torch.testing.assert_close(found.stretches, bins)
        score = in_context_learning_score(bins, 1, len(bins) - 1)
        assert found.in_context == pytest.approx(float(score), abs=1e-5)
        for layer in range(model.n_layers):
            for head in range(model.n_heads):
                scores = [
                    prefix_matching_score(
                        model.run_with_cache(row)[1].pattern[layer, head], text.period
                    )
                    for row in text.tokens
                ]
                torch.testing.assert_close(
                    run.matching[i, layer, head], torch.stack(scores).mean(dim=0)
                )


def test_a_model_that_does_induction_is_seen_to() -> None:
    model = induction_by_k_composition(12, 48)
    text = random_copies(model)
    losses = measure(model, text)
    assert losses.copied < 0.1
    assert losses.in_context < -1
    run = Run([(0, model)])
    assert float(run.matching[0, 1, 0]) > 0.99
    assert float(run.matching[0, 0, 0]) < 0.1


def test_the_shipped_run_changes_suddenly_between_steps_275_and_350(shipped: PhaseChange) -> None:
    losses = dict(zip(shipped.run.steps, shipped.run.losses(RANDOM), strict=True))
    assert losses[275].copied > 7
    assert losses[350].copied < 1
    best = dict(zip(shipped.run.steps, shipped.run.matching.amax(dim=(1, 2)).tolist(), strict=True))
    assert best[275] < 0.2 < 0.7 < best[350]
    assert shipped.head.value == divmod(int(shipped.run.matching[-1].argmax()), 4)


def test_the_page_follows_the_step_the_head_and_the_text(shipped: PhaseChange) -> None:
    shipped.step.value, shipped.head.value, shipped.on.value = 3, (1, 2), RANDOM
    losses = shipped.run.losses(RANDOM)[3]
    matching = float(shipped.run.matching[3, 1, 2])
    wanted = ["250", f"{losses.copied:.3f}", f"{losses.in_context:z.3f}", f"{matching:.3f}"]
    assert shown_numbers(shipped) == wanted
    assert shipped.message.startswith(f"Step 250, {RANDOM}: loss {losses.copied:.2f}")
    before = shipped.curves.value, shipped.pattern.value
    shipped.head.value = (0, 1)
    assert shown_numbers(shipped)[3] == f"{float(shipped.run.matching[3, 0, 1]):.3f}"
    assert shipped.pattern.value != before[1]
    shipped.on.value = CODE
    assert shown_numbers(shipped)[1] == f"{shipped.run.losses(CODE)[3].copied:.3f}"
    assert shipped.curves.value.count("<svg role='img' aria-label='") == 3
    shipped.on.value = RANDOM


def test_the_pattern_is_the_heads_on_the_text_typed(shipped: PhaseChange) -> None:
    shipped.step.value, shipped.head.value = len(shipped.run.steps) - 1, (1, 0)
    shipped.text.value = "Mr Zor met Mrs Quelch. Mr Zor"
    model = models.load("two-layer-curriculum")
    ids = model.tokenizer.encode(shipped.text.value)
    pattern = model.run_with_cache(ids)[1].pattern[1, 0]
    found = re.findall(r"title='[^']*: (\d\.\d{3})'", shipped.pattern.value)
    rows, columns = torch.tril_indices(len(ids), len(ids))
    assert found == [f"{float(weight):.3f}" for weight in pattern[rows, columns]]
    shipped.text.value = ""
    assert found != re.findall(r"title='[^']*: (\d\.\d{3})'", shipped.pattern.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a", "One token can only look at itself"), ("word " * 300, "reads at most 256")],
)
def test_a_text_that_cannot_be_shown_leaves_the_last_one(
    shipped: PhaseChange, text: str, words: str
) -> None:
    shipped.text.value = "one two one two"
    before = shipped.pattern.value
    shipped.text.value = text
    assert words in shipped.message
    assert shipped.pattern.value == before
    assert shipped._repr_mimebundle_()[0]["image/png"]
    shipped.text.value = ""


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("two-layers", "There are no checkpoints of 'two-layers'"),
        ([], "as models.checkpoints() gives it; none came"),
        ([3], "in it a int came"),
        (5, "a int came"),
        ([("0", None)], "in it a tuple came"),
        ([(0, models.load("zero-layer"))], "have no layers"),
        (random_run(SIZES[0]) + random_run(SIZES[1]), "of different sizes"),
        (random_run(SIZES[0] | {"n_ctx": 5}), "need d_vocab ≥ 3 and n_ctx ≥ 6"),
    ],
)
def test_what_is_no_run_is_said(run: object, words: str) -> None:
    assert words in phase_change(run).message  # type: ignore[arg-type]


def test_any_models_run_is_shown_without_code_for_it(capfd: pytest.CaptureFixture[str]) -> None:
    shown = phase_change(random_run(SIZES[0]))
    assert list(shown.on.options) == [RANDOM]
    assert [name for name, _ in shown.step.options] == ["0", "3", "7"]
    shown.text.value = "0 2 1 0 2 1"
    assert shown.message.startswith("Step 7")
    shown.text.value = "0 7"
    assert "knows the tokens 0 … 2; 7 came" in shown.message
    data, _ = shown._repr_mimebundle_()
    assert data["image/png"]
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")


def test_live_snapshots_are_copies_with_their_prefix_matching_and_can_be_dragged_through() -> None:
    watch = live.phase(levels={"floor": 0.0})
    _, losses = recipe.train_induction(0, 2, steps=24, progress=watch, snapshot=watch.keep)
    assert watch.losses == losses
    assert [step for step, _ in watch.snapshots] == [0, 20, 24]
    run = Run(watch.snapshots)
    torch.testing.assert_close(
        torch.tensor(watch.matching), run.matching.amax(dim=(1, 2)), check_dtype=False
    )
    figure = watch.figure(24)
    assert [place.get_ylabel() for place in figure.axes] == [
        "loss (nats per token)",
        "prefix matching",
    ]
    assert figure.axes[1].lines[0].get_ydata().tolist() == watch.matching
    assert phase_change(watch.snapshots).message.startswith("Step 24")


def test_a_snapshot_does_not_change_with_the_model() -> None:
    watch = live.phase()
    [(_, model)] = random_run(SIZES[0], (0,))
    watch.keep(0, model)
    model.W_E += 1
    kept = watch.snapshots[0][1]
    assert not torch.equal(kept.W_E, model.W_E)
    assert F.mse_loss(kept.W_E + 1, model.W_E) < 1e-12
