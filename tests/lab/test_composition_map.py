"""The composition map shows the scores and spectra of the reference mathematics."""

from __future__ import annotations

import page
import pytest
import torch
from matplotlib import pyplot
from torch import Tensor

from grader import models
from grader.circuits.attention_heads import ov_circuit
from grader.circuits.composition import composition_scores, composition_table, random_composition
from grader.circuits.induction_heads import k_composed_qk, matching_score
from grader.circuits.low_rank import real_over_absolute
from grader.lab import composition_map
from grader.lab.widgets.composition_edges import (
    Edge,
    chance,
    composed_circuit,
    edges,
    pair_spectrum,
)
from grader.lab.widgets.composition_widget import CompositionMap
from grader.transformer import Transformer

SIZES = [
    {"n_layers": 2, "n_heads": 3, "d_model": 12, "d_head": 4, "d_vocab": 9, "n_ctx": 8},
    {"n_layers": 3, "n_heads": 2, "d_model": 8, "d_head": 8, "d_vocab": 20, "n_ctx": 5},
    {"n_layers": 2, "n_heads": 1, "d_model": 5, "d_head": 3, "d_vocab": 2, "n_ctx": 6},
]


def random(seed: int, **sizes: int) -> Transformer:
    generator = torch.Generator().manual_seed(seed)
    return Transformer.random(**sizes, generator=generator, dtype=torch.float64)


def shown(model: object, **more: float) -> CompositionMap:
    made = composition_map(model, **more)  # type: ignore[arg-type]
    assert isinstance(made, CompositionMap), made.message
    return made


def dense(model: Transformer, edge: Edge) -> Tensor:
    early = ov_circuit(model.W_V[edge.early], model.W_O[edge.early])
    W_QK = model.W_Q[edge.late] @ model.W_K[edge.late].mT
    if edge.kind == "Q":
        return model.W_E @ early @ W_QK @ model.W_E.mT
    if edge.kind == "K":
        return k_composed_qk(model.W_E, model.W_Q[edge.late], model.W_K[edge.late], early)
    return model.W_E @ early @ ov_circuit(model.W_V[edge.late], model.W_O[edge.late]) @ model.W_U


@pytest.fixture(scope="module")
def shipped() -> Transformer:
    return models.load("two-layer-curriculum")


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_edges_are_the_references_scores_above_the_baseline(sizes: dict[str, int]) -> None:
    model = random(1, **sizes)
    found = edges(model)
    scores = composition_scores(model) - model.d_model**-0.5
    layers, heads = model.n_layers, model.n_heads
    assert len(found) == 3 * heads**2 * layers * (layers - 1) // 2
    assert len({(e.kind, e.early, e.late) for e in found}) == len(found)
    for edge in found:
        expected = scores[("QKV".index(edge.kind), *edge.late, *edge.early)]
        assert edge.score == pytest.approx(float(expected))
        assert edge.early[0] < edge.late[0]
    assert [e.score for e in found] == sorted((e.score for e in found), reverse=True)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_circuits_and_spectra_are_those_of_the_dense_products(sizes: dict[str, int]) -> None:
    model = random(2, **sizes)
    for edge in edges(model):
        circuit = dense(model, edge)
        torch.testing.assert_close(composed_circuit(model, edge).dense(), circuit)
        found = pair_spectrum(model, edge)
        singular = torch.linalg.svdvals(circuit)
        count = len(found.singular)
        torch.testing.assert_close(found.singular, singular[:count])
        assert bool((singular[count:] <= 1e-9 * singular[0]).all())
        values = torch.linalg.eigvals(circuit)
        expected = float(real_over_absolute(values))
        assert found.score == pytest.approx(expected, abs=1e-6)
        assert complex(found.eigenvalues.sum()) == pytest.approx(complex(values.sum()), abs=1e-6)
        shares, places = found.shares()
        assert shares[0] == pytest.approx(1)
        assert max(abs(z) for z in places) == pytest.approx(1)


def test_chance_is_the_spread_of_untrained_heads() -> None:
    model = random(3, **SIZES[0])
    _, error = random_composition(12, 4, 2000, seed=5)
    assert chance(model) == pytest.approx(error * 2000**0.5, rel=0.2)


def table(view: CompositionMap) -> list[list[str]]:
    return page.rows(view._table.value)[1:]


def test_the_page_shows_what_is_above_the_threshold(shipped: Transformer) -> None:
    view = shown(shipped)
    reference = composition_table(shipped)  # (kind, head of layer 1, head of layer 0)
    for least in (0.02, 0.05, 0.08):
        view.threshold.value = least
        expected = [
            ("QKV"[kind], f"0.{early}", f"1.{late}", f"{float(reference[kind, late, early]):.3f}")
            for kind, late, early in (reference >= view.threshold.value).nonzero().tolist()
        ]
        expected.sort(key=lambda row: -float(row[3]))
        assert sorted(table(view)) == sorted(map(list, expected[:12]))
        assert f"{len(expected)} of 48 readings" in view.message
        assert len(page.titles(view._map.value)) == 0  # of SVG: elements, not attributes
        assert view._map.value.count(" above chance</title>") == len(expected)


