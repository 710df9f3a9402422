"""The attention viewer shows the numbers of the reference mathematics, and follows its controls."""

from __future__ import annotations

import re

import page
import pytest
import torch
from matplotlib import pyplot
from torch import Tensor

from grader import models
from grader.circuits.attention_heads import head_output
from grader.circuits.path_importance import value_weighted_pattern
from grader.lab import attention_viewer
from grader.lab.widgets.attention_reading import habits, read_attention, strongest
from grader.lab.widgets.attention_widget import AttentionViewer
from grader.transformer import Transformer

SIZES = [
    {"n_layers": 1, "n_heads": 1, "d_model": 5, "d_head": 3, "d_vocab": 7, "n_ctx": 9},
    {"n_layers": 2, "n_heads": 3, "d_model": 12, "d_head": 4, "d_vocab": 13, "n_ctx": 10},
    {"n_layers": 3, "n_heads": 7, "d_model": 6, "d_head": 6, "d_vocab": 5, "n_ctx": 8},
]


def random(seed: int, **sizes: int) -> Transformer:
    generator = torch.Generator().manual_seed(seed)
    return Transformer.random(**sizes, generator=generator, dtype=torch.float64)


def shown(model: object, text: object = "", **more: object) -> AttentionViewer:
    made = attention_viewer(model, text, **more)  # type: ignore[arg-type]
    assert isinstance(made, AttentionViewer), made.message
    return made


@pytest.fixture(scope="module")
def shipped() -> Transformer:
    return models.load("two-layer-curriculum")


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_patterns_weights_and_what_moves_are_the_references(sizes: dict[str, int]) -> None:
    model = random(1, **sizes)
    tokens = torch.randint(sizes["d_vocab"], (6,), generator=torch.Generator().manual_seed(2))
    attention = read_attention(model, tokens)
    _, cache = model.run_with_cache(tokens)
    torch.testing.assert_close(attention.pattern, cache.pattern)
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            pattern = cache.pattern[layer, head]
            weighted = value_weighted_pattern(pattern, cache.v[layer, head])
            torch.testing.assert_close(attention.weighted[layer, head], weighted)
            wrote = head_output(
                cache.stream[layer], pattern, model.W_V[layer, head], model.W_O[layer, head]
            )
            logits = wrote @ model.W_U
            for dst in (0, 3, 5):
                moved = attention.moved(layer, head, dst)
                assert moved.shape == (dst + 1, model.d_vocab)
                expected = logits[dst] - logits[dst].mean()
                torch.testing.assert_close(moved.sum(dim=0), expected)


def test_habits_are_mean_attention() -> None:
    pattern = torch.tensor([[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.2, 0.5, 0.3]])
    found = habits(pattern)
    assert found["the token before"] == pytest.approx((0.3 + 0.5) / 2)
    assert found["itself"] == pytest.approx((0.7 + 0.3) / 2)
    assert found["the first token"] == pytest.approx((0.3 + 0.2) / 2)
    assert [i for i, _ in strongest(torch.tensor([1.0, 2.0, 2.0]), 2)] == [1, 2]


def cells(pattern: Tensor) -> list[list[str]]:
    return [
        [f"{float(pattern[i, j]):.2f}" if j <= i else "" for j in range(len(pattern))]
        for i in range(len(pattern))
    ]


def test_the_page_shows_the_pattern_and_follows_head_token_and_text(shipped: Transformer) -> None:
    view = shown(shipped, "def get(self, name):", head=(1, 1))
    view.numbers.value = True
    tokens = shipped.tokenizer.encode("def get(self, name):")
    _, cache = shipped.run_with_cache(tokens)

    def drawn() -> list[list[str]]:
        return [row[1:] for row in page.rows(view._pattern.value)[1:]]

    assert drawn() == cells(cache.pattern[1, 1])
    view.head.value = (0, 2)
    assert drawn() == cells(cache.pattern[0, 2])
    assert page.count_class(view._heads.value, "lab-chosen") == 1
    assert "▸ 0.2" in view._heads.value
    view.token.value = 3
    strip = re.findall(r"<small>([^<]*)</small>", view._line_of_tokens.value)
    expected = [f"{float(w):.2f}" if w >= 0.005 else "" for w in cache.pattern[0, 2, 3, :4]]
    assert strip == expected + [""] * (len(tokens) - 4)
    view.numbers.value = False
    assert {cell for row in drawn() for cell in row} == {""}

    view.text.value = "import sys⏎import os"
    tokens = shipped.tokenizer.encode("import sys\nimport os")
    _, cache = shipped.run_with_cache(tokens)
    assert view.read.labels == shipped.tokenizer.token_strings(tokens)
    assert len(view.token.options) == len(tokens)
    torch.testing.assert_close(view.attention.pattern, cache.pattern)


