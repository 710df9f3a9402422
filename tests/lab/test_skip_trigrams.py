"""The skip-trigram explorer shows the numbers of the reference mathematics, and counts rightly."""

from __future__ import annotations

import page
import pytest
import torch
from matplotlib import pyplot
from torch import Tensor

from grader import models
from grader.circuits.one_layer import (
    full_ov_circuit,
    full_qk_circuit,
    skip_trigram_effect,
    top_skip_trigrams,
)
from grader.lab import skip_trigrams
from grader.lab.widgets.skip_trigram_rows import (
    RIGHT,
    WINDOW,
    Corpus,
    bugs,
    grid,
    head_circuits,
    sources,
)
from grader.lab.widgets.skip_trigram_widget import SkipTrigrams
from grader.transformer import Transformer

SIZES = [
    {"n_layers": 1, "n_heads": 1, "d_model": 5, "d_head": 3, "d_vocab": 7, "n_ctx": 9},
    {"n_layers": 2, "n_heads": 3, "d_model": 12, "d_head": 4, "d_vocab": 13, "n_ctx": 10},
]


def random(seed: int, **sizes: int) -> Transformer:
    generator = torch.Generator().manual_seed(seed)
    return Transformer.random(**sizes, generator=generator, dtype=torch.float64)


def dense(model: Transformer, layer: int, head: int) -> tuple[Tensor, Tensor]:
    at = layer, head
    qk = full_qk_circuit(model.W_E, model.W_Q[at], model.W_K[at])
    return qk, full_ov_circuit(model.W_E, model.W_V[at], model.W_O[at], model.W_U)


def shown(model: object, destination: object = None, **more: object) -> SkipTrigrams:
    made = skip_trigrams(model, destination, **more)  # type: ignore[arg-type]
    assert isinstance(made, SkipTrigrams), made.message
    return made


@pytest.fixture(scope="module")
def shipped() -> Transformer:
    return models.load("one-layer")


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sources_outputs_and_effects_are_the_references(sizes: dict[str, int]) -> None:
    model = random(4, **sizes)
    layer, head = model.n_layers - 1, model.n_heads - 1
    qk, ov = dense(model, layer, head)
    circuits = head_circuits(model, layer, head)
    for destination in range(model.d_vocab):
        found = sources(circuits, destination, None, n=4, outputs=3)
        ids, outputs = top_skip_trigrams(qk, ov, destination, 4, 3)
        assert [s.token for s in found] == ids.tolist()
        assert [s.outputs for s in found] == outputs.tolist()
        for s in found:
            score = float(qk[destination, s.token]) / model.d_head**0.5
            assert s.score == pytest.approx(score)
            assert s.attention == pytest.approx(1 / (1 + 2.718281828459045**-score))
            assert s.raised == pytest.approx(ov[s.token, s.outputs].tolist())
    destinations, outs = [0, 3, 5], [1, 6]
    torch.testing.assert_close(
        circuits.effect(2, destinations, outs),
        skip_trigram_effect(qk, ov, 2, destinations, outs, model.d_head),
    )


def count_by_hand(text: list[int], source: int, destination: int, output: int) -> int:
    return sum(
        text[i] == destination and text[i + 1] == output and source in text[max(0, i - WINDOW) : i]
        for i in range(len(text) - 1)
    )


def test_counts_are_those_of_the_text() -> None:
    d_vocab = 9
    tokens = torch.randint(d_vocab, (400,), generator=torch.Generator().manual_seed(5))
    # Rare tokens, so that windows without the source happen, at the start too.
    tokens[torch.rand(400, generator=torch.Generator().manual_seed(6)) < 0.9] = 0
    text = tokens.tolist()
    corpus = Corpus(tokens, d_vocab)
    for source in range(d_vocab):
        pairs, counts = corpus.pairs_of(source)
        listed = {
            tuple(pair): count for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)
        }
        for destination in range(d_vocab):
            after = corpus.outputs_of(source, destination)
            for output in range(d_vocab):
                expected = count_by_hand(text, source, destination, output)
                assert int(after[output]) == expected
                assert listed.get((destination, output), 0) == expected
    for destination in range(d_vocab):
        places = [i for i, token in enumerate(text) if token == destination]
        seen = [sum(s in text[max(0, i - WINDOW) : i] for i in places) for s in range(d_vocab)]
        assert corpus.sources_of(destination).tolist() == seen


def test_a_bug_is_forced_by_two_right_pairs_and_never_seen() -> None:
    r = RIGHT
    counts = torch.tensor([[r, 0, 0], [0, r, 1], [0, 0, 0], [1, 0, r]])
    expected = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]], dtype=torch.bool)
    torch.testing.assert_close(bugs(counts), expected)


def test_the_grid_keeps_to_pairs_that_are_right_in_the_text() -> None:
    model = random(7, **SIZES[1])
    circuits = head_circuits(model, 0, 1)
    source = 0
    raised = circuits.ov.rows(source).argsort(descending=True)[:2].tolist()
    first, second = [d for d in range(2, 13) if d not in raised][:2]
    text = ([source, first, raised[0]] + [1] * 30) * RIGHT
    text += ([source, second, raised[1]] + [1] * 30) * RIGHT
    found = grid(circuits, source, first, Corpus(torch.tensor(text), 13), rows=4, columns=5)
    assert set(found.destinations) <= {first, second, 1, *raised}
    assert found.destinations[0] == first
    row = found.destinations.index(second)
    column = found.outputs.index(raised[0])
    assert bool(found.bug[row, column])
    assert int(found.counts[row, column]) == 0
    assert int(found.counts[0, column]) == RIGHT