def test_a_kind_can_be_left_out(shipped: Transformer) -> None:
    view = shown(shipped, threshold=0.02)
    assert {row[0] for row in table(view)} == {"Q", "K"}
    view.kinds["K"].value = False
    assert {row[0] for row in table(view)} == {"Q"}
    assert "<title>K " not in view._map.value
    view.kinds["Q"].value = False
    view.kinds["V"].value = False
    assert table(view) == []
    assert "0 of 48 readings" in view.message
    assert view._spectrum.value


def spectrum_row(view: CompositionMap) -> list[str]:
    return page.rows(view._spectrum.value)[1]


def test_a_pair_shows_the_spectrum_of_its_circuit(shipped: Transformer) -> None:
    view = shown(shipped, threshold=0.02)
    view.pair.value = ((0, 1), (1, 2))
    assert view.circuit.value == "K"  # in which it stands highest
    late, early = (1, 2), (0, 1)
    W_OV = ov_circuit(shipped.W_V[early], shipped.W_O[early])
    score = matching_score(shipped.W_E, shipped.W_Q[late], shipped.W_K[late], W_OV)
    row = spectrum_row(view)
    assert row[0] == "QK, via K, of 0.1→1.2"
    assert row[1] == f"{float(score):.3f}"
    reference = composition_table(shipped)
    assert row[4] == f"{float(reference[1, 2, 1]):.3f}"
    view.circuit.value = "V"
    # W_E · X and X · W_E have the same eigenvalues but for zeros, and the second is small.
    late_OV = ov_circuit(shipped.W_V[late], shipped.W_O[late])
    values = torch.linalg.eigvals((W_OV @ late_OV @ (shipped.W_U @ shipped.W_E)).double())
    row = spectrum_row(view)
    assert row[0] == "OV, of 0.1→1.2"
    assert float(row[1]) == pytest.approx(float(real_over_absolute(values)), abs=2e-3)
    assert float(row[2]) == pytest.approx(float(values.abs().max()), rel=1e-3)
    assert row[4] == f"{float(reference[2, 2, 1]):.3f}"
    assert view._spectrum.value.count("<title>λ = ") == shipped.d_head


def test_the_picked_pair_stays_while_it_is_in_sight(shipped: Transformer) -> None:
    view = shown(shipped, threshold=0.02)
    view.pair.value = ((0, 2), (1, 2))
    view.threshold.value = 0.05
    assert view.pair.value == ((0, 2), (1, 2))
    view.threshold.value = view.threshold.max
    assert len(view.shown) == 1
    assert view.pair.value == (view.shown[0].early, view.shown[0].late)


def test_deeper_models_and_gradients_are_read() -> None:
    model = random(4, **SIZES[1])
    for weight in model.parameters():
        weight.requires_grad_(True)
    view = shown(model, threshold=0.0)
    assert {(e.early[0], e.late[0]) for e in view.shown} == {(0, 1), (0, 2), (1, 2)}
    view.pair.value = next(pair for _, pair in view.pair.options if pair[1][0] == 2)
    assert "→2." in spectrum_row(view)[0]


def test_dead_heads_have_no_composition(capfd: pytest.CaptureFixture[str]) -> None:
    model = random(5, **SIZES[0])
    view = shown(model.with_weights(W_O=torch.zeros_like(model.W_O)))
    assert "0 of 27 readings" in view.message
    assert "nan" not in view._spectrum.value + view._map.value
    assert spectrum_row(view)[1] == "0.000"
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_made_is_said() -> None:
    assert "at least 2 layers; this one has 1" in composition_map(models.load("one-layer")).message
    assert "a str came" in composition_map("two-layer").message  # type: ignore[arg-type]


def test_a_picture_and_words_are_left_where_no_kernel_runs(
    shipped: Transformer, capfd: pytest.CaptureFixture[str]
) -> None:
    view = shown(shipped)
    figure = view.picture()
    figure.draw_without_rendering()
    drawn, singular, plane = figure.axes
    names = [text.get_text() for text in drawn.texts]
    assert f"{view.shown[0].kind} {view.shown[0].score:.3f}" in names
    assert {"0.0", "1.3"} <= set(names)
    assert len(singular.lines[0].get_xdata()) == shipped.d_head
    assert sum(len(dots.get_offsets()) for dots in plane.collections) == shipped.d_head
    assert repr(view).startswith("Composition map: ")
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")