def test_the_table_of_what_moves_holds_the_references_numbers(shipped: Transformer) -> None:
    view = shown(shipped, "a b a b a", head=(1, 2))
    view.token.value = 4
    _, cache = shipped.run_with_cache(view.read.tokens)
    pattern = cache.pattern[1, 2]
    weighted = value_weighted_pattern(pattern, cache.v[1, 2])

    def first() -> list[str]:
        return page.rows(view._moves.value)[1]

    for switch, by in ((False, pattern[4]), (True, weighted[4])):
        view.weigh.value = switch
        source = int(by.argmax())
        row = first()
        assert row[0] == f"{source}: {view.read.labels[source]}"
        assert row[1:3] == [f"{float(pattern[4, source]):.3f}", f"{float(weighted[4, source]):.3f}"]
        moved = pattern[4, source] * cache.v[1, 2, source] @ shipped.W_O[1, 2] @ shipped.W_U
        moved -= moved.mean()
        best = int(moved.argmax())
        name = shipped.tokenizer.token_strings([best])[0]
        assert row[3].startswith(f"“{name}” {float(moved[best]):+.2f}")


def test_hovering_a_token_says_where_it_looks_and_what_is_raised(shipped: Transformer) -> None:
    view = shown(shipped, "a b a b a", head=(0, 1))
    _, cache = shipped.run_with_cache(view.read.tokens)
    said = page.titles(view._line_of_tokens.value)
    raised = (cache.head_out[0, 1] @ shipped.W_U).argmax(dim=-1)
    assert len(said) == 5
    for dst, words in enumerate(said):
        source = int(cache.pattern[0, 1, dst].argmax())
        weight = float(cache.pattern[0, 1, dst, source])
        names = view.read.labels
        assert words.startswith(
            f"“{names[dst]}” at {dst} looks at “{names[source]}” at {source}: {weight:.2f}"
        )
        output = shipped.tokenizer.token_strings([int(raised[dst])])[0]
        assert f"Raises “{output}” " in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "One token can only look at itself"),
        ("", "There is no text yet"),
        ("x " * 300, "the model reads at most 256"),
    ],
)
def test_a_text_that_cannot_be_read_is_said_and_the_old_one_stays(
    shipped: Transformer, text: str, words: str
) -> None:
    view = shown(shipped, "a b c")
    before = view._pattern.value
    view.text.value = text
    assert words in view.message
    assert view._pattern.value == before
    view.text.value = "a b 漢"
    assert view.message == "The tokenizer doesn't know 漢: read as “?”."


def test_models_and_heads_that_are_not_there_are_said(shipped: Transformer) -> None:
    assert "at least 1 layer" in attention_viewer(models.load("zero-layer")).message
    assert "One token" in attention_viewer(shipped, "x").message
    assert "no head 2.0" in attention_viewer(shipped, head=(2, 0)).message


def test_a_long_text_is_drawn_in_pixels(shipped: Transformer) -> None:
    view = shown(shipped, "def f(x): return x " * 20)
    assert len(view.read.labels) > 120
    assert "<table" not in view._pattern.value
    assert "<img" in view._pattern.value
    assert page.titles(view._line_of_tokens.value) == []
    assert page.rows(view._moves.value)[1:]


def test_many_heads_and_ids_and_gradients() -> None:
    model = random(3, **SIZES[2])
    for weight in model.parameters():
        weight.requires_grad_(True)
    view = shown(model, torch.tensor([1, 2, 3, 1]))
    assert view.text.value == "1 2 3 1"
    view.head.value = (2, 6)
    assert page.count_class(view._heads.value, "lab-chosen") == 1
    assert view._heads.value.count("<figure") == 21
    assert len(view.picture().axes) == 2


def test_a_picture_and_words_are_left_where_no_kernel_runs(
    shipped: Transformer, capfd: pytest.CaptureFixture[str]
) -> None:
    view = shown(shipped, "a b a b", head=(1, 0))
    figure = view.picture()
    figure.draw_without_rendering()
    large, small = figure.axes
    assert large.get_title(loc="left") == "head 1.0: attention"
    drawn = large.images[0].get_array()
    expected = view.attention.pattern[1, 0]
    torch.testing.assert_close(torch.tensor(drawn.filled(0.0)), expected.tril())
    assert len(small.images) == 8
    assert repr(view).startswith("Attention viewer: head 1.0, “·b” at 3 looks at “")
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")
