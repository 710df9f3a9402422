"""The path explorer shows the numbers of the reference mathematics, and its sum is the model."""

from __future__ import annotations

import math
import re

import ipywidgets as w
import page
import pytest
import torch
from matplotlib import pyplot

from grader import models
from grader.circuits.composition import two_layer_paths
from grader.circuits.one_layer import one_layer_paths
from grader.circuits.path_importance import term_importance, virtual_head_importance
from grader.circuits.zero_layer import next_token_loss
from grader.lab import path_explorer
from grader.lab.widgets.path_sums import path_name, read_paths
from grader.lab.widgets.path_widget import PathExplorer
from grader.transformer import Transformer

ONE = {"n_layers": 1, "n_heads": 3, "d_model": 6, "d_head": 2, "d_vocab": 7, "n_ctx": 9}
TWO = {"n_layers": 2, "n_heads": 2, "d_model": 12, "d_head": 4, "d_vocab": 13, "n_ctx": 10}
TOKENS = torch.tensor([3, 1, 4, 1, 5, 0, 2])


def random(seed: int, **sizes: int) -> Transformer:
    generator = torch.Generator().manual_seed(seed)
    return Transformer.random(**sizes, generator=generator, dtype=torch.float64)


def shown(model: object, text: object = "") -> PathExplorer:
    made = path_explorer(model, text)  # type: ignore[arg-type]
    assert isinstance(made, PathExplorer), made.message
    return made


@pytest.fixture(scope="module")
def shipped() -> Transformer:
    return models.load("two-layer-curriculum")


def test_the_terms_of_one_layer_are_the_references() -> None:
    model = random(1, **ONE)
    paths = read_paths(model, TOKENS)
    assert [path_name(path) for path in paths.paths] == ["direct", "0.0", "0.1", "0.2"]
    torch.testing.assert_close(paths.values @ model.W_U, one_layer_paths(TOKENS, model))
    assert paths.gap <= 1e-12


def test_the_terms_and_losses_of_two_layers_are_the_references() -> None:
    model = random(2, **TWO)
    paths = read_paths(model, TOKENS)
    direct, heads, virtual = two_layer_paths(TOKENS, model)
    at = {path: i for i, path in enumerate(paths.paths)}
    logits = paths.values @ model.W_U
    torch.testing.assert_close(logits[at[()]], direct)
    for layer in range(2):
        for head in range(2):
            torch.testing.assert_close(logits[at[((layer, head),)]], heads[layer, head])
    for late in range(2):
        for early in range(2):
            torch.testing.assert_close(logits[at[(0, early), (1, late)]], virtual[late, early])
    levels = list(paths.levels().values())
    assert levels[0] == pytest.approx(math.log(model.d_vocab))
    assert levels[1:] == pytest.approx(term_importance(TOKENS, model).tolist())
    some = torch.tensor([i % 3 != 1 for i in range(len(at))])
    expected = next_token_loss(logits[some].sum(dim=0), TOKENS)
    assert paths.loss(some) == pytest.approx(float(expected))


def test_shares_are_the_terms_less_their_mean() -> None:
    model = random(3, **TWO)
    paths = read_paths(model, TOKENS)
    logits = paths.values @ model.W_U
    centred = logits - logits.mean(dim=-1, keepdim=True)
    torch.testing.assert_close(paths.shares(2), centred[:, 2, TOKENS[3]])
    guess = int(model(TOKENS)[-1].argmax())
    assert paths.target(6) == guess
    torch.testing.assert_close(paths.shares(6), centred[:, 6, guess])


def losses(view: PathExplorer) -> dict[str, str]:
    return {row[0]: row[1] for row in page.rows(view._losses.value)[1:]}


def test_switches_move_the_loss_by_what_the_reference_says(shipped: Transformer) -> None:
    view = shown(shipped)
    tokens = view.read.tokens
    whole = float(next_token_loss(shipped(tokens), tokens))
    assert losses(view)["▸ the paths that are on"] == f"{whole:.3f}"
    importance = virtual_head_importance(tokens, shipped)
    for late, early in ((0, 3), (2, 1)):
        switch = view.switches[(0, early), (1, late)]
        switch.value = False
        rise = whole + float(importance[late, early])
        assert losses(view)["▸ the paths that are on"] == f"{rise:.3f}"
        switch.value = True
    strip = re.findall(r"<small>([^<]*)</small>", view._tokens.value)
    assert len(strip) == len(tokens)
    mean = sum(float(loss) for loss in strip[1:]) / (len(tokens) - 1)
    assert mean == pytest.approx(whole, abs=0.005)


def test_it_says_that_the_sum_is_exact_and_how_exact(shipped: Transformer) -> None:
    view = shown(shipped)
    paths = view.paths
    total = paths.values.sum(dim=0) @ shipped.W_U
    gap = float((total - shipped(view.read.tokens)).abs().max())
    assert gap <= 1e-4
    assert "All 25 paths are on: their sum is the forward pass" in view._sum.value
    assert f"{gap:.1e}" in view._sum.value
    view.switches[()].value = False
    assert "24 of 25 paths are on" in view._sum.value


