"""The eigenvalue plane shows the numbers of the reference mathematics, and follows its controls."""

from __future__ import annotations

import re

import pytest
import torch
from matplotlib import pyplot

from grader import models
from grader.circuits.attention_heads import ov_circuit
from grader.circuits.induction_by_hand import induction_by_k_composition
from grader.circuits.induction_heads import k_composed_qk, matching_score
from grader.circuits.low_rank import real_over_absolute
from grader.circuits.one_layer import copying_score, full_ov_circuit, full_qk_circuit
from grader.lab import eigenvalue_plane
from grader.lab.widgets.spectra import RANDOM_HEADS, Spectra
from grader.lab.widgets.spectrum_picture import dots
from grader.transformer import Transformer

SIZES = [
    {"n_layers": 1, "n_heads": 1, "d_model": 5, "d_head": 3, "d_vocab": 4, "n_ctx": 6},
    {"n_layers": 2, "n_heads": 3, "d_model": 12, "d_head": 4, "d_vocab": 9, "n_ctx": 8},
    {"n_layers": 3, "n_heads": 2, "d_model": 8, "d_head": 8, "d_vocab": 20, "n_ctx": 5},
]


def random(seed: int, **sizes: int) -> Transformer:
    generator = torch.Generator().manual_seed(seed)
    return Transformer.random(**sizes, generator=generator, dtype=torch.float64)


def spectrum_of(matrix: torch.Tensor, count: int) -> torch.Tensor:
    """The count largest eigenvalues by size, of the dense matrix."""
    values = torch.linalg.eigvals(matrix)
    return values[values.abs().argsort(descending=True)][:count]


def same(found: torch.Tensor, dense: torch.Tensor) -> bool:
    """Are these the same multisets of numbers? Each has a partner in the other."""
    gaps = (found[:, None] - dense[None]).abs()
    scale = float(dense.abs().max())
    return bool((gaps.amin(0) <= 1e-6 * scale).all() and (gaps.amin(1) <= 1e-6 * scale).all())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_eigenvalues_and_scores_are_those_of_the_dense_circuits(sizes: dict[str, int]) -> None:
    model = random(1, **sizes)
    spectra = Spectra(model)
    count = min(model.d_head, model.d_vocab, model.d_model)
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            W_Q, W_K = model.W_Q[layer, head], model.W_K[layer, head]
            W_V, W_O = model.W_V[layer, head], model.W_O[layer, head]
            ov, qk = spectra.ov(layer, head), spectra.qk(layer, head)
            dense_ov = full_ov_circuit(model.W_E, W_V, W_O, model.W_U)
            assert same(ov.values, spectrum_of(dense_ov, count))
            assert same(qk.values, spectrum_of(full_qk_circuit(model.W_E, W_Q, W_K), count))
            torch.testing.assert_close(
                torch.tensor(ov.score, dtype=torch.float64),
                copying_score(model.W_E, W_V, W_O, model.W_U),
            )
            for earlier in spectra.earlier(layer):
                W_OV = ov_circuit(model.W_V[earlier], model.W_O[earlier])
                through = spectra.qk(layer, head, earlier)
                assert same(
                    through.values, spectrum_of(k_composed_qk(model.W_E, W_Q, W_K, W_OV), count)
                )
                torch.testing.assert_close(
                    torch.tensor(through.score, dtype=torch.float64),
                    matching_score(model.W_E, W_Q, W_K, W_OV),
                )


def test_random_heads_have_the_sizes_and_norms_of_the_head_and_no_order() -> None:
    model = random(2, n_layers=1, n_heads=1, d_model=24, d_head=16, d_vocab=30, n_ctx=4)
    spectrum = Spectra(model).ov(0, 0)
    assert spectrum.random.shape == spectrum.values.shape
    assert spectrum.random_scores.shape == (RANDOM_HEADS,)
    assert abs(float(spectrum.random_scores.mean())) < 0.15
    ratio = float(spectrum.random.abs().mean() / spectrum.values.abs().mean())
    assert 0.5 < ratio < 2  # this model's head is itself Gaussian
    torch.testing.assert_close(
        float(spectrum.random_scores[0]), float(real_over_absolute(spectrum.random))
    )