def test_the_page_finds_def_self_and_its_bug(shipped: Transformer) -> None:
    view = shown(shipped, "(", head=(0, 3))
    qk, ov = dense(shipped, 0, 3)
    name = shipped.tokenizer.token_id
    d, s, o = name("("), name("def"), name("self")
    corpus = models.sample_tokens().tolist()
    row = next(row for row in page.rows(view._sources.value) if row[0] == "def")
    score = float(qk[d, s]) / shipped.d_head**0.5
    assert row[1] == f"{score:.3f}"
    count = count_by_hand(corpus, s, d, o)
    assert row[4].startswith(f"self {float(ov[s, o]):+.2f} {count}×")
    assert view.source.value == s  # the source that the text uses most
    comma = view.table.destinations.index(name(","))
    column = view.table.outputs.index(o)
    assert bool(view.table.bug[comma, column])
    assert count_by_hand(corpus, s, name(","), o) == 0
    effect = float(skip_trigram_effect(qk, ov, s, [name(",")], [o], shipped.d_head))
    cells = page.rows(view._grid.value)
    assert cells[1 + comma][1 + column] == f"{effect:.1f} ✗ bug"
    assert any(
        f"def … , → self: {effect:+.2f} logits, 0 times" in t for t in page.titles(view._grid.value)
    )
    assert "def … , → self" in view.summary()


def test_controls_change_what_is_shown(shipped: Transformer) -> None:
    view = shown(shipped, "(", head=(0, 3))

    def listed() -> list[str]:
        return [row[0] for row in page.rows(view._sources.value)[1:]]

    def best(token: str, head: int, least: int) -> list[str]:
        qk, _ = dense(shipped, 0, head)
        d = view._ids[token]
        seen = Corpus(models.sample_tokens(), 2048).sources_of(d)
        order = [i for i in qk[d].argsort(descending=True).tolist() if seen[i] >= least]
        return [view.names[i] for i in order[:8]]

    assert listed() == best("(", 3, 10)
    view.least.value = 0
    assert listed() == best("(", 3, 0)
    view.least.value = 100
    view.head.value = (0, 6)
    assert listed() == best("(", 6, 100)
    view.destination.value = "·in"
    assert listed() == best("·in", 6, 100)
    before = view._grid.value
    view.source.value = view.source.options[-1][1]
    assert view._grid.value != before
    assert view.table.source == view.source.value


@pytest.mark.parametrize(
    ("typed", "words"),
    [("", "There is no text yet"), ("self.x", "“self.x” is 3 tokens, not one")],
)
def test_a_destination_that_is_not_one_token_is_said(
    shipped: Transformer, typed: str, words: str
) -> None:
    view = shown(shipped, "(")
    before = view._sources.value
    view.destination.value = typed
    assert words in view.message
    assert view._sources.value == before
    view.destination.value = " self"
    assert view.message == ""
    assert view.names[view.token] == "·self"


def test_too_rare_sources_are_said(shipped: Transformer) -> None:
    view = shown(shipped, "(")
    view.least.value = 10**6
    assert "lower “seen at least”" in view.message


def test_without_a_right_pair_nothing_is_forced() -> None:
    model = random(9, **SIZES[1])
    view = shown(model, 3, corpus=torch.arange(13), head=(0, 2))
    assert view.table.outputs == []
    assert "no pair is right, so none is forced" in view._grid.value
    assert "Bugs" not in repr(view)
    view.picture().draw_without_rendering()


def test_every_token_can_be_picked_by_its_label(shipped: Transformer) -> None:
    view = shown(shipped)
    assert {view.names[view._id(name)] for name in view.names} == set(view.names)


def test_a_model_without_text_has_no_counts() -> None:
    model = random(8, **SIZES[1])
    view = shown(model, 3, head=(1, 2))
    assert view.least.disabled
    assert all(row[3] == "–" for row in page.rows(view._sources.value)[1:])
    assert "✗" not in view._grid.value
    assert not any("×" in cell for row in page.rows(view._grid.value) for cell in row)
    own = shown(model, 3, corpus=torch.tensor([1, 3, 2, 0] * 40))
    assert int(own.corpus.outputs_of(1, 3)[2]) == 40
    view.destination.value = "12"
    assert view.token == 12
    view.destination.value = "13"
    assert "knows the tokens 0 … 12; 13 came" in view.message


def test_what_cannot_be_made_is_said(shipped: Transformer) -> None:
    assert "at least 1 layer" in skip_trigrams(models.load("zero-layer")).message
    assert "0 … 2047; 2048 came" in skip_trigrams(shipped, 2048).message
    assert "no head 1.0" in skip_trigrams(shipped, head=(1, 0)).message
    assert "A corpus is ids" in skip_trigrams(shipped, corpus=torch.tensor([4000])).message


def test_a_picture_and_words_are_left_where_no_kernel_runs(
    shipped: Transformer, capfd: pytest.CaptureFixture[str]
) -> None:
    view = shown(shipped, "(", head=(0, 3))
    figure = view.picture()
    figure.draw_without_rendering()
    left, right = figure.axes
    assert [bar.get_width() for bar in left.patches] == [s.score for s in view.found]
    written = [text.get_text() for text in right.texts]
    assert sum("✗" in text for text in written) == int(view.table.bug.sum())
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")