def test_a_sum_that_is_not_the_model_would_be_said() -> None:
    model = random(4, **ONE)
    view = shown(model, TOKENS)
    object.__setattr__(view.paths, "logits", view.paths.logits + 0.25)
    vars(view.paths).pop("gap")
    assert "is NOT the forward pass: largest difference in any logit 2.5e-01" in view.summary()


def test_the_next_token_follows_the_paths_that_are_on(shipped: Transformer) -> None:
    view = shown(shipped, "def get(self, name):")
    direct, heads, _ = two_layer_paths(view.read.tokens, shipped)
    view._switch(lambda path: path in ((), ((1, 2),)), None)
    view.token.value = 3
    logits = (direct + heads[1, 2])[3]
    best = int(logits.argmax())
    name = shipped.tokenizer.token_strings([best])[0]
    row = page.rows(view._next.value)[1]
    assert row[0].removeprefix("▸ ") == name
    whole = shipped(view.read.tokens)[3].softmax(dim=-1)
    chance = logits.softmax(dim=-1)
    assert row[1:] == [f"{float(value):.3f}" for value in (logits[best], chance[best], whole[best])]
    target = int(view.read.tokens[4])
    marked = [row for row in page.rows(view._next.value) if row[0].startswith("▸")]
    assert marked[0][0] == "▸ " + shipped.tokenizer.token_strings([target])[0]
    assert marked[0][2] == f"{float(chance[target]):.3f}"
    shares = {row[0]: row[1:] for row in page.rows(view._shares.value)[1:]}
    expected = view.paths.shares(3)
    largest = int(expected.abs().argmax())
    path = view.paths.paths[largest]
    assert shares[path_name(path)][0] == f"{float(expected[largest]):.3f}"
    assert shares[path_name(path)][1] == ("on" if path in ((), ((1, 2),)) else "off")


def buttons(view: PathExplorer) -> dict[str, w.Button]:
    found: dict[str, w.Button] = {}
    waiting: list[w.Widget] = [view]
    while waiting:
        widget = waiting.pop()
        waiting += getattr(widget, "children", ())
        if isinstance(widget, w.Button):
            found[widget.description] = widget
    return found


def test_groups_switch_many_paths_at_once() -> None:
    model = random(5, **TWO)
    view = shown(model, TOKENS)
    terms = term_importance(TOKENS, model).tolist()
    expected = {
        "none": math.log(13), "direct only": terms[0], "no virtual heads": terms[1],
        "all": terms[2],
    }  # fmt: skip
    for name, loss in expected.items():
        buttons(view)[name].click()
        assert losses(view)["▸ the paths that are on"] == f"{loss:.3f}"
    assert "no virtual heads" not in buttons(shown(random(6, **ONE), TOKENS))


def test_another_text_keeps_the_switches(shipped: Transformer) -> None:
    view = shown(shipped, "a b c a b")
    view.switches[((0, 1),)].value = False
    view.text.value = "import os⏎import sys"
    tokens = shipped.tokenizer.encode("import os\nimport sys")
    assert view.read.tokens.tolist() == tokens.tolist()
    assert not view.switches[((0, 1),)].value
    _, heads, _ = two_layer_paths(tokens, shipped)
    expected = next_token_loss(shipped(tokens) - heads[0, 1], tokens)
    assert losses(view)["▸ the paths that are on"] == f"{float(expected):.3f}"
    whole = float(next_token_loss(shipped(tokens), tokens))
    assert losses(view)["all paths: the model"] == f"{whole:.3f}"
    before = view._losses.value
    view.text.value = "x"
    assert "One token" in view.message
    assert view._losses.value == before


def test_what_cannot_be_made_is_said(shipped: Transformer) -> None:
    assert "1 to 2 layers; this one has 0" in path_explorer(models.load("zero-layer")).message
    three = random(7, **{**TWO, "n_layers": 3})
    assert "this one has 3" in path_explorer(three).message
    many = random(8, **{**TWO, "n_heads": 14})
    assert "225 paths" in path_explorer(many).message
    assert "One token" in path_explorer(shipped, "x").message


def test_a_picture_and_words_are_left_where_no_kernel_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = random(9, **TWO)
    for weight in model.parameters():
        weight.requires_grad_(True)
    view = shown(model, TOKENS)
    view.switches[()].value = False
    figure = view.picture()
    figure.draw_without_rendering()
    left, right = figure.axes
    expected = [*view.paths.levels().values(), view.paths.loss(view.on)]
    assert [bar.get_width() for bar in left.patches] == pytest.approx(expected)
    drawn = [bar.get_width() for bar in right.patches]
    shares = view.paths.shares(int(view.token.value)).tolist()
    assert drawn == sorted(shares, key=lambda share: -abs(share))
    assert "8 of 9 paths are on" in repr(view)
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")