def test_the_circuit_written_by_hand_copies_and_looks_for_its_own_token() -> None:
    shown = eigenvalue_plane(induction_by_k_composition(8, 16))
    assert shown.head.value == (1, 0)
    assert shown.reads.value == (0, 0)
    ov, qk = shown.shown()
    assert ov.score > 0.99
    assert qk.score > 0.99
    assert "copies" in shown.message
    assert "looks for the present token" in shown.message


def test_the_page_shows_the_scores_of_a_shipped_model_and_follows_its_controls() -> None:
    model = models.load("two-layer-curriculum")
    shown = eigenvalue_plane(model, layer=1, head=0)

    def scores() -> list[str]:
        rows = re.findall(r"<tr>(<td.*?)</tr>", shown.table.value)
        return [re.findall(r"<td[^>]*>([^<]*)</td>", row)[1] for row in rows]

    def expected(layer: int, head: int) -> list[str]:
        at = layer, head
        ov = copying_score(model.W_E, model.W_V[at], model.W_O[at], model.W_U)
        if shown.reads.value is None:
            qk = Spectra(model).qk(layer, head).score
        else:
            W_OV = model.W_V[shown.reads.value] @ model.W_O[shown.reads.value]
            qk = float(matching_score(model.W_E, model.W_Q[at], model.W_K[at], W_OV))
        return [f"{float(ov):.3f}", f"{qk:.3f}"]

    assert shown.reads.value == (0, 1)  # its previous-token head
    assert scores() == expected(1, 0)
    composed = shown.planes.value
    shown.reads.value = None
    assert scores() == expected(1, 0)
    assert shown.planes.value != composed
    assert "looks away from" in shown.message
    shown.head.value = (0, 2)
    assert shown.reads.disabled
    assert scores() == expected(0, 2)
    linear = shown.planes.value
    shown.radius.value = "logarithmic"
    assert shown.planes.value != linear
    assert shown.planes.value.count("<svg role='img' aria-label='") == 4
    assert shown.planes.value.count("<title>|λ| ") == 4 * model.d_head


def test_places_keep_the_angle_and_the_logarithm_only_parts_sizes() -> None:
    spectrum = Spectra(random(3, **SIZES[1])).ov(1, 2)
    for radius in ("linear", "logarithmic"):
        own, untrained = dots(spectrum, radius)
        values = torch.cat([spectrum.values, spectrum.random])
        places = torch.tensor([complex(x, y) for x, y, _ in own + untrained])
        torch.testing.assert_close(float(places.abs().max()), 1.0)
        drawn = places.abs() > 0.05
        turned = (places * values.to(places).conj()).angle()[drawn]
        assert bool((turned.abs() < 1e-4).all())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: eigenvalue_plane(models.load("zero-layer")), "at least 1 layer; this one has 0"),
        (lambda: eigenvalue_plane(random(0, **SIZES[0]), layer=4), "There is no head 4.0"),
        (lambda: eigenvalue_plane(random(0, **SIZES[0]), head=1), "There is no head 0.1"),
        (lambda: eigenvalue_plane("two-layer"), "a str came"),
    ],
)
def test_what_cannot_be_shown_is_said(make: object, words: str) -> None:
    assert words in make().message  # type: ignore[operator]


def test_a_dead_head_is_drawn() -> None:
    model = random(4, **SIZES[1])
    shown = eigenvalue_plane(model.with_weights(W_O=torch.zeros_like(model.W_O)))
    assert "OV +0.00" in shown.message
    assert "nan" not in shown.planes.value


def test_a_picture_and_words_are_left_where_no_kernel_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    shown = eigenvalue_plane(random(5, **SIZES[1]).to(torch.float32))
    data, _ = shown._repr_mimebundle_()
    assert data["image/png"]
    assert data["text/plain"].startswith("Eigenvalue plane: Head ")
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")
